//! OTLP over HTTP: one POST a batch, tried again when the collector asks for that.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use serde::Deserialize;
use stepwell_llm::retry_after::retry_after_ms;

use crate::exit::UsageError;
use crate::out::Out;
use crate::time;

/// Tries of a batch.
const TRIES: u32 = 6;
/// Wait before the second try when the collector names none; twice as long before each further one.
const BACKOFF: Duration = Duration::from_millis(500);
/// Longest wait for a collector that names one. Who wants more is asked again by the caller.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Longest that one try may take.
const TRY_TIMEOUT: Duration = Duration::from_secs(30);
/// Of a collector's words so much is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Of its words so much is shown.
const WORDS_MAX: usize = 300;

/// A collector.
#[derive(Debug)]
pub(super) struct Collector {
    client: Client,
    url: Url,
    /// The address without what may be a secret.
    shown: String,
    headers: HeaderMap,
    out: Out,
    backoff: Duration,
    /// It took something before.
    is_known: bool,
}

/// Why a try failed.
struct Failed {
    reason: String,
    again: Again,
}

/// Whether and when to try again.
#[derive(Debug, Clone, Copy)]
enum Again {
    /// It would be the same.
    Never,
    /// After a wait that we choose.
    Soon,
    /// After the wait that the collector asks for.
    After(Duration),
}

impl Collector {
    /// The collector at `endpoint`.
    pub(super) fn new(
        endpoint: &str,
        headers: &[(String, String)],
        out: Out,
    ) -> anyhow::Result<Self> {
        let url = address(endpoint)?;
        let headers = headers.iter().map(|(name, value)| header(name, value));
        let headers = headers.collect::<anyhow::Result<HeaderMap>>()?;
        let client = client(&url).context("cannot send over HTTP")?;
        let shown = without_secrets(url.clone());
        Ok(Self { client, url, shown, headers, out, backoff: BACKOFF, is_known: false })
    }

    /// Its address.
    pub(super) fn address(&self) -> &str {
        &self.shown
    }

    /// Sends a batch.
    ///
    /// # Errors
    /// When the collector does not take it, or not after a number of tries.
    pub(super) async fn send(&mut self, body: String) -> anyhow::Result<()> {
        let body = axum::body::Bytes::from(body);
        let mut backoff = self.backoff;
        for tried in 1..=TRIES {
            let failed = match self.try_once(body.clone()).await {
                Ok(()) => {
                    self.is_known = true;
                    return Ok(());
                }
                Err(failed) => failed,
            };
            let reason = failed.reason;
            let wait = match failed.again {
                Again::Never => bail!("{}: {reason}", self.shown),
                Again::Soon => backoff,
                Again::After(wait) => wait,
            };
            if tried == TRIES {
                bail!(
                    "{}: {reason}, {TRIES} times: look at the collector and export again; what it \
                     took before keeps its ids",
                    self.shown
                );
            }
            if wait > WAIT_MAX {
                let wait = wait.as_secs();
                bail!(
                    "{}: {reason}; it asks to come back in {wait} s: export again then",
                    self.url
                );
            }
            let seconds = wait.as_secs_f32();
            self.out.faint_remark(&format!("{}: {reason}; again in {seconds} s", self.shown));
            tokio::time::sleep(wait).await;
            backoff = (2 * backoff).min(WAIT_MAX);
        }
        Ok(())
    }

    async fn try_once(&self, body: axum::body::Bytes) -> Result<(), Failed> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone());
        let sent = request.header(CONTENT_TYPE, "application/json").body(body).send().await;
        let response = sent.map_err(|error| self.unanswered(&error))?;
        let status = response.status();
        let wait = asked_wait(response.headers());
        let words = words(response).await;
        if status.is_success() {
            self.mention_rejected(&words);
            return Ok(());
        }
        let may_pass = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        let reason = format!("the collector answers {status}{}", hint(status, &words));
        let again = match wait {
            _ if !may_pass => Again::Never,
            Some(wait) => Again::After(wait),
            None => Again::Soon,
        };
        Err(Failed { reason, again })
    }

    /// Where nobody listens when the first batch comes, nobody will: the address is wrong.
    fn unanswered(&self, error: &reqwest::Error) -> Failed {
        let cause = innermost(error);
        if error.is_connect() && !self.is_known {
            let reason = format!("no collector answers ({cause}): start it, or check the address");
            return Failed { reason, again: Again::Never };
        }
        Failed { reason: format!("no collector answers ({cause})"), again: Again::Soon }
    }

    /// A collector may take a part; trying again would not help, says OTLP.
    fn mention_rejected(&self, answer: &str) {
        let answer: Answer = serde_json::from_str(answer).unwrap_or_default();
        let partial = answer.partial_success;
        if partial.rejected_spans.is_some() || !partial.error_message.is_empty() {
            let count = partial.rejected_spans.map(|it| it.to_string()).unwrap_or_default();
            let message = shortened(&partial.error_message);
            self.out.remark(&format!(
                "the collector at {} rejected {} spans: {message}",
                self.shown,
                count.trim_matches('"')
            ));
        }
    }
}

/// What a collector says of what it took.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Answer {
    partial_success: Partial,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Partial {
    /// A text or a number.
    rejected_spans: Option<serde_json::Value>,
    error_message: String,
}

/// The address that takes traces.
fn address(endpoint: &str) -> anyhow::Result<Url> {
    let wrong = |problem: &str| {
        let text = format!(
            "--otlp {endpoint:?} is no address of a collector: {problem}; write for example \
             http://127.0.0.1:4318"
        );
        anyhow::Error::from(UsageError(text))
    };
    let mut url = Url::parse(endpoint).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it must begin with http:// or https://"));
    }
    if matches!(url.path(), "" | "/") {
        url.set_path("/v1/traces");
    }
    Ok(url)
}

/// For messages: an address may hold a password, or a key as a parameter.
fn without_secrets(mut url: Url) -> String {
    // Only addresses without a host refuse this, and they hold no password.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

fn header(name: &str, value: &str) -> anyhow::Result<(HeaderName, HeaderValue)> {
    // The value may be a key: it is not shown.
    let wrong = || UsageError(format!("--header {name}=… cannot be sent: check its characters"));
    let name = HeaderName::try_from(name).map_err(|_| wrong())?;
    let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn client(url: &Url) -> reqwest::Result<Client> {
    // Whoever installed a provider before keeps it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("stepwell/", env!("CARGO_PKG_VERSION")))
        .timeout(TRY_TIMEOUT)
        .retry(reqwest::retry::never())
        // It could carry a key to another host.
        .redirect(redirect::Policy::none());
    if url.scheme() != "https" {
        builder = builder.tls_certs_only([]);
    }
    if is_local(url) {
        builder = builder.no_proxy();
    }
    builder.build()
}

/// A collector on this machine is never asked through a proxy.
fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback());
    is_loopback || host == "localhost"
}

fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let now = Duration::from_millis(u64::try_from(time::now_ms()).unwrap_or(0));
    retry_after_ms(text, SystemTime::UNIX_EPOCH + now).map(Duration::from_millis)
}

/// The beginning of an answer; what breaks off is as good as its end.
async fn words(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes.extend_from_slice(&chunk);
        if bytes.len() >= ANSWER_BYTES_MAX {
            bytes.truncate(ANSWER_BYTES_MAX);
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hint(status: StatusCode, words: &str) -> String {
    let words = shortened(words);
    let said = if words.is_empty() { String::new() } else { format!(" ({words})") };
    let next = match status.as_u16() {
        300..=399 => ": give its true address to --otlp",
        401 | 403 => ": give it a key with --header NAME=VALUE",
        404 | 405 => ": check the path, it usually is /v1/traces on port 4318",
        413 => ": raise its limit of the size of a request",
        415 => ": it must take OTLP as JSON",
        _ => "",
    };
    format!("{said}{next}")
}

fn shortened(words: &str) -> String {
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(WORDS_MAX).collect()
}

fn innermost(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => innermost(cause),
        None => error.to_string(),
    }
}

#[cfg(test)]
impl Collector {
    /// One that does not wait before it tries again.
    pub(super) fn impatient(endpoint: &str, headers: &[(String, String)], out: Out) -> Self {
        let collector = Self::new(endpoint, headers, out).unwrap();
        Self { backoff: Duration::ZERO, ..collector }
    }
}
