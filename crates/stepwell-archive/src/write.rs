//! Writes a session into a file, event by event.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use stepwell_core::codec::{self, CodecError, Payload};
use stepwell_core::{Actor, Seq};
use stepwell_ports::StoredEvent;

use crate::chain::Chain;
use crate::limits::{BLOB_BYTES_MAX, ESCAPE_FACTOR, EVENT_BYTES_MAX};
use crate::line::{BlobLine, End, EventLine, Header, Seal};
use crate::pack::{Hashing, Packer};

/// Plain or compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON lines that can be read and compared as they are.
    Plain,
    /// The same in zstd.
    Packed,
}

/// Why a session cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file cannot be written.
    #[error("the file cannot be written: {0}")]
    Io(#[from] io::Error),
    /// The history has a gap: it is damaged where it comes from.
    #[error(
        "event {found} follows event {last}: the history is damaged where it is stored, and cannot \
         be exported; stepwell doctor says more"
    )]
    Gap {
        /// The last one that was written.
        last: Seq,
        /// The one that came.
        found: Seq,
    },
    /// An event that cannot be read.
    #[error("event {seq} cannot be exported: {reason}")]
    Unreadable {
        /// Which.
        seq: Seq,
        /// Why.
        reason: String,
    },
    /// A payload is missing or is not what its address says.
    #[error("event {seq}: payload {address} {reason}")]
    BadBlob {
        /// The event that needs it.
        seq: Seq,
        /// Its address.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// Larger than a reader accepts.
    #[error("event {seq}: {what} has {bytes} bytes, an exported file holds at most {limit}")]
    TooLarge {
        /// The event.
        seq: Seq,
        /// What is too large.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}

/// The payloads that lie beside a stored event: what a writer must be given with it.
///
/// # Errors
/// [`CodecError`] for an event that this release cannot read.
pub fn payloads_of(event: &StoredEvent) -> Result<Vec<Payload>, CodecError> {
    let mut body = codec::decode(&event.kind, event.schema, &event.body)?;
    Ok(codec::payloads(&mut body))
}

/// A file that is being written. Dropped before [`Writer::finish`], it has no end, and every reader
/// refuses it.
pub struct Writer<W: Write> {
    lines: Hashing<Packer<W>>,
    chain: Chain,
    is_fixture: bool,
}

impl<W: Write> Writer<W> {
    /// Begins a file with its header.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn new(sink: W, form: Form, header: &Header) -> Result<Self, WriteError> {
        let packer = match form {
            Form::Plain => Packer::Plain(sink),
            Form::Packed => Packer::packed(sink)?,
        };
        let mut writer = Self {
            lines: Hashing::new(packer),
            chain: Chain::new(header.session_id),
            is_fixture: header.fixture,
        };
        writer.line(header)?;
        Ok(writer)
    }

    /// Writes the next event, after the payloads that it needs. In a fixture those that replay does
    /// not need may be left out. `redacted` are JSON pointers to the texts that were removed.
    ///
    /// # Errors
    /// [`WriteError`]; the file cannot be finished then.
    pub fn event(
        &mut self,
        event: &StoredEvent,
        blobs: &[(String, Vec<u8>)],
        redacted: &[String],
    ) -> Result<(), WriteError> {
        let (last, seq) = (Seq(self.chain.count()), event.seq);
        if seq != last.next() {
            return Err(WriteError::Gap { last, found: seq });
        }
        check_size(seq, "its body", event.body.len() as u64, EVENT_BYTES_MAX)?;
        let unreadable = |reason: String| WriteError::Unreadable { seq, reason };
        event.actor.parse::<Actor>().map_err(|error| unreadable(error.to_string()))?;
        let payloads = payloads_of(event).map_err(|error| unreadable(error.to_string()))?;
        for payload in &payloads {
            match blobs.iter().find(|(address, _)| *address == payload.blob.blob) {
                Some((_, bytes)) => self.blob(seq, payload, bytes)?,
                None if self.is_fixture && !payload.is_text => {}
                None => return Err(bad_blob(seq, payload, "was not found")),
            }
        }
        let chain = self.chain.add(event);
        self.line(&EventLine {
            line: "event".into(),
            seq: seq.0,
            time_ms: event.time.0,
            cause: event.cause.0,
            actor: Cow::Borrowed(&event.actor),
            kind: Cow::Borrowed(&event.kind),
            schema: event.schema,
            body: Cow::Borrowed(&event.body),
            chain: chain.into(),
            redacted: redacted.to_vec(),
        })
    }

    fn blob(&mut self, seq: Seq, payload: &Payload, bytes: &[u8]) -> Result<(), WriteError> {
        let address = &payload.blob.blob;
        check_size(seq, "a payload", bytes.len() as u64, BLOB_BYTES_MAX)?;
        if blake3::hash(bytes).to_hex().as_str() != address {
            return Err(bad_blob(seq, payload, "has other bytes than its address says"));
        }
        if bytes.len() as u64 != payload.blob.bytes {
            return Err(bad_blob(seq, payload, "has another size than the event says"));
        }
        let text = str::from_utf8(bytes).ok();
        if payload.is_text && text.is_none() {
            return Err(bad_blob(seq, payload, "is no text"));
        }
        let text = text.filter(|text| is_mostly_plain(text));
        let hex = if text.is_none() { Some(to_hex(bytes).into()) } else { None };
        self.line(&BlobLine {
            line: "blob".into(),
            blob: Cow::Borrowed(address),
            bytes: bytes.len() as u64,
            text: text.map(Cow::Borrowed),
            hex,
        })
    }

    /// Writes the end. `original_head` is the head of the chain before redaction.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn finish(mut self, original_head: Option<String>) -> Result<(W, End), WriteError> {
        let end = End {
            line: "end".to_owned(),
            events: self.chain.count(),
            head: self.chain.head(),
            original_head,
        };
        self.line(&end)?;
        let blake3 = self.lines.hasher.finalize().to_hex().to_string();
        self.line(&Seal { line: "seal".to_owned(), blake3 })?;
        Ok((self.lines.sink.finish()?, end))
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), WriteError> {
        let mut text = serde_json::to_vec(line).map_err(io::Error::from)?;
        text.push(b'\n');
        Ok(self.lines.write_all(&text)?)
    }
}

fn check_size(seq: Seq, what: &'static str, bytes: u64, limit: u64) -> Result<(), WriteError> {
    if bytes > limit {
        return Err(WriteError::TooLarge { seq, what, bytes, limit });
    }
    Ok(())
}

fn bad_blob(seq: Seq, payload: &Payload, reason: &str) -> WriteError {
    WriteError::BadBlob { seq, address: payload.blob.blob.clone(), reason: reason.to_owned() }
}

/// Whether a text written as JSON stays within the bound that readers set.
fn is_mostly_plain(text: &str) -> bool {
    let extra: u64 = text
        .bytes()
        .map(|it| match it {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
            0..=31 => 5,
            32..=255 => 0,
        })
        .sum();
    extra <= (ESCAPE_FACTOR - 1) * text.len() as u64
}

/// Bytes as small hex digits.
fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
