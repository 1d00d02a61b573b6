//! Finds the line a model probably meant when its text is not in the file.

use std::collections::HashMap;

/// Lines looked at; past that the answer is not worth the time.
const LINES_MAX: usize = 50_000;
/// The part of a line that is compared.
const LINE_CHARS_MAX: usize = 200;
/// Two lines less alike than this share only common letters.
const LIKENESS_MIN: f64 = 0.5;

/// A line that is like the one looked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nearest<'content> {
    /// From 1.
    pub(super) number: usize,
    pub(super) line: &'content str,
    /// Whether the line is the same but for white space.
    pub(super) differs_in_space: bool,
}

/// The line most like the first line of `wanted` that is not blank.
pub(super) fn nearest_line<'content>(
    content: &'content str,
    wanted: &str,
) -> Option<Nearest<'content>> {
    let wanted = wanted.lines().find(|line| !line.trim().is_empty())?;
    let wanted_words = words(wanted);
    let wanted_pairs = pairs(wanted);
    let mut best: Option<(f64, Nearest<'content>)> = None;
    for (index, line) in content.lines().take(LINES_MAX).enumerate() {
        let number = index + 1;
        if words(line) == wanted_words {
            return Some(Nearest { number, line, differs_in_space: line != wanted });
        }
        let likeness = likeness(&wanted_pairs, &pairs(line));
        if likeness >= LIKENESS_MIN && best.as_ref().is_none_or(|(old, _)| likeness > *old) {
            best = Some((likeness, Nearest { number, line, differs_in_space: false }));
        }
    }
    best.map(|(_, nearest)| nearest)
}

fn words(line: &str) -> String {
    line.split_whitespace().collect()
}

/// The pairs of neighbouring characters, white space left out, with how often each is there.
fn pairs(line: &str) -> HashMap<(char, char), usize> {
    let characters: Vec<char> =
        line.chars().filter(|c| !c.is_whitespace()).take(LINE_CHARS_MAX).collect();
    let mut pairs = HashMap::new();
    for pair in characters.windows(2) {
        if let [left, right] = pair {
            *pairs.entry((*left, *right)).or_insert(0) += 1;
        }
    }
    pairs
}

/// Dice's coefficient: the shared part of all pairs, from 0 to 1.
fn likeness(left: &HashMap<(char, char), usize>, right: &HashMap<(char, char), usize>) -> f64 {
    let all = left.values().sum::<usize>() + right.values().sum::<usize>();
    if all == 0 {
        return 0.0;
    }
    let shared: usize =
        left.iter().map(|(pair, count)| right.get(pair).map_or(0, |other| *count.min(other))).sum();
    2.0 * shared as f64 / all as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &str, wanted: &str, expected: Option<(usize, bool)>) {
        let found = nearest_line(content, wanted);
        let found = found.map(|nearest| (nearest.number, nearest.differs_in_space));
        assert_eq!(found, expected, "content {content:?}, wanted {wanted:?}");
    }

    #[test]
    fn the_line_with_other_space_wins() {
        check("fn a() {}\n    let x = 1;\n", "\n  let x  = 1;", Some((2, true)));
    }

    #[test]
    fn the_most_similar_line_is_named() {
        check("alpha\nlet total = sum(items);\nomega", "let total = sum(item);", Some((2, false)));
    }

    #[test]
    fn nothing_is_named_when_nothing_is_near() {
        check("alpha\nbeta", "let total = 5;", None);
        check("", "x", None);
        check("alpha", "  \n ", None);
    }

    #[test]
    fn a_first_line_that_is_there_is_named_as_it_is() {
        check("a line\nanother", "a line\nnot this", Some((1, false)));
    }
}
