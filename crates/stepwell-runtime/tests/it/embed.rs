//! Texts as vectors: batches in order, repeated like model calls.

use std::sync::Mutex;

use async_trait::async_trait;
use stepwell_core::agent::{ModelSpec, RetryPolicy};
use stepwell_core::event::{ModelErrorKind, Usage};
use stepwell_ports::{EmbeddingPort, EmbeddingRequest, Embeddings, ModelFailure};
use stepwell_sim::World;
use tokio_util::sync::CancellationToken;

/// Makes a vector of each text's number, and fails as it is told before.
#[derive(Default)]
struct Port {
    failures: Mutex<Vec<ModelFailure>>,
    /// Of each request: when it came, in milliseconds, how many texts it had, and the length that
    /// its vectors had to have.
    asked: Mutex<Vec<(u64, usize, Option<usize>)>>,
    started: Option<tokio::time::Instant>,
}

impl Port {
    fn failing(kinds: &[(ModelErrorKind, Option<u64>)]) -> Self {
        let failure = |(kind, retry_after_ms): &(ModelErrorKind, Option<u64>)| ModelFailure {
            retry_after_ms: *retry_after_ms,
            ..ModelFailure::new("http://e/v1/embeddings".into(), *kind, "no luck".into())
        };
        let failures = kinds.iter().rev().map(failure).collect();
        let started = Some(tokio::time::Instant::now());
        Self { failures: Mutex::new(failures), started, ..Self::default() }
    }

    fn asked(&self) -> Vec<(u64, usize, Option<usize>)> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl EmbeddingPort for Port {
    async fn embed(
        &self,
        request: &EmbeddingRequest,
        _: &CancellationToken,
    ) -> Result<Embeddings, ModelFailure> {
        let ms = self.started.map_or(0, |it| it.elapsed().as_millis() as u64);
        let asked = (ms, request.texts.len(), request.dimensions);
        self.asked.lock().unwrap().push(asked);
        if let Some(failure) = self.failures.lock().unwrap().pop() {
            return Err(failure);
        }
        let vectors = request.texts.iter().map(|text| vec![text.parse().unwrap(), 0.5]);
        let usage = Usage { prompt_tokens: request.texts.len() as u64, ..Usage::default() };
        Ok(Embeddings { vectors: vectors.collect(), usage, endpoint: "http://e".into() })
    }
}

const RETRY: RetryPolicy = RetryPolicy { attempts_max: 3, base_ms: 100, cap_ms: 1_000 };

async fn embed(port: &Port, texts: usize) -> Option<Result<Embeddings, ModelFailure>> {
    let world = World::new(1);
    let node = world.start("n1");
    let request = EmbeddingRequest {
        model: ModelSpec::new("e", "http://e/v1"),
        dimensions: None,
        texts: (0..texts).map(|number| number.to_string()).collect(),
    };
    node.engine.embed(port, request, &RETRY, &CancellationToken::new()).await
}

#[tokio::test(start_paused = true)]
async fn many_texts_go_in_batches_and_come_back_in_order() {
    let port = Port::failing(&[]);
    let made = embed(&port, 300).await.unwrap().unwrap();
    let expected: Vec<Vec<f32>> = (0..300_u16).map(|number| vec![f32::from(number), 0.5]).collect();
    assert_eq!(made.vectors, expected);
    assert_eq!(made.usage.prompt_tokens, 300);
    assert_eq!(port.asked(), [(0, 128, None), (0, 128, Some(2)), (0, 44, Some(2))]);
    assert_eq!(embed(&Port::default(), 0).await.unwrap().unwrap(), Embeddings::default());
}

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_tried_again_after_a_while_and_only_that_batch() {
    let port = Port::failing(&[
        (ModelErrorKind::Transport, None),
        (ModelErrorKind::RateLimited, Some(5_000)),
    ]);
    let made = embed(&port, 130).await.unwrap().unwrap();
    assert_eq!(made.vectors.len(), 130);
    let asked = [(0, 128, None), (100, 128, None), (5_100, 128, None), (5_100, 2, Some(2))];
    assert_eq!(port.asked(), asked);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_pass_ends_it() {
    let port = Port::failing(&[(ModelErrorKind::BadRequest, None)]);
    let failure = embed(&port, 1).await.unwrap().unwrap_err();
    assert_eq!((failure.kind, port.asked().len()), (ModelErrorKind::BadRequest, 1));
    let port = Port::failing(&[(ModelErrorKind::ServerError, None); 5]);
    let failure = embed(&port, 1).await.unwrap().unwrap_err();
    assert_eq!((failure.kind, port.asked().len()), (ModelErrorKind::ServerError, 3));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_the_waiting() {
    let world = World::new(1);
    let node = world.start("n1");
    let port = Port::failing(&[(ModelErrorKind::RateLimited, Some(60_000)); 3]);
    let request = EmbeddingRequest {
        model: ModelSpec::new("e", "http://e/v1"),
        dimensions: None,
        texts: vec!["1".into()],
    };
    let cancel = CancellationToken::new();
    let embedding = node.engine.embed(&port, request, &RETRY, &cancel);
    let cancelling = async {
        world.pass_ms(10_000).await;
        cancel.cancel();
    };
    let (made, ()) = tokio::join!(embedding, cancelling);
    assert!(made.is_none());
    assert_eq!(port.asked().len(), 1);
}
