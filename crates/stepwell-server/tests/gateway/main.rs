//! The gateway over real sockets: with scripted workers that say anything, and with the real host.
#![cfg(test)]

mod breaks;
mod calls;
mod hello;
mod host;
mod lies;
mod orphans;
mod probe;
mod proxy;
mod receipts;
mod served;
mod standing;
#[path = "../troubled/mod.rs"]
mod troubled;
mod unsteady;
mod world;
