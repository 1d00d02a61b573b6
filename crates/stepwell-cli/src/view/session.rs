//! Sessions: the list and the page of one.

use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;
use stepwell_core::Status;
use stepwell_proto::v1::{self, Approval, GetSessionResponse, OpenCall, Session, SessionStatus};

use super::table::{Cell, Column, Fit, cut_end, cut_middle, render};
use super::visible::{Care, block, brief};
use super::{approval, event, json, usage, when};
use crate::out::{Paint, Tone};

/// Room for the arguments of an open call when there is no terminal to fit.
const ARGUMENTS_COLUMNS: usize = 100;
/// Last characters of an id that tell a parent apart in a list.
const LINEAGE_CHARS: usize = 6;
/// Approvals, and questions, whose commands are shown.
const NEXT_MAX: usize = 8;
/// Before the reason below a line of the list.
const WHY_INDENT: &str = "     ";
/// Longest reason; the middle of a longer one is left out.
const WHY_COLUMNS: usize = 300;
/// Column where the values of a page begin.
const LABEL_COLUMNS: usize = 10;

/// Whether only a person can move a session in this state.
pub(crate) fn needs_person(status: SessionStatus) -> bool {
    Status::from_name(&json::status_name(status)).is_some_and(Status::needs_person)
}

/// How a status is coloured.
pub(crate) fn tone(status: SessionStatus) -> Tone {
    match status {
        SessionStatus::WaitingApproval
        | SessionStatus::WaitingInput
        | SessionStatus::Quarantined => Tone::Attention,
        SessionStatus::Completed => Tone::Good,
        SessionStatus::Failed | SessionStatus::LimitReached => Tone::Bad,
        SessionStatus::Thinking | SessionStatus::ExecutingTools => Tone::Busy,
        SessionStatus::Cancelled | SessionStatus::Paused => Tone::Faint,
        SessionStatus::Unspecified | SessionStatus::Pending | SessionStatus::Sleeping => {
            Tone::Plain
        }
    }
}

/// The table of `ls`. A `!` marks what waits for a person; below what is not completed stands why.
pub(crate) fn table(
    sessions: &[Session],
    now_ms: i64,
    width: Option<usize>,
    paint: Paint,
) -> Vec<String> {
    const COLUMNS: [Column; 7] = [
        Column::new(" ", Fit::Whole),
        Column::new("SESSION", Fit::Whole),
        Column::new("STATUS", Fit::Whole),
        Column::right("STEP", Fit::Drop(1)),
        Column::new("UPDATED", Fit::Drop(2)),
        Column::new("AGENT", Fit::Drop(3)),
        Column::new("TITLE", Fit::CutEnd(12)),
    ];
    let row = |session: &Session| {
        let status = session.status();
        let mark = if needs_person(status) { "!" } else { "" };
        [
            Cell::new(mark, Tone::Attention),
            Cell::new(brief(&session.session_id), Tone::Strong),
            Cell::new(json::status_name(status), tone(status)),
            session.step.to_string().into(),
            Cell::new(when::relative(session.updated_at_ms, now_ms), Tone::Faint),
            brief(&session.agent).into(),
            brief(&title(session)).into(),
        ]
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    let mut lines = render(&COLUMNS, &rows, width, paint).into_iter();
    let mut shown: Vec<String> = lines.next().into_iter().collect();
    for (session, line) in sessions.iter().zip(lines) {
        shown.push(line);
        if session.status() != SessionStatus::Completed && !session.explain.is_empty() {
            let why = format!("{WHY_INDENT}{}", why(session));
            shown.push(paint.faint(width.map_or(why.clone(), |width| cut_end(&why, width))));
        }
    }
    shown
}

/// A fork says so, and of whom.
fn title(session: &Session) -> String {
    match session.parent_id.get(session.parent_id.len().saturating_sub(LINEAGE_CHARS)..) {
        Some(parent) if !parent.is_empty() => {
            format!("{} (fork of …{parent}@{})", session.title, session.parent_seq)
        }
        Some(_) | None => session.title.clone(),
    }
}

/// One line after an action: what the session is now and why.
pub(crate) fn line(session: &Session, paint: Paint) -> String {
    let status = session.status();
    let name = paint.tone(tone(status), json::status_name(status));
    let line = format!("{}  {name}", paint.strong(brief(&session.session_id)));
    if session.explain.is_empty() {
        return line;
    }
    format!("{line}  {}", why(session))
}

/// Why it is where it is, on one line: what a model server says may be pages long.
pub(crate) fn why(session: &Session) -> String {
    let whole = brief(&session.explain);
    let shown = cut_middle(&whole, WHY_COLUMNS);
    if shown == whole {
        return whole;
    }
    format!("{shown} (whole: stepwell events {})", brief(&session.session_id))
}

/// What a session asks a person with a call.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Question {
    /// The call.
    pub(crate) call_id: String,
    /// In the model's words.
    pub(crate) question: String,
}

impl Question {
    /// For people, on as many lines as it has.
    pub(crate) fn lines(&self, paint: Paint) -> Vec<String> {
        let title = paint.faint(format!("asks (call {})", brief(&self.call_id)));
        vec![title, block(self.question.trim_end(), Care::Prose, paint)]
    }
}

/// What a session asks, in the order of the calls.
pub(crate) fn questions(response: &GetSessionResponse) -> Vec<Question> {
    let asks = response.open_calls.iter().filter(|it| it.status == "awaiting_answer");
    let question = |call: &OpenCall| {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let words = arguments.get("question").and_then(Value::as_str);
        Question {
            call_id: call.call_id.clone(),
            question: words.unwrap_or(&call.arguments).to_owned(),
        }
    };
    asks.map(question).collect()
}

/// What a person can do to move it on, one way a line; empty when nothing is needed.
pub(crate) fn next_commands(session: &Session, response: &GetSessionResponse) -> Vec<String> {
    let id = brief(&session.session_id);
    // In the order of the calls: the sentence is about the first.
    let number = |it: &Approval| -> Vec<u64> {
        it.call_id.split('.').map(|part| part.parse().unwrap_or(u64::MAX)).collect()
    };
    let mut approvals: Vec<_> = response.open_approvals.iter().collect();
    approvals.sort_by_key(|it| number(it));
    let shown = approvals.iter().take(NEXT_MAX);
    let mut commands: Vec<_> = shown.flat_map(|it| approval::next_commands(it)).collect();
    if approvals.len() > NEXT_MAX {
        commands.push(format!("stepwell approvals {id}"));
    }
    let (status, questions) = (session.status(), questions(response));
    if status == SessionStatus::WaitingInput || !questions.is_empty() {
        commands.extend(answers(&id, &questions));
    }
    // A held session takes answers, and goes on with them only then.
    if response.paused || status == SessionStatus::Paused {
        commands.push(format!("stepwell resume {id}"));
    }
    if status == SessionStatus::Quarantined {
        commands.push(format!("stepwell events {id}"));
    }
    commands
}

/// With one question, or none, it is clear what a message answers.
fn answers(id: &str, questions: &[Question]) -> Vec<String> {
    if questions.len() < 2 {
        return vec![format!("stepwell send {id} TEXT")];
    }
    let answer =
        |it: &Question| format!("stepwell send {id} --answers {} TEXT", brief(&it.call_id));
    questions.iter().take(NEXT_MAX).map(answer).collect()
}

/// What the page of a session needs besides the session.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// Milliseconds since 1970.
    pub(crate) now_ms: i64,
    /// For calendar times.
    pub(crate) zone: TimeZone,
    /// Of the terminal.
    pub(crate) width: Option<usize>,
    /// Colours.
    pub(crate) paint: Paint,
    /// It is about a past moment: what would move the session then moves nothing now.
    pub(crate) is_past: bool,
}

/// The page of `show`.
pub(crate) fn page(session: &Session, response: &GetSessionResponse, page: &Page) -> Vec<String> {
    let paint = page.paint;
    let status = session.status();
    let mut lines = vec![
        format!(
            "{}  {}",
            paint.strong(brief(&session.session_id)),
            paint.tone(tone(status), json::status_name(status))
        ),
        brief(&session.title),
        String::new(),
    ];
    let mut field = |label: &str, value: String| {
        if !value.is_empty() {
            let label = paint.faint(format!("{label:LABEL_COLUMNS$}"));
            lines.push(format!("{label}{value}"));
        }
    };
    field("why", why(session));
    let next = if page.is_past { Vec::new() } else { next_commands(session, response) };
    for (place, command) in next.into_iter().enumerate() {
        field(if place == 0 { "next" } else { "  or" }, command);
    }
    field("agent", agent(session));
    field("progress", progress(session));
    let account = response.account.clone().unwrap_or_default();
    field("tokens", tokens(session, &account));
    field("cache", usage::reading(&account));
    field("cost", usage::cost(&account));
    field("fork of", fork_of(session));
    field("created", both(session.created_at_ms, page));
    field("updated", both(session.updated_at_ms, page));
    field("owner", owner(response, page.now_ms));
    field("wakes", both(response.wakes_at_ms, page));
    field("labels", labels(session));
    for (index, call) in response.open_calls.iter().enumerate() {
        field(if index == 0 { "calls" } else { "" }, open_call(call, page.width));
    }
    for question in questions(response) {
        lines.push(String::new());
        lines.extend(question.lines(paint));
    }
    for approval in &response.open_approvals {
        lines.push(String::new());
        lines.extend(approval::page(approval, page));
    }
    if !response.answer.is_empty() {
        lines.push(String::new());
        let is_answer = status == SessionStatus::Completed;
        lines.push(paint.faint(if is_answer { "answer" } else { "last words" }));
        lines.push(block(response.answer.trim_end(), Care::Prose, paint));
    }
    lines
}

fn fork_of(session: &Session) -> String {
    if session.parent_id.is_empty() {
        return String::new();
    }
    format!("{} at event {}", brief(&session.parent_id), session.parent_seq)
}

fn agent(session: &Session) -> String {
    let name = brief(&session.agent);
    match session.agent_version {
        0 => format!("{name} (handed in with the task)"),
        version => format!("{name} v{version}"),
    }
}

fn progress(session: &Session) -> String {
    let steps = when::counted(session.step, "step");
    format!("{steps}, {}", when::counted(session.head_seq, "event"))
}

fn tokens(session: &Session, account: &v1::Account) -> String {
    if usage::is_uncounted(account) {
        return usage::UNCOUNTED.to_owned();
    }
    let usage = session.usage.unwrap_or_default();
    format!(
        "{} in, {} of them cached; {} out",
        when::number(usage.prompt_tokens),
        when::number(usage.cached_tokens),
        when::number(usage.completion_tokens)
    )
}

pub(crate) fn both(time_ms: i64, page: &Page) -> String {
    if time_ms == 0 {
        return String::new();
    }
    let relative = when::relative(time_ms, page.now_ms);
    format!("{} ({relative})", when::absolute(time_ms, &page.zone))
}

fn owner(response: &GetSessionResponse, now_ms: i64) -> String {
    let ownership = brief(&response.ownership);
    if response.owner.is_empty() {
        return ownership;
    }
    let seen = when::relative(response.owner_seen_at_ms, now_ms);
    format!("{} ({ownership}, last sign of life {seen})", brief(&response.owner))
}

fn labels(session: &Session) -> String {
    let mut labels: Vec<String> =
        session.labels.iter().map(|(key, value)| brief(&format!("{key}={value}"))).collect();
    labels.sort();
    labels.join(" ")
}

fn open_call(call: &OpenCall, width: Option<usize>) -> String {
    let attempt = match call.attempt {
        0 | 1 => String::new(),
        attempt => format!(", attempt {attempt}"),
    };
    let worker = match brief(event::worker(&call.worker)).as_str() {
        "" => String::new(),
        worker => format!(" on {worker}"),
    };
    let (call_id, tool) = (brief(&call.call_id), brief(&call.tool));
    let words = format!("{call_id}  {tool}  {}{attempt}{worker}", brief(&call.status));
    let room = width
        .map_or(ARGUMENTS_COLUMNS, |width| width.saturating_sub(LABEL_COLUMNS + words.len() + 2));
    format!("{words}  {}", cut_middle(&brief(&call.arguments), room)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stepwell_proto::v1::{Account, Approval, ModelAccount, Usage};

    const ID: &str = "01KYS8D3V0QXG6N9T7W2B4C5E6";

    fn session(status: SessionStatus) -> Session {
        Session {
            session_id: ID.into(),
            status: status.into(),
            title: "Fix the\nfailing test".into(),
            agent: "coder".into(),
            agent_version: 2,
            labels: [("team".to_owned(), "core".to_owned())].into(),
            head_seq: 17,
            step: 3,
            usage: Some(Usage {
                prompt_tokens: 12_345,
                cached_tokens: 8_000,
                completion_tokens: 456,
            }),
            created_at_ms: 1_000,
            updated_at_ms: 61_000,
            explain: "waits for approval 17".into(),
            parent_id: String::new(),
            parent_seq: 0,
        }
    }

    #[test]
    fn the_list_shows_what_needs_a_person() {
        let sessions = [session(SessionStatus::WaitingApproval), session(SessionStatus::Completed)];
        assert_eq!(
            table(&sessions, 241_000, Some(100), Paint::NONE),
            [
                "   SESSION                     STATUS            STEP  UPDATED    AGENT  TITLE",
                "!  01KYS8D3V0QXG6N9T7W2B4C5E6  waiting_approval     3  3 min ago  coder  Fix the failing test",
                "     waits for approval 17",
                "   01KYS8D3V0QXG6N9T7W2B4C5E6  completed            3  3 min ago  coder  Fix the failing test",
            ]
        );
    }

    #[test]
    fn on_a_narrow_terminal_the_id_stays_whole() {
        let lines = table(&[session(SessionStatus::Thinking)], 241_000, Some(40), Paint::NONE);
        assert!(lines[1].contains(ID), "{lines:?}");
    }

    #[test]
    fn one_line_says_what_and_why() {
        assert_eq!(
            line(&session(SessionStatus::Thinking), Paint::NONE),
            format!("{ID}  thinking  waits for approval 17")
        );
    }

    #[test]
    fn the_page_tells_everything() {
        let response = GetSessionResponse {
            open_calls: vec![OpenCall {
                call_id: "3.1".into(),
                tool: "shell".into(),
                arguments: "{\"command\":\"cargo test\"}".into(),
                status: "awaiting_approval".into(),
                attempt: 1,
                worker: String::new(),
            }],
            open_approvals: vec![Approval {
                approval_id: format!("{ID}.17"),
                ..Approval::default()
            }],
            owner: "node-1".into(),
            owner_seen_at_ms: 239_000,
            ownership: "parked".into(),
            answer: "done\n".into(),
            account: Some(Account {
                bound_tokens: 4_000,
                uncached_tokens: 4_345,
                read_ratio_thousandths: 1_086,
                models: vec![ModelAccount { cost_micros: Some(500), ..ModelAccount::default() }],
            }),
            ..GetSessionResponse::default()
        };
        let around = around(false);
        let lines = page(&session(SessionStatus::WaitingApproval), &response, &around);
        let page = lines.join("\n");
        for part in [
            format!(
                "{ID}  waiting_approval\nFix the failing test\n\nwhy       waits for approval 17\n"
            ),
            format!(
                "next      stepwell approve {ID}.17\n  or      stepwell deny {ID}.17 --reason TEXT\n"
            ),
            "agent     coder v2\nprogress  3 steps, 17 events\n".to_owned(),
            "tokens    12,345 in, 8,000 of them cached; 456 out\n".to_owned(),
            "cache     4,345 tokens read, 1.08 × the 4,000 of the first prompt and the \
             observations\ncost      0.0005\n"
                .to_owned(),
            "created   1970-01-01 00:00:01 UTC (4 min ago)\n".to_owned(),
            "owner     node-1 (parked, last sign of life 2 s ago)\nlabels    team=core\n"
                .to_owned(),
            "calls     3.1  shell  awaiting_approval  {\"command\":\"cargo test\"}\n".to_owned(),
            "\nlast words\ndone".to_owned(),
        ] {
            assert!(page.contains(&part), "{part:?} is missing in:\n{page}");
        }
    }

    fn around(is_past: bool) -> Page {
        let (zone, paint) = (TimeZone::UTC, Paint::NONE);
        Page { now_ms: 241_000, zone, width: Some(100), paint, is_past }
    }

    fn asking(calls: &[&str]) -> GetSessionResponse {
        let call = |id: &&str| OpenCall {
            call_id: (*id).into(),
            tool: "ask_user".into(),
            arguments: r#"{"question":"Red\nor blue?"}"#.into(),
            status: "awaiting_answer".into(),
            ..OpenCall::default()
        };
        let open_calls = calls.iter().map(call).collect();
        GetSessionResponse { open_calls, ..GetSessionResponse::default() }
    }

    #[test]
    fn a_long_reason_is_one_line_that_says_where_the_whole_is() {
        let mut long = session(SessionStatus::Paused);
        long.explain =
            format!("paused by ada; {} go on with stepwell resume", "no, \n".repeat(900));
        let shown = why(&long);
        assert!(shown.starts_with("paused by ada; no,") && !shown.contains('\n'), "{shown}");
        let end = format!("go on with stepwell resume (whole: stepwell events {ID})");
        assert!(shown.ends_with(&end) && shown.len() < WHY_COLUMNS + 100, "{shown}");
        long.explain = "paused by ada".into();
        assert_eq!(why(&long), "paused by ada");
        let listed = table(&[long], 0, None, Paint::NONE).join("\n");
        assert!(listed.contains("paused by ada"), "{listed}");
    }

    #[test]
    fn a_question_is_shown_with_how_to_answer() {
        let waiting = session(SessionStatus::WaitingInput);
        let shown = page(&waiting, &asking(&["3.1"]), &around(false)).join("\n");
        assert!(shown.contains(&format!("next      stepwell send {ID} TEXT\n")), "{shown}");
        assert!(shown.contains("\n\nasks (call 3.1)\nRed\nor blue?"), "{shown}");
        let two = next_commands(&waiting, &asking(&["3.1", "3.2"]));
        assert_eq!(two[1], format!("stepwell send {ID} --answers 3.2 TEXT"));
    }

    #[test]
    fn all_that_is_asked_has_its_commands_and_a_held_session_is_resumed_after_them() {
        let approval = |number: usize| Approval {
            approval_id: format!("{ID}.{number}"),
            call_id: format!("3.{number}"),
            ..Approval::default()
        };
        let mut response = asking(&["3.10"]);
        // In the order of the calls, and not of the texts.
        response.open_approvals = vec![approval(9), approval(2)];
        response.paused = true;
        let waiting = session(SessionStatus::WaitingApproval);
        let next = [
            format!("stepwell approve {ID}.2"),
            format!("stepwell deny {ID}.2 --reason TEXT"),
            format!("stepwell approve {ID}.9"),
            format!("stepwell deny {ID}.9 --reason TEXT"),
            format!("stepwell send {ID} TEXT"),
            format!("stepwell resume {ID}"),
        ];
        assert_eq!(next_commands(&waiting, &response), next);
        response.open_approvals = (1..=20).map(approval).collect();
        let many = next_commands(&waiting, &response);
        assert_eq!(many.len(), 2 * NEXT_MAX + 3, "{many:?}");
        assert_eq!(many[2 * NEXT_MAX], format!("stepwell approvals {ID}"));
    }

    #[test]
    fn the_past_needs_no_command() {
        let waiting = session(SessionStatus::WaitingInput);
        let shown = page(&waiting, &asking(&["3.1"]), &around(true)).join("\n");
        assert!(shown.contains("asks (call 3.1)") && !shown.contains("stepwell send"), "{shown}");
    }

    #[test]
    fn what_to_do_next_follows_from_the_state() {
        let none = GetSessionResponse::default();
        for (status, command) in [
            (SessionStatus::WaitingInput, vec![format!("stepwell send {ID} TEXT")]),
            (SessionStatus::Paused, vec![format!("stepwell resume {ID}")]),
            (SessionStatus::Thinking, Vec::new()),
            (SessionStatus::Completed, Vec::new()),
        ] {
            assert_eq!(next_commands(&session(status), &none), command);
        }
    }
}
