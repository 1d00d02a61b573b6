//! What people asked and what they were told, against what the logs say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_core::event::{ApprovalDecision, Event, EventBody};
use stepwell_core::{ApprovalId, SessionId};

use super::{Violation, broken};

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
    entries: Arc<Mutex<Vec<(SessionId, Asked, Told)>>>,
}

impl ToldBook {
    fn entries(&self) -> MutexGuard<'_, Vec<(SessionId, Asked, Told)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody was told something.
    pub fn note(&self, session_id: SessionId, asked: Asked, told: Told) {
        self.entries().push((session_id, asked, told));
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
    for (session_id, asked, told) in book.entries().iter() {
        let log = logs.get(session_id).copied();
        let Some(log) = log else {
            let is_lost = *told != Told::Refused;
            if is_lost {
                return Err(broken(*session_id, format!("{asked:?} was done, the session is gone")));
            }
            continue;
        };
        let times = log.iter().filter(|event| records(&event.body, asked)).count();
        let fits = match told {
            // Held, released and held again by two that said the same at once.
            Told::Done if matches!(asked, Asked::Pause { .. }) => times >= 1,
            Told::Done => times == 1,
            Told::Refused => times == 0,
            Told::WasSo => log.iter().any(|event| says_the_same(&event.body, asked)),
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
