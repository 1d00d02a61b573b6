//! Running model calls and tool calls of one session, kept equal to what is pending.
//!
//! An effect that is pending and does not run is started; one that runs and is no longer pending is
//! told to stop. So the same code serves a live session and one that was found after a crash.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use stepwell_core::event::{ModelErrorKind, ModelFailed, ToolLost};
use stepwell_core::state::Call;
use stepwell_core::{CallId, Command, Input, SessionId, SessionState};
use stepwell_ports::{ModelRequest, ToolRequest};
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::model_call;
use crate::tool_call;

/// First and longest wait before an outcome is offered to its session again.
const DELIVER_MS: (u64, u64) = (50, 5_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Model { step: u32, attempt: u32 },
    Tool { call_id: CallId, attempt: u32 },
}

/// See the module.
pub(crate) struct Effects {
    engine: Engine,
    session_id: SessionId,
    running: HashMap<Key, CancellationToken>,
}

impl Effects {
    pub(crate) fn new(engine: Engine, session_id: SessionId) -> Self {
        Self { engine, session_id, running: HashMap::new() }
    }

    /// Starts and stops until what runs is what `commands` want.
    pub(crate) fn reconcile(&mut self, state: &SessionState, commands: &[Command]) {
        let wanted: HashSet<Key> = commands.iter().filter_map(key_of).collect();
        self.running.retain(|key, cancel| {
            let keep = wanted.contains(key);
            if !keep {
                cancel.cancel();
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

    /// Tells everything that runs to stop.
    pub(crate) fn stop_all(&mut self) {
        for (_, cancel) in self.running.drain() {
            cancel.cancel();
        }
    }

    fn carry_out(&mut self, state: &SessionState, command: &Command) {
        let Some(key) = key_of(command) else { return };
        if let Some(cancel) = self.running.get(&key) {
            if let Command::StopTool { .. } = command {
                cancel.cancel();
            }
            return;
        }
        let cancel = CancellationToken::new();
        match command {
            Command::AskModel { step, attempt } => {
                self.ask_model(state, *step, *attempt, &cancel);
            }
            Command::RunTool { call_id, attempt } => {
                if let Some(request) = self.tool_request(state, *call_id, *attempt) {
                    let run = tool_call::run(self.engine.clone(), request, cancel.clone());
                    self.spawn(key, run);
                }
            }
            Command::FollowTool { call_id, attempt, worker } => {
                if let Some(request) = self.tool_request(state, *call_id, *attempt) {
                    let engine = self.engine.clone();
                    let follow =
                        tool_call::follow(engine, worker.clone(), request, cancel.clone());
                    self.spawn(key, follow);
                }
            }
            Command::StopTool { call_id, attempt } => {
                // This owner started nothing: an earlier one did, and is gone.
                let lost = ToolLost {
                    call_id: *call_id,
                    attempt: *attempt,
                    reason: "its session was cancelled while the server restarted".to_string(),
                    never_started: false,
                };
                let (engine, session_id) = (self.engine.clone(), self.session_id);
                self.spawn(key, async move {
                    deliver(&engine, session_id, Input::ToolLost(lost), Vec::new()).await;
                });
            }
            Command::WaitUntil { .. } => {}
        }
        self.running.insert(key, cancel);
    }

    fn ask_model(
        &self,
        state: &SessionState,
        step: u32,
        attempt: u32,
        cancel: &CancellationToken,
    ) {
        let Some(agent) = state.agent().cloned() else { return };
        let request = ModelRequest {
            session_id: self.session_id,
            step,
            attempt,
            model: agent.model.clone(),
            prompt: state.prompt.clone(),
        };
        let ask = model_call::ask(self.engine.clone(), agent, request, cancel.clone());
        self.spawn(Key::Model { step, attempt }, ask);
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
        Some(ToolRequest { session_id: self.session_id, call_id, attempt, tool, arguments })
    }

    /// Starts an effect. One that panics is reported as a failure of the outside.
    fn spawn(&self, key: Key, effect: impl Future<Output = ()> + Send + 'static) {
        let (engine, session_id) = (self.engine.clone(), self.session_id);
        self.engine.inner.effects.spawn(async move {
            if catch_panic(effect).await.is_err() {
                tracing::error!(session = %session_id, ?key, "an effect panicked");
                deliver(&engine, session_id, panicked(key), Vec::new()).await;
            }
        });
    }
}

fn key_of(command: &Command) -> Option<Key> {
    match command {
        Command::AskModel { step, attempt } => {
            Some(Key::Model { step: *step, attempt: *attempt })
        }
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
        }),
        Key::Tool { call_id, attempt } => {
            Input::ToolLost(ToolLost { call_id, attempt, reason: message, never_started: false })
        }
    }
}

async fn catch_panic(future: impl Future<Output = ()> + Send) -> Result<(), ()> {
    let mut future = Box::pin(future);
    std::future::poll_fn(move |context| {
        let poll = AssertUnwindSafe(|| future.as_mut().poll(context));
        match std::panic::catch_unwind(poll) {
            Ok(poll) => poll.map(Ok),
            Err(_) => std::task::Poll::Ready(Err(())),
        }
    })
    .await
}

/// Gives an outcome to its session, again and again while the store does not take it. An outcome
/// that the session does not want any more is dropped.
pub(crate) async fn deliver(
    engine: &Engine,
    session_id: SessionId,
    input: Input,
    blobs: Vec<(String, Vec<u8>)>,
) -> bool {
    let clock: Arc<_> = engine.inner.ports.clock.clone();
    let mut wait_ms = DELIVER_MS.0;
    loop {
        match engine.submit_with(session_id, input.clone(), blobs.clone()).await {
            Ok(_) => return true,
            Err(EngineError::Store(_) | EngineError::Busy { .. }) => {}
            Err(error) => {
                tracing::debug!(session = %session_id, %error, "an outcome was not taken");
                return false;
            }
        }
        clock.wait_until(clock.now().plus_ms(wait_ms)).await;
        wait_ms = (wait_ms * 2).min(DELIVER_MS.1);
    }
}
