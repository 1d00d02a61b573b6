//! The only place where wire types meet core types.
//!
//! What comes in is checked field by field ([`BadField`] names the field); what goes out cannot
//! fail.

mod decisions;
mod deletion;
mod digest;
mod forks;
mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;

pub(crate) use decisions::{ApprovalQuery, Ruling};
pub use deletion::DELETE_MAX;
pub(crate) use deletion::{Deletion, Outcome, deleted};
pub(crate) use forks::Forking;
pub(crate) use incoming::{
    AgentChoice, Creation, Message, SessionQuery, Stop, blob_address, definition, page_rows,
};
pub(crate) use outgoing::{
    account, agent_record, approval, chunk, event, open_calls, redaction, session, span, time,
    tool, worker,
};

/// Largest task, message or tool result that a person hands in, in bytes.
pub const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Largest arguments that a person puts in the place of the model's, in bytes.
pub const ARGUMENTS_BYTES_MAX: usize = 1024 * 1024;

/// Longest title, in bytes: it stands in every list row.
pub const TITLE_BYTES_MAX: usize = 512;

/// Labels of one session: they are compared one by one when a list is filtered.
pub const LABELS_MAX: usize = 64;

/// Longest key of a label, in bytes.
pub const LABEL_KEY_BYTES_MAX: usize = 128;

/// Longest value of a label, in bytes.
pub const LABEL_VALUE_BYTES_MAX: usize = 1024;

/// Longest key of a client, in bytes: it stands in an index for ever.
pub const CLIENT_KEY_BYTES_MAX: usize = 256;

/// Longest name of a person or client, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// Longest reason, in bytes: the model is shown it, and it stands in list rows.
pub const REASON_BYTES_MAX: usize = 16 * 1024;

/// Rows of a page when the caller does not say.
pub const PAGE_ROWS_DEFAULT: usize = 100;

/// A request that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct BadField {
    /// Path of the field in the request, for example `labels["team"]`.
    pub field: String,
    /// What is wrong and what to do about it.
    pub problem: String,
}

impl BadField {
    /// A problem with that field.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// Refuses a text with more than `bytes_max` bytes.
pub(crate) fn expect_short(field: &str, text: &str, bytes_max: usize) -> Result<(), BadField> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    Err(BadField::new(field, format!("has {} bytes, at most {bytes_max}", text.len())))
}

/// A text that stands on one line of lists: short, and without characters that would break it or
/// act on a terminal.
pub(crate) fn line(field: &str, text: String, bytes_max: usize) -> Result<String, BadField> {
    expect_short(field, &text, bytes_max)?;
    match text.chars().find(|it| it.is_control()) {
        Some(control) => Err(BadField::new(
            field,
            format!("holds the control character {control:?}: leave it out"),
        )),
        None => Ok(text),
    }
}
