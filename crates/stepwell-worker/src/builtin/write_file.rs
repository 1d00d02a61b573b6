//! `write_file`: sets a file's whole content.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::FileLocks;
use super::blocking::{Stop, Stopped, on_workspace};
use crate::function::tool_fn;
use crate::text::{counted, shown_path};
use crate::tool::{Effect, Tool, ToolError};
use crate::workspace::{FILE_BYTES_MAX, OnMissing, Workspace, replace_file};

const DESCRIPTION: &str = "Writes a text file in the workspace, whole: a new one (folders on the way are created) or in place of the old content. To change a part of a file use edit_file.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    /// The file, relative to the workspace.
    path: String,
    /// The whole new content.
    content: String,
}

pub(super) fn write_file(locks: Arc<FileLocks>) -> impl Tool {
    tool_fn("write_file", DESCRIPTION, Effect::Write, move |context, arguments: WriteFile| {
        let locks = Arc::clone(&locks);
        on_workspace(context, move |workspace, stop| write(workspace, stop, &locks, &arguments))
    })
}

fn write(
    workspace: &Workspace,
    stop: &Stop,
    locks: &FileLocks,
    WriteFile { path, content }: &WriteFile,
) -> Result<String, Stopped> {
    let size = content.len() as u64;
    if size > FILE_BYTES_MAX {
        let message = format!(
            "`content` has {size} bytes, more than the {FILE_BYTES_MAX} a file may get at once; write it in parts with the shell tool"
        );
        return Err(ToolError::Failed(message).into());
    }
    // The first look makes the folders and finds the file behind links, so that the lock is that of
    // the file; the second one sees what a call before this one left.
    let first = workspace.locate(path, OnMissing::CreateFolders)?;
    if path.ends_with('/') {
        let message =
            format!("`{path}` names a folder; folders are created with the files in them");
        return Err(ToolError::Failed(message).into());
    }
    let _held = locks.lock(workspace.root(), &first);
    stop.check()?;
    let place = workspace.locate(path, OnMissing::CreateFolders)?;
    let is_new = place.kind().is_none();
    let shown = shown_path(&place.relative);
    if !is_new && place.read(size).is_ok_and(|old| old == content.as_bytes()) {
        return Ok(format!("{shown} has this content already; nothing was changed"));
    }
    replace_file(&place, content.as_bytes())?;
    let verb = if is_new { "created" } else { "replaced" };
    let (lines, bytes) = (content.lines().count(), content.len());
    Ok(format!("{verb} {shown}: {}, {}", counted(lines, "line"), counted(bytes, "byte")))
}
