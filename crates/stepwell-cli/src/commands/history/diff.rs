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
    for (mark, tone, text) in [("- ", Tone::Bad, &it.a), ("+ ", Tone::Good, &it.b)] {
        let text = match text {
            Some(text) if whole || text.chars().count() <= TEXT_CHARS_MAX => text.clone(),
            Some(text) => {
                let cut: String = text.chars().take(TEXT_CHARS_MAX).collect();
                format!("{cut}… ({} bytes; --whole shows all)", text.len())
            }
            None => "(not there)".to_owned(),
        };
        let text = block(&text, Care::Prose, out.paint);
        for line in text.lines() {
            out.line(&format!("{}{line}", out.paint.tone(tone, mark)))?;
        }
    }
    Ok(())
}
