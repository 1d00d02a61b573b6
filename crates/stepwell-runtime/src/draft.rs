//! Letters decided one after the other, before anything of it is durable.

use std::panic::AssertUnwindSafe;

use stepwell_core::event::Event;
use stepwell_core::summary::session_row;
use stepwell_core::{
    CallId, Decision, IllegalHistory, Input, Reject, SessionId, SessionState, TimestampMs, decide,
};

use crate::engine::Submitted;
use crate::error::EngineError;
use crate::mailbox::{Letter, Origin};

/// Letters that were decided, and what follows from all of them.
pub(crate) struct Draft {
    pub(crate) letters: Vec<Letter>,
    /// Whether each changed something.
    pub(crate) changes: Vec<bool>,
    pub(crate) events: Vec<Event>,
    pub(crate) after: Box<SessionState>,
}

impl Draft {
    /// Nothing of it came to be.
    pub(crate) fn refuse(self, error: impl Fn() -> EngineError) {
        for letter in self.letters {
            letter.answer(Err(error()));
        }
    }
}

/// Decides all letters. Those that are refused are answered at once, and all of them when no event
/// follows from any; then there is no draft.
///
/// # Errors
/// Why the session cannot go on: the engine owes it an input that its rules cannot take.
pub(crate) fn draft(
    session_id: SessionId,
    state: &SessionState,
    letters: Vec<Letter>,
    now: TimestampMs,
) -> Result<Option<Draft>, String> {
    let mut after: Option<SessionState> = None;
    let (mut decided, mut changes, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let mut bug = None;
    for letter in letters {
        let now_is = after.as_ref().unwrap_or(state);
        if let Some(call_id) = stale_start(&letter) {
            letter.answer(Err(Reject::MayNotStart { call_id }.into()));
            continue;
        }
        match decide_safely(now_is, letter.input.clone(), now) {
            Ok(decision) => {
                changes.push(!decision.events.is_empty());
                events.extend(decision.events);
                decided.push(letter);
                after = Some(decision.state);
            }
            Err(reject) => {
                if let Reject::Internal(_) | Reject::Endless = reject {
                    tracing::error!(session = %session_id, %reject, "a bug in the engine");
                    if letter.origin.is_owed() {
                        bug = Some(reject.to_string());
                    }
                }
                letter.answer(Err(reject.into()));
            }
        }
    }
    if let Some(reason) = bug {
        let unknown = || EngineError::Quarantined { session_id, reason: reason.clone() };
        decided.into_iter().for_each(|letter| letter.answer(Err(unknown())));
        return Err(reason);
    }
    match after {
        Some(after) if !events.is_empty() => {
            Ok(Some(Draft { letters: decided, changes, events, after: Box::new(after) }))
        }
        Some(_) | None => {
            let row = session_row(session_id, state);
            for letter in decided {
                let submitted = row.clone().map(|row| Submitted { row, changed: false });
                letter.answer(submitted.ok_or(EngineError::NotFound { session_id }));
            }
            Ok(None)
        }
    }
}

/// The call that an effect asks to start although it was told to stop: another effect may follow that
/// call by now.
fn stale_start(letter: &Letter) -> Option<CallId> {
    match (&letter.origin, &letter.input) {
        (Origin::Effect(cancel), Input::WorkerReserved { call_id, .. })
            if cancel.is_cancelled() =>
        {
            Some(*call_id)
        }
        (Origin::Effect(_) | Origin::Outside | Origin::Owner, _) => None,
    }
}

/// A panic in the rules is a bug that must cost one session at most.
fn decide_safely(
    state: &SessionState,
    input: Input,
    now: TimestampMs,
) -> Result<Decision, Reject> {
    let decided = std::panic::catch_unwind(AssertUnwindSafe(|| decide(state, input, now)));
    decided.unwrap_or_else(|_| {
        let (seq, reason) = (state.head.next(), "the rules panicked".to_string());
        Err(Reject::Internal(IllegalHistory { seq, kind: "input", reason }))
    })
}
