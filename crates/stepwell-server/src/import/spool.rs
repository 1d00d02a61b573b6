//! Takes the pieces of a file from a client into a temporary file.
//!
//! Over gRPC they are messages, from a web page the body of one request.

use std::fs::File;
use std::io::SeekFrom;

use axum::body::Body;
use futures_util::StreamExt as _;
use stepwell_archive::check_front;
use stepwell_proto::v1;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};
use tonic::{Status, Streaming};

use crate::convert::NAME_BYTES_MAX;
use crate::server::ServerOptions;

/// So many first bytes decide whether it can be a file at all: more than its longest header.
const FRONT_BYTES: usize = 128 * 1024;

/// A file that was taken. It has no name on the disk, so the system removes it whatever happens.
pub(super) struct Spooled {
    pub(super) file: File,
    /// What the client calls it.
    pub(super) name: String,
    /// BLAKE3 of its bytes.
    pub(super) hash: blake3::Hash,
}

/// A file of which not all pieces came yet.
struct Spool<'a> {
    file: tokio::fs::File,
    bytes: u64,
    hasher: blake3::Hasher,
    front: Front,
    options: &'a ServerOptions,
}

/// The beginning of a file, until it is known to be one or not: foreign input may never end.
#[derive(Default)]
struct Front {
    bytes: Vec<u8>,
    /// So many of them were looked at; nothing is looked at twice for a few bytes more.
    checked: usize,
}

impl Front {
    fn push(&mut self, piece: &[u8]) -> Result<(), Status> {
        let room = FRONT_BYTES - self.bytes.len();
        self.bytes.extend(piece.iter().take(room));
        let is_full = self.bytes.len() == FRONT_BYTES;
        let is_due = self.bytes.len() >= self.checked * 2 || is_full;
        if self.bytes.is_empty() || self.checked == FRONT_BYTES || !is_due {
            return Ok(());
        }
        self.checked = self.bytes.len();
        check_front(&self.bytes).map_err(|error| super::damaged(&error))
    }
}

impl<'a> Spool<'a> {
    async fn begin(options: &'a ServerOptions) -> Result<Self, Status> {
        let folder = options.spool.clone();
        let file = super::on_thread(move || tempfile::tempfile_in(folder)).await?;
        let file = tokio::fs::File::from_std(file.map_err(|error| failed(options, &error))?);
        let (hasher, front) = (blake3::Hasher::new(), Front::default());
        Ok(Self { file, bytes: 0, hasher, front, options })
    }

    async fn push(&mut self, piece: &[u8]) -> Result<(), Status> {
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
        if self.bytes > self.options.import_bytes_max {
            return Err(Status::resource_exhausted(format!(
                "nothing was imported: the file has more than {} bytes; start the server with a \
                 larger --import-bytes",
                self.options.import_bytes_max
            )));
        }
        self.front.push(piece)?;
        self.hasher.update(piece);
        self.file.write_all(piece).await.map_err(|error| failed(self.options, &error))
    }

    async fn end(mut self, name: String) -> Result<Spooled, Status> {
        let failed = |error: std::io::Error| failed(self.options, &error);
        self.file.flush().await.map_err(failed)?;
        self.file.seek(SeekFrom::Start(0)).await.map_err(failed)?;
        Ok(Spooled { file: self.file.into_std().await, name, hash: self.hasher.finalize() })
    }
}

fn failed(options: &ServerOptions, error: &std::io::Error) -> Status {
    let folder = options.spool.display();
    Status::unavailable(format!("nothing was imported: {folder} cannot be written: {error}"))
}

/// Takes the body of a request.
pub(super) async fn take_body(
    body: Body,
    name: String,
    options: &ServerOptions,
) -> Result<Spooled, Status> {
    let name = checked_name(name)?;
    let mut spool = Spool::begin(options).await?;
    let mut pieces = body.into_data_stream();
    while let Some(piece) = in_time(pieces.next(), options).await? {
        let broken = |error| Status::cancelled(format!("the file did not come whole: {error}"));
        spool.push(&piece.map_err(broken)?).await?;
    }
    spool.end(name).await
}

/// Takes all pieces; says whether the caller trusts the file to say where keys are sent.
pub(super) async fn take(
    mut stream: Streaming<v1::ImportSessionRequest>,
    options: &ServerOptions,
) -> Result<(Spooled, bool), Status> {
    let mut spool = Spool::begin(options).await?;
    let (mut name, mut trusts_keys, mut is_first) = (String::new(), false, true);
    while let Some(piece) = in_time(stream.message(), options).await?.transpose() {
        let piece = piece?;
        if is_first {
            name = checked_name(piece.name)?;
            trusts_keys = piece.trust_keys;
            is_first = false;
        }
        spool.push(&piece.data).await?;
    }
    Ok((spool.end(name).await?, trusts_keys))
}

/// A client that sends nothing must not keep its place for ever.
async fn in_time<T>(piece: impl Future<Output = T>, options: &ServerOptions) -> Result<T, Status> {
    tokio::time::timeout(options.slow_reader, piece).await.map_err(|_| {
        let seconds = options.slow_reader.as_secs();
        let text = format!("nothing was imported: nothing of the file came for {seconds} s");
        Status::deadline_exceeded(text)
    })
}

fn checked_name(name: String) -> Result<String, Status> {
    let name = if name.is_empty() { "a file".to_owned() } else { name };
    if name.len() > NAME_BYTES_MAX {
        let text =
            format!("name: more than {NAME_BYTES_MAX} bytes: give the last part of the path");
        return Err(Status::invalid_argument(text));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_refused_by_its_first_bytes() {
        assert!(Front::default().push(b"").is_ok());
        assert!(Front::default().push(&[0; 10]).is_err());
        let mut slow = Front::default();
        assert!(slow.push(b"{\"line\":\"header\"").is_ok());
        let pieces = std::iter::repeat_n([b' '; 100], 2 * FRONT_BYTES / 100);
        let taken = pieces.take_while(|piece| slow.push(piece).is_ok()).count();
        assert!(taken * 100 <= FRONT_BYTES, "{taken} pieces of a header without an end");
    }

    #[test]
    fn what_may_become_one_is_taken_piece_by_piece() {
        let id: stepwell_core::SessionId = "01KYS8D3V0QXG6N9T7W2B4C5E6".parse().unwrap();
        let header = stepwell_archive::Header::new(id, "0.1.0", 1);
        let mut front = Front::default();
        for byte in serde_json::to_vec(&header).unwrap() {
            front.push(&[byte]).unwrap();
        }
        front.push(b"\n").unwrap();
        for _ in 0..20 {
            front.push(&[b'x'; 15_000]).unwrap();
        }
        assert_eq!(front.bytes.len(), FRONT_BYTES);
    }
}
