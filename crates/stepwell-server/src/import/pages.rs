//! Reads a file on a blocking thread and hands its events on in pages.

use stepwell_archive::{End, Item};
use stepwell_core::Seq;
use stepwell_ports::{Checkpoint, ImportPage};
use tokio::sync::mpsc;
use tonic::Status;

use super::{FileReader, damaged, refused};

/// Events of a page: few enough that the store's writer is held for milliseconds.
const PAGE_EVENTS: usize = 500;

/// Bytes of a page, after which it is full.
const PAGE_BYTES: usize = 1024 * 1024;

/// Pages that wait for the store.
const PAGES_WAITING: usize = 2;

/// Where pages go.
pub(super) type Pages = mpsc::Receiver<ImportPage>;

/// Whoever wants the pages; gone when it wants no more.
pub(super) fn channel() -> (mpsc::Sender<ImportPage>, Pages) {
    mpsc::channel(PAGES_WAITING)
}

/// Reads the whole file; `see` looks at each event and gives what is to be kept beside it. Gives the end of the file, or `None` when nobody
/// takes its pages any more.
pub(super) fn read(
    reader: &mut FileReader,
    pages: &mpsc::Sender<ImportPage>,
    mut see: impl FnMut(&Item) -> Result<Option<Checkpoint>, Status>,
) -> Result<Option<End>, Status> {
    let (mut page, mut bytes) = (ImportPage::default(), 0);
    while let Some(item) = reader.next_item().map_err(|error| damaged(&error))? {
        if !item.left_out.is_empty() {
            let reason = "it is a fixture, which leaves out whole outputs: export the session \
                          without --fixture";
            return Err(refused(item.line, item.stored.seq, reason));
        }
        page.checkpoints.extend(see(&item)?);
        let seq = item.stored.seq;
        bytes += item.stored.body.len();
        bytes += item.blobs.iter().map(|(_, payload)| payload.len()).sum::<usize>();
        page.events.push(item.stored);
        page.blobs.extend(item.blobs);
        if page.events.len() >= PAGE_EVENTS || bytes >= PAGE_BYTES {
            let full = std::mem::replace(&mut page, empty_after(seq));
            bytes = 0;
            if pages.blocking_send(full).is_err() {
                return Ok(None);
            }
        }
    }
    if !page.events.is_empty() && pages.blocking_send(page).is_err() {
        return Ok(None);
    }
    Ok(reader.end().cloned())
}

fn empty_after(after: Seq) -> ImportPage {
    ImportPage { after, ..ImportPage::default() }
}
