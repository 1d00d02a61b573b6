//! What a log says, without attempts, times, workers and retries; and what the tools wrote down beside
//! it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use stepwell_tests::Ev;

use super::play::Played;

/// What the log says, one text for each thing, those of a step in a fixed order: calls that run side by
/// side end in any order.
///
/// # Errors
/// When two attempts of one step were asked with different prompts.
pub(super) fn normal(events: &[Ev]) -> Result<Vec<String>> {
    let mut steps: Vec<Vec<String>> = vec![Vec::new()];
    let mut prompts: BTreeMap<u64, String> = BTreeMap::new();
    let mut said = BTreeMap::new();
    let mut is_cancelled = false;
    for event in events {
        is_cancelled |= event.kind == "cancel_requested";
        let text = match event.kind.as_str() {
            "model_requested" => {
                let (step, prompt) = (event.number("step"), event.text("prompt_digest"));
                match prompts.insert(step, prompt.to_owned()) {
                    None => steps.push(Vec::new()),
                    Some(before) if before == prompt => continue,
                    Some(before) => bail!("step {step} was asked with {before}, then {prompt}"),
                }
                Some(format!("asked step {step} {prompt} {}", event.number("prompt_bytes")))
            }
            _ => said_by(event, is_cancelled),
        };
        // What says the same again is another attempt.
        if let Some(text) = text
            && said.insert(text.clone(), event.seq).is_none()
        {
            steps.last_mut().context("no step")?.push(text);
        }
    }
    for step in &mut steps {
        step.sort();
    }
    Ok(steps.concat())
}

/// What an event says, if it is not about attempts only.
fn said_by(event: &Ev, is_cancelled: bool) -> Option<String> {
    let call = event.call_id();
    let is_about_outcome = event.text("question") == "what_happened"
        || matches!(event.text("decision"), "did_not_happen" | "failed");
    Some(match event.kind.as_str() {
        "session_created" => {
            let mut body = event.body.clone();
            body["seed"] = Value::Null;
            // The mock model has another port in each run.
            body["agent"]["model"]["base_url"] = Value::Null;
            format!("created {body}")
        }
        "override_applied" => {
            let mut body = event.body.clone();
            for name in ["parent", "seed", "workspace"] {
                body[name] = Value::Null;
            }
            format!("forked {body}")
        }
        "model_replied" => {
            let what = ["content", "reasoning", "tool_calls", "finish_reason", "usage"];
            let what = what.map(|name| event.body[name].clone());
            format!("replied step {} {}", event.number("step"), json!(what))
        }
        // What becomes of calls after a cancel depends on how fast they stop.
        "tool_finished" if is_cancelled => return None,
        "tool_finished" if event.body["late"] == true => format!("{call} reported late"),
        "tool_finished" => {
            format!("{call} gave {} {:?}", event.text("outcome"), event.text("output"))
        }
        "approval_decided" if event.text("decision") == "happened" => {
            format!("{call} gave ok {:?}", event.text("output"))
        }
        "approval_requested" | "approval_decided" if is_about_outcome => return None,
        "tool_scheduled" => format!("{call} may run"),
        "tool_dispatched" => format!("{call} was given to a worker"),
        "tool_refused" => format!("{call} was refused {}", event.body),
        "approval_requested" => {
            let what = ["question", "action_digest", "rule"].map(|name| event.body[name].clone());
            format!("{call} asks {}", json!(what))
        }
        "approval_decided" => {
            let what = ["decision", "reason", "arguments"].map(|name| event.body[name].clone());
            format!("{call} was decided by {} {}", event.actor, json!(what))
        }
        "timer_started" | "timer_fired" if is_retry(event) => return None,
        "timer_started" | "timer_fired" => format!("{} {}", event.kind, event.text("timer")),
        "model_failed" | "tool_lost" => return None,
        "message_received" | "cancel_requested" | "pause_requested" | "resume_requested"
        | "session_finished" => format!("{} by {} {}", event.kind, event.actor, event.body),
        // A type that is new: it must be the same.
        kind => format!("{kind} {}", event.body),
    })
}

fn is_retry(event: &Ev) -> bool {
    let timer = event.text("timer");
    timer == "model_retry" || timer.starts_with("tool_retry") || timer == "cancel_grace"
}

/// Each write call that ran has one start; all starts of a call have its key; nothing else started.
pub(super) fn check_starts(played: &Played) -> Result<()> {
    let Played { session_id, events, starts, .. } = played;
    let mut calls: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for start in starts {
        let call = start.key.strip_prefix(&format!("{session_id}/"));
        let call = call.with_context(|| format!("{start:?} has a key of its own"))?;
        let is_allowed = |it: &Ev| it.kind == "tool_scheduled" && it.call_id() == call;
        ensure!(events.iter().any(is_allowed), "{start:?} was not allowed to run");
        let attempts = calls.entry(call).or_default();
        ensure!(start.tool != "pay" || attempts.is_empty(), "{start:?} is a second start");
        attempts.push(start.attempt);
    }
    for event in events.iter().filter(|it| it.kind == "tool_finished") {
        let (call, attempt) = (event.call_id(), event.number("attempt"));
        let is_there =
            calls.get(call).is_some_and(|it| it.iter().any(|it| u64::from(*it) == attempt));
        ensure!(is_there, "call {call} has a result of attempt {attempt} that nobody started");
    }
    Ok(())
}
