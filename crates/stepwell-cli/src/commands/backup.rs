//! `backup`: a copy of a running server's store, in a file on this machine.
//!
//! The file gets its name only when everything came, is what the server sent, and is on the disk.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde::Serialize;
use stepwell_proto::v1::backup_response::Item;
use stepwell_proto::v1::{BackupEnd, BackupRequest, BackupResponse, CopyProgress};
use tempfile::NamedTempFile;
use tonic::Streaming;

use super::Context;
use super::target::{folder_of, part_of, refuse_missing_folder};
use crate::args::BackupArgs;
use crate::client::Client;
use crate::exit::{Exit, UsageError};
use crate::progress::Spinner;
use crate::view::visible::brief;
use crate::view::when::bytes;

/// `backup`.
pub(super) async fn run(context: &Context, args: BackupArgs) -> anyhow::Result<Exit> {
    let BackupArgs { file, force } = args;
    let shown = file.display().to_string();
    check_name(&file, force)?;
    let part = part_file(&file)?;
    let client = context.client().await?;
    let receive = receive(context, &client, part);
    let (part, end) = tokio::select! {
        biased;
        // Dropping the part removes it.
        _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        received = receive => received?,
    };
    give_name(part, &file, force)?;
    if context.out.is_json {
        let BackupEnd { bytes, blake3 } = &end;
        context.out.json(&Saved { file: &shown, bytes: *bytes, blake3 })?;
    } else {
        context.out.line(&format!("{}  {}", brief(&shown), bytes(end.bytes)))?;
    }
    Ok(Exit::Ok)
}

#[derive(Debug, Serialize)]
struct Saved<'a> {
    file: &'a str,
    bytes: u64,
    blake3: &'a str,
}

/// What cannot be the name of a backup is refused before the server copies anything.
fn check_name(file: &Path, force: bool) -> anyhow::Result<()> {
    let shown = file.display();
    if file == Path::new("-") {
        let problem = "a backup is a file, not a stream: name one, for example \
                       `stepwell backup stepwell-backup.db`";
        return Err(UsageError(problem.to_owned()).into());
    }
    if file.is_dir() {
        bail!("{shown} is a folder: name a file in it");
    }
    if !force && file.exists() {
        bail!("{shown} is there already: choose another name, or replace it with --force");
    }
    refuse_missing_folder(file)
}

fn part_file(file: &Path) -> anyhow::Result<NamedTempFile> {
    part_of(file).with_context(|| format!("cannot write beside {}", file.display()))
}

async fn receive(
    context: &Context,
    client: &Client,
    mut part: NamedTempFile,
) -> anyhow::Result<(NamedTempFile, BackupEnd)> {
    let stream = client.store().backup(BackupRequest {}).await;
    let mut stream = stream.map_err(|status| client.refusal(&status))?.into_inner();
    let mut spinner = Spinner::new(context.out);
    let mut written = Written::new(part.as_file_mut());
    let end = loop {
        match next(client, &mut stream).await? {
            Item::Progress(CopyProgress { copied_bytes, total_bytes }) => {
                let (copied, total) = (bytes(copied_bytes), bytes(total_bytes));
                spinner.say(&format!("the server copies its store: {copied} of {total}"));
            }
            Item::Data(piece) => {
                written.add(&piece).context("cannot write the backup")?;
                spinner.say(&format!("{} came", bytes(written.bytes)));
            }
            Item::End(end) => break end,
        }
    };
    written.check(&end)?;
    part.as_file().sync_all().context("cannot write the backup")?;
    Ok((part, end))
}

async fn next(client: &Client, stream: &mut Streaming<BackupResponse>) -> anyhow::Result<Item> {
    let message = stream.message().await.map_err(|status| client.refusal(&status))?;
    let message = message.context("the server ended the backup before its end: try again")?;
    message.item.context("the server's answer has no item: it is another release than this command")
}

/// What came, and what it is.
struct Written<'a> {
    file: BufWriter<&'a mut File>,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<'a> Written<'a> {
    fn new(file: &'a mut File) -> Self {
        Self { file: BufWriter::new(file), hasher: blake3::Hasher::new(), bytes: 0 }
    }

    fn add(&mut self, piece: &[u8]) -> std::io::Result<()> {
        self.hasher.update(piece);
        self.bytes += piece.len() as u64;
        self.file.write_all(piece)
    }

    fn check(mut self, end: &BackupEnd) -> anyhow::Result<()> {
        self.file.flush().context("cannot write the backup")?;
        let came = (self.bytes, self.hasher.finalize().to_hex().to_string());
        ensure!(
            came == (end.bytes, end.blake3.clone()),
            "the backup came damaged ({} of {} bytes): try again",
            came.0,
            end.bytes
        );
        Ok(())
    }
}

fn give_name(part: NamedTempFile, file: &Path, force: bool) -> anyhow::Result<()> {
    let named = if force { part.persist(file) } else { part.persist_noclobber(file) };
    named.with_context(|| format!("cannot give the backup its name {}", file.display()))?;
    // The name, too, must survive a loss of power.
    let folder = folder_of(file);
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.with_context(|| format!("cannot write {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of(data: &[u8]) -> BackupEnd {
        let blake3 = blake3::hash(data).to_hex().to_string();
        BackupEnd { bytes: data.len() as u64, blake3 }
    }

    #[test]
    fn what_came_must_be_what_was_sent() {
        for (sent, came, is_good) in
            [("ab", "ab", true), ("ab", "a", false), ("ab", "ax", false), ("", "", true)]
        {
            let mut file = tempfile::tempfile().unwrap();
            let mut written = Written::new(&mut file);
            written.add(came.as_bytes()).unwrap();
            assert_eq!(written.check(&end_of(sent.as_bytes())).is_ok(), is_good, "{came:?}");
        }
    }

    #[test]
    fn stdout_and_a_folder_are_no_backup() {
        let folder = tempfile::tempdir().unwrap();
        for (file, words) in [
            (Path::new("-"), "a backup is a file"),
            (folder.path(), "is a folder"),
            (Path::new("/nowhere/b.db"), "mkdir -p /nowhere"),
        ] {
            let error = check_name(file, true).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_name_that_is_taken_is_kept_unless_forced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("b.db");
        std::fs::write(&file, "old").unwrap();
        assert!(give_name(part_file(&file).unwrap(), &file, false).is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"old");
        give_name(part_file(&file).unwrap(), &file, true).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no part is left");
    }
}
