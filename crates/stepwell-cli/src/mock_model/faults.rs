//! What goes wrong on purpose, and how often it did.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Steps of sessions whose faults are counted, at most. Above it all counts begin anew, which a
/// server that plays for tests does not reach.
const COUNTS_MAX: usize = 100_000;

/// One way to go wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// An HTTP status in place of an answer.
    Status {
        /// The status.
        status: u16,
        /// The `Retry-After` header, as it is.
        retry_after: Option<String>,
        /// The words of the error.
        message: String,
    },
    /// The connection breaks in the answer.
    Cut {
        /// After this many bytes of the body; half of it when not given.
        after_bytes: Option<usize>,
    },
    /// Nothing more comes, and the connection stays.
    Hang {
        /// After this many bytes of the body; with 0 not even the head comes.
        after_bytes: usize,
    },
    /// An error object in the middle of the stream.
    ErrorInStream {
        /// The code in the object.
        status: u16,
        /// The words of the error.
        message: String,
    },
    /// An event in the middle of the stream that is no JSON.
    Garbage,
}

/// A fault and for how many requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    /// `None` for all.
    pub(super) times: Option<u32>,
}

/// How often faulty steps were asked for, by session and step.
#[derive(Debug, Default)]
pub(super) struct FaultCounts {
    asked: Mutex<HashMap<(u64, u32), u32>>,
}

impl FaultCounts {
    /// The fault for the next request of `session` for `step`, one after the other.
    pub(super) fn next<'a>(
        &self,
        faults: &'a [Fault],
        session: u64,
        step: u32,
    ) -> Option<&'a FaultKind> {
        if faults.is_empty() {
            return None;
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= COUNTS_MAX {
            asked.clear();
        }
        let count = asked.entry((session, step)).or_default();
        let mut before = *count;
        *count = count.saturating_add(1);
        faults.iter().find_map(|fault| match fault.times {
            Some(times) if before >= times => {
                before -= times;
                None
            }
            Some(_) | None => Some(&fault.kind),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_one_after_the_other_and_for_each_session() {
        let garbage = Fault { kind: FaultKind::Garbage, times: Some(2) };
        let cut = Fault { kind: FaultKind::Cut { after_bytes: None }, times: Some(1) };
        let faults = [garbage.clone(), cut.clone()];
        let counts = FaultCounts::default();
        let next = |session, step| counts.next(&faults, session, step);
        assert_eq!(next(1, 1), Some(&garbage.kind));
        assert_eq!(next(1, 1), Some(&garbage.kind));
        assert_eq!(next(2, 1), Some(&garbage.kind));
        assert_eq!(next(1, 2), Some(&garbage.kind));
        assert_eq!(next(1, 1), Some(&cut.kind));
        assert_eq!(next(1, 1), None);
        assert_eq!(next(1, 1), None);
    }

    #[test]
    fn a_fault_can_last() {
        let faults = [Fault { kind: FaultKind::Garbage, times: None }];
        let counts = FaultCounts::default();
        assert!((0..100).all(|_| counts.next(&faults, 1, 1).is_some()));
    }

    #[test]
    fn counts_have_a_bound() {
        let faults = [Fault { kind: FaultKind::Garbage, times: Some(1) }];
        let counts = FaultCounts::default();
        for session in 0..=COUNTS_MAX as u64 {
            counts.next(&faults, session, 1);
        }
        assert!(counts.asked.lock().unwrap().len() <= COUNTS_MAX);
    }
}
