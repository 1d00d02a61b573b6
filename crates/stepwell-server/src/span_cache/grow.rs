//! Reading what a tree lacks.

use stepwell_core::{Event, Seq, SessionId, codec};
use stepwell_ports::store::{PAGE_ROWS_MAX, read_with};
use stepwell_ports::{EventPage, Store, StoreError, StoredEvent};
use tokio::sync::Semaphore;

use super::Tree;

/// From this part of what there is, many events are put in order at once.
const MANY_OF: usize = 8;

/// Takes every event up to `until`, or up to the first that cannot be read.
///
/// # Errors
/// The store's; what was read before is taken.
pub(super) async fn grow(
    store: &dyn Store,
    session_id: SessionId,
    tree: &mut Tree,
    until: Seq,
    long_reads: &Semaphore,
) -> Result<(), StoreError> {
    // Also what a call that was given up in between left.
    let done = read(store, session_id, tree, until, long_reads).await;
    tree.index.settle();
    done
}

async fn read(
    store: &dyn Store,
    session_id: SessionId,
    tree: &mut Tree,
    until: Seq,
    long_reads: &Semaphore,
) -> Result<(), StoreError> {
    let missing = |at: Seq| usize::try_from(until.0.saturating_sub(at.0)).unwrap_or(usize::MAX);
    let is_long = !tree.is_cut && missing(tree.at) > PAGE_ROWS_MAX;
    // Never closed, so there is always a turn.
    let _turn = if is_long { long_reads.acquire().await.ok() } else { None };
    if is_long && missing(tree.at) > tree.index.len() as usize / MANY_OF {
        tree.index.expect_many();
    }
    if tree.is_cut || tree.at >= until {
        return Ok(());
    }
    let read = |at: Seq| read_page(store, session_id, (at, missing(at).min(PAGE_ROWS_MAX)));
    let mut page = read(tree.at).await?;
    loop {
        let last = page.events.last().map(|it| it.seq).filter(|_| !page.is_cut);
        let (next, ()) = tokio::join!(read_next(&read, last, until), async { take(tree, &page) });
        match next? {
            Some(next) => page = next,
            None => return Ok(()),
        }
    }
}

/// Events that follow each other, decoded where they were read.
struct Page {
    events: Vec<Event>,
    /// What comes after them cannot be read, or is not there.
    is_cut: bool,
}

async fn read_page(
    store: &dyn Store,
    session_id: SessionId,
    part: (Seq, usize),
) -> Result<Page, StoreError> {
    let decode = |page: EventPage| {
        let mut events = Vec::with_capacity(page.events.len());
        events.extend(page.events.iter().map_while(decoded));
        let is_cut = events.is_empty() || events.len() < page.events.len();
        Page { events, is_cut }
    };
    read_with(store, session_id, part, decode).await
}

/// The page after `last`, while the one that ends with it is taken: the store reads on a thread of its
/// own. None after the last event.
async fn read_next<F: Future<Output = Result<Page, StoreError>>>(
    read: impl Fn(Seq) -> F,
    last: Option<Seq>,
    until: Seq,
) -> Result<Option<Page>, StoreError> {
    match last.filter(|last| *last < until) {
        Some(last) => read(last).await.map(Some),
        None => Ok(None),
    }
}

fn take(tree: &mut Tree, page: &Page) {
    for event in &page.events {
        tree.index.push(event);
        tree.marks.push(event);
        tree.at = event.seq;
    }
    tree.is_cut = page.is_cut;
}

fn decoded(stored: &StoredEvent) -> Option<Event> {
    Some(Event {
        seq: stored.seq,
        time: stored.time,
        cause: stored.cause,
        actor: stored.actor.parse().ok()?,
        body: codec::decode(&stored.kind, stored.schema, &stored.body).ok()?,
    })
}
