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
        let state = outline_at(store, session_id, at).await?;
        let total = state.prompt.messages();
        let from = if from < 0 { i64::from(total).saturating_add(from) } else { from };
        let from = u32::try_from(from.max(0)).unwrap_or(u32::MAX).min(total);
        let until = total.min(from.saturating_add(limit));
        let mut messages = Vec::new();
        if from < until {
            let start = start(store, session_id, at, from).await?;
            messages = fold(store, session_id, start, at, until).await?;
            messages.drain(..messages.len().saturating_sub((until - from) as usize));
        }
        // A fork may have got another system prompt since the beginning.
        if let (0, Some(first), Some(agent)) = (from, messages.first_mut(), state.agent()) {
            first.json = system_message(agent);
        }
        Ok(MessageWindow { state, from, messages })
    }
}

/// The latest checkpoint that has no more than `from` messages.
async fn start(
    store: &dyn Store,
    session_id: SessionId,
    at: Seq,
    from: u32,
) -> Result<SessionState, EngineError> {
    let (mut fits, mut first) = (0, SessionState::default());
    let mut too_far = at.0 / CHECKPOINT_EVENTS + 1;
    // The last one is asked first: most look at the end.
    let mut probe = too_far - 1;
    while fits + 1 < too_far {
        let state = outline_at(store, session_id, Seq(probe * CHECKPOINT_EVENTS)).await?;
        if state.prompt.messages() <= from {
            (fits, first) = (probe, state);
        } else {
            too_far = probe;
        }
        probe = u64::midpoint(fits, too_far);
    }
    Ok(first)
}

/// The texts of the messages that come after `state`, up to number `until`.
async fn fold(
    store: &dyn Store,
    session_id: SessionId,
    mut state: SessionState,
    at: Seq,
    until: u32,
) -> Result<Vec<Message>, EngineError> {
    if state.head > Seq(0) {
        state.prompt = state.prompt.tail();
    }
    let begin = state.prompt.first_text();
    let mut places: Vec<Place> = Vec::new();
    while state.head < at && state.prompt.messages() < until {
        let part = at.min(Seq(state.head.0 + PART_EVENTS));
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
    let texts = state.prompt.message_texts().take((until - begin) as usize);
    Ok(texts.zip(places).map(|(text, place)| place.message(text)).collect())
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
    fn message(self, json: &str) -> Message {
        let Self { seq, step, nth } = self;
        let is_observation = json.starts_with("{\"role\":\"tool\"");
        let call_id = is_observation.then_some(CallId { step, index: nth });
        Message { json: json.to_owned(), seq, step, call_id }
    }
}
