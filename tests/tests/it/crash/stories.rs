//! The stories: an agent, what its model says, and what the person does about it.

use stepwell_tests::agent_with;

use super::person::{Act, View};

/// See the module.
pub(super) struct Story {
    pub(super) name: &'static str,
    pub(super) agent: String,
    pub(super) script: &'static str,
    /// What the person does next, if anything.
    pub(super) next: fn(&View<'_>) -> Option<Act>,
    /// Whether the worker may be killed with the server.
    pub(super) kills_worker: bool,
    /// Whether a late report comes after the end.
    pub(super) ends_late: bool,
    /// Whether the session is a fork of one that did nothing yet.
    pub(super) is_fork: bool,
}

const TOOLS: [&str; 5] = ["look", "put", "pay", "ask_user", "sleep"];

/// Small payments run, those to the landlord are asked about, those to strangers are forbidden.
const RULES: &str = r#"
[limits]
tool_attempts = 20

[[approval.rules]]
tool = "pay"
arguments = { what = "stranger*" }
verdict = "deny"

[[approval.rules]]
tool = "pay"
arguments = { what = "landlord*" }
verdict = "ask"

[[approval.rules]]
tool = "pay"
verdict = "allow"
"#;

/// Each answer and each call takes a moment, so that a kill hits the moment that it is meant for.
const EVERYTHING: &str = r#"
delay_ms = 25

[[step]]
content = "Two at once."
[[step.tool_calls]]
name = "look"
arguments = { what = "sky", delay_ms = 25 }
[[step.tool_calls]]
name = "put"
arguments = { what = "kettle", delay_ms = 60 }

[[step]]
content = "The server has too much to do at first."
fault = { kind = "status", status = 429, message = "too much to do" }
[[step.tool_calls]]
name = "pay"
arguments = { what = "baker", delay_ms = 25 }
[[step.tool_calls]]
name = "frobnicate"
arguments = { what = "unknown" }
[[step.tool_calls]]
name = "look"
arguments = { where = "a wrong argument" }

[[step]]
content = "This one needs a word."
[[step.tool_calls]]
name = "pay"
arguments = { what = "landlord", delay_ms = 25 }

[[step]]
content = "These are not allowed."
[[step.tool_calls]]
name = "pay"
arguments = { what = "stranger" }
[[step.tool_calls]]
name = "pay"
arguments = { what = "landlord again" }

[[step]]
[[step.tool_calls]]
name = "ask_user"
arguments = { question = "Which colour?" }

[[step]]
[[step.tool_calls]]
name = "sleep"
arguments = { seconds = 0.05 }

[[step]]
content = "The worker dies while it looks."
[[step.tool_calls]]
name = "look"
arguments = { what = "abyss", slow_attempts = 1, delay_ms = 25 }

[[step]]
content = "The worker dies while it pays."
[[step.tool_calls]]
name = "pay"
arguments = { what = "tax", slow_attempts = 1, delay_ms = 25 }

[[step]]
content = "All is done."
"#;

/// What the person says to the session.
const HURRY: &str = "Hurry up, please.";
const COLOUR: &str = "green";

impl Story {
    /// Every kind of event that a session can have which completes.
    pub(super) fn everything() -> Self {
        Self {
            name: "everything",
            agent: agent_with(&TOOLS, RULES),
            script: EVERYTHING,
            next: |view| {
                view.unknown_outcome()
                    .or_else(|| view.answer("5.1", COLOUR))
                    .or_else(|| view.kill_worker_in("look", "7.1"))
                    .or_else(|| view.kill_worker_in("pay", "8.1"))
                    .or_else(|| around_first_approval(view))
                    .or_else(|| view.deny("4.2", "one rent is enough"))
            },
            kills_worker: true,
            ends_late: false,
            is_fork: false,
        }
    }

    /// A session that a person ends while one call runs and another waits for a person.
    pub(super) fn cancelled() -> Self {
        Self {
            name: "cancelled",
            agent: agent_with(&TOOLS, RULES),
            script: r#"
                delay_ms = 25
                [[step]]
                [[step.tool_calls]]
                name = "look"
                arguments = { what = "horizon", slow_attempts = 9 }
                [[step.tool_calls]]
                name = "pay"
                arguments = { what = "landlord" }
            "#,
            next: |view| {
                let is_running = view.is_started("1.1");
                let is_asked = view.open_approval("1.2").is_some();
                let is_new = !view.has("cancel_requested");
                (is_running && is_asked && is_new).then_some(Act::Cancel { reason: "enough" })
            },
            kills_worker: true,
            ends_late: false,
            is_fork: false,
        }
    }

    /// A fork that pays and looks.
    pub(super) fn forked() -> Self {
        Self {
            name: "forked",
            agent: agent_with(&TOOLS, RULES),
            script: r#"
                delay_ms = 25
                [[step]]
                [[step.tool_calls]]
                name = "pay"
                arguments = { what = "baker", delay_ms = 25 }
                [[step]]
                [[step.tool_calls]]
                name = "look"
                arguments = { what = "bread", delay_ms = 25 }
                [[step]]
                content = "All is done."
            "#,
            next: |view| view.unknown_outcome(),
            kills_worker: true,
            ends_late: false,
            is_fork: true,
        }
    }

    /// A session whose time is up while a call runs; the call's report comes after the end.
    pub(super) fn overtime() -> Self {
        Self {
            name: "overtime",
            agent: agent_with(&TOOLS, "[limits]\ndeadline = \"2s\""),
            script: r#"
                delay_ms = 25
                [[step]]
                [[step.tool_calls]]
                name = "look"
                arguments = { what = "clock", delay_ms = 3000 }
            "#,
            next: |_| None,
            kills_worker: false,
            ends_late: true,
            is_fork: false,
        }
    }
}

/// While the first approval is open: a message, a pause, its end; then the approval is given.
fn around_first_approval(view: &View<'_>) -> Option<Act> {
    let approval = view.open_approval("3.1")?;
    if !view.has_message(HURRY) {
        return Some(Act::Say { text: HURRY, answers: "" });
    }
    if !view.has("pause_requested") {
        return Some(Act::Pause { reason: "let me think" });
    }
    if !view.has("resume_requested") {
        return Some(Act::Resume);
    }
    Some(Act::Approve { approval })
}
