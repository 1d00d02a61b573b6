//! Events as lines that a person can read:
//! `12:03:04  #17  tool_finished  shell 3.1 ok, 1.9 s: exit code 0 after 1.9 s`.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use serde_json::Value;
use stepwell_proto::v1::Event;

use super::prefix;
use super::table::cut_end;
use super::visible::brief;
use super::when;
use crate::out::{Paint, Tone};

/// Column of the type, so that what follows it is aligned.
const KIND_COLUMNS: usize = 18;
/// Room for words when there is no terminal to fit.
const PREVIEW_COLUMNS: usize = 160;
/// Least room for words on a narrow terminal; the line wraps there.
const PREVIEW_COLUMNS_MIN: usize = 24;

/// Turns the events of one session into lines. Give it all events in order: it remembers which tool
/// a call id stands for.
#[derive(Debug)]
pub(crate) struct Narrator {
    tools: BTreeMap<String, String>,
    zone: TimeZone,
    paint: Paint,
    width: Option<usize>,
}

impl Narrator {
    /// For one session, times in `zone`.
    pub(crate) fn new(zone: TimeZone, paint: Paint, width: Option<usize>) -> Self {
        Self { tools: BTreeMap::new(), zone, paint, width }
    }

    /// Reads an event without a line for it.
    pub(crate) fn note(&mut self, event: &Event) {
        self.remember(&body(event));
    }

    /// The line of the next event.
    pub(crate) fn line(&mut self, event: &Event) -> String {
        let body = body(event);
        self.remember(&body);
        let (tone, words) = self.words(event, &body);
        let words = brief(&words);
        let head = format!("{}  #{:<4} ", when::clock(event.time_ms, &self.zone), event.seq);
        let used = head.len() + KIND_COLUMNS + 1;
        let room = self
            .width
            .map_or(PREVIEW_COLUMNS, |width| width.saturating_sub(used).max(PREVIEW_COLUMNS_MIN));
        let kind = format!("{:KIND_COLUMNS$}", brief(&event.r#type));
        let words = cut_end(&words, room);
        let line = format!("{}{} {words}", self.paint.faint(head), self.paint.tone(tone, kind));
        line.trim_end().to_owned()
    }

    /// The tool of a call, as far as its step was seen.
    pub(crate) fn tool_of(&self, call_id: &str) -> Option<&str> {
        self.tools.get(call_id).map(String::as_str)
    }

    fn remember(&mut self, body: &Value) {
        for call in list(body, "tool_calls") {
            self.tools.insert(text(call, "call_id").to_owned(), text(call, "name").to_owned());
        }
    }

    /// `shell 3.1`, or only the call when its step was not seen.
    fn call(&self, body: &Value) -> String {
        self.named(text(body, "call_id"))
    }

    fn named(&self, call_id: &str) -> String {
        match self.tool_of(call_id) {
            Some(tool) => format!("{tool} {call_id}"),
            None => format!("call {call_id}"),
        }
    }

    fn words(&self, event: &Event, body: &Value) -> (Tone, String) {
        let by = person(&event.actor);
        match event.r#type.as_str() {
            "session_created" => (Tone::Strong, created(body, by)),
            "model_requested" => (Tone::Faint, requested(body)),
            "model_replied" => (Tone::Busy, replied(body)),
            "model_failed" => (Tone::Bad, failed(body)),
            "tool_scheduled" => (Tone::Faint, self.call(body) + &attempt(body)),
            "tool_dispatched" => {
                let worker = worker(text(body, "worker"));
                (Tone::Faint, format!("{}{} to worker {worker}", self.call(body), attempt(body)))
            }
            "tool_finished" => self.finished_tool(body),
            "tool_lost" => (Tone::Bad, self.lost_tool(body)),
            "tool_refused" => (
                Tone::Attention,
                format!(
                    "{} ({}): {}",
                    self.call(body),
                    text(body, "reason"),
                    text(body, "message")
                ),
            ),
            "approval_requested" => (Tone::Attention, self.asked(event, body)),
            "approval_decided" => (Tone::Good, self.decided(body, by)),
            "message_received" => (Tone::Strong, self.message(body, by)),
            "timer_started" => (Tone::Faint, timer_started(event, body)),
            "timer_fired" => (Tone::Faint, text(body, "timer").to_owned()),
            "cancel_requested" | "pause_requested" | "resume_requested" => {
                (Tone::Attention, with_reason(format!("by {by}"), text(body, "reason")))
            }
            "override_applied" => (Tone::Strong, self.forked(body, by)),
            "session_finished" => finished(body),
            // Written by another release: better its JSON than nothing.
            _ => (Tone::Plain, body.to_string()),
        }
    }

    fn message(&self, body: &Value, by: &str) -> String {
        let answers = match text(body, "answers") {
            "" => String::new(),
            call_id => format!(" (answers {})", self.named(call_id)),
        };
        format!("{by}{answers}: {}", payload(body, "content"))
    }

    /// How a fork begins: of whom, and what is otherwise.
    fn forked(&self, body: &Value, by: &str) -> String {
        let mut words = format!(
            "fork of {} at event {}, by {by}",
            text(body, "parent"),
            number(body, "parent_seq")
        );
        let mut others: Vec<String> = list(body, "edits").map(|it| self.edit(it)).collect();
        if let Some(agent) = body.get("agent") {
            let model = agent.get("model").map(|it| text(it, "name")).unwrap_or_default();
            others.push(format!("agent {} with model {model}", text(agent, "name")));
        }
        if !others.is_empty() {
            words.push_str(": ");
            words.push_str(&others.join("; "));
        }
        if flag(body, "paused") {
            words.push_str(", begins held");
        }
        words
    }

    /// One thing that is otherwise in a fork.
    fn edit(&self, edit: &Value) -> String {
        let part = |name: &str| edit.get(name);
        if let Some(it) = part("tool_result") {
            let what = if text(it, "outcome") == "ok" { "result" } else { "error" };
            format!("{} has the {what} {:?}", self.call(it), gist(payload(it, "output")))
        } else if let Some(it) = part("model_reply") {
            format!("the model says: {}", replied(it))
        } else if let Some(it) = part("arguments") {
            let arguments = it.get("arguments").map(Value::to_string).unwrap_or_default();
            format!("{} has the arguments {arguments}", self.call(it))
        } else if let Some(it) = part("message") {
            format!("a message: {}", payload(it, "content"))
        } else {
            // Written by another release.
            edit.to_string()
        }
    }

    fn finished_tool(&self, body: &Value) -> (Tone, String) {
        let outcome = text(body, "outcome");
        let tone = if outcome == "ok" { Tone::Good } else { Tone::Bad };
        let late = if flag(body, "late") { ", late: changes nothing" } else { "" };
        let took = when::duration(number(body, "duration_ms"));
        let call = self.call(body);
        let output = gist(payload(body, "output"));
        (tone, with_reason(format!("{call} {outcome}, {took}{late}"), &output))
    }

    fn lost_tool(&self, body: &Value) -> String {
        let outcome = if flag(body, "never_started") { "never started" } else { "outcome unknown" };
        with_reason(
            format!("{}{}, {outcome}", self.call(body), attempt(body)),
            text(body, "reason"),
        )
    }

    fn asked(&self, event: &Event, body: &Value) -> String {
        let approval = format!("{}.{}", event.session_id, number(body, "approval_id"));
        let call = self.call(body);
        match text(body, "question") {
            "what_happened" => format!("what became of {call}? stepwell resolve {approval}"),
            _ => format!("may {call} run? stepwell approve {approval}"),
        }
    }

    fn decided(&self, body: &Value, by: &str) -> String {
        let changed = if body.get("arguments").is_some() { ", arguments changed" } else { "" };
        let decision = match text(body, "decision") {
            "approve" => "approved",
            "approve_for_session" => "approved for the session",
            "deny" => "denied",
            "happened" => "it happened",
            "did_not_happen" => "it did not happen",
            "failed" => "counts as failed",
            other => other,
        };
        with_reason(
            format!("{decision}: {} by {by}{changed}", self.call(body)),
            text(body, "reason"),
        )
    }
}

fn created(body: &Value, by: &str) -> String {
    let agent = body.get("agent").unwrap_or(&Value::Null);
    let version = match number(agent, "version") {
        0 => String::new(),
        version => format!(" v{version}"),
    };
    format!("{} (agent {}{version}, by {by})", text(body, "title"), text(agent, "name"))
}

fn requested(body: &Value) -> String {
    let size = when::bytes(number(body, "prompt_bytes"));
    let fallback = match text(body, "fallback") {
        "" => String::new(),
        model => format!(", fallback to {model}"),
    };
    format!("step {}{}, prompt {size}{fallback}", number(body, "step"), attempt(body))
}

fn replied(body: &Value) -> String {
    let usage = body.get("usage").unwrap_or(&Value::Null);
    let mut words = format!(
        "step {}, {}, {} tokens{}",
        number(body, "step"),
        when::duration(number(body, "duration_ms")),
        when::number(number(usage, "completion_tokens")),
        broken(body)
    );
    let content = payload(body, "content");
    if !content.trim().is_empty() {
        words.push_str(": ");
        words.push_str(content);
    }
    let calls: Vec<String> = list(body, "tool_calls")
        .map(|call| format!("{} {}", text(call, "name"), payload(call, "arguments")))
        .collect();
    if !calls.is_empty() {
        words.push_str(" -> ");
        words.push_str(&calls.join("; "));
    }
    words
}

/// Stands before what was said, which may be long.
fn broken(body: &Value) -> String {
    let broke = body.pointer("/tokens/broke");
    broke.map(|it| format!(", {}", prefix::broke(it))).unwrap_or_default()
}

fn failed(body: &Value) -> String {
    // An error that came after the answer had begun has the status of that beginning.
    let status = match number(body, "http_status") {
        0 => String::new(),
        200..=299 => " in a stream that had begun well".to_owned(),
        status => format!(" {status}"),
    };
    let endpoint = text(body, "endpoint");
    let kind = text(body, "error");
    format!(
        "step {}{}, {kind}{status} at {endpoint}: {}",
        number(body, "step"),
        attempt(body),
        text(body, "message")
    )
}

fn timer_started(event: &Event, body: &Value) -> String {
    let due_ms = i64::try_from(number(body, "due_at")).unwrap_or(i64::MAX);
    format!("{} {}", text(body, "timer"), when::relative(due_ms, event.time_ms))
}

fn finished(body: &Value) -> (Tone, String) {
    let outcome = text(body, "outcome");
    let tone = if outcome == "completed" { Tone::Good } else { Tone::Bad };
    let limit = match text(body, "limit") {
        "" => String::new(),
        limit => format!(" ({limit})"),
    };
    (tone, with_reason(format!("{}{limit}", outcome.replace('_', " ")), text(body, "reason")))
}

fn with_reason(words: String, reason: &str) -> String {
    if reason.is_empty() { words } else { format!("{words}: {reason}") }
}

/// The first attempt is not worth a word.
fn attempt(body: &Value) -> String {
    match number(body, "attempt") {
        0 | 1 => String::new(),
        attempt => format!(" (attempt {attempt})"),
    }
}

/// What one line can say of an output: its last line when that is a note in brackets (how a command
/// ended), else its first.
fn gist(output: &str) -> String {
    let mut lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let last = lines.next_back().unwrap_or(first);
    let note = last.strip_prefix('[').and_then(|last| last.strip_suffix(']'));
    note.unwrap_or(first).to_owned()
}

/// `ada` for `person:ada`.
pub(crate) fn person(actor: &str) -> &str {
    actor.strip_prefix("person:").unwrap_or(actor)
}

/// The worker of a server process has the process in its name; a person needs only the name.
pub(crate) fn worker(name: &str) -> &str {
    name.split_once("@node-").map_or(name, |(name, _)| name)
}

fn body(event: &Event) -> Value {
    serde_json::from_str(&event.body_json).unwrap_or(Value::Null)
}

fn text<'a>(body: &'a Value, field: &str) -> &'a str {
    body.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A text that may have been left in the blob table.
fn payload<'a>(body: &'a Value, field: &str) -> &'a str {
    match body.get(field) {
        Some(Value::Object(blob)) => {
            blob.get("preview").and_then(Value::as_str).unwrap_or_default()
        }
        _ => text(body, field),
    }
}

fn number(body: &Value, field: &str) -> u64 {
    body.get(field).and_then(Value::as_u64).unwrap_or_default()
}

fn flag(body: &Value, field: &str) -> bool {
    body.get(field).and_then(Value::as_bool).unwrap_or_default()
}

fn list<'a>(body: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    body.get(field).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests;
