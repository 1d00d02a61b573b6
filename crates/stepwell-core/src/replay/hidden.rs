//! What markers hide from a replay: the decisions that nobody can check any more.
//!
//! Such a decision is taken from the record, but only when today's rules come to it for some text in the
//! place of the markers. Everything that no marker reaches is compared as it is.

use alloc::vec::Vec;

use crate::agent::{Agent, Verdict};
use crate::event::{
    ApprovalDecided, Edit, Event, EventBody, LimitKind, ModelReplied, OverrideApplied, Timer,
};
use crate::follow::{LAST_PROBLEM, SECONDS, next_decision, outcomes};
use crate::ids::{CallId, TimestampMs};
use crate::marker::{Marker, agree, holds_marker, markers};
use crate::policy::{arguments_value, hides_argument, rulings};
use crate::state::SessionState;
use crate::text::Text;

/// Where markers stood in the record so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Hidden {
    /// In the definition, as far as the model sees it.
    in_definition: bool,
    /// In a message of the prompt.
    in_messages: bool,
    /// In what was wrong with the last reply.
    in_problem: bool,
    /// How many actions follow the last one that holds a marker.
    actions_since: Option<u32>,
}

impl Hidden {
    /// Takes note of the next recorded event.
    pub(super) fn note(&mut self, body: &EventBody) {
        match body {
            EventBody::SessionCreated(it) => {
                self.in_definition = shows_marker(&it.agent);
                self.in_messages = is_marked(&it.task);
            }
            EventBody::ModelReplied(it) => self.note_reply(it),
            EventBody::ToolFinished(it) => self.in_messages |= is_marked(&it.output),
            EventBody::ToolLost(it) => self.in_messages |= holds_marker(&it.reason),
            EventBody::ToolRefused(it) => self.in_messages |= holds_marker(&it.message),
            EventBody::ApprovalDecided(it) => self.in_messages |= decides_marked(it),
            EventBody::MessageReceived(it) => self.in_messages |= is_marked(&it.content),
            EventBody::OverrideApplied(it) => self.note_fork(it),
            EventBody::ModelFailed(_)
            | EventBody::ToolDispatched(_)
            | EventBody::TimerFired(_)
            | EventBody::CancelRequested(_)
            | EventBody::PauseRequested(_)
            | EventBody::ResumeRequested(_)
            | EventBody::ModelRequested(_)
            | EventBody::ToolScheduled(_)
            | EventBody::ApprovalRequested(_)
            | EventBody::TimerStarted(_)
            | EventBody::SessionFinished(_) => {}
        }
    }

    fn note_reply(&mut self, it: &ModelReplied) {
        let holds = |text: &Option<_>| text.as_deref().is_some_and(holds_marker);
        self.in_problem = holds(&it.answer_problem);
        let generated = it.tokens.as_ref().and_then(|tokens| tokens.text.as_ref());
        self.in_messages |=
            self.in_problem || is_marked(&it.content) || generated.is_some_and(is_marked);
        for call in &it.tool_calls {
            self.in_problem |= holds(&call.problem) || holds_marker(&call.name);
            let is_hidden = holds_marker(&call.name) || is_marked(&call.arguments);
            self.in_messages |= is_hidden;
            let before = self.actions_since.map(|it| it.saturating_add(1));
            self.actions_since = if is_hidden { Some(0) } else { before };
        }
    }

    fn note_fork(&mut self, it: &OverrideApplied) {
        if let Some(agent) = &it.agent {
            self.in_definition = shows_marker(agent);
        }
        for edit in &it.edits {
            match edit {
                Edit::ModelReply(reply) => self.note_reply(reply),
                Edit::ToolResult { output: text, .. } | Edit::Message { content: text } => {
                    self.in_messages |= is_marked(text);
                }
                Edit::Arguments { arguments, .. } => {
                    self.in_messages |= holds_marker(arguments.as_str());
                }
            }
        }
    }

    /// Forgets the actions that the session itself forgot.
    pub(super) fn forget_actions(&mut self, state: &SessionState) {
        if state.recent_actions.is_empty() {
            self.actions_since = None;
        }
    }

    /// Whether nobody can say any more which of the last actions are the same.
    pub(super) fn hides_repetition(&self, state: &SessionState) -> bool {
        let window = state.agent().map_or(0, |agent| agent.limits.repeat_window);
        self.actions_since.is_some_and(|since| since < window)
    }

    /// Whether a recorded decision is one that today's rules may come to in `state`. `today` is the one
    /// that they come to with the markers as they are.
    pub(super) fn allows(
        &self,
        state: &SessionState,
        today: Option<&EventBody>,
        recorded: &Event,
    ) -> bool {
        let mut possible = self.alternatives(state, today, recorded.time);
        possible.extend(today.cloned());
        possible
            .into_iter()
            .any(|ours| agree(&self.without_hidden(state, ours, recorded), &recorded.body))
    }

    fn alternatives(
        &self,
        state: &SessionState,
        today: Option<&EventBody>,
        now: TimestampMs,
    ) -> Vec<EventBody> {
        let mut possible = Vec::new();
        if let Some(call_id) = today.and_then(call_of) {
            possible.extend(outcomes(state, call_id, now));
        }
        if self.hides_repetition(state) {
            possible.extend(state.calls.values().filter_map(|call| {
                let repeated = Some(call.tool.clone());
                next_decision(&SessionState { repeated, ..state.clone() }, now)
            }));
        }
        possible
    }

    /// A decision of ours, with what hangs on hidden bytes as it was recorded.
    fn without_hidden(
        &self,
        state: &SessionState,
        mut ours: EventBody,
        recorded: &Event,
    ) -> EventBody {
        match (&mut ours, &recorded.body) {
            (EventBody::ModelRequested(ours), EventBody::ModelRequested(theirs))
                if self.in_definition || self.in_messages =>
            {
                ours.prompt_digest.clone_from(&theirs.prompt_digest);
                ours.prompt_bytes = theirs.prompt_bytes;
            }
            (EventBody::ApprovalRequested(ours), EventBody::ApprovalRequested(theirs))
                if hides_action(state, ours.call_id) =>
            {
                ours.action_digest.clone_from(&theirs.action_digest);
            }
            (EventBody::TimerStarted(ours), EventBody::TimerStarted(theirs))
                if hides_seconds(state, ours.timer) && theirs.due_at >= recorded.time =>
            {
                ours.due_at = theirs.due_at;
            }
            (EventBody::SessionFinished(ours), EventBody::SessionFinished(theirs))
                if self.in_problem && ours.limit == Some(LimitKind::UnusableReplies) =>
            {
                // It ends with the last problem, shortened: perhaps in the middle of a marker.
                let known = ours.reason.split_once(LAST_PROBLEM).map_or("", |(known, _)| known);
                let hides = |it: Marker<'_>| it.range.start < known.len();
                if theirs.reason.starts_with(known) || markers(&theirs.reason).any(hides) {
                    ours.reason.clone_from(&theirs.reason);
                }
            }
            (_, _) => {}
        }
        ours
    }
}

/// Whether a recorded word of a person that today's rules forbid may have been one that they allow.
pub(super) fn may_be_allowed(state: &SessionState, recorded: &EventBody) -> bool {
    let EventBody::ApprovalDecided(it) = recorded else { return false };
    let call = state.calls.get(&it.call_id);
    let tool = state.agent().zip(call).and_then(|(agent, call)| agent.tool(&call.tool));
    let (Some(agent), Some(tool), Some(arguments)) = (state.agent(), tool, &it.arguments) else {
        return false;
    };
    rulings(agent, tool, &arguments.to_value()).iter().any(|it| it.verdict != Verdict::Deny)
}

/// The call that a decision is about.
fn call_of(body: &EventBody) -> Option<CallId> {
    match body {
        EventBody::ToolScheduled(it) => Some(it.call_id),
        EventBody::ToolRefused(it) => Some(it.call_id),
        EventBody::ApprovalRequested(it) => Some(it.call_id),
        EventBody::SessionCreated(_)
        | EventBody::ModelReplied(_)
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
        | EventBody::OverrideApplied(_)
        | EventBody::ModelRequested(_)
        | EventBody::TimerStarted(_)
        | EventBody::SessionFinished(_) => None,
    }
}

fn hides_action(state: &SessionState, call_id: CallId) -> bool {
    state
        .calls
        .get(&call_id)
        .is_some_and(|call| holds_marker(&call.tool) || holds_marker(call.effective_arguments()))
}

fn hides_seconds(state: &SessionState, timer: Timer) -> bool {
    let Timer::Sleep(call_id) = timer else { return false };
    state
        .calls
        .get(&call_id)
        .is_some_and(|call| hides_argument(&arguments_value(call.effective_arguments()), SECONDS))
}

fn is_marked(text: &Text) -> bool {
    holds_marker(text.preview())
}

fn decides_marked(it: &ApprovalDecided) -> bool {
    holds_marker(&it.reason)
        || it.arguments.as_ref().is_some_and(|it| holds_marker(it.as_str()))
        || it.output.as_ref().is_some_and(is_marked)
}

/// Whether a marker stands in what the model sees of a definition.
fn shows_marker(agent: &Agent) -> bool {
    let output = serde_json::to_string(&agent.output).unwrap_or_default();
    holds_marker(&agent.instructions)
        || holds_marker(agent.model.parameters.as_str())
        || holds_marker(&output)
        || agent
            .tools
            .iter()
            .any(|tool| holds_marker(&tool.description) || holds_marker(tool.parameters.as_str()))
}
