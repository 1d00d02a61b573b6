//! What a recorded session gives to a run of its task with another agent: the task, what people said,
//! and an index of its tool calls by tool and canonical arguments.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use stepwell_core::agent::Agent;
use stepwell_core::compare::Outline;
use stepwell_core::event::{
    ApprovalDecided, ApprovalDecision, Edit, EventBody, Label, ModelReplied, OverrideApplied,
    RefusalReason, ToolOutcome,
};
use stepwell_core::json::{canonical, read_strict};
use stepwell_core::{Actor, CallId, Event, JsonText, Text};

/// A tool and its arguments in their canonical form (RFC 8785), or as written when they are no JSON:
/// the same action has the same key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    tool: String,
    arguments: String,
}

impl Key {
    /// The key of a call. Servers send nothing where `{}` is meant.
    pub(super) fn of(tool: &str, arguments: &str) -> Self {
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        let arguments = read_strict(text).map_or_else(|_| text.to_owned(), |it| canonical(&it));
        Self { tool: tool.to_owned(), arguments }
    }

    /// In words.
    pub(super) fn in_words(&self) -> String {
        format!("{} {}", self.tool, self.arguments)
    }
}

/// What came when the recorded session asked a person whether an action may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// Yes, perhaps with other arguments.
    Approved { arguments: Option<JsonText>, by: Actor },
    /// No.
    Denied { reason: String, by: Actor },
    /// Nothing, in all the time that there was.
    Lapsed { message: String },
}

/// What a recorded call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) outcome: ToolOutcome,
    pub(super) output: Text,
}

/// One recorded call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Slot {
    word: Option<Word>,
    result: Option<Recorded>,
}

/// The recorded calls of each action, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Recordings {
    slots: BTreeMap<Key, Vec<Slot>>,
}

impl Recordings {
    /// What the call of this action with that number, from 0, came to. A call without a result gives
    /// its place to the next one; after the last one it repeats.
    pub(super) fn result(&self, key: &Key, nth: usize) -> Option<&Recorded> {
        self.nearest(key, nth, |slot| slot.result.as_ref())
    }

    /// What a person said about it.
    pub(super) fn word(&self, key: &Key, nth: usize) -> Option<&Word> {
        self.nearest(key, nth, |slot| slot.word.as_ref())
    }

    fn nearest<'a, T>(
        &'a self,
        key: &Key,
        nth: usize,
        part: impl Fn(&'a Slot) -> Option<&'a T>,
    ) -> Option<&'a T> {
        let slots = self.slots.get(key)?;
        let last = slots.len().checked_sub(1)?;
        let (before, rest) = slots.split_at_checked(nth.min(last))?;
        rest.iter().find_map(&part).or_else(|| before.iter().rev().find_map(&part))
    }

    fn add(&mut self, key: Key, slot: Slot) {
        self.slots.entry(key).or_default().push(slot);
    }
}

/// A recorded session.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) session_id: String,
    pub(super) task: Text,
    pub(super) title: String,
    pub(super) labels: Vec<Label>,
    /// The definition that held at its end.
    pub(super) agent: Arc<Agent>,
    pub(super) outline: Outline,
    pub(super) recordings: Recordings,
    /// Texts were removed from the file, so that calls and requests may differ for no other reason.
    pub(super) is_redacted: bool,
}

/// Builds a [`Record`] event by event. Memory: O(history), shared with the events.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    beginning: Option<(Text, String, Vec<Label>, Arc<Agent>)>,
    outline: Outline,
    /// The calls as the model made them.
    asked: BTreeMap<CallId, Key>,
    words: BTreeMap<CallId, Word>,
    /// Ends that the outline does not tell: what a person or the engine gave in place of a result.
    ends: BTreeMap<CallId, Recorded>,
    is_redacted: bool,
}

impl Recorder {
    /// From here on the record holds texts that are not the original ones.
    pub(super) fn note_redaction(&mut self) {
        self.is_redacted = true;
    }

    /// The next event.
    pub(super) fn push(&mut self, event: &Event) {
        self.outline.push(event);
        match &event.body {
            EventBody::SessionCreated(it) => {
                let (task, title) = (it.task.clone(), it.title.clone());
                self.beginning = Some((task, title, it.labels.clone(), it.agent.clone()));
            }
            EventBody::ModelReplied(reply) => self.reply(reply),
            EventBody::ApprovalDecided(it) => self.decided(it, &event.actor),
            EventBody::ToolRefused(it) if it.reason == RefusalReason::WorkerLost => {
                self.failed(it.call_id, &it.message);
            }
            EventBody::ToolRefused(it) if it.reason == RefusalReason::Expired => {
                let message = it.message.clone();
                self.words.insert(it.call_id, Word::Lapsed { message });
            }
            EventBody::OverrideApplied(it) => self.fork(it),
            EventBody::ToolRefused(_)
            | EventBody::ModelRequested(_)
            | EventBody::ModelFailed(_)
            | EventBody::ToolScheduled(_)
            | EventBody::ToolDispatched(_)
            | EventBody::ToolFinished(_)
            | EventBody::ToolLost(_)
            | EventBody::ApprovalRequested(_)
            | EventBody::MessageReceived(_)
            | EventBody::TimerStarted(_)
            | EventBody::TimerFired(_)
            | EventBody::CancelRequested(_)
            | EventBody::PauseRequested(_)
            | EventBody::ResumeRequested(_)
            | EventBody::SessionFinished(_) => {}
        }
    }

    /// The record, once all events were pushed.
    pub(super) fn finish(self, session_id: String) -> anyhow::Result<Record> {
        let recordings = self.recordings();
        let (task, title, labels, agent) =
            self.beginning.context("it has no events: there is no task to run")?;
        Ok(Record {
            session_id,
            task,
            title,
            labels,
            agent,
            outline: self.outline,
            recordings,
            is_redacted: self.is_redacted,
        })
    }

    fn recordings(&self) -> Recordings {
        let mut recordings = Recordings::default();
        for (call_id, call) in self.outline.steps.values().flat_map(|step| &step.calls) {
            let outcome = match call.ending {
                "ok" => Some(ToolOutcome::Ok),
                "error" => Some(ToolOutcome::Error),
                // Refused, or it has no end.
                _ => None,
            };
            let told = outcome.map(|outcome| Recorded { outcome, output: call.output.clone() });
            let result = told.or_else(|| self.ends.get(call_id).cloned());
            let word = self.words.get(call_id).cloned();
            let ran = Key::of(&call.tool, &call.arguments);
            match self.asked.get(call_id).filter(|asked| **asked != ran) {
                // A person changed the arguments: the result belongs to what ran.
                Some(asked) => {
                    recordings.add(asked.clone(), Slot { word, result: None });
                    recordings.add(ran, Slot { word: None, result });
                }
                None => recordings.add(ran, Slot { word, result }),
            }
        }
        recordings
    }

    fn reply(&mut self, reply: &ModelReplied) {
        // A reply that a fork put in place of another.
        self.asked.retain(|call_id, _| call_id.step != reply.step);
        let keys = reply.tool_calls.iter().map(|call| {
            let key = Key::of(&call.name, call.arguments.preview());
            (call.call_id, key)
        });
        self.asked.extend(keys);
    }

    fn decided(&mut self, it: &ApprovalDecided, by: &Actor) {
        let by = by.clone();
        let word = match it.decision {
            ApprovalDecision::Approve | ApprovalDecision::ApproveForSession => {
                Word::Approved { arguments: it.arguments.clone(), by }
            }
            ApprovalDecision::Deny => Word::Denied { reason: it.reason.clone(), by },
            ApprovalDecision::Failed => {
                let reason = "the worker was lost while it ran this call; it failed";
                let given = if it.reason.is_empty() { reason } else { &it.reason };
                return self.failed(it.call_id, given);
            }
            // What happened stands in the outline; what did not runs again.
            ApprovalDecision::Happened | ApprovalDecision::DidNotHappen => return,
        };
        self.words.insert(it.call_id, word);
    }

    fn failed(&mut self, call_id: CallId, message: &str) {
        let output = Text::from(message);
        self.ends.insert(call_id, Recorded { outcome: ToolOutcome::Error, output });
    }

    fn fork(&mut self, it: &OverrideApplied) {
        if let (Some(agent), Some((.., held))) = (&it.agent, &mut self.beginning) {
            *held = agent.clone();
        }
        for edit in &it.edits {
            match edit {
                Edit::ModelReply(reply) => self.reply(reply),
                // The outline has what came of it.
                Edit::ToolResult { .. } | Edit::Arguments { .. } | Edit::Message { .. } => {}
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use stepwell_core::event::{FinishReason, ToolCall, ToolFinished, ToolRefused, Usage};
    use stepwell_core::{ApprovalId, Seq, TimestampMs};

    use super::*;

    pub(in super::super) fn result(text: &str) -> Recorded {
        Recorded { outcome: ToolOutcome::Ok, output: Text::from(text) }
    }

    /// Calls of `pay`, each with its word and its result.
    pub(in super::super) fn recordings(slots: &[(Option<Word>, Option<&str>)]) -> Recordings {
        let mut recordings = Recordings::default();
        for (word, output) in slots {
            let result = output.map(result);
            recordings.add(Key::of("pay", r#"{"to":1}"#), Slot { word: word.clone(), result });
        }
        recordings
    }

    fn event(seq: u64, actor: Actor, body: impl Into<EventBody>) -> Event {
        let (seq, time) = (Seq(seq), TimestampMs(seq));
        Event { seq, time, cause: seq, actor, body: body.into() }
    }

    fn call(index: u32, arguments: &str) -> ToolCall {
        ToolCall {
            call_id: CallId { step: 1, index },
            wire_id: format!("w{index}"),
            name: "pay".into(),
            arguments: Text::from(arguments),
            repaired: None,
            problem: None,
        }
    }

    fn decided(index: u32, decision: ApprovalDecision, arguments: Option<&str>) -> ApprovalDecided {
        ApprovalDecided {
            approval_id: ApprovalId(u64::from(index)),
            call_id: CallId { step: 1, index },
            decision,
            reason: "so it is".into(),
            arguments: arguments.map(|it| JsonText::parse(it).unwrap()),
            output: None,
        }
    }

    fn finished(index: u32, outcome: ToolOutcome, output: &str) -> ToolFinished {
        ToolFinished {
            call_id: CallId { step: 1, index },
            attempt: 1,
            outcome,
            output: Text::from(output),
            full_output: None,
            late: false,
            duration_ms: 0,
        }
    }

    #[test]
    fn each_call_is_found_by_what_ran_and_what_became_of_it() {
        let (ada, worker) = (|| Actor::Person("ada".into()), || Actor::Worker("w".into()));
        let tool_calls = (1..).zip([r#"{"to":1}"#, r#"{"to":2}"#, r#"{"to":3}"#, r#"{"to":4}"#]);
        let reply = ModelReplied {
            step: 1,
            attempt: 1,
            content: Text::default(),
            reasoning: Text::default(),
            tool_calls: tool_calls.map(|(index, arguments)| call(index, arguments)).collect(),
            answer_problem: None,
            finish_reason: FinishReason::ToolCalls,
            finish_word: None,
            usage: Usage::default(),
            endpoint: String::new(),
            first_token_ms: 0,
            duration_ms: 0,
            tokens: None,
        };
        let (call_id, reason) = (CallId { step: 1, index: 4 }, RefusalReason::WorkerLost);
        let lost = ToolRefused { call_id, reason, message: "lost 3 times".into() };
        let edited = decided(1, ApprovalDecision::ApproveForSession, Some(r#"{"to":9}"#));
        let mut recorder = Recorder::default();
        for event in [
            event(1, Actor::Model("m".into()), reply),
            event(2, ada(), edited),
            event(3, worker(), finished(1, ToolOutcome::Ok, "paid 9")),
            event(4, worker(), finished(2, ToolOutcome::Error, "no money")),
            event(5, ada(), decided(3, ApprovalDecision::Failed, None)),
            event(6, Actor::Engine, lost),
        ] {
            recorder.push(&event);
        }
        let recordings = recorder.recordings();
        let failed = |text| Recorded { outcome: ToolOutcome::Error, output: Text::from(text) };
        for (to, expected) in [
            (1, None),
            (9, Some(result("paid 9"))),
            (2, Some(failed("no money"))),
            (3, Some(failed("so it is"))),
            (4, Some(failed("lost 3 times"))),
            (5, None),
        ] {
            let key = Key::of("pay", &format!(r#"{{"to":{to}}}"#));
            assert_eq!(recordings.result(&key, 0), expected.as_ref(), "to {to}");
        }
        let word = recordings.word(&Key::of("pay", r#"{"to":1}"#), 0);
        let edited = JsonText::parse(r#"{"to":9}"#).unwrap();
        assert_eq!(word, Some(&Word::Approved { arguments: Some(edited), by: ada() }));
    }

    #[test]
    fn the_same_action_has_the_same_key() {
        for (a, b, is_same) in [
            (r#"{"b":1,"a":2.0}"#, r#"{ "a": 2, "b": 1 }"#, true),
            ("", "{}", true),
            (r#"{"a":"é"}"#, r#"{"a":"\u00e9"}"#, true),
            (r#"{"a":1}"#, r#"{"a":"1"}"#, false),
            (r#"{"a":9007199254740993}"#, r#"{"a":9007199254740992}"#, false),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#, false),
            ("{broken", "{broken", true),
        ] {
            assert_eq!(Key::of("t", a) == Key::of("t", b), is_same, "{a} and {b}");
        }
        assert_ne!(Key::of("t", "{}"), Key::of("u", "{}"));
    }

    #[test]
    fn results_are_served_in_their_order_and_the_last_one_repeats() {
        let key = Key::of("pay", r#"{ "to": 1.0 }"#);
        for (slots, served) in [
            (vec![Some("a"), Some("b")], ["a", "b", "b", "b"]),
            (vec![Some("a")], ["a", "a", "a", "a"]),
            // A call without a result is no reason to have none.
            (vec![None, Some("a"), None, Some("b")], ["a", "a", "b", "b"]),
            (vec![Some("a"), None], ["a", "a", "a", "a"]),
        ] {
            let slots: Vec<_> = slots.into_iter().map(|output| (None, output)).collect();
            let recordings = recordings(&slots);
            for (nth, output) in served.into_iter().enumerate() {
                assert_eq!(recordings.result(&key, nth), Some(&result(output)), "{slots:?} {nth}");
            }
        }
        let other = Key::of("pay", r#"{"to":2}"#);
        assert_eq!(recordings(&[(None, Some("a"))]).result(&other, 0), None);
        assert_eq!(recordings(&[(None, None)]).result(&key, 0), None);
    }

    #[test]
    fn words_are_said_in_their_order() {
        let (yes, no) = (
            Word::Approved { arguments: None, by: Actor::Person("ada".into()) },
            Word::Denied { reason: "no".into(), by: Actor::Person("ada".into()) },
        );
        let recordings = recordings(&[(Some(no.clone()), None), (Some(yes.clone()), Some("a"))]);
        let key = Key::of("pay", r#"{"to":1}"#);
        let said: Vec<_> = (0..3).map(|nth| recordings.word(&key, nth)).collect();
        assert_eq!(said, [Some(&no), Some(&yes), Some(&yes)]);
    }
}
