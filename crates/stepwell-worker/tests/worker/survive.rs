//! What needs a process of its own: being killed, its environment, its memory. The process is this
//! test binary, told by a variable to be the helper.

use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use stepwell_worker::OutputSink;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::support::{Bench, PATIENCE};

const COMMAND: &str = "STEPWELL_WORKER_TEST_COMMAND";
const FOLDER: &str = "STEPWELL_WORKER_TEST_FOLDER";
const CLOSE: &str = "STEPWELL_WORKER_TEST_CLOSE";
/// Starts every line that the helper prints for the test.
const MARK: &str = "helper:";

/// Runs a command when told to by its environment; else there is nothing to do.
#[tokio::test]
async fn helper() {
    let (Some(command), Some(folder)) = (std::env::var_os(COMMAND), std::env::var_os(FOLDER))
    else {
        return;
    };
    let bench = Bench::new();
    let (sink, mut chunks) = OutputSink::channel(1024);
    let mut context = bench.context();
    context.workspace = folder.into();
    context.output = sink;
    let arguments = json!({"command": command.to_str().unwrap()}).to_string();
    let before = peak_memory_kib();
    let call = bench.call_with(context, "shell", &arguments);
    let relay = async {
        while let Some(chunk) = chunks.recv().await {
            for line in chunk.lines().take(200) {
                println!("{MARK}live {line}");
            }
        }
    };
    let (outcome, ()) = tokio::join!(call, relay);
    println!("{MARK}grown {}", peak_memory_kib() - before);
    println!("{MARK}over {:?}", outcome.map(|output| output.text.len()));
}

/// As `helper`, without a runtime of its own, which would have handles already.
#[test]
fn helper_that_closes() {
    if std::env::var_os(CLOSE).is_none() {
        return;
    }
    stepwell_worker::close_inherited_handles();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let text = runtime.block_on(async {
        let bench = Bench::new();
        bench.text("shell", json!({"command": "ls /proc/self/fd | tr '\\n' ' '"})).await
    });
    println!("{MARK}handles {text}");
}

fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn start_helper(command: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "survive::helper", "--nocapture", "--test-threads=1"])
        .env(COMMAND, command)
        .env(FOLDER, folder)
        .env("MY_SERVICE_TOKEN", "canary-0003")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// The helper's next line; None at its end.
async fn next_line(output: &mut (impl AsyncBufReadExt + Unpin)) -> Option<String> {
    loop {
        let mut line = String::new();
        let length = timeout(PATIENCE, output.read_line(&mut line)).await.expect("no line");
        if length.unwrap() == 0 {
            return None;
        }
        // The test harness prints on the same line, without a newline of its own.
        if let Some((_, rest)) = line.split_once(MARK) {
            return Some(rest.trim_end().to_owned());
        }
    }
}

async fn all_lines(command: &str) -> Vec<String> {
    let bench = Bench::new();
    let mut child = start_helper(command, &bench.workspace());
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    while let Some(line) = next_line(&mut output).await {
        lines.push(line);
    }
    assert!(child.wait().await.unwrap().success(), "{lines:#?}");
    lines
}

#[tokio::test]
async fn a_killed_worker_takes_its_commands_with_it() {
    for command in [
        "sleep 95.1 & sleep 95.2",
        "timeout 60 sleep 95.3",
        "(setsid sh -c 'sleep 95.4 & sleep 95.5' &); nohup sleep 95.6",
        "trap '' TERM HUP INT; sleep 95.7; sleep 95.8",
    ] {
        let bench = Bench::new();
        let alive = bench.workspace().join("alive");
        nix::unistd::mkfifo(&alive, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut receiver =
            tokio::net::unix::pipe::OpenOptions::new().open_receiver(&alive).unwrap();
        let command = format!("exec 9>alive; echo up; {command}");
        let mut child = start_helper(&command, &bench.workspace());
        let mut output = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(next_line(&mut output).await.as_deref(), Some("live up"), "{command}");
        // `kill` sends SIGKILL: the worker gets no chance to do anything.
        child.kill().await.unwrap();
        let mut rest = Vec::new();
        // It ends when the last process that holds it does.
        let end = timeout(PATIENCE, receiver.read_to_end(&mut rest)).await;
        end.unwrap_or_else(|_| panic!("something of this lives on: {command}")).unwrap();
    }
}

#[tokio::test]
async fn the_workers_environment_is_not_the_commands() {
    let lines = all_lines("env; cat /proc/$PPID/comm; readlink /proc/self/fd/0").await;
    let text = lines.join("\n");
    assert!(text.contains("live PATH=") && text.contains("live /dev/null"), "{text}");
    assert!(!text.contains("canary") && !text.contains(COMMAND), "{text}");
}

#[tokio::test]
async fn box_05_a_flood_does_not_grow_the_worker() {
    let lines = all_lines("yes | head -c 50000000").await;
    let grown = lines.iter().find_map(|line| line.strip_prefix("grown ")).unwrap();
    let grown: u64 = grown.parse().unwrap();
    assert!(grown < 64 * 1024, "grew by {grown} KiB");
}

#[tokio::test]
async fn handles_from_whoever_started_the_worker_are_not_handed_on() {
    let child = Command::new("/bin/bash")
        .args(["-c", "exec 4</dev/null 27</dev/null; exec \"$@\"", "bash"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "survive::helper_that_closes", "--nocapture", "--test-threads=1"])
        .env(CLOSE, "yes")
        .stdin(Stdio::null())
        .output();
    let output = timeout(PATIENCE, child).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // 3 is that of the listing itself.
    assert!(text.contains("helper:handles 0 1 2 3 \n[exit code 0"), "{text}");
}
