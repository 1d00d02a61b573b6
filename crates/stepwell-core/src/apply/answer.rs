//! A reply against what was asked for: must a tool be called, does the answer have its form?

use alloc::format;
use alloc::string::{String, ToString};

use crate::event::{FinishReason, ModelReplied};
use crate::output::{Binding, ToolChoice};
use crate::state::SessionState;

/// What the model is told when it answers where it must call a tool.
const NO_CALL: &str = "No tool was called. Call a tool now, before you answer.";

/// Judges a reply and notes whether the server held to what it was asked for. What the model must be
/// told, when the reply is no answer.
pub(super) fn judge(
    state: &mut SessionState,
    it: &ModelReplied,
    asked: Binding<'_>,
    choice: &ToolChoice,
) -> Option<String> {
    state.ignored.clear();
    if !it.tool_calls.is_empty() {
        state.called_since_message = true;
        state.answer_did_not_fit = false;
        if *choice == ToolChoice::None {
            state.ignored = "the server called a tool although tool_choice is none".to_string();
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
    let problem = it.answer_problem.as_ref()?;
    if asked.binds_answer {
        state.ignored = format!("the server does not hold to the form of the answer: {problem}");
    }
    Some(problem.clone())
}
