//! The request to the model, computed from the events byte for byte.
//!
//! A prompt only grows: each request's bytes begin with all bytes of the request before it but its
//! closing ones, so that a server's prefix cache keeps what it has read. For that the constant parts
//! come first (model, parameters, tools in their fixed order, system prompt), the messages last, and
//! nothing in it depends on a clock, a random id or the place where it runs.
//!
//! Invariant: `body(n + 1).starts_with(body(n) without its closing)` for all requests of a session.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::agent::Agent;
use crate::event::ToolCall;
use crate::json::write_string;

/// Closes the request without more than its messages.
const CLOSING: &str = "]}";

/// Room for what stands around the content of a message, so that most need no second allocation.
const FRAME_BYTES: usize = 96;

/// How much is hashed at once, in bytes; one longer message is a piece of its own.
const PIECE_BYTES: usize = 64 * 1024;

/// A request body that grows at its end. Cloning is O(1): what was written is shared.
#[derive(Clone, Default)]
pub struct Prompt {
    last: Option<Arc<Segment>>,
    /// Has been told the first `hashed` segments.
    hasher: Arc<blake3::Hasher>,
    hashed: usize,
    bytes: u64,
    messages: u32,
    segments: usize,
    /// Bytes of the head and the system prompt.
    head_bytes: u64,
    texts: Texts,
    /// Closes the list of messages and the request; `None` for [`CLOSING`].
    closing: Option<Arc<str>>,
}

/// Which of its texts a prompt has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Texts {
    #[default]
    All,
    None,
    /// Those of the messages from this number on.
    From(u32),
}

/// A piece of the body, and all pieces before it.
struct Segment {
    text: String,
    before: Option<Arc<Segment>>,
}

impl Drop for Segment {
    /// One after the other: a long chain dropped by recursion would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.before.take();
        while let Some(mut segment) = next.and_then(Arc::into_inner) {
            next = segment.before.take();
        }
    }
}

impl Prompt {
    /// The request of a new session: everything up to and with the system prompt and the task.
    pub fn new(agent: &Agent, task: &str) -> Self {
        let mut prompt = Self::default();
        prompt.begin(agent);
        prompt.message("user", task);
        prompt
    }

    /// Everything up to and with the system prompt.
    fn begin(&mut self, agent: &Agent) {
        self.push(head(agent, &agent.model.name));
        self.message("system", &agent.instructions);
        self.head_bytes = self.bytes;
    }

    /// The same without its texts: how long it is and how many messages it has. For looking at a past
    /// moment; nothing can be sent from it, and its digest is empty.
    #[must_use]
    pub fn outline(&self) -> Self {
        Self {
            last: None,
            hasher: Arc::default(),
            hashed: 0,
            bytes: self.bytes,
            messages: self.messages,
            segments: 0,
            head_bytes: self.head_bytes,
            texts: Texts::None,
            closing: self.closing.clone(),
        }
    }

    /// An outline that keeps the texts of the messages to come: a window of a long prompt without
    /// what is before it.
    #[must_use]
    pub fn tail(&self) -> Self {
        Self { texts: Texts::From(self.messages), ..self.outline() }
    }

    /// Has the request end with these members behind its messages, each with a comma in front. They
    /// are the one part that may change from request to request.
    pub(crate) fn end_with(&mut self, members: &str) {
        self.closing = (!members.is_empty()).then(|| alloc::format!("]{members}}}").into());
    }

    fn closing(&self) -> &str {
        self.closing.as_deref().unwrap_or(CLOSING)
    }

    /// Whether texts were left out.
    pub fn is_outline(&self) -> bool {
        self.texts != Texts::All
    }

    /// Number of the first message whose text is here.
    pub fn first_text(&self) -> u32 {
        match self.texts {
            Texts::All => 0,
            Texts::None => self.messages,
            Texts::From(first) => first,
        }
    }

    /// Adds a message of a person.
    pub fn push_user(&mut self, content: &str) {
        self.message("user", content);
    }

    /// Adds a reply of the model as it was given.
    pub fn push_assistant(&mut self, content: &str, calls: &[ToolCall]) {
        let mut text = self.opening("assistant", content);
        if content.is_empty() && !calls.is_empty() {
            text.push_str(",\"content\":null");
        } else {
            text.push_str(",\"content\":");
            write_string(content, &mut text);
        }
        if !calls.is_empty() {
            text.push_str(",\"tool_calls\":[");
            for (i, call) in calls.iter().enumerate() {
                text.push_str(if i == 0 { "{\"id\":" } else { ",{\"id\":" });
                write_string(&call.wire_id, &mut text);
                text.push_str(",\"type\":\"function\",\"function\":{\"name\":");
                write_string(&call.name, &mut text);
                text.push_str(",\"arguments\":");
                write_string(sendable_arguments(call), &mut text);
                text.push_str("}}");
            }
            text.push(']');
        }
        text.push('}');
        self.push(text);
    }

    /// Adds what the model is shown of a tool call.
    pub fn push_observation(&mut self, wire_id: &str, content: &str) {
        let mut text = self.opening("tool", content);
        text.push_str(",\"tool_call_id\":");
        write_string(wire_id, &mut text);
        text.push_str(",\"content\":");
        write_string(content, &mut text);
        text.push('}');
        self.push(text);
    }

    /// BLAKE3 of the request body, 64 hex digits. O(bytes since the last [`decide`](fn@crate::decide)).
    pub fn digest(&self) -> String {
        if self.is_outline() {
            return String::new();
        }
        let mut hasher = blake3::Hasher::clone(&self.hasher);
        hash_last(self.last.as_deref(), self.segments - self.hashed, &mut hasher);
        hasher.update(self.closing().as_bytes());
        hasher.finalize().to_hex().as_str().into()
    }

    /// Lets the hash go along with the growth. Whoever asks for digests while the prompt grows calls
    /// it before; whoever only folds a history does not pay for hashes that nobody asks for.
    pub fn catch_up(&mut self) {
        if self.hashed < self.segments {
            let hasher = Arc::make_mut(&mut self.hasher);
            hash_last(self.last.as_deref(), self.segments - self.hashed, hasher);
            self.hashed = self.segments;
        }
    }

    /// Length of the request body in bytes.
    pub fn body_bytes(&self) -> u64 {
        self.bytes + self.closing().len() as u64
    }

    /// Messages so far, the system prompt included.
    pub fn messages(&self) -> u32 {
        self.messages
    }

    /// The request body in pieces, to be sent one after the other. O(messages).
    pub fn body_segments(&self) -> impl Iterator<Item = &str> {
        let mut pieces = Vec::with_capacity(self.segments + 1);
        pieces.push(self.closing());
        let mut next = self.last.as_deref();
        while let Some(segment) = next {
            pieces.push(segment.text.as_str());
            next = segment.before.as_deref();
        }
        pieces.into_iter().rev()
    }

    /// The request body in one piece. O(bytes).
    pub fn body(&self) -> String {
        self.body_segments().collect()
    }

    /// The messages from [`Self::first_text`] on, each as the JSON object that is sent. O(messages).
    pub fn message_texts(&self) -> impl Iterator<Item = &str> {
        let head = usize::from(!self.is_outline());
        let messages = self.open_segments().into_iter().skip(head);
        messages.map(|text| text.strip_prefix(',').unwrap_or(text))
    }

    /// The request with its first `messages` messages alone, and `members` behind them, each with a
    /// comma in front. O(bytes).
    pub fn beginning(&self, messages: u32, members: &str) -> String {
        let count = (messages as usize).saturating_add(1).min(self.segments);
        let mut body: String = self.body_segments().take(count).collect();
        body.push(']');
        body.push_str(members);
        body.push('}');
        body
    }

    /// Every segment but the closing one: the head, then a message each.
    fn open_segments(&self) -> Vec<&str> {
        self.body_segments().take(self.segments).collect()
    }

    /// The same messages under another definition: another head and another system prompt. The
    /// server's prefix cache keeps nothing of it. O(bytes).
    pub(crate) fn rebase(&mut self, agent: &Agent) {
        let mut rebased = Self::default();
        rebased.begin(agent);
        if self.is_outline() {
            self.bytes = self.bytes - self.head_bytes + rebased.head_bytes;
            self.head_bytes = rebased.head_bytes;
            return;
        }
        for segment in self.open_segments().into_iter().skip(2) {
            rebased.push(segment.to_string());
        }
        rebased.messages = self.messages;
        rebased.closing.clone_from(&self.closing);
        *self = rebased;
    }

    /// The same request to another model of `agent`, by its name. O(bytes).
    #[must_use]
    pub fn for_model(&self, agent: &Agent, model: &str) -> Self {
        let (own, other) = (head(agent, &agent.model.name), head(agent, model));
        if self.is_outline() {
            let shift = |bytes: u64| bytes - own.len() as u64 + other.len() as u64;
            let (bytes, head_bytes) = (shift(self.bytes), shift(self.head_bytes));
            return Self { bytes, head_bytes, ..self.clone() };
        }
        let head_bytes = self.head_bytes - own.len() as u64 + other.len() as u64;
        let (messages, closing) = (self.messages, self.closing.clone());
        let mut renamed = Self { messages, head_bytes, closing, ..Self::default() };
        renamed.push(other);
        for segment in self.open_segments().into_iter().skip(1) {
            renamed.push(segment.to_string());
        }
        renamed
    }

    /// The beginning of a message with that much to say.
    fn opening(&mut self, role: &str, content: &str) -> String {
        let mut text = String::with_capacity(content.len() + FRAME_BYTES);
        text.push_str(if self.messages == 0 { "{\"role\":\"" } else { ",{\"role\":\"" });
        text.push_str(role);
        text.push('"');
        self.messages += 1;
        text
    }

    fn message(&mut self, role: &str, content: &str) {
        let mut text = self.opening(role, content);
        text.push_str(",\"content\":");
        write_string(content, &mut text);
        text.push('}');
        self.push(text);
    }

    fn push(&mut self, text: String) {
        if self.texts == Texts::None {
            self.bytes += text.len() as u64;
            return;
        }
        self.bytes += text.len() as u64;
        self.segments += 1;
        self.last = Some(Arc::new(Segment { text, before: self.last.take() }));
    }
}

/// Hashes the last `count` segments of a chain. Many are put together first: BLAKE3 hashes long pieces
/// several times as fast as short ones.
fn hash_last(last: Option<&Segment>, count: usize, hasher: &mut blake3::Hasher) {
    let chain = core::iter::successors(last, |segment| segment.before.as_deref());
    let mut texts: Vec<&str> = chain.take(count).map(|segment| segment.text.as_str()).collect();
    texts.reverse();
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    // At once, not by doubling: after a restart every session has its whole history hashed.
    let mut piece = String::with_capacity(bytes.min(PIECE_BYTES));
    for text in texts {
        if !piece.is_empty() && piece.len() + text.len() > PIECE_BYTES {
            hasher.update(piece.as_bytes());
            piece.clear();
        }
        piece.push_str(text);
    }
    hasher.update(piece.as_bytes());
}

/// The first message of every request under that definition, as the JSON object that is sent.
pub fn system_message(agent: &Agent) -> String {
    let mut prompt = Prompt::default();
    prompt.begin(agent);
    prompt.message_texts().next().map(ToString::to_string).unwrap_or_default()
}

/// The constant part of every request of a session, up to the opening of the messages.
fn head(agent: &Agent, model: &str) -> String {
    let mut text = String::from("{\"model\":");
    write_string(model, &mut text);
    text.push_str(",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    if agent.model.asks_token_ids() {
        text.push_str(",\"return_token_ids\":true");
    }
    let parameters = agent.model.parameters.as_str().trim();
    let members = parameters.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    if let Some(members) = members.map(str::trim).filter(|it| !it.is_empty()) {
        text.push(',');
        text.push_str(members);
    }
    if !agent.tools.is_empty() {
        text.push_str(",\"tools\":[");
        for (i, tool) in agent.tools.iter().enumerate() {
            text.push_str(if i == 0 { "{" } else { ",{" });
            text.push_str("\"type\":\"function\",\"function\":{\"name\":");
            write_string(&tool.name, &mut text);
            text.push_str(",\"description\":");
            write_string(&tool.description, &mut text);
            text.push_str(",\"parameters\":");
            let relaxed = agent.output.relaxed.get(&tool.name).map(|it| &it.schema);
            if agent.output.strict_tools {
                text.push_str(relaxed.unwrap_or(&tool.parameters).as_str());
                text.push_str(",\"strict\":true}}");
            } else {
                text.push_str(tool.parameters.as_str());
                text.push_str("}}");
            }
        }
        text.push(']');
    }
    text.push_str(",\"messages\":[");
    text
}

/// Servers parse the arguments of the history again and refuse what is no JSON object, so a call
/// that could not be read is sent back as an empty object; its observation quotes what was written.
fn sendable_arguments(call: &ToolCall) -> &str {
    let arguments = call.arguments.preview();
    let is_object = crate::json::read_strict(arguments).is_ok_and(|value| value.is_object());
    if is_object { arguments } else { "{}" }
}

impl PartialEq for Prompt {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
            && self.bytes == other.bytes
            && self.closing == other.closing
            && self.digest() == other.digest()
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt")
            .field("messages", &self.messages)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Serialize for Prompt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let outline = self.is_outline().then_some(self.bytes);
        let segments = if self.is_outline() { Vec::new() } else { self.open_segments() };
        let closing = self.closing.as_deref();
        (self.messages, self.head_bytes, outline, segments, closing).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Prompt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (messages, head_bytes, outline, segments, closing) =
            <(u32, u64, Option<u64>, Vec<String>, Option<String>)>::deserialize(deserializer)?;
        let closing = closing.map(Arc::from);
        let mut prompt = Self { head_bytes, closing, ..Self::default() };
        if let Some(bytes) = outline {
            (prompt.bytes, prompt.messages, prompt.texts) = (bytes, messages, Texts::None);
            return Ok(prompt);
        }
        for segment in segments {
            prompt.push(segment);
        }
        prompt.messages = messages;
        Ok(prompt)
    }
}
