//! Takes texts out of events before they are exported, and leaves a marker that says how much and
//! which bytes were there.
//!
//! Only texts that people, models and tools wrote are touched ([`FIELDS`]): ids, names of tools and
//! workers, kinds, counts, times and digests stay, so that a redacted session can still be applied. What
//! is left is searched once more as it is written, whatever it is, and told: see [`Redacted::left`].

mod built_in;
mod cuts;
mod fields;
mod json;
mod left;
mod rules;
mod shown;
mod together;

use std::collections::BTreeSet;

use stepwell_core::codec::{self, CodecError, EVENT_SCHEMA};
use stepwell_core::event::{Family, ModelReplied};
use stepwell_core::{EventBody, EventKind, JsonText, Text};
use stepwell_ports::StoredEvent;

pub use built_in::BUILT_IN;
pub use fields::FIELDS;
use fields::{Field, TITLE, for_each_field};
use rules::{BINARY, FieldRule, WHOLE_FIELD};
pub use rules::{Rules, RulesError};
use shown::Shown;
pub use stepwell_core::marker::{holds_marker, marker};
use together::Removed;
pub use together::TOGETHER;

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
    /// What the engine may say again.
    removed: Removed,
    /// Rules for whole fields that removed something.
    used: BTreeSet<FieldRule>,
}

impl<'r> Redactor<'r> {
    /// For a session from its first event on.
    pub fn new(rules: &'r Rules) -> Self {
        let (tools, used) = (BTreeSet::new(), BTreeSet::new());
        Self { rules, tools, removed: Removed::default(), used }
    }

    /// The rules for whole fields that found nothing to remove, as type and pointer.
    pub fn unused(&self) -> Vec<String> {
        let unused = self.rules.fields().filter(|(rule, _)| !self.used.contains(rule));
        unused.map(|(_, words)| words).collect()
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
        let shown = Shown::of(&body, &blobs);
        let mut pointers = self.redact_fields(&mut body, &shown);
        pointers.extend(forget_tokens(&mut body));
        let mut kept = Vec::new();
        if self.redact_full_output(&mut body, &blobs, &mut kept) {
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
        let names =
            body.agent().into_iter().flat_map(|agent| agent.tools.iter().map(|it| &it.name));
        self.tools.extend(names.cloned());
    }

    /// Takes out what the rules want; where that was.
    fn redact_fields(&mut self, body: &mut EventBody, shown: &Shown) -> Vec<String> {
        let (rules, kind) = (self.rules, body.kind());
        let is_said_again = kind.family() == Family::Decision;
        let mut pointers = Vec::new();
        for_each_field(body, &mut |pointer, field| {
            let whole_rule = self.goes_whole(kind, pointer, shown).then_some(WHOLE_FIELD);
            let original = whole_rule.and(field.short_text()).map(str::to_owned);
            let changed = match field {
                Field::Text(text) => redact_text(rules, whole_rule, text, shown.whole_of(pointer)),
                Field::Plain(text) => replace(text, |it| match whole_rule {
                    None if is_said_again => rules.without_repeated(it, &self.removed),
                    None | Some(_) => redact_part(rules, whole_rule, it, shown.whole_of(pointer)),
                }),
                Field::Tool(name) if self.tools.contains(name) => false,
                Field::Tool(name) => replace(name, |it| rules.without_secrets(it)),
                Field::Arguments(text) => redact_arguments(rules, whole_rule, text),
                Field::Json(json) => json::redact(rules, whole_rule, json),
            };
            if changed {
                pointers.push(pointer.to_owned());
                self.used.extend(rules.naming(kind, pointer));
                if let Some(text) = original {
                    self.removed.note(text);
                }
            }
        });
        pointers
    }

    /// A title that a person gave is no part of the task.
    fn goes_whole(&self, kind: EventKind, pointer: &str, shown: &Shown) -> bool {
        if pointer == TITLE && !shown.is_title_of_task {
            return self.rules.naming(kind, pointer).next().is_some();
        }
        self.rules.is_whole(kind, pointer)
    }

    /// The whole output beside a shortened one. Bytes that are no text cannot be searched, so they go
    /// whole.
    fn redact_full_output(
        &mut self,
        body: &mut EventBody,
        blobs: &[(String, Vec<u8>)],
        kept: &mut Blobs,
    ) -> bool {
        let kind = body.kind();
        let EventBody::ToolFinished(it) = body else { return false };
        let Some(blob) = &mut it.full_output else { return false };
        let Some(found) = blobs.iter().find(|(address, _)| *address == blob.blob) else {
            // Nobody has the rest of it, so a secret that goes on there would not be found.
            let has_preview = !blob.preview.is_empty();
            blob.preview.clear();
            return has_preview;
        };
        let is_whole = self.rules.is_whole(kind, fields::FULL_OUTPUT);
        let whole_rule = is_whole.then_some(WHOLE_FIELD);
        let new = match str::from_utf8(&found.1) {
            Ok(text) => redact_str(self.rules, whole_rule, text),
            Err(_) => Some(marker(whole_rule.unwrap_or(BINARY), &found.1)),
        };
        let changed = new.is_some();
        if let Some(text) = new {
            *blob = codec::blob_ref(&text);
            kept.push((blob.blob.clone(), text.into_bytes()));
            self.used.extend(self.rules.naming(kind, fields::FULL_OUTPUT));
        } else {
            kept.push(found.clone());
        }
        changed
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

/// Of a text that is perhaps only a part of another one.
fn redact_part(
    rules: &Rules,
    whole_rule: Option<&str>,
    text: &str,
    whole: Option<&str>,
) -> Option<String> {
    match (whole_rule, whole) {
        (None, Some(whole)) => rules.without_secrets_of(text, whole),
        (Some(_), Some(_)) | (_, None) => redact_str(rules, whole_rule, text),
    }
}

fn redact_text(
    rules: &Rules,
    whole_rule: Option<&str>,
    text: &mut Text,
    whole: Option<&str>,
) -> bool {
    let new = text.whole().and_then(|it| redact_part(rules, whole_rule, it, whole));
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
        return redact_text(rules, whole_rule, text, None);
    };
    let changed = json::redact(rules, whole_rule, &mut json);
    if changed {
        *text = Text::from(json.as_str());
    }
    changed
}

#[cfg(test)]
mod tests;
