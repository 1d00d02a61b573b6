//! `export`: sessions into files.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use stepwell_archive::redact::{Blobs, Redacted, Redactor, Rules};
use stepwell_archive::{Chain, Form, Header, Writer, payloads_of};
use stepwell_core::codec::CodecError;
use stepwell_core::{Seq, SessionId};
use stepwell_ports::StoredEvent;
use stepwell_proto::v1::Redaction;

use super::stored::{self, History, id_of};
use super::target::{Target, reader_gone};
use super::{Context, expected, get_session, otlp, read_file};
use crate::args::ExportArgs;
use crate::client::Client;
use crate::exit::{Exit, UsageError};
use crate::progress::Spinner;
use crate::{time, view};

/// The end of a name that makes plain JSON lines.
const PLAIN_EXTENSION: &str = "jsonl";

/// How many places are named in which rules still find something.
const LEFT_MAX: usize = 20;

/// What was exported.
#[derive(Debug, Serialize)]
struct Exported {
    session_id: String,
    file: String,
    events: u64,
    head_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_head_hash: Option<String>,
    redacted_events: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<Left>,
    /// Rules for whole fields that found nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unused_fields: Vec<String>,
}

/// Where rules for secrets still find something in what was written.
#[derive(Debug, Default, Serialize)]
struct Left {
    count: usize,
    /// The first [`LEFT_MAX`] of them.
    places: Vec<Place>,
}

/// A place in an event: a JSON pointer into its body, or `actor`.
#[derive(Debug, Serialize)]
struct Place {
    seq: u64,
    pointer: String,
}

impl Left {
    fn add(&mut self, seq: Seq, pointers: Vec<String>) {
        self.count += pointers.len();
        let free = LEFT_MAX.saturating_sub(self.places.len());
        let places = pointers.into_iter().take(free);
        self.places.extend(places.map(|pointer| Place { seq: seq.0, pointer }));
    }

    fn in_words(&self) -> String {
        let places = view::when::counted(self.count, "place");
        let named = self.places.iter().map(|Place { seq, pointer }| {
            format!("  event {seq} {}\n", view::visible::brief(pointer))
        });
        let more = match self.count.saturating_sub(self.places.len()) {
            0 => String::new(),
            more => format!("  and {more} more\n"),
        };
        let named: String = named.collect();
        format!(
            "warning: your rules still find something in {places} of the file, where names and ids \
             must stay:\n{named}{more}look at it before you give the file away"
        )
    }
}

/// What is exported, and how.
struct Plan<'a> {
    client: &'a Client,
    args: &'a ExportArgs,
    session_id: SessionId,
    head: u64,
    /// What the header says of when.
    at_ms: u64,
    rules: Option<&'a Rules>,
    /// Texts were taken out of it before it came to the server.
    redaction: Option<Redaction>,
}

impl Plan<'_> {
    fn is_redacted(&self) -> bool {
        self.rules.is_some() || self.redaction.is_some()
    }

    /// The chain of the history from which nothing was taken out, as far as it is known before the
    /// first event; `None` when nobody knows it.
    fn original(&self) -> Option<Chain> {
        match &self.redaction {
            None => Some(Chain::new(self.session_id)),
            Some(it) => Chain::after(it.last_seq, &it.original_head_hash),
        }
    }
}

pub(super) async fn run(context: &Context, args: ExportArgs) -> anyhow::Result<Exit> {
    if let Some(place) = &args.otlp {
        return Box::pin(otlp::run(context, &args, place)).await;
    }
    let rules = args.redact.as_deref().map(read_rules).transpose()?;
    refuse_one_place_for_two(context, &args)?;
    let client = context.client().await?;
    for id in &args.ids {
        let exporting = async { export(context, &client, (&args, rules.as_ref()), id).await };
        tokio::select! {
            exported = exporting => exported.map_err(reader_gone)?,
            // What was written so far has no name and goes.
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        }
    }
    Ok(Exit::Ok)
}

fn refuse_one_place_for_two(context: &Context, args: &ExportArgs) -> anyhow::Result<()> {
    let problem = match &args.output {
        Some(path) if path == Path::new("-") && context.out.is_json => {
            "--json and -o - both want stdout: leave one of them out"
        }
        Some(_) if args.ids.len() > 1 => {
            "-o is one place for several sessions: leave it out, each gets a file ID.stepwell"
        }
        Some(_) | None => return Ok(()),
    };
    Err(UsageError(problem.to_owned()).into())
}

async fn export(
    context: &Context,
    client: &Client,
    (args, rules): (&ExportArgs, Option<&Rules>),
    id: &str,
) -> anyhow::Result<()> {
    let response = get_session(client, id).await?;
    let session = expected(response.session.as_ref(), "session")?;
    let session_id = id_of(session)?;
    let path = args.output.clone().unwrap_or_else(|| file_name(session_id, args.fixture));
    // A fixture lies in version control: of the same session it is the same bytes.
    let at_ms = if args.fixture { session.updated_at_ms } else { time::now_ms() };
    let at_ms = u64::try_from(at_ms).unwrap_or(0);
    let (head, redaction) = (session.head_seq, response.redaction.clone());
    let plan = Plan { client, args, session_id, head, at_ms, rules, redaction };
    let exported = write(context, &plan, &path).await?;
    if let Some(left) = exported.left.as_ref().filter(|it| it.count > 0) {
        context.out.remark(&left.in_words());
    }
    for field in &exported.unused_fields {
        context.out.remark(&format!(
            "warning: your rule for the field {field} removed nothing: no event of the session has a \
             text there"
        ));
    }
    if context.out.is_json {
        context.out.json(&exported)
    } else {
        report(context, &plan, &exported);
        Ok(())
    }
}

fn read_rules(path: &Path) -> anyhow::Result<Rules> {
    let text = read_file(path)?;
    Rules::parse(&text).with_context(|| path.display().to_string())
}

fn file_name(session_id: SessionId, is_fixture: bool) -> PathBuf {
    let end = if is_fixture { ".stepwell.jsonl" } else { ".stepwell" };
    format!("{session_id}{end}").into()
}

fn report(context: &Context, plan: &Plan<'_>, exported: &Exported) {
    let Exported { session_id, file, redacted_events, .. } = exported;
    let events = view::when::counted(exported.events, "event");
    let mut removed = String::new();
    if plan.rules.is_some() {
        removed = format!("; texts were removed from {redacted_events} of them");
    }
    if plan.redaction.is_some() {
        removed.push_str("; texts had been removed from it before it was imported");
    }
    context.out.remark(&format!("exported {session_id}, {events}, to {file}{removed}"));
}

async fn write(context: &Context, plan: &Plan<'_>, path: &Path) -> anyhow::Result<Exported> {
    let is_plain = plan.args.fixture || path.extension().is_some_and(|it| it == PLAIN_EXTENSION);
    let form = if is_plain { Form::Plain } else { Form::Packed };
    let mut header = Header::new(plan.session_id, env!("CARGO_PKG_VERSION"), plan.at_ms);
    header.events = Some(plan.head);
    header.fixture = plan.args.fixture;
    header.redacted = plan.is_redacted();
    let mut writer = Writer::new(Target::open(path, is_plain, plan.args.force)?, form, &header)?;
    let mut original = plan.original();
    let mut redaction = plan.rules.map(|rules| (Redactor::new(rules), Left::default()));
    let mut redacted_events = 0;
    let mut spinner = Spinner::new(context.out);
    let mut history = History::new(plan.client, &plan.session_id.to_string(), plan.head);
    while let Some(events) = history.next().await? {
        for event in events {
            let seq = event.seq;
            if let Some(original) = original.as_mut().filter(|it| it.count() < seq.0) {
                original.add(&event);
            }
            let (event, blobs) = with_payloads(plan, event).await?;
            let Some((redactor, left)) = &mut redaction else {
                writer.event(&event, &blobs, &[])?;
                continue;
            };
            let mut done = redactor.redact(event, blobs).with_context(|| cannot(seq))?;
            if plan.args.fixture {
                leave_out(&mut done).with_context(|| cannot(seq))?;
            }
            writer.event(&done.event, &done.blobs, &done.pointers)?;
            redacted_events += u64::from(!done.pointers.is_empty());
            left.add(seq, done.left);
        }
        spinner.say(&format!("{} of {}", history.last(), view::when::counted(plan.head, "event")));
    }
    spinner.hide();
    let original_head_hash = original.filter(|_| plan.is_redacted()).map(|it| it.head());
    let (target, end) = writer.finish(original_head_hash.clone())?;
    target.finish()?;
    Ok(Exported {
        session_id: plan.session_id.to_string(),
        file: path.display().to_string(),
        events: end.events,
        head_hash: end.head,
        original_head_hash,
        redacted_events,
        unused_fields: redaction.iter().flat_map(|(redactor, _)| redactor.unused()).collect(),
        left: redaction.map(|(_, left)| left),
    })
}

/// A fixture leaves out what replay does not need, but only after it was searched: what stays shows parts
/// of it.
fn leave_out(done: &mut Redacted) -> Result<(), CodecError> {
    let needed: Vec<_> = payloads_of(&done.event)?.into_iter().filter(|it| it.is_text).collect();
    done.blobs.retain(|(address, _)| needed.iter().any(|it| it.blob.blob == *address));
    Ok(())
}

/// An event and what the file needs beside it.
async fn with_payloads(
    plan: &Plan<'_>,
    event: StoredEvent,
) -> anyhow::Result<(StoredEvent, Blobs)> {
    let seq = event.seq;
    let payloads = payloads_of(&event).with_context(|| cannot(seq))?;
    let mut blobs = Vec::new();
    let leaves_out = plan.args.fixture && plan.rules.is_none();
    for payload in payloads.into_iter().filter(|it| it.is_text || !leaves_out) {
        let address = payload.blob.blob;
        let bytes = stored::blob(plan.client, &address).await;
        let bytes = bytes.with_context(|| format!("a payload of event {seq}"))?;
        blobs.push((address, bytes));
    }
    Ok((event, blobs))
}

fn cannot(seq: Seq) -> String {
    format!("event {seq} cannot be exported")
}
