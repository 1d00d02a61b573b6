//! `list_files`: what is in the workspace.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::Deserialize;

use super::PathPattern;
use super::blocking::{Stop, Stopped, on_workspace};
use crate::function::tool_fn;
use crate::text::{counted, shown_path};
use crate::tool::{Effect, Tool};
use crate::workspace::{Entry, Kind, OnMissing, Traversal, Tree, Workspace};

const DESCRIPTION: &str = "Lists files and folders in the workspace, one a line; folders end with a slash, links show their target. What .gitignore names is left out unless include_ignored is true.";

/// Entries shown when the model does not say: enough to know a small project.
const ENTRIES_DEFAULT: u64 = 500;
/// Entries shown at most.
const ENTRIES_MAX: u64 = 5_000;
/// Bytes of text in one answer, as for `read_file`.
const OUTPUT_BYTES_MAX: usize = 48 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListFiles {
    /// The folder, relative to the workspace. `.`, the default, is the workspace itself.
    path: Option<String>,
    /// Show only what fits this pattern. Without a slash it is for names at any depth (*.rs), with one for paths (src/**/*.rs).
    glob: Option<String>,
    /// How many levels of folders to enter; 1 is the folder alone. Default: all.
    depth: Option<u64>,
    /// Also show what .gitignore names. Default false.
    #[serde(default)]
    include_ignored: bool,
    /// How many entries to show. Default 500, at most 5000.
    limit: Option<u64>,
}

pub(super) fn list_files() -> impl Tool {
    tool_fn("list_files", DESCRIPTION, Effect::Read, |context, arguments: ListFiles| {
        on_workspace(context, move |workspace, stop| list(workspace, stop, &arguments))
    })
}

fn list(workspace: &Workspace, stop: &Stop, arguments: &ListFiles) -> Result<String, Stopped> {
    let pattern = arguments.glob.as_deref().map(PathPattern::parse).transpose()?;
    let start = workspace.locate(arguments.path.as_deref().unwrap_or("."), OnMissing::Refuse)?;
    let limit = arguments.limit.unwrap_or(ENTRIES_DEFAULT).clamp(1, ENTRIES_MAX) as usize;
    let depth_max = arguments.depth.unwrap_or(u64::MAX).max(1) as usize;
    let tree =
        Tree { workspace, start: &start, depth_max, with_ignored: arguments.include_ignored };
    let mut lines = Vec::new();
    let mut bytes = 0_usize;
    let traversal = tree.walk(|entry| {
        stop.check()?;
        let fits =
            pattern.as_ref().is_none_or(|pattern| pattern.fits(&entry.relative, &start.relative));
        if !fits {
            return Ok(ControlFlow::Continue(()));
        }
        let line = show(entry);
        bytes += line.len() + 1;
        if lines.len() >= limit || bytes > OUTPUT_BYTES_MAX {
            return Ok::<_, Stopped>(ControlFlow::Break(()));
        }
        lines.push(line);
        Ok(ControlFlow::Continue(()))
    })?;
    lines.sort_unstable();
    let mut text = lines.join("\n");
    add_notes(&mut text, lines.len(), &traversal);
    Ok(text)
}

fn show(entry: &Entry) -> String {
    let path = shown_path(&entry.relative);
    match entry.kind {
        Kind::File => path,
        Kind::Folder => format!("{path}/"),
        Kind::Special => format!("{path} (pipe, socket or device)"),
        Kind::Link => {
            let target = entry.link_target().map_or_else(|| "?".to_owned(), |to| shown_path(&to));
            format!("{path} -> {target}")
        }
    }
}

fn add_notes(text: &mut String, shown: usize, traversal: &Traversal) {
    let mut notes = Vec::new();
    if shown == 0 {
        notes.push("nothing to show".to_owned());
    }
    if let Some(cut) = traversal.cut {
        notes.push(format!(
            "{shown} shown, there are more ({}); narrow it with path, glob or depth",
            cut.reason()
        ));
    }
    if traversal.ignored > 0 {
        notes.push(format!("{} left out as .gitignore says", traversal.ignored));
    }
    if traversal.unreadable > 0 {
        notes.push(format!("{} not readable", counted(traversal.unreadable, "folder")));
    }
    if !notes.is_empty() {
        let separator = if text.is_empty() { "" } else { "\n" };
        let _ = write!(text, "{separator}[{}]", notes.join("; "));
    }
}
