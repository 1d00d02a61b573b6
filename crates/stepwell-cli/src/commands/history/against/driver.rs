//! One run: an engine in memory, the model, the record, and a stand-in for the people.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::bail;
use stepwell_core::agent::Agent;
use stepwell_core::compare::Outline;
use stepwell_core::decide::Verdict;
use stepwell_core::event::{ApprovalDecision, ModelErrorKind, ModelFailed, Outcome, Question};
use stepwell_core::state::{Approval, Call, CallStatus, Phase};
use stepwell_core::{
    ApprovalId, CallId, Input, SessionId, SessionState, Status, Text, TimestampMs,
};
use stepwell_ports::memory::MemoryStore;
use stepwell_ports::{Clock as _, ModelPort};
use stepwell_runtime::system::SystemRandom;
use stepwell_runtime::{CreateSession, Engine, EngineError, EngineOptions, Ports, validate};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::asker::{Asker, Gate};
use super::clock::SkippingClock;
use super::gateway::{Otherwise, RecordGateway};
use super::ledger::{Counts, Ledger, Origin};
use super::policy::{self, Ruling, STAND_IN, stand_in};
use super::record::{Key, Record};

/// The longest sleep of a session that is skipped; one that is longer means for ever.
const SKIP_MS_MAX: u64 = 366 * 24 * 60 * 60 * 1_000;

/// Attempts after which a model that has never answered, and cannot be reached, is not asked again.
const UNREACHED_MAX: u32 = 4;

/// Why a call is denied that the recorded session let run.
const NO_LONGER_FITS: &str = "what was approved in the recorded session does not fit this agent: its \
    rules forbid it, or its tool takes other arguments";

/// Steps that wait at the gate. A session has one at a time.
const GATES_WAITING: usize = 1;

/// What a run works with, beside its record.
pub(super) struct Setting {
    pub(super) agent: Agent,
    pub(super) model: Arc<dyn ModelPort>,
    /// Whether the model has answered, in any run.
    pub(super) has_answered: Arc<AtomicBool>,
    pub(super) otherwise: Otherwise,
    /// How long it may take.
    pub(super) time: Duration,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// Its session did.
    ByItself,
    /// It made a call that is not in the record, and that was to end it.
    LeftTheRecord(String),
    /// It waits for a message, and nobody said more.
    WaitsForMessage,
    /// It sleeps for ever.
    Asleep,
    /// The model gave no answer. How it failed at last.
    NoModel(String),
    /// It took too long.
    OutOfTime,
    /// Ctrl-C.
    Interrupted,
}

/// What a run came to.
pub(super) struct Played {
    pub(super) outline: Outline,
    pub(super) counts: Counts,
    pub(super) ended: Ended,
    /// How the model failed, if it gave no answer after that.
    pub(super) model_failure: Option<String>,
}

/// Runs the task of `record`. Nothing of it is left but what this returns.
pub(super) async fn play(
    record: Arc<Record>,
    setting: Setting,
    stop: &CancellationToken,
) -> anyhow::Result<Played> {
    let Setting { agent, model, has_answered, otherwise, time } = setting;
    let mut driver = Driver::new(record, (model, has_answered), otherwise);
    let engine = driver.engine.clone();
    let shutdown = CancellationToken::new();
    let mut running = Box::pin(engine.run(shutdown.clone()));
    let ended = {
        let driving = Box::pin(driver.drive(agent));
        tokio::select! {
            biased;
            () = stop.cancelled() => Ok(Ended::Interrupted),
            ended = driving => ended,
            () = tokio::time::sleep(time) => Ok(Ended::OutOfTime),
            () = &mut running => bail!("the engine ended by itself"),
        }
    };
    // However it ended, nothing of it goes on.
    shutdown.cancel();
    running.await;
    let ended = ended?;
    let mut outline = Outline::default();
    let mut model_failure = None;
    if let Some(session_id) = driver.session_id {
        model_failure = engine.state(session_id).await?.model_failure.as_ref().map(in_words);
        engine.walk(session_id, &mut |event| outline.push(&event)).await?;
    }
    Ok(Played { outline, counts: driver.ledger.counts(), ended, model_failure })
}

struct Driver {
    record: Arc<Record>,
    engine: Engine,
    clock: Arc<SkippingClock>,
    ledger: Arc<Ledger>,
    gates: mpsc::Receiver<Gate>,
    leaves_the_record: bool,
    has_answered: Arc<AtomicBool>,
    /// What people said unasked, with the step that was last asked then.
    messages: VecDeque<(u32, Text)>,
    session_id: Option<SessionId>,
}

impl Driver {
    fn new(
        record: Arc<Record>,
        (model, has_answered): (Arc<dyn ModelPort>, Arc<AtomicBool>),
        otherwise: Otherwise,
    ) -> Self {
        let ledger = Arc::<Ledger>::default();
        let clock = Arc::<SkippingClock>::default();
        let (gates, receiver) = mpsc::channel(GATES_WAITING);
        let leaves_the_record = matches!(otherwise, Otherwise::Leave);
        let gateway = RecordGateway { record: record.clone(), ledger: ledger.clone(), otherwise };
        let ports = Ports {
            store: Arc::new(MemoryStore::default()),
            model: Arc::new(Asker {
                model,
                ledger: ledger.clone(),
                gates,
                has_answered: has_answered.clone(),
            }),
            tools: Arc::new(gateway),
            clock: clock.clone(),
            random: Arc::new(SystemRandom),
        };
        let mut options = EngineOptions::for_node(STAND_IN);
        // Whoever ends a run early does not want the rest.
        options.drain = Duration::ZERO;
        let said = record.outline.messages.iter();
        let messages = said.map(|it| (it.step, it.content.clone())).collect();
        let engine = Engine::new(ports, options);
        let (gates, session_id) = (receiver, None);
        Self {
            record,
            engine,
            clock,
            ledger,
            gates,
            leaves_the_record,
            has_answered,
            messages,
            session_id,
        }
    }

    async fn drive(&mut self, agent: Agent) -> anyhow::Result<Ended> {
        let session_id = self.begin(agent).await?;
        let mut subscription = self.engine.subscribe(session_id);
        let left = self.ledger.left.clone();
        let mut is_leaving = false;
        loop {
            if let Some(ended) = self.turn(session_id).await? {
                return Ok(ended);
            }
            tokio::select! {
                () = left.cancelled(), if !is_leaving => {
                    is_leaving = true;
                    let reason = "it left the record".to_owned();
                    self.submit(session_id, Input::Cancel { reason, by: stand_in() }).await?;
                }
                Some(gate) = self.gates.recv() => {
                    self.say_until(session_id, gate.step).await?;
                    // Whoever waited there may be gone: its session ended.
                    let _ = gate.open.send(());
                }
                changed = subscription.head.changed() => changed?,
            }
        }
    }

    async fn begin(&mut self, agent: Agent) -> anyhow::Result<SessionId> {
        let said_before = self.messages.front().is_some_and(|(step, _)| *step == 0);
        let create = CreateSession {
            agent,
            task: self.record.task.clone(),
            title: self.record.title.clone(),
            labels: self.record.labels.clone(),
            workspace: String::new(),
            client_key: None,
            request_digest: String::new(),
            paused: said_before,
            by: stand_in(),
        };
        let session_id = self.engine.create(create).await?.session_id;
        self.session_id = Some(session_id);
        if said_before {
            self.say_until(session_id, 0).await?;
            self.submit(session_id, Input::Resume { once: false, by: stand_in() }).await?;
        }
        Ok(session_id)
    }

    /// Gives the session everything that it waits for now, or says how it ended.
    async fn turn(&mut self, session_id: SessionId) -> anyhow::Result<Option<Ended>> {
        let state = self.engine.state(session_id).await?;
        if state.is_finished() {
            let ended = || without_model(&state).map_or(Ended::ByItself, Ended::NoModel);
            return Ok(Some(self.ledger.left_at().map_or_else(ended, Ended::LeftTheRecord)));
        }
        if let Some(failure) = self.unreachable(&state) {
            return Ok(Some(Ended::NoModel(failure)));
        }
        let mut lapses = None;
        for (approval_id, approval) in &state.approvals {
            lapses = self.decide(session_id, &state, (*approval_id, approval)).await?.or(lapses);
        }
        if let Some(at) = lapses {
            self.clock.skip_to(at);
        }
        for (call_id, call) in &state.calls {
            if call.status == CallStatus::AwaitingAnswer && !self.ledger.left.is_cancelled() {
                self.answer(session_id, *call_id, call).await?;
            }
        }
        if state.phase == Phase::Listening {
            let Some((_, content)) = self.messages.pop_front() else {
                return Ok(Some(Ended::WaitsForMessage));
            };
            self.say(session_id, content, None).await?;
        }
        Ok(self.skip_sleep(&state))
    }

    /// How a model fails that has never answered and that a connection cannot be made to.
    fn unreachable(&self, state: &SessionState) -> Option<String> {
        if self.has_answered.load(Ordering::Relaxed) {
            return None;
        }
        let failure = state.model_failure.as_ref()?;
        let is_over =
            failure.error == ModelErrorKind::Transport && failure.attempt >= UNREACHED_MAX;
        is_over.then(|| in_words(failure))
    }

    /// Says what was said in the record, or gives the time at which the approval lapses.
    async fn decide(
        &self,
        session_id: SessionId,
        state: &SessionState,
        (approval_id, approval): (ApprovalId, &Approval),
    ) -> anyhow::Result<Option<TimestampMs>> {
        let Some(call) = state.calls.get(&approval.call_id) else { return Ok(None) };
        if self.ledger.left.is_cancelled() {
            return Ok(None);
        }
        let say = |decision, reason: String, by| Verdict {
            approval_id,
            decision,
            reason,
            arguments: None,
            output: None,
            action_digest: None,
            tool: None,
            by,
        };
        if approval.question == Question::WhatHappened {
            let reason = "it was lost while it ran".to_owned();
            let failed = say(ApprovalDecision::Failed, reason, stand_in());
            return self.submit(session_id, Input::Decide(failed)).await.map(|_| None);
        }
        let key = Key::of(&call.tool, call.effective_arguments());
        let nth = self.ledger.place(approval.call_id, &key);
        let (reason, by) = match policy::rule(&self.record.recordings, &key, nth) {
            Ruling::Approve { arguments, by } => {
                let tool = state.agent().and_then(|agent| agent.tool(&call.tool));
                let fits =
                    |it: &str| tool.is_some_and(|tool| validate::arguments(tool, it).is_ok());
                if arguments.as_ref().is_none_or(|it| fits(it.as_str())) {
                    let approved = say(ApprovalDecision::Approve, String::new(), by);
                    let approved = Input::Decide(Verdict { arguments, ..approved });
                    if self.submit(session_id, approved).await? {
                        return Ok(None);
                    }
                }
                (NO_LONGER_FITS.to_owned(), stand_in())
            }
            Ruling::Deny { reason, by } => (reason, by),
            Ruling::Lapse { message } => match approval.expires_at {
                Some(at) if at.since_ms(self.clock.now()) <= SKIP_MS_MAX => return Ok(Some(at)),
                Some(_) | None => (message, stand_in()),
            },
            Ruling::Unrecorded { reason } => {
                self.ledger.count(Origin::Unrecorded);
                if self.leaves_the_record {
                    let place = format!("call {}: {}", approval.call_id, key.in_words());
                    self.ledger.leave(place);
                    return Ok(None);
                }
                (reason, stand_in())
            }
        };
        let denied = Input::Decide(say(ApprovalDecision::Deny, reason, by));
        self.submit(session_id, denied).await.map(|_| None)
    }

    async fn answer(
        &self,
        session_id: SessionId,
        call_id: CallId,
        call: &Call,
    ) -> anyhow::Result<()> {
        let key = Key::of(&call.tool, call.effective_arguments());
        let nth = self.ledger.place(call_id, &key);
        let recorded = policy::answer(&self.record.recordings, call.effective_arguments(), nth);
        if recorded.is_none() && self.leaves_the_record {
            self.ledger.count(Origin::Unrecorded);
            self.ledger.leave(format!("call {call_id}: {}", key.in_words()));
            return Ok(());
        }
        let origin = if recorded.is_some() { Origin::Served } else { Origin::Unrecorded };
        let content = recorded.unwrap_or_else(policy::no_answer);
        if self.say(session_id, content, Some(call_id)).await? {
            self.ledger.count(origin);
        }
        Ok(())
    }

    /// Says what people said up to this step of the recorded session.
    async fn say_until(&mut self, session_id: SessionId, step: u32) -> anyhow::Result<()> {
        while self.messages.front().is_some_and(|(at, _)| *at <= step) {
            let Some((_, content)) = self.messages.pop_front() else { break };
            self.say(session_id, content, None).await?;
        }
        Ok(())
    }

    async fn say(
        &self,
        session_id: SessionId,
        content: Text,
        answers: Option<CallId>,
    ) -> anyhow::Result<bool> {
        let by = stand_in();
        self.submit(session_id, Input::Message { content, answers, client_key: None, by }).await
    }

    /// A session in which all that is left to do is to wait for a `sleep` waits no longer, and one
    /// that sleeps for ever has come to its end.
    fn skip_sleep(&self, state: &SessionState) -> Option<Ended> {
        let sleeps = state.calls.values().any(|it| it.status == CallStatus::Sleeping);
        let (Status::Sleeping, true, Some(due)) = (state.status(), sleeps, state.next_due()) else {
            return None;
        };
        if due.since_ms(self.clock.now()) > SKIP_MS_MAX {
            return Some(Ended::Asleep);
        }
        self.clock.skip_to(due);
        None
    }

    /// Gives the session an input; says no if it does not want it, because it has moved on.
    async fn submit(&self, session_id: SessionId, input: Input) -> anyhow::Result<bool> {
        match self.engine.submit(session_id, input).await {
            Ok(_) => Ok(true),
            Err(EngineError::Rejected(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// How a model failed that the run ended for: one that cannot be asked, and not one whose answer was
/// no.
fn without_model(state: &SessionState) -> Option<String> {
    let Phase::Finished { outcome: Outcome::Failed, .. } = state.phase else { return None };
    let failure = state.model_failure.as_ref()?;
    let has_no_answer = match failure.error {
        ModelErrorKind::Transport
        | ModelErrorKind::Overloaded
        | ModelErrorKind::RateLimited
        | ModelErrorKind::QuotaExhausted
        | ModelErrorKind::ServerError
        | ModelErrorKind::StreamBroken
        | ModelErrorKind::Timeout
        | ModelErrorKind::BadResponse
        | ModelErrorKind::Unauthorized => true,
        // A request that is refused at once is of a wrong address, name or parameter; one that is
        // refused later is what the agent came to.
        ModelErrorKind::BadRequest => failure.step == 1,
        ModelErrorKind::ContextTooLong | ModelErrorKind::ContentFilter => false,
    };
    has_no_answer.then(|| in_words(failure))
}

fn in_words(failure: &ModelFailed) -> String {
    format!("{}: {}", failure.endpoint, failure.message)
}
