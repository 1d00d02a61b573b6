//! Running commands.

use std::time::Duration;

use serde_json::json;
use stepwell_worker::{OutputSink, ToolError};
use tokio::time::timeout;

use crate::support::{Bench, PATIENCE};

#[tokio::test]
async fn output_and_status_are_told() {
    let bench = Bench::new();
    for (command, expected) in [
        ("echo out; echo err >&2; echo out2", "out\nerr\nout2\n[exit code 0 after "),
        ("printf half; exit 3", "half\n[exit code 3 after "),
        ("true", "(no output)\n[exit code 0 after "),
        ("kill -9 $$", "(no output)\n[ended by signal 9 (SIGKILL) after "),
        ("nonsense-command", "/bin/sh: 1: nonsense-command: not found\n[exit code 127 after "),
        ("cat; echo \"[$0]\"", "[sh]\n[exit code 0 after "),
        ("exit 256; echo no", "(no output)\n[exit code 0 after "),
    ] {
        let text = bench.text("shell", json!({"command": command})).await;
        let text = text.replace("/bin/sh: 1: ", "sh: 1: ");
        assert!(text.starts_with(&expected.replace("/bin/sh", "sh")), "{command}: {text}");
    }
}

#[tokio::test]
async fn commands_that_cannot_be_run_are_refused() {
    let bench = Bench::new();
    for (command, expected) in [
        (String::new(), "empty"),
        (" \n".to_owned(), "empty"),
        ("echo \0".to_owned(), "NUL"),
        ("x".repeat(200_000), "write a script"),
    ] {
        let message = bench.refusal("shell", json!({"command": command})).await;
        assert!(message.contains(expected), "{message}");
    }
    let long = format!("echo {}", "y".repeat(90_000));
    let text = bench.text("shell", json!({"command": long})).await;
    assert!(text.contains("bytes left out") && text.contains("exit code 0"), "{text}");
}

#[tokio::test]
async fn output_is_seen_while_the_command_runs() {
    let bench = Bench::new();
    let (sink, mut chunks) = OutputSink::channel(16);
    let mut context = bench.context();
    context.output = sink;
    // The command waits for a file that is only made once its first output was seen.
    let arguments = json!({"command": "echo first; mkfifo gate; read x < gate; echo $x >&2"});
    let arguments = arguments.to_string();
    let call = bench.call_with(context, "shell", &arguments);
    let watch = async {
        let first = timeout(PATIENCE, chunks.recv()).await.unwrap().unwrap();
        assert_eq!(first, "first\n");
        let open = json!({"command": "until [ -p gate ]; do :; done; echo second > gate"});
        bench.text("shell", open).await;
        timeout(PATIENCE, chunks.recv()).await.unwrap().unwrap()
    };
    let (outcome, second) = tokio::join!(call, watch);
    assert_eq!(second, "second\n");
    assert!(outcome.unwrap().text.starts_with("first\nsecond\n[exit code 0"), "both are there");
}

#[tokio::test]
async fn a_cancel_ends_the_command_and_keeps_its_output() {
    let bench = Bench::new();
    let (sink, mut chunks) = OutputSink::channel(16);
    let mut context = bench.context();
    context.output = sink;
    let cancel = context.cancel.clone();
    let arguments =
        json!({"command": "trap 'echo cleaned; exit 1' TERM; echo up; sleep 91.1 & wait"})
            .to_string();
    let call = bench.call_with(context, "shell", &arguments);
    let watch = async {
        timeout(PATIENCE, chunks.recv()).await.unwrap().unwrap();
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(call, watch);
    let Err(ToolError::Cancelled { partial: Some(output) }) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(output.text.starts_with("up\ncleaned\n[cancelled after "), "{}", output.text);
    assert_eq!(bench.processes("sleep 91.1"), [""; 0]);
}

#[tokio::test]
async fn the_calls_own_deadline_counts_too() {
    let bench = Bench::new();
    let mut context = bench.context();
    context.deadline = tokio::time::Instant::now() + Duration::from_millis(300);
    let arguments = json!({"command": "echo up; exec sleep 92.1", "timeout_seconds": 50});
    let outcome = bench.call_with(context, "shell", &arguments.to_string()).await;
    let Err(ToolError::TimedOut { partial: Some(output), .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(output.text.starts_with("up\n[timed out after 0."), "{}", output.text);
    assert_eq!(bench.processes("sleep 92.1"), [""; 0]);
}

#[tokio::test]
async fn a_command_that_will_not_end_is_ended() {
    let bench = Bench::new();
    let command = "trap '' TERM; timeout 60 sleep 93.1 & while :; do sleep 93.2; done";
    let outcome = bench.call("shell", json!({"command": command, "timeout_seconds": 1})).await;
    assert!(matches!(outcome, Err(ToolError::TimedOut { .. })), "{outcome:?}");
    assert_eq!((bench.processes("sleep 93.1"), bench.processes("sleep 93.2")), (vec![], vec![]));
}

#[tokio::test]
async fn an_abandoned_call_ends_its_command() {
    let bench = Bench::new();
    let alive = bench.workspace().join("alive");
    nix::unistd::mkfifo(&alive, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut receiver = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&alive).unwrap();
    let command = "exec 9>alive; echo up >&9; setsid sleep 94.1 & timeout 50 sleep 94.2";
    let arguments = json!({"command": command}).to_string();
    {
        let call = bench.call_with(bench.context(), "shell", &arguments);
        let mut word = [0_u8; 3];
        let up = tokio::io::AsyncReadExt::read_exact(&mut receiver, &mut word);
        tokio::select! {
            outcome = call => panic!("{outcome:?}"),
            up = up => { up.unwrap(); }
        }
    }
    let mut rest = Vec::new();
    // It ends when the last process that holds it does.
    let end = tokio::io::AsyncReadExt::read_to_end(&mut receiver, &mut rest);
    timeout(PATIENCE, end).await.expect("something is alive").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_commands_side_by_side_do_not_mix() {
    let bench = Bench::new();
    let calls = (0..16).map(|number| {
        bench.text("shell", json!({"command": format!("sleep 0.1 & echo {number}; exit {number}")}))
    });
    for (number, text) in futures_util::future::join_all(calls).await.iter().enumerate() {
        assert!(text.starts_with(&format!("{number}\n[exit code {number} after")), "{text}");
    }
}
