//! Seeds: the ones that failed once, a fixed row of others, and the one that somebody asks for.

#![expect(clippy::expect_used, reason = "a helper that fails must fail its test")]

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;

use stepwell_sim::run::{Sum, play};

/// Seeds that every run plays.
const SEEDS: u64 = 150;

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
