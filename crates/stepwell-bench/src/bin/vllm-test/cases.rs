//! What must hold against a real server.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use stepwell_core::account::Measured;
use stepwell_core::agent::Agent;
use stepwell_core::event::{FinishReason, ModelErrorKind};
use stepwell_core::prompt::Prompt;
use stepwell_ports::{ModelAnswer, ModelFailure};
use tokio::time::{Instant, sleep, timeout};

use crate::scene::{Scene, WRONG_KEY_ENV};
use crate::server::Server;
use crate::strict;

/// How long the server may take to notice a client that went away.
const ABORT_WITHIN: Duration = Duration::from_secs(20);
/// Requests at once: more than the server takes.
const CROWD: usize = 12;

const CALL: &str =
    "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}\n</tool_call>";

/// Runs those with `only` in their name; how many failed.
pub(crate) async fn run(scene: &Scene, server: &mut Server, only: &str) -> anyhow::Result<usize> {
    let mut report = Report { only: only.to_owned(), failed: 0 };
    say("| case | | seen | took |\n|---|---|---|---|");
    for (name, parameters, task, check) in simple() {
        report.case(name, simple_case(scene, &parameters, &task, check)).await;
    }
    report.case("strict schemas", strict::run(scene)).await;
    report.case("a prompt that cannot fit", too_long(scene)).await;
    report.case("a wrong key", wrong_key(scene)).await;
    report.case("a cancel is an abort there", cancel(scene, server)).await;
    report.case("more requests than it takes", overload(scene)).await;
    report.case("a restart in mid-stream", restart(scene, server)).await;
    Ok(report.failed)
}

/// What the user is shown.
struct Report {
    only: String,
    failed: usize,
}

impl Report {
    /// Runs a case, if it is wanted.
    async fn case(&mut self, name: &str, case: impl Future<Output = anyhow::Result<String>>) {
        if !name.contains(&self.only) {
            return;
        }
        let begun = Instant::now();
        let outcome = case.await;
        let ms = begun.elapsed().as_millis();
        match outcome {
            Ok(seen) => say(&format!("| {name} | ok | {seen} | {ms} ms |")),
            Err(error) => {
                self.failed += 1;
                say(&format!("| {name} | FAILED | {error:#} | {ms} ms |"));
            }
        }
    }
}

#[expect(clippy::print_stdout, reason = "a program tells its user")]
fn say(line: &str) {
    println!("{line}");
}

type Outcome = Result<ModelAnswer, ModelFailure>;
type Check = fn(Outcome) -> anyhow::Result<String>;

fn simple() -> Vec<(&'static str, Value, String, Check)> {
    let forced = |words: &str| json!({"max_tokens": 96, "structured_outputs": {"choice": [words]}});
    let schema = json!({
        "type": "object", "properties": {"answer": {"type": "integer"}},
        "required": ["answer"], "additionalProperties": false,
    });
    let format = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
    let hello = || "Say hello.".to_owned();
    vec![
        ("plain", json!({"max_tokens": 16, "tool_choice": "none"}), hello(), |outcome| {
            let answer = outcome?;
            ensure!(!answer.content.is_empty() && answer.usage.prompt_tokens > 0, "{answer:?}");
            Ok(format!("{} tokens", answer.usage.completion_tokens))
        }),
        ("one call", forced(CALL), hello(), |outcome| calls(&outcome?, 1)),
        ("two calls in one step", forced(&format!("{CALL}\n{CALL}")), hello(), |outcome| {
            calls(&outcome?, 2)
        }),
        (
            "tool_choice required",
            json!({"max_tokens": 64, "tool_choice": "required"}),
            hello(),
            |outcome| calls(&outcome?, 1),
        ),
        (
            "structured answer",
            json!({"max_tokens": 32, "tool_choice": "none", "response_format": format}),
            "What is 6 times 7?".to_owned(),
            |outcome| {
                let answer = outcome?;
                let value: Value = serde_json::from_str(&answer.content)?;
                ensure!(value.pointer("/answer").is_some_and(Value::is_i64), "{}", answer.content);
                Ok(answer.content)
            },
        ),
        ("cut by length", json!({"max_tokens": 3, "tool_choice": "none"}), hello(), |outcome| {
            let answer = outcome?;
            ensure!(answer.finish_reason == FinishReason::Length, "{answer:?}");
            Ok("finish_reason length".into())
        }),
        (
            "cut in the middle of a call",
            json!({"max_tokens": 12, "structured_outputs": {"choice": [CALL]}}),
            hello(),
            |outcome| {
                let answer = outcome?;
                ensure!(answer.finish_reason == FinishReason::Length, "{answer:?}");
                Ok(format!("finish_reason length, {} calls", answer.tool_calls.len()))
            },
        ),
    ]
}

async fn simple_case(
    scene: &Scene,
    parameters: &Value,
    task: &str,
    check: Check,
) -> anyhow::Result<String> {
    let agent = scene.agent(parameters)?;
    let prompt = Prompt::new(&agent, task);
    check(scene.ask(&agent, prompt).await?)
}

fn calls(answer: &ModelAnswer, count: usize) -> anyhow::Result<String> {
    ensure!(answer.tool_calls.len() == count, "{answer:?}");
    for call in &answer.tool_calls {
        let arguments: Value = serde_json::from_str(&call.arguments)?;
        ensure!(
            call.name == "read_file" && arguments.pointer("/path").is_some_and(Value::is_string),
            "{call:?}"
        );
    }
    Ok(answer.tool_calls.iter().map(|it| it.arguments.as_str()).collect::<Vec<_>>().join(" "))
}

/// The client finds out by the server's own count; a client that knows no better sends it, and the
/// server says the same.
async fn too_long(scene: &Scene) -> anyhow::Result<String> {
    let agent = scene.agent(&json!({"max_tokens": 8}))?;
    let prompt = Prompt::new(&agent, &"word ".repeat(20_000));
    let seeming = Measured {
        model: agent.model.name.clone(),
        bytes: prompt.body_bytes(),
        messages: prompt.messages(),
        tokens: 1,
    };
    let mut seen = Vec::new();
    for measured in [None, Some(seeming)] {
        let is_unsent = measured.is_none();
        let asked = scene.begin_measured(&agent, prompt.clone(), measured);
        let failure = asked.outcome().await?.err().context("it answered")?;
        ensure!(failure.kind == ModelErrorKind::ContextTooLong, "{failure:?}");
        ensure!(is_unsent == failure.http_status.is_none(), "{failure:?}");
        let context = failure.context.context("no numbers")?;
        let (limit, prompt) = (context.limit, context.prompt);
        let (limit, prompt) = (limit.context("no limit")?, prompt.context("no prompt")?);
        let how = if is_unsent { "not sent" } else { "sent" };
        seen.push(format!("{how}: {prompt} of {limit} tokens"));
    }
    Ok(seen.join("; "))
}

async fn wrong_key(scene: &Scene) -> anyhow::Result<String> {
    let mut agent = scene.agent(&json!({"max_tokens": 4}))?;
    agent.model.api_key_env = Some(WRONG_KEY_ENV.into());
    let prompt = Prompt::new(&agent, "Say hello.");
    let failure = scene.ask(&agent, prompt).await?.err().context("it answered")?;
    ensure!(failure.kind == ModelErrorKind::Unauthorized, "{failure:?}");
    let key = std::env::var(WRONG_KEY_ENV)?;
    ensure!(!failure.to_string().contains(&key), "the key stands in the error");
    Ok(format!("HTTP {}", failure.http_status.unwrap_or(0)))
}

fn long(scene: &Scene) -> anyhow::Result<(Agent, Prompt)> {
    let parameters = json!({"max_tokens": 2_000, "tool_choice": "none", "ignore_eos": true});
    let agent = scene.agent(&parameters)?;
    let prompt = Prompt::new(&agent, "Count from one to a thousand.");
    Ok((agent, prompt))
}

async fn cancel(scene: &Scene, server: &Server) -> anyhow::Result<String> {
    // An abort has no counter of its own: nothing runs any more, and nothing more was answered.
    let running = || server.counter("vllm:num_requests_running", "");
    let answered = || server.counter("vllm:request_success_total", "");
    let before = answered().await?;
    let (agent, prompt) = long(scene)?;
    let mut asked = scene.begin(&agent, prompt);
    asked.first_piece.recv().await.context("no piece came")?;
    let begun = Instant::now();
    asked.cancel.cancel();
    ensure!(asked.outcome().await?.is_err(), "it answered");
    let returned = begun.elapsed();
    while running().await? > 0.0 {
        if begun.elapsed() > ABORT_WITHIN {
            bail!("the server saw no abort within {ABORT_WITHIN:?}");
        }
        sleep(Duration::from_millis(50)).await;
    }
    ensure!(answered().await? <= before, "the server answered to its end");
    let (returned, seen) = (returned.as_micros(), begun.elapsed().as_millis());
    Ok(format!("back after {returned} µs, in its metrics after {seen} ms"))
}

async fn overload(scene: &Scene) -> anyhow::Result<String> {
    let parameters = json!({"max_tokens": 24, "tool_choice": "none", "ignore_eos": true});
    let agent = scene.agent(&parameters)?;
    let crowd: Vec<_> = (0..CROWD)
        .map(|number| scene.begin(&agent, Prompt::new(&agent, &format!("Say hello to {number}."))))
        .collect();
    let (mut answered, mut refused) = (0, 0);
    for asked in crowd {
        match asked.outcome().await? {
            Ok(_) => answered += 1,
            // To a stream vLLM says it inside a 200.
            Err(failure) if failure.kind == ModelErrorKind::Overloaded => refused += 1,
            Err(failure) => bail!("{failure:?}"),
        }
    }
    ensure!(answered > 0 && refused > 0, "{answered} answered, {refused} refused");
    Ok(format!("{answered} answered, {refused} refused as overloaded"))
}

async fn restart(scene: &Scene, server: &mut Server) -> anyhow::Result<String> {
    let (agent, prompt) = long(scene)?;
    let mut asked = scene.begin(&agent, prompt);
    asked.first_piece.recv().await.context("no piece came")?;
    server.kill().await?;
    let outcome = timeout(Duration::from_secs(60), asked.outcome()).await.context("it hangs")??;
    let failure = outcome.err().context("a broken stream gave an answer")?;
    ensure!(failure.kind == ModelErrorKind::StreamBroken, "{failure:?}");
    server.start_again().await?;
    let agent = scene.agent(&json!({"max_tokens": 4, "tool_choice": "none"}))?;
    let again = scene.ask(&agent, Prompt::new(&agent, "Say hello.")).await?;
    ensure!(again.is_ok(), "{again:?}");
    Ok(format!("{}; the next start answers", failure.kind.as_str()))
}
