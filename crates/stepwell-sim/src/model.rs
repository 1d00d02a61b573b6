//! The model of the world: answers by a script or by chance, fails as told, and notes every request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stepwell_core::event::{FinishReason, ModelErrorKind, Usage};
use stepwell_core::{Seq, SessionId};
use stepwell_ports::memory::MemoryStore;
use stepwell_ports::model::WireToolCall;
use stepwell_ports::{
    ModelAnswer, ModelChunk, ModelFailure, ModelPort, ModelRequest, ModelSink, SessionInfo, Store,
};
use tokio_util::sync::CancellationToken;

use crate::gate::Gate;

/// Address of the simulated model.
pub const ENDPOINT: &str = "http://model.sim/v1";

/// What the model does with a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Answers.
    Answer(ModelAnswer),
    /// Fails.
    Fail(ModelFailure),
    /// Never says a word.
    Silence,
    /// The adapter has a bug.
    Panic,
}

/// What the model does with a request, and how long it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Say {
    /// How long it takes, in milliseconds.
    pub after_ms: u64,
    /// What it does.
    pub act: Act,
}

/// A request as the script sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The session that asks.
    pub session_id: SessionId,
    /// Its step.
    pub step: u32,
    /// The attempt within the step.
    pub attempt: u32,
    /// How often this step was asked, over all nodes and attempts, from 1.
    pub nth: u32,
}

/// Decides what the model does.
pub type Script = dyn Fn(Asked) -> Say + Send + Sync;

/// A request that was made, and what was true when it was made.
#[derive(Debug, Clone)]
pub struct AskRecord {
    /// Who asked.
    pub node: String,
    /// What.
    pub asked: Asked,
    /// Digest of the request's body.
    pub digest: String,
    /// The whole body.
    pub body: String,
    /// The tokens that the engine knows of the request before and its reply.
    pub tokens: Vec<u32>,
    /// Head of the session when the engine asked.
    pub head: Seq,
    /// The asking node was the session's owner then.
    pub by_owner: bool,
}

#[derive(Default)]
struct Records {
    asks: Vec<AskRecord>,
    nth: BTreeMap<(SessionId, u32), u32>,
    in_flight: usize,
    in_flight_max: usize,
    dropped: u64,
}

/// See the module.
pub struct SimModel {
    store: Arc<MemoryStore>,
    script: Mutex<Arc<Script>>,
    records: Mutex<Records>,
}

impl SimModel {
    /// A model that answers `done` to everything, until it is given a script.
    pub fn new(store: Arc<MemoryStore>) -> Arc<Self> {
        let script: Arc<Script> = Arc::new(|_| say("done"));
        Arc::new(Self { store, script: Mutex::new(script), records: Mutex::default() })
    }

    /// Gives it another script, for requests from now on.
    pub fn play(&self, script: impl Fn(Asked) -> Say + Send + Sync + 'static) {
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(script);
    }

    /// Every request so far.
    pub fn asks(&self) -> Vec<AskRecord> {
        self.records().asks.clone()
    }

    /// Requests of one session so far.
    pub fn asks_of(&self, session_id: SessionId) -> Vec<AskRecord> {
        self.records().asks.iter().filter(|it| it.asked.session_id == session_id).cloned().collect()
    }

    /// Requests that are being answered now.
    pub fn in_flight(&self) -> usize {
        self.records().in_flight
    }

    /// Most requests that were answered at the same time.
    pub fn in_flight_max(&self) -> usize {
        self.records().in_flight_max
    }

    /// Requests whose connection was closed before there was an answer.
    pub fn dropped(&self) -> u64 {
        self.records().dropped
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, node: &str, request: &ModelRequest, info: Option<SessionInfo>) -> Asked {
        let (session_id, step, attempt) = (request.session_id, request.step, request.attempt);
        let mut records = self.records();
        let nth = records.nth.entry((session_id, step)).or_default();
        *nth += 1;
        let asked = Asked { session_id, step, attempt, nth: *nth };
        records.asks.push(AskRecord {
            node: node.to_string(),
            asked,
            digest: request.prompt.digest(),
            body: request.prompt.body(),
            tokens: request.tokens.ids().to_vec(),
            head: info.as_ref().map_or(Seq(0), |it| it.row.head_seq),
            by_owner: info.is_some_and(|it| it.owner == node),
        });
        asked
    }

    async fn ask(
        &self,
        node: &str,
        request: ModelRequest,
        sink: Arc<dyn ModelSink>,
        info: Option<SessionInfo>,
    ) -> Result<ModelAnswer, ModelFailure> {
        let asked = self.note(node, &request, info);
        let mut flight = Flight::begin(self);
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let say = script(asked);
        tokio::time::sleep(Duration::from_millis(say.after_ms)).await;
        match say.act {
            Act::Silence => {
                let total = Duration::from_millis(request.model.timeouts.total_ms);
                tokio::time::sleep(total).await;
                flight.has_landed = true;
                Err(failure(ModelErrorKind::Timeout))
            }
            #[expect(clippy::panic, reason = "the bug that the engine must survive")]
            Act::Panic => panic!("a simulated bug in the model's adapter"),
            Act::Fail(failure) => {
                flight.has_landed = true;
                Err(failure)
            }
            Act::Answer(answer) => {
                sink.chunk(ModelChunk::Content(answer.content.clone()));
                flight.has_landed = true;
                Ok(answer)
            }
        }
    }
}

/// Counts a request while it is open, however it ends.
struct Flight<'a> {
    model: &'a SimModel,
    has_landed: bool,
}

impl<'a> Flight<'a> {
    fn begin(model: &'a SimModel) -> Self {
        let mut records = model.records();
        records.in_flight += 1;
        records.in_flight_max = records.in_flight_max.max(records.in_flight);
        Self { model, has_landed: false }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut records = self.model.records();
        records.in_flight -= 1;
        records.dropped += u64::from(!self.has_landed);
    }
}

/// A node's way to the model.
pub struct NodeModel {
    /// The model.
    pub model: Arc<SimModel>,
    /// The node's name.
    pub node: String,
    /// The life of the node.
    pub gate: Arc<Gate>,
}

#[async_trait]
impl ModelPort for NodeModel {
    async fn ask(
        &self,
        request: ModelRequest,
        sink: Arc<dyn ModelSink>,
        cancel: CancellationToken,
    ) -> Result<ModelAnswer, ModelFailure> {
        // As it is when the engine asks: a frozen node sends it later, in good faith.
        let info = self.model.store.session(request.session_id).await.ok().flatten();
        let ask = async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(failure(ModelErrorKind::Transport)),
                answer = self.model.ask(&self.node, request, sink, info) => answer,
            }
        };
        self.gate.pass(ask).await
    }
}

/// The model says `text` and asks for nothing.
pub fn say(text: &str) -> Say {
    answer(text, Vec::new())
}

/// The model asks for tool calls: name and arguments.
pub fn call(calls: &[(&str, &str)]) -> Say {
    let calls = calls.iter().enumerate().map(|(i, (name, arguments))| WireToolCall {
        id: format!("wire{i}"),
        name: (*name).to_string(),
        arguments: (*arguments).to_string(),
    });
    answer("", calls.collect())
}

fn answer(text: &str, tool_calls: Vec<WireToolCall>) -> Say {
    let asks = !tool_calls.is_empty();
    let answer = ModelAnswer {
        content: text.to_string(),
        reasoning: String::new(),
        tool_calls,
        finish_reason: if asks { FinishReason::ToolCalls } else { FinishReason::Stop },
        finish_word: None,
        usage: Usage {
            prompt_tokens: 100,
            cached_tokens: 80,
            completion_tokens: 10,
            ..Usage::default()
        },
        endpoint: ENDPOINT.to_string(),
        first_token_ms: 1,
        duration_ms: 2,
        tokens: None,
    };
    Say { after_ms: 10, act: Act::Answer(answer) }
}

/// The model fails.
pub fn fail(kind: ModelErrorKind) -> Say {
    Say { after_ms: 10, act: Act::Fail(failure(kind)) }
}

/// A failure of that kind.
pub fn failure(kind: ModelErrorKind) -> ModelFailure {
    ModelFailure::new(ENDPOINT.to_string(), kind, format!("simulated {}", kind.as_str()))
}

impl Say {
    /// The same, after another time.
    pub fn after_ms(mut self, after_ms: u64) -> Self {
        self.after_ms = after_ms;
        self
    }

    /// The same, with a wait that the server asks for, when it is a failure.
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        if let Act::Fail(failure) = &mut self.act {
            failure.retry_after_ms = Some(ms);
        }
        self
    }
}
