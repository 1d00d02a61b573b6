//! Two sessions side by side, step by step.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::agent::Agent;
use crate::event::{Edit, Event, EventBody, ModelReplied, Outcome, ToolOutcome, Usage};
use crate::ids::{CallId, Seq};
use crate::json::{canonical, read_strict};
use crate::text::Text;

/// What a session came to, one entry a step. Built event by event; O(history) memory, shared with the
/// events.
#[derive(Debug, Clone, Default)]
pub struct Outline {
    /// What it knew at its beginning: name of the thing and its value.
    pub beginning: Vec<(&'static str, String)>,
    /// Its steps, from 1.
    pub steps: BTreeMap<u32, StepOutline>,
    /// What people said, each with the step that was last asked then.
    pub messages: Vec<(u32, Text)>,
    /// How it ended; `None` while it is open.
    pub outcome: Option<Outcome>,
    /// Why.
    pub reason: String,
    /// Tokens.
    pub usage: Usage,
    /// Its last event.
    pub head: Seq,
    step: u32,
}

/// One step.
#[derive(Debug, Clone, Default)]
pub struct StepOutline {
    /// Its `model_requested`.
    pub seq: Seq,
    /// Digest of the request.
    pub prompt_digest: String,
    /// What the model said.
    pub content: Text,
    /// Its calls in their order.
    pub calls: BTreeMap<CallId, CallOutline>,
    /// Tokens of it.
    pub usage: Usage,
    /// Attempts to ask the model.
    pub attempts: u32,
}

/// One tool call.
#[derive(Debug, Clone, Default)]
pub struct CallOutline {
    /// The tool.
    pub tool: String,
    /// The arguments in their canonical form, or as written when they are none.
    pub arguments: String,
    /// How it ended: `ok`, `error`, `refused`, or nothing yet.
    pub ending: &'static str,
    /// What came of it.
    pub output: Text,
}

impl Outline {
    /// The next event.
    pub fn push(&mut self, event: &Event) {
        self.head = event.seq;
        match &event.body {
            EventBody::SessionCreated(it) => {
                self.note_agent(&it.agent);
                self.beginning.push(("task", it.task.preview().to_string()));
            }
            EventBody::ModelRequested(it) => {
                self.step = it.step;
                let step = self.steps.entry(it.step).or_default();
                step.attempts = it.attempt;
                step.seq = event.seq;
                step.prompt_digest.clone_from(&it.prompt_digest);
            }
            EventBody::ModelReplied(reply) => self.reply(reply),
            EventBody::ToolFinished(it) if !it.late => {
                let ending = ending_of(it.outcome);
                self.settle(it.call_id, ending, it.output.clone());
            }
            EventBody::ToolRefused(it) => {
                self.settle(it.call_id, "refused", Text::from(it.message.as_str()));
            }
            EventBody::ApprovalDecided(it) => {
                if let Some(arguments) = &it.arguments
                    && let Some(call) = self.call(it.call_id)
                {
                    call.arguments = canonical_or_raw(arguments.as_str());
                }
                if let Some(output) = &it.output {
                    self.settle(it.call_id, "ok", output.clone());
                }
            }
            EventBody::MessageReceived(it) => match it.answers {
                Some(call_id) => self.settle(call_id, "ok", it.content.clone()),
                None => self.messages.push((self.step, it.content.clone())),
            },
            EventBody::SessionFinished(it) => {
                self.outcome = Some(it.outcome);
                self.reason.clone_from(&it.reason);
            }
            EventBody::OverrideApplied(it) => {
                self.outcome = None;
                self.reason.clear();
                if let Some(agent) = &it.agent {
                    self.beginning.retain(|(name, _)| *name == "task");
                    self.note_agent(agent);
                }
                it.edits.iter().for_each(|edit| self.edit(edit));
            }
            EventBody::ToolFinished(_)
            | EventBody::ModelFailed(_)
            | EventBody::ToolScheduled(_)
            | EventBody::ToolDispatched(_)
            | EventBody::ToolLost(_)
            | EventBody::ApprovalRequested(_)
            | EventBody::TimerStarted(_)
            | EventBody::TimerFired(_)
            | EventBody::CancelRequested(_)
            | EventBody::PauseRequested(_)
            | EventBody::ResumeRequested(_) => {}
        }
    }

    fn note_agent(&mut self, agent: &Agent) {
        self.beginning.push(("agent", agent.name.clone()));
        self.beginning.push(("model", agent.model.name.clone()));
        self.beginning.push(("model parameters", agent.model.parameters.as_str().to_string()));
        self.beginning.push(("instructions", agent.instructions.clone()));
        let tools: Vec<&str> = agent.tools.iter().map(|tool| tool.name.as_str()).collect();
        self.beginning.push(("tools", tools.join(", ")));
    }

    fn edit(&mut self, edit: &Edit) {
        match edit {
            Edit::ToolResult { call_id, outcome, output } => {
                self.settle(*call_id, ending_of(*outcome), output.clone());
            }
            Edit::ModelReply(reply) => self.reply(reply),
            Edit::Arguments { call_id, arguments } => {
                if let Some(call) = self.call(*call_id) {
                    call.arguments = canonical_or_raw(arguments.as_str());
                }
            }
            Edit::Message { content } => self.messages.push((self.step, content.clone())),
        }
    }

    fn reply(&mut self, reply: &ModelReplied) {
        self.usage.add(&reply.usage);
        let step = self.steps.entry(reply.step).or_default();
        step.content = reply.content.clone();
        step.usage = reply.usage;
        for call in &reply.tool_calls {
            let outline = CallOutline {
                tool: call.name.clone(),
                arguments: canonical_or_raw(call.arguments.preview()),
                ..CallOutline::default()
            };
            step.calls.insert(call.call_id, outline);
        }
    }

    fn call(&mut self, call_id: CallId) -> Option<&mut CallOutline> {
        self.steps.get_mut(&call_id.step)?.calls.get_mut(&call_id)
    }

    fn settle(&mut self, call_id: CallId, ending: &'static str, output: Text) {
        if let Some(call) = self.call(call_id) {
            (call.ending, call.output) = (ending, output);
        }
    }
}

fn ending_of(outcome: ToolOutcome) -> &'static str {
    match outcome {
        ToolOutcome::Ok => "ok",
        ToolOutcome::Error => "error",
    }
}

fn canonical_or_raw(arguments: &str) -> String {
    read_strict(arguments).map_or_else(|_| arguments.to_string(), |value| canonical(&value))
}

/// One thing that is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The step; 0 for what a session knew at its beginning.
    pub step: u32,
    /// What differs, for example `arguments of call 3.1`.
    pub what: String,
    /// In the first session; `None` when it has none.
    pub a: Option<String>,
    /// In the second one.
    pub b: Option<String>,
}

/// What differs when a model was sent other bytes and did the same nevertheless.
const REQUEST: &str = "the request (by its digest)";

impl Difference {
    /// The model did something else, or was told something else. Not: what the sessions were given at
    /// their beginning, and requests of which only the bytes differ.
    pub fn is_divergence(&self) -> bool {
        self.step > 0 && self.what != REQUEST
    }
}

/// Every difference of two sessions, by step. What follows from another difference in the same step
/// (the digest of the request, tokens) is left out.
pub fn compare(a: &Outline, b: &Outline) -> Vec<Difference> {
    let mut found = Found::default();
    for (name, value) in &a.beginning {
        let other = b.beginning.iter().find(|(it, _)| it == name).map(|(_, value)| value);
        found.check(0, name, Some(value), other);
    }
    let steps = a.steps.keys().chain(b.steps.keys()).max().copied().unwrap_or_default();
    for step in 0..=steps {
        compare_messages(step, a, b, &mut found);
        match (a.steps.get(&step), b.steps.get(&step)) {
            (Some(a), Some(b)) => compare_step(step, a, b, &mut found),
            (None, None) => {}
            (a, b) => {
                let shown = |it: Option<&StepOutline>| it.map(in_words);
                found.add(step, "the step", shown(a), shown(b));
            }
        }
    }
    let ending = |it: &Outline| match it.outcome {
        None => "open".to_string(),
        Some(outcome) if it.reason.is_empty() => outcome.as_str().to_string(),
        Some(outcome) => format!("{}: {}", outcome.as_str(), it.reason),
    };
    let (ours, theirs) = (ending(a), ending(b));
    found.check(steps, "the end", Some(&ours), Some(&theirs));
    found.0
}

#[derive(Default)]
struct Found(Vec<Difference>);

impl Found {
    fn add(&mut self, step: u32, what: &str, a: Option<String>, b: Option<String>) {
        self.0.push(Difference { step, what: what.to_string(), a, b });
    }

    fn check(&mut self, step: u32, what: &str, a: Option<&String>, b: Option<&String>) {
        if a != b {
            self.add(step, what, a.cloned(), b.cloned());
        }
    }
}

fn compare_messages(step: u32, a: &Outline, b: &Outline, found: &mut Found) {
    let of = |it: &Outline| -> Vec<String> {
        let said = it.messages.iter().filter(|(at, _)| *at == step);
        said.map(|(_, text)| text.preview().to_string()).collect()
    };
    let (ours, theirs) = (of(a), of(b));
    for i in 0..ours.len().max(theirs.len()) {
        found.check(step, "a message", ours.get(i), theirs.get(i));
    }
}

fn compare_step(step: u32, a: &StepOutline, b: &StepOutline, found: &mut Found) {
    let before = found.0.len();
    if a.content != b.content {
        let shown = |it: &StepOutline| Some(it.content.preview().to_string());
        found.add(step, "what the model said", shown(a), shown(b));
    }
    let ids = a.calls.keys().chain(b.calls.keys()).copied();
    let ids: alloc::collections::BTreeSet<CallId> = ids.collect();
    for call_id in ids {
        match (a.calls.get(&call_id), b.calls.get(&call_id)) {
            (Some(a), Some(b)) => compare_call(call_id, a, b, found),
            (a, b) => {
                let shown = |call: &CallOutline| format!("{} {}", call.tool, call.arguments);
                found.add(step, &format!("call {call_id}"), a.map(shown), b.map(shown));
            }
        }
    }
    if found.0.len() == before && a.prompt_digest != b.prompt_digest {
        let shown = |it: &StepOutline| Some(it.prompt_digest.clone());
        found.add(step, REQUEST, shown(a), shown(b));
    }
}

fn compare_call(call_id: CallId, a: &CallOutline, b: &CallOutline, found: &mut Found) {
    let step = call_id.step;
    found.check(step, &format!("tool of call {call_id}"), Some(&a.tool), Some(&b.tool));
    let what = format!("arguments of call {call_id}");
    found.check(step, &what, Some(&a.arguments), Some(&b.arguments));
    if a.ending != b.ending || a.output != b.output {
        let shown = |call: &CallOutline| {
            Some(match call.ending {
                "" => "none yet".to_string(),
                "ok" => call.output.preview().to_string(),
                ending => format!("{ending}: {}", call.output.preview()),
            })
        };
        found.add(step, &format!("result of call {call_id}"), shown(a), shown(b));
    }
}

fn in_words(step: &StepOutline) -> String {
    if step.calls.is_empty() {
        return step.content.preview().to_string();
    }
    let calls: Vec<String> =
        step.calls.values().map(|call| format!("{} {}", call.tool, call.arguments)).collect();
    calls.join("; ")
}
