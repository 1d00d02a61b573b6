//! How long a prompt is, and how long it may be, as vLLM says it.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::reply::tokens;
use super::{REQUEST_BYTES_MAX, Stage, refuse};

/// What `/tokenize` reads of its request: a text, or all that is asked of `/v1/chat/completions`.
#[derive(Deserialize)]
struct ToCount {
    #[serde(default)]
    prompt: Option<String>,
}

/// Tokens that a model takes when its script does not say: those of the longest request.
pub(super) fn default_max_model_len() -> u64 {
    tokens(REQUEST_BYTES_MAX)
}

/// `/tokenize`. The tokens themselves are nobody's.
pub(super) async fn tokenize(State(stage): State<Arc<Stage>>, body: Bytes) -> Response {
    let bytes = match serde_json::from_slice::<ToCount>(&body) {
        Ok(ToCount { prompt }) => prompt.map_or(body.len(), |it| it.len()),
        Err(error) => {
            let reason = format!("the request is wrong: {error}");
            return refuse(StatusCode::BAD_REQUEST, &reason, None);
        }
    };
    let (count, max_model_len) = (tokens(bytes), stage.script.max_model_len);
    axum::Json(json!({"count": count, "max_model_len": max_model_len})).into_response()
}

/// What is said to a request of `bytes` that is too long.
pub(super) fn refusal(bytes: usize, max_model_len: u64) -> Option<Response> {
    let prompt = tokens(bytes);
    let reason = format!(
        "This model's maximum context length is {max_model_len} tokens. However, your prompt \
         contains at least {prompt} input tokens, which exceeds this limit even without any output \
         tokens. Please reduce the length of the input prompt."
    );
    (prompt > max_model_len).then(|| refuse(StatusCode::BAD_REQUEST, &reason, None))
}
