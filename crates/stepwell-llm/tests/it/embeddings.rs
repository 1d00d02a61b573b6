//! Texts as vectors, against a server that does what the test says.

use stepwell_core::agent::ModelSpec;
use stepwell_core::event::ModelErrorKind;
use stepwell_llm::OpenAiClient;
use stepwell_llm::embeddings::TEXTS_MAX;
use stepwell_ports::{EmbeddingPort as _, EmbeddingRequest, Embeddings, ModelFailure};
use tokio_util::sync::CancellationToken;

use crate::peer::{Peer, Request, response};

fn request(base_url: String, texts: &[&str]) -> EmbeddingRequest {
    EmbeddingRequest {
        model: ModelSpec::new("e", base_url),
        dimensions: None,
        texts: texts.iter().map(ToString::to_string).collect(),
    }
}

/// Asks a server that says `bytes` for the vectors of two texts.
async fn embed(bytes: &[u8]) -> (Request, Result<Embeddings, ModelFailure>) {
    let peer = Peer::listen().await;
    let (client, cancel) = (OpenAiClient::new(), CancellationToken::new());
    let request = request(peer.base_url(), &["one", "two \"2\""]);
    tokio::join!(peer.answer_once(bytes), client.embed(&request, &cancel))
}

fn json(body: &str) -> Vec<u8> {
    response("200 OK", "content-type: application/json\r\n", body)
}

/// As vLLM answers, but for the order.
const ANSWER: &str = r#"{"id":"embd-1","object":"list","created":1795983243,"model":"e","data":[
    {"index":1,"object":"embedding","embedding":[0.25,-1.5,3]},
    {"index":0,"object":"embedding","embedding":[1e-7,0,2]}],
    "usage":{"prompt_tokens":7,"total_tokens":7,"completion_tokens":0,"prompt_tokens_details":null}}"#;

#[tokio::test]
async fn vectors_come_back_in_the_order_of_the_texts_with_their_tokens() {
    let (got, made) = embed(&json(ANSWER)).await;
    assert!(got.head.starts_with("POST /v1/embeddings HTTP/1.1\r\n"), "{}", got.head);
    let body = r#"{"model":"e","input":["one","two \"2\""],"encoding_format":"float"}"#;
    assert_eq!(got.body, body);
    let made = made.unwrap();
    assert_eq!(made.vectors, [[1e-7, 0.0, 2.0], [0.25, -1.5, 3.0]]);
    assert_eq!((made.usage.prompt_tokens, made.usage.total()), (7, 7));
    assert!(made.endpoint.ends_with("/v1/embeddings"), "{}", made.endpoint);
}

#[tokio::test]
async fn an_answer_that_is_not_whole_is_none() {
    for (from, to, words) in [
        ("[0.25,-1.5,3]", "[0.25,-1.5]", "has 3 numbers, and 2 are expected"),
        ("[0.25,-1.5,3]", "[0.25,null,3]", "cannot be read"),
        ("[0.25,-1.5,3]", "[0.25,NaN,3]", "cannot be read"),
        // Too large for the numbers of a vector: not read, or not finite.
        ("[0.25,-1.5,3]", "[0.25,1e99,3]", ""),
        ("[0.25,-1.5,3]", "\"AACAPgAAwL8AAEBA\"", "cannot be read"),
        ("\"index\":1", "\"index\":0", "text 0 has two vectors"),
        ("\"index\":1,", "", "missing field `index`"),
        ("\"data\"", "\"date\"", "missing field `data`"),
    ] {
        let (_, made) = embed(&json(&ANSWER.replacen(from, to, 1))).await;
        let failure = made.unwrap_err();
        assert_eq!(failure.kind, ModelErrorKind::BadResponse, "{to}: {failure}");
        assert!(failure.message.contains(words), "{to}: {failure}");
    }
}

#[tokio::test]
async fn failures_are_of_the_same_kinds() {
    let too_long = r#"{"error":{"message":"This model's maximum context length is 512 tokens. However, your prompt contains at least 513 input tokens","code":400}}"#;
    for (status, headers, body, kind, words) in [
        ("401 X", "", r#"{"error":"Unauthorized"}"#, ModelErrorKind::Unauthorized, "api_key_env"),
        ("429 X", "retry-after: 2\r\n", "", ModelErrorKind::RateLimited, "429"),
        ("503 X", "", "", ModelErrorKind::Overloaded, "503"),
        ("404 X", "", r#"{"detail":"Not Found"}"#, ModelErrorKind::BadRequest, "no such path"),
        ("400 X", "", too_long, ModelErrorKind::ContextTooLong, "512"),
        ("200 X", "", "<html>", ModelErrorKind::BadResponse, "cannot be read"),
    ] {
        let (_, made) = embed(&response(status, headers, body)).await;
        let failure = made.unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(words), "{failure}");
        assert!(failure.endpoint.ends_with("/v1/embeddings"), "{failure}");
        let asked_to_wait = (!headers.is_empty()).then_some(2_000);
        assert_eq!(failure.retry_after_ms, asked_to_wait);
    }
    let (_, cut) = embed(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"data\":").await;
    assert_eq!(cut.unwrap_err().kind, ModelErrorKind::StreamBroken);
}

#[tokio::test]
async fn the_key_is_sent_and_never_shown() {
    // PATH is a variable that is set wherever a test runs; its value stands for the key.
    let key = std::env::var("PATH").unwrap();
    let peer = Peer::listen().await;
    let mut request = request(peer.base_url(), &["a"]);
    request.model.api_key_env = Some("PATH".into());
    let refusal = response("401 X", "", &format!(r#"{{"error":{{"message":"no {key}"}}}}"#));
    let (client, cancel) = (OpenAiClient::new(), CancellationToken::new());
    let (got, made) = tokio::join!(peer.answer_once(&refusal), client.embed(&request, &cancel));
    assert_eq!(got.header("authorization"), Some(format!("Bearer {key}").as_str()));
    let failure = made.unwrap_err();
    assert!(failure.message.contains("no [key]") && !failure.to_string().contains(&key));
}

#[tokio::test]
async fn too_many_texts_or_none_are_not_sent() {
    let nobody = "http://127.0.0.1:1/v1";
    for count in [0, TEXTS_MAX + 1] {
        let request = request(nobody.into(), &vec!["a"; count]);
        let made = OpenAiClient::new().embed(&request, &CancellationToken::new()).await;
        let failure = made.unwrap_err();
        assert_eq!(failure.kind, ModelErrorKind::BadRequest, "{failure}");
        assert!(failure.message.contains(&format!("{count} texts at once")), "{failure}");
    }
}

/// One failed connection opens the breaker of a replica, whoever asked: it is not asked again.
#[tokio::test]
async fn a_replica_that_is_gone_is_left_for_the_other() {
    let (gone, there) = (Peer::listen().await, Peer::listen().await);
    let mut request = request(gone.base_url(), &["one", "two"]);
    request.model.replicas.push(there.base_url());
    drop(gone);
    let (client, cancel) = (OpenAiClient::new(), CancellationToken::new());
    let bytes = json(ANSWER);
    let asking = async {
        let mut failures = 0;
        loop {
            match client.embed(&request, &cancel).await {
                Ok(made) => return (failures, made.endpoint),
                Err(failure) => assert_eq!(failure.kind, ModelErrorKind::Transport),
            }
            failures += 1;
        }
    };
    let (_, (failures, endpoint)) = tokio::join!(there.answer_once(&bytes), asking);
    assert!(failures <= 1, "one failed connection is enough, not {failures}");
    assert_eq!(endpoint, format!("{}/embeddings", there.base_url()));
}

#[tokio::test]
async fn a_cancel_closes_the_connection() {
    let peer = Peer::listen().await;
    let request = request(peer.base_url(), &["a"]);
    let (client, cancel) = (OpenAiClient::new(), CancellationToken::new());
    let server = async {
        let mut connection = peer.accept().await;
        connection.request().await;
        cancel.cancel();
        connection.closed().await;
    };
    let ((), made) = tokio::join!(server, client.embed(&request, &cancel));
    assert_eq!(made.unwrap_err().message, "cancelled");
}
