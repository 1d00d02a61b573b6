//! The gRPC API, spoken directly.

mod services;
mod sessions;
mod workers;
