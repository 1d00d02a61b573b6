//! The tools every worker has: files and commands in the session's workspace folder.
//!
//! Which of them ask first: `read_file`, `list_files` and `search_files` only read. `write_file`,
//! `edit_file` and `shell` are write tools. The same `write_file` twice gives the same file, yet it
//! is no idempotent tool: a write that runs again after somebody else changed the file would undo
//! that change unseen.

mod blocking;
mod edit_file;
mod list_files;
mod nearest;
mod read_file;
mod search_files;
mod shell;
mod write_file;

use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use globset::{GlobBuilder, GlobMatcher};

use crate::tool::ToolError;
use crate::toolbox::{Toolbox, ToolboxError};
use crate::workspace::Place;

/// What the operator chooses about the built-in tools.
#[derive(Debug, Clone, Default)]
pub struct BuiltinOptions {
    /// The variables that commands may see; the process's own where None. Only the allowed names
    /// of it are passed on.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// More names that commands may see, besides the allowed ones. They are shown to the model if it
    /// asks, so no secrets.
    pub extra_variables: Vec<String>,
}

/// Adds the built-in tools.
///
/// # Errors
/// A tool of such a name is there already.
pub fn add_builtin_tools(
    toolbox: &mut Toolbox,
    options: BuiltinOptions,
) -> Result<(), ToolboxError> {
    let locks = Arc::new(FileLocks::default());
    toolbox.add(read_file::read_file())?;
    toolbox.add(write_file::write_file(Arc::clone(&locks)))?;
    toolbox.add(edit_file::edit_file(locks))?;
    toolbox.add(list_files::list_files())?;
    toolbox.add(search_files::search_files())?;
    toolbox.add(shell::shell(options))
}

/// Locks held at once at most; calls on different files rarely share one.
const FILE_LOCKS: usize = 64;

/// Keeps two calls from changing one file at the same moment: a step's calls run side by side, and
/// the second of two edits must see what the first one wrote.
#[derive(Debug)]
struct FileLocks {
    locks: [Mutex<()>; FILE_LOCKS],
}

impl Default for FileLocks {
    fn default() -> Self {
        Self { locks: std::array::from_fn(|_| Mutex::new(())) }
    }
}

impl FileLocks {
    /// Waits for the lock of this path. Only blocking code takes it, and only around one file's
    /// reading and replacing.
    fn lock(&self, workspace: &std::path::Path, place: &Place) -> Option<MutexGuard<'_, ()>> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        workspace.join(&place.relative).hash(&mut hasher);
        let lock = self.locks.get(hasher.finish() as usize % FILE_LOCKS)?;
        // Nothing is kept under the lock that a panic could leave half done.
        Some(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A pattern for paths, as gitignore reads them: without a slash it is for the name alone.
#[derive(Debug)]
struct PathPattern {
    matcher: GlobMatcher,
    is_for_name: bool,
}

impl PathPattern {
    fn parse(pattern: &str) -> Result<Self, ToolError> {
        let is_for_name = !pattern.contains('/');
        let matcher = GlobBuilder::new(pattern.trim_start_matches("./"))
            .literal_separator(true)
            .build()
            .map_err(|error| {
                ToolError::Failed(format!(
                    "`glob` is no pattern: {}; examples: *.rs, src/**/*.rs",
                    error.kind()
                ))
            })?
            .compile_matcher();
        Ok(Self { matcher, is_for_name })
    }

    /// Whether the path fits, seen from the workspace or from the folder that was asked for: models
    /// mean either.
    fn fits(&self, relative: &std::path::Path, start: &std::path::Path) -> bool {
        if self.is_for_name {
            return relative.file_name().is_some_and(|name| self.matcher.is_match(name));
        }
        let from_start = relative.strip_prefix(start).unwrap_or(relative);
        self.matcher.is_match(relative) || self.matcher.is_match(from_start)
    }
}
