//! Starts the benchmark program, which lives in a package of its own so that it can be built for
//! release without this one.

use anyhow::{Result, bail};

use crate::{Verdict, process};

const PACKAGE: &str = "stepwell-bench";

/// Runs the benchmark program with these arguments (`[--json] [NAME...]`), unread.
pub(crate) fn run(arguments: &[String]) -> Result<Verdict> {
    let manifest = process::root().join("crates").join(PACKAGE).join("Cargo.toml");
    if !manifest.exists() {
        bail!("there is no crates/{PACKAGE} in this checkout, so there is nothing to measure yet");
    }
    let mut words = vec!["run", "--release", "--package", PACKAGE, "--bin", PACKAGE, "--"];
    words.extend(arguments.iter().map(String::as_str));
    process::cargo_passes(&words).map(Verdict::from)
}
