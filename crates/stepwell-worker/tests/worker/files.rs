//! Reading, writing and editing files.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use stepwell_worker::ToolError;

use crate::support::Bench;

#[tokio::test]
async fn a_file_is_read_as_it_is() {
    let bench = Bench::new();
    bench.put("a.txt", "one\n\ttwo  \nthree");
    assert_eq!(bench.text("read_file", json!({"path": "a.txt"})).await, "one\n\ttwo  \nthree\n");
    bench.put("empty", "");
    assert_eq!(bench.text("read_file", json!({"path": "empty"})).await, "[empty is empty]");
}

#[tokio::test]
async fn a_window_says_what_comes_next() {
    let bench = Bench::new();
    bench.put("a.txt", "1\n2\n3\n4\n5\n");
    let window =
        |offset: i64, limit: i64| json!({"path": "a.txt", "offset": offset, "limit": limit});
    let text = bench.text("read_file", window(2, 2)).await;
    assert_eq!(text, "2\n3\n[lines 2 to 3 of 5; go on with offset 4]\n");
    let text = bench.text("read_file", window(4, 2)).await;
    assert_eq!(text, "4\n5\n[lines 4 to 5, the last]\n");
    let message = bench.refusal("read_file", window(6, 1)).await;
    assert!(message.contains("`a.txt` has 5 lines; offset 6"), "{message}");
    let numbered = json!({"path": "a.txt", "offset": 5, "line_numbers": true});
    assert_eq!(bench.text("read_file", numbered).await, "     5\t5\n[lines 5 to 5, the last]\n");
}

#[tokio::test]
async fn large_files_come_in_parts_that_fit_together() {
    let bench = Bench::new();
    let lines: Vec<_> =
        (1..=6000).map(|n| format!("line {n} żółć {}", "x".repeat(n % 40))).collect();
    bench.put("big.txt", lines.join("\n"));
    let mut seen = Vec::new();
    let mut offset = 1;
    loop {
        let arguments = json!({"path": "big.txt", "offset": offset, "limit": 100_000});
        let text = bench.text("read_file", arguments).await;
        assert!(text.len() < 50 * 1024, "{}", text.len());
        let (body, note) = text.trim_end().rsplit_once('\n').unwrap();
        seen.extend(body.lines().map(str::to_owned));
        let Some((_, next)) = note.rsplit_once("go on with offset ") else { break };
        offset = next.trim_end_matches(']').parse().unwrap();
    }
    assert!(seen == lines, "{} lines instead of {}", seen.len(), lines.len());
}

#[tokio::test]
async fn what_is_no_text_is_said_to_be_none() {
    let bench = Bench::new();
    bench.put("image.bin", b"\x89PNG\x00\x01\x02");
    let text = bench.text("read_file", json!({"path": "image.bin"})).await;
    assert!(text.contains("not text: 7 bytes") && text.contains("89 50 4e 47 00"), "{text}");
    bench.put("latin.txt", b"caf\xe9\r\nok\r\n");
    let text = bench.text("read_file", json!({"path": "latin.txt"})).await;
    assert!(text.starts_with("caf\u{FFFD}\nok\n[1 byte not UTF-8"), "{text}");
    assert!(text.contains("CR LF"), "{text}");
    bench.put("long.txt", "ż".repeat(5_000));
    let text = bench.text("read_file", json!({"path": "long.txt"})).await;
    assert!(text.contains("ż… 8,000 bytes left out …\n[1 long line shortened]"), "{text}");
    std::fs::create_dir(bench.workspace().join("folder")).unwrap();
    let message = bench.refusal("read_file", json!({"path": "folder"})).await;
    assert!(message.contains("use list_files"), "{message}");
    let pipe = bench.workspace().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (tool, arguments) in [
        ("read_file", json!({"path": "pipe"})),
        ("write_file", json!({"path": "pipe", "content": "x"})),
        ("edit_file", json!({"path": "pipe", "old_text": "x", "new_text": "y"})),
    ] {
        let message = bench.refusal(tool, arguments).await;
        assert!(message.contains("a pipe, socket or device"), "{tool}: {message}");
    }
}

#[tokio::test]
async fn writing_creates_replaces_and_leaves_nothing_behind() {
    let bench = Bench::new();
    let write = |path: &str, content: &str| json!({"path": path, "content": content});
    let text = bench.text("write_file", write("deep/er/a.sh", "one\ntwo\n")).await;
    assert_eq!(text, "created deep/er/a.sh: 2 lines, 8 bytes");
    let path = bench.workspace().join("deep/er/a.sh");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o751)).unwrap();
    let text = bench.text("write_file", write("deep/er/a.sh", "three")).await;
    assert_eq!(text, "replaced deep/er/a.sh: 1 line, 5 bytes");
    let mode = path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((bench.get("deep/er/a.sh").as_str(), mode), ("three", 0o751));
    let text = bench.text("write_file", write("deep/er/a.sh", "three")).await;
    assert!(text.contains("nothing was changed"), "{text}");
    let names: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    for (path, expected) in [("deep", "a folder"), ("new/", "names a folder"), (".", "a folder")] {
        let message = bench.refusal("write_file", write(path, "x")).await;
        assert!(message.contains(expected), "{path}: {message}");
    }
    assert!(!bench.workspace().join("new").exists());
}

#[tokio::test]
async fn a_read_only_file_is_left_alone() {
    let bench = Bench::new();
    bench.put("locked", "keep");
    let path = bench.workspace().join("locked");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    for (tool, arguments) in [
        ("write_file", json!({"path": "locked", "content": "x"})),
        ("edit_file", json!({"path": "locked", "old_text": "keep", "new_text": "y"})),
    ] {
        let message = bench.refusal(tool, arguments).await;
        assert!(message.contains("read-only (mode 444)"), "{tool}: {message}");
    }
    assert_eq!(bench.get("locked"), "keep");
}

#[tokio::test]
async fn an_edit_is_exact_and_shows_where_it_landed() {
    let bench = Bench::new();
    bench.put("a.rs", "fn a() {\n    one();\n    two();\n}\n");
    let edit = json!({"path": "a.rs", "old_text": "    two();", "new_text": "    2;\n    $1;"});
    let text = bench.text("edit_file", edit).await;
    assert_eq!(bench.get("a.rs"), "fn a() {\n    one();\n    2;\n    $1;\n}\n");
    assert!(text.starts_with("edited a.rs: 1 replacement:\n     1\tfn a() {\n"), "{text}");
    assert!(text.contains("     3\t    2;\n     4\t    $1;\n     5\t}"), "{text}");
    let edit = json!({"path": "a.rs", "old_text": "    ", "new_text": "\t", "replace_all": true});
    let text = bench.text("edit_file", edit).await;
    assert!(text.starts_with("edited a.rs: 3 replacements; the first one:"), "{text}");
    assert_eq!(bench.get("a.rs"), "fn a() {\n\tone();\n\t2;\n\t$1;\n}\n");
    let edit = json!({"path": "a.rs", "old_text": "\tone();\n", "new_text": ""});
    bench.text("edit_file", edit).await;
    assert_eq!(bench.get("a.rs"), "fn a() {\n\t2;\n\t$1;\n}\n");
}

#[tokio::test]
async fn an_edit_that_is_not_clear_changes_nothing_and_helps() {
    let bench = Bench::new();
    let content = "let total = sum(items);\n\tindented line\nx = 1\nx = 1\naaa\n";
    bench.put("a.txt", content);
    for (old, new, expected) in [
        ("", "x", "old_text is empty"),
        ("x = 1", "x = 1", "are the same"),
        ("x = 1", "x = 2", "there 2 times (lines 3, 4)"),
        ("aa", "b", "overlaps itself"),
        ("let total = sum(item);", "", "line 1 is nearest:\nlet total = sum(items);"),
        ("  indented line", "", "line 2 differs only in white space:\n\tindented line"),
        ("completely else", "", "no line of it is near"),
    ] {
        let edit = json!({"path": "a.txt", "old_text": old, "new_text": new});
        let message = bench.refusal("edit_file", edit).await;
        assert!(message.contains(expected), "{old:?}: {message}");
        assert!(message.contains("`a.txt`"), "{old:?}: {message}");
    }
    assert_eq!(bench.get("a.txt"), content);
    bench.put("latin.txt", b"caf\xe9");
    let edit = json!({"path": "latin.txt", "old_text": "caf", "new_text": "x"});
    let message = bench.refusal("edit_file", edit).await;
    assert!(message.contains("not UTF-8 text (first at byte 3)"), "{message}");
}

#[tokio::test]
async fn windows_line_ends_are_kept() {
    let bench = Bench::new();
    bench.put("dos.txt", "one\r\ntwo\r\nthree\r\n");
    let edit = json!({"path": "dos.txt", "old_text": "one\ntwo", "new_text": "1\n2\n2b"});
    let text = bench.text("edit_file", edit).await;
    assert!(text.contains("CR LF"), "{text}");
    assert_eq!(bench.get("dos.txt"), "1\r\n2\r\n2b\r\nthree\r\n");
}

/// A step's calls run side by side.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn edits_of_one_file_at_the_same_moment_are_all_there() {
    let bench = Bench::new();
    let lines: Vec<_> = (10..42).map(|n| format!("line {n}\n")).collect();
    bench.put("a.txt", lines.concat());
    bench.link("a.txt", "alias");
    let edits = (10..42).map(|n| {
        let path = if n % 2 == 0 { "a.txt" } else { "alias" };
        let old = format!("line {n}\n");
        bench
            .call("edit_file", json!({"path": path, "old_text": old, "new_text": format!("{n}\n")}))
    });
    for outcome in futures_util::future::join_all(edits).await {
        outcome.unwrap();
    }
    let expected: Vec<_> = (10..42).map(|n| format!("{n}\n")).collect();
    assert_eq!(bench.get("a.txt"), expected.concat());
}

#[tokio::test]
async fn a_cancelled_or_late_call_changes_nothing() {
    let bench = Bench::new();
    let arguments = json!({"path": "a.txt", "content": "x"}).to_string();
    let context = bench.context();
    context.cancel.cancel();
    let outcome = bench.call_with(context, "write_file", &arguments).await;
    assert!(matches!(outcome, Err(ToolError::Cancelled { .. })), "{outcome:?}");
    let mut context = bench.context();
    context.deadline = tokio::time::Instant::now();
    let outcome = bench.call_with(context, "write_file", &arguments).await;
    assert!(matches!(outcome, Err(ToolError::TimedOut { .. })), "{outcome:?}");
    assert!(!bench.workspace().join("a.txt").exists());
}
