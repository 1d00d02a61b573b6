//! Characters that a server cut in two.
//!
//! Servers whose texts are UTF-16 inside may end one piece of a stream with the first half of a
//! surrogate pair and begin the next with the second. Both halves are kept as three bytes each, as
//! UTF-8 would write them if it could (WTF-8, <https://simonsapin.github.io/wtf-8/>), until they meet.

/// Bytes of a half.
const HALF_BYTES: usize = 3;

/// The text of one stream: what waits at its end for its other half.
#[derive(Debug, Default)]
pub(crate) struct Halves {
    first: Option<[u8; HALF_BYTES]>,
}

impl Halves {
    /// The next piece, with the half before it; a first half at its end is kept for the next one.
    pub(crate) fn join(&mut self, piece: Vec<u8>) -> Vec<u8> {
        if piece.is_empty() {
            return piece;
        }
        let mut text = match self.first.take() {
            None => piece,
            Some(first) => match second_half(&piece) {
                Some(second) => {
                    let rest = piece.get(HALF_BYTES..).unwrap_or_default();
                    [pair(first, second).as_bytes(), rest].concat()
                }
                None => [&first, &piece[..]].concat(),
            },
        };
        if let Some(first @ [0xed, 0xa0..=0xaf, _]) = text.last_chunk::<HALF_BYTES>() {
            self.first = Some(*first);
            text.truncate(text.len() - HALF_BYTES);
        }
        text
    }

    /// What is still without its other half, at the end of the stream.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.first.take().map(Vec::from).unwrap_or_default()
    }
}

fn second_half(piece: &[u8]) -> Option<[u8; HALF_BYTES]> {
    match piece.first_chunk::<HALF_BYTES>() {
        Some(second @ [0xed, 0xb0..=0xbf, _]) => Some(*second),
        Some(_) | None => None,
    }
}

/// The character that two halves make.
fn pair(first: [u8; HALF_BYTES], second: [u8; HALF_BYTES]) -> String {
    let unit = |[_, middle, last]: [u8; HALF_BYTES]| {
        0xd000 | u16::from(middle & 0x3f) << 6 | u16::from(last & 0x3f)
    };
    String::from_utf16_lossy(&[unit(first), unit(second)])
}

/// As text; each half that is alone becomes one U+FFFD.
pub(crate) fn lossy(text: Vec<u8>) -> String {
    String::from_utf8(text).unwrap_or_else(|error| replaced(error.as_bytes()))
}

fn replaced(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for piece in bytes.utf8_chunks() {
        text.push_str(piece.valid());
        // Half a surrogate is `ED`, then two bytes that are each invalid by themselves.
        if piece.invalid().starts_with(b"\xed") {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::RawText;

    /// The texts that come of pieces of JSON text, and what is left at the end.
    fn joined(pieces: &[&str]) -> (Vec<String>, String) {
        let mut halves = Halves::default();
        let raw = |json: &&str| serde_json::from_str::<RawText>(&format!("\"{json}\"")).unwrap().0;
        let texts = pieces.iter().map(raw).map(|piece| lossy(halves.join(piece))).collect();
        (texts, lossy(halves.rest()))
    }

    #[test]
    fn halves_meet_over_the_border_of_pieces() {
        for (pieces, texts, rest) in [
            (&["a\\ud83d", "\\ude42b"][..], &["a", "🙂b"][..], ""),
            (&["\\ud83d", "", "\\ude42"], &["", "", "🙂"], ""),
            (&["\\ud83d", "\\ude42\\ud83d", "\\ude42"], &["", "🙂", "🙂"], ""),
            (&["\\udbff", "\\udfff"], &["", "\u{10ffff}"], ""),
            (&["\\ud800", "\\udc00"], &["", "\u{10000}"], ""),
            (&["a\\ud83d", "b"], &["a", "\u{fffd}b"], ""),
            (&["\\ud83d", "\\ud83d"], &["", "\u{fffd}"], "\u{fffd}"),
            (&["\\ude42", "\\ud83d"], &["\u{fffd}", ""], "\u{fffd}"),
            (&["\\ud83d\\ude42", "퟿"], &["🙂", "퟿"], ""),
        ] {
            let expected = (texts.iter().map(|it| (*it).to_owned()).collect(), rest.to_owned());
            assert_eq!(joined(pieces), expected, "{pieces:?}");
        }
    }
}
