//! Calls of tools that no worker offers: their sessions leave memory, and come back when one does.
//!
//! A worker may be away for days. Meanwhile its sessions must not keep others out of memory.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stepwell_core::{SessionId, TimestampMs};
use stepwell_ports::ToolGateway;

use crate::mailbox::Mailbox;
use crate::task::pause;

/// How often a call that waits looks whether anybody offers its tool. A worker that only connects
/// anew is back by then.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Whether a call waits for a tool that nobody offers. Shared by the call and its session's owner.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stall {
    is_stalled: Arc<AtomicBool>,
}

impl Stall {
    /// Whether nobody offers it.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// The call has a worker.
    pub(crate) fn end(&self) {
        self.is_stalled.store(false, Ordering::Relaxed);
    }

    /// Looks again and again, and tells the owner when nobody offers the tool any more.
    pub(crate) async fn watch(
        &self,
        tools: &dyn ToolGateway,
        tool: &str,
        mailbox: &Mailbox,
    ) -> Infallible {
        loop {
            pause(LOOK_EVERY).await;
            let is_stalled = !tools.offers(tool);
            let was_stalled = self.is_stalled.swap(is_stalled, Ordering::Relaxed);
            if is_stalled && !was_stalled {
                mailbox.effect_stalled();
            }
        }
    }
}

/// What a session out of memory waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Absent {
    /// Tools, any of which brings it back.
    pub(crate) tools: BTreeSet<String>,
    /// When its next timer is due. The store does not know, because the session has work.
    pub(crate) due_at: Option<TimestampMs>,
}

/// Sessions out of memory that wait for tools. As many as there are such sessions: a few words each.
#[derive(Debug, Default)]
pub(crate) struct Stalled {
    by_tool: BTreeMap<String, BTreeSet<SessionId>>,
    by_time: BTreeSet<(TimestampMs, SessionId)>,
}

impl Stalled {
    /// Keeps a session in mind.
    pub(crate) fn insert(&mut self, session_id: SessionId, absent: Absent) {
        for tool in absent.tools {
            self.by_tool.entry(tool).or_default().insert(session_id);
        }
        if let Some(due_at) = absent.due_at {
            self.by_time.insert((due_at, session_id));
        }
    }

    /// A tool that the session waits for.
    pub(crate) fn tool_of(&self, session_id: SessionId) -> Option<&str> {
        let mut tools = self.by_tool.iter();
        tools.find(|(_, it)| it.contains(&session_id)).map(|(tool, _)| tool.as_str())
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_tool.is_empty() && self.by_time.is_empty()
    }

    /// When the first timer is due.
    pub(crate) fn next_due(&self) -> Option<TimestampMs> {
        self.by_time.first().map(|(due_at, _)| *due_at)
    }

    /// Takes those that can go on now. One that is kept under something else as well comes back for
    /// that, too, and finds nothing to do.
    pub(crate) fn take(
        &mut self,
        now: TimestampMs,
        offers: impl Fn(&str) -> bool,
    ) -> BTreeSet<SessionId> {
        let mut taken = BTreeSet::new();
        self.by_tool.retain(|tool, sessions| {
            let is_offered = offers(tool);
            if is_offered {
                taken.append(sessions);
            }
            !is_offered
        });
        while let Some((due_at, session_id)) = self.by_time.first().copied()
            && due_at <= now
        {
            self.by_time.pop_first();
            taken.insert(session_id);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_comes_back_for_a_tool_or_for_its_timer() {
        let session = |byte| SessionId::from_random([byte; 16]);
        let absent = |tools: &[&str], due_at: Option<u64>| Absent {
            tools: tools.iter().map(ToString::to_string).collect(),
            due_at: due_at.map(TimestampMs),
        };
        let mut stalled = Stalled::default();
        stalled.insert(session(1), absent(&["a", "b"], None));
        stalled.insert(session(2), absent(&["b"], Some(50)));
        stalled.insert(session(3), absent(&["c"], Some(90)));
        assert_eq!(stalled.next_due(), Some(TimestampMs(50)));
        assert_eq!(stalled.tool_of(session(2)), Some("b"));
        assert_eq!(stalled.tool_of(session(4)), None);
        assert!(stalled.take(TimestampMs(49), |_| false).is_empty());
        let taken = stalled.take(TimestampMs(49), |tool| tool == "a");
        assert_eq!(taken, [session(1)].into());
        let taken = stalled.take(TimestampMs(50), |_| false);
        assert_eq!(taken, [session(2)].into());
        let taken = stalled.take(TimestampMs(50), |_| true);
        assert_eq!(taken, [session(1), session(2), session(3)].into());
        assert_eq!(stalled.take(TimestampMs(90), |_| true), [session(3)].into());
        assert!(stalled.is_empty());
    }
}
