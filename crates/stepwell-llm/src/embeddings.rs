//! Texts as vectors: `/v1/embeddings` of the servers that models are asked at, with their replicas,
//! keys, limits of time and kinds of failure.
//!
//! Invariant: there is one vector for each text, in the order of the texts, all of one length and of
//! finite numbers, or there is a failure.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stepwell_core::event::ModelErrorKind;
use stepwell_ports::{Affinity, EmbeddingPort, EmbeddingRequest, Embeddings, ModelFailure};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::OpenAiClient;
use crate::assemble::Problem;
use crate::deadlines::Deadlines;
use crate::exchange::Server;
use crate::target::Target;
use crate::wire::WireUsage;

/// Texts of one request, at most: what `OpenAI` takes.
pub const TEXTS_MAX: usize = 2_048;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Entry>,
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Entry {
    index: usize,
    embedding: Vec<f32>,
}

#[async_trait]
impl EmbeddingPort for OpenAiClient {
    async fn embed(
        &self,
        request: &EmbeddingRequest,
        cancel: &CancellationToken,
    ) -> Result<Embeddings, ModelFailure> {
        let targets = Target::all(&request.model)?;
        // No replica holds anything of it, so it goes where least is to do.
        let affinity = Affinity { key: key_of(&request.texts), ..Affinity::default() };
        let placed = self.endpoints.place(targets, &affinity);
        let (target, lease) = placed.ok_or_else(Target::nowhere)?;
        let target = target.in_api("embeddings");
        let attempt = cancel.run_until_cancelled(self.attempt_to_embed(request, &target));
        let outcome = attempt.await.unwrap_or_else(|| Err(target.cancelled()));
        if cancel.is_cancelled() {
            return outcome;
        }
        let outcome = lease.end(outcome);
        let texts = request.texts.len();
        match &outcome {
            Ok(it) => debug!(texts, endpoint = %it.endpoint, "the model made vectors"),
            Err(failure) => debug!(
                texts, endpoint = %failure.endpoint, kind = failure.kind.as_str(),
                message = %failure.message, "the model made no vectors"
            ),
        }
        outcome
    }
}

impl OpenAiClient {
    async fn attempt_to_embed(
        &self,
        request: &EmbeddingRequest,
        target: &Target,
    ) -> Result<Embeddings, ModelFailure> {
        let count = request.texts.len();
        let refused = |message| target.failure(ModelErrorKind::BadRequest, message);
        if !(1..=TEXTS_MAX).contains(&count) {
            return Err(refused(format!(
                "{count} texts at once: a request takes 1 to {TEXTS_MAX}"
            )));
        }
        let body =
            Body { model: &request.model.name, input: &request.texts, encoding_format: "float" };
        let body = serde_json::to_string(&body)
            .map_err(|error| refused(format!("the request cannot be made: {error}")))?;
        let (limits, now) = (request.model.timeouts, Instant::now());
        let server = Server {
            client: self.client(target, limits.connect_ms)?,
            target,
            connect_ms: limits.connect_ms,
        };
        // All comes at once, so the first token is the last.
        let until = Deadlines::new(limits, now).next();
        let answer = server.post_json(target.url.clone(), body, until).await?;
        let Answer { data, usage } = server.parsed(&answer)?;
        let vectors = in_order(data, count, request.dimensions)
            .map_err(|reason| target.unusable(&Problem::Damaged { reason }, 200))?;
        let usage = usage.map(|it| it.to_usage()).unwrap_or_default();
        Ok(Embeddings { vectors, usage, endpoint: target.endpoint.clone() })
    }
}

/// The vectors in the order of the `count` texts, each of `dimensions` numbers.
fn in_order(
    data: Vec<Entry>,
    count: usize,
    dimensions: Option<usize>,
) -> Result<Vec<Vec<f32>>, String> {
    if data.len() != count {
        return Err(format!("{} vectors came for {count} texts", data.len()));
    }
    let dimensions = dimensions.or_else(|| data.first().map(|it| it.embedding.len()));
    let dimensions = dimensions.unwrap_or_default();
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    for Entry { index, embedding } in data {
        let length = embedding.len();
        if length != dimensions || length == 0 {
            return Err(format!(
                "the vector of text {index} has {length} numbers, and {dimensions} are expected"
            ));
        }
        if !embedding.iter().all(|it| it.is_finite()) {
            return Err(format!("the vector of text {index} has a number that is not finite"));
        }
        match vectors.get_mut(index) {
            Some(place @ None) => *place = Some(embedding),
            Some(Some(_)) => return Err(format!("text {index} has two vectors")),
            None => return Err(format!("there is no text {index}, but a vector for it")),
        }
    }
    vectors.into_iter().collect::<Option<_>>().ok_or_else(|| "a text has no vector".to_owned())
}

/// Spreads requests: the same texts go the same way, and nothing can be read from it.
fn key_of(texts: &[String]) -> String {
    let mut hasher = DefaultHasher::new();
    texts.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(data: &str, dimensions: Option<usize>, expected: Result<&[&[f32]], &str>) {
        let data = serde_json::from_str(data).unwrap();
        match (in_order(data, 2, dimensions), expected) {
            (Ok(vectors), Ok(expected)) => assert_eq!(vectors, expected),
            (Err(reason), Err(words)) => assert!(reason.contains(words), "{reason}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn vectors_stand_in_the_order_of_the_texts() {
        let data = r#"[{"index":1,"embedding":[3,4.5]},{"index":0,"embedding":[1e-3,-2]}]"#;
        let vectors: &[&[f32]] = &[&[0.001, -2.0], &[3.0, 4.5]];
        check(data, None, Ok(vectors));
        check(data, Some(2), Ok(vectors));
        check(data, Some(3), Err("has 2 numbers, and 3 are expected"));
    }

    #[test]
    fn what_is_missing_twice_or_no_number_is_refused() {
        for (data, words) in [
            (r#"[{"index":0,"embedding":[1]}]"#, "1 vectors came for 2 texts"),
            (r#"[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]"#, "two vectors"),
            (r#"[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]"#, "no text 2"),
            (r#"[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]"#, "has 2 numbers"),
            (r#"[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]"#, "has 0 numbers"),
        ] {
            check(data, None, Err(words));
        }
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let reason = in_order(vec![Entry { index: 0, embedding: vec![1.0, number] }], 1, None);
            assert!(reason.unwrap_err().contains("not finite"), "{number}");
        }
    }
}
