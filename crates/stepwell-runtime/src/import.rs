//! Folding a history that is brought in from elsewhere, into what makes it visible.

use std::collections::BTreeMap;

use stepwell_core::codec::{self, CodecError, EVENT_SCHEMA};
use stepwell_core::event::IMPORTER;
use stepwell_core::state::STATE_VERSION;
use stepwell_core::summary::{ApprovalRow, approval_rows, session_row};
use stepwell_core::{
    Actor, ApprovalId, Event, IllegalHistory, Input, Reject, Seq, SessionId, SessionState,
    TimestampMs, apply, decide,
};
use stepwell_ports::{Checkpoint, Imported, Redaction, StoredEvent};

use crate::load::CHECKPOINT_EVENTS;

/// What the sentence of a session begins with that is only looked at.
pub const WHEN_EXPORTED: &str = "when it was exported: ";

/// A history on its way in.
pub struct ImportFold {
    session_id: SessionId,
    state: SessionState,
    approvals: BTreeMap<ApprovalId, ApprovalRow>,
    /// From here on it is a session of this place.
    is_held: bool,
}

/// Why an imported session cannot be held.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// The state machine refuses to pause it.
    #[error(transparent)]
    Reject(#[from] Reject),
    /// An event cannot be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

impl ImportFold {
    /// Before the first event.
    pub fn new(session_id: SessionId) -> Self {
        let state = SessionState::default();
        Self { session_id, state, approvals: BTreeMap::new(), is_held: false }
    }

    /// The session.
    pub fn session_id(&self) -> SessionId {
        self.session_id
    }

    /// The state so far.
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// Folds the next event. O(new bytes).
    ///
    /// # Errors
    /// [`IllegalHistory`].
    pub fn take(&mut self, event: &Event) -> Result<(), IllegalHistory> {
        let before = self.approvals_only();
        apply(&mut self.state, event)?;
        if !self.state.prompt.is_outline() {
            // Nobody asks the model here, and a long session has many texts.
            self.state.prompt = self.state.prompt.outline();
        }
        self.note_approvals(&before);
        Ok(())
    }

    /// The outline of the state, where one is kept: it spares the first look at the session most of
    /// its history.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        let seq = self.state.head;
        let is_due = seq > Seq(0) && seq.0.is_multiple_of(CHECKPOINT_EVENTS);
        let state = serde_json::to_vec(&is_due.then(|| self.state.outline())?).ok()?;
        Some(Checkpoint { seq, version: STATE_VERSION, state })
    }

    /// Holds the session unless it is over, so that it does not run by itself where it was brought to.
    /// One that was paused where it comes from is held anew: what went on in that pause does not go
    /// on here. Gives the events that say so, in their stored form.
    ///
    /// # Errors
    /// [`HoldError`].
    pub fn hold(&mut self, reason: &str, now: TimestampMs) -> Result<Vec<StoredEvent>, HoldError> {
        self.is_held = true;
        if self.state.status().is_final() {
            return Ok(Vec::new());
        }
        let by = Actor::Person(IMPORTER.to_owned());
        let before = self.approvals_only();
        let reason = match self.state.paused.as_ref().filter(|stop| !stop.by.is_import()) {
            Some(stop) => format!("{reason}; paused before by {}", stop.by),
            None => reason.to_owned(),
        };
        let decision = decide(&self.state, Input::Pause { reason, by }, now)?;
        self.state = decision.state;
        self.note_approvals(&before);
        Ok(decision.events.into_iter().map(stored).collect::<Result<_, _>>()?)
    }

    /// What makes the session visible; `None` for a history without events.
    ///
    /// It is not to be woken, not even by a timer: nobody here asked for it. The first input that a
    /// person gives it wakes it. A session that was not held is only looked at: why it is where it is
    /// was true where it comes from, when it was exported. `redaction` is what its file says of it.
    pub fn finish(self, redaction: Option<Redaction>) -> Option<Imported> {
        let mut row = session_row(self.session_id, &self.state)?;
        if !self.is_held && !row.status.is_final() {
            row.explain.insert_str(0, WHEN_EXPORTED);
        }
        let approvals = self.approvals.into_values().collect();
        Some(Imported { row, wake_at: None, approvals, redaction })
    }

    /// As much of the state as its approvals need: the whole is too large to be copied at each event.
    fn approvals_only(&self) -> SessionState {
        let mut part = SessionState::default();
        if self.state.approvals.is_empty() {
            return part;
        }
        part.approvals.clone_from(&self.state.approvals);
        for approval in part.approvals.values() {
            if let Some(call) = self.state.calls.get(&approval.call_id) {
                part.calls.insert(approval.call_id, call.clone());
            }
        }
        part
    }

    fn note_approvals(&mut self, before: &SessionState) {
        let rows = approval_rows(self.session_id, before, &self.state);
        self.approvals.extend(rows.into_iter().map(|row| (row.approval_id, row)));
    }
}

fn stored(event: Event) -> Result<StoredEvent, CodecError> {
    let Event { seq, time, cause, actor, body } = event;
    let kind = body.kind().as_str().to_owned();
    let body = codec::encode(&body)?;
    Ok(StoredEvent { seq, time, cause, actor: actor.to_string(), kind, schema: EVENT_SCHEMA, body })
}
