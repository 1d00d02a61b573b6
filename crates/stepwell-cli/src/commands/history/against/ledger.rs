//! What a run has used of the record: which recording is whose turn, what was served, what was not.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use stepwell_core::CallId;
use tokio_util::sync::CancellationToken;

use super::record::Key;

/// Tool calls of a run, by where their outcome came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// From the record.
    pub(super) served: u64,
    /// From nowhere: the model was told so.
    pub(super) unrecorded: u64,
    /// From a tool that really ran.
    pub(super) live: u64,
}

/// One way for a call to come to its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Served,
    Unrecorded,
    Live,
}

/// Shared by all that answers a run.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    inner: Mutex<Inner>,
    /// Fires when the run left the record and is to end.
    pub(super) left: CancellationToken,
}

#[derive(Debug, Default)]
struct Inner {
    /// Calls of each action so far.
    seen: BTreeMap<Key, usize>,
    /// The action of each call of the step, and its number among the same ones.
    places: BTreeMap<CallId, (Key, usize)>,
    counts: Counts,
    left: Option<String>,
}

impl Ledger {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives each call of a reply its place, in the model's order: calls of a step run side by side,
    /// and which of two equal ones comes first must not depend on that.
    pub(super) fn note_reply(&self, step: u32, keys: impl Iterator<Item = Key>) {
        let inner = &mut *self.inner();
        inner.places.clear();
        for (index, key) in (1..).zip(keys) {
            let nth = take_turn(&mut inner.seen, &key);
            inner.places.insert(CallId { step, index }, (key, nth));
        }
    }

    /// The number of this call among those of the same action. One whose arguments were changed gets
    /// the next of its new action.
    pub(super) fn place(&self, call_id: CallId, key: &Key) -> usize {
        let inner = &mut *self.inner();
        match inner.places.get(&call_id) {
            Some((known, nth)) if known == key => *nth,
            Some(_) | None => {
                let nth = take_turn(&mut inner.seen, key);
                inner.places.insert(call_id, (key.clone(), nth));
                nth
            }
        }
    }

    /// Counts a call.
    pub(super) fn count(&self, origin: Origin) {
        let counts = &mut self.inner().counts;
        match origin {
            Origin::Served => counts.served += 1,
            Origin::Unrecorded => counts.unrecorded += 1,
            Origin::Live => counts.live += 1,
        }
    }

    /// The run leaves the record here, and is to end. The first place counts.
    pub(super) fn leave(&self, place: String) {
        self.inner().left.get_or_insert(place);
        self.left.cancel();
    }

    /// Where it left the record.
    pub(super) fn left_at(&self) -> Option<String> {
        self.inner().left.clone()
    }

    /// What was counted.
    pub(super) fn counts(&self) -> Counts {
        self.inner().counts
    }
}

fn take_turn(seen: &mut BTreeMap<Key, usize>, key: &Key) -> usize {
    let next = seen.entry(key.clone()).or_default();
    let nth = *next;
    *next += 1;
    nth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_calls_have_their_places_in_the_models_order() {
        let ledger = Ledger::default();
        let (a, b) = (Key::of("a", "{}"), Key::of("b", "{}"));
        let id = |step, index| CallId { step, index };
        ledger.note_reply(1, [a.clone(), b.clone(), a.clone()].into_iter());
        assert_eq!(ledger.place(id(1, 3), &a), 1);
        assert_eq!(ledger.place(id(1, 1), &a), 0);
        assert_eq!(ledger.place(id(1, 1), &a), 0);
        assert_eq!(ledger.place(id(1, 2), &b), 0);
        ledger.note_reply(2, [b.clone()].into_iter());
        // A person changed its arguments: it is now the third call of `a`.
        assert_eq!(ledger.place(id(2, 1), &a), 2);
        assert_eq!(ledger.place(id(2, 1), &a), 2);
    }

    #[test]
    fn the_first_place_outside_the_record_counts() {
        let ledger = Ledger::default();
        assert_eq!(ledger.left_at(), None);
        ledger.leave("first".into());
        ledger.leave("second".into());
        assert!(ledger.left.is_cancelled());
        assert_eq!(ledger.left_at().as_deref(), Some("first"));
    }
}
