//! The span tree of a session, drawn with lines.

use std::collections::BTreeMap;

use stepwell_proto::v1::Span;

use super::table::{columns_of, cut_end};
use super::visible::brief;
use super::when;
use crate::out::{Paint, Tone};

/// Columns that the time takes at the right.
const DURATION_COLUMNS: usize = 12;
/// Column of the time when there is no terminal to fit.
const LEFT_COLUMNS: usize = 68;
/// Least room for the name on a narrow terminal.
const LEFT_COLUMNS_MIN: usize = 24;

/// The tree, one line a span. An open span's time runs until `now_ms`.
pub(crate) fn tree(spans: &[Span], now_ms: i64, width: Option<usize>, paint: Paint) -> Vec<String> {
    let children = children(spans);
    let left = width.map_or(LEFT_COLUMNS, |width| {
        width.saturating_sub(DURATION_COLUMNS + 1).clamp(LEFT_COLUMNS_MIN, LEFT_COLUMNS)
    });
    let mut lines = Vec::with_capacity(spans.len());
    // Deep first, without recursion: how deep sessions nest is not ours to say.
    let mut open: Vec<(&Span, String, Branch)> = Vec::new();
    let roots = children.get("").into_iter().flatten();
    open.extend(roots.rev().map(|span| (*span, String::new(), Branch::Root)));
    while let Some((span, indent, branch)) = open.pop() {
        let (here, below) = branch.lines();
        lines.push(row(span, &format!("{indent}{here}"), left, now_ms, paint));
        let indent = format!("{indent}{below}");
        let of_this = children.get(span.span_id.as_str()).into_iter().flatten();
        for (place, child) in of_this.rev().enumerate() {
            let branch = if place == 0 { Branch::Last } else { Branch::Middle };
            open.push((child, indent.clone(), branch));
        }
    }
    lines
}

#[derive(Clone, Copy)]
enum Branch {
    Root,
    Middle,
    Last,
}

impl Branch {
    /// What stands before the span, and before everything below it.
    fn lines(self) -> (&'static str, &'static str) {
        match self {
            Self::Root => ("", ""),
            Self::Middle => ("├─ ", "│  "),
            Self::Last => ("└─ ", "   "),
        }
    }
}

/// Spans by their parent; those whose parent is not here are roots.
fn children(spans: &[Span]) -> BTreeMap<&str, Vec<&Span>> {
    let known: BTreeMap<&str, usize> =
        spans.iter().enumerate().map(|(at, span)| (span.span_id.as_str(), at)).collect();
    let mut children: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for (at, span) in spans.iter().enumerate() {
        // A parent stands before its children; this also breaks circles in damaged data.
        let parent = match known.get(span.parent_id.as_str()) {
            Some(parent_at) if *parent_at < at => span.parent_id.as_str(),
            Some(_) | None => "",
        };
        children.entry(parent).or_default().push(span);
    }
    children
}

fn row(span: &Span, branch: &str, left: usize, now_ms: i64, paint: Paint) -> String {
    let kind = brief(&span.kind.replace('_', " "));
    let name = brief(&span.name);
    let name = if name.is_empty() || name == kind || name.starts_with(&format!("{kind} ")) {
        if name.is_empty() { kind } else { name }
    } else {
        format!("{kind} {name}")
    };
    let status = brief(&span.status);
    let room = left.saturating_sub(columns_of(branch));
    let id = call_id(span);
    let name = cut_end(&name, room.saturating_sub(columns_of(&id) + columns_of(&status) + 1)) + &id;
    let detail_room = room.saturating_sub(columns_of(&name) + columns_of(&status) + 3);
    let detail = cut_end(&brief(&span.detail), detail_room);
    let is_open = span.end_ms == 0;
    let end_ms = if is_open { now_ms } else { span.end_ms };
    let took = when::duration(u64::try_from(end_ms.saturating_sub(span.start_ms)).unwrap_or(0));
    let took = if is_open { format!("{took} …") } else { took };
    let mut line = format!("{}{name}", paint.faint(branch));
    let mut used = columns_of(branch) + columns_of(&name);
    if !status.is_empty() {
        line.push(' ');
        line.push_str(&paint.tone(tone(&span.status, is_open), &status));
        used += 1 + columns_of(&status);
    }
    if detail.chars().count() > 1 {
        line.push_str("  ");
        line.push_str(&paint.faint(&detail));
        used += 2 + columns_of(&detail);
    }
    format!("{line}{}{took:>DURATION_COLUMNS$}", " ".repeat(left.saturating_sub(used) + 1))
}

/// The id of a call as `send --answers` takes it, with a space before it. It is never cut.
fn call_id(span: &Span) -> String {
    let id = span.span_id.strip_prefix("call:").filter(|_| span.kind == "tool_call");
    id.map(|id| format!(" {}", brief(id))).unwrap_or_default()
}

fn tone(status: &str, is_open: bool) -> Tone {
    match status {
        "ok" | "completed" | "approved" => Tone::Good,
        "error" | "failed" | "lost" | "limit_reached" | "denied" | "expired" | "refused" => {
            Tone::Bad
        }
        "waiting" | "open" | "waiting_approval" | "waiting_input" => Tone::Attention,
        _ if is_open => Tone::Busy,
        _ => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: &str, parent: &str, kind: &str, name: &str, status: &str) -> Span {
        Span {
            span_id: id.into(),
            parent_id: parent.into(),
            kind: kind.into(),
            name: name.into(),
            status: status.into(),
            start_ms: 1_000,
            end_ms: 3_000,
            ..Span::default()
        }
    }

    fn drawn(spans: &[Span]) -> Vec<String> {
        tree(spans, 61_000, Some(50), Paint::NONE)
    }

    #[test]
    fn branches_join_parents_and_children() {
        let mut open = span("e", "a", "step", "step 2", "");
        open.end_ms = 0;
        assert_eq!(
            drawn(&[
                span("a", "", "session", "Fix it", "thinking"),
                span("b", "a", "step", "step 1", "ok"),
                span("c", "b", "model_call", "qwen", "ok"),
                span("call:1.1", "b", "tool_call", "shell", "error"),
                open,
            ]),
            [
                "session Fix it thinking                      2.0 s",
                "├─ step 1 ok                                 2.0 s",
                "│  ├─ model call qwen ok                     2.0 s",
                "│  └─ tool call shell 1.1 error              2.0 s",
                "└─ step 2                                  1 min …",
            ]
        );
    }

    #[test]
    fn a_span_without_its_parent_is_a_root_and_circles_end() {
        let lines = drawn(&[
            span("x", "gone", "step", "step 9", "ok"),
            span("y", "z", "step", "step 10", "ok"),
            span("z", "y", "step", "step 11", "ok"),
        ]);
        assert_eq!(lines.len(), 3);
        assert!(lines[2].starts_with("└─ step 11"), "{lines:?}");
    }

    #[test]
    fn long_names_and_details_give_way_to_the_time() {
        let mut long = span("call:12.3", "", "tool_call", &"n".repeat(80), "ok");
        long.detail = "d".repeat(80);
        for line in drawn(&[long]) {
            assert_eq!(columns_of(&line), 50, "{line}");
            assert!(line.ends_with("2.0 s") && line.contains(" 12.3 ok"), "{line}");
        }
    }
}
