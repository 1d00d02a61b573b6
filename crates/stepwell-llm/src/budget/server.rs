//! What one server says about lengths: its limit by `/v1/models`, counts by `/tokenize`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Client, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use stepwell_core::prompt::Prompt;
use stepwell_ports::ModelRequest;
use tokio::time::{Duration, Instant, timeout};

use super::counts::{Counted, Counts};
use crate::body::body;
use crate::endpoints::{beside, in_api};
use crate::listed::context_of;
use crate::read::read_whole;
use crate::target::Target;

/// After this time the limit is asked for again: another server may listen there.
const LIMIT_KEPT: Duration = Duration::from_secs(600);

/// A server that did not tell its limit, or does not count, is not asked again for this long.
const SILENCE_KEPT: Duration = Duration::from_secs(60);

/// Bytes of an answer, at most: `/tokenize` sends the tokens along, about seven bytes each.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// New messages that are counted one by one, at most. With more of them the whole is counted at once.
const NEW_MESSAGES_MAX: usize = 8;

/// What a chat template puts around a message, in tokens, beyond what stands around it in JSON.
const TOKENS_AROUND: u64 = 16;

/// Whom to ask.
pub(super) struct Asking<'a> {
    pub(super) client: &'a Client,
    pub(super) target: &'a Target,
    pub(super) model: &'a str,
}

/// What is known of one model at one server.
#[derive(Debug, Default)]
pub(super) struct Server {
    /// Held while it is asked for: many sessions that begin together ask once.
    limit: tokio::sync::Mutex<Option<Limit>>,
    counts: Mutex<Counts>,
    /// Until then it is not asked to count.
    silent_until: Mutex<Option<Instant>>,
}

#[derive(Debug, Clone, Copy)]
struct Limit {
    tokens: Option<u64>,
    until: Instant,
}

/// The server gave no count.
struct Uncounted;

impl Server {
    /// Tokens that the model takes; `None` when the server does not say within `within`.
    pub(super) async fn limit(&self, asking: &Asking<'_>, within: Duration) -> Option<u64> {
        let mut limit = self.limit.lock().await;
        let now = Instant::now();
        if let Some(known) = limit.filter(|it| now < it.until) {
            return known.tokens;
        }
        let tokens = timeout(within, asking.limit()).await.ok().flatten();
        let kept = if tokens.is_some() { LIMIT_KEPT } else { SILENCE_KEPT };
        *limit = Some(Limit { tokens, until: Instant::now() + kept });
        tokens
    }

    /// Tokens of the request as the server counts them, or what they are at most where that is within
    /// `limit`. `None` when the server does not say within `within`.
    pub(super) async fn count(
        &self,
        asking: &Asking<'_>,
        request: &ModelRequest,
        limit: u64,
        within: Duration,
    ) -> Option<u64> {
        if lock(&self.silent_until).is_some_and(|it| Instant::now() < it) {
            return None;
        }
        let counted = timeout(within, self.count_anew(asking, request, limit)).await;
        if let Ok(Ok(tokens)) = counted {
            return Some(tokens);
        }
        *lock(&self.silent_until) = Some(Instant::now() + SILENCE_KEPT);
        None
    }

    async fn count_anew(
        &self,
        asking: &Asking<'_>,
        request: &ModelRequest,
        limit: u64,
    ) -> Result<u64, Uncounted> {
        if let Some(measured) = &request.measured {
            let new = request.prompt.message_texts().skip(measured.messages as usize);
            let new: Vec<&str> = new.collect();
            if new.len() <= NEW_MESSAGES_MAX {
                let mut tokens = measured.tokens;
                for message in new {
                    tokens = tokens.saturating_add(self.count_message(asking, message).await?);
                }
                if tokens <= limit {
                    return Ok(tokens);
                }
            }
        }
        let digest = request.prompt.digest();
        let key = Counted::Request(&digest);
        if let Some(tokens) = lock(&self.counts).get(key) {
            return Ok(tokens);
        }
        let tokens = asking.count_request(request.prompt.clone()).await?;
        lock(&self.counts).insert(key, tokens);
        Ok(tokens)
    }

    async fn count_message(&self, asking: &Asking<'_>, message: &str) -> Result<u64, Uncounted> {
        let key = Counted::Message(message);
        if let Some(tokens) = lock(&self.counts).get(key) {
            return Ok(tokens);
        }
        let tokens = asking.count_text(message).await?.saturating_add(TOKENS_AROUND);
        lock(&self.counts).insert(key, tokens);
        Ok(tokens)
    }
}

#[derive(Deserialize)]
struct Tokenized {
    count: u64,
}

impl Asking<'_> {
    async fn limit(&self) -> Option<u64> {
        let request = self.client.get(in_api(&self.target.url, "models"));
        let models = self.answer(request).await.ok()?;
        context_of(&models, self.model)
    }

    /// A message by its JSON text, which is no shorter than what the template makes of it: a message
    /// alone is refused by templates that want them in turns.
    async fn count_text(&self, text: &str) -> Result<u64, Uncounted> {
        let body = json!({"model": self.model, "prompt": text}).to_string();
        self.tokenize(body.len() as u64, body.into()).await
    }

    /// The whole request as it would be sent: what `/tokenize` does not need of it, it passes over.
    async fn count_request(&self, prompt: Prompt) -> Result<u64, Uncounted> {
        self.tokenize(prompt.body_bytes(), body(prompt)).await
    }

    async fn tokenize(&self, bytes: u64, body: Body) -> Result<u64, Uncounted> {
        let request = self.client.post(beside(&self.target.url, "tokenize"));
        let request =
            request.header(CONTENT_TYPE, "application/json").header(CONTENT_LENGTH, bytes);
        let Tokenized { count } = self.answer(request.body(body)).await?;
        Ok(count)
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        mut request: RequestBuilder,
    ) -> Result<T, Uncounted> {
        // What is wrong with the key is said by the request itself.
        if let Ok(Some(authorization)) = self.target.authorization() {
            request = request.header(AUTHORIZATION, authorization);
        }
        let mut response = request.send().await.map_err(|_| Uncounted)?;
        let is_ok = response.status() == StatusCode::OK;
        // The rest of a refusal is read as well, so that the connection can be used again.
        let read = read_whole(&mut response, ANSWER_BYTES_MAX).await.map_err(|_| Uncounted)?;
        let answer = read.filter(|_| is_ok).ok_or(Uncounted)?;
        serde_json::from_slice(&answer).map_err(|_| Uncounted)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
