//! Brings in a session that is not here.

use stepwell_archive::End;
use stepwell_core::{Seq, TimestampMs};
use stepwell_ports::{AppendError, Import, ImportPage, Imported, Redaction, Store};
use stepwell_runtime::import::ImportFold;
use tonic::Status;

use super::pages::Pages;
use super::{FileReader, Outcome, Unfinished, on_thread, pages, refused};
use crate::api::Api;
use crate::status;

/// A file that was read to its end and found to be right.
struct Checked {
    end: End,
    /// What was added to hold the session.
    held: ImportPage,
    imported: Imported,
}

pub(super) async fn run(
    api: &Api,
    reader: FileReader,
    name: &str,
    unfinished: Unfinished,
) -> Result<Outcome, Status> {
    let store = &**api.engine.store();
    let session_id = reader.header().session_id;
    let import = store.import_begin(session_id).await.map_err(|error| failed(&error))?;
    let mut reason = format!("imported from {name}, not to run by itself");
    if reader.header().redacted {
        reason
            .push_str("; texts were removed from it, a call may run with markers instead of them");
    }
    let now = api.engine.clock().now();
    let holding = (unfinished == Unfinished::Held).then_some((reason, now));
    let done = fill(store, import, reader, holding).await;
    if done.is_err()
        && let Err(error) = store.import_drop(import).await
    {
        tracing::warn!("what was imported of session {session_id} is dropped later: {error}");
    }
    done
}

async fn fill(
    store: &dyn Store,
    import: Import,
    mut reader: FileReader,
    holding: Option<(String, TimestampMs)>,
) -> Result<Outcome, Status> {
    let (sender, receiver) = pages::channel();
    let checking = on_thread(move || {
        let mut fold = ImportFold::new(import.session_id);
        let end = pages::read(&mut reader, &sender, |item| {
            let illegal = |error: stepwell_core::IllegalHistory| {
                refused(item.line, item.stored.seq, &format!("{error}; no release writes this"))
            };
            fold.take(&item.event).map_err(illegal)?;
            Ok(fold.checkpoint())
        })?;
        let redaction = reader.redaction();
        end.map(|end| check(fold, (end, redaction), holding)).transpose()
    });
    let (checked, stored) = tokio::join!(checking, put(store, import, receiver));
    stored?;
    let Some(Checked { end, held, imported }) = checked?? else {
        return Err(Status::internal("the import broke off"));
    };
    let is_held = !held.events.is_empty();
    if is_held {
        store.import_events(import, held).await.map_err(|error| failed(&error))?;
    }
    store.import_finish(import, imported).await.map_err(|error| failed(&error))?;
    let (session_id, events, head_hash) = (import.session_id, end.events, end.head);
    Ok(Outcome { session_id, is_new: true, events, head_hash, is_held })
}

/// Stores pages as they come. When the store fails, the reader finds nobody who takes its pages.
async fn put(store: &dyn Store, import: Import, mut pages: Pages) -> Result<(), Status> {
    while let Some(page) = pages.recv().await {
        store.import_events(import, page).await.map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn check(
    mut fold: ImportFold,
    (end, redaction): (End, Option<Redaction>),
    holding: Option<(String, TimestampMs)>,
) -> Result<Checked, Status> {
    let after: Seq = fold.state().head;
    let cannot = |reason: &str| Status::invalid_argument(format!("nothing was imported: {reason}"));
    let held = holding.map_or(Ok(Vec::new()), |(reason, now)| fold.hold(&reason, now));
    let events = held.map_err(|error| cannot(&format!("it cannot be held: {error}")))?;
    let imported = fold.finish(redaction);
    let imported = imported.ok_or_else(|| cannot("the file holds a session without events"))?;
    Ok(Checked { end, held: ImportPage { after, events, ..ImportPage::default() }, imported })
}

/// What the store said to an import.
fn failed(error: &AppendError) -> Status {
    match error {
        AppendError::Unavailable(error) => status::store(error),
        AppendError::Conflict { session_id, .. } => Status::aborted(format!(
            "nothing was imported: session {session_id} came into being meanwhile; import the file \
             again to compare it"
        )),
        AppendError::Malformed { .. } => {
            Status::invalid_argument(format!("nothing was imported: {error}"))
        }
        AppendError::Fenced { .. } | AppendError::NotFound { .. } => {
            Status::internal(format!("nothing was imported: {error}"))
        }
    }
}
