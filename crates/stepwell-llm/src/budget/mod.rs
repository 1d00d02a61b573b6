//! A prompt that cannot fit is not sent: it costs the server its reading and the session its place.
//!
//! How long a prompt is, in tokens, only the server knows. So it is found out in steps, each only when
//! the one before cannot say that the prompt fits:
//!
//! 1. an estimate from what the server counted of the session's last prompt, which costs nothing;
//! 2. the messages that are new since, counted by the server one by one and remembered;
//! 3. the whole request with its tools, counted by the server.
//!
//! A server that does not count is left with the estimate, and one that does not tell its limit is
//! asked as it is: it says itself what does not fit. The outcome is the same failure either way.
//!
//! Invariant: a request is held up for [`MODELS_MS_MAX`] and [`COUNT_MS_MAX`] at most, and refused only
//! when it surely does not fit.

mod counts;
mod estimate;
mod server;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Client;
use stepwell_core::event::{ContextSize, ModelErrorKind};
use stepwell_ports::{ModelFailure, ModelRequest};
use tracing::debug;

use self::estimate::estimate;
use self::server::{Asking, Server};
use crate::target::Target;

/// Requests of no more bytes are sent as they are: a token has at least one, and every model that
/// runs agents takes more.
const UNCHECKED_BYTES: u64 = 4_096;

/// How long a server may take to tell its limit. It is asked once in a while.
const MODELS_MS_MAX: u64 = 1_000;

/// How long all counting of one request may take.
const COUNT_MS_MAX: u64 = 2_000;

/// Servers that are remembered, at most; above it those that nobody asks now are forgotten.
const SERVERS_MAX: usize = 256;

/// What is known of the limits of all servers.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    /// By address and model.
    servers: Mutex<BTreeMap<(String, String), Arc<Server>>>,
}

impl Budgets {
    /// Whether the request may fit.
    ///
    /// # Errors
    /// It does not: [`ModelErrorKind::ContextTooLong`] with the numbers, as the server would say it.
    pub(crate) async fn check(
        &self,
        client: &Client,
        target: &Target,
        request: &ModelRequest,
    ) -> Result<(), ModelFailure> {
        let bytes = request.prompt.body_bytes();
        if bytes <= UNCHECKED_BYTES {
            return Ok(());
        }
        let model = &request.model.name;
        let (server, asking) = (self.server(target, model), Asking { client, target, model });
        let Some(limit) = server.limit(&asking, Duration::from_millis(MODELS_MS_MAX)).await else {
            return Ok(());
        };
        let estimate = estimate(bytes, request.measured.as_ref());
        if estimate.at_most <= limit {
            return Ok(());
        }
        let counted = server.count(&asking, request, limit, Duration::from_millis(COUNT_MS_MAX));
        let counted = counted.await;
        debug!(
            session_id = %request.session_id, step = request.step, endpoint = %target.endpoint,
            limit, counted, estimate = estimate.likely, "a prompt near the limit"
        );
        match counted {
            Some(tokens) if tokens > limit => {
                Err(too_long(target, limit, tokens, "tokens, as the server counts them"))
            }
            None if estimate.at_least > limit => {
                Err(too_long(target, limit, estimate.likely, "tokens by estimate"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn server(&self, target: &Target, model: &str) -> Arc<Server> {
        let key = (target.endpoint.clone(), model.to_owned());
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if !servers.contains_key(&key) && servers.len() >= SERVERS_MAX {
            servers.retain(|_, server| Arc::strong_count(server) > 1);
        }
        servers.entry(key).or_default().clone()
    }
}

fn too_long(target: &Target, limit: u64, tokens: u64, unit: &str) -> ModelFailure {
    let message = format!(
        "not sent, because it cannot fit: the prompt has {tokens} {unit}, and the model takes \
         {limit}, as its server lists it"
    );
    let failure = target.failure(ModelErrorKind::ContextTooLong, message);
    ModelFailure {
        context: Some(ContextSize { limit: Some(limit), prompt: Some(tokens) }),
        ..failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_forgotten_when_there_are_too_many() {
        let budgets = Budgets::default();
        let target = Target::new("http://h/v1", None, |_| None).unwrap();
        let held = budgets.server(&target, "held");
        for number in 0..SERVERS_MAX * 2 {
            budgets.server(&target, &number.to_string());
            assert!(budgets.servers.lock().unwrap().len() <= SERVERS_MAX);
        }
        assert!(Arc::ptr_eq(&held, &budgets.server(&target, "held")));
    }
}
