//! Finds the processes of a command that left its process group.
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
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid};

/// The variable's name.
pub(super) const VARIABLE: &str = "STEPWELL_COMMAND";
/// As much environment as Linux gives a process by default.
const ENVIRONMENT_BYTES_MAX: u64 = 2 * 1024 * 1024;

static COMMAND_NUMBER: AtomicU64 = AtomicU64::new(0);

/// A value that no other command on this machine has.
pub(super) fn new_mark() -> String {
    let number = COMMAND_NUMBER.fetch_add(1, Ordering::Relaxed);
    // Process numbers are used again; the keys of a new hasher are random.
    let random = RandomState::new().build_hasher().finish();
    format!("{}-{number}-{random:016x}", std::process::id())
}

/// Sends a signal to the marked processes that are not in the group, and tells how many there are.
/// Costs some 10 µs for each process on the machine. Without `/proc` it finds none.
///
/// A number could belong to another process by the time of the signal only if all numbers of the
/// machine were used up in between.
pub(super) fn signal_outside(mark: &str, group: Pid, signal: Signal) -> usize {
    let entry = format!("{VARIABLE}={mark}");
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let outside = processes
        .filter_map(Result::ok)
        .filter_map(|process| process.file_name().to_str()?.parse().ok().map(Pid::from_raw))
        .filter(|process| has_entry(*process, OsStr::new(&entry)))
        .filter(|process| getpgid(Some(*process)) != Ok(group));
    outside.map(|process| kill(process, signal)).filter_map(Result::ok).count()
}

/// Whether the process was started with this in its environment. One that has ended has none.
fn has_entry(process: Pid, entry: &OsStr) -> bool {
    let path = Path::new("/proc").join(process.to_string()).join("environ");
    let mut environment = Vec::new();
    // Other users' processes are not readable, and not the command's.
    File::open(path)
        .and_then(|file| file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment))
        .is_ok_and(|_| environment.split(|byte| *byte == 0).any(|part| part == entry.as_bytes()))
}
