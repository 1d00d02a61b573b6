//! Words that must not stand in Rust code, each with what to write instead.

use super::rust::RustFile;
use super::{Finding, Tree};

/// Where a banned word is banned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Everywhere,
    OutsideTests,
}

struct Banned {
    /// As it stands in the code. A word is found only at its beginning: `todo!` not in `my_todo!`.
    word: &'static str,
    place: Place,
    instead: &'static str,
}

const fn banned(word: &'static str, place: Place, instead: &'static str) -> Banned {
    Banned { word, place, instead }
}

const BANNED: &[Banned] = &[
    banned("todo!", Place::OutsideTests, "write it, or return an error that says so"),
    banned("unimplemented!", Place::OutsideTests, "write it, or return an error that says so"),
    banned("dbg!", Place::OutsideTests, "use tracing, or take it out"),
    banned(".unwrap()", Place::OutsideTests, "return the error, or `expect` with a proof"),
    banned("unbounded_channel", Place::OutsideTests, "every queue has a bound with a named reason"),
    banned("mpsc::channel()", Place::OutsideTests, "every queue has a bound: use sync_channel"),
    banned("tokio::spawn(", Place::OutsideTests, "spawn on a TaskTracker or JoinSet"),
    banned("task::spawn(", Place::OutsideTests, "spawn on a TaskTracker or JoinSet"),
    banned("#[ignore", Place::Everywhere, "fix the test, or assert what happens today"),
    banned("#[should_panic", Place::Everywhere, "return an error and assert on it"),
    banned("thread::sleep", Place::Everywhere, "wait for the event, not for time"),
];

/// The one module that may start a task: it keeps the handle and waits for it at shutdown.
const TASK_MODULE: &str = "crates/stepwell-runtime/src/task";

/// Finds banned words, sleeping tests, and lint attributes without a reason.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust.iter().flat_map(check_file).collect()
}

fn check_file(file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, code, is_test) in file.code_lines() {
        for banned in BANNED {
            let applies = banned.place == Place::Everywhere || !is_test;
            if applies && has_word(code, banned.word) && !may_spawn(file, banned.word) {
                let Banned { word, instead, .. } = banned;
                findings.push(Finding::new(&file.path, line, format!("`{word}`: {instead}")));
            }
        }
        if is_test && sleeps_real_time(code) && !has_virtual_time(file) {
            findings.push(Finding::new(
                &file.path,
                line,
                "a test that sleeps is slow and flaky: wait for the event with a deadline, or let \
                 the test start with paused time",
            ));
        }
    }
    findings.extend(lints_without_reason(file));
    findings
}

fn may_spawn(file: &RustFile, word: &str) -> bool {
    let below = file.path.strip_prefix(TASK_MODULE);
    word.ends_with("spawn(") && below.is_some_and(|it| it == ".rs" || it.starts_with('/'))
}

/// True when the word stands in the code and is not the end of a longer one.
fn has_word(code: &str, word: &str) -> bool {
    let is_name = |it: char| it.is_alphanumeric() || it == '_';
    let starts_with_name = word.starts_with(is_name);
    code.match_indices(word).any(|(at, _)| {
        let before = code.get(..at).and_then(|it| it.chars().next_back());
        !starts_with_name || !before.is_some_and(is_name)
    })
}

/// `sleep(Duration…)` as a function. A method `clock.sleep(..)` is a port and may be simulated.
fn sleeps_real_time(code: &str) -> bool {
    code.match_indices("sleep(").any(|(at, call)| {
        let before = code.get(..at).and_then(|it| it.chars().next_back());
        let is_function = !before.is_some_and(|it| it.is_alphanumeric() || "_.".contains(it));
        let argument = code.get(at + call.len()..).unwrap_or_default();
        let argument = argument.trim_start_matches("std::").trim_start_matches("core::");
        is_function && argument.trim_start_matches("time::").starts_with("Duration")
    })
}

/// Under tokio's paused clock a sleep takes no time and always ends in the same order.
fn has_virtual_time(file: &RustFile) -> bool {
    file.tokens.iter().any(|it| it.text == "start_paused") || has_word(&file.code, "time::pause()")
}

/// `#[allow(..)]` and `#[expect(..)]` that do not say why.
fn lints_without_reason(file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, token) in file.tokens.iter().enumerate() {
        let opens = |ahead: usize, text: &str| {
            file.tokens.get(index + ahead).is_some_and(|it| it.text == text)
        };
        let is_inner = opens(1, "!");
        let bracket = 1 + usize::from(is_inner);
        let is_lint = opens(bracket + 1, "allow") || opens(bracket + 1, "expect");
        if token.text != "#" || !opens(bracket, "[") || !is_lint || !opens(bracket + 2, "(") {
            continue;
        }
        let body = file.tokens.iter().skip(index).take_while(|it| it.text != "]");
        if !body.into_iter().any(|it| it.text == "reason") {
            findings.push(Finding::new(
                &file.path,
                token.line,
                "a lint is silenced without a reason: write `#[expect(.., reason = \"..\")]`, or \
                 fix what it found",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::assert_findings;
    use super::*;

    #[track_caller]
    fn check_code(path: &str, code: &str, expected: &[&str]) {
        assert_findings(&check(&Tree::of(&[(path, code)])), expected);
    }

    const SOURCE: &str = "crates/x/src/a.rs";
    const TEST: &str = "crates/x/tests/a.rs";

    #[test]
    fn each_banned_word_is_found_in_production_code() {
        for banned in BANNED {
            let code = format!("fn a() {{\n    {}x\n}}\n", banned.word);
            let found = check(&Tree::of(&[(SOURCE, &code)]));
            let is_found = found.iter().any(|it| it.line == 2 && it.message.contains(banned.word));
            assert!(is_found, "{}", banned.word);
        }
    }

    #[test]
    fn tests_may_unwrap_but_not_sleep_or_be_ignored() {
        check_code(TEST, "fn a() {\n    b.unwrap();\n}\n", &[]);
        check_code(TEST, "#[ignore = \"slow\"]\nfn a() {}\n", &["crates/x/tests/a.rs:1: `#[ign"]);
        check_code(TEST, "std::thread::sleep(d);\n", &["crates/x/tests/a.rs:1: `thread::sleep"]);
    }

    #[test]
    fn words_in_comments_and_strings_are_fine() {
        check_code(SOURCE, "// never .unwrap() here\nlet a = \"todo!()\";\n", &[]);
    }

    #[test]
    fn the_end_of_a_longer_word_is_another_word() {
        check_code(SOURCE, "my_todo!();\nmy_tokio::spawn(x);\n", &[]);
    }

    #[test]
    fn only_the_task_module_spawns() {
        let code = "fn a() {\n    tokio::spawn(b);\n}\n";
        check_code("crates/stepwell-runtime/src/task.rs", code, &[]);
        check_code("crates/stepwell-runtime/src/task/tracker.rs", code, &[]);
        let other = "crates/stepwell-runtime/src/tasks_of.rs";
        check_code(other, code, &["crates/stepwell-runtime/src/tasks_of.rs:2: `tokio::spawn("]);
    }

    #[test]
    fn a_test_does_not_sleep_unless_time_is_paused() {
        let sleeping = "tokio::time::sleep(Duration::from_secs(1)).await;\n";
        check_code(TEST, sleeping, &["crates/x/tests/a.rs:1: a test that sleeps"]);
        let full = "sleep(std::time::Duration::from_secs(1)).await;\n";
        check_code(TEST, full, &["crates/x/tests/a.rs:1: a test that sleeps"]);
        let paused =
            format!("#[tokio::test(start_paused = true)]\nasync fn a() {{\n{sleeping}}}\n");
        check_code(TEST, &paused, &[]);
        check_code(TEST, "clock.sleep(Duration::from_secs(1)).await;\n", &[]);
    }

    #[test]
    fn a_silenced_lint_says_why() {
        let silent = "#[allow(dead_code)]\nfn a() {}\n";
        check_code(SOURCE, silent, &["crates/x/src/a.rs:1: a lint is silenced"]);
        let inner = "#![expect(dead_code)]\n";
        check_code(SOURCE, inner, &["crates/x/src/a.rs:1: a lint is silenced"]);
        check_code(SOURCE, "#[expect(\n    dead_code,\n    reason = \"why\"\n)]\nfn a() {}\n", &[]);
    }
}
