//! `verify`: files against themselves, histories against an anchor.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Serialize;
use stepwell_archive::{Limits, Reader};
use stepwell_core::SessionId;
use tonic::Code;

use super::anchor::Anchor;
use super::stored::{self, Payloads, Read};
use super::{Context, expected, get_session, source};
use crate::args::VerifyArgs;
use crate::client::{Client, Refusal};
use crate::exit::Exit;
use crate::out::{Tone, without_numbers};
use crate::view;
use crate::view::when::counted;

/// Longest line of an anchor file, in bytes: a line has about 150.
const ANCHOR_LINE_BYTES_MAX: usize = 4_096;

/// What became of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// As it was.
    Intact,
    /// As it was, and more events followed.
    Grew,
    /// Texts were removed; what is left is as the file says.
    Redacted,
    /// Not there.
    Missing,
    /// Events at its end are gone.
    Shortened,
    /// Another history.
    Rewritten,
    /// The file, or a payload of the session, cannot be read.
    Damaged,
    /// The anchor does not know it.
    NotAnchored,
}

impl Verdict {
    fn is_fine(self) -> bool {
        match self {
            Self::Intact | Self::Grew | Self::Redacted => true,
            Self::Missing
            | Self::Shortened
            | Self::Rewritten
            | Self::Damaged
            | Self::NotAnchored => false,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Intact => "intact",
            Self::Grew => "grew",
            Self::Redacted => "redacted",
            Self::Missing => "missing",
            Self::Shortened => "shortened",
            Self::Rewritten => "rewritten",
            Self::Damaged => "damaged",
            Self::NotAnchored => "not anchored",
        }
    }
}

#[derive(Debug, Serialize)]
struct Finding {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<SessionId>,
    verdict: Verdict,
    events: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    anchored_events: Option<u64>,
    /// In words.
    detail: String,
}

pub(super) async fn run(context: &Context, args: VerifyArgs) -> anyhow::Result<Exit> {
    let anchors = args.anchor.as_deref().map(read_anchors).transpose()?;
    let mut is_fine = true;
    let mut tell = |finding: Finding| {
        is_fine &= finding.verdict.is_fine();
        print(context, &finding)
    };
    match (&anchors, args.files.is_empty()) {
        (Some(anchors), true) => {
            let client = context.client().await?;
            let mut payloads = Payloads::default();
            for anchor in anchors.values() {
                tell(of_server(&client, &mut payloads, anchor).await?)?;
            }
        }
        (Some(_), false) | (None, _) => {
            for path in &args.files {
                let (shown, anchors) = (path.clone(), anchors.clone());
                let check = move || of_file(&shown, anchors.as_ref());
                tell(tokio::task::spawn_blocking(check).await??)?;
            }
        }
    }
    Ok(if is_fine { Exit::Ok } else { Exit::Error })
}

fn print(context: &Context, finding: &Finding) -> anyhow::Result<()> {
    let out = context.out;
    if out.is_json {
        return out.json(finding);
    }
    let tone = if finding.verdict.is_fine() { Tone::Good } else { Tone::Bad };
    let verdict = out.paint.tone(tone, format!("{:<12}", finding.verdict.words()));
    let id = finding.session_id.map(|it| it.to_string()).unwrap_or_default();
    let name = finding.file.as_deref().unwrap_or(&id);
    let text = format!("{name}  {}", finding.detail);
    let text = view::visible::line(&text, view::visible::Care::Prose, out.paint);
    out.line(&format!("{verdict}  {text}"))
}

type Anchors = BTreeMap<SessionId, Anchor>;

/// Reads an anchor file. Of a session that stands in it more than once the longest counts: files are
/// made longer with `>>`.
fn read_anchors(path: &Path) -> anyhow::Result<Anchors> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
    let mut anchors = Anchors::new();
    for (number, line) in (1_u64..).zip(BufReader::new(file).lines()) {
        let line = line.with_context(|| format!("{shown}, line {number}"))?;
        if line.trim().is_empty() {
            continue;
        }
        if line.len() > ANCHOR_LINE_BYTES_MAX {
            bail!("{shown}, line {number}: this is no line of an anchor");
        }
        let anchor: Anchor = serde_json::from_str(&line).with_context(|| {
            format!("{shown}, line {number}: this is no line that stepwell anchor writes")
        })?;
        let known = anchors.get(&anchor.session_id).map_or(0, |it| it.events);
        if anchor.events >= known {
            anchors.insert(anchor.session_id, anchor);
        }
    }
    if anchors.is_empty() {
        bail!(
            "{shown} holds no anchor, so nothing can be verified: it was cut, or is another file"
        );
    }
    Ok(anchors)
}

/// A session of the server against its anchor.
async fn of_server(
    client: &Client,
    payloads: &mut Payloads,
    anchor: &Anchor,
) -> anyhow::Result<Finding> {
    let Anchor { session_id, events: anchored, head_hash: expected_hash } = anchor;
    let finding = |verdict, events, detail: String| Finding {
        file: None,
        session_id: Some(*session_id),
        verdict,
        events,
        anchored_events: Some(*anchored),
        detail,
    };
    let response = match get_session(client, &session_id.to_string()).await {
        Ok(response) => response,
        Err(error) => {
            let code = error.downcast_ref().map(|refusal: &Refusal| refusal.code);
            if code == Some(Code::NotFound) {
                let detail = "the server has no such session".to_owned();
                return Ok(finding(Verdict::Missing, 0, detail));
            }
            return Err(error);
        }
    };
    let events = expected(response.session.as_ref(), "session")?.head_seq;
    if events < *anchored {
        let detail = format!("{} where there were {anchored}", counted(events, "event"));
        return Ok(finding(Verdict::Shortened, events, detail));
    }
    let (verdict, detail) = match stored::read(client, Some(payloads), *session_id, *anchored).await
    {
        Err(error) => match stored::damage(&error) {
            // What the server itself finds damaged; the others are still looked at.
            Some(damage) => (Verdict::Damaged, damage),
            // A history with a gap is another one; a server that does not answer is no verdict.
            None if error.is::<Refusal>() => return Err(error),
            None => (Verdict::Rewritten, format!("{error:#}")),
        },
        Ok(Read { head_hash, .. }) if head_hash != *expected_hash => match &response.redaction {
            Some(it) => original_against(anchor, it.last_seq, Some(&it.original_head_hash)),
            None => rewritten(*anchored),
        },
        Ok(Read { damage: Some(damage), .. }) => (Verdict::Damaged, damage),
        Ok(Read { damage: None, .. }) => of_length(events, *anchored),
    };
    Ok(finding(verdict, events, detail))
}

/// The history is the anchored one, as far as that goes.
fn of_length(events: u64, anchored: u64) -> (Verdict, String) {
    if events > anchored {
        let detail = format!("{}, the first {anchored} as they were", counted(events, "event"));
        (Verdict::Grew, detail)
    } else {
        (Verdict::Intact, counted(events, "event"))
    }
}

fn rewritten(anchored: u64) -> (Verdict, String) {
    (Verdict::Rewritten, format!("the first {anchored} events are not those of the anchor"))
}

/// A file against itself, and against its anchor when there are anchors.
fn of_file(path: &Path, anchors: Option<&Anchors>) -> anyhow::Result<Finding> {
    let shown = path.display().to_string();
    let file = source::open(path)?;
    let mut finding = Finding {
        file: Some(shown),
        session_id: None,
        verdict: Verdict::Damaged,
        events: 0,
        anchored_events: None,
        detail: String::new(),
    };
    let mut reader = match Reader::open(BufReader::new(file), Limits::default()) {
        Ok(reader) => reader,
        Err(error) => {
            finding.detail = without_numbers(&error.to_string());
            return Ok(finding);
        }
    };
    let session_id = reader.header().session_id;
    finding.session_id = Some(session_id);
    let anchor = anchors.and_then(|it| it.get(&session_id));
    finding.anchored_events = anchor.map(|it| it.events);
    let mut hash_then = None;
    loop {
        match reader.next_item() {
            Ok(Some(item)) => {
                finding.events = item.stored.seq.0;
                if Some(finding.events) == finding.anchored_events {
                    hash_then = Some(item.chain);
                }
            }
            Ok(None) => break,
            Err(error) => {
                finding.detail = without_numbers(&error.to_string());
                return Ok(finding);
            }
        }
    }
    let is_redacted = reader.header().redacted;
    let original = reader.end().and_then(|it| it.original_head.clone());
    let seen = Seen { events: finding.events, hash_then, is_redacted, original };
    (finding.verdict, finding.detail) = match (anchors, anchor) {
        (None, _) => seen.alone(),
        (Some(_), None) => {
            (Verdict::NotAnchored, "the anchor does not know this session".to_owned())
        }
        (Some(_), Some(anchor)) => seen.against(anchor),
    };
    Ok(finding)
}

/// What a whole file said.
struct Seen {
    events: u64,
    /// Hash of the event at which the anchor was made.
    hash_then: Option<String>,
    is_redacted: bool,
    /// Hash of the last event before redaction, as the file says.
    original: Option<String>,
}

impl Seen {
    fn alone(&self) -> (Verdict, String) {
        let events = self.events;
        if self.is_redacted {
            (
                Verdict::Redacted,
                format!("{}, without the texts that were removed", counted(events, "event")),
            )
        } else {
            (Verdict::Intact, counted(events, "event"))
        }
    }

    fn against(&self, anchor: &Anchor) -> (Verdict, String) {
        let (events, anchored) = (self.events, anchor.events);
        if events < anchored {
            let detail = format!("{} where there were {anchored}", counted(events, "event"));
            return (Verdict::Shortened, detail);
        }
        let is_same = match &self.hash_then {
            Some(hash) => *hash == anchor.head_hash,
            // An anchor of a session without events holds nothing.
            None => anchored == 0,
        };
        match (is_same, self.is_redacted) {
            (true, false) => of_length(events, anchored),
            (true, true) => {
                let detail = "the history as it was anchored, from which texts had been removed";
                (Verdict::Redacted, detail.to_owned())
            }
            (false, true) => original_against(anchor, events, self.original.as_deref()),
            (false, false) => rewritten(anchored),
        }
    }
}

/// The hashes of a redacted history are its own: only the word about `last`, the last event that may
/// have lost something, can be compared.
fn original_against(anchor: &Anchor, last: u64, original: Option<&str>) -> (Verdict, String) {
    let original = original.filter(|it| !it.is_empty());
    if last == anchor.events && original == Some(&anchor.head_hash) {
        let detail = "it says that it was made of the anchored history; the removed texts cannot \
                      be checked";
        (Verdict::Redacted, detail.to_owned())
    } else if last > anchor.events || original.is_none() {
        let detail = "texts were removed, and it does not say what the history was at the anchor: \
                      it cannot be compared";
        (Verdict::NotAnchored, detail.to_owned())
    } else {
        rewritten(anchor.events)
    }
}
