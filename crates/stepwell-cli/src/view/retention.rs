//! What became of sessions that were to be deleted.

use serde::Serialize;
use stepwell_proto::v1;

use super::visible::brief;
use super::when::{bytes, counted};
use crate::out::{Paint, Tone};

/// As JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Deleted<'a> {
    session_id: &'a str,
    outcome: &'a str,
    reason: &'a str,
    events: u64,
    bytes: u64,
}

impl<'a> From<&'a v1::DeletedSession> for Deleted<'a> {
    fn from(it: &'a v1::DeletedSession) -> Self {
        let v1::DeletedSession { session_id, outcome, reason, events, bytes } = it;
        Self { session_id, outcome, reason, events: *events, bytes: *bytes }
    }
}

/// A line for people.
pub(crate) fn line(it: &v1::DeletedSession, paint: Paint) -> String {
    let id = paint.strong(brief(&it.session_id));
    if is_gone(it) {
        let words = brief(&it.outcome.replace('_', " "));
        return format!("{id}  {words}  {}", paint.faint(size(it.events, it.bytes)));
    }
    format!("{id}  {}", paint.tone(Tone::Attention, brief(&it.reason)))
}

/// Whether it was deleted, or would have been.
pub(crate) fn is_gone(it: &v1::DeletedSession) -> bool {
    matches!(it.outcome.as_str(), "deleted" | "would_delete")
}

/// What many of them come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Deleted, or would be.
    pub(crate) gone: usize,
    /// Left alone.
    pub(crate) kept: usize,
    events: u64,
    bytes: u64,
}

impl Sum {
    /// Counts one more.
    pub(crate) fn add(&mut self, it: &v1::DeletedSession) {
        if is_gone(it) {
            self.gone += 1;
            self.events = self.events.saturating_add(it.events);
            self.bytes = self.bytes.saturating_add(it.bytes);
        } else {
            self.kept += 1;
        }
    }

    /// In words: `3 sessions (120 events, 4.2 MB)`.
    pub(crate) fn words(&self) -> String {
        format!("{} ({})", counted(self.gone, "session"), size(self.events, self.bytes))
    }
}

fn size(events: u64, count: u64) -> String {
    let events = counted(events, "event");
    format!("{events}, {}", bytes(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(outcome: &str) -> v1::DeletedSession {
        v1::DeletedSession {
            session_id: "01J".into(),
            outcome: outcome.into(),
            reason: "why".into(),
            events: 2,
            bytes: 1_500,
        }
    }

    #[test]
    fn a_line_says_what_became_of_it() {
        for (outcome, words) in [
            ("deleted", "01J  deleted  2 events, 1.5 KB"),
            ("would_delete", "01J  would delete  2 events, 1.5 KB"),
            ("kept", "01J  why"),
            ("not_found", "01J  why"),
        ] {
            assert_eq!(line(&session(outcome), Paint::NONE), words);
        }
    }

    #[test]
    fn only_what_goes_is_summed() {
        let mut sum = Sum::default();
        for outcome in ["deleted", "would_delete", "kept", "not_found"] {
            sum.add(&session(outcome));
        }
        assert_eq!((sum.kept, sum.words().as_str()), (2, "2 sessions (4 events, 3.0 KB)"));
    }
}
