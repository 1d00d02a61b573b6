//! Bounds of what is written and read, so that a file cannot make its reader take all memory.

/// Largest payload, in bytes. A line that says that its payload is larger is refused before it is
/// read.
pub const BLOB_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Largest body of an event, in bytes: an agent's whole definition fits.
pub const EVENT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Unpacked bytes of a file, at most, when nothing else is said.
pub const SESSION_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;

/// Longest header, end or seal, in bytes.
pub(crate) const SMALL_LINE_BYTES_MAX: u64 = 64 * 1024;

/// What a line holds beside its body or payload, in bytes: names, numbers, digests.
pub(crate) const LINE_FRAME_BYTES: u64 = 64 * 1024;

/// Writing a text as JSON makes at most so many bytes of each of its own; a text that would need more
/// is written in hex, which needs exactly as many.
pub(crate) const ESCAPE_FACTOR: u64 = 2;

/// The window that zstd may ask for, as a power of two: 8 MiB. A hostile frame asks for gigabytes.
pub(crate) const WINDOW_LOG_MAX: u32 = 23;

/// What a reader accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload, in bytes.
    pub blob_bytes: u64,
    /// All lines together, in bytes.
    pub total_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { blob_bytes: BLOB_BYTES_MAX, total_bytes: SESSION_BYTES_MAX }
    }
}
