//! Exact continuation: the next prompt is the tokens of the last one, the very tokens that were
//! generated to it, and what is new behind them.
//!
//! vLLM with `--enable-scale-out` has an endpoint for each part of it: `render` makes tokens of
//! messages with the model's own template, `generate` takes tokens and gives tokens, and `derender`
//! makes an answer of tokens with the server's own parsers of calls and reasoning. So nothing of a
//! template or of a parser is known here.
//!
//! Invariant: what is sent begins with all tokens that are known, or is what the server rendered.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use stepwell_core::event::{FinishReason, ModelErrorKind};
use stepwell_ports::{ModelAnswer, ModelFailure, ModelRequest, ModelSink};
use tokio::time::{Duration, Instant};

use crate::assemble::{Answer, Assembler};
use crate::client::Reading;
use crate::deadlines::{Deadlines, Limit};
use crate::endpoints::{beside, in_api};
use crate::exchange::Server;
use crate::token_ids::TokenIds;

/// How long the server may take to make an answer of the tokens.
const DERENDER_MS_MAX: u64 = 60_000;

/// Tokens that a template puts behind a reply, at most: the end of the turn and a line end.
const CLOSING_TOKENS_MAX: usize = 8;

/// Tokens of the prompt's end that `derender` looks at.
const SEED_TOKENS: usize = 16;

/// A request as `render` gives it and `generate` takes it: all but the ids goes back as it came.
#[derive(Serialize, Deserialize)]
struct Rendered {
    token_ids: Vec<u32>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Asks with tokens. The pieces come at once at the end, when the server has made an answer of them.
pub(crate) async fn ask(
    server: &Server<'_>,
    request: &ModelRequest,
    deadlines: Deadlines,
    sink: &dyn ModelSink,
) -> Result<(ModelAnswer, TokenIds), ModelFailure> {
    let chat = request.prompt.body();
    let mut rendered = render(server, chat.clone(), deadlines).await?;
    let known = &request.tokens;
    if !known.ids().is_empty() && !known.is_cut() {
        let history =
            request.prompt.beginning(known.messages(), ",\"add_generation_prompt\":false");
        let history = render(server, history, deadlines).await?.token_ids;
        if let Some(exact) = continued(known.ids(), &history, &rendered.token_ids) {
            rendered.token_ids = exact;
        }
    }
    let (answer, generated) = generate(server, &rendered, deadlines, sink).await?;
    let ids = TokenIds { prompt: rendered.token_ids, ..generated };
    let said = derender(server, request, chat, &ids, answer.finish_reason).await?;
    let mut on_piece = |chunk| sink.chunk(chunk);
    let Answer { content, reasoning, tool_calls, finish_reason, finish_word, .. } =
        Assembler::whole(&said, &mut on_piece)
            .map_err(|problem| server.target.unusable(&problem, 200))?;
    let finish_word = answer.finish_word.or(finish_word);
    let answer = ModelAnswer { finish_word, ..answer };
    Ok((ModelAnswer { content, reasoning, tool_calls, finish_reason, ..answer }, ids))
}

/// The known tokens, whatever the template puts behind the last of them, and what is new. `history`
/// are the messages that the known tokens stand for, `rendered` all messages, both as rendered by the
/// server. `None` when it cannot be told where the new part begins.
fn continued(known: &[u32], history: &[u32], rendered: &[u32]) -> Option<Vec<u32>> {
    let new = rendered.strip_prefix(history)?;
    let end = known.last()?;
    let at = history.iter().rposition(|it| it == end)?;
    let closing = history.get(at + 1..).filter(|it| it.len() < CLOSING_TOKENS_MAX)?;
    Some([known, closing, new].concat())
}

async fn render(
    server: &Server<'_>,
    chat: String,
    deadlines: Deadlines,
) -> Result<Rendered, ModelFailure> {
    let url = in_api(&server.target.url, "chat/completions/render");
    let answer = server.post_json(url, chat, deadlines.next()).await;
    server.parsed(&answer.map_err(|failure| without_endpoint(server, failure))?)
}

/// The server answers and has no such endpoint: no repetition helps.
fn without_endpoint(server: &Server<'_>, failure: ModelFailure) -> ModelFailure {
    match failure.http_status {
        Some(403..=405) => {
            let message = format!(
                "history = \"tokens\" needs a vLLM with --enable-scale-out: {}",
                failure.message
            );
            let told = server.target.failure(ModelErrorKind::BadRequest, message);
            ModelFailure { http_status: failure.http_status, ..told }
        }
        Some(_) | None => failure,
    }
}

async fn generate(
    server: &Server<'_>,
    rendered: &Rendered,
    deadlines: Deadlines,
    sink: &dyn ModelSink,
) -> Result<(ModelAnswer, TokenIds), ModelFailure> {
    let url = beside(&server.target.url, "inference/v1/generate");
    let json = serde_json::to_string(rendered).map_err(|error| {
        let message = format!("the request cannot be made: {error}");
        server.target.failure(ModelErrorKind::BadRequest, message)
    })?;
    let bytes = json.len() as u64;
    let response = server.post(url, (json.into(), bytes), deadlines.next()).await?;
    Reading::new(response, server.target, deadlines).run(sink).await
}

/// The answer that the tokens are, as JSON.
async fn derender(
    server: &Server<'_>,
    request: &ModelRequest,
    chat: String,
    ids: &TokenIds,
    finish_reason: FinishReason,
) -> Result<String, ModelFailure> {
    let finish_reason = match finish_reason {
        FinishReason::Stop | FinishReason::ToolCalls => "stop",
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content_filter",
    };
    // The body of the request stands in it byte for byte.
    let chat = RawValue::from_string(chat).map_err(|error| {
        let message = format!("the request is no JSON: {error}");
        server.target.failure(ModelErrorKind::BadRequest, message)
    })?;
    let choice = json!({"index": 0, "finish_reason": finish_reason, "token_ids": ids.generated});
    let body = Derender {
        model: &request.model.name,
        stream: false,
        generate_response: json!({"request_id": "stepwell", "choices": [choice]}),
        prompt_token_ids: ids.prompt.get(ids.prompt.len().saturating_sub(SEED_TOKENS)..),
        chat_request: &chat,
    };
    let json = serde_json::to_string(&body).unwrap_or_default();
    let url = in_api(&server.target.url, "chat/completions/derender");
    let deadline = Instant::now() + Duration::from_millis(DERENDER_MS_MAX);
    let answer = server.post_json(url, json, (deadline, Limit::Total(DERENDER_MS_MAX))).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[derive(Serialize)]
struct Derender<'a> {
    model: &'a str,
    stream: bool,
    generate_response: Value,
    prompt_token_ids: Option<&'a [u32]>,
    chat_request: &'a RawValue,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of a turn, the line end behind it, and what begins the model's own turn.
    const END: u32 = 100;
    const LINE: u32 = 10;
    const TURN: u32 = 200;

    #[track_caller]
    fn check(known: &[u32], history: &[u32], rendered: &[u32], exact: Option<&[u32]>) {
        assert_eq!(continued(known, history, rendered).as_deref(), exact);
    }

    #[test]
    fn new_messages_follow_the_tokens_that_were_generated() {
        // The model wrote 5 6; the template makes 7 of it.
        let known = [1, 2, TURN, 5, 6, END];
        let history = [1, 2, TURN, 7, END, LINE];
        let rendered = [1, 2, TURN, 7, END, LINE, 3, END, LINE, TURN];
        let exact = [1, 2, TURN, 5, 6, END, LINE, 3, END, LINE, TURN];
        check(&known, &history, &rendered, Some(&exact));
    }

    #[test]
    fn what_cannot_be_told_is_left_to_the_server() {
        let known = [1, 2, 5, END];
        // The template changes the messages before when others follow.
        check(&known, &[1, 2, 5, END, LINE], &[1, 3, 5, END, LINE, 4], None);
        // The end of the reply does not stand in what the template makes of it, or not near its end.
        check(&known, &[1, 2, 5, LINE], &[1, 2, 5, LINE, 4], None);
        let far: Vec<u32> = [&[1, END][..], &[5; CLOSING_TOKENS_MAX]].concat();
        check(&known, &far, &far, None);
        check(&[], &[1], &[1, 2], None);
        check(&known, &[], &[1, 2], None);
    }
}
