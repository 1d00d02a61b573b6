//! `cargo xtask test`: every test of the house, and one line with the totals.

use std::ops::AddAssign;

use anyhow::{Result, bail};

use crate::{needed, rust_tests, web_tests};

/// What `cargo xtask test` was asked for.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct TestOptions {
    /// Leave out the web UI and browser tests.
    pub(crate) rust_only: bool,
    /// Arguments for `cargo test` in place of `--workspace`; they choose a part of the Rust tests.
    pub(crate) cargo_arguments: Vec<String>,
}

impl TestOptions {
    /// Reads the arguments after `test`.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--rust-only" => options.rust_only = true,
                "--" => options.cargo_arguments = rest.by_ref().cloned().collect(),
                other => bail!(
                    "`test` does not know `{other}`: it takes --rust-only, and after `--` what is \
                     meant for `cargo test`"
                ),
            }
        }
        Ok(options)
    }
}

/// How many tests passed and failed, and whether anything else went wrong on the way.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed, and test programs that died before they could say.
    pub(crate) failed: u64,
    /// A runner failed although it counted no failed test.
    pub(crate) broken: bool,
}

impl Report {
    /// The line that ends a run.
    pub(crate) fn line(self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }

    /// True when every test passed and every runner ended well.
    pub(crate) fn is_good(self) -> bool {
        self.failed == 0 && !self.broken
    }
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.broken |= other.broken;
    }
}

/// Installs what is missing, then runs the Rust tests and, where there is a web UI, its tests.
pub(crate) fn run(options: &TestOptions) -> Result<Report> {
    needed::install_missing()?;
    let mut report = rust_tests::run(&options.cargo_arguments)?;
    if !options.rust_only && options.cargo_arguments.is_empty() && web_tests::exist() {
        report += web_tests::run()?;
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<TestOptions> {
        TestOptions::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_follows_the_dashes_is_for_cargo() {
        let options = parse("--rust-only -- -p stepwell-core --rust-only").unwrap();
        assert!(options.rust_only);
        assert_eq!(options.cargo_arguments, ["-p", "stepwell-core", "--rust-only"]);
    }

    #[test]
    fn a_flag_with_a_typo_is_refused() {
        assert!(parse("--rustonly").unwrap_err().to_string().contains("--rustonly"));
    }

    #[test]
    fn reports_add_up() {
        let mut sum = Report { passed: 2, failed: 0, broken: false };
        sum += Report { passed: 3, failed: 1, broken: false };
        assert_eq!(sum.line(), "5 passed, 1 failed");
        assert!(!sum.is_good());
    }

    #[test]
    fn a_broken_runner_is_not_good_although_nothing_failed() {
        assert!(!Report { passed: 9, failed: 0, broken: true }.is_good());
    }
}
