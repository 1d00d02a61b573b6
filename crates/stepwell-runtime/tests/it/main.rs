//! The engine in the simulated world: one table or one story a rule.

mod drain;
mod effects;
mod help;
mod inputs;
mod memory;
mod nodes;
mod restart;
mod store_trouble;
mod timers;
mod watch;
