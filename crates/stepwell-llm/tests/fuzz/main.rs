//! Random input for what reads a model's answer: the assembler of streams and the repair of arguments.
//!
//! The law of both: for any bytes there is no panic, and nothing is called that the bytes do not
//! contain. What the bytes contain is found out by other, simpler means than the tested ones.
//!
//! A plain test run tries a fixed number of inputs. `cargo xtask fuzz --seconds 60 [--seed N]` goes on
//! for a time, with another seed each run. A failure prints its seed and the input itself.

// Marked as test code for clippy, which does not see that all of this crate is.
#[cfg(test)]
mod arguments;
#[cfg(test)]
mod drive;
#[cfg(test)]
mod mutate;
#[cfg(test)]
mod stream;
