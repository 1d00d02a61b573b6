//! Finds the processes of a command, also those that left its process group.
//!
//! `timeout`, `setsid` and shells with job control make groups of their own, and `timeout` is what
//! models like to put before a command. All of them hand on the environment, so every command gets
//! a variable with a value of its own, and processes that have it are the command's. Only a process
//! that clears its environment is not found.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid};

/// The variable's name.
pub(super) const VARIABLE: &str = "STEPWELL_COMMAND";
/// As much environment as Linux gives a process by default.
const ENVIRONMENT_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Set in the flags of the kernel's own processes (`PF_KTHREAD`), which have no environment.
const IS_KERNEL: u64 = 0x0020_0000;

static COMMAND_NUMBER: AtomicU64 = AtomicU64::new(0);

/// How a command's processes are known.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    /// A value that no other command on this machine has.
    pub(super) value: String,
    /// When the guard started, in the kernel's ticks; none of the command's processes is older.
    started: u64,
}

impl Mark {
    /// A value for a new command.
    pub(super) fn new_value() -> String {
        let number = COMMAND_NUMBER.fetch_add(1, Ordering::Relaxed);
        // Process numbers are used again; the keys of a new hasher are random.
        let random = RandomState::new().build_hasher().finish();
        format!("{}-{number}-{random:016x}", std::process::id())
    }

    /// The mark of a command whose guard has just started.
    pub(super) fn new(value: String, guard: Pid) -> Self {
        let started = Stat::of(guard).map_or(0, |stat| stat.started);
        Self { value, started }
    }

    /// Sends a signal to the marked processes that are not in the group; whether there may be more.
    /// Costs some 10 µs for each process on the machine. Without `/proc` it finds none.
    ///
    /// A number could belong to another process by the time of the signal only if all numbers of
    /// the machine were used up in between.
    pub(super) fn signal_outside(&self, group: Pid, signal: Signal) -> bool {
        let entry = format!("{VARIABLE}={}", self.value);
        let mut may_be_more = false;
        for process in processes() {
            match has_entry(process, OsStr::new(&entry)) {
                Some(true) if getpgid(Some(process)) != Ok(group) => {
                    may_be_more |= kill(process, signal).is_ok();
                }
                None => may_be_more |= self.may_be_starting(process),
                Some(_) => {}
            }
        }
        may_be_more
    }

    /// A process has no environment for the moment in which it becomes another program, and in that
    /// moment it would be missed.
    fn may_be_starting(&self, process: Pid) -> bool {
        Stat::of(process).is_some_and(|stat| {
            stat.is_running && stat.started >= self.started && stat.flags & IS_KERNEL == 0
        })
    }
}

/// Whether a process of the group still runs. One that has ended stays in its group until init takes
/// note of it, which some inits do late and some never, so the group's being there says little.
pub(super) fn is_group_alive(group: Pid) -> bool {
    if killpg(group, None) == Err(Errno::ESRCH) {
        return false;
    }
    if processes().next().is_none() {
        // Without `/proc` there is nothing better to go by.
        return true;
    }
    processes().filter_map(Stat::of).any(|stat| stat.is_running && stat.group == group.as_raw())
}

/// What the kernel tells of a process.
struct Stat {
    is_running: bool,
    group: i32,
    flags: u64,
    started: u64,
}

impl Stat {
    fn of(process: Pid) -> Option<Self> {
        let text = std::fs::read_to_string(folder_of(process).join("stat")).ok()?;
        // The program's name stands in brackets and may hold anything, so the fields are those
        // after the last bracket. Their numbers are those of proc(5), which counts from 1 and has
        // two before.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Self {
            is_running: !matches!(field(3)?, "Z" | "X"),
            group: field(5)?.parse().ok()?,
            flags: field(9)?.parse().ok()?,
            started: field(22)?.parse().ok()?,
        })
    }
}

/// All processes on the machine; none without `/proc`.
fn processes() -> impl Iterator<Item = Pid> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter_map(|process| process.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}

fn folder_of(process: Pid) -> PathBuf {
    Path::new("/proc").join(process.to_string())
}

/// Whether the process was started with this in its environment. None if it has no environment.
fn has_entry(process: Pid, entry: &OsStr) -> Option<bool> {
    let mut environment = Vec::new();
    // Other users' processes are not readable, and not the command's; nor are those that are gone.
    let Ok(file) = File::open(folder_of(process).join("environ")) else { return Some(false) };
    if file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment).is_err() {
        return Some(false);
    }
    if environment.is_empty() {
        return None;
    }
    Some(environment.split(|byte| *byte == 0).any(|part| part == entry.as_bytes()))
}
