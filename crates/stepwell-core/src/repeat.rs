//! Noticing a model that goes in circles.

use crate::agent::Effect;
use crate::json::action_digest;
use crate::policy::arguments_value;
use crate::state::SessionState;

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

/// A person said something, so doing a thing again may well be what they want.
pub(crate) fn forget_actions(state: &mut SessionState) {
    state.recent_actions.clear();
}
