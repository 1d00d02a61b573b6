//! What servers send, as JSON shapes. Only what is used is read; everything else is skipped.
//!
//! Texts are read leniently where dialects differ (text or a list of parts) and where a character
//! cannot be kept (half of a surrogate pair, which no UTF-8 can hold, becomes U+FFFD unless the next
//! piece has the other half: [`crate::halves`]), so that what is stored can always be sent again.

use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::halves::lossy;

/// A chunk of a stream, or a whole answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(crate) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    pub(crate) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
    /// `"error"` where a server sends the error itself in place of a chunk.
    #[serde(borrow, default)]
    pub(crate) object: Option<&'a RawValue>,
    /// The prompt as tokens, in a whole answer or in the first chunk.
    #[serde(borrow, default)]
    pub(crate) prompt_token_ids: Option<&'a RawValue>,
}

/// One of several answers to one request.
#[derive(Debug, Deserialize)]
pub(crate) struct Choice<'a> {
    #[serde(default)]
    pub(crate) index: Option<WireIndex>,
    /// In a chunk.
    #[serde(borrow, default)]
    pub(crate) delta: Option<Message<'a>>,
    /// In a whole answer.
    #[serde(borrow, default)]
    pub(crate) message: Option<Message<'a>>,
    #[serde(default)]
    pub(crate) finish_reason: Option<WireText>,
    /// The tokens of this chunk, or of the whole reply.
    #[serde(borrow, default)]
    pub(crate) token_ids: Option<&'a RawValue>,
    /// A text that the server was told to stop at, or the number of a token.
    #[serde(borrow, default)]
    pub(crate) stop_reason: Option<&'a RawValue>,
}

/// A message or a piece of one.
#[derive(Debug, Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(default)]
    pub(crate) content: Option<RawText>,
    #[serde(default)]
    pub(crate) refusal: Option<RawText>,
    #[serde(default)]
    pub(crate) reasoning: Option<RawText>,
    /// The older name of `reasoning`.
    #[serde(default)]
    pub(crate) reasoning_content: Option<RawText>,
    #[serde(borrow, default)]
    pub(crate) tool_calls: Option<Vec<CallPiece<'a>>>,
    /// The older form of one call.
    #[serde(borrow, default)]
    pub(crate) function_call: Option<FunctionPiece<'a>>,
}

/// A call or a piece of one.
#[derive(Debug, Deserialize)]
pub(crate) struct CallPiece<'a> {
    #[serde(default)]
    pub(crate) index: Option<WireIndex>,
    #[serde(default)]
    pub(crate) id: Option<WireId>,
    #[serde(borrow, default)]
    pub(crate) function: Option<FunctionPiece<'a>>,
}

/// The inner part of a call.
#[derive(Debug, Deserialize)]
pub(crate) struct FunctionPiece<'a> {
    #[serde(default)]
    pub(crate) name: Option<WireText>,
    /// A string, by the protocol; an object, from some servers.
    #[serde(borrow, default)]
    pub(crate) arguments: Option<&'a RawValue>,
}

impl FunctionPiece<'_> {
    /// The argument text: a string as it is, with its halves; anything else as its JSON text.
    pub(crate) fn argument_text(&self) -> serde_json::Result<Vec<u8>> {
        match self.arguments.map(RawValue::get) {
            None => Ok(Vec::new()),
            Some(text) if text.starts_with('"') => Ok(serde_json::from_str::<RawText>(text)?.0),
            Some(text) => Ok(text.as_bytes().to_vec()),
        }
    }
}

/// A place in a list. Some servers write it as a text, some as `0.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WireIndex(pub(crate) i64);

impl<'de> Deserialize<'de> for WireIndex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = <&RawValue>::deserialize(deserializer)?.get();
        whole_number(written.trim_matches('"'))
            .map(Self)
            .ok_or_else(|| de::Error::custom(format!("an index is no whole number: {written}")))
    }
}

/// What a server calls a call: a text, or a number, of which the digits are taken.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct WireId(pub(crate) String);

impl<'de> Deserialize<'de> for WireId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = <&RawValue>::deserialize(deserializer)?.get();
        if written.parse::<i64>().is_ok() {
            return Ok(Self(written.to_owned()));
        }
        let text = serde_json::from_str::<WireText>(written);
        text.map(|WireText(text)| Self(text)).map_err(de::Error::custom)
    }
}

fn whole_number(text: &str) -> Option<i64> {
    let number = || text.parse::<f64>().ok();
    let is_whole = |it: &f64| it.fract() == 0.0 && it.abs() <= f64::from(i32::MAX);
    text.parse().ok().or_else(|| number().filter(is_whole).map(|it| it as i64))
}

/// Tokens as the server counted them. Floating point, because some servers send `41.0`.
#[derive(Debug, Deserialize)]
pub(crate) struct WireUsage {
    #[serde(default)]
    prompt_tokens: Option<f64>,
    #[serde(default)]
    completion_tokens: Option<f64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
    /// `DeepSeek`'s name for the cached tokens.
    #[serde(default)]
    prompt_cache_hit_tokens: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the servers")]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<f64>,
    /// What was put into the cache, as vLLM names it.
    #[serde(default)]
    created_cache_tokens: Option<f64>,
    /// The same, as `OpenRouter` names it.
    #[serde(default)]
    cache_write_tokens: Option<f64>,
    /// The same, as `LiteLLM` names it.
    #[serde(default)]
    cache_creation_tokens: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Option<f64>,
}

/// Tokens that a server may claim for one call. No model takes so many; a larger number is a slip.
const TOKENS_MAX: f64 = 1e9;

impl WireUsage {
    pub(crate) fn to_usage(&self) -> stepwell_core::event::Usage {
        let details = self.prompt_tokens_details.as_ref();
        let cached = details.and_then(|it| it.cached_tokens).or(self.prompt_cache_hit_tokens);
        let count =
            |tokens: Option<f64>| tokens.filter(|it| *it <= TOKENS_MAX).unwrap_or_default() as u64;
        let prompt_tokens = count(self.prompt_tokens);
        stepwell_core::event::Usage {
            prompt_tokens,
            cached_tokens: count(cached).min(prompt_tokens),
            completion_tokens: count(self.completion_tokens),
            created_tokens: count(details.and_then(|it| {
                it.created_cache_tokens.or(it.cache_write_tokens).or(it.cache_creation_tokens)
            })),
            reasoning_tokens: count(
                self.completion_tokens_details.as_ref().and_then(|it| it.reasoning_tokens),
            ),
        }
    }
}

/// An error as servers describe it, in any of the forms seen.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct WireError {
    /// What went wrong, in the server's words.
    pub(crate) message: String,
    /// Its kind, in the server's words: `type`, and `code` when that is a word.
    pub(crate) kind: String,
    /// The number in `code`: an HTTP status.
    pub(crate) code: Option<u16>,
}

#[derive(Deserialize)]
struct ErrorMembers<'a> {
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    detail: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    code: Option<&'a RawValue>,
}

impl WireError {
    /// Reads the JSON of an error: `{"error": …}` around it or not, an object or only words.
    /// `None` when it is nothing of the kind.
    pub(crate) fn read(json: &str) -> Option<Self> {
        let json = json.trim();
        if json.starts_with('"') {
            return Some(Self { message: words(json), ..Self::default() });
        }
        let members: ErrorMembers<'_> = serde_json::from_str(json).ok()?;
        if let Some(inner) = members.error {
            return Self::read(inner.get());
        }
        let message = members.message.or(members.detail)?;
        let code = members.code.map(|raw| words(raw.get())).unwrap_or_default();
        let number = code.parse().ok();
        let kind = members.kind.map(|raw| words(raw.get())).unwrap_or_default();
        let kind = if number.is_none() { format!("{kind} {code}") } else { kind };
        Some(Self { message: words(message.get()), kind: kind.trim().to_owned(), code: number })
    }
}

/// The text of a JSON string, the JSON itself of anything else, nothing for `null`.
fn words(json: &str) -> String {
    if json == "null" {
        return String::new();
    }
    serde_json::from_str(json).map_or_else(|_| json.to_owned(), |WireText(text)| text)
}

/// Text, or a list of parts with text. Half a surrogate is three bytes, as in [`crate::halves`].
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct RawText(pub(crate) Vec<u8>);

/// The same, in which half a surrogate is U+FFFD.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct WireText(pub(crate) String);

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: Option<RawText>,
}

impl<'de> Deserialize<'de> for WireText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RawText::deserialize(deserializer).map(|RawText(text)| Self(lossy(text)))
    }
}

impl<'de> Deserialize<'de> for RawText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Asking for bytes makes `serde_json` hand over half surrogates instead of failing.
        deserializer.deserialize_bytes(RawTextVisitor)
    }
}

struct RawTextVisitor;

impl<'de> Visitor<'de> for RawTextVisitor {
    type Value = RawText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<RawText, E> {
        Ok(RawText(bytes.to_vec()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<RawText, A::Error> {
        let mut text = Vec::new();
        while let Some(Part { text: part }) = parts.next_element()? {
            text.extend(part.unwrap_or_default().0);
        }
        Ok(RawText(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        serde_json::from_str::<WireText>(json).unwrap().0
    }

    #[test]
    fn text_is_kept_exactly() {
        assert_eq!(text(r#""a\u00e9\n \ud83e\udded 数""#), "aé\n 🧭 数");
    }

    #[test]
    fn half_a_surrogate_becomes_one_replacement_character() {
        assert_eq!(text(r#""a \ud83d b\ude00""#), "a \u{fffd} b\u{fffd}");
    }

    #[test]
    fn parts_are_joined() {
        assert_eq!(text(r#"[{"type":"text","text":"a"},{"type":"image"},{"text":"b"}]"#), "ab");
    }

    /// What a server claims and cannot be: more of the prompt cached than there is, more tokens than
    /// any model takes, less than none.
    #[test]
    fn absurd_counts_are_left_out() {
        for (json, prompt, cached, completion) in [
            (r#"{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":1000}}"#, 10, 10, 0),
            (r#"{"prompt_tokens":9223372036854775808,"completion_tokens":7}"#, 0, 0, 7),
            (r#"{"prompt_tokens":-5,"completion_tokens":1e300}"#, 0, 0, 0),
        ] {
            let usage = serde_json::from_str::<WireUsage>(json).unwrap().to_usage();
            let told = (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens);
            assert_eq!(told, (prompt, cached, completion), "{json}");
        }
    }

    #[test]
    fn an_index_is_a_whole_number_however_it_is_written() {
        for (json, index) in [("0", 0), ("\"0\"", 0), ("1.0", 1), ("\"-3\"", -3), ("-1", -1)] {
            assert_eq!(
                serde_json::from_str::<WireIndex>(json).unwrap(),
                WireIndex(index),
                "{json}"
            );
        }
        for json in ["0.5", "\"\"", "\"a\"", "1e300", "[0]", "9223372036854775808"] {
            assert!(serde_json::from_str::<WireIndex>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn null_is_nothing_and_numbers_are_refused() {
        assert_eq!(serde_json::from_str::<Option<WireText>>("null").unwrap(), None);
        assert!(serde_json::from_str::<Option<WireText>>("7").is_err());
    }

    #[track_caller]
    fn check_error(json: &str, message: &str, kind: &str, code: Option<u16>) {
        let expected = WireError { message: message.into(), kind: kind.into(), code };
        assert_eq!(WireError::read(json), Some(expected), "{json}");
    }

    #[test]
    fn errors_are_read_in_every_form() {
        check_error(r#"{"error":"Unauthorized"}"#, "Unauthorized", "", None);
        check_error(r#"{"detail":"Not Found"}"#, "Not Found", "", None);
        check_error(r#"{"detail":[{"loc":"x"}]}"#, "", "", None);
        check_error(
            r#"{"error":{"message":"no","type":"BadRequestError","param":null,"code":400}}"#,
            "no",
            "BadRequestError",
            Some(400),
        );
        check_error(
            r#"{"error":{"message":"no","type":null,"code":"context_length_exceeded"}}"#,
            "no",
            "context_length_exceeded",
            None,
        );
        check_error(r#"{"object":"error","message":"m","code":"503"}"#, "m", "", Some(503));
        check_error(r#"{"error":{"message":{"a":1}}}"#, r#"{"a":1}"#, "", None);
        assert_eq!(WireError::read("<html>"), None);
        assert_eq!(WireError::read(r#"{"choices":[]}"#), None);
    }
}
