//! The spans of a fork: its parent's, and then its own.

use alloc::format;

use super::SpanStatus;
use super::build::{Builder, who};
use crate::event::{Edit, Event, OverrideApplied, ToolOutcome};

impl Builder {
    /// From here on it is another session, that may go on where its parent was over.
    pub(super) fn forked(&mut self, event: &Event, it: &OverrideApplied) {
        let session = self.session(event);
        self.is_finished = false;
        self.tree.reopen(session);
        if let Some(title) = &it.title {
            self.name(session, title);
        }
        if let Some(agent) = &it.agent {
            self.model = Some(self.tree.shared_name(&agent.model.name));
        }
        if it.asks_anew {
            // What ran in the parent does not run here.
            self.end_attempts(event);
        }
        let who = who(&event.actor, "");
        self.note(session, event.seq, &format!("forked from {} by {who}", it.parent));
        for edit in &it.edits {
            match edit {
                Edit::ToolResult { call_id, outcome, .. } => {
                    let status = match outcome {
                        ToolOutcome::Ok => SpanStatus::Ok,
                        ToolOutcome::Error => SpanStatus::Error,
                    };
                    let call = self.call(event, *call_id);
                    self.note(call, event.seq, "another result");
                    self.settle(event, *call_id, status);
                }
                Edit::ModelReply(reply) => self.replied(event, reply),
                Edit::Arguments { call_id, arguments } => {
                    let call = self.call(event, *call_id);
                    self.put_arguments(event, call, arguments);
                    self.note(call, event.seq, "other arguments");
                }
                Edit::Message { .. } => self.message(event, None),
            }
        }
    }
}
