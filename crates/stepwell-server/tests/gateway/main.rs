//! The gateway over real sockets: with scripted workers that say anything, and with the real host.
#![cfg(test)]

mod breaks;
mod calls;
mod hello;
mod host;
mod lies;
mod probe;
mod proxy;
mod world;
