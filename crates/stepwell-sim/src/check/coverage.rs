//! Which kinds of events were seen in which phase.

use std::collections::BTreeMap;

use stepwell_core::event::{Event, EventKind};
use stepwell_core::state::Phase;
use stepwell_core::{SessionState, event::EventBody};

/// How often a kind of event came in a phase, and how often other things were seen.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    pairs: BTreeMap<(&'static str, &'static str), u64>,
    marks: BTreeMap<&'static str, u64>,
}

impl Coverage {
    /// An event came in a state.
    pub fn note(&mut self, state: &SessionState, event: &Event) {
        let pair = (phase_name(state), event.body.kind().as_str());
        *self.pairs.entry(pair).or_default() += 1;
        match &event.body {
            EventBody::ToolFinished(it) if it.late => self.mark("late result"),
            EventBody::ToolLost(it) if it.never_started => self.mark("never started"),
            EventBody::ApprovalDecided(it) => self.mark(it.decision.as_str()),
            EventBody::SessionFinished(it) => match it.limit {
                Some(limit) => self.mark(limit.as_str()),
                None => self.mark("finished without a limit"),
            },
            EventBody::ToolRefused(it) => self.mark(refusal_name(it.reason)),
            _ => {}
        }
        if state.paused.is_some() {
            self.mark("event while paused");
        }
        if state.cancelled.is_some() {
            self.mark("event while being cancelled");
        }
    }

    /// Something happened that is not an event.
    pub fn mark(&mut self, what: &'static str) {
        *self.marks.entry(what).or_default() += 1;
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        for (pair, times) in &other.pairs {
            *self.pairs.entry(*pair).or_default() += times;
        }
        for (what, times) in &other.marks {
            *self.marks.entry(what).or_default() += times;
        }
    }

    /// Those of `wanted` pairs that were never seen.
    pub fn unseen_pairs<'a>(&self, wanted: &'a [(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let is_unseen = |pair: &&(&str, &str)| !self.pairs.keys().any(|it| it == *pair);
        wanted.iter().filter(is_unseen).copied().collect()
    }

    /// Those of `wanted` marks that were never seen.
    pub fn unseen_marks<'a>(&self, wanted: &'a [&'a str]) -> Vec<&'a str> {
        wanted.iter().filter(|it| !self.marks.contains_key(*it)).copied().collect()
    }

    /// One line a pair and a mark, for people.
    pub fn report(&self) -> String {
        let pairs =
            self.pairs.iter().map(|((phase, kind), times)| format!("{phase} × {kind}: {times}\n"));
        let marks = self.marks.iter().map(|(what, times)| format!("{what}: {times}\n"));
        let unseen = EventKind::ALL
            .iter()
            .filter(|kind| !self.pairs.keys().any(|(_, name)| *name == kind.as_str()))
            .map(|kind| format!("never seen: {}\n", kind.as_str()));
        pairs.chain(marks).chain(unseen).collect()
    }
}

/// Name of the phase that a state is in.
pub fn phase_name(state: &SessionState) -> &'static str {
    match state.phase {
        Phase::Absent => "absent",
        Phase::Ready => "ready",
        Phase::Thinking { .. } => "thinking",
        Phase::Backoff { .. } => "backoff",
        Phase::Acting => "acting",
        Phase::Listening => "listening",
        Phase::Finished { .. } => "finished",
    }
}

fn refusal_name(reason: stepwell_core::event::RefusalReason) -> &'static str {
    use stepwell_core::event::RefusalReason as Reason;
    match reason {
        Reason::UnknownTool => "refused: unknown tool",
        Reason::BadArguments => "refused: bad arguments",
        Reason::CutOff => "refused: cut off",
        Reason::Forbidden => "refused: forbidden",
        Reason::Denied => "refused: denied",
        Reason::Expired => "refused: expired",
        Reason::WorkerLost => "refused: worker lost",
    }
}
