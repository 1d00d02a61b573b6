//! Listing and searching files.

use serde_json::json;

use crate::support::Bench;

fn project() -> Bench {
    let bench = Bench::new();
    bench.put(".gitignore", "/target\n*.log\n!keep.log\n");
    bench.put(".git/config", "needle");
    bench.put(".github/ci.yml", "on: push");
    bench.put("src/main.rs", "fn main() {\n    needle();\n}\n");
    bench.put("src/deep/er/lib.rs", "// Needle\n");
    bench.put("src/deep/.gitignore", "local.txt\n");
    bench.put("src/deep/local.txt", "needle");
    bench.put("target/out.rs", "needle");
    bench.put("build.log", "needle");
    bench.put("keep.log", "needle");
    bench.put("data.bin", b"needle\x00");
    bench.link("src/main.rs", "link.rs");
    bench.link("/etc", "etc");
    bench
}

#[tokio::test]
async fn a_list_is_sorted_and_leaves_out_what_git_ignores() {
    let bench = project();
    let text = bench.text("list_files", json!({})).await;
    let expected = ".github/\n.github/ci.yml\n.gitignore\ndata.bin\netc -> /etc\nkeep.log\n\
        link.rs -> src/main.rs\nsrc/\nsrc/deep/\nsrc/deep/.gitignore\nsrc/deep/er/\n\
        src/deep/er/lib.rs\nsrc/main.rs\n[3 left out as .gitignore says]";
    assert_eq!(text, expected);
    let text = bench.text("list_files", json!({"include_ignored": true, "depth": 1})).await;
    assert!(text.contains("build.log\n") && text.contains("target/"), "{text}");
    assert!(!text.contains(".git/") && !text.contains("out.rs"), "{text}");
}

#[tokio::test]
async fn a_list_is_narrowed() {
    let bench = project();
    for (arguments, expected) in [
        (
            json!({"glob": "*.rs"}),
            "link.rs -> src/main.rs\nsrc/deep/er/lib.rs\nsrc/main.rs\n[3 left",
        ),
        (json!({"glob": "src/*.rs"}), "src/main.rs\n["),
        (json!({"glob": "src/**/*.rs"}), "src/deep/er/lib.rs\nsrc/main.rs\n["),
        (
            json!({"path": "src", "glob": "deep/**"}),
            "src/deep/.gitignore\nsrc/deep/er/\nsrc/deep/er/lib.rs\n[",
        ),
        (json!({"path": "src", "depth": 1}), "src/deep/\nsrc/main.rs"),
        (json!({"path": "target"}), "target/out.rs"),
        (json!({"path": ".git"}), ".git/config"),
        (
            json!({"path": "src/deep"}),
            "src/deep/.gitignore\nsrc/deep/er/\nsrc/deep/er/lib.rs\n[1 left",
        ),
        (json!({"glob": "*.nothing"}), "[nothing to show"),
    ] {
        let text = bench.text("list_files", arguments.clone()).await;
        assert!(text.starts_with(expected), "{arguments}: {text}");
    }
    let message = bench.refusal("list_files", json!({"glob": "[["})).await;
    assert!(message.contains("`glob` is no pattern"), "{message}");
    let message = bench.refusal("list_files", json!({"path": "keep.log"})).await;
    assert!(message.contains("is not a folder"), "{message}");
}

#[tokio::test]
async fn a_cut_list_shows_the_nearest_and_says_so() {
    let bench = Bench::new();
    for number in 0..30 {
        bench.put(&format!("a/deep/{number:02}"), "");
        bench.put(&format!("z{number:02}"), "");
    }
    let text = bench.text("list_files", json!({"limit": 31})).await;
    assert!(text.starts_with("a/\nz00\n") && text.contains("z29\n"), "{text}");
    assert!(
        text.ends_with(
            "[31 shown, there are more (the limit was reached); narrow it with path, glob or depth]"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn a_search_shows_file_line_and_text() {
    let bench = project();
    let text = bench.text("search_files", json!({"pattern": "needle"})).await;
    let expected = "keep.log:1:needle\nsrc/main.rs:2:    needle();\n\
        [2 matching lines in 2 files; 1 not text; 3 left out as .gitignore says]";
    assert_eq!(text, expected);
    let arguments = json!({"pattern": "^// n", "ignore_case": true, "glob": "*.rs"});
    let text = bench.text("search_files", arguments).await;
    assert!(
        text.starts_with("src/deep/er/lib.rs:1:// Needle\n[1 matching line in 1 file"),
        "{text}"
    );
    let arguments = json!({"pattern": "needle()", "literal": true, "path": "src/main.rs"});
    let text = bench.text("search_files", arguments).await;
    assert_eq!(text, "src/main.rs:2:    needle();\n[1 matching line in 1 file]");
    let text = bench.text("search_files", json!({"pattern": "a\\nb"})).await;
    assert!(text.contains("no match in") && text.contains("never matches"), "{text}");
    let text = bench.text("search_files", json!({"pattern": "needle", "path": "data.bin"})).await;
    assert_eq!(text, "[no match in 0 files; 1 not text]");
    let message = bench.refusal("search_files", json!({"pattern": "(("})).await;
    assert!(message.contains("no regular expression") && message.contains("literal"), "{message}");
    let message = bench.refusal("search_files", json!({"pattern": "(a{1000}){1000}"})).await;
    assert!(message.contains("no regular expression"), "{message}");
}

#[tokio::test]
async fn lines_around_matches_are_shown_once() {
    let bench = Bench::new();
    bench.put("a", "1\nhit\n3\n4\nhit\nhit\n7\n8\n9\n10\nhit\n");
    let text = bench.text("search_files", json!({"pattern": "hit", "context_lines": 1})).await;
    let expected = "a-1-1\na:2:hit\na-3-3\na-4-4\na:5:hit\na:6:hit\na-7-7\n--\na-10-10\na:11:hit\n\
        [4 matching lines in 1 file]";
    assert_eq!(text, expected);
}

#[tokio::test]
async fn a_search_is_bounded() {
    let bench = Bench::new();
    bench.put("many", "hit\n".repeat(5_000));
    let text = bench.text("search_files", json!({"pattern": "hit", "limit": 3})).await;
    assert_eq!(
        text,
        "many:1:hit\nmany:2:hit\nmany:3:hit\n[3 matching lines in 1 file; there are more; narrow it with path, glob or pattern]"
    );
    bench.put("long", format!("{}hit{}", "ż".repeat(50_000), "ż".repeat(50_000)));
    let text = bench.text("search_files", json!({"pattern": "hit", "path": "long"})).await;
    assert!(text.len() < 800 && text.contains("żhitż") && !text.contains('\u{FFFD}'), "{text}");
    bench.put("wide", format!("hit{}\n", "x".repeat(400)).repeat(1_000));
    let arguments = json!({"pattern": "hit", "path": "wide", "limit": 1000});
    let text = bench.text("search_files", arguments).await;
    assert!(text.len() < 50 * 1024 && text.contains("there are more"), "{}", text.len());
}

/// BOX-10: a pipe in the workspace must not block whoever looks through it.
#[tokio::test]
async fn pipes_block_nobody() {
    let bench = Bench::new();
    bench.put("a", "hit");
    for name in ["pipe", ".gitignore"] {
        let path = bench.workspace().join(name);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    let text = bench.text("list_files", json!({})).await;
    assert!(text.contains("pipe (pipe, socket or device)"), "{text}");
    let text = bench.text("search_files", json!({"pattern": "hit"})).await;
    assert_eq!(text, "a:1:hit\n[1 matching line in 1 file]");
}

#[tokio::test]
async fn names_that_hide_are_shown() {
    let bench = Bench::new();
    bench.put("two\nlines", "hit");
    bench.put("esc\u{1b}[2J", "");
    let text = bench.text("list_files", json!({})).await;
    assert_eq!(text, "esc\\u{1b}[2J\ntwo\\nlines");
    let text = bench.text("search_files", json!({"pattern": "hit"})).await;
    assert!(text.starts_with("two\\nlines:1:hit\n"), "{text}");
}
