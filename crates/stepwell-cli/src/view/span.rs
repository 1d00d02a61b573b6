//! The span tree of a session, drawn with lines.

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
const LEFT_COLUMNS_MIN: usize = 12;
/// A status that would leave the name less than that is not shown.
const NAME_COLUMNS_MIN: usize = 6;

/// Deepest level that gets lines of its own.
const DEPTH_DRAWN_MAX: usize = 64;

/// Draws spans as they come, in pre-order. It holds the lines that run down from what is around the
/// next span, and no span.
#[derive(Debug)]
pub(crate) struct Drawer {
    /// What is around the next span, from the session on: whether no sibling follows.
    around: Vec<bool>,
    depth_max: Option<u32>,
    /// Until when an open span's time runs.
    now_ms: i64,
    left: usize,
    paint: Paint,
}

impl Drawer {
    /// A drawer for rows that begin below `ancestors`; deeper ones than `depth_max` do not come.
    pub(crate) fn new(
        ancestors: &[Span],
        depth_max: Option<u32>,
        now_ms: i64,
        width: Option<usize>,
        paint: Paint,
    ) -> Self {
        let left = width.map_or(LEFT_COLUMNS, |width| {
            width.saturating_sub(DURATION_COLUMNS + 1).clamp(LEFT_COLUMNS_MIN, LEFT_COLUMNS)
        });
        let around = ancestors.iter().map(|it| it.is_last_child).collect();
        Self { around, depth_max, now_ms, left, paint }
    }

    /// The line of the next span.
    pub(crate) fn line(&mut self, span: &Span) -> String {
        let depth = (span.depth as usize).min(DEPTH_DRAWN_MAX);
        self.around.resize(depth, true);
        // The session has no lines.
        let mut branch: String = self
            .around
            .iter()
            .skip(1)
            .map(|is_last| if *is_last { "   " } else { "│  " })
            .collect();
        if depth > 0 {
            branch.push_str(if span.is_last_child { "└─ " } else { "├─ " });
        }
        self.around.push(span.is_last_child);
        let is_cut = self.depth_max == Some(span.depth) && span.subtree_size > 1;
        let below = if is_cut { format!(" +{}", span.subtree_size - 1) } else { String::new() };
        row(span, &branch, &below, self)
    }
}

/// `below` says how many spans are left out below this one.
fn row(span: &Span, branch: &str, below: &str, drawer: &Drawer) -> String {
    let Drawer { now_ms, left, paint, .. } = *drawer;
    let kind = brief(&span.kind.replace('_', " "));
    let name = brief(&span.name);
    let name = if name.is_empty() || name == kind || name.starts_with(&format!("{kind} ")) {
        if name.is_empty() { kind } else { name }
    } else {
        format!("{kind} {name}")
    };
    let branch = &end_of(branch, left / 2);
    let room = left.saturating_sub(columns_of(branch));
    let id = call_id(span) + below;
    let mut status = brief(&span.status);
    if columns_of(&id) + columns_of(&status) + 1 + NAME_COLUMNS_MIN > room {
        status.clear();
    }
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

/// As much of the lines as leaves room for what they lead to: on a narrow terminal their end.
fn end_of(branch: &str, columns_max: usize) -> String {
    let over = branch.chars().count().saturating_sub(columns_max);
    if over == 0 {
        return branch.to_owned();
    }
    std::iter::once('…').chain(branch.chars().skip(over + 1)).collect()
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
        drawn_below(&[], None, spans)
    }

    fn drawn_below(ancestors: &[Span], depth_max: Option<u32>, spans: &[Span]) -> Vec<String> {
        let mut drawer = Drawer::new(ancestors, depth_max, 61_000, Some(50), Paint::NONE);
        spans.iter().map(|span| drawer.line(span)).collect()
    }

    fn at(depth: u32, is_last_child: bool, span: Span) -> Span {
        Span { depth, is_last_child, subtree_size: 1, ..span }
    }

    fn family() -> Vec<Span> {
        let mut open = span("e", "a", "step", "step 2", "");
        open.end_ms = 0;
        vec![
            at(0, true, span("a", "", "session", "Fix it", "thinking")),
            at(1, false, span("b", "a", "step", "step 1", "ok")),
            at(2, false, span("c", "b", "model_call", "qwen", "ok")),
            at(2, true, span("call:1.1", "b", "tool_call", "shell", "error")),
            at(1, true, open),
        ]
    }

    #[test]
    fn branches_join_parents_and_children() {
        assert_eq!(
            drawn(&family()),
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
    fn a_window_is_drawn_as_that_part_of_the_whole() {
        let family = family();
        let whole = drawn(&family);
        assert_eq!(drawn_below(&family[..2], None, &family[2..]), whole[2..]);
        assert_eq!(drawn_below(&family[..1], None, &family[4..]), whole[4..]);
    }

    #[test]
    fn what_is_left_out_below_is_counted() {
        let mut family = family();
        family[1].subtree_size = 3;
        let lines = drawn_below(&family[..1], Some(1), &family[1..2]);
        assert_eq!(lines, ["├─ step 1 +2 ok                              2.0 s"]);
    }

    #[test]
    fn rows_that_fit_no_tree_are_drawn_and_bounded() {
        let lines = drawn(&[
            at(9, false, span("x", "gone", "step", "step 9", "ok")),
            at(u32::MAX, true, span("y", "z", "step", "step 10", "ok")),
        ]);
        assert!(lines[0].contains("├─ step 9"), "{lines:?}");
        assert!(lines[1].len() < 400, "{lines:?}");
    }

    #[test]
    fn a_narrow_terminal_is_not_overrun() {
        let mut deep = at(12, true, span("call:12.3", "", "tool_call", &"n".repeat(80), "ok"));
        deep.detail = "d".repeat(80);
        let waiting = at(0, true, span("a", "", "session", "Fix it", "waiting_approval"));
        for width in [25, 28, 40, 80] {
            let mut drawer = Drawer::new(&[], None, 61_000, Some(width), Paint::NONE);
            for span in [&waiting, &deep] {
                let line = drawer.line(span);
                assert!(columns_of(&line) <= width, "{width}: {line}");
            }
        }
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
