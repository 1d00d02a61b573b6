//! Named steps that run one after the other, each with its outcome and its time.

use std::time::{Duration, Instant};

use anyhow::Result;

/// The steps that ran so far.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    name: &'static str,
    took: Duration,
    passed: bool,
}

impl Steps {
    /// Runs one step. An error is printed and counts as a failure, so that the next step still runs.
    pub(crate) fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<bool>) {
        eprintln!("==> {name}");
        let started = now();
        let passed = step().unwrap_or_else(|error| {
            eprintln!("xtask {name}: {error:#}");
            false
        });
        self.done.push(Step { name, took: started.elapsed(), passed });
    }

    /// True when every step that ran succeeded.
    pub(crate) fn all_passed(&self) -> bool {
        self.done.iter().all(|it| it.passed)
    }

    /// One line a step: name, seconds, outcome; then the sum.
    pub(crate) fn summary(&self) -> String {
        let mut lines: Vec<String> = self.done.iter().map(Step::line).collect();
        let took = self.done.iter().map(|it| it.took).sum();
        lines.push(Step { name: "total", took, passed: self.all_passed() }.line());
        lines.join("\n")
    }
}

impl Step {
    fn line(&self) -> String {
        let outcome = if self.passed { "ok" } else { "FAILED" };
        format!("{:<12}{:>8.1} s  {outcome}", self.name, self.took.as_secs_f64())
    }
}

#[expect(clippy::disallowed_methods, reason = "xtask reports how long its own steps took")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_step_that_errs_fails_the_whole_but_lets_the_next_run() {
        let mut steps = Steps::default();
        steps.run("first", || Err(anyhow!("no such tool")));
        steps.run("second", || Ok(true));
        assert!(!steps.all_passed());
        let summary = steps.summary();
        let outcomes: Vec<_> =
            summary.lines().map(|it| it.split_whitespace().last().unwrap()).collect();
        assert_eq!(outcomes, ["FAILED", "ok", "FAILED"], "{summary}");
    }

    #[test]
    fn all_good_steps_pass() {
        let mut steps = Steps::default();
        steps.run("only", || Ok(true));
        assert!(steps.all_passed());
    }
}
