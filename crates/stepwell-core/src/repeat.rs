//! Noticing a model that goes in circles, or that does not find a way to say what it wants.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::agent::Effect;
use crate::json::action_digest;
use crate::policy::arguments_value;
use crate::state::{Call, SessionState};
use crate::text::shorten;

/// How much of the last problem stands in the reason of a session that ended by it, in bytes.
const REASON_BYTES_MAX: usize = 512;

/// Remembers the actions of a reply and notices one that stands too often among the last
/// `repeat_window`. A write that is new among them empties the memory: the world has changed, so
/// looking again is no repetition.
pub(crate) fn note_actions(state: &mut SessionState) {
    let Some(agent) = state.agent().cloned() else { return };
    let window = agent.limits.repeat_window as usize;
    if window == 0 {
        return;
    }
    for call in state.calls.values() {
        let digest = action_digest(&call.tool, &arguments_value(call.arguments.preview()));
        let is_write = agent.tool(&call.tool).is_some_and(|tool| tool.effect == Effect::Write);
        if is_write && !state.recent_actions.contains(&digest) {
            state.recent_actions.clear();
        }
        state.recent_actions.push_back(digest.clone());
        if state.recent_actions.len() > window {
            state.recent_actions.pop_front();
        }
        let count = state.recent_actions.iter().filter(|it| **it == digest).count();
        if count >= agent.limits.repeat_count as usize && state.repeated.is_none() {
            state.repeated = Some(call.tool.clone());
        }
    }
}

/// Counts replies in a row of which nothing can be used: no call has arguments that can be read and a
/// tool that there is, or the model had to be `told` that it is no answer. One good call among bad ones
/// is progress.
pub(crate) fn note_usefulness(state: &mut SessionState, told: Option<&str>) {
    let Some(agent) = state.agent().cloned() else { return };
    let problem_of = |call: &Call| match (&call.problem, agent.tool(&call.tool)) {
        (Some(problem), Some(_)) => Some(problem.clone()),
        (_, None) => Some(format!("there is no tool `{}`", call.tool)),
        (None, Some(_)) => None,
    };
    let problems: Option<Vec<String>> = state.calls.values().map(problem_of).collect();
    let problem = problems.and_then(|mut problems| problems.pop());
    match problem.or_else(|| told.map(String::from)) {
        Some(problem) => {
            state.unusable_replies = state.unusable_replies.saturating_add(1);
            state.unusable_reason = shorten(&problem, REASON_BYTES_MAX);
        }
        None => state.unusable_replies = 0,
    }
}

/// A person said something, so doing a thing again may well be what they want.
pub(crate) fn forget_actions(state: &mut SessionState) {
    state.recent_actions.clear();
    state.unusable_replies = 0;
}
