//! Takes texts out of events before they are exported, and leaves a marker that says how much and
//! which bytes were there.
//!
//! Only texts that people, models and tools wrote are touched ([`FIELDS`]): ids, names of tools and
//! workers, kinds, counts, times and digests stay, so that a redacted session can still be applied. What
//! is left is searched once more as it is written, whatever it is, and told: see [`Redacted::left`].

mod fields;
mod json;
mod left;
mod rules;

use std::collections::BTreeSet;

use stepwell_core::codec::{self, CodecError, EVENT_SCHEMA};
use stepwell_core::event::ModelReplied;
use stepwell_core::{EventBody, JsonText, Text};
use stepwell_ports::StoredEvent;

pub use fields::FIELDS;
use fields::{Field, for_each_field};
use rules::BINARY;
pub use rules::{BUILT_IN, Rules, RulesError};
pub use stepwell_core::marker::{holds_marker, marker};

/// Payloads by their addresses.
pub type Blobs = Vec<(String, Vec<u8>)>;

/// An event without what had to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The event; as it was when nothing had to go.
    pub event: StoredEvent,
    /// Its payloads.
    pub blobs: Blobs,
    /// Where something was removed, as JSON pointers into the body.
    pub pointers: Vec<String>,
    /// Where a rule for secrets still finds something, because it is a name, an id, or else no text that
    /// can be removed: JSON pointers into the body, or `actor`.
    pub left: Vec<String>,
}

/// Applies rules to the events of one session, one after the other.
pub struct Redactor<'r> {
    rules: &'r Rules,
    /// Names of the tools that the session's agents have so far. They stay: what follows for a call
    /// hangs on them.
    tools: BTreeSet<String>,
}

impl<'r> Redactor<'r> {
    /// For a session from its first event on.
    pub fn new(rules: &'r Rules) -> Self {
        Self { rules, tools: BTreeSet::new() }
    }

    /// Applies the rules to the next event. `blobs` holds its payloads.
    ///
    /// # Errors
    /// [`CodecError`] for an event that this release cannot read.
    pub fn redact(&mut self, event: StoredEvent, blobs: Blobs) -> Result<Redacted, CodecError> {
        let mut body = codec::decode(&event.kind, event.schema, &event.body)?;
        codec::attach(&mut body, &mut |address| {
            let (_, bytes) = blobs.iter().find(|(it, _)| it == address)?;
            String::from_utf8(bytes.clone()).ok()
        });
        self.note_tools(&body);
        let mut pointers = self.redact_fields(&mut body);
        pointers.extend(forget_tokens(&mut body));
        let mut kept = Vec::new();
        if redact_full_output(self.rules, &mut body, &blobs, &mut kept) {
            pointers.push(fields::FULL_OUTPUT.to_owned());
        }
        if pointers.is_empty() {
            let left = left::places(self.rules, &event, &blobs);
            return Ok(Redacted { event, blobs, pointers, left });
        }
        codec::detach(&mut body, &mut |address, payload| {
            kept.push((address.to_owned(), payload.as_bytes().to_vec()));
        });
        let event = StoredEvent { body: codec::encode(&body)?, schema: EVENT_SCHEMA, ..event };
        let left = left::places(self.rules, &event, &kept);
        Ok(Redacted { event, blobs: kept, pointers, left })
    }

    fn note_tools(&mut self, body: &EventBody) {
        let agent = if let EventBody::SessionCreated(it) = body {
            Some(&it.agent)
        } else if let EventBody::OverrideApplied(it) = body {
            it.agent.as_ref()
        } else {
            None
        };
        let names = agent.into_iter().flat_map(|agent| agent.tools.iter().map(|it| &it.name));
        self.tools.extend(names.cloned());
    }

    /// Takes out what the rules want; where that was.
    fn redact_fields(&self, body: &mut EventBody) -> Vec<String> {
        let (rules, kind) = (self.rules, body.kind());
        let mut pointers = Vec::new();
        for_each_field(body, &mut |pointer, field| {
            let whole_rule = rules.whole(kind, pointer);
            let changed = match field {
                Field::Text(text) => redact_text(rules, whole_rule, text),
                Field::Plain(text) => replace(text, |it| redact_str(rules, whole_rule, it)),
                Field::Tool(name) if self.tools.contains(name) => false,
                Field::Tool(name) => replace(name, |it| rules.without_secrets(it)),
                Field::Arguments(text) => redact_arguments(rules, whole_rule, text),
                Field::Json(json) => json::redact(rules, whole_rule, json),
            };
            if changed {
                pointers.push(pointer.to_owned());
            }
        });
        pointers
    }
}

/// Takes out what token ids and a few tokens in words say: they are the texts once more, in pieces in
/// which no rule finds anything. What came of the comparison stays.
fn forget_tokens(body: &mut EventBody) -> Vec<String> {
    let mut pointers = Vec::new();
    if let EventBody::ModelReplied(ModelReplied { tokens: Some(tokens), .. }) = body {
        for (name, ids) in [("prompt", &mut tokens.prompt), ("generated", &mut tokens.generated)] {
            if ids.bytes() > 0 {
                *ids = Text::default();
                pointers.push(format!("/tokens/{name}"));
            }
        }
        if let Some(broke) = &mut tokens.broke {
            broke.expected_text.clear();
            broke.found_text.clear();
        }
    }
    pointers
}

/// The new text, when something had to go. An empty text has nothing to hide.
fn redact_str(rules: &Rules, whole_rule: Option<&str>, text: &str) -> Option<String> {
    match whole_rule {
        Some(_) if text.is_empty() => None,
        Some(rule) => Some(marker(rule, text.as_bytes())),
        None => rules.without_secrets(text),
    }
}

fn replace(text: &mut String, new: impl FnOnce(&str) -> Option<String>) -> bool {
    let new = new(text);
    let changed = new.is_some();
    if let Some(new) = new {
        *text = new;
    }
    changed
}

fn redact_text(rules: &Rules, whole_rule: Option<&str>, text: &mut Text) -> bool {
    let new = text.whole().and_then(|it| redact_str(rules, whole_rule, it));
    let changed = new.is_some();
    if let Some(new) = new {
        *text = Text::from(new);
    }
    changed
}

/// Arguments are JSON in a text; they stay JSON, so that what reads them still can. Those that are
/// none are treated as any text.
fn redact_arguments(rules: &Rules, whole_rule: Option<&str>, text: &mut Text) -> bool {
    let Some(whole) = text.whole() else { return false };
    let Ok(mut json) = JsonText::parse(whole) else {
        return redact_text(rules, whole_rule, text);
    };
    let changed = json::redact(rules, whole_rule, &mut json);
    if changed {
        *text = Text::from(json.as_str());
    }
    changed
}

/// The whole output beside a shortened one. Bytes that are no text cannot be searched, so they go
/// whole.
fn redact_full_output(
    rules: &Rules,
    body: &mut EventBody,
    blobs: &[(String, Vec<u8>)],
    kept: &mut Blobs,
) -> bool {
    let kind = body.kind();
    let EventBody::ToolFinished(it) = body else { return false };
    let Some(blob) = &mut it.full_output else { return false };
    // A fixture leaves it out; its preview must not stay.
    let found = blobs.iter().find(|(address, _)| *address == blob.blob);
    let rule = rules.whole(kind, fields::FULL_OUTPUT);
    let new = match found.map(|(_, bytes)| (bytes, str::from_utf8(bytes))) {
        None => rules.whole_or_secrets(rule, &blob.preview),
        Some((_, Ok(text))) => redact_str(rules, rule, text),
        Some((bytes, Err(_))) => Some(marker(rule.unwrap_or(BINARY), bytes)),
    };
    match (new, found) {
        (Some(text), Some(_)) => {
            *blob = codec::blob_ref(&text);
            kept.push((blob.blob.clone(), text.into_bytes()));
            true
        }
        (Some(preview), None) => {
            blob.preview = preview;
            true
        }
        (None, Some(found)) => {
            kept.push(found.clone());
            false
        }
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests;
