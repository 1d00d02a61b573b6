//! Forks: a new session made of another's beginning and of what is otherwise.

use std::collections::BTreeSet;
use std::sync::Arc;

use stepwell_core::agent::Agent;
use stepwell_core::event::{
    Edit, EventBody, FinishReason, ModelReplied, ModelRequested, OverrideApplied, ToolCall,
    ToolOutcome, Usage,
};
use stepwell_core::state::{ForkedFrom, Phase};
use stepwell_core::survey::{Hazard, Survey};
use stepwell_core::{
    Actor, CallId, Input, Reject, Seq, SessionId, SessionState, Text, TimestampMs, decide,
};
use stepwell_ports::{NewSession, Store};

use crate::engine::{CreatedSession, Engine, append_of};
use crate::error::EngineError;
use crate::load::{load_at, outline_at, walk};
use crate::{answer, validate};

/// A fork to make.
#[derive(Debug, Clone)]
pub struct ForkSession {
    /// The session to begin with.
    pub parent: SessionId,
    /// Its last event that both share; found out from the changes when there is none.
    pub at: Option<Seq>,
    /// What is otherwise, in this order.
    pub changes: Vec<Change>,
    /// Another definition from there on.
    pub agent: Option<Agent>,
    /// Name for lists; the parent's when there is none.
    pub title: Option<String>,
    /// Folder of the workspace; the parent's when empty.
    pub workspace: String,
    /// Hold it before it does anything.
    pub paused: bool,
    /// The client's key.
    pub client_key: Option<String>,
    /// BLAKE3 of what the client sent.
    pub request_digest: String,
    /// Who forks.
    pub by: Actor,
}

/// One thing that is to be otherwise.
#[derive(Debug, Clone)]
pub enum Change {
    /// This is what the call came to.
    Result {
        /// The call.
        call_id: CallId,
        /// Whether it did its work.
        outcome: ToolOutcome,
        /// Its result, or its error in words.
        output: Text,
    },
    /// This is what the model said in that step.
    Reply {
        /// The step; the one that is open at the moment of the fork when 0.
        step: u32,
        /// Its words.
        content: Text,
        /// The calls it asks for: tool and arguments.
        calls: Vec<(String, String)>,
    },
    /// The call has these arguments.
    Arguments {
        /// The call.
        call_id: CallId,
        /// One JSON object.
        arguments: String,
    },
    /// Somebody says this.
    Message {
        /// The text.
        content: Text,
    },
}

/// What a fork would be, before it is made.
#[derive(Debug, Clone)]
pub struct ForkPlan {
    /// The parent's last event that both share.
    pub at: Seq,
    /// What the parent did to the world after that, and the fork may do again.
    pub hazards: Vec<Hazard>,
    /// Folder of the workspace.
    pub workspace: String,
    /// The parent works, or worked, in the same folder: its files are as they are now.
    pub shares_workspace: bool,
    before: SessionState,
    edits: Vec<Edit>,
}

impl Engine {
    /// Finds out what a fork would be. Writes nothing. Cost: O(the parent's history).
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::NoSuchEvent`], [`EngineError::Rejected`] when the fork
    /// does not fit that moment, [`EngineError::Invalid`] for arguments that do not fit the tool,
    /// [`EngineError::Quarantined`] when the parent's history cannot be read, [`EngineError::Store`].
    pub async fn plan_fork(&self, fork: &ForkSession) -> Result<ForkPlan, EngineError> {
        if let Some(problem) = said_twice(&fork.changes) {
            return Err(EngineError::Invalid { what: "the fork:", problem });
        }
        let store = &*self.inner.ports.store;
        let survey = survey(store, fork.parent).await?;
        let at = match fork.at {
            Some(at) => at,
            None => moment(&survey, fork)?,
        };
        let before = load_at(store, fork.parent, at).await?;
        let agent = fork.agent.as_ref().or(before.agent().map(|agent| &**agent));
        let agent = agent.ok_or(EngineError::NotFound { session_id: fork.parent })?;
        if let Some(problem) = fork.changes.iter().find_map(|it| misplaced(&survey, at, it)) {
            return Err(Reject::CannotFork { reason: problem }.into());
        }
        let edits = edits_of(fork, agent, &before)?;
        let theirs = match survey.workspace() {
            "" => fork.parent.to_string(),
            named => named.to_string(),
        };
        let workspace =
            if fork.workspace.is_empty() { theirs.clone() } else { fork.workspace.clone() };
        let plan = ForkPlan {
            at,
            hazards: survey.hazards(at, agent, &before, &edits),
            shares_workspace: workspace == theirs,
            workspace,
            before,
            edits,
        };
        // Refused now rather than after somebody read the report.
        let now = self.inner.ports.clock.now();
        decide(&plan.before, plan.input(fork, fork.parent), now)?;
        Ok(plan)
    }

    /// Forks a session. The parent is only read. Durable when it returns.
    ///
    /// # Errors
    /// As [`Engine::plan_fork`] and [`Engine::create`].
    pub async fn fork(
        &self,
        fork: ForkSession,
        plan: ForkPlan,
    ) -> Result<CreatedSession, EngineError> {
        if self.inner.draining.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        let session_id = self.inner.ports.random.session_id();
        let now: TimestampMs = self.inner.ports.clock.now();
        let decision = decide(&plan.before, plan.input(&fork, session_id), now)?;
        // What is open in the beginning is open here, too, so its rows begin with nothing.
        let rows_before = SessionState { head: plan.at, ..SessionState::default() };
        let append =
            append_of(session_id, &rows_before, &decision.state, decision.events, Vec::new())
                .ok_or(EngineError::NotFound { session_id: fork.parent })?;
        let new = NewSession {
            session_id,
            client_key: fork.client_key,
            request_digest: fork.request_digest,
            owner: self.inner.options.node.clone(),
            beginning: Some(ForkedFrom { session_id: fork.parent, seq: plan.at }),
            append,
        };
        self.begin(new, decision.state).await
    }

    /// The state of a session as it was after the event `at`, without the texts of its prompt. Cost:
    /// some thousand events, however long the session is.
    ///
    /// # Errors
    /// As [`Engine::state_at`].
    pub async fn outline_at(
        &self,
        session_id: SessionId,
        at: Seq,
    ) -> Result<SessionState, EngineError> {
        outline_at(&*self.inner.ports.store, session_id, at).await
    }

    /// The state of a session as it was after the event `at`. Writes nothing.
    ///
    /// # Errors
    /// As [`Engine::state`], and [`EngineError::NoSuchEvent`].
    pub async fn state_at(
        &self,
        session_id: SessionId,
        at: Seq,
    ) -> Result<SessionState, EngineError> {
        load_at(&*self.inner.ports.store, session_id, at).await
    }
}

impl Engine {
    /// Where the model was last asked in that step, and the digest of what it was sent. Cost: O(the
    /// session's history).
    ///
    /// # Errors
    /// As [`Engine::state`].
    pub async fn request_of_step(
        &self,
        session_id: SessionId,
        step: u32,
    ) -> Result<Option<(Seq, ModelRequested)>, EngineError> {
        let mut found = None;
        walk(&*self.inner.ports.store, session_id, &mut |event| {
            if let EventBody::ModelRequested(it) = event.body
                && it.step == step
            {
                found = Some((event.seq, it));
            }
        })
        .await?;
        Ok(found)
    }
}

impl ForkPlan {
    fn input(&self, fork: &ForkSession, session_id: SessionId) -> Input {
        let event = OverrideApplied {
            parent: fork.parent,
            parent_seq: self.at,
            seed: session_id.to_string(),
            title: fork.title.clone(),
            agent: fork.agent.clone().map(Arc::new),
            workspace: self.workspace.clone(),
            edits: self.edits.clone(),
            paused: fork.paused,
            asks_anew: true,
        };
        Input::Fork { fork: event, by: fork.by.clone() }
    }
}

async fn survey(store: &dyn Store, session_id: SessionId) -> Result<Survey, EngineError> {
    let mut survey = Survey::default();
    walk(store, session_id, &mut |event| survey.push(&event)).await?;
    Ok(survey)
}

/// What two changes set at once: only one of them could hold.
fn said_twice(changes: &[Change]) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut targets = changes.iter().filter_map(|change| match change {
        Change::Result { call_id, .. } => Some(format!("the result of call {call_id}")),
        Change::Arguments { call_id, .. } => Some(format!("the arguments of call {call_id}")),
        Change::Reply { .. } => Some("the reply of the model".to_owned()),
        Change::Message { .. } => None,
    });
    let twice = targets.find(|target| !seen.insert(target.clone()))?;
    Some(format!("{twice} is given twice: leave one of them out"))
}

/// The latest moment at which all changes are still open.
fn moment(survey: &Survey, fork: &ForkSession) -> Result<Seq, EngineError> {
    // Another agent with nothing left to say would end as its parent did.
    let is_asked = fork.agent.is_some() && fork.changes.is_empty();
    let mut at = if is_asked { survey.before_answer() } else { survey.before_end() };
    for change in &fork.changes {
        let (fits, missing) = match change {
            Change::Result { call_id, .. } => {
                (survey.before_result(*call_id), format!("there is no call {call_id}"))
            }
            Change::Reply { step: 0, .. } | Change::Message { .. } => continue,
            Change::Reply { step, .. } => {
                let missing = format!("the model gave no reply in step {step}");
                (survey.before_reply(*step), missing)
            }
            Change::Arguments { call_id, .. } => {
                (survey.at_reply(call_id.step), format!("there is no call {call_id}"))
            }
        };
        let what = "the fork:";
        at = at.min(fits.ok_or(EngineError::Invalid { what, problem: missing })?);
    }
    Ok(at)
}

/// Why a change does not fit a moment that somebody chose, and which moment it fits.
fn misplaced(survey: &Survey, at: Seq, change: &Change) -> Option<String> {
    match change {
        Change::Result { call_id, .. } => {
            let Some(asked) = survey.at_reply(call_id.step) else {
                return Some(format!("there is no call {call_id}"));
            };
            let Some(last) = survey.before_result(*call_id) else {
                return Some(format!("there is no call {call_id}"));
            };
            (at < asked || at > last).then(|| {
                let why = if at < asked { "was not asked for yet" } else { "has its result" };
                format!(
                    "at event {at} call {call_id} {why}, it is open {}: fork there, or leave the \
                     event out",
                    span(asked, last)
                )
            })
        }
        Change::Arguments { call_id, .. } => {
            let Some(asked) = survey.at_reply(call_id.step) else {
                return Some(format!("there is no call {call_id}"));
            };
            (at != asked).then(|| {
                format!(
                    "the arguments of call {call_id} can be others right after the model asked for \
                     it, at event {asked}, and not at {at}: fork there, or leave the event out"
                )
            })
        }
        Change::Reply { step: 0, .. } | Change::Message { .. } => None,
        Change::Reply { step, .. } => {
            let Some(before) = survey.before_reply(*step) else {
                return Some(format!("the model gave no reply in step {step}"));
            };
            let asked = survey.request_of(*step).unwrap_or(before);
            (at < asked || at > before).then(|| {
                format!(
                    "at event {at} the reply of step {step} is not awaited, but {}: fork there, or \
                     leave the event out",
                    span(asked, before)
                )
            })
        }
    }
}

fn span(first: Seq, last: Seq) -> String {
    if first == last {
        format!("at event {first}")
    } else {
        format!("from event {first} to {last}")
    }
}

fn edits_of(
    fork: &ForkSession,
    agent: &Agent,
    before: &SessionState,
) -> Result<Vec<Edit>, EngineError> {
    fork.changes.iter().map(|change| edit_of(change, agent, before)).collect()
}

fn edit_of(change: &Change, agent: &Agent, before: &SessionState) -> Result<Edit, EngineError> {
    Ok(match change {
        Change::Result { call_id, outcome, output } => {
            Edit::ToolResult { call_id: *call_id, outcome: *outcome, output: output.clone() }
        }
        Change::Message { content } => Edit::Message { content: content.clone() },
        Change::Arguments { call_id, arguments } => {
            let tool = before.calls.get(call_id).and_then(|call| agent.tool(&call.tool));
            let invalid = |problem: String| EngineError::Invalid {
                what: "the arguments of",
                problem: format!("call {call_id}: {problem}"),
            };
            let tool = tool.ok_or_else(|| invalid("the agent has no such tool".to_owned()))?;
            let arguments = validate::arguments(tool, arguments).map_err(invalid)?;
            Edit::Arguments { call_id: *call_id, arguments }
        }
        Change::Reply { content, calls, .. } => {
            Edit::ModelReply(Box::new(reply_of(content, calls, agent, before)))
        }
    })
}

fn reply_of(
    content: &Text,
    calls: &[(String, String)],
    agent: &Agent,
    before: &SessionState,
) -> ModelReplied {
    let attempt = match before.phase {
        Phase::Thinking { attempt } => attempt,
        Phase::Absent
        | Phase::Ready
        | Phase::Backoff { .. }
        | Phase::Acting
        | Phase::Listening
        | Phase::Finished { .. } => 1,
    };
    let call = |(name, arguments): &(String, String)| ToolCall {
        // The core numbers the calls.
        call_id: CallId { step: before.step, index: 0 },
        wire_id: String::new(),
        name: name.clone(),
        arguments: Text::from(arguments.as_str()),
        repaired: None,
        problem: validate::problem(agent, name, arguments),
    };
    let form = agent.output.answer.as_ref().filter(|_| calls.is_empty());
    ModelReplied {
        step: before.step,
        attempt,
        content: content.clone(),
        reasoning: Text::default(),
        tool_calls: calls.iter().map(call).collect(),
        answer_problem: form.and_then(|form| answer::problem(form, content.preview())),
        finish_reason: if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls },
        finish_word: None,
        usage: Usage::default(),
        endpoint: "override".to_string(),
        first_token_ms: 0,
        duration_ms: 0,
        tokens: None,
    }
}
