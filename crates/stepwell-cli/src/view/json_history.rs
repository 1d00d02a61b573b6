//! Answers of the history service as JSON, in the way of [`super::json`].

use serde::Serialize;
use stepwell_proto::v1;

use super::json::{Approval, Embedded, Joined, OpenCall, Session};

/// [`v1::GetStateResponse`]: the session's fields and what was open then.
pub(crate) fn state<'a>(
    session: &'a v1::Session,
    it: &'a v1::GetStateResponse,
) -> impl Serialize + 'a {
    #[derive(Serialize)]
    struct Timer<'a> {
        name: &'a str,
        due_at_ms: i64,
    }
    #[derive(Serialize)]
    struct Limits {
        steps: u32,
        steps_max: u32,
        tokens: u64,
        tokens_max: u64,
        deadline_at_ms: i64,
    }
    #[derive(Serialize)]
    struct Rest<'a> {
        open_calls: Vec<OpenCall<'a>>,
        open_approvals: Vec<Approval<'a>>,
        timers: Vec<Timer<'a>>,
        limits: Limits,
        answer: &'a str,
        agent_json: Embedded,
        messages_json: Vec<Embedded>,
        messages_from: i64,
        messages_total: u64,
        prompt_bytes: u64,
    }
    let limits = it.limits.unwrap_or_default();
    let rest = Rest {
        open_calls: it.open_calls.iter().map(OpenCall::from).collect(),
        open_approvals: it.open_approvals.iter().map(Approval::from).collect(),
        timers: it
            .timers
            .iter()
            .map(|timer| Timer { name: &timer.name, due_at_ms: timer.due_at_ms })
            .collect(),
        limits: Limits {
            steps: limits.steps,
            steps_max: limits.steps_max,
            tokens: limits.tokens,
            tokens_max: limits.tokens_max,
            deadline_at_ms: limits.deadline_at_ms,
        },
        answer: &it.answer,
        agent_json: Embedded::new(&it.agent_json),
        messages_json: it.messages_json.iter().map(|text| Embedded::new(text)).collect(),
        messages_from: it.messages_from,
        messages_total: it.messages_total,
        prompt_bytes: it.prompt_bytes,
    };
    Joined(Session::from(session), rest)
}

/// [`v1::ForkSessionResponse`]: the report, and the fork unless it was a dry run.
pub(crate) fn forked(it: &v1::ForkSessionResponse) -> impl Serialize + '_ {
    #[derive(Serialize)]
    struct Hazard<'a> {
        seq: u64,
        call_id: &'a str,
        tool: &'a str,
        arguments: &'a str,
        ending: &'a str,
        result_given: bool,
    }
    #[derive(Serialize)]
    struct Forked<'a> {
        session: Option<Session<'a>>,
        created: bool,
        at_seq: u64,
        hazards: Vec<Hazard<'a>>,
        workspace: &'a str,
        shares_workspace: bool,
    }
    let hazards = it.hazards.iter().map(|it| Hazard {
        seq: it.seq,
        call_id: &it.call_id,
        tool: &it.tool,
        arguments: &it.arguments,
        ending: &it.ending,
        result_given: it.result_given,
    });
    Forked {
        session: it.session.as_ref().map(Session::from),
        created: it.created,
        at_seq: it.at_seq,
        hazards: hazards.collect(),
        workspace: &it.workspace,
        shares_workspace: it.shares_workspace,
    }
}
