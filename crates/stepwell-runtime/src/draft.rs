//! Letters decided one after the other, before anything of it is durable.

use std::panic::AssertUnwindSafe;

use stepwell_core::event::Event;
use stepwell_core::{
    CallId, Decision, IllegalHistory, Input, Reject, SessionId, SessionState, TimestampMs, decide,
};

use crate::error::EngineError;
use crate::mailbox::{Letter, Origin, Taken};
use crate::reserve::Reserved;

/// Letters that were decided, and what follows from all of them.
pub(crate) struct Draft {
    pub(crate) letters: Vec<Letter>,
    /// What each is to be told once the draft is durable: whether it changed something, or why it is
    /// refused. Not before, because what it is judged by is not a fact yet.
    verdicts: Vec<Result<bool, Reject>>,
    pub(crate) events: Vec<Event>,
    pub(crate) after: Box<SessionState>,
    /// Calls that start with it.
    pub(crate) reserved: Vec<Reserved>,
}

impl Draft {
    /// Nothing of it came to be.
    pub(crate) fn refuse(self, error: impl Fn() -> EngineError) {
        for letter in self.letters {
            letter.answer(Err(error()));
        }
    }

    /// It is durable: `settle` takes the new state over and gives a look at it, then everyone is told.
    pub(crate) fn commit<'a>(
        self,
        session_id: SessionId,
        settle: impl FnOnce(SessionState) -> &'a SessionState,
    ) {
        let state = settle(*self.after);
        answer(session_id, state, self.letters.into_iter().zip(self.verdicts));
    }
}

fn answer(
    session_id: SessionId,
    state: &SessionState,
    letters: impl Iterator<Item = (Letter, Result<bool, Reject>)>,
) {
    for (letter, verdict) in letters {
        let taken = verdict.map(|changed| Taken { session_id, state, changed });
        letter.answer(taken.map_err(EngineError::from));
    }
}

/// Decides all letters one after the other. When no event follows from any, all are answered at once
/// and there is no draft.
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
    let (mut verdicts, mut events) = (Vec::with_capacity(letters.len()), Vec::new());
    let mut bug = None;
    for letter in &letters {
        let verdict = match stale_start(letter) {
            Some(call_id) => Err(Reject::MayNotStart { call_id }),
            None => decide_safely(after.as_ref().unwrap_or(state), letter.input.clone(), now),
        };
        verdicts.push(verdict.map(|decision| {
            let changed = !decision.events.is_empty();
            events.extend(decision.events);
            after = Some(decision.state);
            changed
        }));
        if let Some(Err(reject @ (Reject::Internal(_) | Reject::Endless))) = verdicts.last() {
            tracing::error!(session = %session_id, %reject, "a bug in the engine");
            if letter.origin.is_owed() {
                bug = Some(reject.to_string());
            }
        }
    }
    if let Some(reason) = bug {
        let unusable = || EngineError::Quarantined { session_id, reason: reason.clone() };
        for letter in letters {
            letter.answer(Err(unusable()));
        }
        return Err(reason);
    }
    match after {
        Some(after) if !events.is_empty() => Ok(Some(Draft {
            letters,
            verdicts,
            events,
            after: Box::new(after),
            reserved: Vec::new(),
        })),
        Some(_) | None => {
            answer(session_id, state, letters.into_iter().zip(verdicts));
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
pub(crate) fn decide_safely(
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
