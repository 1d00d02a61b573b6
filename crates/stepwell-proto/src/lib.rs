//! Generated gRPC types and services of `proto/stepwell/v1`. Nothing here is written by hand.

/// The only version of the API.
#[expect(missing_docs, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("stepwell.v1");
}

/// The compiled descriptors, for the reflection service.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
