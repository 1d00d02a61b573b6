//! `search_files`: lines that fit a regular expression.

use std::fmt::Write as _;
use std::io::Read;
use std::ops::ControlFlow;

use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::PathPattern;
use super::blocking::{Stop, Stopped, on_workspace};
use crate::function::tool_fn;
use crate::text::{counted, shown_path, unfinished_end, unstarted_begin, visible};
use crate::tool::{Effect, Tool, ToolError};
use crate::workspace::{Entry, FILE_BYTES_MAX, Kind, OnMissing, Traversal, Tree, Workspace};

const DESCRIPTION: &str = "Searches the text files of the workspace line by line for a regular expression (Rust syntax). A match is shown as path:line:text, lines around it as path-line-text. What .gitignore names is left out unless include_ignored is true.";

/// Matching lines shown when the model does not say.
const MATCHES_DEFAULT: u64 = 100;
/// Matching lines shown at most.
const MATCHES_MAX: u64 = 1_000;
/// Lines around a match at most.
const CONTEXT_LINES_MAX: u64 = 10;
/// Bytes of text in one answer, as for `read_file`.
const OUTPUT_BYTES_MAX: usize = 48 * 1024;
/// The part of a line that is shown, with the match in it.
const LINE_BYTES_MAX: usize = 500;
/// Bytes shown before a match in a line that is too long.
const LEAD_BYTES: usize = 100;
/// Memory that a compiled pattern may take; real patterns need a hundredth.
const PATTERN_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The beginning that tells text from other data.
const PROBE_BYTES: usize = 8 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchFiles {
    /// The regular expression.
    pattern: String,
    /// The folder or file, relative to the workspace. `.`, the default, is the workspace itself.
    path: Option<String>,
    /// Search only files that fit this pattern. Without a slash it is for names at any depth (*.rs), with one for paths (src/**/*.rs).
    glob: Option<String>,
    /// Take the pattern as plain text. Default false.
    #[serde(default)]
    literal: bool,
    /// Take capital and small letters as the same. Default false.
    #[serde(default)]
    ignore_case: bool,
    /// Lines to show before and after each match. Default 0, at most 10.
    context_lines: Option<u64>,
    /// Also search what .gitignore names. Default false.
    #[serde(default)]
    include_ignored: bool,
    /// How many matching lines to show. Default 100, at most 1000.
    limit: Option<u64>,
}

pub(super) fn search_files() -> impl Tool {
    tool_fn("search_files", DESCRIPTION, Effect::Read, |context, arguments: SearchFiles| {
        on_workspace(context, move |workspace, stop| search(workspace, stop, &arguments))
    })
}

fn search(workspace: &Workspace, stop: &Stop, arguments: &SearchFiles) -> Result<String, Stopped> {
    let glob = arguments.glob.as_deref().map(PathPattern::parse).transpose()?;
    let start = workspace.locate(arguments.path.as_deref().unwrap_or("."), OnMissing::Refuse)?;
    let mut report = Report::new(compile(arguments)?, arguments);
    if start.kind() == Some(Kind::File) {
        let mut content = Vec::new();
        if report.read(start.open_file()?, &mut content) {
            // One file ends by itself, so whether the answer is full changes nothing here.
            let _ = report.add_file(&shown_path(&start.relative), &content);
        }
        return Ok(report.finish(&Traversal::default(), arguments));
    }
    let with_ignored = arguments.include_ignored;
    let tree = Tree { workspace, start: &start, depth_max: usize::MAX, with_ignored };
    let mut content = Vec::new();
    let traversal = tree.walk(|entry: &Entry| {
        stop.check()?;
        let fits = glob.as_ref().is_none_or(|glob| glob.fits(&entry.relative, &start.relative));
        if entry.kind != Kind::File || !fits {
            return Ok(ControlFlow::Continue(()));
        }
        let Some(file) = entry.open_file() else {
            report.unreadable += 1;
            return Ok(ControlFlow::Continue(()));
        };
        if !report.read(file, &mut content) {
            return Ok(ControlFlow::Continue(()));
        }
        Ok::<_, Stopped>(report.add_file(&shown_path(&entry.relative), &content))
    })?;
    Ok(report.finish(&traversal, arguments))
}

fn compile(arguments: &SearchFiles) -> Result<Regex, ToolError> {
    let escaped;
    let pattern = if arguments.literal {
        escaped = regex::escape(&arguments.pattern);
        &escaped
    } else {
        &arguments.pattern
    };
    if pattern.is_empty() {
        return Err(ToolError::failed("`pattern` is empty and would match every line"));
    }
    RegexBuilder::new(pattern)
        .case_insensitive(arguments.ignore_case)
        .size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|error| {
            ToolError::Failed(format!(
                "`pattern` is no regular expression: {error}\nset literal to search for it as plain text"
            ))
        })
}

/// The answer as it grows.
struct Report {
    pattern: Regex,
    limit: usize,
    around: usize,
    text: String,
    matches: usize,
    files: usize,
    searched: usize,
    binary: usize,
    too_large: usize,
    unreadable: usize,
    is_full: bool,
}

impl Report {
    fn new(pattern: Regex, arguments: &SearchFiles) -> Self {
        Self {
            pattern,
            limit: arguments.limit.unwrap_or(MATCHES_DEFAULT).clamp(1, MATCHES_MAX) as usize,
            around: arguments.context_lines.unwrap_or(0).min(CONTEXT_LINES_MAX) as usize,
            text: String::new(),
            matches: 0,
            files: 0,
            searched: 0,
            binary: 0,
            too_large: 0,
            unreadable: 0,
            is_full: false,
        }
    }

    /// Reads a file whole; false, and counted, if it is no text or too large.
    fn read(&mut self, file: std::fs::File, content: &mut Vec<u8>) -> bool {
        content.clear();
        let read = file.take(FILE_BYTES_MAX + 1).read_to_end(content);
        if read.is_err() {
            self.unreadable += 1;
        } else if content.len() as u64 > FILE_BYTES_MAX {
            self.too_large += 1;
        } else if content.iter().take(PROBE_BYTES).any(|byte| *byte == 0) {
            self.binary += 1;
        } else {
            return true;
        }
        false
    }

    /// Adds the matches of one file; breaks when the answer is full.
    fn add_file(&mut self, shown: &str, content: &[u8]) -> ControlFlow<()> {
        self.searched += 1;
        let body = content.strip_suffix(b"\n").unwrap_or(content);
        let lines: Vec<&[u8]> = if content.is_empty() {
            Vec::new()
        } else {
            body.split(|byte| *byte == b'\n')
                .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
                .collect()
        };
        let mut is_first_match = true;
        // The next line that was not shown yet, so that overlapping surroundings are shown once.
        let mut next = 0;
        for (index, line) in lines.iter().enumerate() {
            let Some(found) = self.pattern.find(line) else { continue };
            if self.matches >= self.limit || self.text.len() > OUTPUT_BYTES_MAX {
                self.is_full = true;
                return ControlFlow::Break(());
            }
            self.matches += 1;
            self.files += usize::from(is_first_match);
            is_first_match = false;
            let from = index.saturating_sub(self.around).max(next);
            if self.around > 0 && !self.text.is_empty() && (from > next || next == 0) {
                self.text.push_str("--\n");
            }
            self.add_lines(shown, &lines, from..index);
            self.add_line(shown, index, line, Some(found.start()));
            let after_end = (index + 1 + self.around).min(lines.len());
            // Lines after a match that match themselves are shown as such when they come.
            let next_match = lines
                .iter()
                .enumerate()
                .take(after_end)
                .skip(index + 1)
                .find(|(_, line)| self.pattern.is_match(line))
                .map_or(after_end, |(at, _)| at);
            self.add_lines(shown, &lines, index + 1..next_match);
            next = next_match;
        }
        ControlFlow::Continue(())
    }

    fn add_lines(&mut self, shown: &str, lines: &[&[u8]], range: std::ops::Range<usize>) {
        let count = range.len();
        for (index, line) in lines.iter().enumerate().skip(range.start).take(count) {
            self.add_line(shown, index, line, None);
        }
    }

    fn add_line(&mut self, shown: &str, index: usize, line: &[u8], found: Option<usize>) {
        let mark = if found.is_some() { ':' } else { '-' };
        let _ = write!(self.text, "{shown}{mark}{}{mark}", index + 1);
        let start = if line.len() > LINE_BYTES_MAX {
            found.unwrap_or(0).saturating_sub(LEAD_BYTES)
        } else {
            0
        };
        let rest = line.get(start..).unwrap_or(line);
        let skipped = if start > 0 { unstarted_begin(rest) } else { 0 };
        let rest = rest.get(skipped..).unwrap_or(rest);
        let part = rest.get(..LINE_BYTES_MAX).unwrap_or(rest);
        let is_cut = part.len() < rest.len();
        let part = if is_cut { part.get(..part.len() - unfinished_end(part)) } else { Some(part) };
        if start > 0 {
            self.text.push('…');
        }
        self.text.push_str(&visible(part.unwrap_or_default()).0);
        self.text.push_str(if is_cut { "…\n" } else { "\n" });
    }

    fn finish(mut self, traversal: &Traversal, arguments: &SearchFiles) -> String {
        let mut notes = Vec::new();
        if self.matches == 0 {
            notes.push(format!("no match in {}", counted(self.searched, "file")));
            if !arguments.literal && arguments.pattern.contains(r"\n") {
                notes.push("lines are searched one by one, so \\n never matches".to_owned());
            }
        } else {
            notes.push(format!(
                "{} in {}",
                counted(self.matches, "matching line"),
                counted(self.files, "file")
            ));
        }
        if self.is_full {
            notes.push("there are more; narrow it with path, glob or pattern".to_owned());
        } else if let Some(cut) = traversal.cut {
            notes.push(format!("not everything was searched: {}", cut.reason()));
        }
        let unreadable = self.unreadable + traversal.unreadable;
        let skipped = [
            (self.binary, "not text"),
            (self.too_large, "too large"),
            (unreadable, "not readable"),
            (traversal.ignored, "left out as .gitignore says"),
        ];
        for (count, why) in skipped {
            if count > 0 {
                notes.push(format!("{count} {why}"));
            }
        }
        let _ = write!(self.text, "[{}]", notes.join("; "));
        self.text
    }
}
