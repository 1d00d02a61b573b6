//! Files that want to take the reader's memory.

use std::io::{self, Read, Write as _};

use stepwell_archive::{ArchiveError, BLOB_BYTES_MAX, Form, Limits, Reader};

use crate::world::{header, read, read_with, seal, session, write};

fn header_line() -> String {
    let file = String::from_utf8(write(Form::Plain, &header(), &[])).unwrap();
    file.lines().next().unwrap().to_owned()
}

/// Gigabytes out of nothing: a line that never ends.
struct Endless {
    front: io::Cursor<Vec<u8>>,
    given: u64,
}

impl Endless {
    fn after(line: &str) -> Self {
        let front = format!("{}\n{line}", header_line());
        Self { front: io::Cursor::new(front.into_bytes()), given: 0 }
    }
}

impl Read for &mut Endless {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.front.read(out)?;
        if read > 0 {
            return Ok(read);
        }
        out.fill(b'a');
        self.given += out.len() as u64;
        Ok(out.len())
    }
}

#[test]
fn a_line_that_never_ends_is_refused_after_its_limit() {
    let address = "0".repeat(64);
    for (line, most) in [
        (format!("{{\"line\":\"blob\",\"blob\":\"{address}\",\"bytes\":5,\"text\":\""), 1 << 20),
        ("{\"line\":\"event\",\"seq\":1,\"body\":\"".to_owned(), 34 << 20),
        ("{\"line\":\"end\",\"head\":\"".to_owned(), 1 << 20),
        ("aaaa".to_owned(), 1 << 20),
        (format!("{{\"line\":\"blob\",\"bytes\":\"{address}"), 1 << 20),
    ] {
        let mut endless = Endless::after(&line);
        let mut reader = Reader::open(&mut endless, Limits::default()).unwrap();
        let error = reader.next_item().unwrap_err();
        assert!(matches!(error, ArchiveError::TooLarge { .. }), "{line}: {error}");
        assert!(endless.given <= most, "{line}: read {} bytes", endless.given);
    }
}

#[test]
fn a_payload_that_says_that_it_is_too_large_is_not_read() {
    let bytes = BLOB_BYTES_MAX + 1;
    let address = "0".repeat(64);
    let line = format!("{{\"line\":\"blob\",\"blob\":\"{address}\",\"bytes\":{bytes},\"text\":\"");
    let mut endless = Endless::after(&line);
    let error = Reader::open(&mut endless, Limits::default()).unwrap().next_item().unwrap_err();
    assert!(error.to_string().contains("a payload has more than"), "{error}");
    assert!(endless.given <= 1 << 20);
}

/// 256 MiB of one letter in a payload that claims five bytes: a few KiB packed.
#[test]
fn a_zip_bomb_is_refused() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    let address = "0".repeat(64);
    writeln!(encoder, "{}", header_line()).unwrap();
    write!(encoder, "{{\"line\":\"blob\",\"blob\":\"{address}\",\"bytes\":5,\"text\":\"").unwrap();
    let letters = vec![b'a'; 1 << 20];
    for _ in 0..256 {
        encoder.write_all(&letters).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 20);
    let error = read(&bomb).unwrap_err();
    assert!(matches!(error, ArchiveError::TooLarge { .. }), "{error}");
    assert_eq!(error.place().line, 2);
}

#[test]
fn a_frame_with_a_huge_window_is_refused() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(&write(Form::Plain, &header(), &session())).unwrap();
    let error = read(&encoder.finish().unwrap()).unwrap_err();
    assert!(matches!(error, ArchiveError::WindowTooLarge { .. }), "{error}");
}

#[test]
fn the_whole_file_has_a_limit() {
    let file = write(Form::Packed, &header(), &session());
    let limits = Limits { total_bytes: 10_000, ..Limits::default() };
    let error = read_with(&file, limits).unwrap_err().to_string();
    assert!(error.contains("the unpacked file has more than 10000 bytes"), "{error}");
}

#[test]
fn deep_json_is_no_trouble() {
    let deep = "[".repeat(100_000);
    for line in [
        format!("{{\"line\":\"end\",\"x\":{}", &deep[..60_000]),
        format!("{{\"line\":\"event\",\"x\":{deep}"),
    ] {
        let file = seal(&[header_line(), line]);
        assert!(matches!(read(&file), Err(ArchiveError::BadLine { .. })));
    }
}
