//! Errors in a text that a person wrote, with the line they are about and a caret.

use super::visible::{Care, line};
use crate::out::{Paint, Tone};

/// How much of a line is shown on each side of the caret, in characters: a line of minified JSON can
/// be the whole file.
const SIDE_MAX: usize = 100;

/// Puts the source line and a caret under each line of `message` that begins with
/// `line L, column C:`. Other lines stay as they are.
pub(crate) fn annotate(file: &str, text: &str, message: &str, paint: Paint) -> String {
    let annotated: Vec<String> =
        message.lines().map(|problem| annotate_one(file, text, problem, paint)).collect();
    annotated.join("\n")
}

fn annotate_one(file: &str, text: &str, problem: &str, paint: Paint) -> String {
    let shown = line(problem, Care::Prose, Paint::NONE);
    let Some((line_number, column, words)) = place(problem) else { return shown };
    let words = line(words, Care::Prose, Paint::NONE);
    let heading =
        format!("{}:{line_number}:{column}: {words}", line(file, Care::Prose, Paint::NONE));
    let Some(source) = line_number.checked_sub(1).and_then(|at| text.lines().nth(at)) else {
        return heading;
    };
    // Tabs would move the caret away from its place.
    let (before, source) = around(source, column.saturating_sub(1));
    let (before, source) = (before.replace('\t', "    "), source.replace('\t', "    "));
    let indent = super::table::columns_of(&line(&before, Care::Prose, Paint::NONE));
    let number = line_number.to_string();
    let margin = " ".repeat(number.len());
    let bar = paint.faint("|");
    format!(
        "{heading}\n{margin} {bar}\n{} {bar} {}\n{margin} {bar} {}{}",
        paint.faint(&number),
        line(&source, Care::Prose, paint),
        " ".repeat(indent),
        paint.tone(Tone::Bad, "^")
    )
}

/// What stands before the place of the caret, and the whole: each with an `…` where a long line is
/// cut.
fn around(source: &str, column: usize) -> (String, String) {
    let skipped = column.saturating_sub(SIDE_MAX);
    let mut before = String::from(if skipped > 0 { "…" } else { "" });
    before.extend(source.chars().skip(skipped).take(column - skipped));
    let mut after = source.chars().skip(column);
    let mut whole = before.clone();
    whole.extend(after.by_ref().take(SIDE_MAX));
    if after.next().is_some() {
        whole.push('…');
    }
    (before, whole)
}

/// Reads `line 3, column 5: words`, also behind a few words about what is read.
fn place(problem: &str) -> Option<(usize, usize, &str)> {
    let (_, from_line) = problem.split_once("line ")?;
    let (line_number, from_column) = from_line.split_once(", column ")?;
    let (column, words) = from_column.split_once(": ")?;
    Some((line_number.parse().ok()?, column.parse().ok()?, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"x\"\n\tstep = 3\n";

    #[test]
    fn the_line_and_a_caret_stand_below_the_problem() {
        assert_eq!(
            annotate("a.toml", TEXT, "line 2, column 2: did you mean `steps`?", Paint::NONE),
            "a.toml:2:2: did you mean `steps`?\n  |\n2 |     step = 3\n  |     ^"
        );
    }

    #[test]
    fn of_a_long_line_only_the_place_is_shown() {
        let text = format!("{}!{}", "a".repeat(5_000), "b".repeat(5_000));
        let shown = annotate("a.json", &text, "line 1, column 5001: no", Paint::NONE);
        let expected = format!(
            "a.json:1:5001: no\n  |\n1 | …{}!{}…\n  | {}^",
            "a".repeat(SIDE_MAX),
            "b".repeat(SIDE_MAX - 1),
            " ".repeat(SIDE_MAX + 1)
        );
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_caret_behind_the_end_of_the_line_stays_there() {
        let shown = annotate("a.json", "{", "line 1, column 2: it ends", Paint::NONE);
        assert_eq!(shown, "a.json:1:2: it ends\n  |\n1 | {\n  |  ^");
    }

    #[test]
    fn each_problem_has_its_own() {
        let message = "line 1, column 8: too short\nline 2, column 9: too small";
        let shown = annotate("a.toml", TEXT, message, Paint::NONE);
        assert_eq!(shown.matches('^').count(), 2);
        assert!(shown.contains("1 | name = \"x\"\n  |        ^\na.toml:2:9: too small"), "{shown}");
    }

    #[test]
    fn words_before_the_place_do_no_harm() {
        assert_eq!(place("agent_definition: line 2, column 3: x: y"), Some((2, 3, "x: y")));
    }

    #[test]
    fn a_message_without_a_place_stays_as_it_is() {
        for message in ["no such agent", "line x, column 2: y", "line 99: y"] {
            assert_eq!(annotate("a.toml", TEXT, message, Paint::NONE), message);
        }
        assert_eq!(annotate("a.toml", TEXT, "line 99, column 1: y", Paint::NONE), "a.toml:99:1: y");
    }
}
