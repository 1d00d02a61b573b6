//! From the store to a state: snapshot, then the events after it.

use stepwell_core::codec::{attach, decode, is_whole};
use stepwell_core::event::Event;
use stepwell_core::state::STATE_VERSION;
use stepwell_core::{Seq, SessionId, SessionState, apply};
use stepwell_ports::store::read_with;
use stepwell_ports::{EventPage, Store, StoreError, StoredEvent};

use crate::engine::Engine;
use crate::error::EngineError;

/// Events of one read.
const PAGE_EVENTS: usize = 1_000;

/// A state is cached when this many events came after the last cached one …
const SNAPSHOT_EVENTS_MIN: u64 = 512;

impl Engine {
    /// Shows every event of a session, whole. O(history) time, a page of memory.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::Quarantined`], [`EngineError::Store`].
    pub async fn walk(
        &self,
        session_id: SessionId,
        show: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), EngineError> {
        walk(&*self.inner.ports.store, session_id, show).await
    }
}

/// Folds everything that the store has of a session.
pub(crate) async fn load(
    store: &dyn Store,
    session_id: SessionId,
) -> Result<SessionState, EngineError> {
    let mut state = SessionState::default();
    if let Some((_, bytes)) = store.snapshot(session_id, STATE_VERSION).await?
        && let Ok(cached) = serde_json::from_slice::<SessionState>(&bytes)
    {
        state = cached;
    }
    let folded = fold_first(store, session_id, &mut state).await;
    let loaded = match folded {
        Ok(head) if head == state.head => Ok(()),
        Ok(_) => refresh(store, session_id, &mut state).await,
        Err(error) => Err(error),
    };
    match loaded {
        // Deleted while it was read, so that a payload or an event was missed.
        Err(EngineError::Quarantined { .. }) if store.session(session_id).await?.is_none() => {
            return Err(EngineError::NotFound { session_id });
        }
        refreshed => refreshed?,
    }
    if state.origin.is_none() {
        return Err(EngineError::NotFound { session_id });
    }
    Ok(state)
}

/// Folds the first page on the thread that reads it: after a restart many sessions are loaded at once,
/// beside those that run already. Gives the head that the store has.
async fn fold_first(
    store: &dyn Store,
    session_id: SessionId,
    state: &mut SessionState,
) -> Result<Seq, EngineError> {
    let mut folded = std::mem::take(state);
    let after = folded.head;
    let fold = move |page: EventPage| {
        let Decoded { events, head, .. } = decode_page(page);
        for event in &events {
            if let Err(error) = apply(&mut folded, event) {
                let reason = error.to_string();
                return Err(EngineError::Quarantined { session_id, reason });
            }
        }
        // The next decision would do it first.
        folded.prompt.catch_up();
        Ok((folded, head))
    };
    let (folded, head) = read_for(store, session_id, (after, PAGE_EVENTS), fold).await??;
    *state = folded;
    Ok(head)
}

/// Reads a page and does something with it where it was read.
async fn read_for<T: Send + 'static>(
    store: &dyn Store,
    session_id: SessionId,
    part: (Seq, usize),
    work: impl FnOnce(EventPage) -> T + Send + 'static,
) -> Result<T, EngineError> {
    match read_with(store, session_id, part, work).await {
        Err(StoreError::Corrupt { place, reason }) => {
            let reason = format!("{place}: {reason}");
            Err(EngineError::Quarantined { session_id, reason })
        }
        read => Ok(read?),
    }
}

/// A page of events that were decoded as far as they are whole.
struct Decoded {
    events: Vec<Event>,
    /// From the first one on that has payloads beside it, or cannot be decoded.
    rest: Vec<StoredEvent>,
    head: Seq,
}

fn decode_page(page: EventPage) -> Decoded {
    let EventPage { events: stored, head } = page;
    let mut events = Vec::with_capacity(stored.len());
    let mut stored = stored.into_iter();
    let mut rest = Vec::new();
    for next in stored.by_ref() {
        let Some(event) = whole(&next) else {
            rest.push(next);
            break;
        };
        events.push(event);
    }
    rest.extend(stored);
    Decoded { events, rest, head }
}

/// An event that needs nothing but what is stored with it.
fn whole(stored: &StoredEvent) -> Option<Event> {
    let mut body = decode(&stored.kind, stored.schema, &stored.body).ok()?;
    if !is_whole(&mut body) {
        return None;
    }
    let actor = stored.actor.parse().ok()?;
    Some(Event { seq: stored.seq, time: stored.time, cause: stored.cause, actor, body })
}

/// Folds the events up to `at`, and no further.
pub(crate) async fn load_at(
    store: &dyn Store,
    session_id: SessionId,
    at: Seq,
) -> Result<SessionState, EngineError> {
    let mut state = SessionState::default();
    if let Some((seq, bytes)) = store.snapshot(session_id, STATE_VERSION).await?
        && seq <= at
        && let Ok(cached) = serde_json::from_slice::<SessionState>(&bytes)
    {
        state = cached;
    }
    refresh_to(store, session_id, &mut state, at).await?;
    if state.origin.is_none() || state.head < at {
        return Err(EngineError::NoSuchEvent { session_id, seq: at, head: state.head });
    }
    Ok(state)
}

/// Events between two outlines that are cached.
pub(crate) const CHECKPOINT_EVENTS: u64 = 512;

/// The outline of a session's state after the event `at`: everything but the texts of its prompt.
/// Cost: the events since the last cached outline. Caches the ones that it passes.
pub(crate) async fn outline_at(
    store: &dyn Store,
    session_id: SessionId,
    at: Seq,
) -> Result<SessionState, EngineError> {
    let mut state = SessionState::default();
    if let Some((_, bytes)) = store.checkpoint(session_id, at, STATE_VERSION).await?
        && let Ok(cached) = serde_json::from_slice::<SessionState>(&bytes)
    {
        state = cached;
    }
    while state.head < at {
        let next = Seq((state.head.0 / CHECKPOINT_EVENTS + 1) * CHECKPOINT_EVENTS);
        let head = state.head;
        refresh_to(store, session_id, &mut state, next.min(at)).await?;
        if state.head == head {
            break;
        }
        // Texts are not needed, and a long session has many.
        state = state.outline();
        if state.head == next {
            keep_checkpoint(store, session_id, &state).await;
        }
    }
    if state.origin.is_none() || state.head < at {
        return Err(EngineError::NoSuchEvent { session_id, seq: at, head: state.head });
    }
    Ok(state)
}

/// Caches the outline of a state.
pub(crate) async fn keep_checkpoint(
    store: &dyn Store,
    session_id: SessionId,
    state: &SessionState,
) {
    let Ok(bytes) = serde_json::to_vec(&state.outline()) else { return };
    if let Err(error) = store.put_checkpoint(session_id, state.head, STATE_VERSION, bytes).await {
        tracing::debug!(session = %session_id, %error, "no checkpoint");
    }
}

/// Shows every event of a session.
pub(crate) async fn walk(
    store: &dyn Store,
    session_id: SessionId,
    show: &mut (dyn FnMut(Event) + Send),
) -> Result<(), EngineError> {
    let mut after = Seq(0);
    loop {
        let (events, head) = page(store, session_id, after, PAGE_EVENTS).await?;
        if head == Seq(0) {
            return Err(EngineError::NotFound { session_id });
        }
        let Some(last) = events.last() else { return Ok(()) };
        after = last.seq;
        events.into_iter().for_each(&mut *show);
    }
}

/// The next events of a session, decoded, and its head.
async fn page(
    store: &dyn Store,
    session_id: SessionId,
    after: Seq,
    limit: usize,
) -> Result<(Vec<Event>, Seq), EngineError> {
    let decoded = read_for(store, session_id, (after, limit), decode_page).await?;
    let Decoded { mut events, rest, head } = decoded;
    for stored in &rest {
        events.push(restore(store, stored).await.map_err(|error| match error {
            Broken::Log(reason) => EngineError::Quarantined { session_id, reason },
            Broken::Store(error) => error.into(),
        })?);
    }
    Ok((events, head))
}

/// Folds the events that came after `state`.
pub(crate) async fn refresh(
    store: &dyn Store,
    session_id: SessionId,
    state: &mut SessionState,
) -> Result<(), EngineError> {
    refresh_to(store, session_id, state, Seq(u64::MAX)).await
}

async fn refresh_to(
    store: &dyn Store,
    session_id: SessionId,
    state: &mut SessionState,
    last: Seq,
) -> Result<(), EngineError> {
    refresh_seeing(store, session_id, state, last, &mut |_| ()).await
}

/// Folds the events up to `last` and shows the state after each.
pub(crate) async fn refresh_seeing(
    store: &dyn Store,
    session_id: SessionId,
    state: &mut SessionState,
    last: Seq,
    see: &mut (dyn FnMut(&SessionState) + Send),
) -> Result<(), EngineError> {
    loop {
        let wanted = last.0.saturating_sub(state.head.0).min(PAGE_EVENTS as u64) as usize;
        if wanted == 0 {
            return Ok(());
        }
        let (events, head) = page(store, session_id, state.head, wanted).await?;
        for event in &events {
            apply(state, event).map_err(|error| EngineError::Quarantined {
                session_id,
                reason: error.to_string(),
            })?;
            see(state);
        }
        // Heads never go back: it was deleted since the state was read.
        if state.head > head {
            return Err(EngineError::NotFound { session_id });
        }
        if state.head == head {
            return Ok(());
        }
        if events.is_empty() {
            let reason = format!("event {} is missing, the last is {head}", state.head.next());
            return Err(EngineError::Quarantined { session_id, reason });
        }
    }
}

/// Why a stored event cannot be used.
pub(crate) enum Broken {
    /// The event itself.
    Log(String),
    /// The store.
    Store(StoreError),
}

/// Decodes a stored event and puts its payloads back.
pub(crate) async fn restore(store: &dyn Store, stored: &StoredEvent) -> Result<Event, Broken> {
    let log = |reason: String| Broken::Log(format!("event {}: {reason}", stored.seq));
    let mut body = decode(&stored.kind, stored.schema, &stored.body)
        .map_err(|error| log(error.to_string()))?;
    if !is_whole(&mut body) {
        let mut addresses = Vec::new();
        attach(&mut body, &mut |address| {
            addresses.push(address.to_string());
            None
        });
        let mut payloads = Vec::new();
        for address in addresses {
            let bytes = store.blob(&address).await.map_err(|error| match error {
                // As with the events themselves: asking again would not mend it.
                StoreError::Corrupt { .. } => log(error.to_string()),
                StoreError::DiskFull { .. }
                | StoreError::ReadOnly { .. }
                | StoreError::BadPageToken { .. }
                | StoreError::Failed { .. } => Broken::Store(error),
            })?;
            let bytes = bytes.ok_or_else(|| log(format!("the payload {address} is missing")))?;
            let text = String::from_utf8(bytes)
                .map_err(|_| log(format!("the payload {address} is damaged")))?;
            payloads.push((address, text));
        }
        attach(&mut body, &mut |address| {
            payloads.iter().find(|(it, _)| it == address).map(|(_, text)| text.clone())
        });
    }
    let actor = stored.actor.parse().map_err(|error| log(format!("{error}")))?;
    Ok(Event { seq: stored.seq, time: stored.time, cause: stored.cause, actor, body })
}

/// Whether a state is worth caching: enough is new, and the caches of a session together stay within
/// a constant factor of its history.
pub(crate) fn is_worth_caching(state: &SessionState, cached_at: u64) -> bool {
    let new = state.head.0.saturating_sub(cached_at);
    new >= SNAPSHOT_EVENTS_MIN && new >= cached_at / 2
}
