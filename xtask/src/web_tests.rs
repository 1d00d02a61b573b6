//! The web UI's tests, run only in a checkout that has `web-ui/package.json`.
//!
//! The web UI's own `npm test` decides what that means (unit tests, then browser tests against
//! the binary that the Rust side has built); here its output is passed through and counted.

use anyhow::{Result, bail};

use crate::process;
use crate::test::Report;

/// True when the checkout has a web UI.
pub(crate) fn exist() -> bool {
    process::root().join("web-ui").join("package.json").exists()
}

/// Runs `npm test`, after the locked packages were installed if the build did not do that.
pub(crate) fn run() -> Result<Report> {
    if !is_installed() && !process::passes(npm(&["ci"]))? {
        bail!("`npm ci` failed in web-ui/: see its message above");
    }
    let mut report = Report::default();
    let status = process::watch(npm(&["test"]), |line| report += count(line))?;
    report.broken = !status.success() && report.failed == 0;
    Ok(report)
}

/// Whether `node_modules` holds what the lock file says; `npm ci` leaves a copy of it there.
fn is_installed() -> bool {
    let folder = process::root().join("web-ui");
    let wanted = std::fs::read(folder.join("package-lock.json")).ok();
    let installed = std::fs::read(folder.join("node_modules/.installed-lock.json")).ok();
    wanted.is_some() && wanted == installed
}

fn npm(arguments: &[&str]) -> std::process::Command {
    let mut npm = process::command("npm", arguments);
    npm.current_dir(process::root().join("web-ui")).env("CI", "true").env("NO_COLOR", "1");
    npm
}

/// Reads one line of the summaries of vitest (`Tests  1 failed | 12 passed (13)`) and of
/// Playwright (`12 passed (3.4s)` and `1 failed`, each on a line of its own).
fn count(line: &str) -> Report {
    let mut report = Report::default();
    let line = line.trim();
    for part in line.strip_prefix("Tests ").unwrap_or(line).split('|') {
        let mut words = part.split_whitespace();
        let number = words.next().and_then(|it| it.parse::<u64>().ok());
        match (number, words.next()) {
            (Some(number), Some("passed")) => report.passed += number,
            (Some(number), Some("failed")) => report.failed += number,
            _ => {}
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_runners_are_counted() {
        let output = " Test Files  2 passed (2)\n      Tests  1 failed | 12 passed (13)\n\
                      \n  1 failed\n    tree.spec.ts:3:1 opens\n  4 passed (3.4s)\n";
        let mut sum = Report::default();
        output.lines().for_each(|line| sum += count(line));
        assert_eq!(sum, Report { passed: 16, failed: 2, broken: false });
    }
}
