//! What no answer may exceed.

use stepwell_llm::assemble::{
    ANSWER_BYTES_MAX, ARGUMENT_BYTES_MAX, Assembler, Problem, Progress, TOOL_CALLS_MAX,
};
use stepwell_llm::sse::SseEvent;

use crate::answers::{delta, end};

fn push(assembler: &mut Assembler, data: &str) -> Result<Progress, Problem> {
    assembler.push(SseEvent { name: "", data }, &mut |_| {})
}

#[track_caller]
fn check_too_large(chunks: impl Iterator<Item = String>, expected_what: &str) {
    let mut assembler = Assembler::new();
    let problem = chunks.into_iter().find_map(|chunk| push(&mut assembler, &chunk).err());
    match problem {
        Some(Problem::TooLarge { what, .. }) => assert_eq!(what, expected_what),
        problem => panic!("{problem:?}"),
    }
}

#[test]
fn calls_have_a_bound() {
    let call = |index: usize| {
        delta(&format!(r#"{{"tool_calls":[{{"index":{index},"function":{{"name":"f"}}}}]}}"#))
    };
    check_too_large((0..=TOOL_CALLS_MAX).map(call), "tool calls");
    let mut assembler = Assembler::new();
    for index in 0..TOOL_CALLS_MAX {
        push(&mut assembler, &call(index)).unwrap();
    }
    assert_eq!(assembler.finish(), Err(Problem::Incomplete));
}

#[test]
fn arguments_have_a_bound() {
    let part = "x".repeat(ARGUMENT_BYTES_MAX / 4);
    let piece = delta(&format!(
        r#"{{"tool_calls":[{{"index":0,"function":{{"name":"f","arguments":"{part}"}}}}]}}"#
    ));
    check_too_large(std::iter::repeat_n(piece, 5), "argument bytes");
}

#[test]
fn text_has_a_bound() {
    let part = "x".repeat(ANSWER_BYTES_MAX / 4);
    for member in ["content", "reasoning"] {
        let piece = delta(&format!(r#"{{"{member}":"{part}"}}"#));
        check_too_large(std::iter::repeat_n(piece, 5), "bytes");
    }
}

#[test]
fn names_have_a_bound() {
    let name = "x".repeat(2_000);
    let piece = delta(&format!(r#"{{"tool_calls":[{{"function":{{"name":"{name}"}}}}]}}"#));
    check_too_large(std::iter::once(piece), "id or name of a call");
}

#[test]
fn only_pieces_of_the_answer_are_progress() {
    let mut assembler = Assembler::new();
    for (data, progress) in [
        (delta(r#"{"role":"assistant","content":""}"#), Progress::Nothing),
        (r#"{"choices":[],"usage":{"prompt_tokens":1}}"#.into(), Progress::Nothing),
        (delta(r#"{"content":"a"}"#), Progress::Token),
        (delta(r#"{"reasoning":"a"}"#), Progress::Token),
        (delta(r#"{"tool_calls":[{"index":0,"function":{"name":"f"}}]}"#), Progress::Token),
        (end("stop"), Progress::Token),
        ("[DONE]".into(), Progress::Nothing),
    ] {
        assert_eq!(push(&mut assembler, &data), Ok(progress), "{data}");
    }
}
