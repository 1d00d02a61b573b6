//! The chores of the house, started as `cargo xtask <command>`.
//!
//! Invariant: no chore needs more than the Rust toolchain, git and what `needed::NEEDED` lists,
//! so a fresh machine can run every one of them.

mod bench;
mod fuzz;
mod needed;
mod process;
mod rust_tests;
mod session;
mod steps;
mod test;
mod tidy;
mod vllm_test;
mod web_tests;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::steps::Steps;
use crate::test::TestOptions;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [--rust-only] [-- CARGO_TEST_ARGS]  install what is missing, build, run every test
  check                                    formatting, house checks, clippy, rustdoc
  tidy                                     the house checks alone
  bench [--json] [NAME...]                 the measured workload (release build)
  session FILE [--events N] [--seed N]     a long session as an exported file
  fuzz [--seconds N] [--seed N]            random input for what reads models' answers
  vllm-test --serve COMMAND                the client against a real vLLM (docs/vllm.md)
  ci                                       check, test and fuzz, with the time of each step
  help                                     this text

What follows `--` goes to `cargo test` in place of `--workspace`, for instance
`cargo xtask test -- -p stepwell-core prompt`.";

/// What a chore concluded when it could run to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Fail,
}

impl From<bool> for Verdict {
    fn from(is_good: bool) -> Self {
        if is_good { Self::Pass } else { Self::Fail }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(Verdict::Pass) => ExitCode::SUCCESS,
        Ok(Verdict::Fail) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<Verdict> {
    let Some((command, rest)) = arguments.split_first() else {
        bail!("no command given\n\n{USAGE}");
    };
    match command.as_str() {
        "test" => run_test(&TestOptions::parse(rest)?),
        "bench" => bench::run(rest),
        "session" => session::run(rest),
        "fuzz" => fuzz::run(rest),
        "vllm-test" => vllm_test::run(rest),
        "check" => no_arguments(command, rest).map(|()| run_check()),
        "tidy" => no_arguments(command, rest).and_then(|()| tidy::run().map(Verdict::from)),
        "ci" => no_arguments(command, rest).and_then(|()| run_ci()),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(Verdict::Pass)
        }
        unknown => bail!("unknown command `{unknown}`\n\n{USAGE}"),
    }
}

fn no_arguments(command: &str, rest: &[String]) -> Result<()> {
    match rest.first() {
        None => Ok(()),
        Some(extra) => bail!("`{command}` takes no arguments, but got `{extra}`\n\n{USAGE}"),
    }
}

fn run_test(options: &TestOptions) -> Result<Verdict> {
    let report = test::run(options)?;
    println!("{}", report.line());
    Ok(Verdict::from(report.is_good()))
}

fn run_check() -> Verdict {
    let mut steps = Steps::default();
    add_checks(&mut steps);
    println!("{}", steps.summary());
    Verdict::from(steps.all_passed())
}

/// Runs the checks, cheapest first, so that a slip shows after seconds.
///
/// Formatting and the house checks need no build. Clippy and rustdoc stand side by side because
/// both read the dependencies as metadata only (`cargo check` artefacts): rustdoc finds there
/// what clippy has just made.
fn add_checks(steps: &mut Steps) {
    steps.run("fmt", || process::cargo_passes(&["fmt", "--all", "--check"]));
    steps.run("tidy", tidy::run);
    steps.run("clippy", || {
        process::cargo_passes(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ])
    });
    steps.run("doc", || {
        // Only rustdoc reads this variable. RUSTFLAGS would change the fingerprint of every
        // dependency and build them all once more.
        let mut doc = process::cargo(&["doc", "--no-deps", "--workspace", "--quiet"]);
        doc.env("RUSTDOCFLAGS", "-D warnings");
        process::passes(doc)
    });
}

/// Everything that must hold before a change is merged, in the order that fails soonest.
///
/// Metadata (clippy, rustdoc) and object code (tests) are separate artefacts in any order, so the
/// order does not change the total: each dependency is read once and compiled once. Build scripts
/// and procedural macros are shared by both. The tests come last because they take longest and
/// because their totals are what a reader looks for at the end.
/// A failed step does not stop the next: one run shows everything that is wrong.
fn run_ci() -> Result<Verdict> {
    let before = process::git_status().context("cannot read the state of the checkout")?;
    let mut steps = Steps::default();
    let mut report = None;
    // The web viewer is built with the server: clippy needs npm, too.
    steps.run("needed", || needed::install_missing().map(|()| true));
    add_checks(&mut steps);
    steps.run("test", || {
        let done = test::run(&TestOptions::default())?;
        let is_good = done.is_good();
        report = Some(done);
        Ok(is_good)
    });
    steps.run("fuzz", || fuzz::for_seconds(fuzz::SECONDS, Some(fuzz::SEED_OF_CI)));
    steps.run("clean tree", || {
        let after = process::git_status()?;
        if after == before {
            return Ok(true);
        }
        eprintln!("the run itself changed the checkout; commit or ignore these files:");
        eprintln!("before:\n{before}\nafter:\n{after}");
        Ok(false)
    });
    println!("{}", steps.summary());
    if let Some(report) = report {
        println!("{}", report.line());
    }
    Ok(Verdict::from(steps.all_passed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn an_unknown_command_is_answered_with_the_usage() {
        let error = dispatch(&words("chekc")).unwrap_err().to_string();
        assert!(error.contains("chekc") && error.contains("usage:"), "{error}");
    }

    #[test]
    fn no_command_is_answered_with_the_usage() {
        assert!(dispatch(&[]).unwrap_err().to_string().contains("usage:"));
    }

    #[test]
    fn a_command_without_arguments_refuses_them() {
        let error = dispatch(&words("tidy --fix")).unwrap_err().to_string();
        assert!(error.contains("--fix"), "{error}");
    }
}
