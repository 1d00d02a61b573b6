//! What can be wrong with a file, each with its place and what to do.

use std::fmt;
use std::io;

use stepwell_core::Seq;

use crate::limits::WINDOW_LOG_MAX;
use crate::line::VERSION;

/// Where in a file: the line, counted from 1 in the unpacked text, and the event it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The event that stands there, or that was expected there.
    pub seq: Seq,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, seq } = self;
        if seq.0 == 0 { write!(f, "line {line}") } else { write!(f, "line {line} (event {seq})") }
    }
}

/// What to do about damage, the same for all of it.
const FETCH: &str = "copy the file again, or export the session again";

fn cut_off(place: Place, is_packed: bool) -> String {
    if !is_packed {
        return format!("the file is cut off at {place}");
    }
    let read = match (place.line.saturating_sub(1), place.seq.0) {
        (0, _) => "none of its lines can be read".to_owned(),
        (_, 0) => "all its events can be read, what follows them is cut off".to_owned(),
        (_, 1) => "none of its events can be read".to_owned(),
        (lines, seq) => format!("{lines} of its lines can be read, up to event {}", seq - 1),
    };
    format!("the compressed file ends too early: {read}")
}

/// Why a file is not accepted. Nothing of it can be trusted then.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file cannot be read.
    #[error("{place}: the file cannot be read: {source}")]
    Io {
        /// Where reading had come to.
        place: Place,
        /// What the system said.
        source: io::Error,
    },
    /// It is something else.
    #[error("this is no exported session: {reason}; stepwell export ID -o FILE.stepwell makes one")]
    Foreign {
        /// What it begins with.
        reason: String,
    },
    /// A newer release wrote it, in a format that this one does not know.
    #[error(
        "line 1: the file has version {found} of the format, this release reads up to {VERSION}: \
         use the newer release"
    )]
    NewerFormat {
        /// Its version.
        found: u32,
    },
    /// An event of a newer release.
    #[error("{place}: {reason}")]
    NewerEvent {
        /// Where.
        place: Place,
        /// Which type and schema, and what to do.
        reason: String,
    },
    /// The end is missing.
    #[error("{}: {FETCH}", cut_off(*.place, *.is_packed))]
    Cut {
        /// The line that is missing or not whole.
        place: Place,
        /// Compressed: lines are packed together, so more than the last of them may be lost.
        is_packed: bool,
    },
    /// The compressed data cannot be unpacked, or is not what was written.
    #[error("{place}: the compressed data is damaged here or shortly before ({reason}): {FETCH}")]
    BadData {
        /// The line that could not be unpacked.
        place: Place,
        /// What the decoder says.
        reason: String,
    },
    /// A line that is not what the format says.
    #[error("{place} is damaged: {reason}: {FETCH}")]
    BadLine {
        /// Where.
        place: Place,
        /// What is wrong with it.
        reason: String,
    },
    /// An event is not there.
    #[error("{place}: event {expected} is missing, event {found} follows: {FETCH}")]
    Missing {
        /// The line where it should be.
        place: Place,
        /// The missing one.
        expected: Seq,
        /// The one that stands there.
        found: Seq,
    },
    /// An event at the wrong place.
    #[error("{place}: event {found} stands where event {expected} is next: {FETCH}")]
    Swapped {
        /// Where.
        place: Place,
        /// The next one.
        expected: Seq,
        /// The one that stands there.
        found: Seq,
    },
    /// An event whose content is not the one that was written.
    #[error(
        "{place}: the event was changed, or one before it was changed or removed: its hash is \
         {found}, the file says {expected}: {FETCH}"
    )]
    Changed {
        /// Where.
        place: Place,
        /// Hash in the file.
        expected: String,
        /// Hash of what stands there.
        found: String,
    },
    /// A payload that is not the one that the event names.
    #[error("{place}: payload {address}: {reason}: {FETCH}")]
    BadBlob {
        /// Where.
        place: Place,
        /// The address.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Larger than this reader allows.
    #[error(
        "{place}: {what} has more than {limit} bytes, the most that is read here: do not trust the \
         file unless you know where it comes from"
    )]
    TooLarge {
        /// Where.
        place: Place,
        /// What is too large.
        what: &'static str,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A frame that asks for too much memory.
    #[error(
        "{place}: unpacking would need a window of more than 2^{WINDOW_LOG_MAX} bytes, which no \
         export asks for: do not trust the file"
    )]
    WindowTooLarge {
        /// Where.
        place: Place,
    },
    /// Something follows the end.
    #[error("{place}: something follows the end of the session: {FETCH}")]
    Trailing {
        /// The line after the last one.
        place: Place,
    },
}

impl ArchiveError {
    /// Where, as far as there is a place.
    pub fn place(&self) -> Place {
        match self {
            Self::Foreign { .. } | Self::NewerFormat { .. } => Place { line: 1, seq: Seq(0) },
            Self::Io { place, .. }
            | Self::NewerEvent { place, .. }
            | Self::Cut { place, .. }
            | Self::BadData { place, .. }
            | Self::BadLine { place, .. }
            | Self::Missing { place, .. }
            | Self::Swapped { place, .. }
            | Self::Changed { place, .. }
            | Self::BadBlob { place, .. }
            | Self::TooLarge { place, .. }
            | Self::WindowTooLarge { place }
            | Self::Trailing { place } => *place,
        }
    }
}
