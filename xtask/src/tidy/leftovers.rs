//! What was forgotten: notes without an issue, and paths of one person's machine.

use super::{File, Finding, Tree};

/// Notes to oneself. Each needs the issue in which it will be done: `TODO(#12): ..`.
const NOTES: &[&str] = &["TODO", "FIXME", "XXX"];

/// Folders that exist on one machine only. Put together here so that this file does not hold them.
const MACHINE_FOLDERS: &[&str] =
    &[concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/")];

/// Files in which a note is a note. In data (JSON, snapshots) it is somebody's text.
const NOTED_EXTENSIONS: &[&str] =
    &["md", "toml", "proto", "sql", "sh", "ts", "tsx", "css", "html", "py", "yml", "yaml"];

/// Finds notes without an issue number, and machine paths.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.rust {
        findings.extend(file.comment_lines().filter_map(|(at, it)| note(&file.path, at, it)));
    }
    for file in &tree.files {
        if file.has_extension(NOTED_EXTENSIONS) {
            let outside_code = |it: &str| without_inline_code(it);
            let lines = file.lines().map(|(at, it)| (at, outside_code(it)));
            findings.extend(lines.filter_map(|(at, it)| note(&file.path, at, &it)));
        }
        if file.path != "Cargo.lock" {
            findings.extend(machine_paths(file));
        }
    }
    findings
}

fn note(path: &str, line: usize, text: &str) -> Option<Finding> {
    let mut words = text.split(|it: char| !it.is_alphanumeric() && it != '_');
    let word = words.find(|it| NOTES.contains(it))?;
    if has_issue_number(text) {
        return None;
    }
    let message = format!("{word} without an issue: do it now, or write `{word}(#12): ..`");
    Some(Finding::new(path, line, message))
}

/// True for text with `#12` in it.
fn has_issue_number(text: &str) -> bool {
    text.split('#').skip(1).any(|it| it.starts_with(|digit: char| digit.is_ascii_digit()))
}

/// Markdown speaks *about* such words between backticks.
fn without_inline_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

fn machine_paths(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in file.lines() {
        for folder in MACHINE_FOLDERS {
            if text.match_indices(folder).any(|(at, _)| is_absolute(text, at)) {
                let message = format!(
                    "`{folder}` exists on one machine only: use a path relative to the checkout"
                );
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

/// A slash begins a path when nothing before it belongs to one: `a/work/`, `{root}/work/` and
/// `$ROOT/work/` are relative to something else.
fn is_absolute(text: &str, at: usize) -> bool {
    let before = text.get(..at).and_then(|it| it.chars().next_back());
    !before.is_some_and(|it| it.is_alphanumeric() || "_-.~})>*".contains(it))
}

#[cfg(test)]
mod tests {
    use super::super::assert_findings;
    use super::*;

    #[track_caller]
    fn check_one(path: &str, text: &str, expected: &[&str]) {
        assert_findings(&check(&Tree::of(&[(path, text)])), expected);
    }

    #[test]
    fn a_note_needs_an_issue() {
        check_one("a.rs", "// TODO: later\n", &["a.rs:1: TODO without an issue"]);
        check_one("a.rs", "/* FIXME(#12): later */\n", &[]);
        check_one("docs/a.md", "a\n\nXXX what now\n", &["docs/a.md:3: XXX"]);
    }

    #[test]
    fn a_word_that_is_no_note_is_fine() {
        check_one("a.rs", "let a = \"TODO\"; // XXXX\n", &[]);
        check_one("a.md", "Notes such as `TODO` are found. TODOs too.\n", &[]);
        check_one("a.json", "{ \"text\": \"TODO\" }\n", &[]);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        for folder in MACHINE_FOLDERS {
            let text = format!("first\nopen \"{folder}a\"\n");
            let expected = format!("a.rs:2: `{folder}`");
            check_one("a.rs", &text, &[&expected]);
        }
    }

    #[test]
    fn a_relative_path_with_such_a_name_is_fine() {
        for before in ["crates", "{root}", "$ROOT", "~", ".", "<data>"] {
            for folder in MACHINE_FOLDERS {
                check_one("a.md", &format!("{before}{folder}a\n"), &[]);
            }
        }
    }
}
