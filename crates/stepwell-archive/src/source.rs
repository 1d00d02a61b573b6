//! Where lines come from: plain text or a zstd frame, read line by line with a bound.

use std::io::{self, BufRead, BufReader, Read};

use stepwell_core::Seq;

use crate::error::{ArchiveError, Place};
use crate::limits::{
    ESCAPE_FACTOR, EVENT_BYTES_MAX, LINE_FRAME_BYTES, Limits, SMALL_LINE_BYTES_MAX, WINDOW_LOG_MAX,
};
use crate::line::{LineKind, declared_bytes};
use crate::pack::{TAIL_BYTES, TAIL_FRONT, ZSTD_MAGIC, tail};

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// So much of a line is enough to know its kind and the size that it declares.
const FRONT_BYTES: usize = 256;

/// zstd's word for a frame that asks for a larger window than allowed.
const WINDOW_WORDS: &str = "requires too much memory";

/// The bytes of a file, of which the last [`TAIL_BYTES`] are held back: they are no part of the frame. In a
/// file that was cut off they may be, and then they are given out, too.
struct HoldBack<R> {
    source: R,
    held: Vec<u8>,
    hasher: blake3::Hasher,
    is_at_end: bool,
    is_cut: bool,
}

impl<R: Read> Read for HoldBack<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.held.len() <= TAIL_BYTES && !self.is_at_end {
            let mut chunk = [0; 8 * 1024];
            let read = self.source.read(&mut chunk)?;
            self.is_at_end = read == 0;
            self.is_cut = self.is_at_end && !self.held.starts_with(&TAIL_FRONT);
            self.held.extend_from_slice(chunk.get(..read).unwrap_or_default());
        }
        let kept = if self.is_cut { 0 } else { TAIL_BYTES };
        let free = self.held.len().saturating_sub(kept).min(out.len());
        for (to, from) in out.iter_mut().zip(self.held.drain(..free)) {
            *to = from;
        }
        self.hasher.update(out.get(..free).unwrap_or_default());
        Ok(free)
    }
}

type FirstBytes<R> = io::Chain<io::Cursor<Vec<u8>>, R>;
type Unpacker<R> = zstd::Decoder<'static, BufReader<HoldBack<FirstBytes<R>>>>;

enum Input<R: Read> {
    Plain(BufReader<FirstBytes<R>>),
    Packed(Box<BufReader<Unpacker<R>>>),
}

impl<R: Read> Input<R> {
    fn fill(&mut self) -> io::Result<&[u8]> {
        match self {
            Self::Plain(it) => it.fill_buf(),
            Self::Packed(it) => it.fill_buf(),
        }
    }

    fn consume(&mut self, bytes: usize) {
        match self {
            Self::Plain(it) => it.consume(bytes),
            Self::Packed(it) => it.consume(bytes),
        }
    }
}

/// Lines with their numbers and a running hash.
pub(crate) struct Source<R: Read> {
    input: Option<Input<R>>,
    limits: Limits,
    /// The current line, without its line feed.
    pub(crate) line: Vec<u8>,
    /// Number of the current line.
    pub(crate) number: u64,
    /// The event that stands in the current line, or is expected next.
    pub(crate) seq: Seq,
    total: u64,
    hasher: blake3::Hasher,
}

impl<R: Read> Source<R> {
    pub(crate) fn open(mut file: R, limits: Limits) -> Result<Self, ArchiveError> {
        let place = Place { line: 1, seq: Seq(0) };
        let failed = |source| ArchiveError::Io { place, source };
        let mut first = Vec::with_capacity(ZSTD_MAGIC.len());
        let wanted = ZSTD_MAGIC.len() as u64;
        (&mut file).take(wanted).read_to_end(&mut first).map_err(failed)?;
        let is_packed = first == ZSTD_MAGIC;
        if !is_packed && first.first() != Some(&b'{') {
            return Err(foreign(&first));
        }
        let bytes = io::Cursor::new(first).chain(file);
        let input = if is_packed {
            Input::Packed(Box::new(unpacker(bytes).map_err(failed)?))
        } else {
            Input::Plain(BufReader::with_capacity(CHUNK_BYTES, bytes))
        };
        Ok(Self {
            input: Some(input),
            limits,
            line: Vec::new(),
            number: 0,
            seq: Seq(0),
            total: 0,
            hasher: blake3::Hasher::new(),
        })
    }

    /// Where reading is.
    pub(crate) fn place(&self) -> Place {
        Place { line: self.number, seq: self.seq }
    }

    /// The hash of all lines before the current one.
    pub(crate) fn hash_before(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }

    /// Counts the current line in the hash; the seal is not counted.
    pub(crate) fn count_line(&mut self) {
        self.hasher.update(&self.line);
        self.hasher.update(b"\n");
    }

    /// Reads the next line.
    pub(crate) fn next_line(&mut self) -> Result<(), ArchiveError> {
        self.line.clear();
        // A long line must not hold its memory for the short ones that follow.
        self.line.shrink_to(CHUNK_BYTES);
        self.number += 1;
        let place = self.place();
        let mut allowed = None;
        loop {
            let Some(input) = &mut self.input else {
                return Err(ArchiveError::Cut { place, is_packed: false });
            };
            let bytes = match input.fill() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(of_reading(place, error, input)),
            };
            if bytes.is_empty() {
                let is_packed = matches!(input, Input::Packed(_));
                return Err(ArchiveError::Cut { place, is_packed });
            }
            let end = bytes.iter().position(|it| *it == b'\n');
            let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
            self.line.extend_from_slice(part);
            let taken = part.len() + usize::from(end.is_some());
            input.consume(taken);
            self.total = self.total.saturating_add(taken as u64);
            self.check_total(place)?;
            if allowed.is_none() && (self.line.len() >= FRONT_BYTES || end.is_some()) {
                allowed = Some(self.allowed(place)?);
            }
            if let Some((what, limit)) = allowed
                && self.line.len() as u64 > limit
            {
                return Err(ArchiveError::TooLarge { place, what, limit });
            }
            if end.is_some() {
                return Ok(());
            }
        }
    }

    fn check_total(&self, place: Place) -> Result<(), ArchiveError> {
        let limit = self.limits.total_bytes;
        if self.total > limit {
            return Err(ArchiveError::TooLarge { place, what: "the unpacked file", limit });
        }
        Ok(())
    }

    /// How long the current line may be, by its first bytes.
    fn allowed(&self, place: Place) -> Result<(&'static str, u64), ArchiveError> {
        match LineKind::of(&self.line) {
            Some(LineKind::Event) => {
                Ok(("an event", EVENT_BYTES_MAX * ESCAPE_FACTOR + LINE_FRAME_BYTES))
            }
            Some(LineKind::Blob) => {
                let front = self.line.get(..FRONT_BYTES.min(self.line.len())).unwrap_or_default();
                let declared = declared_bytes(front).unwrap_or(0);
                let limit = self.limits.blob_bytes;
                if declared > limit {
                    return Err(ArchiveError::TooLarge { place, what: "a payload", limit });
                }
                // A payload that is longer than it says is refused here, a zip bomb too.
                Ok(("a payload", declared * ESCAPE_FACTOR + LINE_FRAME_BYTES))
            }
            Some(LineKind::Header | LineKind::End | LineKind::Seal) | None => {
                Ok(("a line", SMALL_LINE_BYTES_MAX))
            }
        }
    }

    /// After the last line: nothing may follow, and the compressed bytes must be those that were
    /// written.
    pub(crate) fn expect_end(&mut self) -> Result<(), ArchiveError> {
        let after = Place { line: self.number + 1, seq: Seq(0) };
        let Some(mut input) = self.input.take() else { return Ok(()) };
        match input.fill() {
            Ok([]) => {}
            Ok(_) => return Err(ArchiveError::Trailing { place: after }),
            Err(error) => return Err(of_reading(after, error, &input)),
        }
        match input {
            Input::Plain(_) => Ok(()),
            Input::Packed(unpacker) => check_tail(unpacker.into_inner().finish(), after),
        }
    }
}

fn unpacker<R: Read>(bytes: FirstBytes<R>) -> io::Result<BufReader<Unpacker<R>>> {
    let held = HoldBack {
        source: bytes,
        held: Vec::new(),
        hasher: blake3::Hasher::new(),
        is_at_end: false,
        is_cut: false,
    };
    let mut decoder = zstd::Decoder::with_buffer(BufReader::with_capacity(CHUNK_BYTES, held))?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(BufReader::with_capacity(CHUNK_BYTES, decoder.single_frame()))
}

/// The frame has ended: only the tail may be left, and it must fit.
fn check_tail<R: Read>(mut rest: BufReader<HoldBack<R>>, place: Place) -> Result<(), ArchiveError> {
    let left = rest.fill_buf().map_err(|source| ArchiveError::Io { place, source })?;
    // The beginning of the tail, or nothing of it.
    let begins_tail = left.iter().zip(TAIL_FRONT).all(|(left, tail)| *left == tail);
    let (is_over, is_part) = (left.is_empty(), left.len() < TAIL_BYTES && begins_tail);
    let HoldBack { held, hasher, is_cut, .. } = rest.into_inner();
    if is_cut && is_part {
        return Err(ArchiveError::Cut { place, is_packed: true });
    }
    if !is_over {
        return Err(ArchiveError::Trailing { place });
    }
    if held != tail(&hasher.finalize()) {
        let reason = "it is not what was written, by its hash".to_owned();
        return Err(ArchiveError::BadData { place, reason });
    }
    Ok(())
}

fn of_reading<R: Read>(place: Place, error: io::Error, input: &Input<R>) -> ArchiveError {
    let is_packed = matches!(input, Input::Packed(_));
    match error.kind() {
        io::ErrorKind::UnexpectedEof if is_packed => ArchiveError::Cut { place, is_packed },
        // The decoder's errors have no number of the system.
        _ if is_packed && error.raw_os_error().is_none() => {
            let reason = error.to_string();
            if reason.contains(WINDOW_WORDS) {
                ArchiveError::WindowTooLarge { place }
            } else {
                ArchiveError::BadData { place, reason }
            }
        }
        _ => ArchiveError::Io { place, source: error },
    }
}

fn foreign(first: &[u8]) -> ArchiveError {
    let reason = if first.is_empty() {
        "it is empty".to_owned()
    } else {
        format!("it begins with {:?}", String::from_utf8_lossy(first))
    };
    ArchiveError::Foreign { reason }
}
