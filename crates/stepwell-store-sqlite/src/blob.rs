//! Payloads beside the events: addressed by content, compressed.

use stepwell_core::SessionId;
use stepwell_ports::memory::Prepared;
use stepwell_ports::{AppendError, StoreError};

use crate::error::About;

/// How hard zstd tries. Level 1 takes a fifth of the time of level 3 for a tenth more bytes, and a
/// large tool output is written once and seldom read.
const ZSTD_LEVEL: i32 = 1;

/// Payloads above this many bytes together are hashed and compressed on a blocking thread: more
/// would hold up the other tasks of the caller's thread for milliseconds.
const INLINE_WORK_BYTES_MAX: usize = 256 * 1024;

/// Largest payload that is read back. A larger size in the file is damage, not data.
const PAYLOAD_BYTES_MAX: usize = 1 << 30;

/// A payload in the form in which it is written.
#[derive(Debug)]
pub(crate) struct StoredBlob {
    pub(crate) address: String,
    pub(crate) bytes: usize,
    pub(crate) data: Vec<u8>,
}

/// Checks and compresses the payloads of an append.
pub(crate) async fn pack_all(
    session_id: SessionId,
    prepared: &mut Prepared,
) -> Result<Vec<StoredBlob>, AppendError> {
    pack_blobs(session_id, std::mem::take(&mut prepared.blobs)).await
}

/// Checks and compresses payloads.
pub(crate) async fn pack_blobs(
    session_id: SessionId,
    blobs: Vec<(String, Vec<u8>)>,
) -> Result<Vec<StoredBlob>, AppendError> {
    let bytes = blobs.iter().map(|(_, payload)| payload.len()).sum();
    let pack_each = move || blobs.into_iter().map(|it| pack(session_id, it)).collect();
    off_thread(bytes, About::session("append", session_id), pack_each).await?
}

/// Runs work on so many bytes here, or on a blocking thread when there are many.
pub(crate) async fn off_thread<T: Send + 'static>(
    bytes: usize,
    about: About,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    if bytes <= INLINE_WORK_BYTES_MAX {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| about.failed(&error))
}

fn pack(
    session_id: SessionId,
    (address, payload): (String, Vec<u8>),
) -> Result<StoredBlob, AppendError> {
    if address_of(&payload) != address {
        let reason = format!("{address} is not the address of its payload");
        return Err(AppendError::Malformed { session_id, reason });
    }
    let about = About::session("append", session_id);
    let data = compress(&payload).map_err(|error| about.failed(&error))?;
    Ok(StoredBlob { address, bytes: payload.len(), data })
}

/// BLAKE3 of a payload in hex.
pub(crate) fn address_of(payload: &[u8]) -> String {
    blake3::hash(payload).to_hex().to_string()
}

pub(crate) fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    zstd::bulk::compress(bytes, ZSTD_LEVEL)
}

/// Reads back what [`compress`] made of `bytes` bytes. The error says what is wrong.
pub(crate) fn decompress(data: &[u8], bytes: usize) -> Result<Vec<u8>, String> {
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(format!("a payload of {bytes} bytes cannot be"));
    }
    let payload = zstd::bulk::decompress(data, bytes).map_err(|error| error.to_string())?;
    if payload.len() == bytes {
        Ok(payload)
    } else {
        Err(format!("{} bytes where {bytes} were written", payload.len()))
    }
}
