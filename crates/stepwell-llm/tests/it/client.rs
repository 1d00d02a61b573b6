//! The client against a real socket: what it sends, every kind of failure, time, cancel, reuse.

use std::fmt::Write as _;
use std::sync::Arc;

use stepwell_core::agent::ModelTimeouts;
use stepwell_core::event::{FinishReason, ModelErrorKind, TimeLimit, Usage};
use stepwell_llm::OpenAiClient;
use stepwell_ports::{ModelAnswer, ModelChunk, ModelFailure, ModelPort};
use tokio_util::sync::CancellationToken;

use crate::answers::{delta, end, stream_of};
use crate::peer::{PATIENT, Peer, Request, STREAM_HEAD, Watcher, ask, chunk, request, response};
use crate::transcripts::{body_of, transcripts};

/// A limit that is meant to pass.
const SHORT_MS: u64 = 40;

fn transcript(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vllm");
    std::fs::read(format!("{folder}/{name}.response.txt")).unwrap()
}

/// Asks a server that gives `bytes` and closes.
async fn ask_for(bytes: &[u8]) -> (Request, Result<ModelAnswer, ModelFailure>) {
    let peer = Peer::listen().await;
    let client = OpenAiClient::new();
    let sent = request(peer.base_url(), PATIENT);
    let (request, outcome) = tokio::join!(peer.answer_once(bytes), ask(&client, sent));
    (request, outcome)
}

async fn failure_of(bytes: &[u8]) -> ModelFailure {
    ask_for(bytes).await.1.unwrap_err()
}

#[track_caller]
fn check(failure: &ModelFailure, kind: ModelErrorKind, status: Option<u16>, words: &str) {
    assert_eq!((failure.kind, failure.http_status), (kind, status), "{failure}");
    assert!(failure.message.contains(words), "{failure}");
    assert!(failure.endpoint.ends_with("/v1/chat/completions"), "{failure}");
}

fn whole_stream(chunks: &[&str]) -> Vec<u8> {
    let mut bytes = STREAM_HEAD.to_vec();
    bytes.extend(chunk(&stream_of(chunks)));
    bytes.extend(chunk(b""));
    bytes
}

#[tokio::test]
async fn the_request_is_the_prompt_byte_for_byte() {
    let hello = whole_stream(&[&delta(r#"{"content":"ok"}"#), &end("stop")]);
    let (got, outcome) = ask_for(&hello).await;
    assert_eq!(outcome.unwrap().content, "ok");
    assert!(got.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", got.head);
    assert_eq!(got.body, request(String::new(), PATIENT).prompt.body());
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert_eq!(got.header("transfer-encoding"), None);
    assert_eq!(got.header("authorization"), None);
}

#[tokio::test]
async fn a_long_prompt_is_sent_whole() {
    let peer = Peer::listen().await;
    let client = OpenAiClient::new();
    let mut sent = request(peer.base_url(), PATIENT);
    for turn in 0..400 {
        sent.prompt.push_user(&format!("{turn} {}", "ä🧭\n".repeat(1_000)));
    }
    let body = sent.prompt.body();
    assert!(body.len() > 2_000_000, "many segments");
    let answer = whole_stream(&[&end("stop")]);
    let server = async {
        // A prompt that long is checked against the limit, which this server does not tell.
        peer.answer_once(&response("404 X", "", "")).await;
        peer.answer_once(&answer).await
    };
    let (got, outcome) = tokio::join!(server, ask(&client, sent));
    outcome.unwrap();
    assert_eq!(got.body, body);
}

#[tokio::test]
async fn a_recorded_stream_comes_out_whole_with_pieces_on_the_way() {
    let peer = Peer::listen().await;
    let client = OpenAiClient::new();
    let watcher = Arc::new(Watcher::default());
    let mut bytes = STREAM_HEAD.to_vec();
    for block in body_of(&transcript("57-stream-reasoning")).chunks(11) {
        bytes.extend(chunk(block));
    }
    bytes.extend(chunk(b""));
    let sink: Arc<Watcher> = Arc::clone(&watcher);
    let asked = client.ask(request(peer.base_url(), PATIENT), sink, CancellationToken::new());
    let (_, outcome) = tokio::join!(peer.answer_once(&bytes), asked);
    let answer = outcome.unwrap();
    assert_eq!(answer.reasoning, "\nThe user wants a greeting.\n");
    assert_eq!(answer.content, "\n\nHello there.");
    assert_eq!(answer.finish_reason, FinishReason::Stop);
    let usage =
        Usage { prompt_tokens: 30, completion_tokens: 16, reasoning_tokens: 8, ..Usage::default() };
    assert_eq!(answer.usage, usage);
    assert!(answer.first_token_ms <= answer.duration_ms);
    let chunks = watcher.chunks();
    assert_eq!(chunks.first(), Some(&ModelChunk::Reasoning("\n".into())));
    assert_eq!(chunks.last(), Some(&ModelChunk::Content(".".into())));
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_is_an_answer() {
    let body = transcript("30-tools-auto-two-calls");
    let body = std::str::from_utf8(body_of(&body)).unwrap();
    let bytes = response("200 OK", "content-type: application/json\r\n", body);
    let answer = ask_for(&bytes).await.1.unwrap();
    assert_eq!(answer.tool_calls.len(), 2);
}

#[tokio::test]
async fn the_wrong_content_type_does_not_matter() {
    let events = stream_of(&[&delta(r#"{"content":"ok"}"#), &end("stop")]);
    let bytes = response("200 OK", "", std::str::from_utf8(&events).unwrap());
    assert_eq!(ask_for(&bytes).await.1.unwrap().content, "ok");
}

#[tokio::test]
async fn recorded_refusals_have_their_kinds() {
    for (name, kind, status, words) in [
        ("50-error-unknown-model-stream", ModelErrorKind::BadRequest, 404, "`nope` does not exist"),
        ("51-error-prompt-too-long-stream", ModelErrorKind::ContextTooLong, 400, "16385 input"),
        ("51-error-max-tokens-over-model-len", ModelErrorKind::BadRequest, 400, "20000"),
        ("52-error-wrong-type-max-tokens", ModelErrorKind::BadRequest, 400, "valid integer"),
        ("54-error-no-such-path", ModelErrorKind::BadRequest, 404, "does base_url end"),
        ("54-error-get-on-post-path", ModelErrorKind::BadRequest, 405, "Method Not Allowed"),
        ("55-auth-missing-key", ModelErrorKind::Unauthorized, 401, "set api_key_env"),
        (
            "59-overload-max-num-queued-reqs-stream",
            ModelErrorKind::Overloaded,
            503,
            "currently busy",
        ),
    ] {
        check(&failure_of(&transcript(name)).await, kind, Some(status), words);
    }
}

/// Every answer of vLLM that is no success, as it came.
#[tokio::test]
async fn every_recorded_refusal_is_understood() {
    let mut report = String::new();
    for path in transcripts() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        if bytes.starts_with(b"HTTP/1.1 2") {
            continue;
        }
        let failure = failure_of(&bytes).await;
        let _ =
            write!(report, "{}: {}", name.trim_end_matches(".response.txt"), failure.kind.as_str());
        if let Some(context) = failure.context {
            let _ = write!(report, " {context:?}");
        }
        let _ = writeln!(report, "\n  {}", failure.message);
    }
    insta::assert_snapshot!("refusals", report);
}

#[tokio::test]
async fn other_refusals_have_their_kinds() {
    let quota = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let page = "<html><h1>Bad Gateway</h1></html>";
    for (status, body, kind, words) in [
        (429, quota, ModelErrorKind::QuotaExhausted, "current quota"),
        (408, "", ModelErrorKind::RateLimited, "HTTP 408"),
        (500, r#"{"error":{"message":"boom"}}"#, ModelErrorKind::ServerError, "boom"),
        (502, page, ModelErrorKind::Overloaded, "Bad Gateway"),
        (529, "{}", ModelErrorKind::Overloaded, "HTTP 529"),
        (422, r#"{"detail":"no"}"#, ModelErrorKind::BadRequest, "no"),
        (
            400,
            r#"{"error":{"message":"too long","type":"exceed_context_size_error","code":400}}"#,
            ModelErrorKind::ContextTooLong,
            "too long",
        ),
        (202, "later", ModelErrorKind::BadResponse, "later"),
    ] {
        let failure = failure_of(&response(&format!("{status} X"), "", body)).await;
        check(&failure, kind, Some(status), words);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let bytes = response("307 X", "location: http://127.0.0.1:1/v1\r\n", "");
    let failure = failure_of(&bytes).await;
    check(&failure, ModelErrorKind::BadRequest, Some(307), "redirects to http://127.0.0.1:1/v1");
}

#[tokio::test]
async fn the_wait_that_a_server_asks_for_is_kept() {
    for (headers, wait_ms) in [
        ("retry-after: 7\r\n", Some(7_000)),
        ("Retry-After: 1.5\r\n", Some(1_500)),
        ("retry-after: soon\r\n", None),
        ("retry-after: 99999999999\r\n", Some(99_999_999_999_000)),
        ("retry-after: Sun, 29 Nov 2020 10:00:00 GMT\r\n", Some(0)),
        ("retry-after: 3\r\nretry-after-ms: 1200\r\n", Some(1_200)),
        ("", None),
    ] {
        let failure = failure_of(&response("429 X", headers, "")).await;
        assert_eq!(failure.retry_after_ms, wait_ms, "{headers}");
    }
}

#[tokio::test]
async fn errors_inside_a_stream_have_their_kinds() {
    for (error, kind) in [
        (r#"{"error":{"message":"boom","code":503}}"#, ModelErrorKind::Overloaded),
        (r#"{"error":{"message":"boom","code":500}}"#, ModelErrorKind::ServerError),
        (r#"{"error":{"message":"boom","code":400}}"#, ModelErrorKind::BadRequest),
        (r#"{"error":{"message":"boom","code":"429"}}"#, ModelErrorKind::RateLimited),
        (r#"{"error":{"message":"boom","type":"overloaded_error"}}"#, ModelErrorKind::Overloaded),
        (r#"{"error":"boom"}"#, ModelErrorKind::StreamBroken),
        (r#"{"boom"#, ModelErrorKind::BadResponse),
    ] {
        let bytes = whole_stream(&[&delta(r#"{"content":"Par"}"#), error, &end("stop")]);
        check(&failure_of(&bytes).await, kind, Some(200), "");
    }
    let bytes = whole_stream(&[&delta(r#"{"content":"Par"}"#), &end("abort")]);
    check(&failure_of(&bytes).await, ModelErrorKind::StreamBroken, Some(200), "abort");
}

#[tokio::test]
async fn a_server_that_is_stopped_says_so_in_its_stream() {
    // `61-…` keeps HTTP's chunks and a note in the middle; its last event is what counts.
    let recorded = transcript("61-stream-when-server-gets-sigterm");
    let recorded = String::from_utf8(recorded).unwrap();
    let error = recorded.lines().find_map(|line| line.strip_prefix("data: {\"error\"")).unwrap();
    let bytes = whole_stream(&[&delta(r#"{"content":"One"}"#), &format!("{{\"error\"{error}")]);
    check(&failure_of(&bytes).await, ModelErrorKind::ServerError, Some(200), "EngineCore");
}

#[tokio::test]
async fn a_stream_that_is_cut_is_broken() {
    let begun = format!("data: {}\n\n", delta(r#"{"content":"Par"}"#));
    let mut cut = STREAM_HEAD.to_vec();
    cut.extend(chunk(begun.as_bytes()));
    let failure = failure_of(&cut).await;
    check(&failure, ModelErrorKind::StreamBroken, Some(200), "the connection broke after");
    cut.extend(chunk(b""));
    let failure = failure_of(&cut).await;
    check(&failure, ModelErrorKind::StreamBroken, Some(200), "without a finish_reason");
    let empty = response("200 OK", "", "");
    let failure = failure_of(&empty).await;
    check(&failure, ModelErrorKind::StreamBroken, Some(200), "without a finish_reason");
    let json = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"choices\":";
    let failure = failure_of(json).await;
    check(&failure, ModelErrorKind::StreamBroken, Some(200), "the connection broke after 11 bytes");
}

#[tokio::test]
async fn a_cut_after_the_finish_reason_loses_nothing() {
    let mut cut = STREAM_HEAD.to_vec();
    let text = format!("data: {}\n\ndata: {}\n\n", delta(r#"{"content":"ok"}"#), end("stop"));
    cut.extend(chunk(text.as_bytes()));
    assert_eq!(ask_for(&cut).await.1.unwrap().content, "ok");
}

#[tokio::test]
async fn a_page_is_no_answer() {
    let bytes = response("200 OK", "content-type: text/html\r\n", "\n <html></html>");
    let failure = failure_of(&bytes).await;
    check(&failure, ModelErrorKind::BadResponse, Some(200), "text/html");
}

#[tokio::test]
async fn a_packed_answer_is_named() {
    let packed = response("200 OK", "content-encoding: gzip\r\n", "\u{1f}packed");
    let failure = failure_of(&packed).await;
    check(&failure, ModelErrorKind::BadResponse, Some(200), "encoded (gzip)");
    let plain = response("200 OK", "content-encoding: identity\r\n", "nothing");
    assert!(!failure_of(&plain).await.message.contains("encoded"));
}

#[tokio::test]
async fn https_to_a_server_that_speaks_http_says_what_to_try() {
    let peer = Peer::listen().await;
    let base_url = peer.base_url().replacen("http://", "https://", 1);
    let client = OpenAiClient::new();
    let asking = ask(&client, request(base_url, PATIENT));
    let closing = async { drop(peer.accept().await) };
    let (outcome, ()) = tokio::join!(asking, closing);
    check(&outcome.unwrap_err(), ModelErrorKind::Transport, None, "Try http://");
}

#[tokio::test]
async fn a_connection_that_is_refused_names_the_address() {
    let peer = Peer::listen().await;
    let base_url = peer.base_url();
    drop(peer);
    let address = base_url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let failure = ask(&OpenAiClient::new(), request(base_url, PATIENT)).await.unwrap_err();
    check(&failure, ModelErrorKind::Transport, None, "connection refused");
    assert!(failure.message.contains(&address), "{failure}");
}

#[tokio::test]
async fn a_name_that_nobody_knows_says_so() {
    let request = request("http://stepwell-test.invalid/v1".into(), PATIENT);
    let failure = ask(&OpenAiClient::new(), request).await.unwrap_err();
    check(&failure, ModelErrorKind::Transport, None, "stepwell-test.invalid:80");
}

#[tokio::test]
async fn a_connection_that_closes_without_an_answer_is_transport() {
    let failure = failure_of(b"").await;
    check(&failure, ModelErrorKind::Transport, None, "broke before the answer");
    let failure = failure_of(b"SSH-2.0-OpenSSH_9.6\r\n").await;
    check(&failure, ModelErrorKind::Transport, None, "broke before the answer");
}

#[tokio::test]
async fn a_missing_key_is_noticed_before_anything_is_sent() {
    let mut request = request("http://127.0.0.1:1/v1".into(), PATIENT);
    request.model.api_key_env = Some("STEPWELL_TEST_KEY_THAT_IS_NOT_SET".into());
    let failure = ask(&OpenAiClient::new(), request).await.unwrap_err();
    check(&failure, ModelErrorKind::Unauthorized, None, "STEPWELL_TEST_KEY_THAT_IS_NOT_SET");
}

#[tokio::test]
async fn a_key_is_sent_and_never_shown() {
    // PATH is a variable that is set wherever a test runs; its value stands for the key.
    let value = std::env::var("PATH").unwrap();
    let body = format!(r#"{{"error":{{"message":"no such key: {value}"}}}}"#);
    let bytes = response("401 X", "", &body);
    let peer = Peer::listen().await;
    let client = OpenAiClient::new();
    let mut sent = request(peer.base_url(), PATIENT);
    sent.model.api_key_env = Some("PATH".into());
    let (got, outcome) = tokio::join!(peer.answer_once(&bytes), ask(&client, sent));
    assert_eq!(got.header("authorization"), Some(format!("Bearer {value}").as_str()));
    let failure = outcome.unwrap_err();
    check(&failure, ModelErrorKind::Unauthorized, Some(401), "the server refuses the key of PATH");
    assert!(failure.message.contains("no such key: [key]"), "{failure}");
    assert!(!failure.to_string().contains(&value));
}

/// Asks a server that says `begin` and then nothing, and waits until it sees the client leave.
async fn ask_silent_server(begin: &[u8], timeouts: ModelTimeouts) -> ModelFailure {
    let peer = Peer::listen().await;
    let client = OpenAiClient::new();
    let server = async {
        let mut connection = peer.accept().await;
        connection.request().await;
        connection.write(begin).await;
        connection.closed().await;
    };
    let asked = ask(&client, request(peer.base_url(), timeouts));
    let ((), outcome) = tokio::join!(server, asked);
    outcome.unwrap_err()
}

#[tokio::test]
async fn the_first_token_has_a_limit_with_and_without_a_head() {
    let limits = ModelTimeouts { first_token_ms: SHORT_MS, ..PATIENT };
    let words = "no token within 40 ms";
    check(&ask_silent_server(b"", limits).await, ModelErrorKind::Timeout, None, words);
    let mut begin = STREAM_HEAD.to_vec();
    begin.extend(chunk(b": keep-alive\n\n"));
    begin.extend(chunk(format!("data: {}\n\n", delta(r#"{"role":"assistant"}"#)).as_bytes()));
    check(&ask_silent_server(&begin, limits).await, ModelErrorKind::Timeout, Some(200), words);
}

#[tokio::test]
async fn the_time_between_tokens_has_a_limit() {
    let limits = ModelTimeouts { between_tokens_ms: SHORT_MS, ..PATIENT };
    let mut begin = STREAM_HEAD.to_vec();
    begin.extend(chunk(format!("data: {}\n\n", delta(r#"{"content":"a"}"#)).as_bytes()));
    let failure = ask_silent_server(&begin, limits).await;
    check(&failure, ModelErrorKind::Timeout, Some(200), "no further token within 40 ms");
    assert_eq!(failure.time_limit, Some(TimeLimit::BetweenTokens));
}

#[tokio::test]
async fn the_whole_call_has_a_limit() {
    let limits = ModelTimeouts { total_ms: SHORT_MS, ..PATIENT };
    let failure = ask_silent_server(b"", limits).await;
    check(&failure, ModelErrorKind::Timeout, None, "not finished within 40 ms");
    assert_eq!(failure.time_limit, Some(TimeLimit::Total));
}

#[tokio::test]
async fn comments_do_not_hold_a_stream_open() {
    let peer = Peer::listen().await;
    let client = OpenAiClient::new();
    let limits = ModelTimeouts { first_token_ms: SHORT_MS, ..PATIENT };
    let server = async {
        let mut connection = peer.accept().await;
        connection.request().await;
        connection.write(STREAM_HEAD).await;
        loop {
            connection.write(&chunk(b": keep-alive\n\n")).await;
            tokio::task::yield_now().await;
        }
    };
    let asked = ask(&client, request(peer.base_url(), limits));
    let failure = tokio::select! {
        () = server => panic!("the server does not end"),
        outcome = asked => outcome.unwrap_err(),
    };
    check(&failure, ModelErrorKind::Timeout, Some(200), "no token within 40 ms");
}

#[tokio::test]
async fn a_cancel_closes_the_connection_before_and_within_the_answer() {
    let mut begun = STREAM_HEAD.to_vec();
    begun.extend(chunk(format!("data: {}\n\n", delta(r#"{"content":"a"}"#)).as_bytes()));
    for begin in [b"".to_vec(), begun] {
        let peer = Peer::listen().await;
        let client = OpenAiClient::new();
        let cancel = CancellationToken::new();
        let server = async {
            let mut connection = peer.accept().await;
            connection.request().await;
            connection.write(&begin).await;
            cancel.cancel();
            connection.closed().await;
        };
        let sink = Arc::new(Watcher::default());
        let asked = client.ask(request(peer.base_url(), PATIENT), sink, cancel.clone());
        let ((), outcome) = tokio::join!(server, asked);
        check(&outcome.unwrap_err(), ModelErrorKind::Transport, None, "cancelled");
    }
}

#[tokio::test]
async fn a_dropped_call_closes_the_connection() {
    let peer = Peer::listen().await;
    let client = OpenAiClient::new();
    let accepted = async {
        let mut connection = peer.accept().await;
        connection.request().await;
        connection
    };
    let mut connection = tokio::select! {
        connection = accepted => connection,
        _ = ask(&client, request(peer.base_url(), PATIENT)) => panic!("nobody answered"),
    };
    connection.closed().await;
}

#[tokio::test]
async fn a_connection_is_used_again_after_an_answer_and_after_a_refusal() {
    let peer = Peer::listen().await;
    let client = OpenAiClient::new();
    let answer = whole_stream(&[&end("stop")]);
    let refusal = response("429 X", "", r#"{"error":{"message":"later"}}"#);
    let server = async {
        let mut connection = peer.accept().await;
        for bytes in [&answer, &refusal, &answer] {
            connection.request().await;
            connection.write(bytes).await;
        }
    };
    let session = async {
        ask(&client, request(peer.base_url(), PATIENT)).await.unwrap();
        ask(&client, request(peer.base_url(), PATIENT)).await.unwrap_err();
        ask(&client, request(peer.base_url(), PATIENT)).await.unwrap();
    };
    tokio::join!(server, session);
}
