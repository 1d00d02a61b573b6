//! What the script needs to know of a request, read in one pass without building its messages.

use std::borrow::Cow;
use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A request for a chat completion.
#[derive(Debug)]
pub(super) struct ChatRequest<'a> {
    /// Whether the answer is streamed.
    pub(super) stream: bool,
    /// Whether a stream ends with the usage.
    pub(super) include_usage: bool,
    /// The model's name, given back as it is.
    pub(super) model: Option<String>,
    /// Messages of the model so far, and one.
    pub(super) step: u32,
    /// Text of the first message of the user.
    pub(super) task: Cow<'a, str>,
    /// Bytes of the whole request.
    pub(super) bytes: usize,
    /// Bytes of it that the request of the step before had as well.
    pub(super) bytes_before: usize,
    last: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(borrow)]
    messages: Messages<'a>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Default)]
struct Messages<'a> {
    of_model: u32,
    first_of_user: Option<&'a RawValue>,
    last: Option<&'a RawValue>,
    /// Content of the message before the last message of the model: there the request of the step
    /// before ended.
    before_model: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Messages<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(MessagesVisitor)
    }
}

struct MessagesVisitor;

impl<'de> Visitor<'de> for MessagesVisitor {
    type Value = Messages<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Messages<'de>, A::Error> {
        let mut messages = Messages::default();
        while let Some(Message { role, content }) = list.next_element::<Message<'de>>()? {
            match role.as_ref() {
                "assistant" => {
                    messages.of_model = messages.of_model.saturating_add(1);
                    messages.before_model = messages.last;
                }
                "user" if messages.first_of_user.is_none() => messages.first_of_user = content,
                _ => {}
            }
            messages.last = content;
        }
        Ok(messages)
    }
}

impl<'a> ChatRequest<'a> {
    /// Reads a request body. Cost: one pass over it.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(body).map_err(|_| "the request is not UTF-8".to_owned())?;
        let Body { model, stream, stream_options, messages } =
            serde_json::from_str(text).map_err(|error| format!("the request is wrong: {error}"))?;
        let task = messages.first_of_user.map(text_of).unwrap_or_default();
        let bytes_before = messages.before_model.map_or(0, |raw| {
            let end = raw.get().as_ptr().addr() + raw.get().len();
            end.saturating_sub(text.as_ptr().addr())
        });
        Ok(Self {
            stream: stream.unwrap_or(false),
            include_usage: stream_options.and_then(|it| it.include_usage).unwrap_or(false),
            model,
            step: messages.of_model.saturating_add(1),
            task,
            bytes: body.len(),
            bytes_before,
            last: messages.last,
        })
    }

    /// Text of the last message.
    pub(super) fn last(&self) -> Cow<'a, str> {
        self.last.map(text_of).unwrap_or_default()
    }

    /// A number for the session: the same for all its requests, another for another task.
    pub(super) fn session(&self) -> u64 {
        let hash = blake3::hash(self.task.as_bytes());
        hash.as_bytes().first_chunk().copied().map(u64::from_be_bytes).unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct PartText<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
}

/// The text of a message's content: a string, or a list of parts.
fn text_of(raw: &RawValue) -> Cow<'_, str> {
    let json = raw.get();
    let plain = json.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    if let Some(text) = plain.filter(|text| !text.contains('\\')) {
        return Cow::Borrowed(text);
    }
    if let Ok(text) = serde_json::from_str::<String>(json) {
        return Cow::Owned(text);
    }
    let parts: Vec<PartText<'_>> = serde_json::from_str(json).unwrap_or_default();
    Cow::Owned(parts.into_iter().filter_map(|part| part.text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = concat!(
        r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"#,
        r#""tools":[{"x":[1,2e400]}],"messages":[{"role":"system","content":"s"},"#,
        r#"{"role":"user","content":"say \"hi\""},"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]},"#,
        r#"{"role":"tool","tool_call_id":"a","content":"seen"},"#,
        r#"{"role":"assistant","content":"more"},{"role":"user","content":"last"}]}"#
    );

    #[test]
    fn a_request_is_read_in_one_pass() {
        let request = ChatRequest::read(BODY.as_bytes()).unwrap();
        assert!(request.stream && request.include_usage);
        assert_eq!((request.model.as_deref(), request.step), (Some("m"), 3));
        assert_eq!((request.task.as_ref(), request.last().as_ref()), ("say \"hi\"", "last"));
        assert_eq!(request.bytes, BODY.len());
        assert!(BODY[..request.bytes_before].ends_with(r#""content":"seen""#));
    }

    #[test]
    fn the_first_request_shares_nothing() {
        let body = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}"#;
        let request = ChatRequest::read(body.as_bytes()).unwrap();
        assert!(!request.stream && !request.include_usage);
        assert_eq!((request.step, request.bytes_before, request.task.as_ref()), (1, 0, "a"));
    }

    #[test]
    fn sessions_are_told_apart_by_their_task() {
        let session = |task: &str| {
            let body = format!(r#"{{"messages":[{{"role":"user","content":"{task}"}}]}}"#);
            ChatRequest::read(body.as_bytes()).unwrap().session()
        };
        assert_eq!(session("a"), session("a"));
        assert_ne!(session("a"), session("b"));
    }

    #[test]
    fn a_bad_request_says_why() {
        for (body, words) in [
            (&b"\xff"[..], "not UTF-8"),
            (b"{", "EOF"),
            (br#"{"messages":7}"#, "a list of messages"),
            (b"{}", "messages"),
            (br#"{"messages":[{"content":"a"}]}"#, "role"),
        ] {
            let reason = ChatRequest::read(body).unwrap_err();
            assert!(reason.contains(words), "{reason}");
        }
    }
}
