//! Brings in a session that is not here.

use stepwell_archive::{End, Item};
use stepwell_core::{Agent, Seq, TimestampMs};
use stepwell_ports::{AppendError, Import, ImportPage, Imported, Redaction, Store};
use stepwell_proto::v1;
use stepwell_runtime::import::ImportFold;
use tonic::Status;

use super::keys::{Allowed, KeyUse};
use super::pages::Pages;
use super::{FileReader, Outcome, Place, on_thread, pages, refused};
use crate::api::Api;
use crate::status;

/// A file that was read to its end and found to be right.
struct Checked {
    end: End,
    /// What was added to hold the session.
    held: ImportPage,
    /// What it asks when it goes on.
    models: Vec<v1::ModelAddress>,
    imported: Imported,
}

/// How a session is held where an engine runs.
struct Holding {
    reason: String,
    now: TimestampMs,
    allowed: Allowed,
}

pub(super) async fn run(
    api: &Api,
    reader: FileReader,
    name: &str,
    place: Place,
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
    let holding = match place {
        Place::Engine(allowed) => Some(Holding { reason, now, allowed }),
        Place::Shelf => None,
    };
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
    holding: Option<Holding>,
) -> Result<Outcome, Status> {
    let (sender, receiver) = pages::channel();
    let checking = on_thread(move || {
        let mut fold = ImportFold::new(import.session_id);
        let end = pages::read(&mut reader, &sender, |item| {
            let illegal = |error: stepwell_core::IllegalHistory| {
                refused(item.line, item.stored.seq, &format!("{error}; no release writes this"))
            };
            fold.take(&item.event).map_err(illegal)?;
            if let Some(holding) = &holding
                && let Some(found) = holding.allowed.refused(&item.event.body)
            {
                return Err(unknown_key(item, &found));
            }
            Ok(fold.checkpoint())
        })?;
        let redaction = reader.redaction();
        end.map(|end| check(fold, (end, redaction), holding)).transpose()
    });
    let (checked, stored) = tokio::join!(checking, put(store, import, receiver));
    stored?;
    let Some(Checked { end, held, models, imported }) = checked?? else {
        return Err(Status::internal("the import broke off"));
    };
    let is_held = !held.events.is_empty();
    if is_held {
        store.import_events(import, held).await.map_err(|error| failed(&error))?;
    }
    store.import_finish(import, imported).await.map_err(|error| failed(&error))?;
    let (session_id, events, head_hash) = (import.session_id, end.events, end.head);
    Ok(Outcome { session_id, is_new: true, events, head_hash, held: is_held.then_some(models) })
}

fn unknown_key(item: &Item, found: &KeyUse) -> Status {
    let Item { line, stored, .. } = item;
    Status::failed_precondition(format!(
        "nothing was imported: line {line} (event {}): the session sends {found}, which neither a \
         stored agent nor the server's settings do; if the file may choose that, import it with \
         --trust-keys",
        stored.seq
    ))
}

/// The models that a definition asks, and which key each is sent.
fn models_of(agent: &Agent) -> Vec<v1::ModelAddress> {
    let one = |name: &String, base_url: &String, key: &Option<String>| v1::ModelAddress {
        name: name.clone(),
        base_url: base_url.clone(),
        api_key_env: key.clone().unwrap_or_default(),
    };
    let model = &agent.model;
    let mut models = vec![one(&model.name, &model.base_url, &model.api_key_env)];
    models.extend(model.fallbacks.iter().map(|it| one(&it.name, &it.base_url, &it.api_key_env)));
    models
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
    holding: Option<Holding>,
) -> Result<Checked, Status> {
    let after: Seq = fold.state().head;
    let cannot = |reason: &str| Status::invalid_argument(format!("nothing was imported: {reason}"));
    let models = fold.state().agent().map(|agent| models_of(agent)).unwrap_or_default();
    let held = holding.map_or(Ok(Vec::new()), |it| fold.hold(&it.reason, it.now));
    let events = held.map_err(|error| cannot(&format!("it cannot be held: {error}")))?;
    let imported = fold.finish(redaction);
    let imported = imported.ok_or_else(|| cannot("the file holds a session without events"))?;
    let held = ImportPage { after, events, ..ImportPage::default() };
    Ok(Checked { end, held, models, imported })
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
