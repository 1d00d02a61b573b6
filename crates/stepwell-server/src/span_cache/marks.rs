//! Type and time of every event of a session.

use stepwell_core::event::{Event, EventBody, EventKind};

/// Set in a mark when a step begins with its event.
pub(crate) const STEP_BEGINS: u8 = 0x80;

const _: () = assert!(EventKind::ALL.len() < STEP_BEGINS as usize, "a mark holds every type");

/// Nine bytes an event.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Place of the type in [`EventKind::ALL`], and [`STEP_BEGINS`].
    bytes: Vec<u8>,
    times_ms: Vec<u64>,
    step: u32,
}

/// Some of the events in a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Strip {
    pub(crate) marks: Vec<u8>,
    pub(crate) first_ms: u64,
    /// For each event the time since the one before it; 0 for the first.
    pub(crate) gaps_ms: Vec<i64>,
    /// Steps that began before the first one.
    pub(crate) steps_before: u32,
}

impl Marks {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.capacity() + self.times_ms.capacity() * size_of::<u64>()
    }

    /// The next event.
    pub(super) fn push(&mut self, event: &Event) {
        let kind = event.body.kind();
        let place = EventKind::ALL.iter().position(|it| *it == kind).unwrap_or_default();
        let mut mark = u8::try_from(place).unwrap_or_default();
        // A fork may ask again in the step that its parent had begun, and so does a retry.
        if let EventBody::ModelRequested(it) = &event.body
            && it.step > self.step
        {
            self.step = it.step;
            mark |= STEP_BEGINS;
        }
        self.bytes.push(mark);
        self.times_ms.push(event.time.0);
    }

    /// Up to `limit` events after the first `after` ones. Counts the steps of the `after` first.
    pub(crate) fn strip(&self, after: usize, limit: usize) -> Strip {
        let after = after.min(self.bytes.len());
        let begins = |mark: &&u8| **mark & STEP_BEGINS != 0;
        let before = self.bytes.iter().take(after).filter(begins).count();
        let times = || self.times_ms.iter().skip(after).take(limit);
        let first_ms = times().next().copied().unwrap_or_default();
        let mut last_ms = first_ms;
        let gaps = times().map(|time| {
            let gap = i64::try_from(*time).unwrap_or(i64::MAX)
                - i64::try_from(last_ms).unwrap_or(i64::MAX);
            last_ms = *time;
            gap
        });
        Strip {
            gaps_ms: gaps.collect(),
            first_ms,
            marks: self.bytes.iter().skip(after).take(limit).copied().collect(),
            steps_before: u32::try_from(before).unwrap_or(u32::MAX),
        }
    }
}
