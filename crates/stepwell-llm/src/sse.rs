//! Server-sent events: bytes in, events out, whatever the borders of the network's blocks.
//!
//! Follows the event stream format of the HTML standard: LF, CR and CRLF end a line, a byte order
//! mark before the first line and lines that begin with a colon are skipped, one blank after the
//! colon belongs to the syntax, several `data` lines make one text, an event that its blank line
//! does not close is dropped. Stricter than the standard in one thing: an event that is not UTF-8 is
//! an error, because a replacement character would change what the model said without notice.
//!
//! Invariant: text is decoded only when an event is whole, so no border can split a character.

use std::str;

/// Bytes of one event, at most. An event may carry all arguments of a call at once
/// ([`crate::assemble::ARGUMENT_BYTES_MAX`]), escaped, with its envelope.
pub const EVENT_BYTES_MAX: usize = 20 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Its type; empty when none was given.
    pub name: &'a str,
    /// Its data; the lines are joined by line feeds.
    pub data: &'a str,
}

/// Why a stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// The bound of memory.
    #[error("an event of the stream is longer than {EVENT_BYTES_MAX} bytes")]
    EventTooLong,
    /// Damaged text.
    #[error("an event of the stream is not UTF-8")]
    NotUtf8,
}

/// Takes a stream apart. Holds at most one event.
#[derive(Debug, Default)]
pub struct SseDecoder {
    /// The begun line, when it did not end with its block.
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    name: Vec<u8>,
    after_carriage_return: bool,
    past_first_line: bool,
}

impl SseDecoder {
    /// A decoder at the begin of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next block and hands each event that it closes to `on_event`.
    ///
    /// After an error the decoder must not be used again. Cost: O(bytes).
    ///
    /// # Errors
    /// [`SseError`], and whatever `on_event` returns.
    pub fn decode<E: From<SseError>>(
        &mut self,
        block: &[u8],
        mut on_event: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = block;
        loop {
            if self.after_carriage_return && !rest.is_empty() {
                self.after_carriage_return = false;
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else {
                return Ok(self.keep(rest)?);
            };
            let (piece, after) = rest.split_at(end);
            if self.line.is_empty() {
                self.read_line(piece, &mut on_event)?;
            } else {
                self.keep(piece)?;
                let line = std::mem::take(&mut self.line);
                self.read_line(&line, &mut on_event)?;
            }
            self.after_carriage_return = after.starts_with(b"\r");
            rest = after.get(1..).unwrap_or_default();
        }
    }

    fn keep(&mut self, piece: &[u8]) -> Result<(), SseError> {
        self.check_room(self.line.len() + piece.len())?;
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn check_room(&self, more: usize) -> Result<(), SseError> {
        let has_room = self.data.len() + more <= EVENT_BYTES_MAX;
        has_room.then_some(()).ok_or(SseError::EventTooLong)
    }

    fn read_line<E: From<SseError>>(
        &mut self,
        line: &[u8],
        on_event: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_first = !std::mem::replace(&mut self.past_first_line, true);
        let line = match line.strip_prefix(BYTE_ORDER_MARK) {
            Some(text) if is_first => text,
            Some(_) | None => line,
        };
        if line.is_empty() {
            return self.close_event(on_event);
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => {
                let (field, value) = line.split_at(colon);
                let value = value.strip_prefix(b":").unwrap_or(value);
                (field, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        match field {
            b"data" => {
                self.check_room(value.len() + 1)?;
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.check_room(value.len())?;
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // A comment (the field is empty), `id`, `retry`, and what the standard does not know.
            _ => {}
        }
        Ok(())
    }

    fn close_event<E: From<SseError>>(
        &mut self,
        on_event: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let outcome = if self.has_data {
            match (str::from_utf8(&self.name), str::from_utf8(&self.data)) {
                (Ok(name), Ok(data)) => on_event(SseEvent { name, data }),
                (Err(_), _) | (_, Err(_)) => Err(SseError::NotUtf8.into()),
            }
        } else {
            Ok(())
        };
        self.has_data = false;
        self.data.clear();
        self.name.clear();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Seen = Vec<(String, String)>;

    fn decode(blocks: &[&[u8]]) -> Result<Seen, SseError> {
        let mut decoder = SseDecoder::new();
        let mut seen = Seen::new();
        for block in blocks {
            decoder.decode(block, |event| {
                seen.push((event.name.into(), event.data.into()));
                Ok::<(), SseError>(())
            })?;
        }
        Ok(seen)
    }

    /// The same events in one block, byte by byte, and in blocks of every size up to 9.
    #[track_caller]
    fn check(stream: &[u8], expected: &[(&str, &str)]) {
        let expected: Seen = expected.iter().map(|(n, d)| ((*n).into(), (*d).into())).collect();
        assert_eq!(decode(&[stream]).unwrap(), expected, "in one block");
        for size in 1..10 {
            let blocks: Vec<&[u8]> = stream.chunks(size).collect();
            assert_eq!(decode(&blocks).unwrap(), expected, "in blocks of {size}");
        }
    }

    #[test]
    fn every_line_end_closes_a_line() {
        check(b"data: a\n\ndata: b\r\n\r\ndata: c\r\r", &[("", "a"), ("", "b"), ("", "c")]);
        check(b"data: a\r\n\ndata: b\n\r\n", &[("", "a"), ("", "b")]);
    }

    #[test]
    fn data_lines_are_joined_by_line_feeds() {
        check(b"data: a\ndata:\ndata\ndata:  b\n\n", &[("", "a\n\n\n b")]);
    }

    #[test]
    fn one_blank_after_the_colon_is_syntax() {
        check(b"data:a\n\ndata: a\n\ndata:  a\n\n", &[("", "a"), ("", "a"), ("", " a")]);
    }

    #[test]
    fn comments_other_fields_and_lone_blank_lines_make_no_event() {
        check(b": ping\n\n\n\n:\nid: 7\nretry: 5\ndatum: x\n\ndata: a\n: c\n\n", &[("", "a")]);
    }

    #[test]
    fn an_event_without_text_is_an_event() {
        check(b"data\n\ndata:\n\n", &[("", ""), ("", "")]);
    }

    #[test]
    fn a_name_belongs_to_its_event_only() {
        check(b"event: error\ndata: a\n\ndata: b\n\n", &[("error", "a"), ("", "b")]);
        check(b"event: lost\n\ndata: b\n\n", &[("", "b")]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_at_the_begin_only() {
        check(b"\xef\xbb\xbfdata: a\n\n", &[("", "a")]);
        check(b"data: a\n\n\xef\xbb\xbfdata: b\n\n", &[("", "a")]);
    }

    #[test]
    fn an_event_that_is_not_closed_is_dropped() {
        check(b"data: a\n\ndata: b\n", &[("", "a")]);
        check(b"data: a\n\ndata: b", &[("", "a")]);
    }

    #[test]
    fn characters_are_whole_at_every_border() {
        check("data: naïve 数据 🧭\n\n".as_bytes(), &[("", "naïve 数据 🧭")]);
    }

    #[test]
    fn damaged_text_is_an_error_and_not_a_replacement_character() {
        assert_eq!(decode(&[b"data: \xff\n\n"]), Err(SseError::NotUtf8));
        assert_eq!(decode(&[b"data: \xe6\x95\n\n"]), Err(SseError::NotUtf8));
        assert_eq!(decode(&[b": \xff\ndata: a\n\n"]).unwrap().len(), 1, "in a comment");
    }

    #[test]
    fn an_event_has_a_bound_in_one_line_and_in_many() {
        let long = vec![b'x'; EVENT_BYTES_MAX];
        assert_eq!(decode(&[b"data: ", &long]), Err(SseError::EventTooLong));
        let half = vec![b'x'; EVENT_BYTES_MAX / 2];
        let lines: &[&[u8]] = &[b"data:", &half, b"\ndata:", &half, b"\n"];
        assert_eq!(decode(lines), Err(SseError::EventTooLong));
        let comment: &[&[u8]] = &[b":", &half, b"\n:", &half, b"\n:", &half, b"\n"];
        assert_eq!(decode(comment), Ok(Seen::new()), "comments are not kept");
    }

    #[test]
    fn an_error_of_the_taker_stops_the_reading() {
        let mut decoder = SseDecoder::new();
        let mut events = 0;
        let outcome = decoder.decode(b"data: a\n\ndata: b\n\n", |_| {
            events += 1;
            Err(SseError::NotUtf8)
        });
        assert_eq!((outcome, events), (Err(SseError::NotUtf8), 1));
    }
}
