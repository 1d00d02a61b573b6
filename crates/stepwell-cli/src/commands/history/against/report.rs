//! What a run came to beside its record: a row of the table, a line of JSON.

use serde::Serialize;
use stepwell_core::account::{ModelAccount, Price};
use stepwell_core::compare::{Difference, Outline, compare};
use stepwell_core::event::{Outcome, Usage};
use stepwell_core::marker::is_one_of;

use super::super::diff::{self, Line};
use super::driver::{Ended, Played};
use super::ledger::Counts;
use super::record::Record;
use crate::out::{self, Out, Tone};
use crate::view::table::{Cell, Column, Fit, render};
use crate::view::usage::money;
use crate::view::visible::brief;
use crate::view::when::number;

/// Longest text of one side of a divergence in the table, in characters.
const SIDE_CHARS_MAX: usize = 48;

/// Characters of them in front of the place where the sides part.
const BEFORE_CHARS: usize = 16;

/// Columns that the last column of the table keeps on a narrow terminal.
const WORDS_COLUMNS_MIN: usize = 24;

/// Outcome of a run that could not begin or broke off.
const ERROR: &str = "error";

/// Outcome of a run whose model gave no answer: nothing in it is a difference of the agents.
const NO_MODEL: &str = "no_model";

/// One run.
pub(super) struct Report {
    session_id: String,
    /// What is to be said about it, and whether it is an error.
    problem: Option<String>,
    sides: Option<Sides>,
}

/// Both sides of a run that took place.
struct Sides {
    recorded: Outline,
    now: Outline,
    outcome_now: &'static str,
    reason: String,
    counts: Counts,
    differences: Vec<Difference>,
    is_redacted: bool,
    /// In millionths; of a model without a price it is not known.
    cost: Both<Option<u64>>,
    /// The agent, and not this command, brought it to its end.
    ended_by_itself: bool,
}

impl Report {
    /// Of one that took place.
    pub(super) fn of(record: &Record, played: Played, prices: Both<Option<Price>>) -> Self {
        let Played { outline, counts, ended, model_failure } = played;
        let ended_by_itself = ended == Ended::ByItself;
        let (outcome_now, reason, problem) = match ended {
            Ended::LeftTheRecord(place) => ("left_the_record", place, None),
            Ended::OutOfTime => {
                let mut problem =
                    "it did not end in its time: give it more with --timeout".to_owned();
                if let Some(failure) = model_failure {
                    problem = format!("{problem}; the model failed at last, {failure}");
                }
                ("timed_out", problem.clone(), Some(problem))
            }
            Ended::NoModel(failure) => {
                let problem = format!("the model gave no answer, {failure}");
                (NO_MODEL, problem.clone(), Some(problem))
            }
            Ended::ByItself | Ended::WaitsForMessage | Ended::Asleep | Ended::Interrupted => {
                (outcome_name(outline.outcome), outline.reason.clone(), None)
            }
        };
        let is_run = outcome_now != NO_MODEL;
        let mut differences = if is_run { compare(&record.outline, &outline) } else { Vec::new() };
        if record.is_redacted {
            // What the markers tell to be the same is no difference.
            differences.retain(|it| {
                !it.a.as_deref().zip(it.b.as_deref()).is_some_and(|(a, b)| is_one_of(a, b))
            });
        }
        let cost = Both {
            recorded: prices.recorded.map(|it| cost(&record.outline.usage, &it)),
            now: prices.now.map(|it| cost(&outline.usage, &it)),
        };
        let sides = Sides {
            recorded: record.outline.clone(),
            now: outline,
            outcome_now,
            reason,
            counts,
            differences,
            is_redacted: record.is_redacted,
            ended_by_itself,
            cost,
        };
        Self { session_id: record.session_id.clone(), problem, sides: Some(sides) }
    }

    /// Of one that did not.
    pub(super) fn of_error(name: String, error: &anyhow::Error) -> Self {
        Self { session_id: name, problem: Some(out::in_words(error)), sides: None }
    }

    /// What its numbers do not say of themselves.
    pub(super) fn note(&self) -> Option<String> {
        let is_redacted = self.sides.as_ref().is_some_and(|it| it.is_redacted);
        is_redacted.then(|| {
            format!(
                "{}: texts were removed from the record: the task, results and messages are given \
                 with markers, calls are found only where these tell their arguments, and \
                 differences may come from that alone",
                brief(&self.session_id)
            )
        })
    }

    /// It did not come to an end.
    pub(super) fn is_failed(&self) -> bool {
        self.problem.is_some()
    }

    /// It came to a worse end than the recorded run, which had completed.
    pub(super) fn is_worse(&self) -> bool {
        self.sides.as_ref().is_some_and(|it| {
            let was_good = it.recorded.outcome == Some(Outcome::Completed);
            was_good && it.ended_by_itself && it.now.outcome != Some(Outcome::Completed)
        })
    }

    /// The model did something else than recorded.
    pub(super) fn is_diverged(&self) -> bool {
        self.sides.as_ref().is_some_and(|it| it.divergence().is_some())
    }

    /// One line of JSON.
    pub(super) fn print_json(&self, out: Out, with_differences: bool) -> anyhow::Result<()> {
        out.json(&self.json(with_differences))
    }

    /// Both sides and their differences, as `stepwell diff` shows them.
    pub(super) fn print_differences(&self, out: Out) -> anyhow::Result<()> {
        let Some(sides) = &self.sides else { return Ok(()) };
        let now = format!("{} with this agent", self.session_id);
        let pair = [(self.session_id.as_str(), &sides.recorded), (now.as_str(), &sides.now)];
        out.line("")?;
        diff::print(out, pair, &sides.differences, false)
    }

    fn json(&self, with_differences: bool) -> Json<'_> {
        let Some(sides) = &self.sides else {
            return Json {
                session_id: &self.session_id,
                outcome: Both { recorded: None, now: Some(ERROR) },
                reason: "",
                error: self.problem.as_deref(),
                steps: None,
                tokens: None,
                cost_micros: None,
                tool_calls: None,
                divergence: None,
                redacted: false,
                differences: None,
            };
        };
        let (recorded, now) = (&sides.recorded, &sides.now);
        Json {
            session_id: &self.session_id,
            outcome: Both {
                recorded: Some(outcome_name(recorded.outcome)),
                now: Some(sides.outcome_now),
            },
            reason: &sides.reason,
            error: self.problem.as_deref(),
            steps: Some(Both { recorded: recorded.steps.len(), now: now.steps.len() }),
            tokens: Some(Both { recorded: tokens(&recorded.usage), now: tokens(&now.usage) }),
            cost_micros: sides.is_priced().then_some(sides.cost),
            tool_calls: Some(sides.counts),
            divergence: sides.divergence().map(|it| Divergence {
                step: it.step,
                what: &it.what,
                words: in_words(it),
            }),
            redacted: sides.is_redacted,
            differences: with_differences.then(|| diff::lines(&sides.differences).collect()),
        }
    }

    fn cells(&self) -> [Cell; 8] {
        let id = Cell::new(brief(&self.session_id), Tone::Strong);
        let problem = self.problem.as_deref().map(|it| Cell::new(brief(it), Tone::Bad));
        let Some(sides) = &self.sides else {
            let blank = Cell::default;
            let words = problem.unwrap_or_default();
            let outcome = Cell::new(ERROR, Tone::Bad);
            return [id, outcome, blank(), blank(), blank(), blank(), blank(), words];
        };
        let (recorded, now) = (&sides.recorded, &sides.now);
        let before = outcome_name(recorded.outcome);
        let is_same = before == sides.outcome_now;
        let tone = if is_same { Tone::Plain } else { Tone::Attention };
        let outcome = Cell::new(arrow(before, sides.outcome_now), tone);
        let steps = arrow(recorded.steps.len(), now.steps.len());
        let taken = arrow(tokens_in(&recorded.usage), tokens_in(&now.usage));
        let given =
            arrow(number(recorded.usage.completion_tokens), number(now.usage.completion_tokens));
        let words = problem.unwrap_or_else(|| match sides.divergence() {
            Some(it) if !is_same && !sides.reason.is_empty() => {
                let words = format!("{}; {}", brief(&sides.reason), in_words(it));
                Cell::new(words, Tone::Attention)
            }
            Some(it) => Cell::new(in_words(it), Tone::Attention),
            None => Cell::new("none", Tone::Good),
        });
        let shown = |cost: Option<u64>| cost.map_or_else(|| "?".to_owned(), money);
        let cost = arrow(shown(sides.cost.recorded), shown(sides.cost.now));
        let calls = calls(sides.counts).into();
        [id, outcome, steps.into(), taken.into(), given.into(), cost.into(), calls, words]
    }
}

impl Sides {
    fn is_priced(&self) -> bool {
        self.cost.recorded.or(self.cost.now).is_some()
    }

    fn divergence(&self) -> Option<&Difference> {
        self.differences.iter().find(|it| it.is_divergence())
    }
}

fn cost(usage: &Usage, price: &Price) -> u64 {
    ModelAccount { usage: *usage, ..ModelAccount::default() }.cost(price)
}

/// The table of all runs, with what they cost if a model of them has a price.
pub(super) fn print_table(out: Out, reports: &[Report]) -> anyhow::Result<()> {
    let columns = [
        Column::new("SESSION", Fit::Whole),
        Column::new("OUTCOME", Fit::Whole),
        Column::new("STEPS", Fit::Whole),
        Column::new("TOKENS IN", Fit::Drop(2)),
        Column::new("OUT", Fit::Drop(3)),
        Column::new("COST", Fit::Drop(4)),
        Column::new("TOOL CALLS", Fit::Drop(1)),
        Column::new("FIRST DIVERGENCE", Fit::CutEnd(WORDS_COLUMNS_MIN)),
    ];
    let rows: Vec<_> = reports.iter().map(Report::cells).collect();
    if reports.iter().filter_map(|it| it.sides.as_ref()).any(Sides::is_priced) {
        return out.lines(&render(&columns, &rows, out.width, out.paint));
    }
    let rows: Vec<_> = rows.into_iter().map(without_cost).collect();
    out.lines(&render(&without_cost(columns), &rows, out.width, out.paint))
}

fn without_cost<T>([id, outcome, steps, taken, given, _, calls, words]: [T; 8]) -> [T; 7] {
    [id, outcome, steps, taken, given, calls, words]
}

/// Then and now.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Both<T> {
    pub(super) recorded: T,
    pub(super) now: T,
}

#[derive(Serialize)]
struct Tokens {
    #[serde(rename = "in")]
    prompt: u64,
    cached: u64,
    out: u64,
}

#[derive(Serialize)]
struct Divergence<'a> {
    step: u32,
    what: &'a str,
    words: String,
}

#[derive(Serialize)]
struct Json<'a> {
    session_id: &'a str,
    outcome: Both<Option<&'static str>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Both<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<Both<Tokens>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_micros: Option<Both<Option<u64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Counts>,
    divergence: Option<Divergence<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    redacted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<Vec<Line<'a>>>,
}

fn outcome_name(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        None => "open",
        Some(Outcome::Completed) => "completed",
        Some(Outcome::Failed) => "failed",
        Some(Outcome::Cancelled) => "cancelled",
        Some(Outcome::LimitReached) => "limit_reached",
    }
}

fn tokens(usage: &Usage) -> Tokens {
    Tokens {
        prompt: usage.prompt_tokens,
        cached: usage.cached_tokens,
        out: usage.completion_tokens,
    }
}

fn tokens_in(usage: &Usage) -> String {
    format!("{} ({} cached)", number(usage.prompt_tokens), number(usage.cached_tokens))
}

fn arrow(before: impl std::fmt::Display, now: impl std::fmt::Display) -> String {
    format!("{before} → {now}")
}

fn calls(counts: Counts) -> String {
    let Counts { served, unrecorded, live } = counts;
    let live = if live > 0 { format!(", {live} live") } else { String::new() };
    format!("{served} served, {unrecorded} unrecorded{live}")
}

fn in_words(it: &Difference) -> String {
    let side = |text: &Option<String>, other: &Option<String>| match text {
        None => "nothing".to_owned(),
        Some(text) => {
            let other = brief(other.as_deref().unwrap_or_default());
            let part = diff::part_from(&brief(text), &other, (BEFORE_CHARS, SIDE_CHARS_MAX));
            format!("\"{part}\"")
        }
    };
    format!("step {}, {}: {} → {}", it.step, it.what, side(&it.a, &it.b), side(&it.b, &it.a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_shown_where_they_part() {
        let alike = "the same words of both sides, and many of them; ".repeat(3);
        let it = Difference {
            step: 2,
            what: "reply".into(),
            a: Some(format!("{alike}left")),
            b: Some(format!("{alike}right")),
            ..Difference::default()
        };
        let words = in_words(&it);
        assert!(words.contains("left\" → ") && words.ends_with("right\""), "{words}");
        let it = Difference { a: None, b: Some("short".into()), ..it };
        assert_eq!(in_words(&it), "step 2, reply: nothing → \"short\"");
    }
}
