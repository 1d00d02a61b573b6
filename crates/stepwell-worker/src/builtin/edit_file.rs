//! `edit_file`: replaces exact text in a file.

use std::fmt::Write as _;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::FileLocks;
use super::blocking::{Stop, Stopped, on_workspace};
use super::nearest::nearest_line;
use crate::function::tool_fn;
use crate::text::{counted, prefix, shown_path};
use crate::tool::{Effect, Tool, ToolError};
use crate::workspace::{FILE_BYTES_MAX, OnMissing, Workspace, replace_file};

const DESCRIPTION: &str = "Replaces text in a file of the workspace. old_text must be in the file exactly as given, white space included, and only once unless replace_all is true. Take it from read_file without line numbers.";

/// Line numbers named when a text is found too often.
const LINES_NAMED_MAX: usize = 10;
/// Lines shown before and after the change.
const CONTEXT_LINES: usize = 3;
/// Changed lines shown: the model knows what it wrote, it only needs to see where it landed.
const SHOWN_LINES_MAX: usize = 30;
/// The part of a line that is shown.
const SHOWN_LINE_BYTES_MAX: usize = 300;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditFile {
    /// The file, relative to the workspace.
    path: String,
    /// The text to replace, exactly as in the file.
    old_text: String,
    /// The text to put in its place.
    new_text: String,
    /// Replace every occurrence instead of exactly one.
    #[serde(default)]
    replace_all: bool,
}

pub(super) fn edit_file(locks: Arc<FileLocks>) -> impl Tool {
    tool_fn("edit_file", DESCRIPTION, Effect::Write, move |context, arguments: EditFile| {
        let locks = Arc::clone(&locks);
        on_workspace(context, move |workspace, stop| edit(workspace, stop, &locks, &arguments))
    })
}

fn edit(
    workspace: &Workspace,
    stop: &Stop,
    locks: &FileLocks,
    arguments: &EditFile,
) -> Result<String, Stopped> {
    let first = workspace.locate(&arguments.path, OnMissing::Refuse)?;
    let _held = locks.lock(workspace.root(), &first);
    stop.check()?;
    let place = workspace.locate(&arguments.path, OnMissing::Refuse)?;
    let shown = shown_path(&place.relative);
    let content = String::from_utf8(place.read(FILE_BYTES_MAX)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        ToolError::Failed(format!(
            "`{shown}` is not UTF-8 text (first at byte {at}), so it cannot be edited as text; use the shell tool"
        ))
    })?;
    let change = Change::plan(&content, arguments)
        .map_err(|problem| ToolError::Failed(format!("`{shown}` was not changed: {problem}")))?;
    let edited = change.apply(&content);
    if edited.len() as u64 > FILE_BYTES_MAX {
        let message = format!(
            "`{shown}` was not changed: it would grow to {} bytes, more than {FILE_BYTES_MAX}",
            edited.len()
        );
        return Err(ToolError::Failed(message).into());
    }
    replace_file(&place, edited.as_bytes())?;
    Ok(change.report(&shown, &content, &edited))
}

/// Where a text is to be replaced, and by what.
#[derive(Debug)]
struct Change {
    old: String,
    new: String,
    /// Byte offsets in the content, ascending, without overlap.
    offsets: Vec<usize>,
    has_crlf: bool,
}

impl Change {
    fn plan(content: &str, arguments: &EditFile) -> Result<Self, String> {
        let EditFile { old_text, new_text, replace_all, .. } = arguments;
        if old_text.is_empty() {
            return Err("old_text is empty; give the text to replace, or use write_file to set the whole content".to_owned());
        }
        if old_text == new_text {
            return Err("old_text and new_text are the same".to_owned());
        }
        let mut change = Self::find(content, old_text, new_text);
        if change.offsets.is_empty() && content.contains("\r\n") {
            // Models do not see carriage returns, so they leave them out.
            let with_crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
            change = Self::find(content, &with_crlf(old_text), &with_crlf(new_text));
            change.has_crlf = true;
        }
        match change.offsets.len() {
            0 => Err(not_found(content, old_text)),
            1 if !*replace_all && change.overlaps(content) => {
                Err("old_text overlaps itself there, so it is not clear which part is meant; add the text around it".to_owned())
            }
            1 => Ok(change),
            _ if *replace_all => Ok(change),
            count => {
                let lines = change.offsets.iter().take(LINES_NAMED_MAX);
                let lines: Vec<_> = lines.map(|at| line_of(content, *at).to_string()).collect();
                let more = if count > LINES_NAMED_MAX { ", …" } else { "" };
                Err(format!(
                    "old_text is there {count} times (lines {}{more}); add lines around it until it is there once, or set replace_all",
                    lines.join(", ")
                ))
            }
        }
    }

    fn find(content: &str, old: &str, new: &str) -> Self {
        let offsets = content.match_indices(old).map(|(at, _)| at).collect();
        Self { old: old.to_owned(), new: new.to_owned(), offsets, has_crlf: false }
    }

    /// Whether the text is also found inside of its only match, as `aa` twice in `aaa`.
    fn overlaps(&self, content: &str) -> bool {
        let first_length = self.old.chars().next().map_or(1, char::len_utf8);
        let after = self.offsets.first().and_then(|at| content.get(at + first_length..));
        after.is_some_and(|rest| rest.contains(&self.old))
    }

    fn apply(&self, content: &str) -> String {
        content.replace(&self.old, &self.new)
    }

    fn report(&self, shown: &str, content: &str, edited: &str) -> String {
        let count = counted(self.offsets.len(), "replacement");
        let mut report = format!("edited {shown}: {count}");
        if self.has_crlf {
            report.push_str(" (its lines end with CR LF, which was kept)");
        }
        let Some(at) = self.offsets.first() else { return report };
        let first = line_of(content, *at);
        let changed = self.new.lines().count().max(1);
        let from = first.saturating_sub(CONTEXT_LINES).max(1);
        let until = first + changed.min(SHOWN_LINES_MAX) + CONTEXT_LINES;
        report.push_str(if self.offsets.len() > 1 { "; the first one:" } else { ":" });
        for (number, line) in
            edited.lines().enumerate().map(|(index, line)| (index + 1, line)).skip(from - 1)
        {
            if number >= until {
                break;
            }
            // Writing to a string cannot fail.
            let _ = write!(report, "\n{number:>6}\t{}", prefix(line, SHOWN_LINE_BYTES_MAX));
        }
        report
    }
}

fn not_found(content: &str, old_text: &str) -> String {
    let mut message = "old_text is not in the file".to_owned();
    if let Some(nearest) = nearest_line(content, old_text) {
        let line = prefix(nearest.line, SHOWN_LINE_BYTES_MAX);
        let how =
            if nearest.differs_in_space { "differs only in white space" } else { "is nearest" };
        let _ = write!(message, "; line {} {how}:\n{line}\n", nearest.number);
        message.push_str("read the file again and copy the text exactly");
    } else if content.is_empty() {
        message.push_str(", which is empty; use write_file");
    } else {
        message.push_str(" and no line of it is near; read the file again");
    }
    message
}

/// The line that holds this byte, from 1.
fn line_of(content: &str, at: usize) -> usize {
    content.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}
