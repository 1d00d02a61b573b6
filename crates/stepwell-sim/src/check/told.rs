//! What people asked and what they were told, against what the logs say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_core::event::{ApprovalDecision, Event, EventBody};
use stepwell_core::{ApprovalId, SessionId};
use tokio::time::Instant;

use super::{Violation, broken};
use crate::fleet::Start;

/// What somebody asked for. Every request has a text of its own, by which it is found in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// A session.
    Create,
    /// A word on an approval, with this reason.
    Decide {
        /// The approval.
        approval_id: ApprovalId,
        /// The word.
        decision: ApprovalDecision,
        /// The reason.
        reason: String,
    },
    /// A message with this key.
    Message {
        /// The key.
        key: String,
    },
    /// A cancel with this reason.
    Cancel {
        /// The reason.
        reason: String,
    },
    /// A pause with this reason.
    Pause {
        /// The reason.
        reason: String,
    },
}

/// What they were told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It is done and durable.
    Done,
    /// It was so already.
    WasSo,
    /// It is refused.
    Refused,
}

/// Requests that were answered for certain.
#[derive(Debug, Clone, Default)]
pub struct ToldBook {
    entries: Arc<Mutex<Vec<Entry>>>,
}

#[derive(Debug, Clone)]
struct Entry {
    session_id: SessionId,
    asked: Asked,
    told: Told,
    at: Instant,
}

impl ToldBook {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody was told something.
    pub fn note(&self, session_id: SessionId, asked: Asked, told: Told) {
        self.entries().push(Entry { session_id, asked, told, at: Instant::now() });
    }

    /// How many were told.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether nobody was told anything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What was acknowledged is in the log once; what was refused is not.
pub(super) fn check(
    book: &ToldBook,
    logs: &BTreeMap<SessionId, &[Event]>,
) -> Result<(), Violation> {
    for Entry { session_id, asked, told, .. } in book.entries().iter() {
        let log = logs.get(session_id).copied();
        let Some(log) = log else {
            let is_lost = *told != Told::Refused;
            if is_lost {
                return Err(broken(
                    *session_id,
                    format!("{asked:?} was done, the session is gone"),
                ));
            }
            continue;
        };
        let times = log.iter().filter(|event| records(&event.body, asked)).count();
        let fits = match told {
            // Held, released and held again by two that said the same at once.
            Told::Done if matches!(asked, Asked::Pause { .. }) => times >= 1,
            Told::Done => times == 1,
            Told::Refused => times == 0,
            Told::WasSo => {
                log.iter().any(|event| says_the_same(&event.body, asked))
                    || was_answered_by_worker(log, asked)
            }
        };
        if !fits {
            return Err(broken(
                *session_id,
                format!("{asked:?} was answered {told:?} and stands in the log {times} times"),
            ));
        }
    }
    Ok(())
}

/// Nothing starts once somebody was told that their cancel is durable. (A call that was on its way to
/// the worker when the cancel was written may begin until then, and is told to stop.)
pub(super) fn check_cancels(book: &ToldBook, starts: &[Start]) -> Result<(), Violation> {
    for Entry { session_id, asked, told, at } in book.entries().iter() {
        let is_cancel = matches!(asked, Asked::Cancel { .. }) && *told != Told::Refused;
        let late = starts.iter().find(|it| it.attempt.0 == *session_id && it.at > *at);
        if let (true, Some(start)) = (is_cancel, late.filter(|it| it.by_owner)) {
            let (_, call_id, _) = start.attempt;
            return Err(broken(*session_id, format!("call {call_id} was started after a cancel")));
        }
    }
    Ok(())
}

fn records(body: &EventBody, asked: &Asked) -> bool {
    match (body, asked) {
        (EventBody::SessionCreated(_), Asked::Create) => true,
        (EventBody::ApprovalDecided(it), Asked::Decide { reason, .. }) => it.reason == *reason,
        (EventBody::MessageReceived(it), Asked::Message { key }) => {
            it.client_key.as_ref() == Some(key)
        }
        (EventBody::CancelRequested(it), Asked::Cancel { reason }) => it.reason == *reason,
        (EventBody::PauseRequested(it), Asked::Pause { reason }) => it.reason == *reason,
        _ => false,
    }
}

/// Somebody said the same before, perhaps with another reason.
fn says_the_same(body: &EventBody, asked: &Asked) -> bool {
    match (body, asked) {
        (EventBody::ApprovalDecided(it), Asked::Decide { approval_id, decision, .. }) => {
            (it.approval_id, it.decision) == (*approval_id, *decision)
        }
        (EventBody::CancelRequested(_), Asked::Cancel { .. })
        | (EventBody::PauseRequested(_), Asked::Pause { .. }) => true,
        _ => records(body, asked),
    }
}

/// The worker itself said what became of the call, before a person said the same.
fn was_answered_by_worker(log: &[Event], asked: &Asked) -> bool {
    let Asked::Decide { approval_id, .. } = asked else { return false };
    let call_id = log.iter().find_map(|event| match &event.body {
        EventBody::ApprovalRequested(it) if it.approval_id == *approval_id => Some(it.call_id),
        _ => None,
    });
    log.iter().any(|event| match &event.body {
        EventBody::ToolFinished(it) => Some(it.call_id) == call_id,
        _ => false,
    })
}
