//! `cargo xtask fuzz`: random input for what reads answers of models, for a time.
//!
//! The targets are tests of `stepwell-llm` (`tests/fuzz`), which a plain test run tries a fixed number
//! of times with a fixed seed. They need no other toolchain.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use anyhow::{Context as _, Result, bail};

use crate::{Verdict, process};

/// How long a run takes that does not say otherwise, and the one of CI.
pub(crate) const SECONDS: u64 = 60;

/// CI judges a change, not its luck: it tries the same inputs each time. `cargo xtask fuzz` draws a seed.
pub(crate) const SEED_OF_CI: u64 = 2;

/// What `cargo xtask fuzz` was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Options {
    seconds: u64,
    seed: Option<u64>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self { seconds: SECONDS, seed: None };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut number = || -> Result<u64> {
                let text = rest.next().with_context(|| format!("{argument} needs a number"))?;
                text.parse().with_context(|| format!("{argument} needs a number, not `{text}`"))
            };
            match argument.as_str() {
                "--seconds" => options.seconds = number()?,
                "--seed" => options.seed = Some(number()?),
                other => bail!("`fuzz` does not know `{other}`: it takes --seconds N and --seed N"),
            }
        }
        Ok(options)
    }
}

/// Runs the targets side by side as the arguments say.
pub(crate) fn run(arguments: &[String]) -> Result<Verdict> {
    let Options { seconds, seed } = Options::parse(arguments)?;
    for_seconds(seconds, seed).map(Verdict::from)
}

/// Runs the targets side by side. True when the law held.
pub(crate) fn for_seconds(seconds: u64, seed: Option<u64>) -> Result<bool> {
    // The keys of a new hasher are random, and nothing else here needs a source of chance.
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(()));
    // `--workspace` has cargo resolve the features as the other tests do, so nothing is built twice.
    let mut test =
        process::cargo(&["test", "--workspace", "--quiet", "--test", "fuzz", "--", "--nocapture"]);
    test.env("STEPWELL_FUZZ_SECONDS", seconds.to_string());
    test.env("STEPWELL_FUZZ_SEED", seed.to_string());
    process::passes(test)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn time_and_seed_are_read() {
        assert_eq!(parse("").unwrap(), Options { seconds: SECONDS, seed: None });
        assert_eq!(parse("--seed 7 --seconds 5").unwrap(), Options { seconds: 5, seed: Some(7) });
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for line in ["--seconds", "--seconds long", "--sed 7"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
