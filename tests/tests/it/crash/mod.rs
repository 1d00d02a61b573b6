//! The crash matrix: one session with every kind of event, the server killed after each of them.
//!
//! Each story is played once without a kill. Then, for each event, it is played afresh, the server is
//! killed with SIGKILL as soon as the event is durable, started again, and driven on by the same
//! person. What the log says must be the same, but for attempts; and the file in which the tools
//! write down their starts must show that no write tool ran twice.

mod normal;
mod person;
mod play;
mod stories;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail, ensure};
use futures_util::{StreamExt as _, stream};
use stepwell_core::event::EventKind;
use stepwell_tests::Ev;

use self::normal::{check_starts, normal};
use self::play::{Kill, Played, play};
use self::stories::Story;

/// Runs at the same time. They mostly wait: for the scripted model, for tools, for processes.
const AT_A_TIME: usize = 4;

/// How often a kill that came too late is tried again: the machine may be busy.
const TRIES: usize = 3;

fn kinds(events: &[Ev]) -> BTreeSet<&str> {
    events.iter().map(|it| it.kind.as_str()).collect()
}

#[tokio::test]
async fn the_stories_of_the_crash_matrix_have_every_kind_of_event() -> Result<()> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for story in [Story::everything(), Story::cancelled(), Story::overtime(), Story::forked()] {
        let played = play(&story, None).await?;
        seen.extend(kinds(&played.events).into_iter().map(str::to_owned));
    }
    let all: BTreeSet<String> = EventKind::ALL.iter().map(|it| it.as_str().to_owned()).collect();
    let missing: Vec<_> = all.difference(&seen).collect();
    ensure!(missing.is_empty(), "no story has {missing:?}");
    Ok(())
}

#[tokio::test]
async fn a_server_killed_after_each_event_of_a_session_with_every_kind_ends_with_the_same_log()
-> Result<()> {
    matrix(&Story::everything(), 30).await
}

#[tokio::test]
async fn a_server_killed_after_each_event_of_a_cancelled_session_ends_with_the_same_log()
-> Result<()> {
    matrix(&Story::cancelled(), 6).await
}

#[tokio::test]
async fn a_server_killed_after_each_event_of_a_session_that_runs_out_of_time_ends_with_the_same_log()
-> Result<()> {
    matrix(&Story::overtime(), 6).await
}

#[tokio::test]
async fn a_server_killed_after_each_event_of_a_fork_ends_with_the_same_log() -> Result<()> {
    matrix(&Story::forked(), 12).await
}

async fn matrix(story: &Story, events_min: usize) -> Result<()> {
    let reference = play(story, None).await.context("without a kill")?;
    let count = reference.events.len();
    ensure!(count >= events_min, "the story has only {count} events");
    check_starts(&reference)?;
    let kills = kills(story, &reference.events);
    let total = kills.len();
    let runs = kills.into_iter().map(|kill| check(story, kill, &reference));
    let results: Vec<Result<bool>> = stream::iter(runs).buffer_unordered(AT_A_TIME).collect().await;
    let mut failures = String::new();
    let mut exact = 0;
    for result in results {
        match result {
            Ok(was_exact) => exact += usize::from(was_exact),
            Err(error) => write!(failures, "\n{error:#}")?,
        }
    }
    println!("{}: {total} kills, {exact} of them before anything else was durable", story.name);
    ensure!(failures.is_empty(), "{failures}");
    // A test whose kills come too late would show nothing.
    ensure!(2 * exact >= total, "only {exact} of {total} kills hit their moment");
    Ok(())
}

/// After each event the server alone is killed: the worker lives on and still knows its calls. Around
/// calls it is killed together with its worker, too: then nobody knows what became of them.
fn kills(story: &Story, events: &[Ev]) -> Vec<Kill> {
    let alone = events.iter().map(|event| Kill { after: event.seq, with_worker: false });
    let together = events.iter().filter(|it| story.kills_worker && it.kind.starts_with("tool_"));
    alone.chain(together.map(|event| Kill { after: event.seq, with_worker: true })).collect()
}

/// Plays the story with a kill and compares, again when the kill came too late. Says whether it hit
/// the right moment.
async fn check(story: &Story, kill: Kill, reference: &Played) -> Result<bool> {
    for _ in 0..TRIES {
        if check_run(story, kill, reference).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn check_run(story: &Story, kill: Kill, reference: &Played) -> Result<bool> {
    let what = format!("{}, {kill}", story.name);
    let played = play(story, Some(kill)).await.with_context(|| what.clone())?;
    let checked = check_starts(&played).and_then(|()| {
        let (expected, found) = (normal(&reference.events)?, normal(&played.events)?);
        match expected.iter().zip(&found).position(|(left, right)| left != right) {
            None if expected.len() == found.len() => Ok(()),
            place => {
                let place = place.unwrap_or(expected.len().min(found.len()));
                bail!(
                    "it should go on with {:?}\nbut it is {:?}",
                    expected.get(place),
                    found.get(place)
                )
            }
        }
    });
    checked.with_context(|| format!("{what}\n{}", played.told()))?;
    Ok(played.was_exact(kill))
}
