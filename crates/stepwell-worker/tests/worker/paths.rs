//! Paths cannot leave the workspace, whichever tool gets them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use serde_json::{Value, json};
use stepwell_worker::ToolError;

use crate::support::Bench;

fn calls_with(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({"path": path})),
        ("write_file", json!({"path": path, "content": "intruder"})),
        ("edit_file", json!({"path": path, "old_text": "secret", "new_text": "intruder"})),
        ("list_files", json!({"path": path})),
        ("search_files", json!({"path": path, "pattern": "secret"})),
    ]
}

/// Everything outside of the workspace, as text.
fn outside(bench: &Bench) -> String {
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(bench.beside("")).unwrap().map(Result::unwrap) {
        if entry.file_name() == "ws" {
            continue;
        }
        seen.push(format!("{:?}", entry.path()));
        if entry.path().is_dir() {
            for inner in std::fs::read_dir(entry.path()).unwrap().map(Result::unwrap) {
                seen.push(format!("{:?} {:?}", inner.path(), std::fs::read(inner.path())));
            }
        }
    }
    seen.sort();
    seen.join("\n")
}

fn bench_with_outside() -> Bench {
    let bench = Bench::new();
    std::fs::create_dir(bench.beside("out")).unwrap();
    std::fs::write(bench.beside("out/secret.txt"), "secret").unwrap();
    bench.put("inside/a.txt", "secret\n");
    bench
}

#[tokio::test]
async fn every_way_out_is_refused_by_every_tool() {
    let bench = bench_with_outside();
    bench.link("../out", "to-folder");
    bench.link("../out/secret.txt", "to-file");
    bench.link(bench.beside("out"), "to-absolute");
    bench.link("../nothing", "dangling");
    bench.link("/nothing/at/all", "dangling-absolute");
    bench.link("..", "up");
    bench.link("to-folder", "to-link");
    bench.link("inside/../../out", "roundabout");
    bench.link("/proc/self/cwd", "magic");
    bench.link("../../out", "inside/deeper");
    let absolute = bench.beside("out/secret.txt");
    let before = outside(&bench);
    for path in [
        "..",
        "../out/secret.txt",
        "../outside_probe.txt",
        "inside/../../out/secret.txt",
        "./../out/secret.txt",
        "inside/./.././../out/secret.txt",
        "/etc/passwd",
        "/",
        "/tmp/agent_probe_10",
        absolute.to_str().unwrap(),
        "to-folder",
        "to-folder/secret.txt",
        "to-folder/new.txt",
        "to-file",
        "to-absolute/secret.txt",
        "dangling",
        "dangling/new.txt",
        "dangling-absolute",
        "up/out/secret.txt",
        "up",
        "to-link/secret.txt",
        "roundabout/secret.txt",
        "magic",
        "magic/x",
        "inside/deeper/secret.txt",
        "inside/../up/out/secret.txt",
    ] {
        for (tool, arguments) in calls_with(path) {
            let message = bench.refusal(tool, arguments).await;
            assert!(message.contains("outside of the workspace"), "{tool} {path}: {message}");
            assert!(message.contains(path), "{tool} {path}: {message}");
        }
    }
    assert_eq!(outside(&bench), before);
    assert!(!Path::new("/tmp/agent_probe_10").exists());
}

#[tokio::test]
async fn paths_that_only_look_wrong_are_taken() {
    let bench = bench_with_outside();
    bench.link("inside", "alias");
    bench.link("../inside/a.txt", "inside/back");
    bench.link(bench.workspace().join("inside"), "absolute-inside");
    let absolute = bench.workspace().join("inside/a.txt");
    for path in [
        "inside/a.txt",
        "./inside//a.txt",
        "inside/../inside/a.txt",
        "alias/a.txt",
        "alias/../inside/a.txt",
        "inside/back",
        "absolute-inside/a.txt",
        absolute.to_str().unwrap(),
    ] {
        assert_eq!(bench.text("read_file", json!({"path": path})).await, "secret\n", "{path}");
    }
    let written = bench.text("write_file", json!({"path": "alias/b.txt", "content": "b"})).await;
    assert!(written.contains("created inside/b.txt"), "{written}");
    let written = bench.text("write_file", json!({"path": "inside/back", "content": "c"})).await;
    assert!(written.contains("replaced inside/a.txt"), "{written}");
    assert!(bench.workspace().join("inside/back").is_symlink(), "the link itself stays");
    assert_eq!(bench.get("inside/a.txt"), "c");
}

#[tokio::test]
async fn other_wrong_paths_get_an_answer_that_helps() {
    let bench = bench_with_outside();
    bench.link("loop-b", "loop-a");
    bench.link("loop-a", "loop-b");
    for (path, expected) in [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("~/x", "not expanded"),
        ("loop-a", "symbolic links"),
        ("loop-a/x", "symbolic links"),
        ("inside/a.txt/x", "not a folder"),
        (&"n".repeat(300), "File name too long"),
        (&"n/".repeat(3000), "more than the 4096"),
    ] {
        for (tool, arguments) in calls_with(path) {
            let message = bench.refusal(tool, arguments).await;
            assert!(message.contains(expected), "{tool} {path}: {message}");
        }
    }
    assert!(!bench.workspace().join("~").exists());
    for tool in ["read_file", "list_files"] {
        let message = bench.refusal(tool, json!({"path": "gone"})).await;
        assert!(message.contains("`gone` does not exist"), "{message}");
        let message = bench.refusal(tool, json!({"path": "gone/x"})).await;
        assert!(message.contains("no folder `gone`"), "{message}");
    }
}

#[tokio::test]
async fn a_workspace_that_is_gone_is_named() {
    let bench = bench_with_outside();
    let root = bench.workspace();
    std::fs::remove_dir_all(&root).unwrap();
    let mut calls = calls_with("inside/a.txt");
    calls.push(("shell", json!({"command": "pwd"})));
    for (tool, arguments) in calls {
        let message = bench.refusal(tool, arguments).await;
        assert!(message.contains(root.to_str().unwrap()), "{tool}: {message}");
        assert!(message.contains("restore it"), "{tool}: {message}");
    }
    assert!(!root.exists(), "no tool makes it again");
}

/// Ends the swapping also when an assertion fails.
struct SetWhenDropped<'flag>(&'flag AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A folder turns into a link to the outside and back while tools work in it.
#[test]
fn a_link_swapped_in_meanwhile_leads_nowhere() {
    let bench = bench_with_outside();
    let before = outside(&bench);
    bench.put("busy/f.txt", "start");
    bench.link(bench.beside("out"), "trap");
    let (busy, trap) = (bench.workspace().join("busy"), bench.workspace().join("trap"));
    let is_over = AtomicBool::new(false);
    let swap = || {
        while !is_over.load(Ordering::Relaxed) {
            let exchange = RenameFlags::RENAME_EXCHANGE;
            renameat2(AT_FDCWD, &busy, AT_FDCWD, &trap, exchange).unwrap();
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (done, refused) = std::thread::scope(|threads| {
        let _ending = SetWhenDropped(&is_over);
        threads.spawn(swap);
        runtime.block_on(call_many_times(&bench))
    });
    assert_eq!(outside(&bench), before, "{done} done, {refused} refused");
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
}

async fn call_many_times(bench: &Bench) -> (u32, u32) {
    let (mut done, mut refused) = (0, 0);
    for number in 0..300 {
        for (tool, mut arguments) in calls_with("busy/f.txt").into_iter().take(3) {
            if tool == "write_file" {
                arguments["content"] = json!(format!("secret {number}"));
            }
            match bench.call(tool, arguments).await {
                Ok(output) => {
                    assert_ne!(output.text, "secret\n", "{tool} read what is outside");
                    done += 1;
                }
                Err(ToolError::Failed(_)) => refused += 1,
                Err(other) => panic!("{tool}: {other:?}"),
            }
        }
    }
    (done, refused)
}
