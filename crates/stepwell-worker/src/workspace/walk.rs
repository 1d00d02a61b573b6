//! Walks a folder's tree, nearest entries first, leaving out what `.gitignore` files name.
//!
//! This is not the `ignore` crate's walker, though it uses its patterns: that one opens by path, so
//! a link swapped in meanwhile could lead it out of the workspace, and a `.gitignore` that is a pipe
//! would block it for ever.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, readlinkat};
use nix::sys::stat::fstatat;

use super::locate::open_plain_file;
use super::{Kind, OnMissing, PathError, Place, Workspace, open_folder, open_listing};

/// Entries looked at in one walk: more than a large repository holds, and a bound on the time and
/// memory that a walk through a mounted disk can take.
const ENTRIES_MAX: usize = 200_000;
/// Folders below each other: deeper trees are made by mistake, or to do harm.
const DEPTH_MAX: usize = 64;
/// The part of a `.gitignore` that is read.
const IGNORE_FILE_BYTES_MAX: u64 = 256 * 1024;
/// Git's own folder is never walked into unless it is asked for by name.
const GIT_FOLDER: &str = ".git";

/// What to walk.
#[derive(Debug)]
pub(crate) struct Tree<'call> {
    pub(crate) workspace: &'call Workspace,
    pub(crate) start: &'call Place,
    /// How many levels below the start are entered; 1 is the start's own entries.
    pub(crate) depth_max: usize,
    pub(crate) with_ignored: bool,
}

/// One name in a folder.
#[derive(Debug)]
pub(crate) struct Entry {
    /// From the workspace's root.
    pub(crate) relative: PathBuf,
    pub(crate) kind: Kind,
    folder: Arc<OwnedFd>,
    name: OsString,
}

impl Entry {
    /// Opens the entry if it is a plain file.
    pub(crate) fn open_file(&self) -> Option<File> {
        open_plain_file(&self.folder, Path::new(&self.name)).ok()
    }

    /// Where the link points to, if the entry is one.
    pub(crate) fn link_target(&self) -> Option<PathBuf> {
        if self.kind != Kind::Link {
            return None;
        }
        readlinkat(&*self.folder, Path::new(&self.name)).ok().map(PathBuf::from)
    }
}

/// What a walk did not show.
#[derive(Debug, Default)]
pub(crate) struct Traversal {
    /// Entries left out because a `.gitignore` names them.
    pub(crate) ignored: usize,
    /// Folders that could not be opened.
    pub(crate) unreadable: usize,
    /// Why the walk ended before everything was seen.
    pub(crate) cut: Option<Cut>,
}

/// Why a walk ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The visitor had enough.
    ByVisitor,
    /// [`ENTRIES_MAX`] entries were seen.
    Entries,
    /// There are folders below [`DEPTH_MAX`].
    Depth,
}

impl Cut {
    /// The reason in words.
    pub(crate) fn reason(self) -> String {
        match self {
            Self::ByVisitor => "the limit was reached".to_owned(),
            Self::Entries => format!("{ENTRIES_MAX} entries were looked at"),
            Self::Depth => format!("folders below {DEPTH_MAX} levels are left out"),
        }
    }
}

/// A folder still to be listed. Only its path is kept, so that a wide tree needs few handles.
struct Pending {
    relative: PathBuf,
    depth: usize,
    ignores: Vec<Arc<Gitignore>>,
}

/// A folder that was listed.
struct Listing {
    folder: Arc<OwnedFd>,
    /// Sorted.
    names: Vec<(OsString, Kind)>,
}

impl Tree<'_> {
    /// Calls `visit` for every entry below the start, level by level, by name within a folder. An
    /// error of `visit` ends the walk and is handed on.
    pub(crate) fn walk<E: From<PathError>>(
        &self,
        mut visit: impl FnMut(&Entry) -> Result<ControlFlow<()>, E>,
    ) -> Result<Traversal, E> {
        let mut traversal = Traversal::default();
        let mut seen = 0_usize;
        let start = &self.start.relative;
        let first = Pending { relative: start.clone(), depth: 1, ignores: self.ignores_above() };
        // Only the start must be readable; what is below it may be anything.
        drop(self.start.open_listing()?);
        let mut todo = VecDeque::from([first]);
        while let Some(mut pending) = todo.pop_front() {
            let Some(Listing { folder, names }) = self.list(&pending.relative, ENTRIES_MAX - seen)
            else {
                traversal.unreadable += 1;
                continue;
            };
            seen += names.len();
            self.add_ignores(&folder, &mut pending);
            for (name, kind) in names {
                let relative = pending.relative.join(&name);
                if self.is_left_out(&relative, kind, &pending.ignores) {
                    traversal.ignored += usize::from(name != GIT_FOLDER);
                    continue;
                }
                let entry = Entry { relative, kind, folder: Arc::clone(&folder), name };
                if visit(&entry)?.is_break() {
                    traversal.cut = Some(Cut::ByVisitor);
                    return Ok(traversal);
                }
                if kind == Kind::Folder && pending.depth < self.depth_max {
                    if pending.depth < DEPTH_MAX {
                        todo.push_back(pending.below(entry.relative));
                    } else {
                        traversal.cut = Some(Cut::Depth);
                    }
                }
            }
            if seen >= ENTRIES_MAX {
                traversal.cut = Some(Cut::Entries);
                return Ok(traversal);
            }
        }
        Ok(traversal)
    }

    /// Opens a folder by its real path from the root and reads its names, sorted.
    fn list(&self, relative: &Path, names_max: usize) -> Option<Listing> {
        let mut folder = Arc::clone(&self.workspace.folder);
        for component in relative.components() {
            folder = Arc::new(open_folder(&folder, component.as_ref()).ok()?);
        }
        let listing = Dir::from_fd(open_listing(&folder, Path::new(".")).ok()?).ok()?;
        let mut names = Vec::new();
        for entry in listing.into_iter().map_while(Result::ok) {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if names.len() >= names_max {
                break;
            }
            // A name that is gone already is no entry.
            let Some(kind) = kind_of(&folder, name, entry.file_type()) else { continue };
            names.push((name.to_owned(), kind));
        }
        names.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        Some(Listing { folder, names })
    }

    /// The patterns of the folders above the start, which hold for what is below it. The start
    /// itself is shown even if they name it, because it was asked for.
    fn ignores_above(&self) -> Vec<Arc<Gitignore>> {
        let mut ignores = Vec::new();
        if self.with_ignored {
            return ignores;
        }
        let mut at = PathBuf::new();
        for component in self.start.relative.components() {
            ignores.extend(self.read_ignores(&at, &at.join(".gitignore")));
            if at.as_os_str().is_empty() {
                ignores.extend(self.read_ignores(&at, Path::new(".git/info/exclude")));
            }
            at.push(component);
        }
        ignores
    }

    fn add_ignores(&self, folder: &OwnedFd, pending: &mut Pending) {
        if self.with_ignored {
            return;
        }
        if pending.relative.as_os_str().is_empty() {
            let own = self.read_ignores(Path::new(""), Path::new(".git/info/exclude"));
            pending.ignores.extend(own);
        }
        if let Ok(file) = open_plain_file(folder, Path::new(".gitignore")) {
            pending.ignores.extend(self.parse_ignores(&pending.relative, file));
        }
    }

    fn read_ignores(&self, folder: &Path, file: &Path) -> Option<Arc<Gitignore>> {
        let place = self.workspace.locate(file.to_str()?, OnMissing::Refuse).ok()?;
        self.parse_ignores(folder, place.open_file().ok()?)
    }

    fn parse_ignores(&self, folder: &Path, file: File) -> Option<Arc<Gitignore>> {
        let mut content = Vec::new();
        file.take(IGNORE_FILE_BYTES_MAX).read_to_end(&mut content).ok()?;
        let mut builder = GitignoreBuilder::new(self.workspace.root.join(folder));
        for line in String::from_utf8_lossy(&content).lines() {
            // A pattern that git does not understand ignores nothing there either.
            drop(builder.add_line(None, line).err());
        }
        builder.build().ok().filter(|patterns| !patterns.is_empty()).map(Arc::new)
    }

    fn is_left_out(&self, relative: &Path, kind: Kind, ignores: &[Arc<Gitignore>]) -> bool {
        let is_git = relative.file_name() == Some(OsStr::new(GIT_FOLDER));
        if is_git && !self.start.relative.starts_with(relative) {
            return true;
        }
        let path = self.workspace.root.join(relative);
        // The nearest file that has a word on it decides.
        ignores
            .iter()
            .rev()
            .map(|patterns| patterns.matched(&path, kind == Kind::Folder))
            .find(|verdict| !verdict.is_none())
            .is_some_and(|verdict| verdict.is_ignore())
    }
}

impl Pending {
    fn below(&self, relative: PathBuf) -> Self {
        Self { relative, depth: self.depth + 1, ignores: self.ignores.clone() }
    }
}

fn kind_of(folder: &OwnedFd, name: &OsStr, listed: Option<Type>) -> Option<Kind> {
    match listed {
        Some(Type::File) => Some(Kind::File),
        Some(Type::Directory) => Some(Kind::Folder),
        Some(Type::Symlink) => Some(Kind::Link),
        Some(_) => Some(Kind::Special),
        // Some file systems do not tell.
        None => fstatat(folder, Path::new(name), AtFlags::AT_SYMLINK_NOFOLLOW)
            .ok()
            .map(|state| Kind::of_mode(state.st_mode)),
    }
}
