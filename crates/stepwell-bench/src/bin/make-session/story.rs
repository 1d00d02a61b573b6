//! What happens in the session: a model that asks for one to three calls a step, calls that succeed,
//! fail, are lost and are asked about, a model server that is overloaded now and then, people who take
//! their time, and texts that no page should trust.

use std::fmt::Write as _;
use std::sync::Arc;

use stepwell_core::agent::{Limits, ModelSpec};
use stepwell_core::decide::Verdict;
use stepwell_core::event::{
    Actor, ApprovalDecision, FinishReason, Label, ModelErrorKind, ModelFailed, ModelReplied,
    SessionCreated, ToolCall, ToolFinished, ToolLost, ToolOutcome, Usage,
};
use stepwell_core::summary::{ApprovalStatus, approval_rows};
use stepwell_core::{
    Agent, CallId, Command, Effect, Event, Input, JsonText, SessionId, SessionState, Text,
    TimestampMs, ToolKind, ToolSpec, decide, pending,
};

/// Time of the first event: 2026-01-05 09:00 UTC.
const START_MS: u64 = 1_767_603_600_000;
const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// Every so many tool results one is large.
const LARGE_EVERY: u64 = 2_000;
/// Its lines.
const LARGE_LINES: u32 = 6_000;

/// A session in the making.
pub(crate) struct Story {
    session_id: SessionId,
    state: SessionState,
    now: u64,
    draw: Draw,
    events_max: u64,
    results: u64,
    prompt_tokens: u64,
}

impl Story {
    pub(crate) fn new(session_id: SessionId, seed: u64, events_max: u64) -> Self {
        Self {
            session_id,
            state: SessionState::default(),
            now: START_MS,
            draw: Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            events_max,
            results: 0,
            prompt_tokens: 400,
        }
    }

    /// The events of the next input; `None` once the session is over.
    pub(crate) fn next_append(&mut self) -> anyhow::Result<Option<Vec<Event>>> {
        if self.state.is_finished() {
            return Ok(None);
        }
        let input = if self.state.origin.is_none() { self.begin() } else { self.next_input()? };
        let decision = decide(&self.state, input, TimestampMs(self.now))?;
        self.state = decision.state;
        Ok(Some(decision.events))
    }

    fn begin(&mut self) -> Input {
        let session = SessionCreated {
            agent: Arc::new(agent()),
            task: Text::from("Bring the date handling of all services to one library."),
            title: "one library for dates".into(),
            labels: vec![Label { key: "team".into(), value: "core".into() }],
            workspace: String::new(),
            seed: self.session_id.to_string(),
            paused: false,
        };
        Input::Create { session, by: person() }
    }

    /// Something that is owed, drawn by chance.
    fn next_input(&mut self) -> anyhow::Result<Input> {
        let owed = pending(&self.state);
        let now_owed: Vec<&Command> =
            owed.iter().filter(|it| !matches!(it, Command::WaitUntil { .. })).collect();
        if !now_owed.is_empty() {
            let at = self.draw.below(now_owed.len() as u64) as usize;
            if let Some(command) = now_owed.get(at) {
                return Ok(self.outcome(command));
            }
        }
        if let Some(verdict) = self.verdict() {
            return Ok(Input::Decide(verdict));
        }
        let due = owed.iter().filter_map(|it| match it {
            Command::WaitUntil { due_at, .. } => Some(due_at.0),
            Command::AskModel { .. }
            | Command::RunTool { .. }
            | Command::FollowTool { .. }
            | Command::StopTool { .. } => None,
        });
        let due = due.min().ok_or_else(|| anyhow::anyhow!("the session waits for nothing"))?;
        self.now = self.now.max(due);
        Ok(Input::Wake)
    }

    fn outcome(&mut self, command: &Command) -> Input {
        match command {
            Command::AskModel { step, attempt } => self.model(*step, *attempt),
            Command::RunTool { call_id, attempt } if self.is_write(*call_id) => {
                self.pass(20);
                let (call_id, attempt) = (*call_id, *attempt);
                Input::WorkerReserved { call_id, attempt, worker: "laptop".into() }
            }
            Command::RunTool { call_id, attempt }
            | Command::FollowTool { call_id, attempt, .. }
            | Command::StopTool { call_id, attempt } => self.tool(*call_id, *attempt),
            Command::WaitUntil { .. } => Input::Wake,
        }
    }

    fn is_write(&self, call_id: CallId) -> bool {
        let tool = self.state.calls.get(&call_id).map(|call| call.tool.as_str());
        matches!(tool, Some("edit_file" | "deploy"))
    }

    fn model(&mut self, step: u32, attempt: u32) -> Input {
        if self.draw.one_in(40) {
            self.pass(3 * SECOND_MS);
            return Input::ModelFailed(ModelFailed {
                step,
                attempt,
                endpoint: ENDPOINT.into(),
                error: ModelErrorKind::Overloaded,
                message: "the server has too much to do".into(),
                http_status: Some(503),
                retry_after_ms: None,
                time_limit: None,
                context: None,
                elsewhere: false,
            });
        }
        let took = self.pass(4 * SECOND_MS);
        let is_last = self.state.head.0 >= self.events_max;
        let calls = if is_last { 0 } else { 1 + self.draw.below(3) / 2 };
        let calls: Vec<ToolCall> = (0..calls).map(|n| self.call(step, n)).collect();
        let words = 8 + self.draw.below(50);
        let content = if is_last { "All services use it now.".into() } else { self.words(words) };
        let cached = self.prompt_tokens;
        self.prompt_tokens = (self.prompt_tokens + 90).min(120_000);
        Input::ModelReplied(ModelReplied {
            step,
            attempt,
            content: Text::from(content),
            reasoning: Text::default(),
            answer_problem: None,
            finish_reason: if is_last { FinishReason::Stop } else { FinishReason::ToolCalls },
            finish_word: None,
            tool_calls: calls,
            usage: Usage {
                prompt_tokens: self.prompt_tokens,
                cached_tokens: cached,
                completion_tokens: words * 2,
                ..Usage::default()
            },
            endpoint: ENDPOINT.into(),
            first_token_ms: took / 4,
            duration_ms: took,
            tokens: None,
        })
    }

    fn call(&mut self, step: u32, n: u64) -> ToolCall {
        let file = format!("services/{}/dates.py", self.draw.of(&["billing", "search", "mail"]));
        let (name, arguments) = match self.draw.below(20) {
            0..=9 => ("read_file", format!("{{\"path\":\"{file}\"}}")),
            10..=15 => ("shell", format!("{{\"command\":\"pytest -q {file} -k {step}\"}}")),
            16..=18 => (
                "edit_file",
                format!("{{\"path\":\"{file}\",\"old\":\"day, month\",\"new\":\"month, day\"}}"),
            ),
            _ => ("deploy", format!("{{\"service\":\"billing\",\"step\":{step}}}")),
        };
        ToolCall {
            repaired: None,
            call_id: CallId { step: 0, index: 0 },
            wire_id: format!("call_{step}_{n}"),
            name: name.into(),
            arguments: Text::from(arguments),
            problem: None,
        }
    }

    fn tool(&mut self, call_id: CallId, attempt: u32) -> Input {
        let duration_ms = self.pass(2 * SECOND_MS);
        if self.draw.one_in(80) && !self.is_write(call_id) {
            return Input::ToolLost(ToolLost {
                call_id,
                attempt,
                reason: "the worker went away".into(),
                never_started: false,
            });
        }
        self.results += 1;
        let is_error = self.draw.one_in(12);
        let report = ToolFinished {
            call_id,
            attempt,
            outcome: if is_error { ToolOutcome::Error } else { ToolOutcome::Ok },
            output: Text::from(self.output(is_error)),
            full_output: None,
            late: false,
            duration_ms,
        };
        Input::ToolFinished { report, worker: "laptop".into() }
    }

    fn output(&mut self, is_error: bool) -> String {
        if self.results % LARGE_EVERY == 3 {
            let line =
                |n| format!("{n:06} <script>document.title='owned'</script> ünïcode \u{1f4a5}\n");
            return (0..LARGE_LINES).map(line).collect();
        }
        if is_error {
            return "FAILED test_dates.py::test_order - assert '2026-05-03' == '2026-03-05'".into();
        }
        match self.draw.below(6) {
            0 => "<img src=x onerror=\"alert(1)\"> **not markup**".into(),
            1 => "12 passed in 0.4 s".into(),
            _ => {
                let words = 20 + self.draw.below(120);
                self.words(words)
            }
        }
    }

    /// A person's word on an open approval, minutes or hours later.
    fn verdict(&mut self) -> Option<Verdict> {
        let rows = approval_rows(self.session_id, &SessionState::default(), &self.state);
        let open = rows.into_iter().find(|row| row.status == ApprovalStatus::Open)?;
        let wait = if self.draw.one_in(6) { 4 * HOUR_MS } else { 5 * MINUTE_MS };
        self.pass(wait);
        let is_denied = self.draw.one_in(5);
        Some(Verdict {
            approval_id: open.approval_id,
            decision: if is_denied { ApprovalDecision::Deny } else { ApprovalDecision::Approve },
            reason: if is_denied { "not on a Friday".into() } else { String::new() },
            arguments: None,
            output: None,
            action_digest: None,
            tool: None,
            by: person(),
        })
    }

    /// Time goes by: up to `most`, and one millisecond at least.
    fn pass(&mut self, most: u64) -> u64 {
        let took = 1 + self.draw.below(most);
        self.now += took;
        took
    }

    fn words(&mut self, count: u64) -> String {
        const WORDS: &[&str] = &[
            "the", "month", "and", "day", "are", "swapped", "in", "parse", "so", "I", "read",
            "tests", "first", "then", "change", "it", "once", "for", "all", "services", "`dates`",
        ];
        let mut text = String::new();
        for n in 0..count {
            let gap = if n == 0 {
                ""
            } else if n % 16 == 0 {
                "\n"
            } else {
                " "
            };
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{gap}{}", self.draw.of(WORDS));
        }
        text
    }
}

const ENDPOINT: &str = "http://127.0.0.1:8000/v1";

fn person() -> Actor {
    Actor::Person("ada".into())
}

fn agent() -> Agent {
    let tool = |name: &str, description: &str, effect| ToolSpec {
        name: name.into(),
        description: description.into(),
        parameters: JsonText::empty_object(),
        output_schema: None,
        effect,
        timeout_ms: 60_000,
        kind: ToolKind::Worker,
    };
    Agent {
        version: 1,
        tools: vec![
            tool("read_file", "Reads a file.", Effect::Read),
            tool("shell", "Runs a command.", Effect::Idempotent),
            tool("edit_file", "Changes a file.", Effect::Write),
            tool("deploy", "Deploys a service.", Effect::Write),
        ],
        limits: Limits { steps_max: u32::MAX, repeat_window: 0, ..Limits::default() },
        approval_rules: vec![stepwell_core::agent::ApprovalRule {
            tool: "edit_file".into(),
            arguments: Vec::new(),
            commands: Vec::new(),
            verdict: stepwell_core::agent::Verdict::Allow,
        }],
        ..Agent::new(
            "coder",
            "You repair Python projects. Read before you write.",
            ModelSpec::new("qwen3-coder", ENDPOINT),
        )
    }
}

/// Chance that a seed decides.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        let at = self.below(all.len() as u64) as usize;
        all.get(at).copied().unwrap_or_default()
    }
}
