//! `export --otlp`: sessions as OpenTelemetry traces, in a file or sent to a collector.
//!
//! Spans are computed here from the events, as the server does, so that what a span row does not say
//! (tokens, ids of calls) is known too. Of a session only its index and these facts are in memory;
//! spans leave in batches.

mod convention;
mod facts;
mod send;
mod sink;
#[cfg(test)]
mod tests;
mod trace;
mod wire;

use anyhow::{Context as _, bail};
use serde::Serialize;
use stepwell_core::spans::SpanIndex;
use stepwell_core::{Event, Seq, SessionId, codec};
use stepwell_proto::v1;

use self::facts::Facts;
use self::sink::Sink;
use self::trace::Trace;
use super::events::Pages;
use super::target::reader_gone;
use super::{Context, expected, get_session};
use crate::args::ExportArgs;
use crate::client::Client;
use crate::exit::Exit;
use crate::view::when::counted;

/// Spans of one request: some hundred KiB, and never more than collectors take, as the texts of a
/// span are bounded too.
const BATCH_SPANS: u32 = 512;

/// Writes the sessions of `export` to `place`, a file or the address of a collector.
pub(super) async fn run(context: &Context, args: &ExportArgs, place: &str) -> anyhow::Result<Exit> {
    let exporting = async { export_all(context, args, place).await.map_err(reader_gone) };
    tokio::select! {
        exported = exporting => exported.map(|()| Exit::Ok),
        _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
    }
}

async fn export_all(context: &Context, args: &ExportArgs, place: &str) -> anyhow::Result<()> {
    // A wrong address or a name that is taken is said before anything is asked.
    let mut sink = Sink::open(context.out, place, args)?;
    let client = context.client().await?;
    let mut spans = 0;
    for id in &args.ids {
        spans += export(context, &client, id, &mut sink).await?;
    }
    let (to, sessions) = (sink.place().to_owned(), args.ids.len());
    sink.finish()?;
    if context.out.is_json && place != "-" {
        return context.out.json(&Traced { otlp: &to, sessions, spans });
    }
    let (spans, sessions) = (counted(spans, "span"), counted(sessions, "session"));
    context.out.remark(&format!("exported {spans} of {sessions} to {to}"));
    Ok(())
}

/// What was exported.
#[derive(Serialize)]
struct Traced<'a> {
    otlp: &'a str,
    sessions: usize,
    spans: usize,
}

/// Writes one session; gives the number of its spans.
async fn export(
    context: &Context,
    client: &Client,
    id: &str,
    sink: &mut Sink,
) -> anyhow::Result<usize> {
    let response = get_session(client, id).await?;
    let session = expected(response.session.as_ref(), "session")?;
    let session_id: SessionId = session.session_id.parse()?;
    let (index, facts) = read(context, client, session_id).await?;
    let trace = Trace { session_id, index: &index, facts: &facts };
    let mut from = 0;
    loop {
        let rows = index.rows(from, BATCH_SPANS);
        if rows.is_empty() {
            return Ok(from as usize);
        }
        from += rows.len() as u32;
        let spans = rows.iter().map(|row| trace.span(row)).collect();
        let request = wire::Request::new(spans);
        sink.write(&request).await.with_context(|| format!("session {session_id}"))?;
    }
}

/// The spans of a session, and what they do not say.
async fn read(
    context: &Context,
    client: &Client,
    session_id: SessionId,
) -> anyhow::Result<(SpanIndex, Facts)> {
    let (mut index, mut facts) = (SpanIndex::default(), Facts::default());
    index.expect_many();
    let mut pages = Pages::new(client, session_id.to_string(), 0, false);
    while let Some(page) = pages.next().await? {
        for event in page {
            match decoded(&event) {
                Ok(event) => {
                    facts.take(&event);
                    index.push(&event);
                }
                // As `tree` does: what was before it is no less true.
                Err(error) if index.head() > Seq(0) => {
                    context.out.remark(&format!(
                        "session {session_id}: event {} and what follows is left out: {error}",
                        event.seq
                    ));
                    index.settle();
                    return Ok((index, facts));
                }
                Err(error) => bail!("session {session_id}: event {}: {error}", event.seq),
            }
        }
    }
    index.settle();
    Ok((index, facts))
}

fn decoded(event: &v1::Event) -> anyhow::Result<Event> {
    let schema = u16::try_from(event.schema).context("its schema is of another release")?;
    Ok(Event {
        seq: Seq(event.seq),
        time: stepwell_core::TimestampMs(u64::try_from(event.time_ms).unwrap_or(0)),
        cause: Seq(event.cause),
        actor: event.actor.parse()?,
        body: codec::decode(&event.r#type, schema, &event.body_json)?,
    })
}
