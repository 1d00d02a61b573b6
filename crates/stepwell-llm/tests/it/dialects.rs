//! What servers do with the protocol, beyond the recorded cases.

use stepwell_core::event::{FinishReason, Usage};
use stepwell_llm::assemble::{Answer, Assembler, Problem};

use crate::answers::{delta, end, read_in_all_chunkings, stream_of};

#[track_caller]
fn answer_of(chunks: &[String]) -> Answer {
    outcome_of(chunks).unwrap()
}

#[track_caller]
fn outcome_of(chunks: &[String]) -> Result<Answer, Problem> {
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    read_in_all_chunkings(&stream_of(&chunks), &[]).answer
}

#[track_caller]
fn check_calls(pieces: &[&str], expected: &[(&str, &str, &str)]) {
    let chunks: Vec<String> = pieces
        .iter()
        .map(|piece| delta(&format!(r#"{{"tool_calls":{piece}}}"#)))
        .chain([end("tool_calls")])
        .collect();
    let answer = answer_of(&chunks);
    let calls: Vec<_> = answer
        .tool_calls
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
        .collect();
    assert_eq!(calls, expected);
}

#[test]
fn ids_without_indexes_tell_calls_apart() {
    check_calls(
        &[
            r#"[{"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]"#,
            r#"[{"id":"b","function":{"name":"g","arguments":"{"}}]"#,
            r#"[{"id":"a","function":{"arguments":"1}"}}]"#,
            r#"[{"id":"b","function":{"arguments":"}"}}]"#,
        ],
        &[("a", "f", r#"{"x":1}"#), ("b", "g", "{}")],
    );
}

#[test]
fn pieces_without_anything_go_to_the_last_call() {
    check_calls(
        &[
            r#"[{"id":"a","function":{"name":"f","arguments":"{"}}]"#,
            r#"[{"function":{"arguments":"}"}}]"#,
        ],
        &[("a", "f", "{}")],
    );
}

#[test]
fn whole_calls_under_one_index_and_without_ids_are_two() {
    check_calls(
        &[
            r#"[{"index":0,"function":{"name":"f","arguments":"{\"x\":1}"}}]"#,
            r#"[{"index":0,"function":{"name":"f","arguments":"{\"x\":2}"}}]"#,
            r#"[{"index":0,"function":{"name":"g","arguments":"{}"}}]"#,
        ],
        &[("", "f", r#"{"x":1}"#), ("", "f", r#"{"x":2}"#), ("", "g", "{}")],
    );
}

#[test]
fn whole_calls_in_one_list_and_without_ids_and_indexes_are_two() {
    check_calls(
        &[
            r#"[{"function":{"name":"f","arguments":{"x":1}}},{"function":{"name":"f","arguments":{"x":2}}}]"#,
        ],
        &[("", "f", r#"{"x":1}"#), ("", "f", r#"{"x":2}"#)],
    );
}

#[test]
fn a_name_in_parts_or_grown_is_one_name() {
    check_calls(
        &[
            r#"[{"index":0,"id":"a","function":{"name":"find_"}}]"#,
            r#"[{"index":0,"function":{"name":"part"}}]"#,
            r#"[{"index":1,"id":"b","function":{"name":"find_"}}]"#,
            r#"[{"index":1,"id":"b","function":{"name":"find_part","arguments":"{}"}}]"#,
        ],
        &[("a", "find_part", ""), ("b", "find_part", "{}")],
    );
}

#[test]
fn a_repeated_name_without_an_id_is_one_call() {
    check_calls(
        &[
            r#"[{"index":0,"function":{"name":"f","arguments":"{\"x\":"}}]"#,
            r#"[{"index":0,"function":{"name":"f","arguments":"1}"}}]"#,
            r#"[{"index":0,"function":{"name":"f","arguments":""}}]"#,
        ],
        &[("", "f", r#"{"x":1}"#)],
    );
}

#[test]
fn two_calls_with_the_same_id_and_their_own_indexes_are_two() {
    check_calls(
        &[
            r#"[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]"#,
            r#"[{"index":1,"id":"a","function":{"name":"g","arguments":"{}"}}]"#,
        ],
        &[("a", "f", "{}"), ("a", "g", "{}")],
    );
}

#[test]
fn a_call_that_changes_its_name_is_damaged() {
    let chunks = [
        delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}"#),
        delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"g","arguments":"}"}}]}"#),
        end("tool_calls"),
    ];
    assert!(matches!(outcome_of(&chunks), Err(Problem::Damaged { .. })));
}

#[test]
fn a_call_without_a_name_is_damaged_unless_the_answer_was_cut() {
    let nameless = delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{"}}]}"#);
    let outcome = outcome_of(&[nameless.clone(), end("tool_calls")]);
    assert!(matches!(outcome, Err(Problem::Damaged { .. })));
    let answer = answer_of(&[nameless, end("length")]);
    assert_eq!((answer.tool_calls.len(), answer.finish_reason), (0, FinishReason::Length));
}

#[test]
fn empty_pieces_are_no_calls() {
    let chunks = [
        delta(r#"{"content":"a","tool_calls":[]}"#),
        delta(r#"{"tool_calls":[{}]}"#),
        delta(r#"{"tool_calls":null,"function_call":null}"#),
        end("stop"),
    ];
    let answer = answer_of(&chunks);
    assert_eq!((answer.content.as_str(), answer.tool_calls.len()), ("a", 0));
}

#[test]
fn the_older_form_of_a_call_is_a_call() {
    let chunks = [
        delta(r#"{"function_call":{"name":"f","arguments":"{"}}"#),
        delta(r#"{"function_call":{"arguments":"}"}}"#),
        end("function_call"),
    ];
    let answer = answer_of(&chunks);
    assert_eq!(answer.tool_calls[0].arguments, "{}");
    assert_eq!(answer.finish_reason, FinishReason::ToolCalls);
}

#[test]
fn digits_of_object_arguments_are_kept() {
    let text = r#"{"n":2512292042121000001,"x":1.10,"e":1E400}"#;
    let piece = format!(r#"{{"tool_calls":[{{"function":{{"name":"f","arguments":{text}}}}}]}}"#);
    assert_eq!(answer_of(&[delta(&piece)]).tool_calls[0].arguments, text);
}

#[test]
fn reasoning_under_both_names_is_taken_once() {
    let chunks = [delta(r#"{"reasoning":"a","reasoning_content":"a"}"#), end("stop")];
    assert_eq!(answer_of(&chunks).reasoning, "a");
}

#[test]
fn a_refusal_is_what_the_model_said() {
    let chunks = [delta(r#"{"content":null,"refusal":"No."}"#), end("stop")];
    assert_eq!(answer_of(&chunks).content, "No.");
}

#[test]
fn content_in_parts_is_joined() {
    let chunks = [delta(r#"{"content":[{"type":"text","text":"a"},{"text":"b"}]}"#), end("stop")];
    assert_eq!(answer_of(&chunks).content, "ab");
}

#[test]
fn finish_reasons_of_dialects_are_known() {
    for (reason, expected) in [
        ("stop", FinishReason::Stop),
        ("STOP", FinishReason::Stop),
        ("eos", FinishReason::Stop),
        ("tool_use", FinishReason::ToolCalls),
        ("MAX_TOKENS", FinishReason::Length),
        ("content_filter", FinishReason::ContentFilter),
    ] {
        let answer = answer_of(&[end(reason)]);
        assert_eq!((answer.finish_reason, answer.finish_word), (expected, None), "{reason}");
    }
    for (reason, expected) in [
        ("repetition", FinishReason::Length),
        ("SAFETY", FinishReason::ContentFilter),
        ("banana", FinishReason::Stop),
    ] {
        let answer = answer_of(&[end(reason)]);
        let word = answer.finish_word.unwrap();
        assert_eq!((answer.finish_reason, word), (expected, reason.to_lowercase()), "{reason}");
    }
    for reason in ["abort", "error"] {
        let outcome = outcome_of(&[delta(r#"{"content":"a"}"#), end(reason)]);
        assert_eq!(outcome, Err(Problem::GivenUp { reason: reason.into() }));
    }
}

#[test]
fn a_cut_is_not_forgotten_for_a_second_finish() {
    assert_eq!(answer_of(&[end("length"), end("stop")]).finish_reason, FinishReason::Length);
    assert_eq!(answer_of(&[end("stop"), end("length")]).finish_reason, FinishReason::Length);
    assert_eq!(answer_of(&[end("tool_calls"), end("stop")]).finish_reason, FinishReason::ToolCalls);
}

#[test]
fn an_end_mark_without_a_finish_reason_is_an_end() {
    assert_eq!(answer_of(&[delta(r#"{"content":"a"}"#)]).finish_reason, FinishReason::Stop);
    let call = r#"{"tool_calls":[{"function":{"name":"f"}}]}"#;
    assert_eq!(answer_of(&[delta(call)]).finish_reason, FinishReason::ToolCalls);
}

#[test]
fn an_end_mark_alone_is_no_answer() {
    assert!(matches!(outcome_of(&[]), Err(Problem::Damaged { .. })));
}

#[test]
fn counts_that_cannot_be_read_do_not_spoil_an_answer() {
    let usage = |usage: &str| {
        let chunks = [end("stop"), format!(r#"{{"choices":[],"usage":{usage}}}"#)];
        answer_of(&chunks).usage
    };
    assert_eq!(usage(r#""none""#), Usage::default());
    assert_eq!(usage(r#"{"prompt_tokens":[]}"#), Usage::default());
    let expected =
        Usage { prompt_tokens: 41, cached_tokens: 16, completion_tokens: 0, ..Usage::default() };
    let cached = r#""prompt_tokens_details":{"cached_tokens":16}"#;
    assert_eq!(usage(&format!(r#"{{"prompt_tokens":41.0,{cached}}}"#)), expected);
    let cached = r#""prompt_cache_hit_tokens":16,"completion_tokens":-3"#;
    assert_eq!(usage(&format!(r#"{{"prompt_tokens":41,{cached}}}"#)), expected);
}

#[test]
fn errors_inside_a_stream_are_found_in_every_form() {
    for (error, words) in [
        (r#"{"error":{"message":"boom","code":500}}"#, "boom"),
        (r#"{"error":"boom"}"#, "boom"),
        (r#"{"object":"error","message":"boom","code":400}"#, "boom"),
        (r#"{"message":"boom"}"#, "boom"),
        (r#"{"detail":"boom"}"#, "boom"),
        (r#"{"error":{}}"#, "an error without words"),
        (r#"{"choices":[],"error":{"message":"boom"}}"#, "boom"),
    ] {
        let outcome = outcome_of(&[delta(r#"{"content":"a"}"#), error.into(), end("stop")]);
        assert!(outcome.as_ref().unwrap_err().to_string().contains(words), "{error}: {outcome:?}");
    }
    let named = b"data: {\"choices\":[]}\n\nevent: error\ndata: out of luck\n\ndata: [DONE]\n\n";
    let outcome = read_in_all_chunkings(named, &[]).answer;
    assert!(outcome.unwrap_err().to_string().contains("out of luck"));
}

#[test]
fn noise_is_skipped_and_damage_is_not() {
    let noise = [r#"{"type":"ping"}"#.into(), r#"{"choices":null}"#.into(), end("stop")];
    assert!(outcome_of(&noise).is_ok());
    for damage in ["{", "nonsense", r#"{"choices":7}"#, r#"{"choices":[],"choices":[]}"#, "[]"] {
        let outcome = outcome_of(&[damage.into(), end("stop")]);
        assert!(matches!(outcome, Err(Problem::Damaged { .. })), "{damage}: {outcome:?}");
    }
}

#[test]
fn a_whole_answer_without_a_finish_reason_is_whole() {
    let json = r#"{"choices":[{"message":{"content":"a","tool_calls":[
        {"function":{"name":"f","arguments":"{}"}},{"function":{"name":"f","arguments":"{}"}}]}}]}"#;
    let answer = Assembler::whole(json, &mut |_| {}).unwrap();
    assert_eq!((answer.tool_calls.len(), answer.finish_reason), (2, FinishReason::ToolCalls));
}

#[test]
fn a_whole_answer_that_is_an_error_is_one() {
    let problem = Assembler::whole(r#"{"error":{"message":"boom"}}"#, &mut |_| {}).unwrap_err();
    assert!(matches!(problem, Problem::ServerSaid { .. }));
    let problem = Assembler::whole(r#"{"choices":[]}"#, &mut |_| {}).unwrap_err();
    assert!(matches!(problem, Problem::Damaged { .. }));
}

/// A proxy whose server broke off ends the stream well formed: what is there of a call may be cut.
#[test]
fn a_call_that_ends_without_a_finish_reason_must_be_whole() {
    let call = |arguments: &str| {
        let arguments = serde_json::to_string(arguments).unwrap();
        delta(&format!(
            r#"{{"tool_calls":[{{"index":0,"id":"a","function":{{"name":"f","arguments":{arguments}}}}}]}}"#
        ))
    };
    assert_eq!(outcome_of(&[call(r#"{"n":1"#)]), Err(Problem::CutCall));
    let whole = outcome_of(&[call(r#"{"n":1}"#)]).unwrap();
    assert_eq!(whole.tool_calls[0].arguments, r#"{"n":1}"#);
    // The server says that this is its end: whether it can be mended is not the stream's to know.
    let ended = outcome_of(&[call(r#"{"n":1"#), end("tool_calls")]).unwrap();
    assert_eq!(ended.tool_calls[0].arguments, r#"{"n":1"#);
}

/// A piece of the arguments of the one call.
fn argument_piece(arguments: &str) -> String {
    delta(&format!(
        r#"{{"tool_calls":[{{"index":0,"id":"a","function":{{"name":"f","arguments":"{arguments}"}}}}]}}"#
    ))
}

/// What stands for half a character in a text that is only read must not run.
#[test]
fn half_a_surrogate_pair_in_arguments_is_no_answer() {
    for pieces in [
        &[r#"{\"n\":\"\ud83dX\"}"#][..],
        &[r#"{\"n\":\"\ud83d"#, r#"X\"}"#],
        &[r#"{\"n\":\"\ud83d"#, r#"\ud83d\"}"#],
        &[r#"{\"n\":\""#, r#"\ude42\"}"#],
        &[r"{}\ud83d"],
    ] {
        let mut chunks: Vec<_> = pieces.iter().map(|it| argument_piece(it)).collect();
        chunks.push(end("tool_calls"));
        let outcome = outcome_of(&chunks);
        assert!(matches!(outcome, Err(Problem::Damaged { .. })), "{pieces:?}: {outcome:?}");
    }
}

/// Servers with UTF-16 inside cut a text where they like.
#[test]
fn a_surrogate_pair_that_is_cut_in_two_pieces_is_one_character() {
    for pieces in [
        &[r#"{\"n\":\"\ud83d\ude42\"}"#][..],
        &[r#"{\"n\":\"\ud83d"#, r#"\ude42\"}"#],
        &[r#"{\"n\":\"\ud83d"#, "", r#"\ude42\"}"#],
    ] {
        let mut chunks: Vec<_> = pieces.iter().map(|it| argument_piece(it)).collect();
        chunks.push(end("tool_calls"));
        let answer = answer_of(&chunks);
        assert_eq!(answer.tool_calls[0].arguments, r#"{"n":"🙂"}"#, "{pieces:?}");
    }
    let said = [
        delta(r#"{"reasoning":"\ud83d"}"#),
        delta(r#"{"content":"a \ud83d","reasoning":"\ude42"}"#),
        delta(r#"{"content":"\ude42 b \ud83d"}"#),
        end("stop"),
    ];
    let answer = answer_of(&said);
    assert_eq!((answer.content.as_str(), answer.reasoning.as_str()), ("a 🙂 b \u{fffd}", "🙂"));
}

#[test]
fn an_id_that_is_a_number_is_its_digits() {
    check_calls(
        &[
            r#"[{"index":0,"id":7,"function":{"name":"f","arguments":"{"}}]"#,
            r#"[{"index":0,"id":7,"function":{"arguments":"}"}}]"#,
            r#"[{"index":1,"id":-1,"function":{"name":"g","arguments":"{}"}}]"#,
        ],
        &[("7", "f", "{}"), ("-1", "g", "{}")],
    );
}

#[test]
fn an_index_that_is_a_text_is_an_index() {
    check_calls(
        &[
            r#"[{"index":"0","id":"a","function":{"name":"f","arguments":"{"}}]"#,
            r#"[{"index":"1","id":"b","function":{"name":"g","arguments":"{}"}}]"#,
            r#"[{"index":0.0,"function":{"arguments":"}"}}]"#,
        ],
        &[("a", "f", "{}"), ("b", "g", "{}")],
    );
}

/// Gateways that make the ids themselves may make one for each piece.
#[test]
fn pieces_with_another_id_each_are_one_call_until_it_is_whole() {
    for index in ["", r#""index":0,"#] {
        let piece = |id: &str, function: &str| {
            format!("[{{{index}\"id\":\"{id}\",\"function\":{function}}}]")
        };
        let pieces = [
            piece("a", r#"{"name":"f","arguments":""}"#),
            piece("b", r#"{"arguments":"{\"x\":"}"#),
            piece("c", r#"{"arguments":"{}"}"#),
            piece("d", r#"{"arguments":"}"}"#),
            piece("e", r#"{"name":"g","arguments":"{}"}"#),
        ];
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        check_calls(&pieces, &[("a", "f", r#"{"x":{}}"#), ("e", "g", "{}")]);
    }
}
