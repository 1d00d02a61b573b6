//! Reading shell commands well enough to say whether every part of one is allowed.
//!
//! Two questions with opposite doubts. To *allow*, every simple command of the text must fit a rule
//! and nothing in it may write, substitute or evaluate; what is not understood is not allowed. To
//! *ask* or *deny*, one simple command that fits is enough, wherever it hides: in a substitution, after
//! `sudo`, in the text given to `sh -c`; what is not understood counts as a fit.
//!
//! What a program does by itself cannot be seen: `make`, `python x.py` and a script file run what they
//! like. That is why they need a rule of their own to be allowed.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::policy::matches_pattern;

mod script;
mod wrapper;

use script::{Script, Word, read};
use wrapper::Wrapper;

/// How deep texts within texts (`sh -c "sh -c .."`) are followed before they count as a fit.
const TEXT_DEPTH_MAX: usize = 8;

/// What `xargs`, `find` and `parallel` replace by what they read, which nobody knows.
const PLACEHOLDER: &str = "{}";

/// Whether every part of `command` fits one of `rules` and nothing in it writes, substitutes or
/// evaluates. When in doubt: no.
///
/// A rule is the first words of a simple command: `git status` fits `git status --short` and neither
/// `git statusx` nor `git -c x=y status`. In a word of a rule `*` stands for any run of characters; a
/// `*` at its end says nothing, since a rule fits whatever follows its words.
///
/// Cost: O(bytes of the command × rules).
pub fn is_allowed(command: &str, rules: &[String]) -> bool {
    // A carriage return or an escape sequence hides what would run from whoever reads the log.
    if command.chars().any(|it| it.is_control() && it != '\n' && it != '\t') {
        return false;
    }
    let rules: Vec<Vec<&str>> = rules.iter().filter_map(|rule| rule_words(rule)).collect();
    read(command).is_some_and(|script| {
        script.is_plain
            && !script.commands.is_empty()
            && script.commands.iter().all(|words| rules.iter().any(|rule| begins_with(words, rule)))
    })
}

/// Whether any part of `command` fits one of `rules`. When in doubt: yes.
///
/// A rule fits here also with options in between (`git push` fits `git -C x push`), by full path
/// (`rm` fits `/bin/rm`) and after what runs other commands (`sudo`, `env`, `xargs`, `sh -c` …).
///
/// Cost: O(bytes of the command × rules), for each level of texts within texts.
pub fn mentions(command: &str, rules: &[String]) -> bool {
    if rules.is_empty() {
        return false;
    }
    let Some(rules) = rules.iter().map(|rule| rule_words(rule)).collect::<Option<Vec<_>>>() else {
        return true;
    };
    Search { rules, depth: 0 }.text(command)
}

/// The words of a rule; `None` for a rule that says nothing.
fn rule_words(rule: &str) -> Option<Vec<&str>> {
    let mut words: Vec<&str> = rule.split_whitespace().collect();
    let is_empty = words.is_empty();
    while words.last() == Some(&"*") {
        words.pop();
    }
    (!is_empty).then_some(words)
}

/// Word by word, from the first word on. A word that a shell would change first fits nothing.
fn begins_with(words: &[Word], rule: &[&str]) -> bool {
    words.len() >= rule.len()
        && words.first().is_some_and(|it| !it.is_assignment)
        && words.iter().zip(rule).all(|(word, rule)| {
            !word.is_expanded && !word.text.is_empty() && matches_pattern(rule, &word.text)
        })
}

struct Search<'a> {
    rules: Vec<Vec<&'a str>>,
    depth: usize,
}

impl Search<'_> {
    fn text(&mut self, text: &str) -> bool {
        if self.depth >= TEXT_DEPTH_MAX {
            return true;
        }
        self.depth += 1;
        let is_found = match read(text) {
            Some(Script { commands, .. }) => commands.iter().any(|words| self.command(words)),
            None => true,
        };
        self.depth -= 1;
        is_found
    }

    /// Looks at every word of a simple command that may be a command itself.
    fn command(&mut self, words: &[Word]) -> bool {
        let mut seen = vec![false; words.len()];
        let mut open = vec![0];
        let after_keyword = words.iter().enumerate().filter(|(_, it)| is_keyword(it));
        open.extend(after_keyword.map(|(at, _)| at + 1));
        while let Some(at) = open.pop() {
            let Some((word, rest)) = words.get(at..).and_then(<[Word]>::split_first) else {
                continue;
            };
            if seen.get_mut(at).is_none_or(|it| core::mem::replace(it, true)) {
                continue;
            }
            if word.is_assignment {
                open.push(at + 1);
            } else if word.is_expanded || word.text == PLACEHOLDER || self.fits(word, rest) {
                return true;
            } else {
                let wrapper = Wrapper::of(base_name(&word.text));
                if self.runs(wrapper, rest) {
                    return true;
                }
                open.extend(wrapper.commands_in(rest).into_iter().map(|it| at + 1 + it));
            }
        }
        false
    }

    fn fits(&self, word: &Word, rest: &[Word]) -> bool {
        self.rules.iter().any(|rule| match rule.split_first() {
            None => true,
            Some((first, others)) => {
                matches_pattern(base_name(first), base_name(&word.text)) && follow(rest, others)
            }
        })
    }

    /// Whether a fit is in the texts that a command runs.
    fn runs(&mut self, wrapper: Wrapper, rest: &[Word]) -> bool {
        match wrapper {
            Wrapper::None | Wrapper::Prefix { .. } | Wrapper::Find => false,
            Wrapper::Shell => self.shell_runs(rest),
            Wrapper::Evaluation => {
                let joined: Vec<&str> = rest.iter().map(|it| it.text.as_str()).collect();
                rest.iter().any(|it| it.is_expanded) || self.text(&joined.join(" "))
            }
            Wrapper::Alias => rest.iter().any(|it| {
                let (_, value) = it.text.split_once('=').unwrap_or_default();
                it.is_expanded || self.text(value)
            }),
            Wrapper::Text { .. } => rest.iter().any(|it| it.is_expanded || self.text(&it.text)),
        }
    }

    fn shell_runs(&mut self, rest: &[Word]) -> bool {
        let has_option = |letter: char| {
            let is_it = |it: &Word| it.text.starts_with('-') && it.text.contains(letter);
            rest.iter().filter(|it| !it.text.starts_with("--")).any(is_it)
        };
        let has_operand = rest.iter().any(|it| !it.text.starts_with(['-', '+']));
        // Without a text and without a file it runs what it reads, which nobody knows.
        if !has_operand || has_option('s') {
            return true;
        }
        has_option('c') && rest.iter().any(|it| it.is_expanded || self.text(&it.text))
    }
}

/// Whether the words of a rule come in `words` in their order with nothing but options, and perhaps a
/// value after each, in between. O(words × words of the rule).
fn follow(words: &[Word], rule: &[&str]) -> bool {
    let mut starts = vec![0];
    for wanted in rule {
        let mut reached = vec![false; words.len() + 2];
        for start in starts {
            if let Some(it) = reached.get_mut(start) {
                *it = true;
            }
        }
        let mut after = Vec::new();
        for (at, word) in words.iter().enumerate() {
            if !reached.get(at).is_some_and(|it| *it) {
                continue;
            }
            if word.is_expanded || matches_pattern(wanted, &word.text) {
                after.push(at + 1);
            }
            if word.text.starts_with('-') {
                for next in [at + 1, at + 2] {
                    if let Some(it) = reached.get_mut(next) {
                        *it = true;
                    }
                }
            }
        }
        starts = after;
    }
    !starts.is_empty()
}

/// After these a command begins.
fn is_keyword(word: &Word) -> bool {
    const KEYWORDS: &[&str] = &[
        "!", "{", "case", "coproc", "do", "elif", "else", "for", "function", "if", "select",
        "then", "time", "until", "while",
    ];
    !word.is_quoted && KEYWORDS.contains(&word.text.as_str())
}

/// What is left of a path after its folders.
fn base_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}
