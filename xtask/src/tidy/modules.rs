//! How Rust files begin.

use super::rust::RustFile;
use super::{Finding, Tree};

const CORE_ROOT: &str = "crates/stepwell-core/src/lib.rs";

/// Every module says what it is for, and the core cannot even name `std`.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree.rust.iter().filter_map(check_head).collect();
    findings.extend(tree.rust.iter().filter(|it| it.path == CORE_ROOT).filter_map(check_no_std));
    findings.extend(tree.rust.iter().filter(|it| is_core(it)).flat_map(check_std_in_core));
    findings
}

fn is_core(file: &RustFile) -> bool {
    file.path.starts_with("crates/stepwell-core/src/")
}

/// The first comment must be `//!`; only inner attributes may stand before it.
fn check_head(file: &RustFile) -> Option<Finding> {
    let first_code = file.code_lines().find(|(_, it, _)| {
        let code = it.trim();
        !code.is_empty() && !code.starts_with("#![")
    });
    let code_line = first_code.map_or(usize::MAX, |(line, _, _)| line);
    let doc = file.comment_lines().find(|(_, it)| it.trim_start().starts_with("//!"));
    if doc.is_some_and(|(line, _)| line < code_line) {
        return None;
    }
    let message = "the module does not say what it is for: begin it with `//! ..`";
    Some(Finding::new(&file.path, 1, message))
}

fn check_no_std(file: &RustFile) -> Option<Finding> {
    let squeezed: String = file.code.split_whitespace().collect();
    let has =
        squeezed.contains("#![no_std]") || squeezed.contains("#![cfg_attr(not(test),no_std)]");
    let message = "the core must stay pure by construction: put `#![no_std]` back";
    (!has).then(|| Finding::new(&file.path, 1, message))
}

fn check_std_in_core(file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, code, is_test) in file.code_lines() {
        let names_std = code.contains("extern crate std") || code.contains("std::");
        let mut names = code.split(|it: char| !it.is_alphanumeric() && it != '_');
        if !is_test && names_std && names.any(|it| it == "std") {
            let message =
                "the core must not name `std`: use `core` or `alloc`, or do it at the edge";
            findings.push(Finding::new(&file.path, line, message));
        }
    }
    findings
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
    fn a_module_begins_with_its_purpose() {
        check_one("a.rs", "//! Why.\n\nuse b;\n", &[]);
        check_one("a.rs", "#![no_std]\n//! Why.\nuse b;\n", &[]);
        check_one("a.rs", "use b;\n//! Why.\n", &["a.rs:1: the module does not say"]);
        check_one("a.rs", "// Why.\nuse b;\n", &["a.rs:1: the module does not say"]);
        check_one("a.rs", "", &["a.rs:1: the module does not say"]);
    }

    #[test]
    fn the_core_is_no_std() {
        check_one(CORE_ROOT, "//! Why.\n#![no_std]\n", &[]);
        let text = "//! It is `#![no_std]`.\n";
        check_one(CORE_ROOT, text, &["crates/stepwell-core/src/lib.rs:1: the core must stay pure"]);
    }

    #[test]
    fn the_core_names_std_only_in_tests() {
        let path = "crates/stepwell-core/src/a.rs";
        let text = "//! Why.\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        check_one(path, text, &[]);
        let text = "//! Why.\nuse std::fs;\n";
        check_one(path, text, &["crates/stepwell-core/src/a.rs:2: the core must not name `std`"]);
        check_one(path, "//! Why.\nuse my_std::fs;\n", &[]);
    }
}
