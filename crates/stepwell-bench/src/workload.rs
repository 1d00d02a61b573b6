//! The workload: sessions of N steps, a step is one model reply of about 1 KB with one tool call and
//! one tool result of about 2 KB, both durable before the next begins. Model and tool are stubs that
//! answer at once.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use async_trait::async_trait;
use stepwell_core::agent::{Limits, ModelSpec};
use stepwell_core::event::{FinishReason, ToolOutcome, Usage};
use stepwell_core::{Agent, Effect, JsonText, ToolKind, ToolSpec};
use stepwell_ports::model::WireToolCall;
use stepwell_ports::tools::OutputSink;
use stepwell_ports::{
    ModelAnswer, ModelFailure, ModelPort, ModelRequest, ModelSink, ToolGateway, ToolProbe,
    ToolReport, ToolRequest, ToolSlot,
};
use tokio_util::sync::CancellationToken;

/// Bytes of a reply's words; with its call about 1 KB.
const REPLY_BYTES: usize = 960;
/// Bytes of a tool result.
const RESULT_BYTES: usize = 2_048;

/// Words that look like words, so that nothing is gained by luck.
fn words(bytes: usize, salt: u64) -> String {
    let mut text = String::with_capacity(bytes + 16);
    let mut number = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while text.len() < bytes {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{number:x} ");
    }
    text.truncate(bytes);
    text
}

/// What the stubs say, made once: making it is no part of what is measured.
static REPLY: LazyLock<String> = LazyLock::new(|| words(REPLY_BYTES, 3));
static RESULT: LazyLock<String> = LazyLock::new(|| words(RESULT_BYTES, 4));

/// What the model says in a step.
pub(crate) fn reply_text() -> String {
    words(REPLY_BYTES + 64, 1)
}

/// What the tool returns.
pub(crate) fn result_text() -> String {
    words(RESULT_BYTES, 2)
}

/// An agent with one tool.
pub(crate) fn agent(effect: Effect, steps: u32) -> Agent {
    let parameters =
        r#"{"type":"object","properties":{"item":{"type":"integer"}},"required":["item"]}"#;
    Agent {
        version: 1,
        tools: vec![ToolSpec {
            name: "look_up".to_string(),
            description: "Looks an item up.".to_string(),
            parameters: JsonText::parse(parameters).unwrap_or_else(|_| JsonText::empty_object()),
            output_schema: None,
            effect,
            timeout_ms: 60_000,
            kind: ToolKind::Worker,
        }],
        limits: Limits { steps_max: steps + 10, repeat_window: 0, ..Limits::default() },
        ..Agent::new("bench", "You look items up.", ModelSpec::new("stub", "http://127.0.0.1:1/v1"))
    }
}

/// Answers every request at once: one tool call, until the last step.
pub(crate) struct StubModel {
    /// Steps before the final answer.
    pub(crate) steps: u32,
}

#[async_trait]
impl ModelPort for StubModel {
    async fn ask(
        &self,
        request: ModelRequest,
        _sink: Arc<dyn ModelSink>,
        _cancel: CancellationToken,
    ) -> Result<ModelAnswer, ModelFailure> {
        let is_last = request.step > self.steps;
        let call = WireToolCall {
            id: format!("call_{}", request.step),
            name: "look_up".to_string(),
            arguments: format!("{{\"item\":{}}}", request.step),
        };
        Ok(ModelAnswer {
            content: if is_last { "Done.".to_string() } else { REPLY.clone() },
            reasoning: String::new(),
            tool_calls: if is_last { Vec::new() } else { vec![call] },
            finish_reason: if is_last { FinishReason::Stop } else { FinishReason::ToolCalls },
            finish_word: None,
            usage: Usage {
                prompt_tokens: 700,
                cached_tokens: 600,
                completion_tokens: 250,
                ..Usage::default()
            },
            endpoint: "stub".to_string(),
            first_token_ms: 0,
            duration_ms: 0,
            tokens: None,
        })
    }
}

/// Runs every call at once and counts the starts.
#[derive(Default)]
pub(crate) struct StubTools {
    starts: Mutex<HashMap<String, u64>>,
    total: AtomicU64,
    /// Whether each call's starts are counted, which costs memory.
    counts_calls: bool,
}

impl StubTools {
    /// Tools that count the starts of each call.
    pub(crate) fn counting() -> Self {
        Self { counts_calls: true, ..Self::default() }
    }

    /// Calls that were started more than once.
    pub(crate) fn started_twice(&self) -> u64 {
        let starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.values().filter(|count| **count > 1).count() as u64
    }

    /// All starts.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl ToolGateway for StubTools {
    async fn reserve(&self, _request: &ToolRequest) -> ToolSlot {
        ToolSlot { worker: "stub".to_string(), place: Box::new(()) }
    }

    async fn run(
        &self,
        _slot: ToolSlot,
        request: ToolRequest,
        _sink: Arc<dyn OutputSink>,
        _cancel: CancellationToken,
    ) -> ToolReport {
        self.total.fetch_add(1, Ordering::Relaxed);
        if self.counts_calls {
            let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
            *starts.entry(request.idempotency_key()).or_default() += 1;
        }
        ToolReport::Finished {
            outcome: ToolOutcome::Ok,
            output: RESULT.clone(),
            full_output: None,
            duration_ms: 0,
        }
    }

    async fn probe(
        &self,
        _worker: &str,
        _request: ToolRequest,
        _sink: Arc<dyn OutputSink>,
        _cancel: CancellationToken,
    ) -> ToolProbe {
        ToolProbe::Report(ToolReport::Lost { reason: "the stub was restarted".to_string() })
    }

    fn changes(&self) -> u64 {
        0
    }

    async fn changed_since(&self, _seen: u64) {
        std::future::pending::<()>().await;
    }

    fn offers(&self, _tool: &str) -> bool {
        true
    }
}
