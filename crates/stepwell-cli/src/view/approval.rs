//! Approvals: the list, and the exact action that a person decides about.
//!
//! The whole action is shown, however long; nothing in it can hide: see [`super::visible`].

use serde_json::Value;
use stepwell_proto::v1::Approval;

use super::event::person;
use super::session::Page;
use super::table::{Cell, Column, Fit, render};
use super::visible::{Care, block, hidden_count, line};
use super::when;
use crate::out::{Paint, Tone};

/// How the question of an approval is put.
const WHAT_HAPPENED: &str = "what_happened";

/// Whether it asks what became of a call, and not whether it may run.
pub(crate) fn asks_what_happened(approval: &Approval) -> bool {
    approval.question == WHAT_HAPPENED
}

/// The commands that answer it.
pub(crate) fn next_commands(approval: &Approval) -> Vec<String> {
    let id = line(&approval.approval_id, Care::Exact, Paint::NONE);
    if asks_what_happened(approval) {
        vec![
            format!("stepwell resolve {id} happened --output TEXT"),
            format!("stepwell resolve {id} did-not-happen"),
            format!("stepwell resolve {id} failed --reason TEXT"),
        ]
    } else {
        vec![format!("stepwell approve {id}"), format!("stepwell deny {id} --reason TEXT")]
    }
}

/// The table of `approvals`. Of a long action the middle is left out: its end matters.
pub(crate) fn table(
    approvals: &[Approval],
    now_ms: i64,
    width: Option<usize>,
    paint: Paint,
) -> Vec<String> {
    const COLUMNS: [Column; 5] = [
        Column::new("APPROVAL", Fit::Whole),
        Column::new("STATUS", Fit::Drop(2)),
        Column::new("ASKED", Fit::Drop(1)),
        Column::new("TOOL", Fit::Whole),
        Column::new("ACTION", Fit::CutMiddle(24)),
    ];
    let row = |approval: &Approval| {
        let tone = match approval.status.as_str() {
            "open" => Tone::Attention,
            "approved" => Tone::Good,
            _ => Tone::Faint,
        };
        let question = if asks_what_happened(approval) { "what happened? " } else { "" };
        [
            Cell::new(exact(&approval.approval_id), Tone::Strong),
            Cell::new(exact(&approval.status), tone),
            Cell::new(when::relative(approval.requested_at_ms, now_ms), Tone::Faint),
            exact(&approval.tool).into(),
            format!("{question}{}", one_line(&approval.arguments)).into(),
        ]
    };
    let rows: Vec<_> = approvals.iter().map(row).collect();
    render(&COLUMNS, &rows, width, paint)
}

/// Everything about one approval: the question, the whole action, why and until when.
pub(crate) fn page(approval: &Approval, page: &Page) -> Vec<String> {
    let paint = page.paint;
    let (tool, call_id) = (exact(&approval.tool), exact(&approval.call_id));
    let question = if asks_what_happened(approval) {
        format!(
            "What became of {tool} (call {call_id})? It was started and its outcome is unknown."
        )
    } else {
        format!("May {tool} (call {call_id}) run?")
    };
    let mut lines = vec![
        format!("{}  {}", paint.strong(exact(&approval.approval_id)), exact(&approval.status)),
        paint.tone(Tone::Attention, question),
    ];
    lines.extend(action(&approval.arguments, paint));
    let mut fact = |label: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {}{value}", paint.faint(format!("{label:10}"))));
        }
    };
    fact("rule", line(&approval.rule, Care::Prose, paint));
    fact("asked", time(approval.requested_at_ms, page));
    fact("expires", time(approval.expires_at_ms, page));
    fact("decided", decided(approval, page));
    fact("reason", line(&approval.reason, Care::Prose, paint));
    fact("digest", exact(&approval.action_digest));
    lines
}

/// The whole action: each argument by itself, texts as they are, and a warning when something in
/// them would not be seen.
fn action(arguments: &str, paint: Paint) -> Vec<String> {
    let parsed: Option<Value> = serde_json::from_str(arguments).ok();
    let mut hidden = 0;
    let mut lines = Vec::new();
    if let Some(Value::Object(fields)) = &parsed {
        for (name, value) in fields {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            hidden += hidden_count(name) + hidden_count(&text);
            let name = line(name, Care::Exact, paint);
            let shown = block(&text, Care::Exact, paint);
            if shown.contains('\n') {
                lines.push(format!("  {name}:"));
                lines.extend(shown.split('\n').map(|it| format!("    {it}").trim_end().to_owned()));
            } else {
                lines.push(format!("  {name}: {shown}"));
            }
        }
        if fields.is_empty() {
            lines.push(format!("  {}", paint.faint("no arguments")));
        }
    } else {
        hidden += hidden_count(arguments);
        lines.push(format!("  {}", line(arguments, Care::Exact, paint)));
    }
    if hidden > 0 {
        let characters = when::counted(hidden, "hidden or controlling character");
        let warning = format!("  careful: {characters}, shown as <U+….>");
        lines.push(paint.tone(Tone::Bad, warning));
    }
    lines
}

/// The action on one line: the text itself when there is only one argument.
fn one_line(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(fields)) if fields.len() == 1 => match fields.values().next() {
            Some(Value::String(text)) => exact(text),
            _ => exact(arguments),
        },
        _ => exact(arguments),
    }
}

fn exact(text: &str) -> String {
    line(text, Care::Exact, Paint::NONE)
}

fn time(time_ms: i64, page: &Page) -> String {
    match time_ms {
        0 => String::new(),
        _ => format!(
            "{} ({})",
            when::absolute(time_ms, &page.zone),
            when::relative(time_ms, page.now_ms)
        ),
    }
}

fn decided(approval: &Approval, page: &Page) -> String {
    if approval.decided_by.is_empty() {
        return String::new();
    }
    format!("{} by {}", time(approval.decided_at_ms, page), exact(person(&approval.decided_by)))
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn approval(arguments: &str) -> Approval {
        Approval {
            approval_id: "01J.17".into(),
            session_id: "01J".into(),
            call_id: "3.1".into(),
            question: "may_run".into(),
            tool: "shell".into(),
            arguments: arguments.into(),
            action_digest: "3fa9".into(),
            rule: "write tools ask".into(),
            status: "open".into(),
            requested_at_ms: 1_000,
            ..Approval::default()
        }
    }

    fn page_of(arguments: &str) -> String {
        let (zone, paint) = (TimeZone::UTC, Paint::NONE);
        let around = Page { now_ms: 61_000, zone, width: None, paint, is_past: false };
        page(&approval(arguments), &around).join("\n")
    }

    #[test]
    fn the_question_comes_with_the_whole_action() {
        assert_eq!(
            page_of(r#"{"command":"cargo test\nrm x","timeout_seconds":5}"#),
            "01J.17  open\n\
             May shell (call 3.1) run?\n  \
               command:\n    \
                 cargo test\n    \
                 rm x\n  \
               timeout_seconds: 5\n  \
               rule      write tools ask\n  \
               asked     1970-01-01 00:00:01 UTC (1 min ago)\n  \
               digest    3fa9"
        );
    }

    #[test]
    fn the_end_of_a_long_command_is_reached_ap17() {
        let command = format!("echo ok{}; rm -rf data", " ".repeat(4000));
        let page = page_of(&serde_json::json!({ "command": command }).to_string());
        assert!(page.contains("  command: echo ok<4000 spaces>; rm -rf data\n"), "{page}");
        let long = format!("echo {}; rm -rf data", "x".repeat(4000));
        let page = page_of(&serde_json::json!({ "command": long }).to_string());
        assert!(page.contains(&long));
    }

    #[test]
    fn hidden_characters_are_seen_and_counted_ap17() {
        let command = "ls\u{202e}\r\u{1b}[8m; rm";
        let page = page_of(&serde_json::json!({ "command": command }).to_string());
        assert!(page.contains("  command: ls<U+202E><U+000D><U+001B>[8m; rm\n"), "{page}");
        assert!(page.contains("careful: 3 hidden or controlling characters"), "{page}");
        assert!(!page.contains('\u{1b}'));
    }

    #[test]
    fn arguments_that_are_no_json_are_shown_as_they_are() {
        assert!(page_of("{\"command\": \u{1b}").contains("\n  {\"command\": <U+001B>\n"));
    }

    #[test]
    fn the_list_keeps_the_end_of_a_command() {
        let command = format!("{{\"command\":\"echo {}; rm -rf data\"}}", "x".repeat(200));
        let lines = table(&[approval(&command)], 61_000, Some(70), Paint::NONE);
        assert_eq!(
            lines,
            [
                "APPROVAL  STATUS  ASKED      TOOL   ACTION",
                "01J.17    open    1 min ago  shell  echo xxxxxxxxxxxx…xxx; rm -rf data",
            ]
        );
    }

    #[test]
    fn each_question_has_its_answer() {
        let mut asked = approval("{}");
        let deny = "stepwell deny 01J.17 --reason TEXT";
        assert_eq!(next_commands(&asked), ["stepwell approve 01J.17", deny]);
        asked.question = WHAT_HAPPENED.into();
        let all = next_commands(&asked);
        assert!(all.len() == 3 && all.iter().all(|it| it.starts_with("stepwell resolve 01J.17 ")));
    }
}
