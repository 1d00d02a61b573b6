//! Takes the pieces of a file from a client into a temporary file.

use std::fs::File;
use std::io::SeekFrom;

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
}

/// Takes all pieces.
pub(super) async fn take(
    mut stream: Streaming<v1::ImportSessionRequest>,
    options: &ServerOptions,
) -> Result<Spooled, Status> {
    let failed = |error: std::io::Error| {
        let folder = options.spool.display();
        Status::unavailable(format!("nothing was imported: {folder} cannot be written: {error}"))
    };
    let folder = options.spool.clone();
    let file = super::on_thread(move || tempfile::tempfile_in(folder)).await?.map_err(failed)?;
    let mut file = tokio::fs::File::from_std(file);
    let (mut name, mut bytes, mut is_first) = (String::new(), 0_u64, true);
    while let Some(piece) = next_piece(&mut stream, options).await? {
        if is_first {
            name = checked_name(piece.name)?;
            is_first = false;
        }
        bytes = bytes.saturating_add(piece.data.len() as u64);
        if bytes > options.import_bytes_max {
            return Err(Status::resource_exhausted(format!(
                "nothing was imported: the file has more than {} bytes; start the server with a \
                 larger --import-bytes",
                options.import_bytes_max
            )));
        }
        file.write_all(&piece.data).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    file.seek(SeekFrom::Start(0)).await.map_err(failed)?;
    Ok(Spooled { file: file.into_std().await, name })
}

/// A client that sends nothing must not keep its place for ever.
async fn next_piece(
    stream: &mut Streaming<v1::ImportSessionRequest>,
    options: &ServerOptions,
) -> Result<Option<v1::ImportSessionRequest>, Status> {
    let piece = tokio::time::timeout(options.slow_reader, stream.message()).await;
    piece.unwrap_or_else(|_| {
        let seconds = options.slow_reader.as_secs();
        let text = format!("nothing was imported: nothing of the file came for {seconds} s");
        Err(Status::deadline_exceeded(text))
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
