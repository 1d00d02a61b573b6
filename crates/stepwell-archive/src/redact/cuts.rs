//! Where a text was cut, a secret may have been cut with it, and no rule finds a piece.
//!
//! Where the whole text is known, the piece is found by its place in it. Where nobody has the whole, what
//! stands in front of a cut is tried with what may have followed.

use std::ops::Range;

use stepwell_core::text::{prefix, suffix};

/// Stands where something was left out, perhaps with a note of how much.
const MARK: &str = "…";

/// How such a note goes on after the number.
const NOTE_END: &str = " bytes left out …";

/// Bytes beside a cut by which its place in the whole is found: the first of them that stand there. Fewer
/// stand in too many places.
const ANCHOR_BYTES: &[usize] = &[64, 32, 16, 8];

/// Places of one cut that are looked at: in a text that repeats itself a piece has many, and all of
/// them look the same.
const PLACES_MAX: usize = 1_024;

/// Bytes in front of a cut that are tried with what may have followed.
const TRIED_BYTES: usize = 256;

/// Most characters of a secret that may be behind a cut, of those rules that count them.
const REST_CHARS_MAX: usize = 64;

/// A part of a whole text that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    shown: usize,
    whole: usize,
    bytes: usize,
}

impl Segment {
    /// Where a range of the whole is shown, as far as it is.
    pub(super) fn shows(self, range: &Range<usize>) -> Option<Range<usize>> {
        let start = range.start.max(self.whole);
        let end = range.end.min(self.whole + self.bytes);
        (start < end).then(|| start - self.whole + self.shown..end - self.whole + self.shown)
    }
}

/// Which parts of `whole` stand in `shown`: those that begin or end where it does, and at its cuts.
pub(super) fn segments(shown: &str, whole: &str) -> Vec<Segment> {
    let mut found = Vec::new();
    let mut start = 0;
    let end = shown.len()..shown.len();
    for cut in cuts(shown).chain(std::iter::once(end)) {
        let piece = shown.get(start..cut.start).unwrap_or_default();
        let (_, first) = places(whole, |bytes| prefix(piece, bytes));
        for at in first {
            let bytes = common_front(piece, whole.get(at..).unwrap_or_default());
            found.push(Segment { shown: start, whole: at, bytes });
        }
        let (anchor, last) = places(whole, |bytes| suffix(piece, bytes));
        for at in last {
            let end = at + anchor;
            let bytes = common_back(piece, whole.get(..end).unwrap_or_default());
            found.push(Segment { shown: cut.start - bytes, whole: end - bytes, bytes });
        }
        start = cut.end;
    }
    found
}

/// Where something was left out of a text: of the middle of an output, of the end of a line, a title.
pub(super) fn cuts(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let cut = cut_at(text, from + text.get(from..)?.find(MARK)?);
        from = cut.end;
        Some(cut)
    })
}

/// A mark with the note around it, if there is one.
fn cut_at(text: &str, mark: usize) -> Range<usize> {
    let (mut start, mut end) = (mark, mark + MARK.len());
    let after = |end: usize| text.get(end..).unwrap_or_default();
    let before = |start: usize| text.get(..start).unwrap_or_default();
    let number = after(end).strip_prefix(' ');
    let number =
        number.map(|it| it.trim_start_matches(|it: char| it.is_ascii_digit() || it == ','));
    let Some(rest) = number.and_then(|it| it.strip_prefix(NOTE_END)) else { return start..end };
    end = text.len() - rest.len();
    for (open, close) in [('[', ']'), ('\n', '\n')] {
        start -= usize::from(before(start).ends_with(open));
        end += usize::from(after(end).starts_with(close));
    }
    start..end
}

/// What stands in front of a cut, and where that begins.
pub(super) fn tried(text: &str, cut: &Range<usize>) -> (usize, String) {
    let before = suffix(text.get(..cut.start).unwrap_or_default(), TRIED_BYTES);
    (cut.start - before.len(), before.to_owned())
}

/// What may have followed at a cut: characters that secrets are made of, in every number that a rule may
/// count.
pub(super) fn rests() -> impl Iterator<Item = String> {
    let digits = (1..=REST_CHARS_MAX).rev().map(|count| "0".repeat(count));
    let letters = ["a", "A"].map(|it| it.repeat(REST_CHARS_MAX));
    digits.chain(letters).chain([format!("{0}.{0}.{0}", "a".repeat(16))])
}

/// Where the bytes beside a cut stand in the whole, and how many of them were looked for.
fn places<'a>(whole: &str, anchor: impl Fn(usize) -> &'a str) -> (usize, Vec<usize>) {
    let fewest = ANCHOR_BYTES.last().copied().unwrap_or_default();
    let anchors = ANCHOR_BYTES.iter().map(|bytes| anchor(*bytes));
    let found = anchors.filter(|it| it.len() >= fewest).map(|it| (it.len(), all_places(whole, it)));
    found.into_iter().find(|(_, places)| !places.is_empty()).unwrap_or_default()
}

/// They may overlap.
fn all_places(whole: &str, anchor: &str) -> Vec<usize> {
    let mut from = 0;
    let next = || {
        let at = from + whole.get(from..)?.find(anchor)?;
        from = at + whole.get(at..)?.chars().next()?.len_utf8();
        Some(at)
    };
    std::iter::from_fn(next).take(PLACES_MAX).collect()
}

fn common_front(a: &str, b: &str) -> usize {
    let chars = a.chars().zip(b.chars()).take_while(|(a, b)| a == b);
    chars.map(|(it, _)| it.len_utf8()).sum()
}

fn common_back(a: &str, b: &str) -> usize {
    let chars = a.chars().rev().zip(b.chars().rev()).take_while(|(a, b)| a == b);
    chars.map(|(it, _)| it.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use stepwell_core::text::shorten;

    use super::*;

    #[test]
    fn a_shortened_text_is_found_in_the_whole() {
        let lines: Vec<_> = (0..500).map(|it| format!("ä line {it}\n")).collect();
        let whole = lines.concat();
        for bytes in [40, 201, 1_000] {
            let shown = format!("exit code 0\n\n{}", shorten(&whole, bytes));
            let cut = cuts(&shown).next().unwrap();
            let found = segments(&shown, &whole);
            // All of both pieces, and nothing in another place.
            let part = |it: &Segment| {
                let (a, b) = (it.shown..it.shown + it.bytes, it.whole..it.whole + it.bytes);
                assert_eq!(shown.get(a.clone()), whole.get(b));
                a
            };
            let shown_parts: Vec<_> = found.iter().map(part).collect();
            assert!(shown_parts.contains(&("exit code 0\n\n".len()..cut.start)), "{bytes}");
            assert!(shown_parts.contains(&(cut.end..shown.len())), "{bytes}");
        }
        assert_eq!(segments("else", &whole), []);
        assert_eq!(segments("", &whole), []);
    }

    #[test]
    fn every_mark_is_a_cut() {
        for (text, at) in [
            ("a\n[… 5 bytes left out …]\nb", &["\n[… 5 bytes left out …]\n"][..]),
            ("a\n… 5,000 bytes left out …\nb", &["\n… 5,000 bytes left out …\n"]),
            ("a… 12 bytes left out …\nb", &["… 12 bytes left out …\n"]),
            ("a…\nb…", &["…", "…"]),
            ("…a", &["…"]),
            ("a", &[]),
        ] {
            assert_eq!(cuts(text).map(|it| &text[it]).collect::<Vec<_>>(), at, "{text}");
        }
    }
}
