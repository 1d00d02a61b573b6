//! What is said, as bytes: a stream of events or one JSON text, in the shapes of vLLM.

use serde::Serialize;
use serde_json::{Value, json};

use super::cache::PrefixCache;
use super::faults::FaultKind;
use super::request::ChatRequest;
use super::script::Step;
use super::template::Names;

/// A fixed time, so that the same request gets the same bytes.
const CREATED: u64 = 1_790_000_000;

/// Bytes of a token, roughly.
const TOKEN_BYTES: usize = 4;

/// Tokens of a block of the prefix cache, as vLLM has them on a GPU.
const BLOCK_TOKENS: u64 = 16;

/// What is no JSON.
const GARBAGE: &str = "{\"choices\": [not JSON";

/// An answer, its names filled in.
pub(super) struct Said {
    id: String,
    model: String,
    content: String,
    reasoning: String,
    calls: Vec<Call>,
    finish_reason: String,
    usage: Usage,
    include_usage: bool,
    chunk_bytes: usize,
}

struct Call {
    id: String,
    name: String,
    arguments: String,
}

#[derive(Clone, Copy)]
struct Usage {
    prompt: u64,
    cached: u64,
    completion: u64,
}

impl Said {
    /// What `step` says to `request`; `model` is the name for a request that names none.
    pub(super) fn new(
        step: &Step,
        names: &Names<'_>,
        request: &ChatRequest<'_>,
        (model, cached_blocks): (&str, Option<usize>),
    ) -> Self {
        let calls = step.tool_calls.iter().enumerate().map(|(at, call)| Call {
            id: match &call.id {
                Some(id) => id.text(names),
                None => format!("call_{}_{}_{at}", names.session, names.step),
            },
            name: call.name.clone(),
            arguments: call.arguments.json(names),
        });
        let calls: Vec<Call> = calls.collect();
        let content = step.content.text(names);
        let reasoning = step.reasoning.text(names);
        let default = if calls.is_empty() { "stop" } else { "tool_calls" };
        let finish_reason = step.finish_reason.clone().unwrap_or_else(|| default.into());
        let said_bytes = content.len()
            + reasoning.len()
            + calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>();
        let prompt = step.usage.prompt.unwrap_or_else(|| tokens(request.bytes));
        let cached = match cached_blocks {
            Some(blocks) => blocks as u64 * BLOCK_TOKENS,
            None => tokens(request.bytes_before) / BLOCK_TOKENS * BLOCK_TOKENS,
        };
        Self {
            id: format!("chatcmpl-{}-{}", names.session, names.step),
            model: request.model.clone().unwrap_or_else(|| model.to_owned()),
            usage: Usage {
                prompt,
                cached: step.usage.cached.unwrap_or_else(|| cached.min(prompt)),
                completion: step.usage.completion.unwrap_or_else(|| tokens(said_bytes)),
            },
            content,
            reasoning,
            calls,
            finish_reason,
            include_usage: request.include_usage,
            chunk_bytes: step.pace.chunk_bytes,
        }
    }

    fn usage(&self) -> Value {
        let Usage { prompt, cached, completion } = self.usage;
        json!({
            "prompt_tokens": prompt,
            "total_tokens": prompt.saturating_add(completion),
            "completion_tokens": completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        })
    }
}

/// A cache with room for this many tokens.
pub(super) fn cache_of(tokens: u64) -> PrefixCache {
    let blocks = usize::try_from(tokens / BLOCK_TOKENS).unwrap_or(usize::MAX);
    PrefixCache::new(BLOCK_TOKENS as usize * TOKEN_BYTES, blocks)
}

pub(super) fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(TOKEN_BYTES) as u64
}

/// The bytes of an answer.
pub(super) struct Reply {
    pub(super) bytes: Vec<u8>,
    /// Where each event ends; the last is the end of the bytes.
    pub(super) ends: Vec<usize>,
    pub(super) content_type: &'static str,
}

impl Reply {
    /// One JSON text.
    pub(super) fn whole(said: &Said, fault: Option<&FaultKind>) -> Self {
        let calls = said.calls.iter().map(|call| {
            json!({
                "id": call.id, "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            })
        });
        let calls: Vec<Value> = calls.collect();
        let content = (!said.content.is_empty() || calls.is_empty()).then_some(&said.content);
        let mut message = json!({"role": "assistant", "content": content});
        if let Some(members) = message.as_object_mut() {
            if !said.reasoning.is_empty() {
                members.insert("reasoning".into(), Value::from(said.reasoning.as_str()));
            }
            if !calls.is_empty() {
                members.insert("tool_calls".into(), Value::Array(calls));
            }
        }
        let body = match fault {
            Some(FaultKind::ErrorInStream { status, message }) => {
                error(*status, message).to_string()
            }
            Some(FaultKind::Garbage) => GARBAGE.to_owned(),
            Some(FaultKind::Status { .. } | FaultKind::Cut { .. } | FaultKind::Hang { .. })
            | None => {
                let choice =
                    json!({"index": 0, "message": message, "finish_reason": said.finish_reason});
                let answer = json!({
                    "id": said.id, "object": "chat.completion", "created": CREATED,
                    "model": said.model, "choices": [choice], "usage": said.usage(),
                });
                answer.to_string()
            }
        };
        let bytes = body.into_bytes();
        Self { ends: vec![bytes.len()], bytes, content_type: "application/json" }
    }

    /// A stream of events.
    pub(super) fn streamed(said: &Said, fault: Option<&FaultKind>) -> Self {
        let mut stream = Stream::new(said);
        stream.choice(r#"{"role":"assistant","content":""}"#, None);
        match fault {
            Some(FaultKind::ErrorInStream { status, message }) => {
                stream.half(said);
                stream.event(&error(*status, message).to_string());
            }
            Some(FaultKind::Garbage) => {
                stream.half(said);
                stream.event(GARBAGE);
            }
            Some(FaultKind::Status { .. } | FaultKind::Cut { .. } | FaultKind::Hang { .. })
            | None => stream.all(said),
        }
        stream.event("[DONE]");
        Self { bytes: stream.bytes, ends: stream.ends, content_type: "text/event-stream" }
    }
}

fn error(status: u16, message: &str) -> Value {
    json!({"error": {
        "message": message, "type": "InternalServerError", "param": null, "code": status,
    }})
}

/// The bytes of a stream, as they grow.
struct Stream {
    /// The constant begin of every event.
    envelope: String,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Stream {
    fn new(said: &Said) -> Self {
        let envelope = format!(
            r#"data: {{"id":{},"object":"chat.completion.chunk","created":{CREATED},"model":{},"#,
            quoted(&said.id),
            quoted(&said.model),
        );
        Self { envelope, bytes: Vec::new(), ends: Vec::new() }
    }

    fn close(&mut self) {
        self.bytes.extend_from_slice(b"\n\n");
        self.ends.push(self.bytes.len());
    }

    /// An event of this text and no envelope.
    fn event(&mut self, data: &str) {
        self.bytes.extend_from_slice(b"data: ");
        self.bytes.extend_from_slice(data.as_bytes());
        self.close();
    }

    /// The event of a delta, given as JSON in pieces.
    fn choice(&mut self, delta: &str, finish_reason: Option<&str>) {
        self.bytes.extend_from_slice(self.envelope.as_bytes());
        self.bytes.extend_from_slice(br#""choices":[{"index":0,"delta":"#);
        self.bytes.extend_from_slice(delta.as_bytes());
        self.bytes.extend_from_slice(br#","finish_reason":"#);
        write_json(&mut self.bytes, &finish_reason);
        self.bytes.extend_from_slice(b"}]}");
        self.close();
    }

    /// Half of the first text that there is.
    fn half(&mut self, said: &Said) {
        let texts = [("reasoning", &said.reasoning), ("content", &said.content)];
        if let Some((member, text)) = texts.into_iter().find(|(_, text)| !text.is_empty()) {
            let half = text.get(..boundary(text, text.len() / 2)).unwrap_or_default();
            self.text(member, half, said.chunk_bytes);
        }
    }

    /// Everything up to the end mark.
    fn all(&mut self, said: &Said) {
        self.text("reasoning", &said.reasoning, said.chunk_bytes);
        self.text("content", &said.content, said.chunk_bytes);
        for (at, call) in said.calls.iter().enumerate() {
            self.call(at, call, said.chunk_bytes);
        }
        self.choice("{}", Some(&said.finish_reason));
        if said.include_usage {
            self.usage(&said.usage());
        }
    }

    fn usage(&mut self, usage: &Value) {
        self.bytes.extend_from_slice(self.envelope.as_bytes());
        self.bytes.extend_from_slice(br#""choices":[],"usage":"#);
        write_json(&mut self.bytes, usage);
        self.bytes.push(b'}');
        self.close();
    }

    fn text(&mut self, member: &str, text: &str, chunk_bytes: usize) {
        for piece in pieces(text, chunk_bytes) {
            self.choice(&format!(r#"{{"{member}":{}}}"#, quoted(piece)), None);
        }
    }

    /// As vLLM does: id and name first, without arguments.
    fn call(&mut self, at: usize, call: &Call, chunk_bytes: usize) {
        let (id, name) = (quoted(&call.id), quoted(&call.name));
        let opening = format!(
            r#"{{"tool_calls":[{{"index":{at},"id":{id},"type":"function","function":{{"name":{name}}}}}]}}"#
        );
        self.choice(&opening, None);
        for piece in pieces(&call.arguments, chunk_bytes) {
            let piece = quoted(piece);
            let delta = format!(
                r#"{{"tool_calls":[{{"index":{at},"function":{{"arguments":{piece}}}}}]}}"#
            );
            self.choice(&delta, None);
        }
    }
}

fn quoted(text: &str) -> String {
    // Writing a string to a string cannot fail.
    serde_json::to_string(text).unwrap_or_default()
}

fn write_json<T: Serialize>(bytes: &mut Vec<u8>, value: &T) {
    // Writing these types to memory cannot fail.
    let _ = serde_json::to_writer(bytes, value);
}

/// `text` in pieces of at most `bytes` bytes, or of one character; whole for 0; none when empty.
fn pieces(text: &str, bytes: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?.len_utf8();
        let end = if bytes == 0 { rest.len() } else { boundary(rest, bytes).max(first) };
        let (piece, after) = rest.split_at_checked(end)?;
        rest = after;
        Some(piece)
    })
}

/// The last border between characters at or before `at`.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rfind(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        let cut = |text, bytes| pieces(text, bytes).map(ToOwned::to_owned).collect::<Vec<_>>();
        assert_eq!(cut("abcde", 2), ["ab", "cd", "e"]);
        assert_eq!(cut("aäö🧭", 3), ["aä", "ö", "🧭"]);
        assert_eq!(cut("abc", 0), ["abc"]);
        assert!(cut("", 2).is_empty());
    }
}
