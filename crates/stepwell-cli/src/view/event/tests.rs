//! Every kind of event, in words.

use super::*;

fn event(kind: &str, body: &str) -> Event {
    Event {
        session_id: "01J".into(),
        seq: 17,
        time_ms: 43_384_000,
        r#type: kind.into(),
        schema: 1,
        cause: 17,
        actor: "person:ada".into(),
        body_json: body.into(),
    }
}

fn narrator(width: Option<usize>) -> Narrator {
    let mut narrator = Narrator::new(TimeZone::UTC, Paint::NONE, width);
    narrator.note(&event(
        "model_replied",
        r#"{"tool_calls":[{"call_id":"3.1","name":"shell"},{"call_id":"3.2","name":"read_file"}]}"#,
    ));
    narrator
}

#[track_caller]
fn says(kind: &str, body: &str, words: &str) {
    let line = narrator(None).line(&event(kind, body));
    assert_eq!(line, format!("12:03:04  #17   {kind:18} {words}").trim_end());
}

#[test]
fn events_about_the_model() {
    says(
        "session_created",
        r#"{"title":"Fix it","agent":{"name":"coder","version":2}}"#,
        "Fix it (agent coder v2, by ada)",
    );
    says(
        "model_requested",
        r#"{"step":1,"attempt":4,"prompt_bytes":90,"fallback":"small"}"#,
        "step 1 (attempt 4), prompt 90 B, fallback to small",
    );
    says(
        "model_requested",
        r#"{"step":3,"attempt":2,"prompt_bytes":12345}"#,
        "step 3 (attempt 2), prompt 12.3 KB",
    );
    says(
        "model_replied",
        r#"{"step":3,"duration_ms":2100,"content":"I will\nlook","usage":{"prompt_tokens":1200,"completion_tokens":85},"tool_calls":[{"call_id":"3.1","name":"shell","arguments":"{\"command\":\"ls\"}"}]}"#,
        r#"step 3, 2.1 s, 85 tokens: I will look -> shell {"command":"ls"}"#,
    );
    says(
        "model_failed",
        r#"{"step":3,"attempt":1,"endpoint":"http://h/v1","error":"rate_limited","message":"slow down","http_status":429}"#,
        "step 3, rate_limited 429 at http://h/v1: slow down",
    );
    says(
        "model_failed",
        r#"{"step":3,"attempt":1,"endpoint":"http://h/v1","error":"server_error","message":"it died","http_status":200}"#,
        "step 3, server_error in a stream that had begun well at http://h/v1: it died",
    );
}

#[test]
fn events_about_tools_name_the_tool() {
    says("tool_scheduled", r#"{"call_id":"3.2","attempt":1}"#, "read_file 3.2");
    says(
        "tool_dispatched",
        r#"{"call_id":"3.1","attempt":2,"worker":"local@node-3e589fad"}"#,
        "shell 3.1 (attempt 2) to worker local",
    );
    says(
        "tool_finished",
        r#"{"call_id":"3.1","attempt":1,"outcome":"ok","output":"a\nb\n[exit code 0 after 1.9 s]\n","duration_ms":1940}"#,
        "shell 3.1 ok, 1.9 s: exit code 0 after 1.9 s",
    );
    says(
        "tool_finished",
        r#"{"call_id":"9.1","outcome":"error","output":{"blob":"x","bytes":99,"preview":"no such file\nx"},"late":true}"#,
        "call 9.1 error, 0 ms, late: changes nothing: no such file",
    );
    says(
        "tool_lost",
        r#"{"call_id":"3.1","attempt":1,"reason":"lease ran out"}"#,
        "shell 3.1, outcome unknown: lease ran out",
    );
    says(
        "tool_refused",
        r#"{"call_id":"3.1","reason":"denied","message":"not on a Friday"}"#,
        "shell 3.1 (denied): not on a Friday",
    );
}

#[test]
fn events_about_people() {
    says(
        "approval_requested",
        r#"{"approval_id":17,"call_id":"3.1","question":"may_run"}"#,
        "may shell 3.1 run? stepwell approve 01J.17",
    );
    says(
        "approval_requested",
        r#"{"approval_id":17,"call_id":"3.1","question":"what_happened"}"#,
        "what became of shell 3.1? stepwell resolve 01J.17",
    );
    says(
        "approval_decided",
        r#"{"approval_id":17,"call_id":"3.1","decision":"approve_for_session","arguments":{}}"#,
        "approved for the session: shell 3.1 by ada, arguments changed",
    );
    says(
        "message_received",
        r#"{"content":"go on","answers":"3.2"}"#,
        "ada (answers read_file 3.2): go on",
    );
    says("pause_requested", r#"{"reason":"lunch"}"#, "by ada: lunch");
    says("resume_requested", "{}", "by ada");
}

#[test]
fn the_beginning_of_a_fork_is_told_in_words() {
    says(
        "override_applied",
        r#"{"parent":"01K","parent_seq":9,"seed":"s","workspace":"w","paused":true,"edits":[{"tool_result":{"call_id":"3.1","outcome":"ok","output":"all green\nx"}},{"message":{"content":"go on"}},{"arguments":{"call_id":"3.2","arguments":{"path":"a"}}}]}"#,
        r#"fork of 01K at event 9, by ada: shell 3.1 has the result "all green"; a message: go on; read_file 3.2 has the arguments {"path":"a"}, begins held"#,
    );
    says(
        "override_applied",
        r#"{"parent":"01K","parent_seq":9,"seed":"s","workspace":"w"}"#,
        "fork of 01K at event 9, by ada",
    );
    says(
        "override_applied",
        r#"{"parent":"01K","parent_seq":9,"agent":{"name":"coder","model":{"name":"qwen3"}}}"#,
        "fork of 01K at event 9, by ada: agent coder with model qwen3",
    );
}

#[test]
fn events_about_time_and_the_end() {
    says("timer_started", r#"{"timer":"model_retry","due_at":43387000}"#, "model_retry in 3 s");
    says("timer_fired", r#"{"timer":"deadline","due_at":1}"#, "deadline");
    says("session_finished", r#"{"outcome":"completed"}"#, "completed");
    says(
        "session_finished",
        r#"{"outcome":"limit_reached","limit":"steps","reason":"100 steps"}"#,
        "limit reached (steps): 100 steps",
    );
}

#[test]
fn what_is_not_known_is_shown_as_it_is() {
    says("plan_changed", r#"{"a":1}"#, r#"{"a":1}"#);
    says("tool_finished", "no json", "call , 0 ms");
}

#[test]
fn a_line_fits_the_terminal_and_obeys_nothing() {
    let long = format!("{{\"content\":\"\\u001b[2J{}\"}}", "x".repeat(300));
    let line = narrator(Some(80)).line(&event("message_received", &long));
    assert_eq!(crate::view::table::columns_of(&line), 80);
    assert!(line.contains("ada: <U+001B>[2Jxxx") && line.ends_with('…'), "{line}");
}
