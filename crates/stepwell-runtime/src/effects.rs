//! Running model calls and tool calls of one session, kept equal to what is pending.
//!
//! An effect that is pending and does not run is started; one that runs and is no longer pending is
//! told to stop. So the same code serves a live session and one that was found after a crash.
//!
//! Invariant: an effect brings its outcome to the session, or tells the owner that nothing will come
//! of it. Nothing stands in `running` that does not run.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use stepwell_core::event::{ModelErrorKind, ModelFailed, ToolLost};
use stepwell_core::state::{Call, CallStatus};
use stepwell_core::{CallId, Command, Input, SessionId, SessionState, pending};
use stepwell_ports::{Affinity, ModelRequest, ToolRequest};
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::handover::{Handover, Outcome, is_worth_another_try};
use crate::mailbox::{Mailbox, Origin};
use crate::reserve::Reserved;
use crate::stall::Stall;
use crate::task::pause;
use crate::{model_call, tool_call};

/// First and longest wait before an outcome is offered to its session again.
pub(crate) const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Model { step: u32, attempt: u32 },
    Tool { call_id: CallId, attempt: u32 },
}

/// One effect of one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EffectId {
    key: Key,
    /// Tells it from an earlier effect with the same key.
    nth: u64,
}

struct Running {
    nth: u64,
    cancel: CancellationToken,
    stall: Stall,
}

/// See the module.
pub(crate) struct Effects {
    engine: Engine,
    session_id: SessionId,
    mailbox: Arc<Mailbox>,
    /// Sorted, so that what is started and stopped together always goes in the same order.
    running: BTreeMap<Key, Running>,
    /// Calls with a place, which start if that is on record.
    held: Vec<Reserved>,
    started: u64,
}

/// An effect's way to its session.
#[derive(Clone)]
pub(crate) struct Outlet {
    /// The engine.
    pub(crate) engine: Engine,
    /// The session.
    pub(crate) session_id: SessionId,
    /// The effect is told to stop.
    pub(crate) cancel: CancellationToken,
}

/// A model call or a tool call. Boxed before it becomes a task: it is some kilobytes, which tokio would
/// move about ten times on the way.
type Effect = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// How an effect ends.
pub(crate) enum Ended {
    /// It has something for its session.
    With(Box<Outcome>),
    /// It was told to stop, or nothing of it is wanted.
    Without,
}

/// Whether an outcome was brought to the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is durable: the session goes on from it.
    Yes,
    /// The session did not want it, or there was none.
    No,
}

impl Effects {
    pub(crate) fn new(engine: Engine, session_id: SessionId, mailbox: Arc<Mailbox>) -> Self {
        Self { engine, session_id, mailbox, running: BTreeMap::new(), held: Vec::new(), started: 0 }
    }

    /// Starts and stops until what runs is what `commands` want.
    pub(crate) fn reconcile(&mut self, state: &SessionState, commands: &[Command]) {
        self.start_held(state);
        let wanted: BTreeSet<Key> = commands.iter().filter_map(key_of).collect();
        self.running.retain(|key, running| {
            let keep = wanted.contains(key);
            if !keep {
                running.cancel.cancel();
            }
            keep
        });
        if self.engine.inner.draining.is_cancelled() {
            return;
        }
        for command in commands {
            self.carry_out(state, command);
        }
    }

    /// Takes note that an effect is over. To be followed by [`Effects::reconcile`].
    pub(crate) fn ended(&mut self, effect: EffectId) {
        if self.running.get(&effect.key).is_some_and(|it| it.nth == effect.nth) {
            self.running.remove(&effect.key);
        }
    }

    /// Calls that are owed, do not run, and must be on record before they do.
    pub(crate) fn wanted_places(&self, state: &SessionState) -> Vec<ToolRequest> {
        let request_of = |command: Command| match command {
            Command::RunTool { call_id, attempt } => {
                let is_new = !self.running.contains_key(&Key::Tool { call_id, attempt });
                let request = self.tool_request(state, call_id, attempt).filter(|_| is_new)?;
                (!request.effect().may_repeat()).then_some(request)
            }
            Command::AskModel { .. }
            | Command::FollowTool { .. }
            | Command::StopTool { .. }
            | Command::WaitUntil { .. } => None,
        };
        pending(state).into_iter().filter_map(request_of).collect()
    }

    /// Keeps calls with their places until the next [`Effects::reconcile`].
    pub(crate) fn hold(&mut self, calls: Vec<Reserved>) {
        self.held.extend(calls);
    }

    /// Starts the calls whose place is on record; the other places are given back.
    fn start_held(&mut self, state: &SessionState) {
        for Reserved { request, slot } in std::mem::take(&mut self.held) {
            let call = state.calls.get(&request.call_id);
            let dispatched = CallStatus::Dispatched { worker: slot.worker.clone() };
            if call.is_some_and(|it| it.attempt == request.attempt && it.status == dispatched) {
                let key = Key::Tool { call_id: request.call_id, attempt: request.attempt };
                let outlet = self.outlet();
                let run = tool_call::run_on(outlet.clone(), request, slot);
                self.spawn(key, outlet, Box::pin(run));
            }
        }
    }

    fn outlet(&self) -> Outlet {
        Outlet {
            engine: self.engine.clone(),
            session_id: self.session_id,
            cancel: CancellationToken::new(),
        }
    }

    fn carry_out(&mut self, state: &SessionState, command: &Command) {
        let Some(key) = key_of(command) else { return };
        let stops = matches!(command, Command::StopTool { .. });
        if let Some(running) = self.running.get(&key) {
            if stops {
                running.cancel.cancel();
            }
            return;
        }
        let outlet = self.outlet();
        if stops {
            outlet.cancel.cancel();
        }
        match command {
            Command::AskModel { step, attempt } => {
                let Some(agent) = state.agent().cloned() else { return };
                let Some(model) = state.model(*attempt) else { return };
                let request = ModelRequest {
                    session_id: self.session_id,
                    step: *step,
                    attempt: *attempt,
                    measured: state.measured.clone().filter(|it| it.model == model.name),
                    tokens: state.tokens.of_model(&model.name),
                    model,
                    affinity: Affinity {
                        key: state.prefix_key.clone(),
                        holder: state.prefix_holder.clone(),
                        failed: state.turns.failed_at().clone(),
                    },
                    prompt: state.request(*attempt),
                };
                let ask = model_call::ask(outlet.clone(), agent, request, self.mailbox.clone());
                self.spawn(key, outlet, Box::pin(ask));
            }
            Command::RunTool { call_id, attempt } => {
                if let Some(request) = self.tool_request(state, *call_id, *attempt) {
                    let (stall, mailbox) = (Stall::default(), self.mailbox.clone());
                    let run = tool_call::run(outlet.clone(), request, stall.clone(), mailbox);
                    self.spawn_stallable(key, outlet, stall, Box::pin(run));
                }
            }
            Command::FollowTool { call_id, attempt, worker } => {
                if let Some(request) = self.tool_request(state, *call_id, *attempt) {
                    let follow = tool_call::follow(outlet.clone(), worker.clone(), request);
                    self.spawn(key, outlet, Box::pin(follow));
                }
            }
            Command::StopTool { call_id, attempt } => self.stop(state, *call_id, *attempt, outlet),
            Command::WaitUntil { .. } => {}
        }
    }

    /// Stops a call that this owner did not start: an earlier one did, and is gone.
    fn stop(&mut self, state: &SessionState, call_id: CallId, attempt: u32, outlet: Outlet) {
        let key = Key::Tool { call_id, attempt };
        let status = state.calls.get(&call_id).map(|call| &call.status);
        if let Some(CallStatus::Dispatched { worker }) = status
            && let Some(request) = self.tool_request(state, call_id, attempt)
        {
            // The token of the outlet is cancelled: the worker is told to stop, if it has the call.
            let follow = tool_call::follow(outlet.clone(), worker.clone(), request);
            self.spawn(key, outlet, Box::pin(follow));
            return;
        }
        let lost = ToolLost {
            call_id,
            attempt,
            reason: "its session was cancelled before it was known to run".to_string(),
            never_started: false,
        };
        let lost = Outcome::from(Input::ToolLost(lost));
        self.spawn(key, outlet, Box::pin(async { Ended::With(Box::new(lost)) }));
    }

    fn tool_request(
        &self,
        state: &SessionState,
        call_id: CallId,
        attempt: u32,
    ) -> Option<ToolRequest> {
        let call: &Call = state.calls.get(&call_id)?;
        let tool = state.agent()?.tool(&call.tool)?.clone();
        let arguments = call.effective_arguments().to_string();
        let session_id = self.session_id;
        let named = state.origin.as_ref().map(|origin| origin.workspace.clone());
        let workspace =
            named.filter(|name| !name.is_empty()).unwrap_or_else(|| session_id.to_string());
        Some(ToolRequest { session_id, call_id, attempt, workspace, tool, arguments })
    }

    /// Whether there is nothing but calls of tools that nobody offers.
    pub(crate) fn are_stalled(&self) -> bool {
        !self.running.is_empty() && self.running.values().all(|it| it.stall.is_stalled())
    }

    fn spawn(&mut self, key: Key, outlet: Outlet, effect: Effect) {
        self.spawn_stallable(key, outlet, Stall::default(), effect);
    }

    /// Starts an effect. One that panics is reported as a failure of the outside.
    fn spawn_stallable(&mut self, key: Key, outlet: Outlet, stall: Stall, effect: Effect) {
        self.started += 1;
        let effect_id = EffectId { key, nth: self.started };
        let running = Running { nth: effect_id.nth, cancel: outlet.cancel.clone(), stall };
        self.running.insert(key, running);
        let handover = Handover::new(outlet, effect_id, self.mailbox.clone());
        let session_id = self.session_id;
        self.engine.inner.effects.spawn(async move {
            let ended = catch_panic(effect).await.unwrap_or_else(|()| {
                tracing::error!(session = %session_id, ?key, "an effect panicked");
                Ended::With(Box::new(panicked(key).into()))
            });
            match ended {
                Ended::With(outcome) => handover.hand_in(*outcome),
                Ended::Without => handover.end_unwanted().await,
            }
        });
    }
}

impl Drop for Effects {
    /// However an owner ends, what it runs is told to stop.
    fn drop(&mut self) {
        for running in self.running.values() {
            running.cancel.cancel();
        }
    }
}

fn key_of(command: &Command) -> Option<Key> {
    match command {
        Command::AskModel { step, attempt } => Some(Key::Model { step: *step, attempt: *attempt }),
        Command::RunTool { call_id, attempt }
        | Command::FollowTool { call_id, attempt, .. }
        | Command::StopTool { call_id, attempt } => {
            Some(Key::Tool { call_id: *call_id, attempt: *attempt })
        }
        Command::WaitUntil { .. } => None,
    }
}

fn panicked(key: Key) -> Input {
    let message = "an internal error of the engine; its log has more".to_string();
    match key {
        Key::Model { step, attempt } => Input::ModelFailed(ModelFailed {
            step,
            attempt,
            endpoint: "engine".to_string(),
            error: ModelErrorKind::BadResponse,
            message,
            http_status: None,
            retry_after_ms: None,
            time_limit: None,
            context: None,
            elsewhere: false,
        }),
        Key::Tool { call_id, attempt } => {
            Input::ToolLost(ToolLost { call_id, attempt, reason: message, never_started: false })
        }
    }
}

async fn catch_panic(mut future: Effect) -> Result<Ended, ()> {
    std::future::poll_fn(move |context| {
        let poll = AssertUnwindSafe(|| future.as_mut().poll(context));
        match std::panic::catch_unwind(poll) {
            Ok(poll) => poll.map(Ok),
            Err(_) => std::task::Poll::Ready(Err(())),
        }
    })
    .await
}

impl Outlet {
    /// Gives an outcome to the session, again and again while the store does not take it. An outcome
    /// that the session does not want any more, or that another node now waits for, is dropped.
    pub(crate) async fn deliver(&self, input: Input, blobs: Vec<(String, Vec<u8>)>) -> Told {
        let mut wait = RETRY.0;
        loop {
            let origin = Origin::Effect(self.cancel.clone());
            let submit =
                self.engine.submit_from(self.session_id, input.clone(), blobs.clone(), origin);
            match submit.await {
                Ok(_) => return Told::Yes,
                Err(error) if is_worth_another_try(&error) => {}
                Err(error) => {
                    tracing::debug!(session = %self.session_id, %error, "an outcome was not taken");
                    return Told::No;
                }
            }
            pause(wait).await;
            wait = (wait * 2).min(RETRY.1);
        }
    }
}
