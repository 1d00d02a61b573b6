//! Who has a session: running, parked, lost, finished.

use stepwell_core::TimestampMs;
use stepwell_ports::{NodeInfo, SessionInfo};

/// What the list row, the nodes' signs of life and this process's memory say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// Its owner is alive and works on it.
    Running,
    /// There is nothing to do until something happens.
    Parked,
    /// There is work to do and its owner gave no sign of life for too long.
    Lost,
    /// It ended.
    Finished,
}

impl Ownership {
    /// The name on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Parked => "parked",
            Self::Lost => "lost",
            Self::Finished => "finished",
        }
    }
}

/// What this process knows about the owners of sessions.
pub(crate) struct Owners<'a> {
    /// Name of this process.
    pub(crate) node: &'a str,
    /// Every process that gave signs of life.
    pub(crate) nodes: &'a [NodeInfo],
    /// Silence after which a process counts as dead, in milliseconds.
    pub(crate) lease_ms: u64,
    /// Now.
    pub(crate) now: TimestampMs,
}

impl Owners<'_> {
    /// The last sign of life of that owner.
    pub(crate) fn seen_at(&self, owner: &str) -> Option<TimestampMs> {
        self.nodes.iter().find(|it| it.node == owner).map(|it| it.seen_at)
    }

    /// Who has the session.
    pub(crate) fn of(&self, info: &SessionInfo, is_in_memory: bool) -> Ownership {
        if info.row.status.is_final() {
            return Ownership::Finished;
        }
        let has_work = info.wake_at.is_some_and(|wake_at| wake_at <= self.now);
        let is_alive = if info.owner == self.node {
            // This process answers, so it is alive, whatever its last stored sign says.
            return if is_in_memory { Ownership::Running } else { Ownership::Parked };
        } else {
            self.seen_at(&info.owner).is_some_and(|at| self.now.since_ms(at) < self.lease_ms)
        };
        match (has_work, is_alive) {
            (false, _) => Ownership::Parked,
            (true, true) => Ownership::Running,
            (true, false) => Ownership::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_core::event::Usage;
    use stepwell_core::summary::SessionRow;
    use stepwell_core::{Fence, Seq, SessionId, Status};

    use super::*;

    fn info(status: Status, owner: &str, wake_at: Option<u64>) -> SessionInfo {
        let row = SessionRow {
            parent: None,
            session_id: SessionId::from_random([1; 16]),
            status,
            title: String::new(),
            agent: String::new(),
            agent_version: 0,
            labels: vec![],
            head_seq: Seq(1),
            step: 1,
            usage: Usage::default(),
            created_at: TimestampMs(0),
            updated_at: TimestampMs(0),
            explain: String::new(),
        };
        let wake_at = wake_at.map(TimestampMs);
        SessionInfo { row, owner: owner.into(), fence: Fence(1), wake_at, redaction: None }
    }

    #[test]
    fn running_parked_lost_and_finished_are_told_apart() {
        let seen = |node: &str, at| NodeInfo { node: node.into(), seen_at: TimestampMs(at) };
        let nodes = [seen("here", 0), seen("alive", 95_000), seen("dead", 50_000)];
        let owners =
            Owners { node: "here", nodes: &nodes, lease_ms: 30_000, now: TimestampMs(100_000) };
        for (status, owner, wake_at, is_in_memory, expected) in [
            (Status::Thinking, "here", Some(0), true, Ownership::Running),
            (Status::WaitingApproval, "here", None, false, Ownership::Parked),
            (Status::Thinking, "alive", Some(0), false, Ownership::Running),
            (Status::Sleeping, "alive", Some(200_000), false, Ownership::Parked),
            (Status::Thinking, "dead", Some(0), false, Ownership::Lost),
            (Status::Sleeping, "dead", Some(99_000), false, Ownership::Lost),
            (Status::WaitingApproval, "dead", None, false, Ownership::Parked),
            (Status::Thinking, "forgotten", Some(0), false, Ownership::Lost),
            (Status::Completed, "dead", None, false, Ownership::Finished),
        ] {
            let info = info(status, owner, wake_at);
            assert_eq!(owners.of(&info, is_in_memory), expected, "{status:?} of {owner}");
        }
    }
}
