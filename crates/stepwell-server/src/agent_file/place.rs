//! Where in a definition something is wrong, and what.

use std::fmt;

/// One thing that is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong and what to do about it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

/// A definition that cannot be used: everything that is wrong with it, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFileError {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for AgentFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for AgentFileError {}

/// Line and column of the byte `at`, both from 1. A place behind the end is the end.
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let (mut line, mut column) = (1, 1);
    for (_, character) in text.char_indices().take_while(|(start, _)| *start < at) {
        if character == '\n' {
            line += 1;
            column = 1;
        } else {
            column += 1;
        }
    }
    (line, column)
}

/// What to say about a name that is not one of `known`: the one that was meant, or all of them.
pub(crate) fn meant(wrong: &str, known: &[&str]) -> String {
    match closest(wrong, known) {
        Some(close) => format!("did you mean `{close}`?"),
        None => all_of(known),
    }
}

/// Which one was meant, if that can be told, and all of them. For more to follow.
pub(crate) fn meant_and_all(wrong: &str, known: &[&str]) -> String {
    match closest(wrong, known) {
        Some(close) => {
            format!("did you mean `{close}`? T{}.", all_of(known).trim_start_matches('t'))
        }
        None => format!("{}.", all_of(known)),
    }
}

fn all_of(known: &[&str]) -> String {
    let mut all: Vec<&str> = known.to_vec();
    all.sort_unstable();
    all.dedup();
    match all.as_slice() {
        [] => "there is none".into(),
        all => format!("there is `{}`", all.join("`, `")),
    }
}

/// One letter may differ for each so many letters of the name.
const LETTERS_PER_SLIP: usize = 4;

/// Shortest name that counts as meant when it is a part of the wrong one (`steps` in `max_steps`).
const PART_LETTERS_MIN: usize = 4;

/// The known name that `wrong` most likely stands for.
fn closest<'k>(wrong: &str, known: &[&'k str]) -> Option<&'k str> {
    let wrong = wrong.to_lowercase().replace('-', "_");
    let letters = wrong.chars().count();
    let slips_max = (letters / LETTERS_PER_SLIP).max(1);
    let near = known
        .iter()
        .map(|it| {
            let slips = strsim::damerau_levenshtein(&wrong, it);
            // A wrong letter is likelier than a missing one.
            (slips, it.chars().count().abs_diff(letters), *it)
        })
        .filter(|(slips, _, it)| *slips <= slips_max && *slips < it.chars().count())
        .min();
    let is_part = |it: &&&str| {
        it.len() >= PART_LETTERS_MIN && wrong.contains(**it)
            || wrong.len() >= PART_LETTERS_MIN && it.contains(&wrong)
    };
    near.map(|(_, _, it)| it).or_else(|| known.iter().find(is_part).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters() {
        let text = "a = 1\nbä = 2\r\nc";
        for (at, place) in [(0, (1, 1)), (4, (1, 5)), (6, (2, 1)), (9, (2, 3)), (99, (3, 2))] {
            assert_eq!(line_and_column(text, at), place, "byte {at}");
        }
    }

    #[test]
    fn a_wrong_name_gets_the_one_that_was_meant() {
        let known = ["steps", "deadline", "tokens", "tool_attempts"];
        for (wrong, says) in [
            ("step", "did you mean `steps`?"),
            ("max_steps", "did you mean `steps`?"),
            ("dead-line", "did you mean `deadline`?"),
            ("tool_attemps", "did you mean `tool_attempts`?"),
            ("tokenz", "did you mean `tokens`?"),
            ("xyz", "there is `deadline`, `steps`, `tokens`, `tool_attempts`"),
        ] {
            assert_eq!(meant(wrong, &known), says, "{wrong}");
        }
        assert_eq!(meant("x", &[]), "there is none");
    }
}
