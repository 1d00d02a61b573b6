//! Prompts near the limit: what is asked of the server, and what is not sent at all.

use serde_json::{Value, json};
use stepwell_core::account::Measured;
use stepwell_core::event::{ContextSize, ModelErrorKind};
use stepwell_llm::OpenAiClient;
use stepwell_ports::{ModelAnswer, ModelFailure, ModelRequest};
use tokio_util::sync::CancellationToken;

use crate::answers::{end, stream_of};
use crate::peer::{PATIENT, Peer, ask, request, response};

type Outcome = Result<ModelAnswer, ModelFailure>;

/// What the server takes, in tokens.
const LIMIT: u64 = 10_000;

/// A server with what it says to the paths of a model server.
struct Server {
    peer: Peer,
    models: Vec<u8>,
    /// Tokens of a text, or `None` for a server that has no `/tokenize`.
    tokenize: Option<fn(&Value) -> u64>,
}

/// Four bytes are one token.
fn by_bytes(body: &Value) -> u64 {
    let text = body["prompt"].as_str().map_or_else(|| body.to_string(), str::to_owned);
    text.len() as u64 / 4
}

fn models(body: &Value) -> Vec<u8> {
    response("200 OK", "content-type: application/json\r\n", &body.to_string())
}

impl Server {
    async fn new(tokenize: Option<fn(&Value) -> u64>) -> Self {
        let listed = json!({"object": "list", "data": [
            {"id": "other", "max_model_len": 5}, {"id": "m", "max_model_len": LIMIT},
        ]});
        Self { peer: Peer::listen().await, models: models(&listed), tokenize }
    }

    /// Answers on one connection after the other, and writes down what was asked for.
    async fn serve(&self, asked: &mut Vec<String>) {
        let streamed = stream_of(&[&end("stop")]);
        let answer = response("200 OK", "", std::str::from_utf8(&streamed).unwrap());
        loop {
            let mut connection = self.peer.accept().await;
            while let Some(got) = connection.next_request().await {
                let path = got.head.split(' ').nth(1).unwrap().to_owned();
                let bytes = match (path.as_str(), self.tokenize) {
                    ("/v1/models", _) => self.models.clone(),
                    ("/v1/chat/completions", _) => answer.clone(),
                    ("/tokenize", Some(count)) => {
                        let body: Value = serde_json::from_str(&got.body).unwrap();
                        let count = json!({"count": count(&body), "tokens": [1, 2, 3]});
                        asked.push(
                            if body["prompt"].is_null() { "whole" } else { "message" }.into(),
                        );
                        response("200 OK", "", &count.to_string())
                    }
                    _ => response("404 Not Found", "", r#"{"detail":"Not Found"}"#),
                };
                if path != "/tokenize" || self.tokenize.is_none() {
                    asked.push(path);
                }
                connection.write(&bytes).await;
            }
        }
    }

    /// Asks each of `requests` with the same client; what the server was asked for, and how the
    /// last ended.
    async fn play(&self, requests: Vec<ModelRequest>) -> (Vec<String>, Outcome) {
        let client = OpenAiClient::new();
        let mut asked = Vec::new();
        let session = async {
            let mut last = None;
            for it in requests {
                last = Some(ask(&client, it).await);
            }
            last.unwrap()
        };
        let outcome = tokio::select! {
            () = self.serve(&mut asked) => unreachable!("it serves without end"),
            outcome = session => outcome,
        };
        (asked, outcome)
    }

    /// A request of `bytes`, of which the first two messages were counted to be `measured` tokens.
    fn request(&self, bytes: usize, measured: Option<u64>) -> ModelRequest {
        let mut request = request(self.peer.base_url(), PATIENT);
        let (known, messages) = (request.prompt.body_bytes(), request.prompt.messages());
        request.measured =
            measured.map(|tokens| Measured { model: "m".into(), bytes: known, messages, tokens });
        let wanted = bytes.saturating_sub(known as usize);
        for _ in 0..2 {
            request.prompt.push_user(&"word ".repeat(wanted / 10));
        }
        request
    }
}

const CHAT: &str = "/v1/chat/completions";
const MODELS: &str = "/v1/models";

#[track_caller]
fn check_too_long(outcome: &Outcome, prompt: u64, words: &str) {
    let failure = outcome.as_ref().unwrap_err();
    assert_eq!(failure.kind, ModelErrorKind::ContextTooLong, "{failure}");
    assert_eq!(failure.http_status, None);
    let context = ContextSize { limit: Some(LIMIT), prompt: Some(prompt) };
    assert_eq!(failure.context, Some(context));
    assert!(failure.message.contains(words), "{failure}");
    assert!(failure.endpoint.ends_with(CHAT), "{failure}");
}

#[tokio::test]
async fn a_request_far_from_the_limit_costs_nothing_but_the_limit_once() {
    let server = Server::new(Some(by_bytes)).await;
    let short = server.request(1_000, None);
    let far = server.request(19_000, None);
    let (asked, outcome) = server.play(vec![short, far.clone(), far.clone(), far]).await;
    outcome.unwrap();
    assert_eq!(asked, [CHAT, MODELS, CHAT, CHAT, CHAT]);
}

#[tokio::test]
async fn a_first_request_near_the_limit_is_counted_as_a_whole_and_only_once() {
    let server = Server::new(Some(by_bytes)).await;
    let near = server.request(30_000, None);
    let (asked, outcome) = server.play(vec![near.clone(), near]).await;
    outcome.unwrap();
    assert_eq!(asked, [MODELS, "whole", CHAT, CHAT]);
}

#[tokio::test]
async fn a_request_that_the_server_counts_too_long_is_not_sent() {
    let server = Server::new(Some(|_| LIMIT + 1)).await;
    let (asked, outcome) = server.play(vec![server.request(30_000, None)]).await;
    assert_eq!(asked, [MODELS, "whole"]);
    check_too_long(&outcome, LIMIT + 1, "the prompt has 10001 tokens, as the server counts them");
    // One that just fits is sent: the server may cut its answer, and says so.
    let server = Server::new(Some(|_| LIMIT)).await;
    let (asked, outcome) = server.play(vec![server.request(30_000, None)]).await;
    outcome.unwrap();
    assert_eq!(asked, [MODELS, "whole", CHAT]);
}

#[tokio::test]
async fn of_a_prompt_that_grew_only_the_new_messages_are_counted_and_each_once() {
    let server = Server::new(Some(by_bytes)).await;
    let mut grown = server.request(8_000, Some(7_000));
    let once = grown.clone();
    grown.prompt.push_user("and one more");
    let (asked, outcome) = server.play(vec![once, grown]).await;
    outcome.unwrap();
    // Both new messages say the same, so one count is enough.
    assert_eq!(asked, [MODELS, "message", CHAT, "message", CHAT]);
}

#[tokio::test]
async fn new_messages_that_may_be_too_many_lead_to_a_whole_count() {
    let server = Server::new(Some(by_bytes)).await;
    let (asked, outcome) = server.play(vec![server.request(30_000, Some(9_000))]).await;
    outcome.unwrap();
    assert_eq!(asked, [MODELS, "message", "whole", CHAT]);
}

#[tokio::test]
async fn without_counts_the_estimate_refuses_only_what_surely_does_not_fit() {
    let server = Server::new(None).await;
    for (bytes, is_sent) in [(100_000, true), (200_000, false)] {
        let request = server.request(bytes, None);
        let prompt = request.prompt.body_bytes() / 4;
        let (asked, outcome) = server.play(vec![request]).await;
        if is_sent {
            outcome.unwrap();
            assert_eq!(asked, [MODELS, "/tokenize", CHAT]);
        } else {
            check_too_long(&outcome, prompt, "tokens by estimate");
            assert_eq!(asked, [MODELS, "/tokenize"]);
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_count_is_not_asked_again() {
    let server = Server::new(None).await;
    let near = server.request(60_000, None);
    let (asked, outcome) = server.play(vec![near.clone(), near]).await;
    outcome.unwrap();
    assert_eq!(asked, [MODELS, "/tokenize", CHAT, CHAT]);
}

#[tokio::test]
async fn a_server_that_tells_no_limit_is_asked_as_it_is() {
    let other = json!({"data": [{"id": "other", "max_model_len": 5}]});
    for body in [other, json!({"data": [{"id": "m"}]}), json!([]), json!({"error": "no"})] {
        let mut server = Server::new(Some(by_bytes)).await;
        server.models = models(&body);
        let long = server.request(1_000_000, None);
        let (asked, outcome) = server.play(vec![long.clone(), long]).await;
        outcome.unwrap();
        assert_eq!(asked, [MODELS, CHAT, CHAT], "{body}");
    }
}

/// A server that neither tells its limit nor counts in time holds no request up for good.
#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up() {
    for silent in [MODELS, "/tokenize"] {
        let server = Server::new(Some(by_bytes)).await;
        let client = OpenAiClient::new();
        let held_up = async {
            // A connection that is kept is one that says nothing.
            let mut kept = Vec::new();
            'next: loop {
                let mut connection = server.peer.accept().await;
                while let Some(got) = connection.next_request().await {
                    match got.head.split(' ').nth(1).unwrap() {
                        path if path == silent => {
                            kept.push(connection);
                            continue 'next;
                        }
                        CHAT => return kept.len(),
                        _ => connection.write(&server.models).await,
                    }
                }
            }
        };
        let asked = ask(&client, server.request(30_000, None));
        let held = tokio::select! {
            held = held_up => held,
            outcome = asked => panic!("nobody answered: {outcome:?}"),
        };
        assert_eq!(held, 1, "{silent}");
    }
}

#[tokio::test]
async fn a_cancel_while_it_is_counted_is_a_cancel() {
    let server = Server::new(Some(by_bytes)).await;
    let client = OpenAiClient::new();
    let cancel = CancellationToken::new();
    let silent = async {
        let mut connection = server.peer.accept().await;
        connection.request().await;
        cancel.cancel();
        connection.closed().await;
    };
    let sink = std::sync::Arc::new(crate::peer::Watcher::default());
    let sent = server.request(30_000, None);
    let asked = stepwell_ports::ModelPort::ask(&client, sent, sink, cancel.clone());
    let ((), outcome) = tokio::join!(silent, asked);
    assert_eq!(outcome.unwrap_err().message, "cancelled");
}
