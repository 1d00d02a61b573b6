//! Where words go: stdout for answers, stderr for remarks; colours and width of the terminal.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use owo_colors::OwoColorize;
use serde::Serialize;

use crate::args::ColorWhen;
use crate::exit::ReaderGone;
use crate::view;

/// Longest error that is printed, in bytes: it may quote what it was given.
const ERROR_BYTES_MAX: usize = 8 * 1024;

/// Colours, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint {
    is_on: bool,
}

/// How a piece of text is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    /// As everything else.
    #[default]
    Plain,
    /// Of less interest.
    Faint,
    /// The name of the thing.
    Strong,
    /// It went well.
    Good,
    /// It went wrong.
    Bad,
    /// A person should look.
    Attention,
    /// It is moving.
    Busy,
    /// A character that would not be seen.
    Hidden,
}

impl Paint {
    /// No colours.
    pub(crate) const NONE: Self = Self { is_on: false };

    /// Colours as asked for; by default on a terminal only, and never with `NO_COLOR`.
    fn choose(when: ColorWhen, is_terminal: bool) -> Self {
        let is_on = match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => is_terminal && !is_set("NO_COLOR") && !is_dumb(),
        };
        Self { is_on }
    }

    /// Whether there are colours.
    pub(crate) fn is_on(self) -> bool {
        self.is_on
    }

    /// `text` in the colour of `tone`.
    pub(crate) fn tone(self, tone: Tone, text: impl Display) -> String {
        if !self.is_on {
            return text.to_string();
        }
        match tone {
            Tone::Plain => text.to_string(),
            Tone::Faint => text.dimmed().to_string(),
            Tone::Strong => text.bold().to_string(),
            Tone::Good => text.green().to_string(),
            Tone::Bad => text.red().to_string(),
            Tone::Attention => text.yellow().bold().to_string(),
            Tone::Busy => text.cyan().to_string(),
            Tone::Hidden => text.reversed().to_string(),
        }
    }

    /// Less interesting text.
    pub(crate) fn faint(self, text: impl Display) -> String {
        self.tone(Tone::Faint, text)
    }

    /// The name of the thing.
    pub(crate) fn strong(self, text: impl Display) -> String {
        self.tone(Tone::Strong, text)
    }
}

/// For terminals that do not tell their size.
fn columns_of_environment() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok()
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Stdout and stderr of this run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    /// Stdout carries JSON and nothing else.
    pub(crate) is_json: bool,
    /// Colours of stdout.
    pub(crate) paint: Paint,
    /// Colours of stderr.
    pub(crate) paint_err: Paint,
    /// Columns of the terminal behind stdout; `None` for a file or a pipe, where nothing is cut.
    pub(crate) width: Option<usize>,
    /// Whether a person sees stderr at once.
    pub(crate) is_watched: bool,
}

impl Out {
    /// Looks at the terminal.
    pub(crate) fn new(is_json: bool, when: ColorWhen) -> Self {
        let stdout_is_terminal = io::stdout().is_terminal();
        let stderr_is_terminal = io::stderr().is_terminal();
        let size = console::Term::stdout().size_checked();
        let width = size.map(|(_, columns)| usize::from(columns)).or_else(columns_of_environment);
        Self {
            is_json,
            paint: Paint::choose(when, stdout_is_terminal),
            paint_err: Paint::choose(when, stderr_is_terminal),
            width: width.filter(|columns| stdout_is_terminal && *columns > 0),
            is_watched: stderr_is_terminal,
        }
    }

    /// Writes to stdout as it is and makes it seen.
    #[expect(clippy::unused_self, reason = "whoever may write has an `Out`")]
    pub(crate) fn write(self, text: &str) -> anyhow::Result<()> {
        let mut stdout = io::stdout().lock();
        let done = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        done.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => ReaderGone.into(),
            _ => anyhow::Error::from(error).context("cannot write to stdout"),
        })
    }

    /// Writes one line to stdout.
    pub(crate) fn line(self, text: &str) -> anyhow::Result<()> {
        self.write(&format!("{text}\n"))
    }

    /// Writes lines to stdout.
    pub(crate) fn lines(self, lines: &[String]) -> anyhow::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut text = lines.join("\n");
        text.push('\n');
        self.write(&text)
    }

    /// Writes one JSON object on one line.
    pub(crate) fn json(self, value: &impl Serialize) -> anyhow::Result<()> {
        self.line(&view::json::to_line(value)?)
    }

    /// Says something that is no part of the answer. Lost when nobody reads it.
    #[expect(clippy::unused_self, reason = "whoever may write has an `Out`")]
    pub(crate) fn remark(self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// A remark in the colour of unimportant things.
    pub(crate) fn faint_remark(self, text: &str) {
        self.remark(&self.paint_err.faint(text));
    }
}

/// Tells the person about an error that ends the run.
pub(crate) fn report_error(when: ColorWhen, error: &anyhow::Error) {
    let paint = Paint::choose(when, io::stderr().is_terminal());
    let text = stepwell_core::text::shorten(&in_words(error), ERROR_BYTES_MAX);
    let text = view::visible::block(&text, view::visible::Care::Prose, Paint::NONE);
    let _ = writeln!(io::stderr().lock(), "{}: {text}", paint.tone(Tone::Bad, "error"));
}

/// An error with its causes, each said once, without numbers of the system.
pub(crate) fn in_words(error: &anyhow::Error) -> String {
    let mut text = format!("{error}");
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Many error types repeat their cause in their own words.
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    without_numbers(&text)
}

/// Without the numbers of the system, ` (os error 2)`: its words say the same.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once(" (os error ") {
        kept.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_only_for_terminals_unless_forced() {
        assert_eq!(Paint::choose(ColorWhen::Auto, false), Paint::NONE);
        assert_eq!(Paint::choose(ColorWhen::Never, true), Paint::NONE);
        assert!(Paint::choose(ColorWhen::Always, false).is_on);
    }

    #[test]
    fn errors_have_words_and_no_numbers() {
        for (text, words) in [
            ("cannot open x: No such file (os error 2)", "cannot open x: No such file"),
            ("a (os error 2): b (os error 13)", "a: b"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_numbers(text), words);
        }
    }

    #[test]
    fn a_cause_is_said_once() {
        let system = || io::Error::from_raw_os_error(21);
        let error = anyhow::Error::from(system()).context(format!("cannot read x: {}", system()));
        assert_eq!(in_words(&error), "cannot read x: Is a directory");
        let error = anyhow::anyhow!("inner").context("outer");
        assert_eq!(in_words(&error), "outer: inner");
    }

    #[test]
    fn without_colours_text_stays_as_it_is() {
        assert_eq!(Paint::NONE.tone(Tone::Bad, "x"), "x");
        let on = Paint { is_on: true };
        assert_eq!(on.tone(Tone::Bad, "x"), "\u{1b}[31mx\u{1b}[39m");
    }
}
