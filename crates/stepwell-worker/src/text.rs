//! Bytes and paths as text that a model can read.

use std::borrow::Cow;
use std::path::Path;

/// The longest tail of a UTF-8 character that can miss its end.
const UTF8_TAIL_MAX: usize = 3;

/// A path for messages and lists. Characters that would break the line or hide in it are escaped.
pub(crate) fn shown_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.is_empty() {
        return ".".to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut shown, character| {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
        shown
    })
}

/// Text in which every byte that is no UTF-8 is shown as U+FFFD, and how many such bytes there are.
pub(crate) fn visible(bytes: &[u8]) -> (Cow<'_, str>, usize) {
    let text = String::from_utf8_lossy(bytes);
    let replaced = match text {
        Cow::Borrowed(_) => 0,
        Cow::Owned(_) => bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum(),
    };
    (text, replaced)
}

/// How many bytes at the end are the beginning of a character whose end is not there.
pub(crate) fn unfinished_end(bytes: &[u8]) -> usize {
    for (back, byte) in bytes.iter().rev().take(UTF8_TAIL_MAX).enumerate() {
        let needed = match byte {
            0b1000_0000..=0b1011_1111 => continue,
            0b1100_0000..=0b1101_1111 => 2,
            0b1110_0000..=0b1110_1111 => 3,
            0b1111_0000..=0b1111_0111 => 4,
            _ => 1,
        };
        return if needed > back + 1 { back + 1 } else { 0 };
    }
    0
}

/// How many bytes at the beginning are the end of a character whose beginning is not there.
pub(crate) fn unstarted_begin(bytes: &[u8]) -> usize {
    bytes.iter().take(UTF8_TAIL_MAX).take_while(|byte| (0x80..0xC0).contains(*byte)).count()
}

/// The first `bytes_max` bytes of a text, never cutting a character.
pub(crate) fn prefix(text: &str, bytes_max: usize) -> &str {
    let bytes_max = bytes_max.min(text.len());
    let fits = (0..=bytes_max).rev().find_map(|end| text.get(..end));
    fits.unwrap_or_default()
}

/// A number with a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let lead = digits.len() % 3;
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && index % 3 == lead {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// `1 line`, `2 lines`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_character_is_found_at_both_ends() {
        let text = "aż漢🧪".as_bytes();
        for end in 0..=text.len() {
            let whole = end - unfinished_end(&text[..end]);
            assert!(std::str::from_utf8(&text[..whole]).is_ok(), "end {end}, whole {whole}");
        }
        for start in 0..=text.len() {
            let whole = start + unstarted_begin(&text[start..]);
            assert!(std::str::from_utf8(&text[whole..]).is_ok(), "start {start}, whole {whole}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_counted_and_shown() {
        assert_eq!(visible(b"\xff\xfeA\x80B"), ("\u{FFFD}\u{FFFD}A\u{FFFD}B".into(), 3));
        assert_eq!(visible("ż".as_bytes()), ("ż".into(), 0));
        assert_eq!(unfinished_end(b"\xff\x80\x80\x80"), 0, "never valid, so nothing to wait for");
    }

    #[test]
    fn numbers_are_grouped() {
        let shown = [0, 7, 999, 1000, 50_000_000].map(grouped);
        assert_eq!(shown, ["0", "7", "999", "1,000", "50,000,000"]);
        assert_eq!(counted(1, "line"), "1 line");
        assert_eq!(counted(1200, "line"), "1,200 lines");
    }

    #[test]
    fn paths_stay_on_their_line() {
        assert_eq!(shown_path(Path::new("a\nb\u{1b}[31m")), "a\\nb\\u{1b}[31m");
        assert_eq!(shown_path(Path::new("")), ".");
    }
}
