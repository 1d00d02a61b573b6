//! Given, when, then: a session in the making. The only place that calls `decide`, and so the only
//! place that has to check its laws.

use std::collections::BTreeSet;
use std::sync::Arc;

use stepwell_core::agent::{
    ApprovalRule, ArgumentPattern, FallbackRule, History, Limits, ModelSpec, ModelTimeouts,
    RetryPolicy, Verdict as Rule,
};
use stepwell_core::codec::{EVENT_SCHEMA, decode, encode};
use stepwell_core::decide::Verdict;
use stepwell_core::event::{
    Actor, ApprovalDecision, Edit, Event, EventBody, Family, FinishReason, ModelErrorKind,
    ModelFailed, ModelReplied, OverrideApplied, SessionCreated, ToolCall, ToolFinished, ToolLost,
    ToolOutcome, Usage,
};
use stepwell_core::explain::explain;
use stepwell_core::output::OutputPolicy;
use stepwell_core::state::{CallStatus, Phase};
use stepwell_core::{
    Agent, ApprovalId, CallId, Command, Decision, Effect, Input, JsonText, Reject, Seq, SessionId,
    SessionState, Status, Text, TimestampMs, ToolKind, ToolSpec, decide, fold, pending,
};

/// Time of the first event.
pub(crate) const START: u64 = 1_000_000;

pub(crate) fn ada() -> Actor {
    Actor::Person("ada".into())
}

pub(crate) fn bob() -> Actor {
    Actor::Person("bob".into())
}

fn tool(name: &str, effect: Effect) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("does {name}"),
        parameters: JsonText::parse(r#"{"type":"object"}"#).unwrap(),
        output_schema: None,
        effect,
        timeout_ms: 60_000,
        kind: ToolKind::Worker,
    }
}

fn rule(tool: &str, verdict: Rule) -> ApprovalRule {
    ApprovalRule { tool: tool.into(), arguments: Vec::new(), commands: Vec::new(), verdict }
}

/// `find` reads, `put` is idempotent, `pay` writes unasked, `ship` and `shell` ask, `erase` is
/// forbidden, and so is `ship` with the note `forbidden`.
pub(crate) fn agent() -> Agent {
    let commands =
        |rule: ApprovalRule, command: &str| ApprovalRule { commands: vec![command.into()], ..rule };
    let forbidden = ArgumentPattern { name: "note".into(), pattern: "forbidden*".into() };
    Agent {
        name: "tester".into(),
        version: 3,
        instructions: "You move boxes.".into(),
        model: ModelSpec {
            name: "small".into(),
            base_url: "http://127.0.0.1:8000/v1".into(),
            replicas: Vec::new(),
            fallbacks: Vec::new(),
            fallback_rule: FallbackRule::default(),
            api_key_env: None,
            parameters: JsonText::parse(r#"{"temperature":0}"#).unwrap(),
            timeouts: ModelTimeouts::default(),
            history: History::default(),
            token_ids: false,
        },
        tools: vec![
            tool("find", Effect::Read),
            tool("put", Effect::Idempotent),
            tool("pay", Effect::Write),
            tool("ship", Effect::Write),
            tool("shell", Effect::Write),
            tool("erase", Effect::Write),
            ToolSpec::ask_user(),
            ToolSpec::sleep(),
        ],
        limits: Limits::default(),
        approval_rules: vec![
            rule("pay", Rule::Allow),
            rule("erase", Rule::Deny),
            ApprovalRule { arguments: vec![forbidden], ..rule("ship", Rule::Deny) },
            commands(rule("shell", Rule::Deny), "rm"),
            commands(rule("shell", Rule::Allow), "git status"),
        ],
        approval_expires_after_ms: None,
        interactive: false,
        retry: RetryPolicy { attempts_max: 3, base_ms: 1_000, cap_ms: 60_000 },
        output: OutputPolicy::default(),
    }
}

pub(crate) fn session_created(agent: Agent) -> SessionCreated {
    SessionCreated {
        agent: Arc::new(agent),
        task: Text::from("move box 9"),
        title: "move box 9".into(),
        labels: Vec::new(),
        workspace: String::new(),
        seed: "seed".into(),
        paused: false,
    }
}

pub(crate) fn create(agent: Agent) -> Input {
    Input::Create { session: session_created(agent), by: ada() }
}

/// `3.1` in text is `id(3, 1)`.
pub(crate) fn id(step: u32, index: u32) -> CallId {
    CallId { step, index }
}

pub(crate) fn kinds(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.body.kind().as_str()).collect()
}

/// A call as the model asks for it; `call_id` is the decision's to give.
pub(crate) fn wants(tool: &str, arguments: &str) -> ToolCall {
    ToolCall {
        call_id: id(0, 0),
        wire_id: String::new(),
        name: tool.into(),
        arguments: Text::from(arguments),
        repaired: None,
        problem: None,
    }
}

pub(crate) fn reply(step: u32, attempt: u32, content: &str, calls: Vec<ToolCall>) -> ModelReplied {
    let finish_reason = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    ModelReplied {
        step,
        attempt,
        content: Text::from(content),
        reasoning: Text::default(),
        tool_calls: calls,
        answer_problem: None,
        finish_reason,
        finish_word: None,
        usage: Usage {
            prompt_tokens: 100,
            cached_tokens: 0,
            completion_tokens: 10,
            ..Usage::default()
        },
        endpoint: "http://127.0.0.1:8000".into(),
        first_token_ms: 5,
        duration_ms: 50,
        tokens: None,
    }
}

pub(crate) fn failure(step: u32, attempt: u32, error: ModelErrorKind) -> ModelFailed {
    ModelFailed {
        step,
        attempt,
        endpoint: "http://127.0.0.1:8000".into(),
        error,
        message: "no luck".into(),
        http_status: None,
        retry_after_ms: None,
        time_limit: None,
        context: None,
        elsewhere: false,
    }
}

pub(crate) fn report(call_id: CallId, attempt: u32, outcome: ToolOutcome, output: &str) -> Input {
    let report = ToolFinished {
        call_id,
        attempt,
        outcome,
        output: Text::from(output),
        full_output: None,
        late: false,
        duration_ms: 7,
    };
    Input::ToolFinished { report, worker: "w1".into() }
}

pub(crate) fn lost(call_id: CallId, attempt: u32) -> Input {
    Input::ToolLost(ToolLost {
        call_id,
        attempt,
        reason: "its lease ran out".into(),
        never_started: false,
    })
}

pub(crate) fn never_started(call_id: CallId, attempt: u32) -> Input {
    Input::ToolLost(ToolLost {
        call_id,
        attempt,
        reason: "the worker went away".into(),
        never_started: true,
    })
}

pub(crate) fn reserved(call_id: CallId, attempt: u32) -> Input {
    Input::WorkerReserved { call_id, attempt, worker: "w1".into() }
}

pub(crate) fn verdict(approval_id: ApprovalId, decision: ApprovalDecision) -> Verdict {
    Verdict {
        approval_id,
        decision,
        reason: String::new(),
        arguments: None,
        output: None,
        action_digest: None,
        tool: None,
        by: ada(),
    }
}

pub(crate) fn message(text: &str) -> Input {
    Input::Message { content: Text::from(text), answers: None, client_key: None, by: ada() }
}

pub(crate) fn cancel() -> Input {
    Input::Cancel { reason: "enough".into(), by: bob() }
}

pub(crate) fn pause() -> Input {
    Input::Pause { reason: "lunch".into(), by: bob() }
}

pub(crate) fn resume() -> Input {
    Input::Resume { once: false, by: bob() }
}

/// A fork of a session in that state.
pub(crate) fn fork(state: &SessionState, edits: Vec<Edit>) -> Input {
    let fork = OverrideApplied {
        parent: SessionId::from_random([7; 16]),
        parent_seq: state.head,
        seed: "fork".into(),
        title: None,
        agent: None,
        workspace: "theirs".into(),
        edits,
        paused: false,
        asks_anew: true,
    };
    Input::Fork { fork, by: bob() }
}

/// A session, its whole history and the time.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) state: SessionState,
    pub(crate) events: Vec<Event>,
    pub(crate) now: u64,
}

impl World {
    /// Before the first event.
    pub(crate) fn empty() -> Self {
        Self { state: SessionState::default(), events: Vec::new(), now: START }
    }

    /// A session whose model was just asked.
    #[track_caller]
    pub(crate) fn of(agent: Agent) -> Self {
        let mut world = Self::empty();
        world.when(create(agent));
        world
    }

    /// A session of [`agent`] whose model was just asked.
    #[track_caller]
    pub(crate) fn new() -> Self {
        Self::of(agent())
    }

    /// A session of [`agent`] whose model asked for these calls in its first reply.
    #[track_caller]
    pub(crate) fn acting(calls: &[(&str, &str)]) -> Self {
        let mut world = Self::new();
        world.calls(calls);
        world
    }

    /// Lets time pass.
    pub(crate) fn after(&mut self, ms: u64) -> &mut Self {
        self.now += ms;
        self
    }

    /// Gives an input that must be taken; returns the kinds of its events.
    #[track_caller]
    pub(crate) fn when(&mut self, input: Input) -> Vec<&'static str> {
        let decision = self.try_when(input).expect("the input should be taken");
        kinds(&decision.events)
    }

    /// Gives an input that must be refused.
    #[track_caller]
    pub(crate) fn refused(&mut self, input: Input) -> Reject {
        self.try_when(input).expect_err("the input should be refused")
    }

    /// Gives an input and checks everything that holds for every decision.
    #[track_caller]
    pub(crate) fn try_when(&mut self, input: Input) -> Result<Decision, Reject> {
        let now = TimestampMs(self.now);
        let again = decide(&self.state, input.clone(), now);
        let decision = decide(&self.state, input, now);
        assert_eq!(decision, again, "law: same arguments, same answer");
        let decision = decision?;
        check_laws(&self.state, &decision, now);
        self.state = decision.state.clone();
        self.events.extend(decision.events.iter().cloned());
        Ok(decision)
    }

    /// Rebuilds the state from the log, as a new owner does.
    #[track_caller]
    pub(crate) fn restart(&mut self) -> Vec<Command> {
        let folded = fold(SessionState::default(), &self.events).expect("law: history is legal");
        assert_eq!(folded, self.state);
        self.state = folded;
        pending(&self.state)
    }

    #[track_caller]
    pub(crate) fn calls(&mut self, calls: &[(&str, &str)]) -> Vec<&'static str> {
        let calls = calls.iter().map(|(tool, arguments)| wants(tool, arguments)).collect();
        let attempt = self.attempt();
        self.when(Input::ModelReplied(reply(self.state.step, attempt, "", calls)))
    }

    #[track_caller]
    pub(crate) fn answer(&mut self, content: &str) -> Vec<&'static str> {
        let attempt = self.attempt();
        self.when(Input::ModelReplied(reply(self.state.step, attempt, content, Vec::new())))
    }

    #[track_caller]
    pub(crate) fn fail(&mut self, error: ModelErrorKind) -> Vec<&'static str> {
        let attempt = self.attempt();
        self.when(Input::ModelFailed(failure(self.state.step, attempt, error)))
    }

    /// The attempt of the open model call.
    #[track_caller]
    pub(crate) fn attempt(&self) -> u32 {
        match self.state.phase {
            Phase::Thinking { attempt } => attempt,
            other => panic!("the model was not asked: {other:?}"),
        }
    }

    /// The call ended well.
    #[track_caller]
    pub(crate) fn done(&mut self, call_id: CallId, output: &str) -> Vec<&'static str> {
        let attempt = self.state.calls[&call_id].attempt;
        self.when(report(call_id, attempt, ToolOutcome::Ok, output))
    }

    #[track_caller]
    pub(crate) fn reserve(&mut self, call_id: CallId) -> Vec<&'static str> {
        let attempt = self.state.calls[&call_id].attempt;
        self.when(reserved(call_id, attempt))
    }

    #[track_caller]
    pub(crate) fn lose(&mut self, call_id: CallId) -> Vec<&'static str> {
        let attempt = self.state.calls[&call_id].attempt;
        self.when(lost(call_id, attempt))
    }

    #[track_caller]
    pub(crate) fn decided(&mut self, decision: ApprovalDecision) -> Vec<&'static str> {
        let approval = self.approval();
        self.when(Input::Decide(verdict(approval, decision)))
    }

    /// The only open approval.
    #[track_caller]
    pub(crate) fn approval(&self) -> ApprovalId {
        assert_eq!(self.state.approvals.len(), 1, "one approval should be open");
        *self.state.approvals.keys().next().unwrap()
    }

    /// Jumps to the next timer and wakes the session.
    #[track_caller]
    pub(crate) fn wake(&mut self) -> Vec<&'static str> {
        self.now = self.now.max(self.state.next_due().expect("a timer should be set").0);
        self.when(Input::Wake)
    }

    /// The session as it was after so many events.
    pub(crate) fn beginning(&self, length: usize) -> Self {
        let events = self.events[..length].to_vec();
        let state = fold(SessionState::default(), &events).unwrap();
        Self { state, events, now: self.now }
    }

    pub(crate) fn pending(&self) -> Vec<Command> {
        pending(&self.state)
    }

    pub(crate) fn status(&self) -> Status {
        self.state.status()
    }

    pub(crate) fn last(&self) -> &EventBody {
        &self.events.last().expect("there are events").body
    }

    /// The messages of the request as it stands.
    pub(crate) fn messages(&self) -> Vec<serde_json::Value> {
        messages(&self.state)
    }

    /// What the model is shown of its last calls, one text after the other.
    pub(crate) fn observations(&self) -> Vec<String> {
        let tools = |it: &&serde_json::Value| it["role"] == "tool";
        let mut texts: Vec<String> = self
            .messages()
            .iter()
            .rev()
            .skip_while(|it| it["role"] == "user")
            .take_while(tools)
            .map(|it| it["content"].as_str().unwrap().to_string())
            .collect();
        texts.reverse();
        texts
    }
}

/// The messages of the request as it stands.
pub(crate) fn messages(state: &SessionState) -> Vec<serde_json::Value> {
    let body: serde_json::Value =
        serde_json::from_str(&state.prompt.body()).expect("law: a request is JSON");
    body["messages"].as_array().unwrap().clone()
}

/// What holds for every decision, whatever was decided.
#[track_caller]
pub(crate) fn check_laws(before: &SessionState, decision: &Decision, now: TimestampMs) {
    let after = fold(before.clone(), &decision.events).expect("law: decided events can be folded");
    assert_eq!(after, decision.state, "law: the decision's state is the fold of its events");
    let owed_before: BTreeSet<Command> = pending(before).into_iter().collect();
    let owed: BTreeSet<Command> = pending(&after).into_iter().collect();
    for command in &decision.commands {
        assert!(owed.contains(command), "law: a command is pending after it: {command:?}");
        assert!(!owed_before.contains(command), "law: a command is new: {command:?}");
    }
    for command in &owed {
        let is_known = owed_before.contains(command) || decision.commands.contains(command);
        assert!(is_known, "law: nothing becomes pending unsaid: {command:?}");
    }
    check_events(before, decision, now);
    if !decision.events.is_empty() {
        assert!(has_cause(&after), "law: an open session waits for something: {after:?}");
        assert!(!explain(&after).is_empty(), "law: a session says why it is where it is");
    }
    check_requests(before, &decision.events);
}

#[track_caller]
fn check_events(before: &SessionState, decision: &Decision, now: TimestampMs) {
    let mut seq = before.head;
    let mut input = Seq(0);
    for event in &decision.events {
        seq = seq.next();
        assert_eq!(event.seq, seq, "law: seqs have no gap");
        assert_eq!(event.time, now, "law: the time of an event is when it was decided");
        match event.body.kind().family() {
            Family::Input => input = seq,
            Family::Decision => assert_eq!(event.actor, Actor::Engine, "law: the engine decides"),
        }
        assert_eq!(event.cause, input, "law: a decision names the input that caused it");
        let json = encode(&event.body).expect("law: an event can be stored");
        let read = decode(event.body.kind().as_str(), EVENT_SCHEMA, &json);
        assert_eq!(read.as_ref(), Ok(&event.body), "law: a stored event reads as it was");
        assert_eq!(encode(&read.unwrap()), Ok(json), "law: reading and writing changes no byte");
    }
}

/// Each request that the events order: its digest and length are those of the body, which begins with
/// the body before.
#[track_caller]
fn check_requests(before: &SessionState, events: &[Event]) {
    let mut state = before.clone();
    for event in events {
        let known = state.prompt.body();
        let segments: Vec<&str> = state.prompt.body_segments().collect();
        let closing = segments.last().copied().unwrap_or_default().to_string();
        state = fold(state, [event]).unwrap();
        let body = state.prompt.body();
        let is_other = matches!(&event.body, EventBody::OverrideApplied(it) if it.agent.is_some());
        if known != "]}" && !is_other {
            let open = known.strip_suffix(&closing).expect("law: a request ends with its closing");
            assert!(body.starts_with(open), "law: a prompt only grows: {known} {body}");
        }
        if let EventBody::ModelRequested(it) = &event.body {
            let sent = state.request(it.attempt).body();
            assert_eq!(it.prompt_digest, blake3::hash(sent.as_bytes()).to_hex().as_str());
            assert_eq!(it.prompt_bytes, sent.len() as u64);
            assert!(
                it.fallback.is_some() || sent == body,
                "law: only a fallback is asked otherwise"
            );
            // In a history of texts the calls stand in the text of the reply.
            if state.agent().is_some_and(|it| it.model.history != History::Text) {
                check_pairs(&messages(&state));
            }
        }
    }
}

/// Every call of an assistant message is followed by exactly one tool message, in the same order, and
/// there is no other tool message.
#[track_caller]
pub(crate) fn check_pairs(messages: &[serde_json::Value]) {
    assert_eq!(messages[0]["role"], "system");
    assert_eq!(messages[1]["role"], "user");
    let mut owed: Vec<&str> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            assert!(!owed.is_empty(), "law: a tool message answers a call");
            assert_eq!(message["tool_call_id"], owed.remove(0), "law: in the order of the calls");
            continue;
        }
        assert!(owed.is_empty(), "law: every call has its tool message: {owed:?}");
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let call_id = call["id"].as_str().unwrap();
            assert!(!owed.contains(&call_id), "law: ids are unique within a reply");
            assert!(!call_id.is_empty(), "law: every call has an id");
            let arguments = call["function"]["arguments"].as_str().unwrap();
            let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap();
            assert!(arguments.is_object(), "law: servers can read the arguments");
            owed.push(call_id);
        }
    }
    assert!(owed.is_empty(), "law: every call has its tool message");
}

/// Whether an open session waits for something that can come: work that is owed, a timer, a person, a
/// message, or somebody's `resume`.
pub(crate) fn has_cause(state: &SessionState) -> bool {
    let asks = |status: &CallStatus| {
        matches!(
            status,
            CallStatus::AwaitingApproval | CallStatus::AwaitingOutcome | CallStatus::AwaitingAnswer
        )
    };
    state.is_finished()
        || !pending(state).is_empty()
        || state.paused.is_some()
        || state.phase == Phase::Listening
        || state.calls.values().any(|call| asks(&call.status))
}
