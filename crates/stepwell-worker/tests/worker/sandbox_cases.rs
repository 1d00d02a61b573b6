//! The field cases BOX-03 to BOX-10, as far as they hold for a shell without a sandbox. What a
//! command may do outside of the workspace (sb32, sb34) is asked of the path tools here.

use std::time::Duration;

use serde_json::{Value, json};
use stepwell_worker::builtin::BuiltinOptions;
use stepwell_worker::{ToolError, ToolOutput};
use tokio::time::Instant;

use crate::support::Bench;

fn case(id: &str) -> Value {
    let rows = include_str!("../cases/sandbox.jsonl").lines();
    let mut rows = rows.map(|row| serde_json::from_str::<Value>(row).unwrap());
    rows.find(|row| row["id"] == id).unwrap()
}

fn bench_for(case: &Value) -> Bench {
    let mut environment: Vec<_> = std::env::vars_os().collect();
    for (name, value) in case["parent_env"].as_object().unwrap() {
        environment.push((name.into(), value.as_str().unwrap().into()));
    }
    let environment = Some(environment);
    Bench::with_options(BuiltinOptions { environment, ..BuiltinOptions::default() })
}

/// The output as bytes, without the notes at its end.
fn body(output: &ToolOutput) -> Vec<u8> {
    if let Some(full) = &output.full {
        return full.clone();
    }
    let mut text = output.text.clone();
    while text.ends_with("]\n") && text.contains('[') {
        text.truncate(text.rfind('[').unwrap());
    }
    if text == "(no output)\n" { Vec::new() } else { text.into_bytes() }
}

fn from_hex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Runs a case's command and checks all that its row expects of the call itself.
async fn check(bench: &Bench, case: &Value) -> ToolOutput {
    let (id, expect) = (&case["id"], &case["expect"]);
    let seconds = case["limits"]["timeout_ms"].as_u64().unwrap() / 1000;
    let started = Instant::now();
    let arguments = json!({"command": case["cmd"], "timeout_seconds": seconds});
    let outcome = bench.call("shell", arguments).await;
    let took = started.elapsed();
    let output = match outcome {
        Ok(output) => output,
        Err(ToolError::TimedOut { partial: Some(output), .. }) if expect["timed_out"] == true => {
            assert!(output.text.contains("[timed out after "), "{id}: {}", output.text);
            output
        }
        other => panic!("{id}: {other:?}"),
    };
    let text = &output.text;
    if let Some(limit) = expect["returns_within_ms"].as_u64() {
        assert!(took < Duration::from_millis(limit), "{id}: took {took:?}");
    }
    if let Some(code) = expect["exit_code"].as_i64() {
        assert!(text.contains(&format!("[exit code {code} after ")), "{id}: {text}");
    }
    if let Some(left) = expect["processes_left"].as_str() {
        assert_eq!(bench.processes(left.strip_suffix(": none").unwrap()), [""; 0], "{id}");
    }
    check_output(case, &output);
    output
}

fn check_output(case: &Value, output: &ToolOutput) {
    let (id, expect, text) = (&case["id"], &case["expect"], &output.text);
    let body = body(output);
    if let Some(stdout) = expect["stdout"].as_str() {
        // Standard error comes in the same stream, so what it says may stand before.
        assert!(body.ends_with(stdout.as_bytes()), "{id}: {text}");
    }
    if let Some(hex) = expect["stdout_hex"].as_str() {
        // The notes begin on a line of their own.
        let trimmed = body.strip_suffix(b"\n").unwrap_or(&body);
        let expected = from_hex(hex);
        assert!(body == expected || trimmed == expected, "{id}: {text}");
    }
    if let Some(length) = expect["stdout_bytes"].as_u64() {
        assert_eq!(body.len() as u64, length, "{id}");
    }
    if let Some(end) = expect["stdout_ends"].as_str() {
        assert!(body.ends_with(end.as_bytes()) && text.contains(end), "{id}: {text}");
    }
    if let Some(length) = expect["stdout_max_bytes"].as_u64() {
        assert!((text.len() as u64) < length, "{id}: {}", text.len());
    }
    if expect["truncated"] == true {
        assert!(text.contains("bytes left out"), "{id}: {text}");
    }
    let all = |key: &str| expect[key].as_array().cloned().unwrap_or_default();
    for part in all("stdout_contains").iter().chain(&all("text_contains")) {
        assert!(text.contains(part.as_str().unwrap()), "{id}: {part} in {text}");
    }
    for part in all("stdout_not_contains") {
        assert!(!text.contains(part.as_str().unwrap()), "{id}: {part} in {text}");
    }
}

async fn check_by_id(id: &str) -> ToolOutput {
    let case = case(id);
    check(&bench_for(&case), &case).await
}

/// For rows whose `printf` writes bytes in a way that not every /bin/sh knows.
async fn check_in_bash(id: &str) -> ToolOutput {
    let mut case = case(id);
    case["cmd"] = format!("exec bash -c \"{}\"", case["cmd"].as_str().unwrap()).into();
    check(&bench_for(&case), &case).await
}

#[tokio::test]
async fn box_03_background_children_hold_nothing_up_and_are_ended() {
    check_by_id("sb09").await;
    check_by_id("sb11").await;
}

#[tokio::test]
async fn box_04_a_time_out_ends_the_whole_tree_and_keeps_the_output() {
    check_by_id("sb14").await;
    check_by_id("sb16").await;
    check_by_id("sb17").await;
}

#[tokio::test]
async fn box_05_output_is_bounded_and_its_size_told() {
    let output = check_by_id("sb18").await;
    assert!(output.text.contains("50,000,000 bytes of output"), "{}", output.text);
    check_by_id("sb21").await;
}

#[tokio::test]
async fn box_06_bytes_are_kept_or_visibly_replaced() {
    let output = check_in_bash("sb22").await;
    assert_eq!(output.text.matches('\u{FFFD}').count(), 4, "three, and one in the note");
    check_by_id("sb25").await;
    check_by_id("sb26").await;
    check_in_bash("sb27").await;
}

#[tokio::test]
async fn box_07_no_secret_and_no_handle_is_handed_on() {
    let output = check_by_id("sb28").await;
    assert!(!output.text.contains("canary"), "{}", output.text);
    check_by_id("sb31").await;
}

#[tokio::test]
async fn box_08_path_tools_write_nothing_outside() {
    for id in ["sb32", "sb34"] {
        let case = case(id);
        let bench = bench_for(&case);
        let probe = case["expect"]["host_file_absent"].as_str().unwrap();
        let message = bench.refusal("write_file", json!({"path": probe, "content": "x"})).await;
        assert!(message.contains("outside of the workspace"), "{id}: {message}");
        assert!(!bench.workspace().join(probe).exists(), "{id}");
    }
}

#[tokio::test]
async fn box_10_every_call_is_a_fresh_shell_in_the_workspace() {
    let case = case("sb42");
    let bench = bench_for(&case);
    check(&bench, &case).await;
    let text = bench.text("shell", json!({"command": case["expect"]["next_call"]["cmd"]})).await;
    let expected = format!("{}\n[]\n[exit code 0", bench.workspace().display());
    assert!(text.starts_with(&expected), "{text}");
}

#[tokio::test]
async fn box_10_a_removed_workspace_is_an_error_and_nothing_runs_elsewhere() {
    let case = case("sb43");
    let bench = bench_for(&case);
    check(&bench, &case).await;
    let next = json!({"command": case["expect"]["next_call"]["cmd"]});
    let message = bench.refusal("shell", next).await;
    assert!(message.contains("is not there") && message.contains("restore it"), "{message}");
}

#[tokio::test]
async fn box_10_odd_names_are_listed() {
    check_by_id("sb45").await;
}
