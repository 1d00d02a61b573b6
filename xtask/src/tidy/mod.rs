//! The house checks: what the compiler and clippy cannot see.
//!
//! Each check is a pure function over the files of the checkout, or over `cargo metadata`, and
//! returns findings. Only [`run`] reads the disk.

mod arrows;
mod docs;
mod events;
mod leftovers;
mod manifests;
mod migrations;
mod modules;
mod proto;
mod rust;
mod size;
mod words;

use std::fmt;

use anyhow::{Context as _, Result};
use serde_json::Value;

use self::rust::RustFile;
use crate::process;

/// One broken rule, at the place where it is broken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// Counted from 1.
    line: usize,
    /// What is wrong, and what to do.
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A text file of the checkout.
#[derive(Debug, Clone)]
struct File {
    /// Relative to the repository root, with `/`.
    path: String,
    /// Empty for a file that is not UTF-8: no rule applies to it but the name may be linked to.
    text: String,
}

impl File {
    fn has_extension(&self, extensions: &[&str]) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').is_some_and(|(_, it)| extensions.contains(&it))
    }

    /// The lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// All that the checks look at.
#[derive(Debug)]
struct Tree {
    files: Vec<File>,
    rust: Vec<RustFile>,
}

impl Tree {
    fn new(files: Vec<File>) -> Self {
        let rust = rust::read_all(&files);
        Self { files, rust }
    }

    fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|it| it.path == path)
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Self::new(files.iter().map(file).collect())
    }
}

/// Runs every check on the checkout and prints what it finds; true when there is nothing.
pub(crate) fn run() -> Result<bool> {
    let tree = Tree::new(read_checkout()?);
    let findings = check_all(&tree, &cargo_metadata()?);
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", tree.files.len(), findings.len());
    Ok(findings.is_empty())
}

fn check_all(tree: &Tree, metadata: &Value) -> Vec<Finding> {
    let checks = [
        docs::check(tree),
        events::check(tree),
        leftovers::check(tree),
        manifests::check(tree),
        migrations::check(tree),
        modules::check(tree),
        proto::check(tree),
        size::check(tree),
        words::check(tree),
        arrows::check(metadata),
        docs::check_code_map(tree, &arrows::member_folders(metadata)),
    ];
    let mut findings: Vec<Finding> = checks.into_iter().flatten().collect();
    findings.sort();
    findings.dedup();
    findings
}

/// Every file that git tracks or would track, read whole.
fn read_checkout() -> Result<Vec<File>> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = process::stdout(process::command("git", &list))
        .context("the house checks look only at files that git knows")?;
    let listed = String::from_utf8(listed).context("a file's name is not UTF-8: rename it")?;
    let mut files = Vec::new();
    for path in listed.split_terminator('\0') {
        let on_disk = process::root().join(path);
        // Git lists a file that was just deleted, and a submodule or link as if it were a file.
        if !on_disk.is_file() {
            continue;
        }
        let bytes = std::fs::read(&on_disk).with_context(|| format!("cannot read {path}"))?;
        let text = String::from_utf8(bytes).unwrap_or_default();
        files.push(File { path: path.to_owned(), text });
    }
    Ok(files)
}

fn cargo_metadata() -> Result<Value> {
    let words = ["metadata", "--no-deps", "--format-version", "1"];
    let output = process::stdout(process::cargo(&words))?;
    serde_json::from_slice(&output).context("`cargo metadata` did not print JSON")
}

#[cfg(test)]
#[track_caller]
fn assert_findings(findings: &[Finding], expected: &[&str]) {
    let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), expected.len(), "findings: {shown:#?}");
    for (shown, expected) in shown.iter().zip(expected) {
        assert!(shown.starts_with(expected), "{shown:?} does not start with {expected:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_like_a_compiler_message() {
        assert_eq!(
            Finding::new("a/b.rs", 7, "too long, split it").to_string(),
            "a/b.rs:7: too long, split it"
        );
    }

    #[test]
    fn an_extension_is_the_last_part_of_the_name() {
        let file = |path: &str| File { path: path.to_owned(), text: String::new() };
        assert!(file("a.d/b.rs").has_extension(&["rs"]));
        assert!(!file("a.rs/b").has_extension(&["rs"]));
        assert!(!file("rs").has_extension(&["rs"]));
    }

    #[test]
    fn the_checkout_lists_this_very_file() {
        assert!(read_checkout().unwrap().iter().any(|it| it.path == "xtask/src/tidy/mod.rs"));
    }
}
