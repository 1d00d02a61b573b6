//! The server on a real socket, asked by the real client and byte by byte.

use std::fmt::Write as _;
use std::sync::Arc;

use stepwell_core::SessionId;
use stepwell_core::agent::{Agent, ModelSpec, ModelTimeouts};
use stepwell_core::event::{FinishReason, ModelErrorKind, Usage};
use stepwell_core::prompt::Prompt;
use stepwell_core::tokens::Tokens;
use stepwell_llm::OpenAiClient;
use stepwell_ports::{
    Affinity, ModelAnswer, ModelChunk, ModelFailure, ModelPort, ModelRequest, ModelSink,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::{Script, serve};

struct Nobody;

impl ModelSink for Nobody {
    fn chunk(&self, _: ModelChunk) {}
}

/// A running server, as a test sees it.
struct Scene {
    base_url: String,
    address: String,
    client: OpenAiClient,
    shutdown: CancellationToken,
}

impl Scene {
    /// Asks as a session whose model has said `said` so far.
    async fn ask(&self, task: &str, said: &[&str]) -> Result<ModelAnswer, ModelFailure> {
        let agent = Agent {
            version: 1,
            ..Agent::new(
                "a",
                "You are.",
                ModelSpec {
                    timeouts: ModelTimeouts { first_token_ms: 2_000, ..ModelTimeouts::default() },
                    ..ModelSpec::new("m", &self.base_url)
                },
            )
        };
        let mut prompt = Prompt::new(&agent, task);
        for text in said {
            prompt.push_assistant(text, &[]);
            prompt.push_user(&format!("after {text}"));
        }
        let request = ModelRequest {
            session_id: SessionId::from_random([7; 16]),
            step: 1,
            attempt: 1,
            tokens: Tokens::default(),
            model: agent.model,
            measured: None,
            affinity: Affinity::default(),
            prompt,
        };
        self.client.ask(request, Arc::new(Nobody), CancellationToken::new()).await
    }

    /// Sends a request and reads the response until the server closes.
    async fn raw(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}"
        );
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.unwrap();
        String::from_utf8(response).unwrap()
    }
}

/// Runs `test` against a server that plays `script`, and expects the server to stop when told.
async fn with_server<F: Future<Output = ()>>(script: &str, test: impl FnOnce(Arc<Scene>) -> F) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let shutdown = CancellationToken::new();
    let scene = Arc::new(Scene {
        base_url: format!("http://{address}/v1"),
        address,
        client: OpenAiClient::new(),
        shutdown: shutdown.clone(),
    });
    let server = serve(listener, Script::parse(script).unwrap(), shutdown.clone());
    let test = async {
        test(scene).await;
        shutdown.cancel();
    };
    let (outcome, ()) = tokio::join!(server, test);
    outcome.unwrap();
}

#[tokio::test]
async fn a_story_is_played_by_the_step_of_the_session() {
    let script = r#"
        [[step]]
        content = "one {{step}} for {{task}} 🧭"
        reasoning = "hm"
        chunk_bytes = 3
        tool_calls = [
          { name = "f", arguments = { path = "a.txt", task = "{{task}}" } },
          { name = "g", arguments = '{"broken', id = "" },
        ]
        [[step]]
        content = "two"
        usage = { prompt_tokens = 100, cached_tokens = 96, completion_tokens = 5 }
        finish_reason = "length"
    "#;
    with_server(script, |scene| async move {
        let one = scene.ask("say \"hi\"", &[]).await.unwrap();
        assert_eq!(one.content, "one 1 for say \"hi\" 🧭");
        assert_eq!((one.reasoning.as_str(), one.finish_reason), ("hm", FinishReason::ToolCalls));
        let f = &one.tool_calls[0];
        assert!(f.id.starts_with("call_") && f.id.ends_with("_1_0"), "{f:?}");
        assert_eq!(f.arguments, r#"{"path":"a.txt","task":"say \"hi\""}"#);
        let g = &one.tool_calls[1];
        assert_eq!((g.id.as_str(), g.arguments.as_str()), ("", r#"{"broken"#));
        assert!(one.usage.prompt_tokens > 30 && one.usage.cached_tokens == 0);
        let two = scene.ask("say \"hi\"", &["one"]).await.unwrap();
        assert_eq!((two.content.as_str(), two.finish_reason), ("two", FinishReason::Length));
        let usage = Usage {
            prompt_tokens: 100,
            cached_tokens: 96,
            completion_tokens: 5,
            ..Usage::default()
        };
        assert_eq!(two.usage, usage);
        assert_eq!(scene.ask("say \"hi\"", &[]).await.unwrap().content, one.content);
    })
    .await;
}

#[tokio::test]
async fn stories_are_chosen_by_the_task_and_steps_by_the_last_message() {
    let script = r#"
        [[step]]
        content = "for all"
        [[step]]
        when = "count"
        content = "{{step}}"
        repeat = 2
        [[step]]
        when = "count"
        when_last = "after two"
        content = "fits"
        [[step]]
        when = "count"
        content = "else"
    "#;
    with_server(script, |scene| async move {
        let said = async |task, said| scene.ask(task, said).await.unwrap().content;
        assert_eq!(said("hello", &[]).await, "for all");
        assert_eq!(said("please count", &[]).await, "1");
        assert_eq!(said("please count", &["one"]).await, "2");
        assert_eq!(said("please count", &["one", "two"]).await, "fits");
        assert_eq!(said("please count", &["one", "xxx"]).await, "else");
        let failure = scene.ask("please count", &["a", "b", "c"]).await.unwrap_err();
        assert_eq!(failure.kind, ModelErrorKind::BadRequest);
        let words = "no step 4 in the story when = \"count\", its last is 3";
        assert!(failure.message.contains(words), "{failure}");
        let failure = scene.ask("hello", &["a"]).await.unwrap_err();
        assert!(failure.message.contains("no step 2 in the story for all"), "{failure}");
    })
    .await;
}

#[tokio::test]
async fn a_task_without_a_story_is_named() {
    let script = "[[step]]\nwhen = 'count'\ncontent = 'a'\n";
    with_server(script, |scene| async move {
        let failure = scene.ask("hello", &[]).await.unwrap_err();
        assert!(failure.message.contains("no story for the task \"hello\""), "{failure}");
    })
    .await;
}

#[tokio::test]
async fn cached_tokens_follow_the_prefix() {
    let script = "[[step]]\ncontent = 'a'\nrepeat = 'forever'\n";
    with_server(script, |scene| async move {
        let long = "x".repeat(4_000);
        let one = scene.ask(&long, &[]).await.unwrap().usage;
        let two = scene.ask(&long, &["a"]).await.unwrap().usage;
        assert_eq!(one.cached_tokens, 0);
        assert!(two.cached_tokens <= one.prompt_tokens && two.cached_tokens % 16 == 0);
        assert!(two.cached_tokens + 16 >= one.prompt_tokens - 16, "{one:?} {two:?}");
    })
    .await;
}

#[tokio::test]
async fn faults_are_played_one_after_the_other() {
    let script = r#"
        [[step]]
        content = "at last, something of a certain length"
        fault = [
          { kind = "status", status = 429, retry_after = "1", message = "slowly", times = 2 },
          { kind = "status", status = 503 },
          { kind = "cut" },
          { kind = "error_in_stream", status = 500, message = "boom" },
          { kind = "garbage" },
        ]
    "#;
    with_server(script, |scene| async move {
        let failure = async || scene.ask("a", &[]).await.unwrap_err();
        for _ in 0..2 {
            let slowly = failure().await;
            assert_eq!(
                (slowly.kind, slowly.retry_after_ms),
                (ModelErrorKind::RateLimited, Some(1_000))
            );
            assert!(slowly.message.contains("slowly"));
        }
        assert_eq!(failure().await.kind, ModelErrorKind::Overloaded);
        assert_eq!(failure().await.kind, ModelErrorKind::StreamBroken);
        let boom = failure().await;
        assert_eq!(boom.kind, ModelErrorKind::ServerError);
        assert!(boom.message.contains("boom"));
        assert_eq!(failure().await.kind, ModelErrorKind::BadResponse);
        let answer = scene.ask("a", &[]).await.unwrap();
        assert!(answer.content.starts_with("at last"));
        let other = scene.ask("b", &[]).await.unwrap_err();
        assert_eq!(other.kind, ModelErrorKind::RateLimited, "another session has its own faults");
    })
    .await;
}

#[tokio::test]
async fn a_cut_is_made_at_its_byte() {
    let script = r#"
        [[step]]
        content = "abc"
        fault = { kind = "cut", after_bytes = 10, times = "always" }
    "#;
    with_server(script, |scene| async move {
        let body = r#"{"stream":true,"messages":[{"role":"user","content":"a"}]}"#;
        let response = scene.raw("POST", "/v1/chat/completions", body).await;
        assert!(response.ends_with("\r\n\r\nA\r\ndata: {\"id\r\n"), "{response}");
    })
    .await;
}

#[tokio::test]
async fn a_server_that_hangs_is_stopped_all_the_same() {
    for after_bytes in [0, 400] {
        let mut script = String::from("[[step]]\ncontent = 'abcdefghijklmnopqrstuvwxyz'\n");
        let _ = writeln!(script, "fault = {{ kind = 'hang', after_bytes = {after_bytes} }}");
        with_server(&script, |scene| async move {
            let asked = scene.ask("a", &[]);
            let stop = async {
                // The request is there once its answer is under way or its head is waited for.
                let mut probe = TcpStream::connect(&scene.address).await.unwrap();
                probe.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
                probe.read_u8().await.unwrap();
                scene.shutdown.cancel();
            };
            let (outcome, ()) = tokio::join!(asked, stop);
            outcome.unwrap_err();
        })
        .await;
    }
}

#[tokio::test]
async fn a_reply_at_its_pace_is_the_same_reply() {
    let script = r#"
        delay_ms = 1
        chunk_delay_ms = 1
        chunk_bytes = 10
        [[step]]
        content = "something of a certain length"
    "#;
    with_server(script, |scene| async move {
        let answer = scene.ask("a", &[]).await.unwrap();
        assert_eq!(answer.content, "something of a certain length");
        assert!(answer.first_token_ms >= 1);
    })
    .await;
}

#[tokio::test]
async fn an_answer_without_streaming_is_one_json_text() {
    let script = r#"
        model = "tiny"
        [[step]]
        content = "abc"
        reasoning = "hm"
        tool_calls = [{ name = "f", arguments = { x = 1 }, id = "i{{step}}" }]
        [[step]]
        content = ""
    "#;
    with_server(script, |scene| async move {
        let body = r#"{"messages":[{"role":"user","content":"a"}]}"#;
        let response = scene.raw("POST", "/v1/chat/completions", body).await;
        let json = response.split("\r\n\r\n").nth(1).unwrap();
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        let message = serde_json::json!({
            "role": "assistant", "content": "abc", "reasoning": "hm",
            "tool_calls": [{
                "id": "i1", "type": "function",
                "function": {"name": "f", "arguments": "{\"x\":1}"},
            }],
        });
        assert_eq!(json["choices"][0]["message"], message);
        assert_eq!(json["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(json["model"], "tiny");
    })
    .await;
}

#[tokio::test]
async fn the_other_paths_answer() {
    with_server("model = 'tiny'\n[[step]]\ncontent = 'a'\n", |scene| async move {
        let models = scene.raw("GET", "/v1/models", "").await;
        assert!(models.starts_with("HTTP/1.1 200") && models.contains("\"tiny\""), "{models}");
        assert!(scene.raw("GET", "/health", "").await.starts_with("HTTP/1.1 200"));
        assert!(scene.raw("GET", "/nowhere", "").await.starts_with("HTTP/1.1 404"));
        let bad = scene.raw("POST", "/v1/chat/completions", "{").await;
        assert!(bad.starts_with("HTTP/1.1 400") && bad.contains("the request is wrong"), "{bad}");
    })
    .await;
}
