//! Reads a file and checks everything before it hands it out.

use std::io::Read;

use stepwell_core::codec::{self, CodecError};
use stepwell_core::{Actor, Event, EventBody, Seq, TimestampMs};
use stepwell_ports::{Redaction, StoredEvent};

use crate::chain::Chain;
use crate::error::ArchiveError;
use crate::limits::Limits;
use crate::line::{AnyHeader, BlobLine, End, EventLine, FORMAT, Header, LineKind, Seal, VERSION};
use crate::source::Source;

/// Payloads: address and bytes.
type Blobs = Vec<(String, Vec<u8>)>;

/// An event of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its line in the unpacked text, from 1.
    pub line: u64,
    /// The event with its payloads put back.
    pub event: Event,
    /// The event exactly as it was stored.
    pub stored: StoredEvent,
    /// Its payloads: address and bytes.
    pub blobs: Vec<(String, Vec<u8>)>,
    /// Its hash in the chain.
    pub chain: String,
    /// Texts that were removed before the export, as JSON pointers into the body: what depends on
    /// them cannot be checked.
    pub redacted: Vec<String>,
    /// Addresses of payloads that a fixture leaves out; nothing that replay needs.
    pub left_out: Vec<String>,
}

/// A file that is being read.
pub struct Reader<R: Read> {
    source: Source<R>,
    header: Header,
    chain: Chain,
    /// Payloads for the next event.
    blobs: Blobs,
    blob_bytes: u64,
    limits: Limits,
    end: Option<End>,
}

impl<R: Read> Reader<R> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn open(file: R, limits: Limits) -> Result<Self, ArchiveError> {
        let mut source = Source::open(file, limits)?;
        source.next_line()?;
        let header = read_header(&source.line)?;
        source.count_line();
        source.seq = Seq(1);
        let chain = Chain::new(header.session_id);
        let blobs = Vec::new();
        Ok(Self { source, header, chain, blobs, blob_bytes: 0, limits, end: None })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The end of the file, once [`Reader::next_item`] gave `None`.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// What was taken out of the session, once the file was read to its end.
    pub fn redaction(&self) -> Option<Redaction> {
        let end = self.end.as_ref().filter(|_| self.header.redacted)?;
        Some(Redaction { last: Seq(end.events), original_head: end.original_head.clone() })
    }

    /// The next event; `None` at the end, when the whole file was checked.
    ///
    /// # Errors
    /// [`ArchiveError`]: nothing of the file can be trusted, and reading must end here.
    pub fn next_item(&mut self) -> Result<Option<Item>, ArchiveError> {
        if self.end.is_some() {
            return Ok(None);
        }
        loop {
            self.source.next_line()?;
            match LineKind::of(&self.source.line) {
                Some(LineKind::Blob) => {
                    self.take_blob()?;
                    self.source.count_line();
                }
                Some(LineKind::Event) => {
                    let item = self.take_event()?;
                    self.source.count_line();
                    self.source.seq = item.stored.seq.next();
                    return Ok(Some(item));
                }
                Some(LineKind::End) => return self.take_end().map(|()| None),
                Some(LineKind::Header | LineKind::Seal) | None => {
                    return Err(self.bad_line("no event, payload or end stands here"));
                }
            }
        }
    }

    fn take_blob(&mut self) -> Result<(), ArchiveError> {
        let line: BlobLine<'_> =
            serde_json::from_slice(&self.source.line).map_err(|it| self.bad_line(&it))?;
        let address = line.blob.into_owned();
        let bytes = match (line.text, line.hex) {
            (Some(text), None) => Some(text.into_owned().into_bytes()),
            (None, Some(hex)) => from_hex(&hex),
            (Some(_), Some(_)) | (None, None) => None,
        };
        let Some(bytes) = bytes else {
            return Err(self.bad_blob(&address, "it has no readable content"));
        };
        let (declared, found) = (line.bytes, bytes.len() as u64);
        if found != declared {
            return Err(self.bad_blob(&address, &format!("{found} bytes instead of {declared}")));
        }
        if blake3::hash(&bytes).to_hex().as_str() != address {
            return Err(self.bad_blob(&address, "its bytes have another hash"));
        }
        if self.blobs.iter().any(|(it, _)| *it == address) {
            return Err(self.bad_blob(&address, "it stands here twice"));
        }
        self.blob_bytes = self.blob_bytes.saturating_add(found);
        let limit = self.limits.blob_bytes;
        // One event's payloads together: they are held side by side.
        if self.blob_bytes > limit.saturating_mul(2) {
            let place = self.source.place();
            return Err(ArchiveError::TooLarge { place, what: "an event with payloads", limit });
        }
        self.blobs.push((address, bytes));
        Ok(())
    }

    fn take_event(&mut self) -> Result<Item, ArchiveError> {
        let line: EventLine<'_> =
            serde_json::from_slice(&self.source.line).map_err(|it| self.bad_line(&it))?;
        let (place, expected, found) = (self.source.place(), self.source.seq, Seq(line.seq));
        if found > expected {
            return Err(ArchiveError::Missing { place, expected, found });
        }
        if found < expected {
            return Err(ArchiveError::Swapped { place, expected, found });
        }
        let stored = StoredEvent {
            seq: found,
            time: TimestampMs(line.time_ms),
            cause: Seq(line.cause),
            actor: line.actor.into_owned(),
            kind: line.kind.into_owned(),
            schema: line.schema,
            body: line.body.into_owned(),
        };
        let (chain, redacted) = (line.chain.into_owned(), line.redacted);
        let computed = self.chain.add(&stored);
        if computed != chain {
            return Err(ArchiveError::Changed { place, expected: chain, found: computed });
        }
        if !redacted.is_empty() && !self.header.redacted {
            return Err(self.bad_line("texts were removed, and the header does not say so"));
        }
        let (actor, mut body) = self.decode(&stored)?;
        let (blobs, left_out) = self.attach(&mut body)?;
        let StoredEvent { seq, time, cause, .. } = stored;
        let event = Event { seq, time, cause, actor, body };
        Ok(Item { line: place.line, event, stored, blobs, chain, redacted, left_out })
    }

    fn decode(&self, stored: &StoredEvent) -> Result<(Actor, EventBody), ArchiveError> {
        let place = self.source.place();
        let actor: Actor = stored.actor.parse().map_err(|it| self.bad_line(&it))?;
        let body = codec::decode(&stored.kind, stored.schema, &stored.body);
        let body = body.map_err(|error| match error {
            CodecError::FromTheFuture { .. } | CodecError::UnknownKind { .. } => {
                ArchiveError::NewerEvent { place, reason: error.to_string() }
            }
            CodecError::Damaged { .. } => self.bad_line(&error),
        })?;
        Ok((actor, body))
    }

    /// Gives an event its payloads; what is over or missing is damage.
    fn attach(&mut self, body: &mut EventBody) -> Result<(Blobs, Vec<String>), ArchiveError> {
        let blobs = std::mem::take(&mut self.blobs);
        self.blob_bytes = 0;
        let payloads = codec::payloads(body);
        let mut left_out = Vec::new();
        for payload in &payloads {
            let address = &payload.blob.blob;
            match blobs.iter().find(|(it, _)| it == address) {
                Some((_, bytes)) if bytes.len() as u64 != payload.blob.bytes => {
                    return Err(self.bad_blob(address, "the event says another size"));
                }
                Some((_, bytes)) if payload.is_text && str::from_utf8(bytes).is_err() => {
                    return Err(self.bad_blob(address, "it is no text"));
                }
                Some(_) => {}
                None if self.header.fixture && !payload.is_text => left_out.push(address.clone()),
                None => return Err(self.bad_blob(address, "it is missing")),
            }
        }
        let is_needed = |address: &String| payloads.iter().any(|it| it.blob.blob == *address);
        if let Some((address, _)) = blobs.iter().find(|(address, _)| !is_needed(address)) {
            return Err(self.bad_blob(address, "the event after it does not need it"));
        }
        codec::attach(body, &mut |address| {
            let (_, bytes) = blobs.iter().find(|(it, _)| it == address)?;
            String::from_utf8(bytes.clone()).ok()
        });
        Ok((blobs, left_out))
    }

    fn take_end(&mut self) -> Result<(), ArchiveError> {
        if let Some((address, _)) = self.blobs.first() {
            return Err(self.bad_blob(address, "no event follows that needs it"));
        }
        let end: End =
            serde_json::from_slice(&self.source.line).map_err(|it| self.bad_line(&it))?;
        let (place, count) = (self.source.place(), self.chain.count());
        let promised = self.header.events.unwrap_or(end.events).max(end.events);
        if promised > count {
            let (expected, found) = (Seq(count + 1), Seq(promised));
            return Err(ArchiveError::Missing { place, expected, found });
        }
        if end.events != count || self.header.events.is_some_and(|it| it != count) {
            return Err(self.bad_line("it counts other events than the file holds"));
        }
        if end.head != self.chain.head() {
            let (expected, found) = (end.head, self.chain.head());
            return Err(ArchiveError::Changed { place, expected, found });
        }
        self.source.count_line();
        self.source.seq = Seq(0);
        self.take_seal()?;
        self.end = Some(end);
        Ok(())
    }

    fn take_seal(&mut self) -> Result<(), ArchiveError> {
        self.source.next_line()?;
        if LineKind::of(&self.source.line) != Some(LineKind::Seal) {
            return Err(self.bad_line("the last line is not the seal"));
        }
        let seal: Seal =
            serde_json::from_slice(&self.source.line).map_err(|it| self.bad_line(&it))?;
        // One way of writing it only: nothing covers the seal itself.
        let is_plain = serde_json::to_vec(&seal).is_ok_and(|it| it == self.source.line);
        if !is_plain || seal.blake3 != self.source.hash_before() {
            let problem = "the file is not the one that was sealed: a line above was changed in a \
                           way that changes no event, or its line ends were";
            return Err(self.bad_line(problem));
        }
        self.source.expect_end()
    }

    fn bad_line(&self, reason: &(impl ToString + ?Sized)) -> ArchiveError {
        ArchiveError::BadLine { place: self.source.place(), reason: reason.to_string() }
    }

    fn bad_blob(&self, address: &str, reason: &str) -> ArchiveError {
        let (place, address, reason) = (self.source.place(), address.to_owned(), reason.to_owned());
        ArchiveError::BadBlob { place, address, reason }
    }
}

/// Refuses what cannot be the beginning of a file, before the rest of it is there. `first` are its
/// first bytes, as many as came; what they do not decide yet is let through.
///
/// # Errors
/// [`ArchiveError`]: no byte that follows can make a file of it.
pub fn check_front(first: &[u8]) -> Result<(), ArchiveError> {
    match Reader::open(first, Limits::default()) {
        // The bytes end in the header.
        Ok(_) | Err(ArchiveError::Cut { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn read_header(line: &[u8]) -> Result<Header, ArchiveError> {
    let foreign = |reason: String| ArchiveError::Foreign { reason };
    if LineKind::of(line) != Some(LineKind::Header) {
        return Err(foreign("its first line is no header".to_owned()));
    }
    let any: AnyHeader = serde_json::from_slice(line)
        .map_err(|error| foreign(format!("its first line is no header: {error}")))?;
    if any.format != FORMAT {
        return Err(foreign(format!("its format is {:?}", any.format)));
    }
    if any.version > VERSION {
        return Err(ArchiveError::NewerFormat { found: any.version });
    }
    serde_json::from_slice(line)
        .map_err(|error| foreign(format!("its header cannot be read: {error}")))
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(high)? * 16 + digit(low)?)).collect()
}
