//! Every way to fail, as one kind with words: HTTP statuses, errors inside a stream, broken
//! connections, limits of time.
//!
//! The kind decides what the core does next, so it is chosen by what a repetition would bring, and
//! only then by the number that the server sent.

use std::error::Error;
use std::io;

use stepwell_core::event::{ContextSize, ModelErrorKind, TimeLimit};
use stepwell_ports::ModelFailure;

use crate::assemble::Problem;
use crate::deadlines::Limit;
use crate::target::Target;
use crate::wire::WireError;
use crate::words::{Meaning, context_size, meaning};

/// Characters of an answer that is no JSON, shown at most.
const EXCERPT_CHARS_MAX: usize = 300;

/// Causes of an error that are followed, at most: no chain is that long, unless it is a circle.
const CAUSES_MAX: usize = 16;

/// What came with an HTTP status that is no success.
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// From `Retry-After`.
    pub(crate) retry_after_ms: Option<u64>,
    /// From `Location`.
    pub(crate) location: Option<String>,
    /// As much of the body as was read.
    pub(crate) body: String,
}

impl Target {
    /// The server refused the request.
    pub(crate) fn refused(&self, refusal: Refusal) -> ModelFailure {
        let Refusal { status, retry_after_ms, location, body } = refusal;
        let error = WireError::read(&body);
        let words = match &error {
            Some(error) if !error.message.is_empty() => error.message.clone(),
            // Struck out before anything is cut: what is left of half a key could not be found.
            Some(_) | None => excerpt(&self.without_key(body.clone())),
        };
        let kind_words = error.map(|it| it.kind).unwrap_or_default();
        let kind = kind_of_status(status, &format!("{kind_words} {words}"));
        let mut message = format!("HTTP {status}");
        if !words.is_empty() {
            message.push_str(": ");
            message.push_str(&words);
        }
        let advice = match status {
            300..=399 => Some(format!(
                "the server redirects to {}: set base_url to the true address",
                location.as_deref().and_then(shown_location).as_deref().unwrap_or("nowhere"),
            )),
            401 | 403 => Some(self.key_advice()),
            404 | 405 if kind_words.is_empty() => Some(
                "the server has no such path: does base_url end as it should, often in /v1?".into(),
            ),
            _ => None,
        };
        if let Some(advice) = advice {
            message.push_str(" (");
            message.push_str(&advice);
            message.push(')');
        }
        let context = context_of(kind, &body);
        let failure = self.failure(kind, message);
        ModelFailure { http_status: Some(status), retry_after_ms, context, ..failure }
    }

    /// The answer of a success cannot be used.
    pub(crate) fn unusable(&self, problem: &Problem, status: u16) -> ModelFailure {
        let kind = match problem {
            Problem::ServerSaid { message, kind, code } => match code {
                Some(code) if *code >= 400 => kind_of_status(*code, &format!("{kind} {message}")),
                Some(_) | None => kind_of_words(&format!("{kind} {message}")),
            },
            Problem::Damaged { .. } | Problem::TooLarge { .. } => ModelErrorKind::BadResponse,
            Problem::Incomplete | Problem::CutCall | Problem::GivenUp { .. } => {
                ModelErrorKind::StreamBroken
            }
        };
        let message = match problem {
            Problem::ServerSaid { .. } => format!("an error in place of the answer: {problem}"),
            Problem::Damaged { .. }
            | Problem::Incomplete
            | Problem::CutCall
            | Problem::GivenUp { .. }
            | Problem::TooLarge { .. } => problem.to_string(),
        };
        let context = context_of(kind, &message);
        ModelFailure { http_status: Some(status), context, ..self.failure(kind, message) }
    }

    /// The answer is packed, which nobody asked for.
    pub(crate) fn encoded(&self, encoding: &str) -> ModelFailure {
        let message = format!(
            "the answer is encoded ({encoding}) although no encoding was asked for: switch \
             compression off in the server, or in the proxy before it"
        );
        let failure = self.failure(ModelErrorKind::BadResponse, message);
        ModelFailure { http_status: Some(200), ..failure }
    }

    /// A limit passed.
    pub(crate) fn timed_out(&self, limit: Limit, status: Option<u16>) -> ModelFailure {
        let failure = self.failure(ModelErrorKind::Timeout, limit.to_string());
        ModelFailure { http_status: status, time_limit: Some(limit.into()), ..failure }
    }

    /// There was no answer at all.
    pub(crate) fn unreachable(&self, error: &reqwest::Error, connect_ms: u64) -> ModelFailure {
        let address = &self.address;
        if error.is_timeout() && error.is_connect() {
            let message =
                format!("no connection within {connect_ms} ms (`connect` of [model.timeouts])");
            let failure = self.failure(ModelErrorKind::Timeout, message);
            return ModelFailure { time_limit: Some(TimeLimit::Connect), ..failure };
        }
        let cause = cause(error);
        let message = if error.is_builder() {
            format!("the request cannot be made: {cause}")
        } else if is_refused(error) {
            format!("connection refused: nothing listens at {address}, is the server running?")
        } else if error.is_connect() && cause.contains("dns error") {
            format!("the host name of {address} cannot be resolved: {cause}")
        } else if let Some(tls) = tls_error(error) {
            format!("no TLS connection to {address}: {tls}{}", self.scheme_advice(&tls))
        } else if error.is_connect() {
            format!("no connection to {address}: {cause}{}", self.scheme_advice(&cause))
        } else {
            format!("the connection to {address} broke before the answer: {cause}")
        };
        self.failure(ModelErrorKind::Transport, message)
    }

    /// What to try when a server does not begin to speak TLS.
    fn scheme_advice(&self, cause: &str) -> &'static str {
        let is_other = ["handshake eof", "corrupt message", "InvalidContentType"]
            .iter()
            .any(|words| cause.contains(words));
        if self.url.scheme() == "https" && is_other {
            " (does it speak HTTPS? Try http:// in base_url)"
        } else {
            ""
        }
    }

    /// The connection broke in the middle of the answer.
    pub(crate) fn broken(&self, error: &reqwest::Error, bytes: usize, status: u16) -> ModelFailure {
        let cause = cause(error);
        let message = format!("the connection broke after {bytes} bytes of the answer: {cause}");
        let failure = self.failure(ModelErrorKind::StreamBroken, message);
        ModelFailure { http_status: Some(status), ..failure }
    }

    /// The session does not want the answer any more.
    pub(crate) fn cancelled(&self) -> ModelFailure {
        self.failure(ModelErrorKind::Transport, "cancelled".into())
    }
}

fn context_of(kind: ModelErrorKind, words: &str) -> Option<ContextSize> {
    (kind == ModelErrorKind::ContextTooLong).then(|| context_size(words))
}

fn kind_of_status(status: u16, words: &str) -> ModelErrorKind {
    let meaning = meaning(words);
    match (status, meaning) {
        (401, _) => ModelErrorKind::Unauthorized,
        // 402 is an empty account.
        (402, _) | (400 | 403 | 429, Some(Meaning::Quota)) => ModelErrorKind::QuotaExhausted,
        (403, None | Some(Meaning::Context | Meaning::Rate | Meaning::Overload)) => {
            ModelErrorKind::Unauthorized
        }
        (408 | 409 | 425 | 429, _) => ModelErrorKind::RateLimited,
        (502 | 503 | 504 | 529, _) => ModelErrorKind::Overloaded,
        // Some llama.cpp releases answer 500 to a prompt that does not fit.
        (_, Some(Meaning::Context)) if (400..=500).contains(&status) => {
            ModelErrorKind::ContextTooLong
        }
        (400..=499, Some(Meaning::Filter)) => ModelErrorKind::ContentFilter,
        (300..=499, _) => ModelErrorKind::BadRequest,
        (500..=599, _) => ModelErrorKind::ServerError,
        (_, _) => ModelErrorKind::BadResponse,
    }
}

/// An error inside a stream that tells no number.
fn kind_of_words(words: &str) -> ModelErrorKind {
    match meaning(words) {
        Some(Meaning::Context) => ModelErrorKind::ContextTooLong,
        Some(Meaning::Quota) => ModelErrorKind::QuotaExhausted,
        Some(Meaning::Filter) => ModelErrorKind::ContentFilter,
        Some(Meaning::Rate) => ModelErrorKind::RateLimited,
        Some(Meaning::Overload) => ModelErrorKind::Overloaded,
        None => ModelErrorKind::StreamBroken,
    }
}

/// The begin of an answer that is no JSON, in one line.
fn excerpt(body: &str) -> String {
    let mut words = body.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(EXCERPT_CHARS_MAX) {
        words.truncate(end);
        words.push('…');
    }
    words
}

/// An address to show, without its secrets. A path stays as it is.
fn shown_location(location: &str) -> Option<String> {
    let end = location.find(['?', '#']).unwrap_or(location.len());
    let shown = location.get(..end)?;
    Some(match shown.split_once("://") {
        Some((scheme, rest)) => {
            let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
            format!("{scheme}://{rest}")
        }
        None => shown.to_owned(),
    })
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |error| (*error).source()).take(CAUSES_MAX)
}

/// The causes in words, without the address, which the failure names anyway, and without repeats.
fn cause(error: &reqwest::Error) -> String {
    let mut words: Vec<String> = Vec::new();
    for cause in causes(error) {
        let text = cause.to_string();
        // "client error (Connect)" says what the failure says already.
        let is_new = !words.iter().any(|earlier| earlier.contains(&text));
        if is_new && !text.starts_with("client error") {
            words.push(text);
        }
    }
    if words.is_empty() { "no cause was given".into() } else { words.join(": ") }
}

fn is_refused(error: &reqwest::Error) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn tls_error(error: &reqwest::Error) -> Option<String> {
    causes(error).find_map(|cause| {
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        tls.or_else(|| cause.downcast_ref()).map(ToString::to_string)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_a_kind() {
        for (status, kind) in [
            (400, ModelErrorKind::BadRequest),
            (401, ModelErrorKind::Unauthorized),
            (402, ModelErrorKind::QuotaExhausted),
            (403, ModelErrorKind::Unauthorized),
            (404, ModelErrorKind::BadRequest),
            (408, ModelErrorKind::RateLimited),
            (409, ModelErrorKind::RateLimited),
            (413, ModelErrorKind::BadRequest),
            (422, ModelErrorKind::BadRequest),
            (429, ModelErrorKind::RateLimited),
            (500, ModelErrorKind::ServerError),
            (501, ModelErrorKind::ServerError),
            (502, ModelErrorKind::Overloaded),
            (503, ModelErrorKind::Overloaded),
            (504, ModelErrorKind::Overloaded),
            (529, ModelErrorKind::Overloaded),
            (204, ModelErrorKind::BadResponse),
            (307, ModelErrorKind::BadRequest),
        ] {
            assert_eq!(kind_of_status(status, "words"), kind, "{status}");
        }
    }

    #[test]
    fn words_tell_kinds_of_one_status_apart() {
        for (status, words, kind) in [
            (400, "This model's maximum context length is 16384", ModelErrorKind::ContextTooLong),
            (500, "the request exceeds the available context size", ModelErrorKind::ContextTooLong),
            (400, "max_tokens=20000 cannot be greater", ModelErrorKind::BadRequest),
            (429, "insufficient_quota", ModelErrorKind::QuotaExhausted),
            (400, "budget_exceeded Budget has been exceeded!", ModelErrorKind::QuotaExhausted),
            (429, "rate_limit_exceeded", ModelErrorKind::RateLimited),
            (400, "content_filter", ModelErrorKind::ContentFilter),
            (403, "content_policy_violation", ModelErrorKind::ContentFilter),
            (403, "no access", ModelErrorKind::Unauthorized),
        ] {
            assert_eq!(kind_of_status(status, words), kind, "{status} {words}");
        }
        assert_eq!(kind_of_words("insufficient_quota"), ModelErrorKind::QuotaExhausted);
        assert_eq!(kind_of_words("something broke"), ModelErrorKind::StreamBroken);
    }

    #[test]
    fn pages_are_shown_short() {
        assert_eq!(excerpt("<html>\n  <b>502</b>\n"), "<html> <b>502</b>");
        assert_eq!(excerpt(&"ä ".repeat(1_000)).chars().count(), EXCERPT_CHARS_MAX + 1);
    }

    /// Wherever a page is cut, and however often it holds the key, no piece of it is left.
    #[test]
    fn pages_are_shown_without_the_key() {
        let key = "sk-SECRET-0123456789";
        let target = Target::new("http://h/v1", Some("K"), |_| Some(key.to_owned())).ok().unwrap();
        for before in 0..key.len() {
            for body in [" sk-SECRET-0123456789".repeat(40), key.repeat(40)] {
                let body = format!("{}{body}", "x".repeat(before));
                for cut in [body.len(), body.len() - 7] {
                    let body = body[..cut].to_owned();
                    let refusal =
                        Refusal { status: 500, retry_after_ms: None, location: None, body };
                    let message = target.refused(refusal).message;
                    assert!(!message.contains("sk-SEC"), "{message}");
                }
            }
        }
    }

    #[test]
    fn a_redirect_is_shown_without_secrets() {
        let shown = |location| shown_location(location).unwrap();
        assert_eq!(shown("https://u:p@h/v1?token=x"), "https://h/v1");
        assert_eq!(shown("/v2/chat#x"), "/v2/chat");
    }
}
