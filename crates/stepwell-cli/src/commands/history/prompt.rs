//! `prompt`: the exact bytes of a request to the model, and what one has more than another.

use std::io::Write as _;

use anyhow::{Context as _, bail};
use serde_json::Value;
use stepwell_archive::redact::holds_marker;
use stepwell_proto::v1::{GetPromptRequest, GetPromptResponse};

use crate::args::PromptArgs;
use crate::client::Client;
use crate::commands::source::Opened;
use crate::commands::{Context, expected, get_session};
use crate::exit::{Exit, ReaderGone, UsageError};
use crate::out::Tone;
use crate::view::visible::{Care, line};

/// A request to the model.
struct Prompt {
    body: Vec<u8>,
    digest: String,
    recorded: String,
    seq: u64,
}

pub(in crate::commands) async fn run(context: &Context, args: PromptArgs) -> anyhow::Result<Exit> {
    let Opened { client, id, .. } = &context.open(&args.session.id).await?;
    let response = get_session(client, id).await?;
    let session = expected(response.session.as_ref(), "session")?;
    let id = session.session_id.as_str();
    if let Some(steps) = &args.diff {
        let &[from, to] = &steps[..] else {
            return Err(UsageError("--diff takes two steps".to_owned()).into());
        };
        let (from, to) = (fetch(client, id, from).await?, fetch(client, id, to).await?);
        return diff(context, &from, &to);
    }
    let prompt = fetch(client, id, args.step.unwrap_or(session.step)).await?;
    let written = std::io::stdout().lock().write_all(&prompt.body);
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => ReaderGone.into(),
        _ => anyhow::Error::from(error).context("cannot write to stdout"),
    })?;
    if prompt.digest != prompt.recorded {
        let Prompt { digest, recorded, seq, .. } = &prompt;
        let differs = format!(
            "these are not the bytes that were sent: their digest is {digest}, event {seq} recorded \
             {recorded}"
        );
        let is_redacted = response.redaction.is_some();
        if is_redacted && holds_marker(&String::from_utf8_lossy(&prompt.body)) {
            let why = "texts were removed from the session when it was exported";
            context.out.faint_remark(&format!("\n{why}: {differs}"));
            return Ok(Exit::Ok);
        }
        bail!("{differs}; stepwell replay says where the history and today's rules part");
    }
    if context.out.is_watched {
        let (bytes, digest) = (prompt.body.len(), &prompt.digest);
        context.out.faint_remark(&format!("\n{bytes} bytes, digest {digest}, as recorded"));
    }
    Ok(Exit::Ok)
}

async fn fetch(client: &Client, id: &str, step: u32) -> anyhow::Result<Prompt> {
    let request = GetPromptRequest { session_id: id.to_owned(), step };
    let mut prompt =
        Prompt { body: Vec::new(), digest: String::new(), recorded: String::new(), seq: 0 };
    let refused = |status| client.refusal(&status);
    let mut pieces = client.history().get_prompt(request).await.map_err(refused)?.into_inner();
    while let Some(piece) = pieces.message().await.map_err(refused)? {
        let GetPromptResponse { data, digest, recorded_digest, seq } = piece;
        if prompt.seq == 0 {
            (prompt.digest, prompt.recorded, prompt.seq) = (digest, recorded_digest, seq);
        }
        prompt.body.extend_from_slice(&data);
    }
    Ok(prompt)
}

/// Message by message: what both have, what was dropped, what was added, and how large each is.
fn diff(context: &Context, from: &Prompt, to: &Prompt) -> anyhow::Result<Exit> {
    let (from_head, from_messages) = parts(from)?;
    let (to_head, to_messages) = parts(to)?;
    let out = context.out;
    let same = from_messages.iter().zip(&to_messages).take_while(|(a, b)| a == b).count();
    if out.is_json {
        let added: Vec<&Value> = to_messages.iter().skip(same).collect();
        let dropped: Vec<&Value> = from_messages.iter().skip(same).collect();
        let same_head = from_head == to_head;
        let line = serde_json::json!({
            "same_messages": same, "same_head": same_head, "dropped": dropped, "added": added,
        });
        return out.json(&line).map(|()| Exit::Ok);
    }
    if from_head != to_head {
        out.line("the head (model, parameters, tools) differs: no server cache is kept")?;
    }
    out.line(&format!("{same} messages are the same"))?;
    for (mark, tone, messages) in
        [("- ", Tone::Bad, &from_messages), ("+ ", Tone::Good, &to_messages)]
    {
        for message in messages.iter().skip(same) {
            let text = message.to_string();
            let size = format!("{} bytes, about {} tokens", text.len(), text.len().div_ceil(4));
            let mark = out.paint.tone(tone, mark);
            // JSON on one line already; blanks in it may be what differs.
            let text = line(&text, Care::Prose, out.paint);
            out.line(&format!("{mark}{}  {text}", out.paint.faint(size)))?;
        }
    }
    Ok(Exit::Ok)
}

/// The request without its messages, and those.
fn parts(prompt: &Prompt) -> anyhow::Result<(Value, Vec<Value>)> {
    let parsed = serde_json::from_slice(&prompt.body);
    let mut body: Value = parsed.context("the request is no JSON")?;
    let messages = body.get_mut("messages").map(Value::take);
    match messages {
        Some(Value::Array(messages)) => Ok((body, messages)),
        Some(_) | None => bail!("the request has no messages"),
    }
}
