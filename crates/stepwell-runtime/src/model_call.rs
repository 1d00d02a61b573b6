//! One attempt to ask the model, from its order to its outcome.

use std::sync::Arc;

use stepwell_core::event::{FinishReason, ModelErrorKind, ModelFailed, ModelReplied, ToolCall};
use stepwell_core::{Agent, CallId, Input, SessionId, Text};
use stepwell_ports::{ModelAnswer, ModelChunk, ModelFailure, ModelRequest, ModelSink};

use crate::effects::{Ended, Outlet};
use crate::live::{Live, LiveChunk, LiveChunkKind};
use crate::mailbox::Mailbox;
use crate::{answer, validate};

/// Calls that one reply may ask for. Each is some events of the same append; a model that asks for
/// more at once has lost its way.
pub(crate) const TOOL_CALLS_MAX: usize = 1_000;

/// Why a call is not sent yet, in words.
const FOR_ANOTHER_TRY: &str = "the request is not sent yet: tries after a failure go to that server \
    one after the other, a few a second, until it answers again";
const AMONG_ALL: &str = "the request is not sent yet: as many model calls run at once as may \
    (serve --model-calls)";

/// Asks. Ends without a word when cancelled.
pub(crate) async fn ask(
    outlet: Outlet,
    agent: Arc<Agent>,
    request: ModelRequest,
    mailbox: Arc<Mailbox>,
) -> Ended {
    let engine = &outlet.engine.inner;
    // First the place in the server's line, then the one among all: who waits for a server that is
    // down keeps nobody from another.
    let place = async {
        if request.attempt > 1 {
            let _told = mailbox.in_line(FOR_ANOTHER_TRY);
            engine.retry_budgets.take(&request.model.base_url, &*engine.ports.clock).await;
        }
        let _told = mailbox.in_line(AMONG_ALL);
        engine.model_calls.clone().acquire_owned().await
    };
    let _permit = tokio::select! {
        biased;
        () = outlet.cancel.cancelled() => return Ended::Without,
        () = engine.draining.cancelled() => return Ended::Without,
        permit = place => permit,
    };
    let server = request.model.base_url.clone();
    let (session_id, step, attempt) = (request.session_id, request.step, request.attempt);
    let sink = Sink { live: engine.live.clone(), session_id, step, attempt };
    if attempt > 1 {
        sink.send(LiveChunkKind::Reset, String::new());
    }
    let answer = tokio::select! {
        biased;
        () = outlet.cancel.cancelled() => return Ended::Without,
        answer = engine.ports.model.ask(request, Arc::new(sink), outlet.cancel.clone()) => answer,
    };
    if answer.is_ok() {
        engine.retry_budgets.answered(&server);
    }
    let input = match answer.and_then(bounded) {
        Ok(answer) => Input::ModelReplied(replied(&agent, step, attempt, answer)),
        Err(failure) => Input::ModelFailed(failed(step, attempt, failure)),
    };
    Ended::With(Box::new(input.into()))
}

fn bounded(answer: ModelAnswer) -> Result<ModelAnswer, ModelFailure> {
    let calls = answer.tool_calls.len();
    if calls <= TOOL_CALLS_MAX {
        return Ok(answer);
    }
    let message =
        format!("the reply asks for {calls} tool calls at once, more than {TOOL_CALLS_MAX}");
    Err(ModelFailure::new(answer.endpoint, ModelErrorKind::BadResponse, message))
}

struct Sink {
    live: Arc<Live>,
    session_id: SessionId,
    step: u32,
    attempt: u32,
}

impl Sink {
    fn send(&self, kind: LiveChunkKind, text: String) {
        if self.live.is_watched(self.session_id) {
            let (step, attempt) = (self.step, self.attempt);
            self.live
                .chunk(self.session_id, LiveChunk { kind, text, step, attempt, call_id: None });
        }
    }
}

impl ModelSink for Sink {
    fn chunk(&self, chunk: ModelChunk) {
        match chunk {
            ModelChunk::Content(text) => self.send(LiveChunkKind::Content, text),
            ModelChunk::Reasoning(text) => self.send(LiveChunkKind::Reasoning, text),
        }
    }
}

fn replied(agent: &Agent, step: u32, attempt: u32, answer: ModelAnswer) -> ModelReplied {
    let is_cut = matches!(answer.finish_reason, FinishReason::Length | FinishReason::ContentFilter);
    let is_answer = answer.tool_calls.is_empty() && !is_cut;
    let form = agent.output.answer.as_ref().filter(|_| is_answer);
    let answer_problem = form.and_then(|form| answer::problem(form, &answer.content));
    let tool_calls = answer.tool_calls.into_iter().map(|call| {
        let judged = validate::judge(agent, &call.name, call.arguments, is_cut);
        ToolCall {
            // The core numbers the calls.
            call_id: CallId { step, index: 0 },
            wire_id: call.id,
            name: call.name,
            arguments: Text::from(judged.arguments),
            repaired: judged.repaired,
            problem: judged.problem,
        }
    });
    ModelReplied {
        step,
        attempt,
        tool_calls: tool_calls.collect(),
        content: Text::from(answer.content),
        reasoning: Text::from(answer.reasoning),
        answer_problem,
        finish_reason: answer.finish_reason,
        finish_word: answer.finish_word.map(String::into_boxed_str),
        usage: answer.usage,
        endpoint: answer.endpoint,
        first_token_ms: answer.first_token_ms,
        duration_ms: answer.duration_ms,
        tokens: answer.tokens,
    }
}

fn failed(step: u32, attempt: u32, failure: ModelFailure) -> ModelFailed {
    ModelFailed {
        step,
        attempt,
        endpoint: failure.endpoint,
        error: failure.kind,
        message: failure.message,
        http_status: failure.http_status,
        retry_after_ms: failure.retry_after_ms,
        time_limit: failure.time_limit,
        context: failure.context,
        elsewhere: failure.elsewhere,
    }
}
