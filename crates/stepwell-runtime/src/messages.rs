//! A window of the messages to the model, as they stood at a past moment.

use stepwell_core::prompt::system_message;
use stepwell_core::{CallId, Seq, SessionId, SessionState};
use stepwell_ports::Store;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::load::{CHECKPOINT_EVENTS, outline_at, refresh_seeing};

/// Events that are folded before it is asked whether there are messages enough.
const PART_EVENTS: u64 = 128;

/// Some of the messages of a request.
#[derive(Debug, Clone)]
pub struct MessageWindow {
    /// The session at that moment, without the texts of its prompt.
    pub state: SessionState,
    /// Number of the first one here.
    pub from: u32,
    /// In the order of the request.
    pub messages: Vec<Message>,
}

/// A message to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The JSON that is sent.
    pub json: String,
    /// The event that put it there.
    pub seq: Seq,
    /// The step that the session was in then.
    pub step: u32,
    /// The call whose observation it is.
    pub call_id: Option<CallId>,
}

impl Engine {
    /// Up to `limit` messages of the request to the model as it stood after the event `at`, from the
    /// `from`th on; a negative `from` counts from the end. Cost: the window and some thousand events,
    /// however long the session is.
    ///
    /// # Errors
    /// As [`Engine::outline_at`].
    pub async fn messages_at(
        &self,
        session_id: SessionId,
        at: Seq,
        from: i64,
        limit: u32,
    ) -> Result<MessageWindow, EngineError> {
        let store = &*self.inner.ports.store;
        // Most look at the end of a window that is far shorter than what lies between checkpoints: one
        // fold gives the state and the texts.
        let last = Seq(at.0 / CHECKPOINT_EVENTS * CHECKPOINT_EVENTS);
        let no_such_event = |head| EngineError::NoSuchEvent { session_id, seq: at, head };
        let start = match checkpoint(store, session_id, last).await {
            // Told of the event that was asked for.
            Err(EngineError::NoSuchEvent { head, .. }) => return Err(no_such_event(head)),
            start => start?,
        };
        let end = fold(store, session_id, start, at, None).await?;
        if end.state.origin.is_none() || end.state.head < at {
            return Err(no_such_event(end.state.head));
        }
        let total = end.state.prompt.messages();
        let from = if from < 0 { i64::from(total).saturating_add(from) } else { from };
        let from = u32::try_from(from.max(0)).unwrap_or(u32::MAX).min(total);
        let until = total.min(from.saturating_add(limit));
        let mut messages = if from >= end.begin || from == until {
            end.messages(from, until)
        } else {
            let start = start_before(store, session_id, at, from).await?;
            fold(store, session_id, start, at, Some(until)).await?.messages(from, until)
        };
        // A fork may have got another system prompt since the beginning.
        let state = end.state.outline();
        if let (0, Some(first), Some(agent)) = (from, messages.first_mut(), state.agent()) {
            first.json = system_message(agent);
        }
        Ok(MessageWindow { state, from, messages })
    }
}

/// The outline after that event, or the beginning.
async fn checkpoint(
    store: &dyn Store,
    session_id: SessionId,
    at: Seq,
) -> Result<SessionState, EngineError> {
    if at == Seq(0) {
        return Ok(SessionState::default());
    }
    outline_at(store, session_id, at).await
}

/// The latest checkpoint before the last one at `at` that has no more than `from` messages.
async fn start_before(
    store: &dyn Store,
    session_id: SessionId,
    at: Seq,
    from: u32,
) -> Result<SessionState, EngineError> {
    let (mut fits, mut first) = (0, SessionState::default());
    let mut too_far = at.0 / CHECKPOINT_EVENTS;
    let mut step = 1;
    while fits + 1 < too_far {
        // Back from the end in growing steps, since most look there; then between the two.
        let is_near = fits == 0 && step < too_far;
        let probe = if is_near { too_far - step } else { u64::midpoint(fits, too_far) };
        step = step.saturating_mul(2);
        let state = outline_at(store, session_id, Seq(probe * CHECKPOINT_EVENTS)).await?;
        if state.prompt.messages() <= from {
            (fits, first) = (probe, state);
        } else {
            too_far = probe;
        }
    }
    Ok(first)
}

/// Messages that follow each other, and the session after the last of them.
struct Stretch {
    state: SessionState,
    /// Number of the first one.
    begin: u32,
    places: Vec<Place>,
}

impl Stretch {
    /// The messages from number `from` on, before number `until`.
    fn messages(&self, from: u32, until: u32) -> Vec<Message> {
        let (skipped, wanted) = (from.saturating_sub(self.begin) as usize, (until - from) as usize);
        let texts = self.state.prompt.message_texts().zip(&self.places);
        texts.skip(skipped).take(wanted).map(|(text, place)| place.message(text)).collect()
    }
}

/// Folds what came after `state`, up to the event `at`, or only until there are messages up to number
/// `until`.
async fn fold(
    store: &dyn Store,
    session_id: SessionId,
    mut state: SessionState,
    at: Seq,
    until: Option<u32>,
) -> Result<Stretch, EngineError> {
    if state.head > Seq(0) {
        state.prompt = state.prompt.tail();
    }
    let begin = state.prompt.first_text();
    let mut places: Vec<Place> = Vec::new();
    while state.head < at && until.is_none_or(|until| state.prompt.messages() < until) {
        let part = if until.is_none() { at } else { at.min(Seq(state.head.0 + PART_EVENTS)) };
        let before = state.head;
        refresh_seeing(store, session_id, &mut state, part, &mut |state| {
            let new = (state.prompt.messages() - begin) as usize - places.len();
            let place = |nth| Place { seq: state.head, step: state.step, nth };
            places.extend((1..).take(new).map(place));
        })
        .await?;
        if state.head == before {
            break;
        }
    }
    Ok(Stretch { state, begin, places })
}

/// Where a message came from.
struct Place {
    seq: Seq,
    step: u32,
    /// Which of those that came with the same event it is, from 1.
    nth: u32,
}

impl Place {
    /// All observations of a step come with one event, in the order of the calls and before all else.
    fn message(&self, json: &str) -> Message {
        let &Self { seq, step, nth } = self;
        let is_observation = json.starts_with("{\"role\":\"tool\"");
        let call_id = is_observation.then_some(CallId { step, index: nth });
        Message { json: json.to_owned(), seq, step, call_id }
    }
}
