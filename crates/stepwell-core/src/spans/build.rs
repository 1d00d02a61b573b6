//! From events to spans, one event after the other.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::forest::NodeId;
use super::tree::{Key, Name, Tree};
use super::{SpanStatus, one_line, tokens};
use crate::account::Account;
use crate::event::{
    Actor, ApprovalDecided, ApprovalDecision, ApprovalRequested, Event, EventBody, ModelFailed,
    ModelReplied, ModelRequested, Outcome, Question, RefusalReason, SessionCreated,
    SessionFinished, Timer, TimerFired, TimerStarted, ToolDispatched, ToolFinished, ToolLost,
    ToolOutcome, ToolRefused, ToolScheduled,
};
use crate::ids::{CallId, Seq, TimestampMs};
use crate::json::JsonText;

#[derive(Debug, Default)]
pub(super) struct Builder {
    pub(super) tree: Tree,
    /// The greatest seq that was taken.
    pub(super) head: Seq,
    /// When the last one was decided.
    pub(super) time: TimestampMs,
    /// The name of the session's model.
    pub(super) model: Option<Name>,
    /// The step that was asked last.
    step: u32,
    /// Calls whose last attempt was lost.
    unknown: BTreeSet<CallId>,
    pub(super) is_finished: bool,
    /// Of all models together.
    account: Account,
}

impl Builder {
    /// Takes one event.
    pub(super) fn event(&mut self, event: &Event) {
        self.head = self.head.max(event.seq);
        self.time = event.time;
        self.tree.timeline.begin_event();
        let session = self.session(event);
        self.tree.see(session, event.seq);
        self.take(event, session);
        self.tree.timeline.end_event(event.seq, session);
    }

    fn take(&mut self, event: &Event, session: NodeId) {
        match &event.body {
            EventBody::SessionCreated(it) => self.created(event, it),
            EventBody::ModelRequested(it) => self.requested(event, it),
            EventBody::ModelReplied(it) => {
                self.account.add("", it);
                self.replied(event, it);
            }
            EventBody::ModelFailed(it) => self.failed(event, it),
            EventBody::ToolScheduled(it) => self.scheduled(event, it),
            EventBody::ToolDispatched(it) => self.dispatched(event, it),
            EventBody::ToolFinished(it) => self.tool_finished(event, it),
            EventBody::ToolLost(it) => self.lost(event, it),
            EventBody::ToolRefused(it) => self.refused(event, it),
            EventBody::ApprovalRequested(it) => self.asked(event, it),
            EventBody::ApprovalDecided(it) => self.decided(event, it),
            EventBody::MessageReceived(it) => self.message(event, it.answers),
            EventBody::TimerStarted(it) => self.timer_started(event, it),
            EventBody::TimerFired(it) => self.timer_fired(event, it),
            EventBody::CancelRequested(it) => {
                let who = who(&event.actor, &it.reason);
                self.note(session, event.seq, &format!("cancel asked by {who}"));
            }
            EventBody::PauseRequested(it) => {
                let who = who(&event.actor, &it.reason);
                let pause = self.open(event, Key::Pause, Key::Session);
                self.name(pause, "paused");
                self.note(pause, event.seq, &format!("by {who}"));
            }
            EventBody::ResumeRequested(it) if it.once => {
                let who = who(&event.actor, "");
                self.note(session, event.seq, &format!("stepped by {who}"));
            }
            EventBody::ResumeRequested(_) => self.close(event, Key::Pause, SpanStatus::Ok),
            EventBody::OverrideApplied(it) => self.forked(event, it),
            EventBody::SessionFinished(it) => self.finished(event, it),
        }
    }

    fn created(&mut self, event: &Event, it: &SessionCreated) {
        let session = self.session(event);
        self.name(session, &it.title);
        self.model = Some(self.tree.shared_name(&it.agent.model.name));
    }

    fn requested(&mut self, event: &Event, it: &ModelRequested) {
        self.end_message_wait(event);
        self.step = it.step;
        let attempt = self.model_attempt(event, it.step, it.attempt);
        if let Some(model) = &it.fallback {
            self.note(attempt, event.seq, &format!("fallback to {model}"));
        }
    }

    pub(super) fn replied(&mut self, event: &Event, it: &ModelReplied) {
        let attempt = self.model_attempt(event, it.step, it.attempt);
        let model = self.model_call(event, it.step);
        let mut what = tokens(&it.usage);
        if let Some(problem) = &it.answer_problem {
            what = format!("{what}; {}", one_line(problem));
        }
        for span in [attempt, model] {
            self.note(span, event.seq, &what);
        }
        self.close(event, Key::ModelAttempt(it.step, it.attempt), SpanStatus::Ok);
        self.close(event, Key::Model(it.step), SpanStatus::Ok);
        for call in &it.tool_calls {
            let span = self.call(event, call.call_id);
            self.name(span, &call.name);
            let mut what = one_line(call.arguments.preview());
            if let Some(repaired) = &call.repaired {
                let repairs: Vec<&str> = repaired.repairs.iter().map(|it| it.as_str()).collect();
                what = format!("{what} (repaired: {})", repairs.join(", "));
            }
            self.note(span, event.seq, &what);
        }
        if it.tool_calls.is_empty() {
            self.close(event, Key::Step(it.step), SpanStatus::Ok);
            let wait = self.open(event, Key::Message, Key::Session);
            self.name(wait, "message");
        }
    }

    fn failed(&mut self, event: &Event, it: &ModelFailed) {
        let attempt = self.model_attempt(event, it.step, it.attempt);
        let model = self.model_call(event, it.step);
        let what = format!("{}: {}", it.error.as_str(), one_line(&it.message));
        self.note(attempt, event.seq, &what);
        self.note(model, event.seq, &what);
        self.close(event, Key::ModelAttempt(it.step, it.attempt), SpanStatus::Error);
    }

    fn scheduled(&mut self, event: &Event, it: &ToolScheduled) {
        self.unknown.remove(&it.call_id);
        self.call_attempt(event, it.call_id, it.attempt);
    }

    fn dispatched(&mut self, event: &Event, it: &ToolDispatched) {
        let attempt = self.call_attempt(event, it.call_id, it.attempt);
        let call = self.call(event, it.call_id);
        for span in [attempt, call] {
            self.note(span, event.seq, &format!("on worker {}", it.worker));
        }
    }

    fn tool_finished(&mut self, event: &Event, it: &ToolFinished) {
        let attempt = self.call_attempt(event, it.call_id, it.attempt);
        let call = self.call(event, it.call_id);
        if it.late {
            let text = match it.outcome {
                ToolOutcome::Ok => "a late result came",
                ToolOutcome::Error => "a late error came",
            };
            self.note(attempt, event.seq, text);
            self.note(call, event.seq, text);
            return;
        }
        let status = match it.outcome {
            ToolOutcome::Ok => SpanStatus::Ok,
            ToolOutcome::Error => {
                for span in [attempt, call] {
                    self.note(span, event.seq, &one_line(it.output.preview()));
                }
                SpanStatus::Error
            }
        };
        self.close(event, Key::CallAttempt(it.call_id, it.attempt), status);
        self.settle(event, it.call_id, status);
    }

    fn lost(&mut self, event: &Event, it: &ToolLost) {
        let attempt = self.call_attempt(event, it.call_id, it.attempt);
        let call = self.call(event, it.call_id);
        for span in [attempt, call] {
            self.note(span, event.seq, &format!("lost: {}", one_line(&it.reason)));
        }
        self.close(event, Key::CallAttempt(it.call_id, it.attempt), SpanStatus::Lost);
        if !it.never_started {
            self.unknown.insert(it.call_id);
        }
    }

    fn refused(&mut self, event: &Event, it: &ToolRefused) {
        let call = self.call(event, it.call_id);
        self.note(call, event.seq, &one_line(&it.message));
        let status = match it.reason {
            RefusalReason::Denied | RefusalReason::Forbidden => SpanStatus::Denied,
            RefusalReason::Expired => SpanStatus::Expired,
            RefusalReason::WorkerLost => SpanStatus::Lost,
            RefusalReason::UnknownTool | RefusalReason::BadArguments | RefusalReason::CutOff => {
                SpanStatus::Error
            }
        };
        self.settle(event, it.call_id, status);
    }

    fn asked(&mut self, event: &Event, it: &ApprovalRequested) {
        self.call(event, it.call_id);
        let approval =
            self.find_or_open(event, Key::Approval(it.approval_id), Key::Call(it.call_id));
        let name = match it.question {
            Question::MayRun => "may it run?",
            Question::WhatHappened => {
                self.unknown.insert(it.call_id);
                "what happened?"
            }
        };
        self.name(approval, name);
        self.note(approval, event.seq, &one_line(&it.rule));
    }

    fn decided(&mut self, event: &Event, it: &ApprovalDecided) {
        let who = who(&event.actor, &it.reason);
        let call = self.call(event, it.call_id);
        if let Some(arguments) = &it.arguments {
            self.put_arguments(event, call, arguments);
        }
        let approval =
            self.find_or_open(event, Key::Approval(it.approval_id), Key::Call(it.call_id));
        let edited = if it.arguments.is_some() { " with other arguments" } else { "" };
        self.note(approval, event.seq, &format!("{}{edited} by {who}", it.decision.as_str()));
        let (status, settles) = match it.decision {
            ApprovalDecision::Approve
            | ApprovalDecision::ApproveForSession
            | ApprovalDecision::DidNotHappen => (SpanStatus::Ok, None),
            ApprovalDecision::Deny => (SpanStatus::Denied, None),
            ApprovalDecision::Happened => (SpanStatus::Ok, Some(SpanStatus::Ok)),
            ApprovalDecision::Failed => (SpanStatus::Ok, Some(SpanStatus::Error)),
        };
        self.close(event, Key::Approval(it.approval_id), status);
        if let Some(status) = settles {
            self.settle(event, it.call_id, status);
        }
    }

    pub(super) fn message(&mut self, event: &Event, answers: Option<CallId>) {
        match answers {
            Some(call_id) => {
                let call = self.call(event, call_id);
                let who = event.actor.to_string();
                self.note(call, event.seq, &format!("answered by {who}"));
                self.settle(event, call_id, SpanStatus::Ok);
            }
            None => self.close(event, Key::Message, SpanStatus::Ok),
        }
    }

    fn timer_started(&mut self, event: &Event, it: &TimerStarted) {
        let parent = self.parent_of_timer(event, it.timer);
        let wait = self.open(event, Key::Timer(it.timer), parent);
        let name = match it.timer {
            Timer::ModelRetry | Timer::ToolRetry(_) => "retry",
            Timer::Sleep(_) => "sleep",
            Timer::ApprovalExpiry(_) => "expiry",
            Timer::Deadline => "deadline",
            Timer::CancelGrace => "tools stop",
        };
        self.name(wait, name);
    }

    fn timer_fired(&mut self, event: &Event, it: &TimerFired) {
        self.close(event, Key::Timer(it.timer), SpanStatus::Ok);
        match it.timer {
            Timer::Sleep(call_id) => self.settle(event, call_id, SpanStatus::Ok),
            Timer::ApprovalExpiry(approval_id) => {
                self.close(event, Key::Approval(approval_id), SpanStatus::Expired);
            }
            Timer::Deadline => {
                let session = self.session(event);
                self.note(session, event.seq, "its time was up");
            }
            Timer::ModelRetry | Timer::ToolRetry(_) | Timer::CancelGrace => {}
        }
    }

    fn parent_of_timer(&mut self, event: &Event, timer: Timer) -> Key {
        match timer {
            Timer::ModelRetry => {
                self.model_call(event, self.step);
                Key::Model(self.step)
            }
            Timer::ToolRetry(call_id) | Timer::Sleep(call_id) => {
                self.call(event, call_id);
                Key::Call(call_id)
            }
            Timer::ApprovalExpiry(_) | Timer::Deadline | Timer::CancelGrace => Key::Session,
        }
    }

    fn finished(&mut self, event: &Event, it: &SessionFinished) {
        self.end_message_wait(event);
        for call_id in core::mem::take(&mut self.unknown) {
            self.close(event, Key::Call(call_id), SpanStatus::Lost);
        }
        let session = self.session(event);
        if let Some(ratio) = self.account.read_ratio() {
            let read = self.account.total().usage.uncached_tokens();
            let (whole, rest) = (ratio / 1_000, ratio % 1_000 / 10);
            let note = format!("{read} tokens read, {whole}.{rest:02} × the least");
            self.note(session, event.seq, &note);
        }
        let limit = it.limit.map_or("", |limit| limit.as_str());
        self.note(session, event.seq, limit);
        // Why somebody cancelled it was said when they did.
        if it.outcome != Outcome::Cancelled {
            self.note(session, event.seq, &one_line(&it.reason));
        }
        let (whole, open) = match it.outcome {
            Outcome::Completed => (SpanStatus::Ok, SpanStatus::Cancelled),
            Outcome::Failed => (SpanStatus::Error, SpanStatus::Error),
            Outcome::Cancelled => (SpanStatus::Cancelled, SpanStatus::Cancelled),
            Outcome::LimitReached => (SpanStatus::LimitReached, SpanStatus::LimitReached),
        };
        for at in self.tree.open_inside_out() {
            self.tree.end(at, event, if at == session { whole } else { open });
        }
        self.is_finished = true;
    }

    /// The call came to its end; so does its step with the last one, and what waited for it.
    pub(super) fn settle(&mut self, event: &Event, call_id: CallId, status: SpanStatus) {
        let Some(call) = self.tree.get(Key::Call(call_id)) else { return };
        // A question or a retry that a later report made needless.
        let below = self.tree.forest.children_backwards(call);
        let needless: Vec<NodeId> = below.filter(|it| self.tree.is_open(*it)).collect();
        for at in needless {
            self.tree.end(at, event, SpanStatus::Cancelled);
        }
        self.close(event, Key::Call(call_id), status);
        if !self.tree.has_open_call(call_id.step) {
            self.close(event, Key::Step(call_id.step), SpanStatus::Ok);
        }
    }

    /// What runs is not what the model wrote.
    pub(super) fn put_arguments(&mut self, event: &Event, call: NodeId, arguments: &JsonText) {
        self.tree.put_first(call, event.seq, &one_line(arguments.as_str()));
    }

    /// No worker has a call of this session any more.
    pub(super) fn end_attempts(&mut self, event: &Event) {
        for at in self.tree.open_inside_out() {
            let of_call = |key| matches!(key, Key::CallAttempt(..));
            if self.tree.node(at).is_some_and(|node| of_call(node.key)) {
                self.tree.end(at, event, SpanStatus::Cancelled);
            }
        }
    }

    pub(super) fn session(&mut self, event: &Event) -> NodeId {
        match self.tree.get(Key::Session) {
            Some(at) => at,
            None => self.add(event, Key::Session, None),
        }
    }

    fn step(&mut self, event: &Event, step: u32) -> NodeId {
        self.find_or_open(event, Key::Step(step), Key::Session)
    }

    fn model_call(&mut self, event: &Event, step: u32) -> NodeId {
        self.step(event, step);
        let at = self.find_or_open(event, Key::Model(step), Key::Step(step));
        if let Some(model) = self.model {
            self.tree.name_as(at, model);
        }
        at
    }

    fn model_attempt(&mut self, event: &Event, step: u32, attempt: u32) -> NodeId {
        self.model_call(event, step);
        self.find_or_open(event, Key::ModelAttempt(step, attempt), Key::Model(step))
    }

    pub(super) fn call(&mut self, event: &Event, call_id: CallId) -> NodeId {
        self.step(event, call_id.step);
        self.find_or_open(event, Key::Call(call_id), Key::Step(call_id.step))
    }

    fn call_attempt(&mut self, event: &Event, call_id: CallId, attempt: u32) -> NodeId {
        self.call(event, call_id);
        self.find_or_open(event, Key::CallAttempt(call_id, attempt), Key::Call(call_id))
    }

    fn find_or_open(&mut self, event: &Event, key: Key, parent: Key) -> NodeId {
        match self.tree.get(key) {
            Some(at) => {
                self.tree.touch(at, event.seq);
                at
            }
            None => self.open(event, key, parent),
        }
    }

    /// A new span, even when an older one has the same name.
    fn open(&mut self, event: &Event, key: Key, parent: Key) -> NodeId {
        self.session(event);
        let parent = self.tree.get(parent);
        self.add(event, key, parent)
    }

    fn add(&mut self, event: &Event, key: Key, parent: Option<NodeId>) -> NodeId {
        let at = self.tree.add(event, key, parent);
        // What only a late event names did not run when the session ended.
        if self.is_finished {
            self.tree.end(at, event, SpanStatus::Cancelled);
        }
        at
    }

    fn close(&mut self, event: &Event, key: Key, status: SpanStatus) {
        if let Some(at) = self.tree.get(key) {
            self.tree.end(at, event, status);
        }
    }

    pub(super) fn name(&mut self, at: NodeId, name: &str) {
        self.tree.name(at, name);
    }

    pub(super) fn note(&mut self, at: NodeId, seq: Seq, text: &str) {
        self.tree.note(at, seq, text);
    }

    /// The session goes on: a wait for a message that began with the last event was none.
    fn end_message_wait(&mut self, event: &Event) {
        let Some(at) = self.tree.forget(Key::Message) else { return };
        if self.tree.is_open(at) && !self.tree.remove_if_last(at) {
            self.tree.end(at, event, SpanStatus::Ok);
        }
    }
}

pub(super) fn who(actor: &Actor, reason: &str) -> String {
    if reason.is_empty() { actor.to_string() } else { format!("{actor}: {}", one_line(reason)) }
}
