//! The host against a server that says what the test says.
#![cfg(test)]

mod calls;
mod connecting;
mod script;
