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
    /// What people said.
    pub messages: Vec<Said>,
    /// How it ended; `None` while it is open.
    pub outcome: Option<Outcome>,
    /// Why.
    pub reason: String,
    /// Tokens.
    pub usage: Usage,
    /// Its last event.
    pub head: Seq,
    /// Its `session_finished`; 0 while it is open.
    ended_at: Seq,
    step: u32,
}

/// What a person said.
#[derive(Debug, Clone)]
pub struct Said {
    /// The step that was last asked then.
    pub step: u32,
    /// The words.
    pub content: Text,
    at: Seq,
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
    /// The event with what the model said; 0 while it said nothing.
    replied_at: Seq,
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
    /// The event that has its arguments as they are.
    asked_at: Seq,
    /// The event with what came of it; 0 for nothing yet.
    ended_at: Seq,
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
            EventBody::ModelReplied(reply) => self.reply(reply, event.seq),
            EventBody::ToolFinished(it) if !it.late => {
                let ending = ending_of(it.outcome);
                self.settle(it.call_id, ending, it.output.clone(), event.seq);
            }
            EventBody::ToolRefused(it) => {
                self.settle(it.call_id, "refused", Text::from(it.message.as_str()), event.seq);
            }
            EventBody::ApprovalDecided(it) => {
                if let Some(arguments) = &it.arguments
                    && let Some(call) = self.call(it.call_id)
                {
                    call.arguments = canonical_or_raw(arguments.as_str());
                    call.asked_at = event.seq;
                }
                if let Some(output) = &it.output {
                    self.settle(it.call_id, "ok", output.clone(), event.seq);
                }
            }
            EventBody::MessageReceived(it) => match it.answers {
                Some(call_id) => self.settle(call_id, "ok", it.content.clone(), event.seq),
                None => self.say(&it.content, event.seq),
            },
            EventBody::SessionFinished(it) => {
                self.outcome = Some(it.outcome);
                self.reason.clone_from(&it.reason);
                self.ended_at = event.seq;
            }
            EventBody::OverrideApplied(it) => {
                self.outcome = None;
                self.reason.clear();
                self.ended_at = Seq(0);
                if let Some(agent) = &it.agent {
                    self.beginning.retain(|(name, _)| *name == "task");
                    self.note_agent(agent);
                }
                it.edits.iter().for_each(|edit| self.edit(edit, event.seq));
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

    fn edit(&mut self, edit: &Edit, at: Seq) {
        match edit {
            Edit::ToolResult { call_id, outcome, output } => {
                self.settle(*call_id, ending_of(*outcome), output.clone(), at);
            }
            Edit::ModelReply(reply) => self.reply(reply, at),
            Edit::Arguments { call_id, arguments } => {
                if let Some(call) = self.call(*call_id) {
                    call.arguments = canonical_or_raw(arguments.as_str());
                    call.asked_at = at;
                }
            }
            Edit::Message { content } => self.say(content, at),
        }
    }

    fn say(&mut self, content: &Text, at: Seq) {
        self.messages.push(Said { step: self.step, content: content.clone(), at });
    }

    fn reply(&mut self, reply: &ModelReplied, at: Seq) {
        self.usage.add(&reply.usage);
        let step = self.steps.entry(reply.step).or_default();
        step.content = reply.content.clone();
        step.usage = reply.usage;
        step.replied_at = at;
        for call in &reply.tool_calls {
            let outline = CallOutline {
                tool: call.name.clone(),
                arguments: canonical_or_raw(call.arguments.preview()),
                asked_at: at,
                ..CallOutline::default()
            };
            step.calls.insert(call.call_id, outline);
        }
    }

    fn call(&mut self, call_id: CallId) -> Option<&mut CallOutline> {
        self.steps.get_mut(&call_id.step)?.calls.get_mut(&call_id)
    }

    fn settle(&mut self, call_id: CallId, ending: &'static str, output: Text, at: Seq) {
        if let Some(call) = self.call(call_id) {
            (call.ending, call.output, call.ended_at) = (ending, output, at);
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// The step; 0 for what a session knew at its beginning.
    pub step: u32,
    /// What differs, for example `arguments of call 3.1`.
    pub what: String,
    /// In the first session; `None` when it has none.
    pub a: Option<String>,
    /// In the second one.
    pub b: Option<String>,
    /// The event of the first session that says so; 0 for its beginning, and for what is not there.
    pub a_seq: Seq,
    /// The event of the second one.
    pub b_seq: Seq,
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
        let of_name = |(it, value): &(&str, String)| (it == name).then(|| told(value, Seq(0)));
        found.check(0, name, Some(told(value, Seq(0))), b.beginning.iter().find_map(of_name));
    }
    let steps = a.steps.keys().chain(b.steps.keys()).max().copied().unwrap_or_default();
    for step in 0..=steps {
        compare_messages(step, a, b, &mut found);
        match (a.steps.get(&step), b.steps.get(&step)) {
            (Some(a), Some(b)) => compare_step(step, a, b, &mut found),
            (None, None) => {}
            (a, b) => {
                let shown = |it: &StepOutline| (in_words(it), it.replied_at.max(it.seq));
                found.add(step, "the step", a.map(shown), b.map(shown));
            }
        }
    }
    let ending = |it: &Outline| match it.outcome {
        None => "open".to_string(),
        Some(outcome) if it.reason.is_empty() => outcome.as_str().to_string(),
        Some(outcome) => format!("{}: {}", outcome.as_str(), it.reason),
    };
    let end = |it: &Outline| Some((ending(it), it.ended_at));
    found.check(steps, "the end", end(a), end(b));
    found.0
}

/// What one session says of a thing, and the event that says it.
type Told = (String, Seq);

fn told(text: &str, at: Seq) -> Told {
    (text.to_string(), at)
}

#[derive(Default)]
struct Found(Vec<Difference>);

impl Found {
    fn add(&mut self, step: u32, what: &str, a: Option<Told>, b: Option<Told>) {
        let (a, a_seq) = a.map_or_else(Default::default, |(text, at)| (Some(text), at));
        let (b, b_seq) = b.map_or_else(Default::default, |(text, at)| (Some(text), at));
        self.0.push(Difference { step, what: what.to_string(), a, b, a_seq, b_seq });
    }

    /// The same words are the same, wherever they were said.
    fn check(&mut self, step: u32, what: &str, a: Option<Told>, b: Option<Told>) {
        if a.as_ref().map(|(text, _)| text) != b.as_ref().map(|(text, _)| text) {
            self.add(step, what, a, b);
        }
    }
}

fn compare_messages(step: u32, a: &Outline, b: &Outline, found: &mut Found) {
    let of = |it: &Outline| -> Vec<Told> {
        let said = it.messages.iter().filter(|it| it.step == step);
        said.map(|it| told(it.content.preview(), it.at)).collect()
    };
    let (ours, theirs) = (of(a), of(b));
    for i in 0..ours.len().max(theirs.len()) {
        found.check(step, "a message", ours.get(i).cloned(), theirs.get(i).cloned());
    }
}

fn compare_step(step: u32, a: &StepOutline, b: &StepOutline, found: &mut Found) {
    let before = found.0.len();
    if a.content != b.content {
        let shown = |it: &StepOutline| Some(told(it.content.preview(), it.replied_at));
        found.add(step, "what the model said", shown(a), shown(b));
    }
    let ids = a.calls.keys().chain(b.calls.keys()).copied();
    let ids: alloc::collections::BTreeSet<CallId> = ids.collect();
    for call_id in ids {
        match (a.calls.get(&call_id), b.calls.get(&call_id)) {
            (Some(a), Some(b)) => compare_call(call_id, a, b, found),
            (a, b) => {
                let shown = |call: &CallOutline| {
                    (format!("{} {}", call.tool, call.arguments), call.asked_at)
                };
                found.add(step, &format!("call {call_id}"), a.map(shown), b.map(shown));
            }
        }
    }
    if found.0.len() == before && a.prompt_digest != b.prompt_digest {
        let shown = |it: &StepOutline| Some(told(&it.prompt_digest, it.seq));
        found.add(step, REQUEST, shown(a), shown(b));
    }
}

fn compare_call(call_id: CallId, a: &CallOutline, b: &CallOutline, found: &mut Found) {
    let step = call_id.step;
    let tool = |call: &CallOutline| Some(told(&call.tool, call.asked_at));
    found.check(step, &format!("tool of call {call_id}"), tool(a), tool(b));
    let arguments = |call: &CallOutline| Some(told(&call.arguments, call.asked_at));
    found.check(step, &format!("arguments of call {call_id}"), arguments(a), arguments(b));
    if a.ending != b.ending || a.output != b.output {
        let shown = |call: &CallOutline| {
            let words = match call.ending {
                "" => "none yet".to_string(),
                "ok" => call.output.preview().to_string(),
                ending => format!("{ending}: {}", call.output.preview()),
            };
            Some((words, call.ended_at))
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
