//! `diff`: two sessions side by side.

use serde::Serialize;
use stepwell_core::compare::{Difference, Outline, compare};

use super::core_event;
use crate::args::DiffArgs;
use crate::commands::events::Pages;
use crate::commands::{Context, expected, get_session};
use crate::exit::Exit;
use crate::out::{Out, Tone};
use crate::view::visible::{Care, block, brief};
use crate::view::when::counted;

/// Longest text of one side, in characters, unless whole texts were asked for.
const TEXT_CHARS_MAX: usize = 300;

/// Characters that are shown in front of the place where two long texts part, at most.
const BEFORE_CHARS: usize = 100;

/// One difference in JSON.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    step: u32,
    what: &'a str,
    a: Option<&'a str>,
    b: Option<&'a str>,
}

pub(in crate::commands) async fn run(context: &Context, args: DiffArgs) -> anyhow::Result<Exit> {
    let (id_a, a) = outline(context, &args.a).await?;
    let (id_b, b) = outline(context, &args.b).await?;
    let differences = compare(&a, &b);
    let out = context.out;
    if out.is_json {
        for line in lines(&differences) {
            out.json(&line)?;
        }
        return Ok(Exit::Ok);
    }
    print(out, [(&id_a, &a), (&id_b, &b)], &differences, args.whole)?;
    Ok(Exit::Ok)
}

/// The differences as JSON has them.
pub(super) fn lines(differences: &[Difference]) -> impl Iterator<Item = Line<'_>> {
    differences.iter().map(|it| Line {
        step: it.step,
        what: &it.what,
        a: it.a.as_deref(),
        b: it.b.as_deref(),
    })
}

/// Both sides and their differences, for people.
pub(super) fn print(
    out: Out,
    sides: [(&str, &Outline); 2],
    differences: &[Difference],
    whole: bool,
) -> anyhow::Result<()> {
    for (letter, (id, outline)) in ["a", "b"].into_iter().zip(sides) {
        out.line(&format!("{letter}  {}  {}", out.paint.strong(brief(id)), sum(outline)))?;
    }
    let Some(first) = differences.first() else {
        return out.line("the same in every step");
    };
    let place =
        if first.step == 0 { "the beginning".to_owned() } else { format!("step {}", first.step) };
    out.line(&format!("first difference: {place}, {}", first.what))?;
    differences.iter().try_for_each(|it| show(out, it, whole))
}

/// As much of a text as shows where it parts from the other: from the line before that place, or
/// from some characters before it when the line is long.
fn excerpt(text: &str, other: &str) -> String {
    let cut = part_from(text, other, (BEFORE_CHARS, TEXT_CHARS_MAX));
    if cut == text { cut } else { format!("{cut} ({} bytes; --whole shows all)", text.len()) }
}

/// The part of a text at which it leaves the other, at most `chars_max` characters of it, of them
/// `before_chars` in front of that place; a short text whole.
pub(super) fn part_from(
    text: &str,
    other: &str,
    (before_chars, chars_max): (usize, usize),
) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let alike = text.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(it, _)| it);
    let before: String = alike.collect();
    let far = before.char_indices().rev().nth(before_chars).map_or(0, |(at, _)| at);
    let mut breaks = before.char_indices().rev().filter(|(_, it)| *it == '\n');
    let near = breaks.nth(1).map_or(0, |(at, _)| at + 1);
    let start = far.max(near);
    let rest = text.get(start..).unwrap_or_default();
    let cut: String = rest.chars().take(chars_max).collect();
    let dots = |is_cut: bool| if is_cut { "…" } else { "" };
    let (head, tail) = (dots(start > 0), dots(cut.len() < rest.len()));
    format!("{head}{cut}{tail}")
}

async fn outline(context: &Context, what: &str) -> anyhow::Result<(String, Outline)> {
    let opened = context.open(what).await?;
    let client = &opened.client;
    let response = get_session(client, &opened.id).await?;
    let id = expected(response.session.as_ref(), "session")?.session_id.clone();
    let mut outline = Outline::default();
    let mut pages = Pages::new(client, id.clone(), 0, true);
    while let Some(page) = pages.next().await? {
        for event in &page {
            outline.push(&core_event(event)?);
        }
    }
    Ok((id, outline))
}

fn sum(it: &Outline) -> String {
    let outcome = it.outcome.map_or("open", stepwell_core::event::Outcome::as_str);
    let usage = &it.usage;
    format!(
        "{}, {} tokens in ({} cached), {} out, {outcome}",
        counted(it.steps.len(), "step"),
        usage.prompt_tokens,
        usage.cached_tokens,
        usage.completion_tokens
    )
}

fn show(out: Out, it: &Difference, whole: bool) -> anyhow::Result<()> {
    let place = if it.step == 0 { String::new() } else { format!("step {}: ", it.step) };
    out.line("")?;
    out.line(&out.paint.strong(format!("{place}{}", brief(&it.what))))?;
    let sides = [("- ", Tone::Bad, &it.a, &it.b), ("+ ", Tone::Good, &it.b, &it.a)];
    for (mark, tone, text, other) in sides {
        let text = match text {
            Some(text) if whole => text.clone(),
            Some(text) => excerpt(text, other.as_deref().unwrap_or_default()),
            None => "(not there)".to_owned(),
        };
        let text = block(&text, Care::Prose, out.paint);
        for line in text.lines() {
            out.line(&format!("{}{line}", out.paint.tone(tone, mark)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_parts_two_long_texts_is_shown() {
        let lines = |last: &str| format!("{}{last}\n{}", "the same\n".repeat(60), "x".repeat(400));
        let (a, b) = (lines("left"), lines("right"));
        let shown = excerpt(&a, &b);
        assert!(shown.starts_with("…the same\nleft\nxxx"), "{shown}");
        assert!(shown.ends_with(&format!("x… ({} bytes; --whole shows all)", a.len())), "{shown}");
        assert!(excerpt(&b, &a).starts_with("…the same\nright\n"));

        let (a, b) = ("é".repeat(400), "é".repeat(500));
        let alike = format!("…{} (800 bytes; --whole shows all)", "é".repeat(BEFORE_CHARS + 1));
        assert_eq!(excerpt(&a, &b), alike);
        assert_eq!(excerpt("short", &b), "short");
        assert!(excerpt(&b, "").starts_with('é'));
    }
}
