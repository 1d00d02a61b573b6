//! From a path in arguments to an open folder and a name in it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat, mkdirat};

use super::{Kind, PathError, Workspace, open_folder, open_listing};
use crate::text::shown_path;

/// As many links as Linux itself follows in one path.
const LINKS_MAX: u32 = 40;

/// The longest path that the system takes at once. Going name by name could make deeper folders, but
/// no other program could reach them.
const PATH_BYTES_MAX: usize = 4096;

/// What to do about folders on the way that do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnMissing {
    Refuse,
    CreateFolders,
}

/// A place in the workspace: a name in a folder that is held open.
#[derive(Debug)]
pub(crate) struct Place {
    /// The path as the model gave it, for messages.
    pub(crate) asked: String,
    /// The path from the workspace's root, all links followed. Empty for the root.
    pub(crate) relative: PathBuf,
    pub(super) folder: Arc<OwnedFd>,
    /// None where the path ends in the folder itself (`.`, `a/..`).
    pub(super) name: Option<OsString>,
    /// None where nothing has this name.
    pub(super) state: Option<FileStat>,
}

impl Place {
    /// What is there; never [`Kind::Link`], because links were followed.
    pub(crate) fn kind(&self) -> Option<Kind> {
        if self.name.is_none() {
            return Some(Kind::Folder);
        }
        self.state.as_ref().map(|state| Kind::of_mode(state.st_mode))
    }

    /// Opens the file for reading. A pipe or device is refused, and does not block.
    pub(crate) fn open_file(&self) -> Result<File, PathError> {
        self.check_is_file()?;
        let name = self.name.as_deref().ok_or_else(|| self.not_a_file(Kind::Folder))?;
        let file = open_plain_file(&self.folder, Path::new(name));
        file.map_err(|reason| self.io("read", reason))
    }

    /// Reads the whole file.
    pub(crate) fn read(&self, bytes_max: u64) -> Result<Vec<u8>, PathError> {
        let file = self.open_file()?;
        let too_large =
            |size| PathError::TooLarge { asked: self.asked.clone(), size, max: bytes_max };
        let size = file.metadata().map_err(|error| self.io("read", super::errno_of(&error)))?.len();
        if size > bytes_max {
            return Err(too_large(size));
        }
        let mut content = Vec::with_capacity(size as usize);
        // The file may grow while it is read, so the bound holds here too.
        file.take(bytes_max.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(|error| self.io("read", super::errno_of(&error)))?;
        let size = content.len() as u64;
        if size > bytes_max { Err(too_large(size)) } else { Ok(content) }
    }

    /// Opens the folder for listing.
    pub(crate) fn open_listing(&self) -> Result<OwnedFd, PathError> {
        match self.kind() {
            Some(Kind::Folder) => {
                let name = self.name.as_deref().map_or(Path::new("."), Path::new);
                open_listing(&self.folder, name).map_err(|reason| self.io("list", reason))
            }
            Some(_) => Err(PathError::NotAFolder {
                asked: self.asked.clone(),
                at: shown_path(&self.relative),
            }),
            None => Err(PathError::Missing { asked: self.asked.clone() }),
        }
    }

    pub(crate) fn check_is_file(&self) -> Result<(), PathError> {
        match self.kind() {
            Some(Kind::File) => Ok(()),
            Some(other) => Err(self.not_a_file(other)),
            None => Err(PathError::Missing { asked: self.asked.clone() }),
        }
    }

    pub(super) fn not_a_file(&self, kind: Kind) -> PathError {
        let (what, advice) = match kind {
            Kind::Folder => ("a folder", "use list_files to see what is in it"),
            _ => ("a pipe, socket or device", "it has no content to read or replace"),
        };
        PathError::NotAFile { asked: self.asked.clone(), what, advice }
    }

    pub(super) fn io(&self, action: &'static str, reason: Errno) -> PathError {
        PathError::Io { action, asked: self.asked.clone(), reason }
    }
}

/// Opens a plain file by its name in a folder, never through a link. `O_NONBLOCK` keeps the open
/// from waiting for the other end if the name has become a pipe; it does nothing to plain files.
pub(super) fn open_plain_file(folder: &OwnedFd, name: &Path) -> Result<File, Errno> {
    let flags = OFlag::O_RDONLY
        | OFlag::O_NOFOLLOW
        | OFlag::O_NONBLOCK
        | OFlag::O_NOCTTY
        | OFlag::O_CLOEXEC;
    let handle = openat(folder, name, flags, Mode::empty())?;
    match Kind::of_mode(fstat(&handle)?.st_mode) {
        Kind::File => Ok(File::from(handle)),
        _ => Err(Errno::EINVAL),
    }
}

pub(super) fn locate(
    workspace: &Workspace,
    path: &str,
    missing: OnMissing,
) -> Result<Place, PathError> {
    if path.is_empty() {
        return Err(PathError::Empty);
    }
    if path.contains('\0') {
        return Err(PathError::Nul);
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(PathError::TooLong { bytes: path.len(), max: PATH_BYTES_MAX });
    }
    if path == "~" || path.starts_with("~/") {
        return Err(PathError::Tilde(path.to_owned()));
    }
    let mut search = Search {
        workspace,
        asked: path,
        missing,
        todo: VecDeque::new(),
        held: Vec::new(),
        links: 0,
        last_link: None,
    };
    search.push(Path::new(path)).map_err(|()| search.outside())?;
    search.run()
}

/// One step of a path that is still to be walked.
#[derive(Debug)]
enum Step {
    Up,
    Name(OsString),
}

/// A path being walked.
struct Search<'call> {
    workspace: &'call Workspace,
    asked: &'call str,
    missing: OnMissing,
    todo: VecDeque<Step>,
    /// The folders from the root down to where the walk is; the root itself is not in it.
    held: Vec<(OsString, Arc<OwnedFd>)>,
    links: u32,
    /// The last link that was followed, and where it points, for messages.
    last_link: Option<(PathBuf, PathBuf)>,
}

impl Search<'_> {
    /// Puts the steps of a path before those still to do. An absolute path starts at the root, if
    /// it is one into the workspace at all.
    fn push(&mut self, path: &Path) -> Result<(), ()> {
        let relative = if path.is_absolute() {
            self.held.clear();
            self.workspace.strip_root(path).ok_or(())?
        } else {
            path
        };
        for component in relative.components().rev() {
            match component {
                Component::Normal(name) => self.todo.push_front(Step::Name(name.to_owned())),
                Component::ParentDir => self.todo.push_front(Step::Up),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        Ok(())
    }

    fn run(mut self) -> Result<Place, PathError> {
        while let Some(step) = self.todo.pop_front() {
            match step {
                Step::Up => {
                    self.held.pop().ok_or_else(|| self.outside())?;
                }
                Step::Name(name) => {
                    if let Some(place) = self.enter(name)? {
                        return Ok(place);
                    }
                }
            }
        }
        let folder = self.folder();
        let relative = self.here();
        Ok(Place { asked: self.asked.to_owned(), relative, folder, name: None, state: None })
    }

    /// Looks at one name: goes on (None), or the walk ends there.
    fn enter(&mut self, name: OsString) -> Result<Option<Place>, PathError> {
        let folder = self.folder();
        let is_last = self.todo.is_empty();
        let state = match fstatat(&folder, Path::new(&name), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(state) => state,
            Err(Errno::ENOENT) if is_last => return Ok(Some(self.place(name, folder, None))),
            Err(Errno::ENOENT) => return self.create(name, &folder).map(|()| None),
            Err(reason) => return Err(self.io("look at", reason)),
        };
        match Kind::of_mode(state.st_mode) {
            Kind::Link => self.follow(name, &folder).map(|()| None),
            _ if is_last => Ok(Some(self.place(name, folder, Some(state)))),
            Kind::Folder => self.descend(name, &folder).map(|()| None),
            Kind::File | Kind::Special => {
                let at = shown_path(&self.here().join(name));
                Err(PathError::NotAFolder { asked: self.asked.to_owned(), at })
            }
        }
    }

    fn descend(&mut self, name: OsString, folder: &OwnedFd) -> Result<(), PathError> {
        let next =
            open_folder(folder, Path::new(&name)).map_err(|reason| self.io("enter", reason))?;
        self.held.push((name, Arc::new(next)));
        Ok(())
    }

    fn create(&mut self, name: OsString, folder: &OwnedFd) -> Result<(), PathError> {
        if self.missing == OnMissing::Refuse {
            let at = shown_path(&self.here().join(name));
            return Err(PathError::NoFolder { asked: self.asked.to_owned(), at });
        }
        match mkdirat(folder, Path::new(&name), Mode::from_bits_truncate(0o777)) {
            // Another call may create the same folder at this moment; that is as good.
            Ok(()) | Err(Errno::EEXIST) => self.descend(name, folder),
            Err(reason) => Err(self.io("create a folder for", reason)),
        }
    }

    fn follow(&mut self, name: OsString, folder: &OwnedFd) -> Result<(), PathError> {
        self.links += 1;
        if self.links > LINKS_MAX {
            let asked = self.asked.to_owned();
            return Err(PathError::TooManyLinks { asked, max: LINKS_MAX });
        }
        let target = readlinkat(folder, Path::new(&name))
            .map(PathBuf::from)
            .map_err(|reason| self.io("follow the link", reason))?;
        self.last_link = Some((self.here().join(name), target.clone()));
        self.push(&target).map_err(|()| self.outside())
    }

    fn folder(&self) -> Arc<OwnedFd> {
        let deepest = self.held.last().map(|(_, folder)| folder);
        Arc::clone(deepest.unwrap_or(&self.workspace.folder))
    }

    fn here(&self) -> PathBuf {
        self.held.iter().map(|(name, _)| name).collect()
    }

    fn place(&self, name: OsString, folder: Arc<OwnedFd>, state: Option<FileStat>) -> Place {
        let relative = self.here().join(&name);
        Place { asked: self.asked.to_owned(), relative, folder, name: Some(name), state }
    }

    fn outside(&self) -> PathError {
        let asked = self.asked.to_owned();
        match &self.last_link {
            Some((link, target)) => {
                PathError::LinkOutside { asked, link: shown_path(link), target: shown_path(target) }
            }
            None => PathError::Outside { asked, root: shown_path(self.workspace.root()) },
        }
    }

    fn io(&self, action: &'static str, reason: Errno) -> PathError {
        PathError::Io { action, asked: self.asked.to_owned(), reason }
    }
}
