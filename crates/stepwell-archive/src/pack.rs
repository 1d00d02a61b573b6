//! The compressed form: one zstd frame, then a skippable frame with the BLAKE3 of the first.
//!
//! zstd's own checksum covers what comes out and not what went in: some bits of a frame may flip and
//! give the same text. `zstd -d` skips the second frame, so standard tools read the file.

use std::io::{self, Write};

use crate::limits::WINDOW_LOG_MAX;

/// What the compressed form begins with.
pub(crate) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A skippable frame of zstd, then the length of its content, both little-endian.
pub(crate) const TAIL_FRONT: [u8; 8] = [0x50, 0x2a, 0x4d, 0x18, 32, 0, 0, 0];

/// Length of the skippable frame.
pub(crate) const TAIL_BYTES: usize = 40;

/// How hard zstd tries: level 3 is its default, and its window of 2 MiB is within what is read.
const ZSTD_LEVEL: i32 = 3;

/// The skippable frame after compressed bytes with that hash.
pub(crate) fn tail(hash: &blake3::Hash) -> [u8; TAIL_BYTES] {
    let mut tail = [0; TAIL_BYTES];
    let (front, digest) = tail.split_at_mut(TAIL_FRONT.len());
    front.copy_from_slice(&TAIL_FRONT);
    digest.copy_from_slice(hash.as_bytes());
    tail
}

/// A sink that hashes what goes through it.
pub(crate) struct Hashing<W> {
    pub(crate) sink: W,
    pub(crate) hasher: blake3::Hasher,
}

impl<W> Hashing<W> {
    pub(crate) fn new(sink: W) -> Self {
        Self { sink, hasher: blake3::Hasher::new() }
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Where lines go.
pub(crate) enum Packer<W: Write> {
    Plain(W),
    Packed(Box<zstd::Encoder<'static, Hashing<W>>>),
}

impl<W: Write> Packer<W> {
    pub(crate) fn packed(sink: W) -> io::Result<Self> {
        let mut encoder = zstd::Encoder::new(Hashing::new(sink), ZSTD_LEVEL)?;
        encoder.include_checksum(true)?;
        encoder.window_log(WINDOW_LOG_MAX.min(21))?;
        Ok(Self::Packed(Box::new(encoder)))
    }

    pub(crate) fn finish(self) -> io::Result<W> {
        let mut sink = match self {
            Self::Plain(sink) => sink,
            Self::Packed(encoder) => {
                let Hashing { mut sink, hasher } = encoder.finish()?;
                sink.write_all(&tail(&hasher.finalize()))?;
                sink
            }
        };
        sink.flush()?;
        Ok(sink)
    }
}

impl<W: Write> Write for Packer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(sink) => sink.write(bytes),
            Self::Packed(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(sink) => sink.flush(),
            Self::Packed(encoder) => encoder.flush(),
        }
    }
}
