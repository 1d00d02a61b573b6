//! What the convention wants to know of a span and its row does not say.

use std::collections::BTreeMap;

use stepwell_core::CallId;
use stepwell_core::event::{Event, EventBody, FinishReason, Usage};

/// Facts of a session.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) agent: String,
    pub(super) model: String,
    /// By step.
    pub(super) replies: BTreeMap<u32, Reply>,
    /// By step: address and kind of the last error.
    pub(super) failures: BTreeMap<u32, (String, &'static str)>,
    /// The server's id of each call.
    pub(super) call_ids: BTreeMap<CallId, String>,
}

/// What a model replied, without the words.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) usage: Usage,
    pub(super) finish_reason: &'static str,
    pub(super) endpoint: String,
}

impl Facts {
    /// Takes the next event.
    pub(super) fn take(&mut self, event: &Event) {
        if let Some(agent) = event.body.agent() {
            self.agent.clone_from(&agent.name);
            self.model.clone_from(&agent.model.name);
        }
        match &event.body {
            EventBody::ModelReplied(it) => {
                let reply = Reply {
                    usage: it.usage,
                    finish_reason: finish_reason(it.finish_reason),
                    endpoint: it.endpoint.clone(),
                };
                self.replies.insert(it.step, reply);
                for call in &it.tool_calls {
                    self.call_ids.insert(call.call_id, call.wire_id.clone());
                }
            }
            EventBody::ModelFailed(it) => {
                self.failures.insert(it.step, (it.endpoint.clone(), it.error.as_str()));
            }
            EventBody::SessionCreated(_)
            | EventBody::OverrideApplied(_)
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
            | EventBody::TimerStarted(_)
            | EventBody::SessionFinished(_) => {}
        }
    }
}

/// As OpenAI's API names it.
fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content_filter",
    }
}
