//! What is tried, and how an answer is judged. Pure: JSON out, JSON in.
//!
//! A server that does not know a member of a request mostly ignores it without a word, so each try
//! asks for something that the model would not say by itself.

use serde_json::{Value, json};

use super::Support;

/// A word that no model says unasked.
pub(super) const WORD: &str = "zebra-41";

/// Tokens of an answer, at most.
const TOKENS_MAX: u32 = 48;

/// One try on `/chat/completions`.
pub(super) struct Try {
    /// What is found out, as it is shown.
    pub(super) name: &'static str,
    /// Added to the usual request.
    pub(super) members: Value,
    /// Judges a success. A refusal is always a no.
    pub(super) judge: fn(&Value) -> bool,
    /// What a yes and a no mean for agents.
    pub(super) yes: &'static str,
    pub(super) no: &'static str,
}

/// The request of a try.
pub(super) fn body(model: &str, members: &Value) -> Value {
    let mut body = json!({
        "model": model,
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": TOKENS_MAX,
        "temperature": 0,
    });
    if let (Some(body), Some(members)) = (body.as_object_mut(), members.as_object()) {
        body.extend(members.clone());
    }
    body
}

/// Everything that is tried, in the order in which it is shown.
pub(super) fn tries() -> Vec<Try> {
    let mut tries = tools();
    tries.extend(constraints());
    tries.push(Try {
        name: "token ids",
        members: json!({"return_token_ids": true}),
        judge: |answer| answer.pointer("/prompt_token_ids/0").is_some(),
        yes: "prompt and answer come as token ids when asked for",
        no: "whether a prefix was kept is told by cached tokens alone",
    });
    tries
}

/// A tool for one word.
pub(super) fn tool(strict: bool) -> Value {
    json!([{"type": "function", "function": {
        "name": "lookup", "description": "Looks a word up.", "strict": strict,
        "parameters": {
            "type": "object", "properties": {"word": {"type": "string", "enum": [WORD]}},
            "required": ["word"], "additionalProperties": false,
        },
    }}])
}

fn tools() -> Vec<Try> {
    let named = json!({"type": "function", "function": {"name": "lookup"}});
    vec![
        Try {
            name: "tools",
            members: json!({"tools": tool(false), "tool_choice": "auto"}),
            judge: |_| true,
            yes: "tools and tool_choice auto are taken",
            no: "agents with tools cannot work with it: vLLM needs --enable-auto-tool-choice and \
                 --tool-call-parser",
        },
        Try {
            name: "tool_choice required",
            members: json!({"tools": tool(false), "tool_choice": "required"}),
            judge: |answer| call_arguments(answer).is_some(),
            yes: "the model must call a tool",
            no: "the model may answer without a call",
        },
        Try {
            name: "tool_choice named",
            members: json!({"tools": tool(false), "tool_choice": named}),
            judge: |answer| call_arguments(answer).is_some(),
            yes: "the model must call that tool",
            no: "the model may answer without that call",
        },
        Try {
            name: "strict tools",
            members: json!({"tools": tool(true), "tool_choice": "required"}),
            judge: |answer| {
                let arguments = call_arguments(answer).and_then(|it| serde_json::from_str(it).ok());
                arguments.is_some_and(|it: Value| it == json!({"word": WORD}))
            },
            yes: "arguments fit their schema",
            no: "arguments may break their schema; Stepwell checks them",
        },
    ]
}

fn constraints() -> Vec<Try> {
    let schema = json!({
        "type": "object", "properties": {"word": {"type": "string", "enum": [WORD]}},
        "required": ["word"], "additionalProperties": false,
    });
    let response_format = json!({"type": "json_schema", "json_schema": {"name": "w", "strict": true, "schema": schema}});
    let word: fn(&Value) -> bool = |answer| content(answer) == Some(WORD);
    let object: fn(&Value) -> bool = |answer| {
        let value = content(answer).and_then(|it| serde_json::from_str::<Value>(it).ok());
        value == Some(json!({"word": WORD}))
    };
    let structured = |name, members, judge| Try {
        name,
        members,
        judge,
        yes: "honoured",
        no: "not honoured: the final answer is only checked",
    };
    let bare_grammar = format!("root ::= \"{WORD}\"");
    vec![
        structured(
            "response_format json_schema",
            json!({"response_format": response_format}),
            object,
        ),
        structured(
            "structured_outputs json",
            json!({"structured_outputs": {"json": schema}}),
            object,
        ),
        structured(
            "structured_outputs regex",
            json!({"structured_outputs": {"regex": "zebra-41"}}),
            word,
        ),
        structured(
            "structured_outputs choice",
            json!({"structured_outputs": {"choice": [WORD]}}),
            word,
        ),
        structured(
            "structured_outputs grammar",
            json!({"structured_outputs": {"grammar": bare_grammar}}),
            word,
        ),
        structured("guided_choice", json!({"guided_choice": [WORD]}), word),
    ]
}

fn content(answer: &Value) -> Option<&str> {
    answer.pointer("/choices/0/message/content")?.as_str().map(str::trim)
}

fn call_arguments(answer: &Value) -> Option<&str> {
    answer.pointer("/choices/0/message/tool_calls/0/function/arguments")?.as_str()
}

/// The cached tokens of two answers to the same long prompt.
pub(super) fn cache(first: &Value, second: &Value) -> (Support, String) {
    let cached = |answer: &Value| {
        answer.pointer("/usage/prompt_tokens_details/cached_tokens").and_then(Value::as_u64)
    };
    let prompt = second.pointer("/usage/prompt_tokens").and_then(Value::as_u64).unwrap_or(0);
    match (cached(first), cached(second)) {
        (_, Some(cached @ 1..)) => {
            (Support::Yes, format!("{cached} of {prompt} tokens of a repeated prompt were cached"))
        }
        (_, Some(0)) => {
            let why = "a repeated prompt was read again: is prefix caching on?";
            (Support::No, why.to_owned())
        }
        (_, None) => {
            let why = "cached tokens are not reported: vLLM needs --enable-prompt-tokens-details";
            (Support::No, why.to_owned())
        }
    }
}

/// A prompt of some hundred tokens that no other session has.
pub(super) fn long_prompt(nonce: u128) -> String {
    let words = (1..=200).map(|number| format!("item {number}"));
    format!("{nonce:032x}: {}. Say hello.", words.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The JSON of a recorded answer.
    fn recorded(name: &str) -> Value {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vllm");
        let text = std::fs::read_to_string(format!("{folder}/{name}.response.txt")).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").or_else(|| text.split_once("\n\n")).unwrap();
        serde_json::from_str(body).unwrap()
    }

    fn judge(name: &str) -> fn(&Value) -> bool {
        tries().into_iter().find(|it| it.name == name).unwrap().judge
    }

    #[test]
    fn recorded_answers_are_judged_by_what_they_hold() {
        for (name, transcript, is_honoured) in [
            ("tool_choice required", "30-tools-required", true),
            ("tool_choice required", "30-tools-auto-text-answer", false),
            ("tool_choice named", "30-tools-named", true),
            ("token ids", "10-chat-return-token-ids", true),
            ("token ids", "10-chat-basic", false),
            // Constrained, but not to what a try asks for.
            ("structured_outputs choice", "41-so-structured-outputs-choice", false),
            ("guided_choice", "42-so-removed-guided-choice-is-ignored", false),
        ] {
            assert_eq!(judge(name)(&recorded(transcript)), is_honoured, "{name} {transcript}");
        }
    }

    #[test]
    fn what_a_try_asks_for_is_told_from_what_a_model_says() {
        let said = |text: &str| json!({"choices": [{"message": {"content": text}}]});
        let choice = judge("structured_outputs choice");
        assert!(choice(&said(" zebra-41\n")) && !choice(&said("Hello! zebra-41")));
        let schema = judge("response_format json_schema");
        assert!(schema(&said(r#"{"word": "zebra-41"}"#)) && !schema(&said("```json\n{}\n```")));
        let called = |arguments: &str| {
            let function = json!({"name": "lookup", "arguments": arguments});
            json!({"choices": [{"message": {"tool_calls": [{"function": function}]}}]})
        };
        let strict = judge("strict tools");
        assert!(strict(&called(r#"{"word":"zebra-41"}"#)));
        assert!(!strict(&called(r#"{"word":"hello"}"#)) && !strict(&called(r#"{"word"#)));
    }

    #[test]
    fn the_cache_is_judged_by_the_second_answer() {
        let usage = |cached: Option<u64>| json!({"usage": {"prompt_tokens": 600, "prompt_tokens_details": {"cached_tokens": cached}}});
        let (support, words) = cache(&usage(Some(0)), &usage(Some(512)));
        assert_eq!(
            (support, words.as_str()),
            (Support::Yes, "512 of 600 tokens of a repeated prompt were cached")
        );
        assert_eq!(cache(&usage(Some(0)), &usage(Some(0))).0, Support::No);
        assert!(cache(&usage(None), &usage(None)).1.contains("--enable-prompt-tokens-details"));
        assert_ne!(long_prompt(1), long_prompt(2));
    }

    #[test]
    fn a_try_keeps_the_usual_request_and_adds_its_own() {
        let body = body("m", &json!({"guided_choice": ["a"]}));
        assert_eq!(body["model"], "m");
        assert_eq!(body["guided_choice"][0], "a");
        assert_eq!(body["max_tokens"], TOKENS_MAX);
    }
}
