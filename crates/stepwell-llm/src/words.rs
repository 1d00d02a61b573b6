//! What servers mean by their words: errors whose number says too little.
//!
//! Lower-case pieces of messages and kinds of vLLM, OpenAI, llama.cpp, `SGLang`, Ollama, Mistral,
//! Anthropic, Gemini and `LiteLLM`.

use stepwell_core::event::ContextSize;

/// The prompt does not fit.
const CONTEXT: &[&str] = &[
    "maximum context length",
    "context_length_exceeded",
    "exceed_context_size",
    "available context size",
    "model's context length",
    "exceeds context length",
    "longer than the maximum model length",
    "context window",
    "contextwindowexceeded",
    "prompt is too long",
    "input token count",
];

/// The account is empty, which waiting a minute does not mend.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "exceeded your current quota",
    "quota_exceeded",
    "budget_exceeded",
    "budget has been exceeded",
    "credit balance is too low",
    "insufficient credits",
    "insufficient balance",
    "billing_hard_limit",
    "billing_not_active",
];

/// A filter refuses the prompt.
const FILTER: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    "contentpolicyviolation",
    "responsibleaipolicyviolation",
    "content management policy",
    "blocked by safety",
];

/// Too many requests.
const RATE: &[&str] = &["rate_limit", "ratelimit", "rate limit", "too many requests"];

/// Too much to do.
const OVERLOAD: &[&str] = &["overloaded", "currently busy", "server_busy", "no available server"];

/// What an error says beyond its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Context,
    Quota,
    Filter,
    Rate,
    Overload,
}

/// The meaning of an error's words, when they have one that is known.
pub(crate) fn meaning(words: &str) -> Option<Meaning> {
    let lower = words.to_ascii_lowercase();
    let says = |pieces: &[&str]| pieces.iter().any(|piece| lower.contains(piece));
    [
        (CONTEXT, Meaning::Context),
        (QUOTA, Meaning::Quota),
        (FILTER, Meaning::Filter),
        (RATE, Meaning::Rate),
        (OVERLOAD, Meaning::Overload),
    ]
    .into_iter()
    .find_map(|(pieces, meaning)| says(pieces).then_some(meaning))
}

/// What stands before the number of tokens that the model takes.
const LIMIT_BEFORE: &[&str] = &[
    "context length is ",
    "context length (",
    "context size (",
    "model length of ",
    "tokens > ",
    "maximum number of tokens allowed (",
    "\"n_ctx\":",
];

/// What stands before the number of tokens that the prompt has.
const PROMPT_BEFORE: &[&str] = &[
    "prompt contains at least ",
    "prompt contains ",
    "messages resulted in ",
    "you requested ",
    "the input (",
    "input token count (",
    "prompt is too long: ",
    "prompt (length ",
    "request (",
    "\"n_prompt_tokens\":",
];

/// The numbers in the words of an error about a prompt that does not fit.
pub(crate) fn context_size(words: &str) -> ContextSize {
    let lower = words.to_ascii_lowercase();
    let find = |pieces: &[&str]| pieces.iter().find_map(|piece| number_after(&lower, piece));
    ContextSize { limit: find(LIMIT_BEFORE), prompt: find(PROMPT_BEFORE) }
}

/// The whole number right behind `piece`; commas between its digits are skipped.
fn number_after(text: &str, piece: &str) -> Option<u64> {
    let (_, after) = text.split_once(piece)?;
    let digits: String = after
        .trim_start()
        .chars()
        .take_while(|it| it.is_ascii_digit() || *it == ',')
        .filter(|it| *it != ',')
        .collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_does_not_fit_says_its_numbers() {
        for (words, limit, prompt) in [
            (
                "This model's maximum context length is 16384 tokens. However, your prompt \
                 contains at least 16385 input tokens, which exceeds this limit",
                Some(16_384),
                Some(16_385),
            ),
            (
                "This model's maximum context length is 8192 tokens. However, your messages \
                 resulted in 9001 tokens.",
                Some(8_192),
                Some(9_001),
            ),
            (
                "request (5000 tokens) exceeds the available context size (4096 tokens)",
                Some(4_096),
                Some(5_000),
            ),
            (
                r#"{"error":{"code":400,"message":"the request exceeds the available context size","n_prompt_tokens":5000,"n_ctx":4096}}"#,
                Some(4_096),
                Some(5_000),
            ),
            (
                "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
                Some(8_192),
                Some(9_000),
            ),
            ("prompt is too long: 210,000 tokens > 200,000 maximum", Some(200_000), Some(210_000)),
            (
                "The decoder prompt (length 20000) is longer than the maximum model length of 16384.",
                Some(16_384),
                Some(20_000),
            ),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
                Some(1_200_000),
            ),
            ("context_length_exceeded", None, None),
        ] {
            assert_eq!(meaning(words), Some(Meaning::Context), "{words}");
            assert_eq!(context_size(words), ContextSize { limit, prompt }, "{words}");
        }
        let max_tokens = "max_tokens=20000 cannot be greater than max_model_len=16384.";
        assert_eq!(meaning(max_tokens), None);
    }

    #[test]
    fn words_have_a_meaning() {
        for (words, expected) in [
            ("insufficient_quota You exceeded your current quota", Meaning::Quota),
            ("Your credit balance is too low to access the API", Meaning::Quota),
            ("ExceededBudget: Budget has been exceeded! Current cost: 1", Meaning::Quota),
            ("The response was filtered due to the content management policy", Meaning::Filter),
            ("rate_limit_exceeded Rate limit reached for gpt", Meaning::Rate),
            ("The engine is currently busy and cannot accept new requests.", Meaning::Overload),
        ] {
            assert_eq!(meaning(words), Some(expected), "{words}");
        }
        assert_eq!(meaning("model not found"), None);
    }
}
