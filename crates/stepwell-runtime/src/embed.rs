//! Texts as vectors, however many: in batches, each repeated as a model call is.
//!
//! What is done again is bound in the same way as for model calls: by the policy, by the budget of the
//! server, and by the calls that may be in flight.

use std::mem;

use stepwell_core::agent::RetryPolicy;
use stepwell_ports::{EmbeddingPort, EmbeddingRequest, Embeddings, ModelFailure};
use tokio_util::sync::CancellationToken;

use crate::Engine;

/// Texts of one request, at most.
const BATCH_TEXTS_MAX: usize = 128;

/// Bytes of the texts of one request, at most; a longer text goes alone.
const BATCH_BYTES_MAX: usize = 256 * 1024;

impl Engine {
    /// Makes vectors of all texts of `request`, in their order. `None` when cancelled.
    ///
    /// # Errors
    /// The failure of a batch that no repetition mends, or the last one of those it may have.
    pub async fn embed(
        &self,
        port: &dyn EmbeddingPort,
        request: EmbeddingRequest,
        retry: &RetryPolicy,
        cancel: &CancellationToken,
    ) -> Option<Result<Embeddings, ModelFailure>> {
        cancel.run_until_cancelled(self.embed_all(port, request, retry, cancel)).await
    }

    async fn embed_all(
        &self,
        port: &dyn EmbeddingPort,
        mut request: EmbeddingRequest,
        retry: &RetryPolicy,
        cancel: &CancellationToken,
    ) -> Result<Embeddings, ModelFailure> {
        let mut all = Embeddings::default();
        for texts in batches(mem::take(&mut request.texts)) {
            let batch = EmbeddingRequest { texts, ..request.clone() };
            let made = self.embed_batch(port, &batch, retry, cancel).await?;
            // What the first batch has, all others must have.
            request.dimensions = made.vectors.first().map(Vec::len);
            all.usage.add(&made.usage);
            all.vectors.extend(made.vectors);
            all.endpoint = made.endpoint;
        }
        Ok(all)
    }

    async fn embed_batch(
        &self,
        port: &dyn EmbeddingPort,
        batch: &EmbeddingRequest,
        retry: &RetryPolicy,
        cancel: &CancellationToken,
    ) -> Result<Embeddings, ModelFailure> {
        let (server, clock) = (&batch.model.base_url, &*self.inner.ports.clock);
        let mut attempt = 1;
        loop {
            if attempt > 1 {
                self.inner.retry_budgets.take(server, clock).await;
            }
            let permit = self.inner.model_calls.acquire().await;
            let outcome = port.embed(batch, cancel).await;
            drop(permit);
            let failure = match outcome {
                Ok(made) => {
                    self.inner.retry_budgets.answered(server);
                    return Ok(made);
                }
                Err(failure) => failure,
            };
            if !(failure.kind.is_transient() || failure.elsewhere) || attempt >= retry.attempts_max
            {
                return Err(failure);
            }
            clock.wait_until(clock.now().plus_ms(wait_ms(retry, attempt, &failure))).await;
            attempt += 1;
        }
    }
}

/// How long to wait after the failure of that attempt. Who waits the same as others stands in line
/// with them for the server's budget.
fn wait_ms(retry: &RetryPolicy, attempt: u32, failure: &ModelFailure) -> u64 {
    match failure.retry_after_ms {
        Some(asked) => retry.granted_ms(asked),
        None => retry.wait_ms(attempt.saturating_sub(1)),
    }
}

fn batches(texts: Vec<String>) -> Vec<Vec<String>> {
    let mut batches: Vec<Vec<String>> = Vec::new();
    let mut bytes = 0;
    for text in texts {
        bytes += text.len();
        match batches.last_mut() {
            Some(last) if last.len() < BATCH_TEXTS_MAX && bytes <= BATCH_BYTES_MAX => {
                last.push(text);
            }
            Some(_) | None => {
                bytes = text.len();
                batches.push(vec![text]);
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lengths: &[usize], expected: &[usize]) {
        let texts: Vec<String> = lengths.iter().map(|it| "x".repeat(*it)).collect();
        let batches = batches(texts.clone());
        let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
        assert_eq!(sizes, expected);
        assert_eq!(batches.concat(), texts, "none is lost and none moves");
    }

    #[test]
    fn batches_are_bound_by_texts_and_by_bytes() {
        check(&[], &[]);
        check(&[0; BATCH_TEXTS_MAX + 1], &[BATCH_TEXTS_MAX, 1]);
        check(&[1, BATCH_BYTES_MAX, 1, 1], &[1, 1, 2]);
        check(&[BATCH_BYTES_MAX / 2; 5], &[2, 2, 1]);
        check(&[BATCH_BYTES_MAX * 3, 1], &[1, 1]);
    }
}
