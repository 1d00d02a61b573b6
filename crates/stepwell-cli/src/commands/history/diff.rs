//! `diff`: two sessions side by side.

use serde::Serialize;
use stepwell_core::compare::{Difference, Outline, compare};

use super::core_event;
use crate::args::DiffArgs;
use crate::client::Client;
use crate::commands::events::Pages;
use crate::commands::{Context, expected, get_session};
use crate::exit::Exit;
use crate::out::{Out, Tone};
use crate::view::visible::{Care, block, brief};

/// Longest text of one side, in characters, unless whole texts were asked for.
const TEXT_CHARS_MAX: usize = 300;

#[derive(Serialize)]
struct Line<'a> {
    step: u32,
    what: &'a str,
    a: Option<&'a str>,
    b: Option<&'a str>,
}

pub(in crate::commands) async fn run(context: &Context, args: DiffArgs) -> anyhow::Result<Exit> {
    let client = context.client().await?;
    let (id_a, a) = outline(&client, &args.a).await?;
    let (id_b, b) = outline(&client, &args.b).await?;
    let differences = compare(&a, &b);
    let out = context.out;
    if out.is_json {
        for it in &differences {
            let (a, b) = (it.a.as_deref(), it.b.as_deref());
            out.json(&Line { step: it.step, what: &it.what, a, b })?;
        }
        return Ok(Exit::Ok);
    }
    let paint = out.paint;
    out.line(&format!("a  {}  {}", paint.strong(brief(&id_a)), sum(&a)))?;
    out.line(&format!("b  {}  {}", paint.strong(brief(&id_b)), sum(&b)))?;
    let Some(first) = differences.first() else {
        return out.line("the same in every step").map(|()| Exit::Ok);
    };
    let place =
        if first.step == 0 { "the beginning".to_owned() } else { format!("step {}", first.step) };
    out.line(&format!("first difference: {place}, {}", first.what))?;
    differences.iter().try_for_each(|it| show(out, it, args.whole))?;
    Ok(Exit::Ok)
}

async fn outline(client: &Client, id: &str) -> anyhow::Result<(String, Outline)> {
    let response = get_session(client, id).await?;
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
    let outcome = it.outcome.map_or("open".to_owned(), |it| format!("{it:?}").to_lowercase());
    let usage = &it.usage;
    format!(
        "{} steps, {} tokens in ({} cached), {} out, {outcome}",
        it.steps.len(),
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
