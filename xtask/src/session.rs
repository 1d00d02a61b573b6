//! Starts the program that makes a long session: it lies beside the benchmark program.

use anyhow::Result;

use crate::{Verdict, process};

/// Runs it with these arguments (`FILE [--events N] [--seed N]`), unread.
pub(crate) fn run(arguments: &[String]) -> Result<Verdict> {
    let mut words =
        vec!["run", "--release", "--package", "stepwell-bench", "--bin", "make-session", "--"];
    words.extend(arguments.iter().map(String::as_str));
    process::cargo_passes(&words).map(Verdict::from)
}
