//! `replay`: do the rules of this release come to the recorded decisions?

use std::path::Path;

use anyhow::bail;
use serde::Serialize;
use stepwell_archive::Limits;
use stepwell_core::replay::{Divergence, Replay};

use super::{against, core_event};
use crate::args::ReplayArgs;
use crate::client::Client;
use crate::commands::events::Pages;
use crate::commands::lists::Pages as SessionPages;
use crate::commands::source::{Source, open_file};
use crate::commands::{Context, expected, get_session};
use crate::exit::Exit;
use crate::out::{Tone, in_words};
use crate::progress::Spinner;
use crate::view::visible::brief;
use crate::view::when::counted;

/// What became of one replay.
#[derive(Debug, Default, Serialize)]
struct Verdict {
    session_id: String,
    /// `same`, `diverged` or `error`.
    #[serde(rename = "verdict")]
    outcome: &'static str,
    events: u64,
    inputs: u64,
    /// Decisions that could not be compared whole, because texts were redacted.
    unchecked: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
}

/// How many of each.
#[derive(Debug, Default)]
struct Sum {
    same: u64,
    diverged: u64,
    failed: u64,
    events: u64,
}

pub(in crate::commands) async fn run(context: &Context, args: ReplayArgs) -> anyhow::Result<Exit> {
    if let Some(file) = &args.against.against {
        return Box::pin(against::run(context, &args, file)).await;
    }
    let mut sum = Sum::default();
    if args.all {
        let client = context.client().await?;
        let limit = args.limit.unwrap_or(u32::MAX);
        let mut pages = SessionPages::new(&client, against::request(&args), limit);
        let mut spinner = Spinner::new(context.out);
        while let Some(page) = pages.next().await? {
            for session in page {
                let done = sum.same + sum.diverged + sum.failed;
                spinner.say(&format!(
                    "replayed {}, {}",
                    counted(done, "session"),
                    counted(sum.events, "event")
                ));
                let verdict = replay(&client, session.session_id, args.until).await;
                if verdict.outcome != "same" || context.out.is_json {
                    spinner.hide();
                    tell(context, &verdict)?;
                }
                sum.add(&verdict);
            }
        }
        spinner.hide();
    } else {
        // Files need no server.
        let mut connected: Option<Client> = None;
        for what in &args.what {
            let mut verdict = match Source::of(what) {
                Source::File(path) => {
                    let until = args.until;
                    tokio::task::spawn_blocking(move || replay_file(&path, until)).await?
                }
                Source::Session(id) => {
                    let client = match &connected {
                        Some(client) => client,
                        None => connected.insert(context.client().await?),
                    };
                    let response = get_session(client, &id).await?;
                    let session = expected(response.session.as_ref(), "session")?;
                    replay(client, session.session_id.clone(), args.until).await
                }
            };
            refuse_behind_end(&mut verdict, args.until);
            tell(context, &verdict)?;
            sum.add(&verdict);
        }
    }
    summary(context, &args, &sum)
}

fn summary(context: &Context, args: &ReplayArgs, sum: &Sum) -> anyhow::Result<Exit> {
    if !context.out.is_json && (args.all || args.what.len() > 1) {
        let Sum { same, diverged, failed, events } = sum;
        let failed =
            if *failed > 0 { format!(", {failed} could not be read") } else { String::new() };
        context.out.line(&format!(
            "{same} the same, {diverged} diverged{failed}; {}",
            counted(*events, "event")
        ))?;
    }
    if sum.failed > 0 {
        bail!("{} of the sessions could not be replayed", sum.failed);
    }
    Ok(if sum.diverged > 0 { Exit::Diverged } else { Exit::Ok })
}

impl Sum {
    fn add(&mut self, verdict: &Verdict) {
        self.events += verdict.events;
        match verdict.outcome {
            "same" => self.same += 1,
            "diverged" => self.diverged += 1,
            _ => self.failed += 1,
        }
    }
}

/// Whoever named an event of a session wanted it to be reached.
fn refuse_behind_end(verdict: &mut Verdict, until: Option<u64>) {
    let events = verdict.events;
    if let Some(until) = until.filter(|it| verdict.outcome == "same" && *it > events) {
        verdict.outcome = "error";
        verdict.reason =
            format!("--until: there is no event {until}, it has {}", counted(events, "event"));
    }
}

/// Replays an exported file. The file is checked to its end, whatever comes of the replay.
fn replay_file(path: &Path, until: Option<u64>) -> Verdict {
    let mut verdict = Verdict { session_id: path.display().to_string(), ..Verdict::default() };
    let outcome = play_file(path, until, &mut verdict);
    judge(&mut verdict, outcome);
    verdict
}

fn play_file(
    path: &Path,
    until: Option<u64>,
    verdict: &mut Verdict,
) -> anyhow::Result<Option<Divergence>> {
    let mut reader = open_file(path, Limits::default())?;
    verdict.session_id = reader.header().session_id.to_string();
    let mut replay = Replay::of(reader.header().redacted);
    let mut divergence = None;
    while let Some(item) = reader.next_item()? {
        let seq = item.event.seq.0;
        if divergence.is_some() || until.is_some_and(|until| seq > until) {
            continue;
        }
        match replay.push(item.event) {
            Ok(()) => (verdict.events, verdict.inputs) = (seq, replay.inputs()),
            Err(found) => divergence = Some(*found),
        }
    }
    verdict.unchecked = replay.unchecked();
    if divergence.is_some() || until.is_some() {
        return Ok(divergence);
    }
    Ok(replay.end().err().map(|divergence| *divergence))
}

async fn replay(client: &Client, session_id: String, until: Option<u64>) -> Verdict {
    let mut verdict = Verdict { session_id, ..Verdict::default() };
    let outcome = play(client, until, &mut verdict).await;
    judge(&mut verdict, outcome);
    verdict
}

fn judge(verdict: &mut Verdict, outcome: anyhow::Result<Option<Divergence>>) {
    match outcome {
        Ok(None) => verdict.outcome = "same",
        Ok(Some(divergence)) => {
            verdict.outcome = "diverged";
            verdict.seq = Some(divergence.seq.0);
            verdict.reason = divergence.in_words();
        }
        Err(error) => {
            verdict.outcome = "error";
            verdict.reason = in_words(&error);
        }
    }
}

async fn play(
    client: &Client,
    until: Option<u64>,
    verdict: &mut Verdict,
) -> anyhow::Result<Option<Divergence>> {
    let session_id = verdict.session_id.clone();
    let is_redacted = get_session(client, &session_id).await?.redaction.is_some();
    let mut replay = Replay::of(is_redacted);
    let mut pages = Pages::new(client, session_id, 0, true);
    while let Some(page) = pages.next().await? {
        for event in &page {
            if until.is_some_and(|until| event.seq > until) {
                return Ok(None);
            }
            if let Err(divergence) = replay.push(core_event(event)?) {
                return Ok(Some(*divergence));
            }
            verdict.events = event.seq;
            verdict.inputs = replay.inputs();
            verdict.unchecked = replay.unchecked();
        }
    }
    Ok(replay.end().err().map(|divergence| *divergence))
}

fn tell(context: &Context, verdict: &Verdict) -> anyhow::Result<()> {
    let out = context.out;
    if out.is_json {
        return out.json(verdict);
    }
    let id = out.paint.strong(brief(&verdict.session_id));
    let line = match verdict.outcome {
        "same" => {
            let unchecked = match verdict.unchecked {
                0 => String::new(),
                some => {
                    let decisions = counted(some, "decision");
                    format!("; {decisions} not checked: texts were redacted")
                }
            };
            format!(
                "{id}  {}  {} from {}{unchecked}",
                out.paint.tone(Tone::Good, "same"),
                counted(verdict.events, "event"),
                counted(verdict.inputs, "input")
            )
        }
        other => {
            let word = out.paint.tone(Tone::Bad, other);
            format!("{id}  {word}  {}", brief(&verdict.reason))
        }
    };
    out.line(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_not_there_is_an_error() {
        let verdict = |outcome| Verdict { outcome, events: 11, ..Verdict::default() };
        for (outcome, until, comes_to) in [
            ("same", Some(99), "error"),
            ("same", Some(11), "same"),
            ("same", None, "same"),
            ("diverged", Some(99), "diverged"),
        ] {
            let mut verdict = verdict(outcome);
            refuse_behind_end(&mut verdict, until);
            assert_eq!(verdict.outcome, comes_to, "{until:?}");
        }
    }
}
