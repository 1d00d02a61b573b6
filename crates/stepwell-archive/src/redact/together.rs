//! What goes together: a text that says again what a removed one said would keep it here.

use std::collections::VecDeque;
use std::ops::Range;

use stepwell_core::EventKind;

use super::cuts::segments;
use super::fields::FULL_OUTPUT;

/// Texts of an event that say again what another one of it says: where a rule removes the first, it
/// removes the others.
pub const TOGETHER: &[(EventKind, &str, &[&str])] = &[
    // Only a title that was taken from the task.
    (EventKind::SessionCreated, "/task", &["/title"]),
    (EventKind::ToolFinished, "/output", &[FULL_OUTPUT]),
    (EventKind::ModelReplied, "/content", &["/answer_problem", "/tokens/text"]),
    (EventKind::ModelReplied, "/reasoning", &["/tokens/text"]),
    (
        EventKind::ModelReplied,
        "/tool_calls/*/arguments",
        &["/tool_calls/*/repaired/raw", "/tool_calls/*/problem", "/tokens/text"],
    ),
];

/// The events whose place the edits of a fork take.
const EDITS: &[(&str, EventKind)] = &[
    ("tool_result", EventKind::ToolFinished),
    ("model_reply", EventKind::ModelReplied),
    ("message", EventKind::MessageReceived),
    ("arguments", EventKind::ApprovalDecided),
];

/// As which text of which event else a text of a fork counts.
pub(super) fn in_place_of(kind: EventKind, pointer: &str) -> Option<(EventKind, &str)> {
    if kind != EventKind::OverrideApplied {
        return None;
    }
    let Some(edit) = pointer.strip_prefix("/edits/") else {
        return Some((EventKind::SessionCreated, pointer));
    };
    let (_, edit) = edit.split_once('/')?;
    let (_, replaced) = EDITS.iter().find(|(name, _)| edit.split('/').next() == Some(name))?;
    edit.find('/').and_then(|at| edit.get(at..)).map(|pointer| (*replaced, pointer))
}

/// The texts that a text says again, as pointers.
pub(super) fn sources(kind: EventKind, pointer: &str) -> impl Iterator<Item = String> {
    let repeats = move |(it, _, others): &&(EventKind, &str, &[&str])| {
        *it == kind && others.iter().any(|other| super::fields::fits(other, pointer))
    };
    TOGETHER.iter().filter(repeats).map(move |(_, source, _)| beside(source, pointer))
}

/// A pointer of the table, in the same place of the same list as another one.
fn beside(source: &str, pointer: &str) -> String {
    let mut is_same = true;
    let mut at = pointer.split('/');
    let parts = source.split('/').map(|part| match at.next() {
        Some(place) if is_same && part == "*" => place,
        place => {
            is_same &= place == Some(part);
            part
        }
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Removed texts that are remembered: the engine repeats one soon or never.
const REMOVED_MAX: usize = 1_000;

/// A shorter text is a word that stands in many others.
const REPEATED_BYTES_MIN: usize = 8;

/// Texts that rules removed whole and that the engine says again: in a refusal, a question, an end.
#[derive(Debug, Default)]
pub(super) struct Removed {
    texts: VecDeque<String>,
}

impl Removed {
    /// Keeps a text in mind.
    pub(super) fn note(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        if self.texts.len() == REMOVED_MAX {
            self.texts.pop_front();
        }
        self.texts.push_back(text);
    }

    /// Where a text of the engine says one of them again, whole or shortened, and which one.
    pub(super) fn repeated_in<'a>(&'a self, text: &'a str) -> Vec<(Range<usize>, &'a str)> {
        let whole = |removed: &'a String| {
            text.match_indices(removed.as_str()).map(move |(at, it)| (at..at + it.len(), it))
        };
        let pieces = |removed: &'a String| {
            let shown = segments(text, removed).into_iter();
            let piece = |it: super::cuts::Segment| it.shows(&(0..removed.len()));
            shown.filter_map(piece).map(|range| (range, removed.as_str()))
        };
        let is_cut = text.contains('…');
        let cut = self.texts.iter().filter(|_| is_cut).flat_map(pieces);
        let says = |it: &&String| it.len() >= REPEATED_BYTES_MIN || *it == text;
        self.texts.iter().filter(says).flat_map(whole).chain(cut).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::FIELDS;
    use super::*;

    fn is_listed(kind: EventKind, pointer: &str) -> bool {
        FIELDS.iter().any(|(it, fields)| *it == kind && fields.contains(&pointer))
    }

    #[test]
    fn what_goes_together_are_texts() {
        for (kind, source, others) in TOGETHER {
            assert!(is_listed(*kind, source), "{source}");
            assert!(others.iter().all(|it| is_listed(*kind, it)), "{source}");
        }
        for (kind, pointers) in FIELDS.iter().filter(|(it, _)| *it == EventKind::OverrideApplied) {
            for pointer in *pointers {
                let (other, place) = in_place_of(*kind, pointer).unwrap();
                assert!(is_listed(other, place), "{pointer}");
            }
        }
    }

    #[test]
    fn a_text_is_found_by_what_it_repeats() {
        let of = |kind, pointer: &str| sources(kind, pointer).collect::<Vec<_>>();
        assert_eq!(of(EventKind::ToolFinished, "/full_output"), ["/output"]);
        assert_eq!(of(EventKind::ToolFinished, "/output"), [""; 0]);
        let problem = of(EventKind::ModelReplied, "/tool_calls/2/problem");
        assert_eq!(problem, ["/tool_calls/2/arguments"]);
        let tokens = of(EventKind::ModelReplied, "/tokens/text");
        assert_eq!(tokens, ["/content", "/reasoning", "/tool_calls/*/arguments"]);
    }
}
