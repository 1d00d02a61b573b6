//! The Rust tests: `cargo test`, passed through and counted.

use anyhow::{Result, bail};

use crate::process;
use crate::test::Report;

/// Builds everything, then runs unit, integration, black-box and doc tests.
///
/// `only` replaces `--workspace` for a part of the tests.
pub(crate) fn run(only: &[String]) -> Result<Report> {
    build()?;
    let mut test = process::cargo(&["test", "--no-fail-fast"]);
    if only.is_empty() {
        test.arg("--workspace");
    } else {
        test.args(only);
    }
    let mut tally = Tally::default();
    let status = process::watch(test, |line| tally.read(line))?;
    let mut report = tally.report();
    if !status.success() && report.failed == 0 {
        eprintln!("`cargo test` failed ({status}) without a failed test: see its message above");
        report.broken = true;
    }
    Ok(report)
}

/// Builds all targets before any test runs.
///
/// The black-box tests start `target/debug/stepwell`, which `cargo test` alone does not build:
/// it belongs to another package. `--all-targets` and not `--bins`, so that cargo resolves the
/// features exactly as `cargo test --workspace` does and nothing is compiled twice.
fn build() -> Result<()> {
    if !process::cargo_passes(&["build", "--workspace", "--all-targets", "--quiet"])? {
        bail!("the workspace does not build: see the compiler's messages above");
    }
    Ok(())
}

/// Counts what the test programs print.
#[derive(Debug, Default)]
struct Tally {
    report: Report,
    programs_started: u64,
    programs_ended: u64,
}

impl Tally {
    fn read(&mut self, line: &str) {
        let line = line.trim_end();
        if is_program_start(line) {
            self.programs_started += 1;
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.programs_ended += 1;
            self.report.passed += count_before(result, "passed");
            self.report.failed += count_before(result, "failed");
        }
    }

    /// A program that started and never told a result was killed or aborted: one failure.
    fn report(&self) -> Report {
        let died = self.programs_started.saturating_sub(self.programs_ended);
        Report { failed: self.report.failed + died, ..self.report }
    }
}

/// True for `running 3 tests`.
fn is_program_start(line: &str) -> bool {
    let mut words = line.split(' ');
    words.next() == Some("running")
        && words.next().is_some_and(|it| it.parse::<u64>().is_ok())
        && matches!(words.next(), Some("test" | "tests"))
        && words.next().is_none()
}

/// The number that stands before a word: 12 for `passed` in `ok. 12 passed; 0 failed`.
fn count_before(line: &str, word: &str) -> u64 {
    let words: Vec<&str> = line.split([' ', ';', '.']).filter(|it| !it.is_empty()).collect();
    let pairs = words.iter().zip(words.iter().skip(1));
    let number = pairs.filter(|(_, it)| **it == word).find_map(|(number, _)| number.parse().ok());
    number.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, passed: u64, failed: u64) {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read(line));
        assert_eq!(tally.report(), Report { passed, failed, broken: false });
    }

    #[test]
    fn results_of_all_programs_are_summed() {
        check(
            "running 2 tests\ntest a ... ok\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
             running 1 test\n\
             test result: FAILED. 10 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out\n",
            12,
            3,
        );
    }

    #[test]
    fn a_program_that_dies_is_one_failure() {
        check(
            "running 5 tests\ntest a ... ok\nrunning 1 test\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
            1,
            1,
        );
    }

    #[test]
    fn what_a_test_prints_is_not_a_result() {
        check("test result of the day: 7 passed\n    test result: ok. 9 passed; 9 failed\n", 0, 0);
        check("running 3 tests of my own\n", 0, 0);
    }
}
