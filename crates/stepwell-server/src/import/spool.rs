//! Takes the pieces of a file from a client into a temporary file.
//!
//! Over gRPC they are messages, from a web page the body of one request.

use std::fs::File;
use std::io::SeekFrom;

use axum::body::Body;
use futures_util::StreamExt as _;
use stepwell_proto::v1;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};
use tonic::{Status, Streaming};

use crate::convert::NAME_BYTES_MAX;
use crate::server::ServerOptions;

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
    options: &'a ServerOptions,
}

impl<'a> Spool<'a> {
    async fn begin(options: &'a ServerOptions) -> Result<Self, Status> {
        let folder = options.spool.clone();
        let file = super::on_thread(move || tempfile::tempfile_in(folder)).await?;
        let file = tokio::fs::File::from_std(file.map_err(|error| failed(options, &error))?);
        Ok(Self { file, bytes: 0, hasher: blake3::Hasher::new(), options })
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

/// Takes all pieces.
pub(super) async fn take(
    mut stream: Streaming<v1::ImportSessionRequest>,
    options: &ServerOptions,
) -> Result<Spooled, Status> {
    let mut spool = Spool::begin(options).await?;
    let (mut name, mut is_first) = (String::new(), true);
    while let Some(piece) = in_time(stream.message(), options).await?.transpose() {
        let piece = piece?;
        if is_first {
            name = checked_name(piece.name)?;
            is_first = false;
        }
        spool.push(&piece.data).await?;
    }
    spool.end(name).await
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
