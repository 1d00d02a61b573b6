//! Seeds: the ones that failed once, a fixed row of others, and the one that somebody asks for.

#![expect(clippy::expect_used, reason = "a helper that fails must fail its test")]

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;

use stepwell_sim::run::{Sum, play};

/// Seeds that every run plays.
const SEEDS: u64 = 250;

/// A seed that takes longer than this in real time hangs.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// Ends the process when a seed hangs, and says which.
fn watched<T>(seed: u64, play: impl FnOnce() -> T) -> T {
    let (done, is_done) = mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if is_done.recv_timeout(HANGS_AFTER) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!(
                "seed {seed} hangs: STEPWELL_SEED={seed} cargo test -p stepwell-sim one_seed"
            );
            std::process::exit(12);
        }
    });
    let result = play();
    drop(done);
    watch.join().expect("the watch ends");
    result
}

fn play_all(seeds: impl IntoIterator<Item = u64>) -> Sum {
    let mut sum = Sum::default();
    let mut failures = Vec::new();
    for seed in seeds {
        match watched(seed, || play(seed)) {
            Ok(report) => sum.add(&report),
            Err(failure) => {
                eprintln!("{failure}");
                failures.push(seed);
            }
        }
    }
    assert!(failures.is_empty(), "seeds {failures:?} fail");
    sum
}

/// What a default run must have met: phase and kind of event. Seldom ones are left out.
const MUST_SEE_PAIRS: &[(&str, &str)] = &[
    ("absent", "session_created"),
    ("ready", "model_requested"),
    ("ready", "message_received"),
    ("ready", "resume_requested"),
    ("ready", "session_finished"),
    ("thinking", "model_replied"),
    ("thinking", "model_failed"),
    ("thinking", "message_received"),
    ("thinking", "pause_requested"),
    ("thinking", "resume_requested"),
    ("thinking", "cancel_requested"),
    ("backoff", "timer_started"),
    ("backoff", "timer_fired"),
    ("backoff", "model_requested"),
    ("backoff", "message_received"),
    ("acting", "tool_scheduled"),
    ("acting", "tool_dispatched"),
    ("acting", "tool_finished"),
    ("acting", "tool_lost"),
    ("acting", "tool_refused"),
    ("acting", "approval_requested"),
    ("acting", "approval_decided"),
    ("acting", "message_received"),
    ("acting", "timer_started"),
    ("acting", "timer_fired"),
    ("acting", "pause_requested"),
    ("acting", "resume_requested"),
    ("acting", "cancel_requested"),
    ("acting", "session_finished"),
    ("listening", "message_received"),
    ("listening", "cancel_requested"),
    ("listening", "session_finished"),
];

/// Other things that a default run must have met.
const MUST_SEE_MARKS: &[&str] = &[
    "approve",
    "approve_for_session",
    "deny",
    "happened",
    "did_not_happen",
    "failed",
    "never started",
    "late result",
    "refused: unknown tool",
    "refused: bad arguments",
    "refused: cut off",
    "refused: forbidden",
    "refused: denied",
    "refused: expired",
    "refused: worker lost",
    "steps",
    "deadline",
    "repeated_action",
    "event while paused",
    "event while being cancelled",
    "killed",
    "killed before an append",
    "killed after an append",
    "went down in order",
    "node frozen",
    "store weather changed",
    "workers changed",
    "clock jumped",
    "log damaged",
    "worker reported late",
    "said twice at once",
    "held and released",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn seeds_that_failed_once_do_not_fail_again() {
    let seeds = include_str!("../../seeds.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next()?.parse().ok());
    play_all(seeds);
}

#[test]
fn no_promise_breaks_and_every_session_ends() {
    let first = number("STEPWELL_FIRST_SEED").unwrap_or(1);
    let seeds = number("STEPWELL_SEEDS").unwrap_or(SEEDS);
    let sum = play_all(first..first + seeds);
    println!("{} seeds, {} sessions, {} events", sum.seeds, sum.sessions, sum.events);
    println!("{}", sum.coverage.report());
    // A run of fewer seeds than usual is not expected to meet everything.
    if seeds >= SEEDS {
        let (pairs, marks) = (MUST_SEE_PAIRS, MUST_SEE_MARKS);
        assert_eq!(sum.coverage.unseen_pairs(pairs), [], "the world has become too tame");
        assert!(
            sum.coverage.unseen_marks(marks).is_empty(),
            "{:?}",
            sum.coverage.unseen_marks(marks)
        );
    }
}

/// The seed of `STEPWELL_SEED`, with all that is known about it.
#[test]
fn one_seed() {
    let Some(seed) = number("STEPWELL_SEED") else { return };
    let sum = play_all([seed]);
    println!("{} sessions, {} events\n{}", sum.sessions, sum.events, sum.coverage.report());
}

#[test]
fn a_seed_is_played_the_same_every_time() {
    for seed in 1..=25 {
        let played: BTreeSet<u64> = (0..2)
            .map(|_| play(seed).unwrap_or_else(|failure| panic!("{failure}")).fingerprint)
            .collect();
        assert_eq!(played.len(), 1, "seed {seed}");
    }
}
