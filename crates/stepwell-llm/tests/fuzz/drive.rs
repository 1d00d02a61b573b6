//! How long a target runs, with which seed, and what is told about a failure.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::rngs::StdRng;

/// Inputs of a plain test run.
const INPUTS: u64 = 4_000;

/// Set by `cargo xtask fuzz`.
const SECONDS: &str = "STEPWELL_FUZZ_SECONDS";
const SEED: &str = "STEPWELL_FUZZ_SEED";

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

#[expect(clippy::disallowed_methods, reason = "a long run is measured in seconds by its caller")]
fn now() -> Instant {
    Instant::now()
}

/// Makes inputs and checks them until the number or the time is used up.
pub(crate) fn drive<I: AsRef<[u8]>>(
    target: &str,
    make: impl Fn(&mut StdRng) -> I,
    check: impl Fn(&I, &mut StdRng),
) {
    let time = number(SECONDS).map(Duration::from_secs);
    let seed = number(SEED).unwrap_or(1);
    eprintln!("{target}: seed {seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let started = now();
    let mut inputs = 0_u64;
    while time.map_or(inputs < INPUTS, |time| now().duration_since(started) < time) {
        inputs += 1;
        let input = make(&mut dice);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&input, &mut dice))) {
            let text = String::from_utf8_lossy(input.as_ref()).into_owned();
            eprintln!("{target}: seed {seed}, input {inputs}: {text:?}");
            resume_unwind(panic);
        }
    }
    eprintln!("{target}: {inputs} inputs held");
}
