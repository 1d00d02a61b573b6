//! Black-box tests: they start the real binary, kill it, and look at what it left.
#![cfg(test)]

mod against;
mod approvals;
mod archive;
mod cli;
mod crash;
mod demo;
mod disk;
mod ending;
mod fleet;
mod gate;
mod grpc;
mod models;
mod restart;
mod retention;
mod shell;
mod sse;
mod travel;
