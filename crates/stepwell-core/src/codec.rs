//! The stored form of events, and how older forms are read.
//!
//! An event is stored as its type name, its schema number and the JSON of its content. Golden files
//! under `tests/golden/events/v<N>/` are decoded by the tests for ever.
//!
//! To change an event: raise [`EVENT_SCHEMA`], add a step to `upcast`, add golden files. A field may
//! be added without that when it has a documented default and old readers may ignore it.

use alloc::string::String;
use alloc::vec::Vec;

use crate::event::{Edit, EventBody, EventKind, ModelReplied};
use crate::text::{BlobRef, INLINE_BYTES_MAX, PREVIEW_BYTES_MAX, Text, prefix};

/// Schema that [`encode`] writes.
pub const EVENT_SCHEMA: u16 = 3;

/// A stored event that cannot be read. Its session is quarantined, never the process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Written by a newer release.
    #[error(
        "the event {kind} has schema {found}, this release reads up to {EVENT_SCHEMA}: \
         use the newer release again"
    )]
    FromTheFuture {
        /// Type name.
        kind: String,
        /// Its schema number.
        found: u16,
    },
    /// A type that this release does not know.
    #[error("unknown event type {kind:?}: it was written by another release")]
    UnknownKind {
        /// Type name.
        kind: String,
    },
    /// The content does not fit its type.
    #[error("the event {kind} is damaged: {reason}")]
    Damaged {
        /// Type name.
        kind: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The stored JSON of an event's content.
pub fn encode(body: &EventBody) -> Result<String, CodecError> {
    body.to_json().map_err(|error| damaged(body.kind().as_str(), &error))
}

/// Reads an event written by this or any earlier release.
pub fn decode(kind: &str, schema: u16, json: &str) -> Result<EventBody, CodecError> {
    if schema > EVENT_SCHEMA {
        return Err(CodecError::FromTheFuture { kind: kind.into(), found: schema });
    }
    let known =
        EventKind::from_name(kind).ok_or_else(|| CodecError::UnknownKind { kind: kind.into() })?;
    EventBody::from_json(known, json).map_err(|error| damaged(kind, &error))
}

fn damaged(kind: &str, error: &serde_json::Error) -> CodecError {
    CodecError::Damaged { kind: kind.into(), reason: alloc::format!("{error}") }
}

/// Moves every payload above [`INLINE_BYTES_MAX`] out of `body`: `keep` is given its bytes and the
/// event keeps address, size and preview.
pub fn detach(body: &mut EventBody, keep: &mut dyn FnMut(&str, &str)) {
    for_each_text(body, &mut |text| {
        if let Text::Whole(whole) = text
            && whole.len() > INLINE_BYTES_MAX
        {
            let blob = blob_ref(whole);
            keep(&blob.blob, whole);
            *text = Text::Detached(blob);
        }
    });
}

/// Address, size and preview of a payload.
pub fn blob_ref(payload: &str) -> BlobRef {
    BlobRef {
        blob: blake3::hash(payload.as_bytes()).to_hex().as_str().into(),
        bytes: payload.len() as u64,
        preview: prefix(payload, PREVIEW_BYTES_MAX).into(),
    }
}

/// Puts detached payloads back. `find` gives the payload of an address, or `None` to leave it out.
pub fn attach(body: &mut EventBody, find: &mut dyn FnMut(&str) -> Option<String>) {
    for_each_text(body, &mut |text| {
        if let Text::Detached(blob) = text
            && let Some(whole) = find(&blob.blob)
        {
            *text = Text::from(whole);
        }
    });
}

/// Whether all payloads are here.
pub fn is_whole(body: &mut EventBody) -> bool {
    let mut whole = true;
    for_each_text(body, &mut |text| whole &= text.whole().is_some());
    whole
}

fn for_each_text_of_reply(reply: &mut ModelReplied, visit: &mut dyn FnMut(&mut Text)) {
    visit(&mut reply.content);
    visit(&mut reply.reasoning);
    for call in &mut reply.tool_calls {
        visit(&mut call.arguments);
        if let Some(repaired) = &mut call.repaired {
            visit(&mut repaired.raw);
        }
    }
    if let Some(tokens) = &mut reply.tokens {
        visit(&mut tokens.prompt);
        visit(&mut tokens.generated);
        if let Some(text) = &mut tokens.text {
            visit(text);
        }
    }
}

/// A payload that lies beside its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// Address, size and preview.
    pub blob: BlobRef,
    /// It is a text of the event, without which the event cannot be applied. Else it is the whole
    /// output beside a shortened one, which nothing is computed from.
    pub is_text: bool,
}

/// Every payload that lies beside the event.
pub fn payloads(body: &mut EventBody) -> Vec<Payload> {
    let mut found = Vec::new();
    for_each_text(body, &mut |text| {
        if let Text::Detached(blob) = text {
            found.push(Payload { blob: blob.clone(), is_text: true });
        }
    });
    if let EventBody::ToolFinished(it) = body
        && let Some(blob) = &it.full_output
    {
        found.push(Payload { blob: blob.clone(), is_text: false });
    }
    // The same payload in two fields is one payload, and a text.
    let mut once: Vec<Payload> = Vec::with_capacity(found.len());
    for payload in found {
        if !once.iter().any(|it| it.blob.blob == payload.blob.blob) {
            once.push(payload);
        }
    }
    once
}

/// The one list of payload fields.
fn for_each_text(body: &mut EventBody, visit: &mut dyn FnMut(&mut Text)) {
    match body {
        EventBody::SessionCreated(it) => visit(&mut it.task),
        EventBody::ModelReplied(it) => for_each_text_of_reply(it, visit),
        EventBody::ToolFinished(it) => visit(&mut it.output),
        EventBody::ApprovalDecided(it) => {
            if let Some(output) = &mut it.output {
                visit(output);
            }
        }
        EventBody::MessageReceived(it) => visit(&mut it.content),
        EventBody::OverrideApplied(it) => it.edits.iter_mut().for_each(|edit| match edit {
            Edit::ToolResult { output: text, .. } | Edit::Message { content: text } => visit(text),
            Edit::ModelReply(reply) => for_each_text_of_reply(reply, visit),
            Edit::Arguments { .. } => {}
        }),
        EventBody::ModelFailed(_)
        | EventBody::ToolDispatched(_)
        | EventBody::ToolLost(_)
        | EventBody::TimerFired(_)
        | EventBody::CancelRequested(_)
        | EventBody::PauseRequested(_)
        | EventBody::ResumeRequested(_)
        | EventBody::ModelRequested(_)
        | EventBody::ToolScheduled(_)
        | EventBody::ToolRefused(_)
        | EventBody::ApprovalRequested(_)
        | EventBody::TimerStarted(_)
        | EventBody::SessionFinished(_) => {}
    }
}
