//! What a model server truly supports, found out by trying. It costs some small requests.

mod history;
mod tries;

use std::env;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, StatusCode, Url};
use serde_json::{Value, json};
use stepwell_core::event::ModelErrorKind;
use stepwell_ports::ModelFailure;

use crate::connect::Clients;
use crate::endpoints::{beside, in_api, load};
use crate::listed::context_of;
use crate::read::read_whole;
use crate::target::Target;

/// How long one answer may take.
const ANSWER_MS_MAX: u64 = 60_000;

/// Tries in a row without an answer to judge by after which the server is not asked for more.
const LOST_MAX: usize = 2;

/// The name of the finding that the server was not asked for more.
pub const REST: &str = "the rest";

/// Bytes of an answer that are read, at most.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Whether a server can do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It did.
    Yes,
    /// It refused, or ignored what it was asked for.
    No,
    /// It gave no answer to judge by.
    Unknown,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// What was tried.
    pub name: &'static str,
    /// What came of it.
    pub support: Support,
    /// What that means, or what the server said.
    pub detail: String,
}

/// Tries `model` at `base_url`, with the key in the environment variable `key_env`. `nonce` must
/// differ from run to run: it keeps an earlier run's prompts out of the cache.
///
/// # Errors
/// When the server cannot be asked at all. What it refuses is a finding.
pub async fn probe(
    base_url: &str,
    model: &str,
    key_env: Option<&str>,
    nonce: u128,
) -> Result<Vec<Capability>, ModelFailure> {
    let target = Target::new(base_url, key_env, |name| env::var(name).ok())?;
    let client = Clients::default()
        .get(&target.url, ANSWER_MS_MAX)
        .map_err(|error| target.unreachable(&error, ANSWER_MS_MAX))?;
    let prober = Prober { client, target, model };
    let mut found = vec![prober.context().await?];
    // Who does not answer the first plain request is asked no second one.
    let mut lost = LOST_MAX - 1;
    for it in tries::tries() {
        let answer = prober.post(prober.target.url.clone(), &tries::body(model, &it.members)).await;
        let answer = answer.map_err(Refused::of_a_try);
        lost = if matches!(answer, Err(Refused::Lost(_))) { lost + 1 } else { 0 };
        found.push(judged(&it, answer));
        if lost >= LOST_MAX {
            let detail = "not tried, because the server gave no answer to judge by".to_owned();
            found.push(Capability { name: REST, support: Support::Unknown, detail });
            return Ok(found);
        }
    }
    found.extend(prober.history().await);
    found.push(prober.cache(nonce).await);
    found.push(prober.tokenize().await);
    found.push(prober.embeddings().await);
    found.push(prober.load().await);
    Ok(found)
}

fn judged(it: &tries::Try, answer: Result<Value, Refused>) -> Capability {
    let (support, detail) = match answer {
        Ok(answer) if (it.judge)(&answer) => (Support::Yes, it.yes.to_owned()),
        Ok(_) => (Support::No, it.no.to_owned()),
        Err(Refused::Said { words, .. }) => (Support::No, format!("{} ({words})", it.no)),
        Err(Refused::Lost(words)) => (Support::Unknown, words),
    };
    Capability { name: it.name, support, detail }
}

/// Why there is no answer to judge.
enum Refused {
    /// The server refused.
    Said { status: u16, words: String },
    /// The connection or the server failed.
    Lost(String),
}

impl Refused {
    /// A key, a path or a rate that is refused says nothing of what was tried.
    fn of_a_try(self) -> Self {
        match self {
            Self::Said { status: 300..=399 | 401..=405 | 408 | 429, words } => Self::Lost(words),
            other @ (Self::Said { .. } | Self::Lost(_)) => other,
        }
    }
}

struct Prober<'a> {
    client: Client,
    target: Target,
    model: &'a str,
}

impl Prober<'_> {
    /// The model and its context, and whether the server is there at all.
    async fn context(&self) -> Result<Capability, ModelFailure> {
        let name = "context";
        let listed = match self.get(in_api(&self.target.url, "models")).await {
            Ok(listed) => listed,
            Err(Refused::Lost(words)) => {
                return Err(self.target.failure(ModelErrorKind::Transport, words));
            }
            Err(Refused::Said { words, .. }) => {
                return Ok(Capability { name, support: Support::Unknown, detail: words });
            }
        };
        Ok(match context_of(&listed, self.model) {
            Some(tokens) => {
                Capability { name, support: Support::Yes, detail: format!("{tokens} tokens") }
            }
            None => Capability {
                name,
                support: Support::No,
                detail: "not told: a prompt that is too long is found out by sending it".into(),
            },
        })
    }

    async fn cache(&self, nonce: u128) -> Capability {
        let prompt = tries::long_prompt(nonce);
        let members = json!({"messages": [{"role": "user", "content": prompt}], "max_tokens": 1});
        let body = tries::body(self.model, &members);
        let url = || self.target.url.clone();
        let first = self.post(url(), &body).await;
        let second = self.post(url(), &body).await;
        let (support, detail) = match (first, second) {
            (Ok(first), Ok(second)) => tries::cache(&first, &second),
            (Err(Refused::Said { words, .. } | Refused::Lost(words)), _)
            | (_, Err(Refused::Said { words, .. } | Refused::Lost(words))) => {
                (Support::Unknown, words)
            }
        };
        Capability { name: "prefix cache", support, detail }
    }

    async fn tokenize(&self) -> Capability {
        let body = tries::body(self.model, &json!({"tools": tries::tool(false)}));
        let url = beside(&self.target.url, "tokenize");
        let uncounted = || {
            let why = "how long a prompt is, is estimated, and comes with its answer".to_owned();
            (Support::No, why)
        };
        let (support, detail) = match self.post(url, &body).await {
            Ok(answer) => match answer.get("count").and_then(Value::as_u64) {
                Some(count) => {
                    let detail = format!(
                        "prompts near the limit are counted with their tools ({count} tokens in \
                         this one), and those that cannot fit are not sent"
                    );
                    (Support::Yes, detail)
                }
                None => uncounted(),
            },
            Err(Refused::Said { .. }) => uncounted(),
            Err(Refused::Lost(words)) => (Support::Unknown, words),
        };
        Capability { name: "tokenize", support, detail }
    }

    async fn embeddings(&self) -> Capability {
        let body = json!({"model": self.model, "input": "hello"});
        let length = |answer: &Value| {
            answer.pointer("/data/0/embedding").and_then(Value::as_array).map(Vec::len)
        };
        let none = || (Support::No, "this model makes none".to_owned());
        let (support, detail) = match self.post(in_api(&self.target.url, "embeddings"), &body).await
        {
            Ok(answer) => length(&answer)
                .map_or_else(none, |it| (Support::Yes, format!("{it} numbers a text"))),
            Err(Refused::Said { .. }) => none(),
            Err(Refused::Lost(words)) => (Support::Unknown, words),
        };
        Capability { name: "embeddings", support, detail }
    }

    async fn load(&self) -> Capability {
        let request = self.client.get(beside(&self.target.url, "metrics"));
        let none =
            || (Support::No, "not told: replicas are chosen by own requests alone".to_owned());
        let (support, detail) = match self.read(request).await {
            Ok(text) => load::requests(&String::from_utf8_lossy(&text))
                .map_or_else(none, |it| (Support::Yes, format!("told by /metrics, {it} now"))),
            Err(Refused::Said { .. }) => none(),
            Err(Refused::Lost(words)) => (Support::Unknown, words),
        };
        Capability { name: "load", support, detail }
    }

    async fn get(&self, url: Url) -> Result<Value, Refused> {
        parsed(&self.read(self.client.get(url)).await?)
    }

    async fn post(&self, url: Url, body: &Value) -> Result<Value, Refused> {
        let request = self.client.post(url).header(CONTENT_TYPE, "application/json");
        parsed(&self.read(request.body(body.to_string())).await?)
    }

    async fn read(&self, mut request: reqwest::RequestBuilder) -> Result<Vec<u8>, Refused> {
        // What is wrong with the key was found when the target was made.
        if let Ok(Some(authorization)) = self.target.authorization() {
            request = request.header(AUTHORIZATION, authorization);
        }
        let lost = |error: reqwest::Error| {
            Refused::Lost(if error.is_timeout() {
                format!("no answer within {} s", ANSWER_MS_MAX / 1_000)
            } else {
                self.target.unreachable(&error, ANSWER_MS_MAX).message
            })
        };
        let limit = Duration::from_millis(ANSWER_MS_MAX);
        let mut response = request.timeout(limit).send().await.map_err(lost)?;
        let status = response.status();
        let body = read_whole(&mut response, ANSWER_BYTES_MAX).await.map_err(lost)?;
        let body =
            body.ok_or_else(|| Refused::Lost(format!("more than {ANSWER_BYTES_MAX} bytes")))?;
        if status.is_success() {
            return Ok(body);
        }
        let words = self.target.failure(ModelErrorKind::BadRequest, said(status, &body)).message;
        Err(match status.as_u16() {
            500..=599 => Refused::Lost(words),
            status => Refused::Said { status, words },
        })
    }
}

fn parsed(body: &[u8]) -> Result<Value, Refused> {
    serde_json::from_slice(body).map_err(|_| Refused::Lost("the answer is no JSON".to_owned()))
}

/// A refusal in one line.
fn said(status: StatusCode, body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = ["/error/message", "/message", "/detail", "/error"]
        .iter()
        .find_map(|pointer| body.pointer(pointer).and_then(Value::as_str));
    let status = status.as_u16();
    match message.and_then(|it| it.lines().next()) {
        Some(message) => format!("HTTP {status}: {message}"),
        None => format!("HTTP {status}"),
    }
}
