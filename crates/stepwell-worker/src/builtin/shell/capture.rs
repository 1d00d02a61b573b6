//! A command's output in bounded memory: its beginning and its end, however much there is between.

use std::collections::VecDeque;

use crate::context::OutputSink;
use crate::text::{grouped, unfinished_end, unstarted_begin, visible};

/// Bytes that the model sees: about 4,000 tokens. Half from the beginning, half from the end, where
/// errors and summaries are.
const SHOWN_BYTES_MAX: usize = 16 * 1024;
/// Bytes kept besides: any build log whole, and little enough for many commands side by side.
pub(super) const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Half of what is kept is the beginning, half the end.
const HALF_KEPT: usize = KEPT_BYTES_MAX / 2;

/// Output while it comes in.
#[derive(Debug, Default)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    live: Live,
}

impl Capture {
    /// Output that is also sent on while it comes in.
    pub(super) fn new(sink: OutputSink) -> Self {
        Self { live: Live { sink, rest: Vec::new() }, ..Self::default() }
    }

    /// Takes more output.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.live.send(bytes);
        let room = HALF_KEPT - self.head.len();
        let (first, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(first);
        let fresh = rest.get(rest.len().saturating_sub(HALF_KEPT)..).unwrap_or(rest);
        let surplus = (self.tail.len() + fresh.len()).saturating_sub(HALF_KEPT);
        self.tail.drain(..surplus);
        self.tail.extend(fresh);
    }

    /// What came of it.
    pub(super) fn finish(self) -> Captured {
        let Self { head, tail, total, .. } = self;
        let gap_at = head.len();
        let mut kept = head;
        kept.extend(tail);
        let lost = total - kept.len() as u64;
        let (text, replaced) = show(&kept, total);
        let is_shortened = total > SHOWN_BYTES_MAX as u64;
        if lost > 0 {
            let tail = kept.split_off(gap_at);
            kept.extend_from_slice(left_out(lost).as_bytes());
            kept.extend(tail);
        }
        let full = (is_shortened || replaced > 0).then_some(kept);
        Captured { text, full, total, lost, is_shortened, replaced }
    }
}

/// Output when it is over.
#[derive(Debug)]
pub(super) struct Captured {
    /// What the model sees.
    pub(super) text: String,
    /// The bytes, where `text` does not show them all.
    pub(super) full: Option<Vec<u8>>,
    /// How many bytes there were.
    pub(super) total: u64,
    /// How many of them are not even in `full`.
    pub(super) lost: u64,
    pub(super) is_shortened: bool,
    /// How many of the bytes shown are no UTF-8.
    pub(super) replaced: usize,
}

fn show(kept: &[u8], total: u64) -> (String, usize) {
    let half = SHOWN_BYTES_MAX / 2;
    let ends = (kept.get(..half), kept.get(kept.len().saturating_sub(half)..));
    let (true, (Some(head), Some(tail))) = (total > SHOWN_BYTES_MAX as u64, ends) else {
        let (text, replaced) = visible(kept);
        return (text.into_owned(), replaced);
    };
    let head = head.get(..head.len() - unfinished_end(head)).unwrap_or(head);
    let tail = tail.get(unstarted_begin(tail)..).unwrap_or(tail);
    let gap = left_out(total - (head.len() + tail.len()) as u64);
    let ((head, head_replaced), (tail, tail_replaced)) = (visible(head), visible(tail));
    (format!("{head}{gap}{tail}"), head_replaced + tail_replaced)
}

fn left_out(bytes: u64) -> String {
    format!("\n… {} bytes left out …\n", grouped(bytes))
}

/// Sends output on as text, characters whole even if they come in two pieces.
#[derive(Debug, Default)]
struct Live {
    sink: OutputSink,
    rest: Vec<u8>,
}

impl Live {
    fn send(&mut self, bytes: &[u8]) {
        if !self.sink.has_room() {
            // What is dropped takes the begun character with it.
            self.rest.clear();
            return;
        }
        let mut pending = std::mem::take(&mut self.rest);
        pending.extend_from_slice(bytes);
        self.rest = pending.split_off(pending.len() - unfinished_end(&pending));
        self.sink.send(visible(&pending).0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(pieces: &[&[u8]]) -> Captured {
        let mut capture = Capture::default();
        for piece in pieces {
            capture.push(piece);
        }
        capture.finish()
    }

    #[test]
    fn short_output_is_shown_whole() {
        let done = capture(&[b"one\n", b"two"]);
        assert_eq!(done.text, "one\ntwo");
        assert_eq!((done.full, done.total, done.lost), (None, 7, 0));
    }

    #[test]
    fn the_model_sees_both_ends_and_the_rest_is_kept() {
        let body = "ż".repeat(20_000);
        let output = format!("a{body}z");
        for size in [1, 7, 4096, output.len()] {
            let pieces: Vec<_> = output.as_bytes().chunks(size).collect();
            let done = capture(&pieces);
            assert!(done.text.starts_with("aż") && done.text.ends_with("żz"), "pieces of {size}");
            assert!(!done.text.contains('\u{FFFD}'), "pieces of {size}: {}", done.text);
            assert!(done.text.contains("bytes left out"), "pieces of {size}");
            assert!(done.text.len() <= SHOWN_BYTES_MAX + 64, "{}", done.text.len());
            assert_eq!(done.full.as_deref(), Some(output.as_bytes()), "pieces of {size}");
        }
    }

    #[test]
    fn output_over_the_cap_keeps_both_ends_and_says_how_much_is_gone() {
        for size in [1000, KEPT_BYTES_MAX + 5000] {
            let mut output = vec![b'm'; KEPT_BYTES_MAX + 5000];
            output[0] = b'a';
            *output.last_mut().unwrap() = b'z';
            let done = capture(&output.chunks(size).collect::<Vec<_>>());
            assert_eq!((done.total, done.lost), (output.len() as u64, 5000));
            let full = done.full.unwrap();
            assert!(full.len() <= KEPT_BYTES_MAX + 64, "{}", full.len());
            assert!(full.starts_with(b"am") && full.ends_with(b"mz"));
            let note = "… 5,000 bytes left out …".as_bytes();
            assert!(full.windows(note.len()).any(|part| part == note));
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_and_kept() {
        let done = capture(&[b"\xff\xfeA\x80B"]);
        assert_eq!(done.text, "\u{FFFD}\u{FFFD}A\u{FFFD}B");
        assert_eq!(done.replaced, 3);
        assert_eq!(done.full.as_deref(), Some(&b"\xff\xfeA\x80B"[..]));
    }

    #[tokio::test]
    async fn live_chunks_hold_whole_characters() {
        let (sink, mut chunks) = OutputSink::channel(64);
        let mut capture = Capture::new(sink);
        for byte in "a漢z".as_bytes() {
            capture.push(&[*byte]);
        }
        drop(capture);
        let mut seen = Vec::new();
        while let Some(chunk) = chunks.recv().await {
            seen.push(chunk);
        }
        assert_eq!(seen, ["a", "漢", "z"]);
    }
}
