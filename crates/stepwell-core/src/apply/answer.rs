//! A reply against what was asked for: must a tool be called, does the answer have its form?

use alloc::format;
use alloc::string::{String, ToString};

use crate::event::{FinishReason, ModelReplied, ToolCall};
use crate::output::Binding;
use crate::state::SessionState;

/// What the model is told when it answers where it must call a tool.
const NO_CALL: &str = "No tool was called. Call a tool now, before you answer.";

/// What the model is told when it says nothing at all.
const EMPTY: &str = "The reply was empty. Go on with the task, or give your answer.";

/// Judges a reply and notes whether the server held to what it was asked for. What the model must be
/// told, when the reply is no answer.
pub(super) fn judge(
    state: &mut SessionState,
    it: &ModelReplied,
    asked: Binding<'_>,
) -> Option<String> {
    state.ignored.clear();
    if !it.tool_calls.is_empty() {
        let is_foreign = |call: &&ToolCall| asked.forbids(&call.name).is_some();
        let foreign = it.tool_calls.iter().find(is_foreign);
        state.called_since_message |= !it.tool_calls.iter().all(|call| is_foreign(&call));
        state.answer_did_not_fit = false;
        if let Some(call) = foreign {
            state.ignored = format!(
                "the server called `{}` although tool_choice is {}",
                call.name,
                asked.choice()
            );
        }
        return None;
    }
    match it.finish_reason {
        // What was cut is no answer of any form; the session ends by it.
        FinishReason::Length | FinishReason::ContentFilter => return None,
        FinishReason::Stop | FinishReason::ToolCalls => {}
    }
    if asked.must_call {
        state.ignored = "the server answered without a call although a call is required".into();
        return Some(NO_CALL.to_string());
    }
    state.answer_did_not_fit = it.answer_problem.is_some();
    let Some(problem) = it.answer_problem.as_ref() else {
        let is_empty = !asked.has_form() && it.content.preview().trim().is_empty();
        return is_empty.then(|| EMPTY.to_string());
    };
    if asked.binds_answer {
        state.ignored = format!("the server does not hold to the form of the answer: {problem}");
    }
    Some(problem.clone())
}
