//! Commands that run other commands.

use alloc::vec;
use alloc::vec::Vec;

use super::script::Word;

/// How a command runs others, if it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapper {
    /// It runs no other, as far as is known.
    None,
    /// Another command stands after its options and that many words of its own.
    Prefix {
        /// Words of its own that are no options.
        words: usize,
    },
    /// Like [`Wrapper::Prefix`], and what it runs may also be one text.
    Text {
        /// Words of its own that are no options.
        words: usize,
    },
    /// It keeps the texts after `NAME=` to be run later.
    Alias,
    /// It joins its words to one text and runs it.
    Evaluation,
    /// It runs the text after `-c`, a file, or what it reads.
    Shell,
    /// Other commands stand after `-exec` and its kin.
    Find,
}

impl Wrapper {
    /// What is known about the command `name`, without its folder.
    pub(super) fn of(name: &str) -> Self {
        match name {
            "sh" | "ash" | "bash" | "dash" | "ksh" | "mksh" | "yash" | "zsh" | "fish" | "rbash" => {
                Self::Shell
            }
            "alias" => Self::Alias,
            "eval" => Self::Evaluation,
            "find" => Self::Find,
            "builtin" | "busybox" | "caffeinate" | "command" | "doas" | "exec" | "fakeroot"
            | "ionice" | "ltrace" | "nice" | "nohup" | "proot" | "setpriv" | "setsid"
            | "stdbuf" | "strace" | "sudo" | "systemd-run" | "time" | "toybox" | "unbuffer"
            | "unshare" | "valgrind" | "xargs" => Self::Prefix { words: 0 },
            "chroot" | "chrt" | "nsenter" | "taskset" | "timeout" => Self::Prefix { words: 1 },
            "entr" | "env" | "hyperfine" | "parallel" | "script" | "trap" | "watch" => {
                Self::Text { words: 0 }
            }
            "flock" | "runuser" | "ssh" | "su" => Self::Text { words: 1 },
            _ => Self::None,
        }
    }

    /// Places in the words after the wrapper at which a command may begin. In doubt one more.
    pub(super) fn commands_in(self, words: &[Word]) -> Vec<usize> {
        match self {
            Self::None | Self::Alias | Self::Evaluation | Self::Shell => Vec::new(),
            Self::Find => words
                .iter()
                .enumerate()
                .filter(|(_, it)| {
                    matches!(it.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir")
                })
                .map(|(at, _)| at + 1)
                .collect(),
            Self::Prefix { words: own } | Self::Text { words: own } => commands_after(words, own),
        }
    }
}

/// Skips options (an option may have a value in a word of its own), variables and `own` words.
fn commands_after(words: &[Word], own: usize) -> Vec<usize> {
    let mut found = Vec::new();
    // For each place the most words of its own that may stand before it, plus one; 0: not reached.
    let mut reached = vec![0_usize; words.len() + 2];
    reach(&mut reached, 0, 1);
    for (at, word) in words.iter().enumerate() {
        let level = reached.get(at).copied().unwrap_or(0);
        if level == 0 {
            continue;
        }
        if word.text.starts_with('-') {
            reach(&mut reached, at + 1, level);
            reach(&mut reached, at + 2, level);
            continue;
        }
        if word.is_assignment {
            reach(&mut reached, at + 1, level);
            continue;
        }
        found.push(at);
        if level <= own {
            reach(&mut reached, at + 1, level + 1);
        }
    }
    found
}

fn reach(reached: &mut [usize], at: usize, level: usize) {
    if let Some(it) = reached.get_mut(at)
        && (*it == 0 || level < *it)
    {
        *it = level;
    }
}
