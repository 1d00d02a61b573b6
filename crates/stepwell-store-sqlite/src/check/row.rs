//! Compares what a list shows of a session with what its history says.
//!
//! A row of `sessions` is a projection of the events. Only what an event says in so many words is
//! compared: for the rest the state would have to be folded.

use rusqlite::Transaction;
use stepwell_core::event::{EventBody, Outcome};
use stepwell_core::summary::SessionRow;
use stepwell_core::{Seq, SessionId, Status};

use crate::read::{self, ReadError};

/// What the events said so far.
#[derive(Debug, Default)]
pub(super) struct Said {
    title: Option<String>,
    agent: Option<String>,
    outcome: Option<Outcome>,
}

impl Said {
    /// The next event.
    pub(super) fn see(&mut self, body: &EventBody) {
        match body {
            EventBody::SessionCreated(it) => {
                self.title = Some(it.title.clone());
                self.agent = Some(it.agent.name.clone());
            }
            EventBody::OverrideApplied(it) => {
                self.title = it.title.clone().or(self.title.take());
                let agent = it.agent.as_ref().map(|agent| agent.name.clone());
                self.agent = agent.or(self.agent.take());
                // A fork of what was over goes on.
                self.outcome = None;
            }
            EventBody::SessionFinished(it) => self.outcome = Some(it.outcome),
            EventBody::ModelReplied(_)
            | EventBody::ModelFailed(_)
            | EventBody::ToolDispatched(_)
            | EventBody::ToolFinished(_)
            | EventBody::ToolLost(_)
            | EventBody::ApprovalDecided(_)
            | EventBody::MessageReceived(_)
            | EventBody::TimerFired(_)
            | EventBody::CancelRequested(_)
            | EventBody::PauseRequested(_)
            | EventBody::ResumeRequested(_)
            | EventBody::ModelRequested(_)
            | EventBody::ToolScheduled(_)
            | EventBody::ToolRefused(_)
            | EventBody::ApprovalRequested(_)
            | EventBody::TimerStarted(_) => {}
        }
    }

    /// What the row of a session says otherwise, when all its events up to `last` were seen. The row is
    /// read in the transaction that found no later event.
    pub(super) fn contradiction(
        &self,
        transaction: &Transaction<'_>,
        session_id: SessionId,
        last: Seq,
    ) -> Result<Option<String>, ReadError> {
        // Deleted since it was found, or without events: nothing is compared.
        let found = read::session(transaction, session_id)?;
        Ok(found.filter(|_| last > Seq(0)).and_then(|it| self.differs(&it.row)))
    }

    fn differs(&self, row: &SessionRow) -> Option<String> {
        let differs = |what: &str, row: &str, history: &str| {
            Some(format!("lists show the {what} {row:?}, its history says {history:?}"))
        };
        for (what, listed, said) in
            [("title", &row.title, &self.title), ("agent", &row.agent, &self.agent)]
        {
            if let Some(said) = said.as_ref().filter(|it| *it != listed) {
                return differs(what, listed, said);
            }
        }
        let (listed, over) = (row.status.as_str(), self.outcome.map(status_of));
        match over {
            // Found damaged, which no event says.
            _ if row.status == Status::Quarantined => None,
            Some(over) if row.status != over => differs("status", listed, over.as_str()),
            None if row.status.is_final() => differs("status", listed, "not over"),
            Some(_) | None => None,
        }
    }
}

fn status_of(outcome: Outcome) -> Status {
    match outcome {
        Outcome::Completed => Status::Completed,
        Outcome::Failed => Status::Failed,
        Outcome::Cancelled => Status::Cancelled,
        Outcome::LimitReached => Status::LimitReached,
    }
}
