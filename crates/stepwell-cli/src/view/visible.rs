//! Makes characters visible that a terminal would obey or not show.
//!
//! Text from models and tools may move the cursor, hide a command behind spaces, or turn the reading
//! direction round. Here such characters become words: `<U+202E>`, `<4000 spaces>`.

use crate::out::{Paint, Tone};

/// How much is made visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    /// What a terminal obeys or what reorders text. Emoji and typography stay.
    Prose,
    /// Also every character that cannot be told from another, and long runs of blanks: for
    /// text that a person is about to approve.
    Exact,
}

/// Longest run of blanks that is shown as it is, with [`Care::Exact`].
const BLANKS_MAX: usize = 24;
/// Longest run of empty lines that is shown as it is, with [`Care::Exact`].
const EMPTY_LINES_MAX: usize = 4;

/// Text on one line: line breaks are shown as `\n`.
pub(crate) fn line(text: &str, care: Care, paint: Paint) -> String {
    show(text, care, paint, false)
}

/// Text on as many lines as it has.
pub(crate) fn block(text: &str, care: Care, paint: Paint) -> String {
    show(text, care, paint, true)
}

/// Text on one line, as prose, without colours; blanks and line breaks become single spaces. For
/// titles and previews in lists.
pub(crate) fn brief(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    line(&words.join(" "), Care::Prose, Paint::NONE)
}

/// How many characters of `text` would not be seen as what they are.
pub(crate) fn hidden_count(text: &str) -> usize {
    text.chars().filter(|c| *c != '\n' && *c != '\t' && is_hidden(*c, Care::Exact)).count()
}

/// Whether JSON should write `c` as an escape, so that printing the line does no harm.
pub(crate) fn is_unsafe_in_output(c: char) -> bool {
    c != '\n' && is_hidden(c, Care::Prose)
}

fn show(text: &str, care: Care, paint: Paint, keeps_lines: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\n' if care == Care::Exact => {
                let mut count = 1;
                while chars.next_if_eq(&c).is_some() {
                    count += 1;
                }
                push_run(&mut shown, c, count, paint, keeps_lines);
            }
            '\n' if keeps_lines => shown.push('\n'),
            '\n' => shown.push_str(&paint.tone(Tone::Faint, "\\n")),
            '\t' if keeps_lines => shown.push('\t'),
            '\t' => shown.push_str(&paint.tone(Tone::Faint, "\\t")),
            // A line of Windows ends with CR LF; only in prose it is nothing to speak of.
            '\r' if care == Care::Prose && chars.peek() == Some(&'\n') => {}
            c if is_hidden(c, care) => {
                shown.push_str(&paint.tone(Tone::Hidden, name(c)));
            }
            c => shown.push(c),
        }
    }
    shown
}

fn push_run(shown: &mut String, c: char, count: usize, paint: Paint, keeps_lines: bool) {
    match c {
        '\n' if count > EMPTY_LINES_MAX + 1 => {
            let lines = paint.tone(Tone::Hidden, format!("<{} empty lines>", count - 1));
            shown.push_str(if keeps_lines { "\n" } else { "\\n" });
            shown.push_str(&lines);
            shown.push_str(if keeps_lines { "\n" } else { "\\n" });
        }
        '\n' => {
            let one = if keeps_lines { "\n".to_owned() } else { paint.tone(Tone::Faint, "\\n") };
            shown.push_str(&one.repeat(count));
        }
        _ if count > BLANKS_MAX => {
            shown.push_str(&paint.tone(Tone::Hidden, format!("<{count} spaces>")));
        }
        _ => shown.push_str(&" ".repeat(count)),
    }
}

fn name(c: char) -> String {
    format!("<U+{:04X}>", u32::from(c))
}

fn is_hidden(c: char, care: Care) -> bool {
    let always = c.is_control() || is_reordering(c) || is_invisible(c);
    match care {
        Care::Prose => always,
        Care::Exact => always || is_lookalike_blank(c),
    }
}

/// Changes the order in which the rest is shown, or breaks the line.
fn is_reordering(c: char) -> bool {
    matches!(c,
        '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{206F}')
}

/// Takes no room at all, and no typography needs it.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{034F}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}'
        | '\u{200B}' | '\u{2060}'..='\u{2065}' | '\u{2800}' | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}')
}

/// Looks like a plain space or like nothing, and has its place in good typography and emoji.
fn is_lookalike_blank(c: char) -> bool {
    matches!(c,
        '\u{00A0}' | '\u{00AD}' | '\u{1680}' | '\u{2000}'..='\u{200A}' | '\u{200C}' | '\u{200D}'
        | '\u{202F}' | '\u{205F}' | '\u{3000}' | '\u{FE00}'..='\u{FE0F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn exact(text: &str, shown: &str) {
        assert_eq!(block(text, Care::Exact, Paint::NONE), shown);
    }

    #[test]
    fn what_a_terminal_would_obey_becomes_words() {
        exact("a\u{1b}[8mb", "a<U+001B>[8mb");
        exact("echo ok\rrm -rf", "echo ok<U+000D>rm -rf");
        exact("a\u{202e}b\u{2066}c", "a<U+202E>b<U+2066>c");
        exact("\u{9b}31m\u{7f}\u{0}", "<U+009B>31m<U+007F><U+0000>");
        exact("x\u{200b}\u{e0041}y", "x<U+200B><U+E0041>y");
        exact("rm\u{a0}-rf", "rm<U+00A0>-rf");
        exact("a\u{2028}b", "a<U+2028>b");
    }

    #[test]
    fn the_end_of_a_command_cannot_be_pushed_away() {
        let command = format!("echo ok{}; rm -rf data", " ".repeat(4000));
        exact(&command, "echo ok<4000 spaces>; rm -rf data");
        exact(&format!("a{}b", "\n".repeat(90)), "a\n<89 empty lines>\nb");
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in ["fn main() {\n    body();\n}\n", "Grüße, 世界", "a\tb", "a\n\nb"] {
            exact(text, text);
        }
        assert_eq!(block("👩‍💻 ok", Care::Prose, Paint::NONE), "👩‍💻 ok");
        assert_eq!(block("a\r\nb", Care::Prose, Paint::NONE), "a\nb");
    }

    #[test]
    fn one_line_has_no_line_break() {
        assert_eq!(line("a\nb\tc", Care::Prose, Paint::NONE), "a\\nb\\tc");
        assert_eq!(line("a\nb", Care::Exact, Paint::NONE), "a\\nb");
        assert_eq!(brief("  fix\n the\ttest \u{1b}"), "fix the test <U+001B>");
    }

    #[test]
    fn hidden_characters_are_counted() {
        assert_eq!(hidden_count("a\n\tb"), 0);
        assert_eq!(hidden_count("a\r\u{202e}\u{1b}[8m"), 3);
    }
}
