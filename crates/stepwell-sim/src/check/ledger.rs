//! What model and workers noted against what the logs say.

use std::collections::BTreeMap;

use stepwell_core::event::{ApprovalDecision, Event, EventBody};
use stepwell_core::{CallId, SessionId};

use super::{Violation, broken, position};
use crate::agents::{ERASE, PAY};
use crate::fleet::Start;
use crate::model::AskRecord;

type Logs<'a> = BTreeMap<SessionId, &'a [Event]>;

/// A recorded decision of the model is never asked for again; what is sent is what was recorded; and
/// each request begins with the last one.
pub(super) fn check_asks(asks: &[AskRecord], logs: &Logs<'_>) -> Result<(), Violation> {
    let mut last: BTreeMap<SessionId, &str> = BTreeMap::new();
    // A node that lost a session and does not know it yet may ask once more: it was under way.
    for ask in asks.iter().filter(|ask| ask.by_owner) {
        let (session_id, step) = (ask.asked.session_id, ask.asked.step);
        let Some(log) = logs.get(&session_id) else {
            return Err(broken(session_id, "the model was asked, but there is no such session"));
        };
        let replied =
            position(log, |body| matches!(body, EventBody::ModelReplied(it) if it.step == step));
        if replied.is_some_and(|seq| seq <= ask.head) {
            let node = &ask.node;
            return Err(broken(session_id, format!("{node} asked for step {step} again")));
        }
        let is_recorded = log.iter().any(|event| match &event.body {
            EventBody::ModelRequested(it) => {
                (it.step, it.attempt) == (step, ask.asked.attempt) && it.prompt_digest == ask.digest
            }
            _ => false,
        });
        if !is_recorded {
            return Err(broken(session_id, format!("step {step} was sent, not as recorded")));
        }
        let open = ask.body.strip_suffix("]}").unwrap_or(&ask.body);
        if last.insert(session_id, open).is_some_and(|last| !open.starts_with(last)) {
            return Err(broken(session_id, format!("step {step} does not begin with the last")));
        }
    }
    Ok(())
}

/// What a tool may do to the world decides how often it may start, and people decide whether.
pub(super) fn check_starts(starts: &[Start], logs: &Logs<'_>) -> Result<(), Violation> {
    let mut calls: BTreeMap<(SessionId, CallId), Vec<&Start>> = BTreeMap::new();
    for start in starts {
        let (session_id, call_id, _) = start.attempt;
        calls.entry((session_id, call_id)).or_default().push(start);
    }
    for ((session_id, call_id), starts) in calls {
        let log = logs.get(&session_id).copied().unwrap_or_default();
        check_call(log, call_id, &starts)
            .map_err(|what| broken(session_id, format!("call {call_id}: {what}")))?;
    }
    Ok(())
}

fn check_call(log: &[Event], call_id: CallId, starts: &[&Start]) -> Result<(), String> {
    let decided = |wanted: &[ApprovalDecision]| {
        let is_it = |event: &&Event| match &event.body {
            EventBody::ApprovalDecided(it) => {
                it.call_id == call_id && wanted.contains(&it.decision)
            }
            _ => false,
        };
        log.iter().filter(is_it).count()
    };
    let Some(first) = starts.first() else { return Ok(()) };
    if starts.iter().any(|it| it.idempotency_key != first.idempotency_key) {
        return Err("its starts have different keys".to_string());
    }
    if decided(&[ApprovalDecision::Deny]) > 0 || first.tool == ERASE {
        return Err("it was started although it was refused".to_string());
    }
    if first.effect.may_repeat() {
        return Ok(());
    }
    let allowed = 1 + decided(&[ApprovalDecision::DidNotHappen]);
    if starts.len() > allowed {
        return Err(format!("a write tool was started {} times, allowed {allowed}", starts.len()));
    }
    for start in starts {
        let dispatched = position(log, |body| match body {
            EventBody::ToolDispatched(it) => {
                it.call_id == call_id && it.attempt == start.attempt.2 && it.worker == start.worker
            }
            _ => false,
        });
        if dispatched.is_none_or(|seq| seq > start.head) {
            return Err("it was started before that was durable".to_string());
        }
    }
    if first.tool == PAY && !was_approved(log, call_id) {
        return Err("it was started and nobody approved it".to_string());
    }
    Ok(())
}

fn was_approved(log: &[Event], call_id: CallId) -> bool {
    log.iter().any(|event| match &event.body {
        EventBody::ApprovalDecided(it) => match it.decision {
            ApprovalDecision::Approve => it.call_id == call_id,
            ApprovalDecision::ApproveForSession => true,
            ApprovalDecision::Deny
            | ApprovalDecision::Happened
            | ApprovalDecision::DidNotHappen
            | ApprovalDecision::Failed => false,
        },
        _ => false,
    })
}
