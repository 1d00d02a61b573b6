//! `read_file`: text of a file, a window of lines at a time.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader};

use schemars::JsonSchema;
use serde::Deserialize;

use super::blocking::{Stop, Stopped, on_workspace};
use crate::function::tool_fn;
use crate::text::{counted, grouped, shown_path, unfinished_end, visible};
use crate::tool::{Effect, Tool, ToolError};
use crate::workspace::{OnMissing, Workspace, errno_of};

const DESCRIPTION: &str = "Reads a text file in the workspace, or some lines of it. A long file is read in parts: the end of the result says which line comes next.";

/// Lines in one answer when the model does not say: a source file of usual size in one call.
const LINES_DEFAULT: u64 = 2_000;
/// Bytes of text in one answer: about 12,000 tokens, which a context window bears a few times.
const OUTPUT_BYTES_MAX: usize = 48 * 1024;
/// The part of a line that is shown; longer ones are data or were made by a machine.
const LINE_BYTES_MAX: usize = 2_000;
/// How far the lines after the window are counted.
const COUNTED_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The beginning that tells text from other data, as git and grep do it.
const PROBE_BYTES: usize = 8 * 1024;
/// Bytes shown of a file that is no text: its kind is told by these.
const HEX_BYTES: usize = 64;
/// Lines read between two looks at whether to stop.
const LINES_PER_CHECK: u64 = 4_096;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFile {
    /// The file, relative to the workspace.
    path: String,
    /// The first line to read, from 1. Default 1.
    offset: Option<u64>,
    /// How many lines to read. Default 2000.
    limit: Option<u64>,
    /// Put the line number and a tab before each line. Default false.
    #[serde(default)]
    line_numbers: bool,
}

pub(super) fn read_file() -> impl Tool {
    tool_fn("read_file", DESCRIPTION, Effect::Read, |context, arguments: ReadFile| {
        on_workspace(context, move |workspace, stop| read(workspace, stop, &arguments))
    })
}

fn read(workspace: &Workspace, stop: &Stop, arguments: &ReadFile) -> Result<String, Stopped> {
    let place = workspace.locate(&arguments.path, OnMissing::Refuse)?;
    let file = place.open_file()?;
    let shown = shown_path(&place.relative);
    let fail = |error: std::io::Error| {
        ToolError::Failed(format!("cannot read `{shown}`: {}", errno_of(&error).desc()))
    };
    let size = file.metadata().map_err(fail)?.len();
    let mut reader = BufReader::with_capacity(PROBE_BYTES, file);
    let probe = reader.fill_buf().map_err(fail)?;
    if probe.contains(&0) {
        return Ok(describe_binary(&shown, size, probe));
    }
    let mut window = Window::new(arguments);
    window.read(&mut reader, stop, &fail)?;
    window.finish(&shown, arguments)
}

fn describe_binary(shown: &str, size: u64, probe: &[u8]) -> String {
    let mut text = format!("[{shown} is not text: {} bytes, beginning (hex):", grouped(size));
    for byte in probe.iter().take(HEX_BYTES) {
        let _ = write!(text, " {byte:02x}");
    }
    text.push_str("; use the shell tool to look into it]");
    text
}

/// The lines asked for, while the file goes by.
struct Window {
    first: u64,
    /// The last line asked for, or the last one that fits.
    last: u64,
    with_numbers: bool,
    text: String,
    /// The last line in `text`.
    shown_until: u64,
    lines: u64,
    bytes: u64,
    is_counted: bool,
    replaced: usize,
    shortened: u64,
    has_crlf: bool,
}

impl Window {
    fn new(arguments: &ReadFile) -> Self {
        let first = arguments.offset.unwrap_or(1).max(1);
        let count = arguments.limit.unwrap_or(LINES_DEFAULT).max(1);
        Self {
            first,
            last: first.saturating_add(count - 1),
            with_numbers: arguments.line_numbers,
            text: String::new(),
            shown_until: first - 1,
            lines: 0,
            bytes: 0,
            is_counted: true,
            replaced: 0,
            shortened: 0,
            has_crlf: false,
        }
    }

    fn read(
        &mut self,
        reader: &mut BufReader<File>,
        stop: &Stop,
        fail: &impl Fn(std::io::Error) -> ToolError,
    ) -> Result<(), Stopped> {
        let mut line = Vec::with_capacity(LINE_BYTES_MAX);
        loop {
            if self.lines.is_multiple_of(LINES_PER_CHECK) {
                stop.check()?;
            }
            let length = next_line(reader, &mut line, stop, fail)?;
            if length == 0 {
                return Ok(());
            }
            self.lines += 1;
            self.bytes += length;
            if self.lines >= self.first && self.lines <= self.last {
                self.take(&line, length);
            }
            let is_past = self.lines >= self.last;
            if is_past && self.bytes >= COUNTED_BYTES_MAX {
                self.is_counted = false;
                return Ok(());
            }
        }
    }

    /// Adds a line, of which `kept` may be only the beginning.
    fn take(&mut self, kept: &[u8], length: u64) {
        let is_short = (kept.len() as u64) < length;
        let kept = if is_short {
            kept.get(..kept.len() - unfinished_end(kept)).unwrap_or(kept)
        } else {
            kept
        };
        let mut shown = kept.strip_suffix(b"\n").unwrap_or(kept);
        if let Some(without) = shown.strip_suffix(b"\r").filter(|_| shown.len() < kept.len()) {
            self.has_crlf = true;
            shown = without;
        }
        let (text, replaced) = visible(shown);
        let is_first = self.lines == self.first;
        // One line always fits, so that the next call gets on.
        if !is_first && self.text.len() + text.len() > OUTPUT_BYTES_MAX {
            self.last = self.lines - 1;
            return;
        }
        if self.with_numbers {
            let _ = write!(self.text, "{:>6}\t", self.lines);
        }
        self.text.push_str(&text);
        if is_short {
            let left_out = length - kept.len() as u64;
            let _ = write!(self.text, "… {} bytes left out …", grouped(left_out));
            self.shortened += 1;
        }
        self.text.push('\n');
        self.replaced += replaced;
        self.shown_until = self.lines;
    }

    fn finish(mut self, shown: &str, arguments: &ReadFile) -> Result<String, Stopped> {
        if self.lines == 0 {
            return Ok(format!("[{shown} is empty]"));
        }
        if self.first > self.lines {
            let message = format!(
                "`{shown}` has {}; offset {} is after its end",
                counted(self.lines as usize, "line"),
                arguments.offset.unwrap_or(1)
            );
            return Err(ToolError::Failed(message).into());
        }
        let mut notes = Vec::new();
        if self.shown_until < self.lines || !self.is_counted {
            let total = if self.is_counted { "" } else { "more than " };
            notes.push(format!(
                "lines {} to {} of {total}{}; go on with offset {}",
                self.first,
                self.shown_until,
                self.lines,
                self.shown_until + 1
            ));
        } else if self.first > 1 {
            notes.push(format!("lines {} to {}, the last", self.first, self.shown_until));
        }
        if self.shortened > 0 {
            notes.push(format!("{} shortened", counted(self.shortened as usize, "long line")));
        }
        if self.replaced > 0 {
            notes.push(format!(
                "{} not UTF-8, shown as \u{FFFD}; edit_file cannot edit this file",
                counted(self.replaced, "byte")
            ));
        }
        if self.has_crlf {
            notes.push("lines end with CR LF, which is not shown".to_owned());
        }
        if !notes.is_empty() {
            let _ = writeln!(self.text, "[{}]", notes.join("; "));
        }
        Ok(self.text)
    }
}

/// Reads one line, newline included, and gives its length; keeps only its beginning. 0 is the end.
fn next_line(
    reader: &mut BufReader<File>,
    kept: &mut Vec<u8>,
    stop: &Stop,
    fail: &impl Fn(std::io::Error) -> ToolError,
) -> Result<u64, Stopped> {
    kept.clear();
    let mut length = 0_u64;
    loop {
        let chunk = reader.fill_buf().map_err(fail)?;
        if chunk.is_empty() {
            return Ok(length);
        }
        let newline = chunk.iter().position(|byte| *byte == b'\n');
        let taken = newline.map_or(chunk.len(), |at| at + 1);
        // One more than is shown, so that a line's end is seen when just the text fits.
        let room = (LINE_BYTES_MAX + 1).saturating_sub(kept.len()).min(taken);
        kept.extend(chunk.iter().take(room));
        reader.consume(taken);
        length += taken as u64;
        if newline.is_some() {
            return Ok(length);
        }
        if length >= COUNTED_BYTES_MAX {
            // A file that is one endless line, such as a sparse disk image.
            stop.check()?;
        }
    }
}
