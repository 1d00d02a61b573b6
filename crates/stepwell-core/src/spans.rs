//! The span tree of a session, computed from its events.
//!
//! Session > step > model call and tool calls > attempts, with approvals and waits below what waits.
//! [`SpanIndex`] gives any window of it without the rest.
//! Good for any order of events and for histories that were cut: what did not end is `open`, what
//! names an unknown parent makes it up, and nothing is left out.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::ids::{Seq, TimestampMs};

mod build;
mod forest;
mod fork;
mod index;
mod recent;
pub mod records;
mod sequence;
mod sum;
#[cfg(test)]
mod tests;
mod timeline;
mod tree;

pub use forest::DEPTH_LIMIT_MAX;
pub use index::{Row, SpanIndex, TooDeep, View};

/// An interval of a session. Times are wall time; an end is never before its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Unique within the session and the same on every computation, for example `call:3.1`.
    pub span_id: String,
    /// The span around it; `None` for the session.
    pub parent: Option<String>,
    /// 0 for the session.
    pub depth: u32,
    /// What it is.
    pub kind: SpanKind,
    /// Title, tool, model, or what is waited for.
    pub name: String,
    /// When it began.
    pub start: TimestampMs,
    /// When it ended; `None` while it is open.
    pub end: Option<TimestampMs>,
    /// Its first event.
    pub first_seq: Seq,
    /// The last event that belongs to it or to a span below it.
    pub last_seq: Seq,
    /// How it stands.
    pub status: SpanStatus,
    /// Short text: tokens, worker, reason.
    pub detail: String,
}

/// What a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// All of it.
    Session,
    /// One model decision and the outcomes of its calls.
    Step,
    /// Asking the model.
    ModelCall,
    /// One of several attempts of a model call or a tool call.
    Attempt,
    /// A tool call, from the model's wish to the outcome.
    ToolCall,
    /// A question to a person.
    Approval,
    /// A timer, a pause, or the wait for a message.
    Wait,
}

impl SpanKind {
    /// The stored name, for example `tool_call`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Step => "step",
            Self::ModelCall => "model_call",
            Self::Attempt => "attempt",
            Self::ToolCall => "tool_call",
            Self::Approval => "approval",
            Self::Wait => "wait",
        }
    }
}

/// How a span stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanStatus {
    /// It did not end yet.
    Open,
    /// It ended well.
    Ok,
    /// It ended with an error.
    Error,
    /// Its worker is gone.
    Lost,
    /// A person or a rule said no.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// It ended because the session was cancelled, or because nobody needed it any more.
    Cancelled,
    /// A limit ended it.
    LimitReached,
}

impl SpanStatus {
    /// The stored name, for example `limit_reached`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Lost => "lost",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::LimitReached => "limit_reached",
        }
    }
}

/// The spans of a session in pre-order: each after the span around it, siblings as they began.
/// Empty without events. O(events × log events).
pub fn spans<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<Span> {
    let index = SpanIndex::of(events);
    index.rows(0, index.len()).into_iter().map(|row| row.span).collect()
}

/// Adds a piece to a text of pieces.
fn add_detail(detail: &mut String, piece: &str) {
    if piece.is_empty() {
        return;
    }
    if !detail.is_empty() {
        detail.push_str("; ");
    }
    detail.push_str(piece);
}

/// `TOTAL tokens (CACHED cached)`.
fn tokens(usage: &crate::event::Usage) -> String {
    let base = format!("{} + {} tokens", usage.prompt_tokens, usage.completion_tokens);
    if usage.cached_tokens == 0 { base } else { format!("{base} ({} cached)", usage.cached_tokens) }
}

/// One line of a text that may be long.
fn one_line(text: &str) -> String {
    const BYTES_MAX: usize = 120;
    let line = text.trim().lines().next().unwrap_or_default();
    let short = crate::text::prefix(line, BYTES_MAX);
    if short.len() < text.trim().len() { format!("{short} …") } else { short.to_string() }
}
