//! A file whose session is here already: is it the same history?

use stepwell_core::{Seq, SessionId};
use stepwell_ports::{ImportPage, Store};
use tonic::Status;

use super::{FileReader, Outcome, on_thread, pages};
use crate::api::Api;
use crate::status;

/// Reads the whole file, so that a damaged one is never said to be here.
pub(super) async fn run(api: &Api, mut reader: FileReader, head: Seq) -> Result<Outcome, Status> {
    let store = &**api.engine.store();
    let session_id = reader.header().session_id;
    let (sender, mut receiver) = pages::channel();
    let reading = on_thread(move || pages::read(&mut reader, &sender, |_| Ok(None)));
    let comparing = async {
        let mut verdict = Ok(());
        while let Some(page) = receiver.recv().await {
            if verdict.is_ok() {
                verdict = compare(store, session_id, head, page).await;
            }
        }
        verdict
    };
    let (read, verdict) = tokio::join!(reading, comparing);
    let end = read??.ok_or_else(|| Status::internal("the import broke off"))?;
    verdict?;
    let (events, head_hash) = (end.events, end.head);
    Ok(Outcome { session_id, is_new: false, events, head_hash, held: None })
}

async fn compare(
    store: &dyn Store,
    session_id: SessionId,
    head: Seq,
    page: ImportPage,
) -> Result<(), Status> {
    let ImportPage { mut after, events, .. } = page;
    let mut left = events.as_slice();
    while let Some(next) = left.first() {
        let here = store.read(session_id, after, left.len()).await;
        let here = here.map_err(|error| status::store(&error))?.events;
        if here.is_empty() {
            return Err(longer(session_id, head, next.seq));
        }
        for (ours, theirs) in here.iter().zip(left) {
            if ours != theirs {
                return Err(other(session_id, theirs.seq));
            }
            after = ours.seq;
        }
        left = left.get(here.len()..).unwrap_or_default();
    }
    Ok(())
}

fn longer(session_id: SessionId, head: Seq, next: Seq) -> Status {
    Status::failed_precondition(format!(
        "nothing was imported: session {session_id} is here with {head} events and the file goes on \
         with event {next}; a session is never continued from a file: import it on another server"
    ))
}

fn other(session_id: SessionId, seq: Seq) -> Status {
    Status::failed_precondition(format!(
        "nothing was imported: session {session_id} is here with another history, from event {seq} \
         on; one of the two was changed (stepwell verify), redacted, or went on elsewhere: import \
         the file on another server to look at it"
    ))
}
