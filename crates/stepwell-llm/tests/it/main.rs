//! The client against recorded streams, hostile streams, and a server that does as it is told.

// Marked as test code for clippy, which does not see that all of this crate is.
#[cfg(test)]
mod answers;
#[cfg(test)]
mod bounds;
#[cfg(test)]
mod budget;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod client;
#[cfg(test)]
mod dialects;
#[cfg(test)]
mod dialects_of_servers;
#[cfg(test)]
mod embeddings;
#[cfg(test)]
mod peer;
mod replicas;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod transcripts;
