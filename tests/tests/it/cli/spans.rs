//! `tree` by windows and as it stood, and `export --otlp` to a file and to a collector.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use stepwell_proto::v1::{GetSpanRequest, SessionStatus};
use stepwell_tests::{Ran, Stage, agent_with, free_address};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::text;

/// A model that looks three times and answers.
const LOOKS: &str = r#"
[[step]]
repeat = 3
tool_calls = [{ name = "look", arguments = { what = "x{{step}}" } }]

[[step]]
content = "I saw it."
"#;

async fn completed() -> Result<(Stage, String)> {
    let stage = Stage::counting(LOOKS).await?;
    let session_id = stage.api.create("Look around.", &agent_with(&["look"], "")).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    Ok((stage, session_id))
}

fn ids(spans: &[Value]) -> Vec<&str> {
    spans.iter().map(|it| text(it, "span_id")).collect()
}

/// The lines without the times, which differ from run to run.
fn drawn(ran: &Ran) -> Vec<String> {
    let cut = |line: &str| line.chars().take(40).collect::<String>().trim_end().to_owned();
    ran.stdout.lines().map(cut).collect()
}

#[tokio::test]
async fn tree_shows_any_window_of_a_session_as_it_stood_at_any_event() -> Result<()> {
    let (stage, id) = completed().await?;
    let cli = stage.cli();
    let all = cli.json(&["tree", &id]).await?;
    let wanted = [
        "session", "step:1", "model:1", "call:1.1", "step:2", "model:2", "call:2.1", "step:3",
        "model:3", "call:3.1", "step:4", "model:4",
    ];
    ensure!(ids(&all) == wanted, "{all:?}");
    ensure!(all[0]["subtree_size"] == 12 && all[0]["child_count"] == 4, "{}", all[0]);
    ensure!(all[4]["row"] == 4 && all[4]["is_last_child"] == false, "{}", all[4]);
    for from in 0..=all.len() {
        let part = cli.json(&["tree", &id, "--from", &from.to_string(), "--limit", "2"]).await?;
        ensure!(part == all[from..].iter().take(2).cloned().collect::<Vec<_>>(), "from {from}");
    }
    let steps = cli.json(&["tree", &id, "--depth", "1"]).await?;
    ensure!(ids(&steps) == ["session", "step:1", "step:2", "step:3", "step:4"], "{steps:?}");
    let then = cli.json(&["tree", &id, "--at", "4"]).await?;
    ensure!(ids(&then) == ["session", "step:1", "model:1", "call:1.1"], "{then:?}");
    let open: Vec<&str> = then.iter().map(|it| text(it, "status")).collect();
    ensure!(open == ["open", "open", "ok", "open"], "{then:?}");
    let whole = cli.run(&["tree", &id]).await?;
    let window = cli.run(&["tree", &id, "--from", "5", "-n", "3"]).await?;
    window.expect(0)?;
    ensure!(drawn(&window) == drawn(&whole)[5..8], "{}", window.stdout);
    let steps = cli.run(&["tree", &id, "--depth", "1"]).await?;
    ensure!(steps.stdout.contains("├─ step 1 +2 ok"), "{}", steps.stdout);
    let beyond = cli.run(&["tree", &id, "--at", "9999"]).await?;
    beyond.expect(1)?;
    ensure!(beyond.stderr.contains("--at: is 9999, but the head of session"), "{beyond:?}");
    let request =
        GetSpanRequest { session_id: id, span_id: "call:2.1".into(), ..GetSpanRequest::default() };
    let span = stage.api.sessions().get_span(request).await?.into_inner();
    let types: Vec<&str> = span.events.iter().map(|it| it.r#type.as_str()).collect();
    ensure!(types == ["model_replied", "tool_scheduled", "tool_finished"], "{types:?}");
    Ok(())
}

/// The spans of the requests in a file.
fn spans(lines: &[Value]) -> Vec<Value> {
    let of = |line: &Value| line["resourceSpans"][0]["scopeSpans"][0]["spans"].clone();
    lines.iter().flat_map(|line| of(line).as_array().cloned().unwrap_or_default()).collect()
}

fn named(span: &Value, key: &str) -> Value {
    let attributes = span["attributes"].as_array().cloned().unwrap_or_default();
    let found = attributes.into_iter().find(|it| it["key"] == key);
    found.map_or(Value::Null, |it| it["value"].clone())
}

#[tokio::test]
async fn a_session_that_is_long_over_is_written_as_a_trace() -> Result<()> {
    let (mut stage, id) = completed().await?;
    stage.kill_and_start().await?;
    let cli = stage.cli();
    let file = stage.root().join("traces.jsonl");
    let path = file.to_str().context("the path is not UTF-8")?;
    cli.run(&["export", &id, "--otlp", path]).await?.expect(0)?;
    let written = std::fs::read_to_string(&file)?;
    let lines: Vec<Value> = written.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let spans = spans(&lines);
    ensure!(spans.len() == 12, "{written}");
    let names: Vec<&str> = spans.iter().take(4).map(|it| text(it, "name")).collect();
    ensure!(names == ["invoke_agent tester", "step 1", "chat mock", "execute_tool look"]);
    let (session, chat, call) = (&spans[0], &spans[2], &spans[3]);
    ensure!(session["parentSpanId"].is_null() && spans[1]["parentSpanId"] == session["spanId"]);
    ensure!(spans.iter().all(|it| it["traceId"] == session["traceId"]));
    ensure!(chat["kind"] == 3 && call["kind"] == 1, "{chat} {call}");
    ensure!(named(chat, "gen_ai.operation.name")["stringValue"] == "chat", "{chat}");
    ensure!(named(chat, "gen_ai.usage.input_tokens")["intValue"].is_string(), "{chat}");
    ensure!(named(call, "gen_ai.tool.name")["stringValue"] == "look", "{call}");
    ensure!(named(call, "gen_ai.conversation.id")["stringValue"] == id.as_str(), "{call}");
    // Again, to stdout: the same.
    let again = cli.run(&["export", &id[..8], "--otlp", "-"]).await?;
    again.expect(0)?;
    ensure!(again.stdout == written, "{}", again.stdout);
    let nowhere = cli.run(&["export", &id, "--otlp", "/nowhere/x"]).await?;
    nowhere.expect(1)?;
    ensure!(nowhere.stderr.contains("cannot write /nowhere/x"), "{}", nowhere.stderr);
    let taken = cli.run(&["export", &id, "--otlp", path]).await?;
    taken.expect(1)?;
    ensure!(taken.stderr.contains("--force"), "{}", taken.stderr);
    let dead = format!("http://{}", free_address()?);
    let nobody = cli.run(&["export", &id, "--otlp", &dead]).await?;
    nobody.expect(1)?;
    ensure!(nobody.stderr.contains(&dead), "{}", nobody.stderr);
    Ok(())
}

/// Reads one request and answers it; gives its head and body.
async fn receive(listener: &TcpListener, answer: &str) -> Result<(String, Value)> {
    let mut stream: BufReader<TcpStream> = BufReader::new(listener.accept().await?.0);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(stream.read_line(&mut head).await? > 0, "the head ends early: {head}");
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|it| it.strip_prefix("content-length: "));
    let mut body = vec![0; length.context("no length")?.parse()?];
    stream.read_exact(&mut body).await?;
    stream.write_all(answer.as_bytes()).await?;
    Ok((head, serde_json::from_slice(&body)?))
}

#[tokio::test]
async fn a_collector_that_is_busy_gets_the_trace_when_it_is_ready() -> Result<()> {
    let (stage, id) = completed().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let collector = async {
        let busy =
            "HTTP/1.1 503 Busy\r\nretry-after: 0\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let first = receive(&listener, busy).await?;
        let good = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
        let second = receive(&listener, good).await?;
        ensure!(first.1 == second.1, "the same spans again");
        Ok(second)
    };
    let cli = stage.cli();
    let words = ["export", &id, "--otlp", &endpoint, "--header", "x-key=k"];
    let (ran, received) = tokio::join!(cli.run(&words), collector);
    ran?.expect(0)?;
    let (head, body) = received?;
    ensure!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    ensure!(head.contains("x-key: k") && head.contains("application/json"), "{head}");
    ensure!(spans(&[body]).len() == 12);
    Ok(())
}
