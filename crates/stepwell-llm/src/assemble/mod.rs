//! One whole answer out of the chunks of a stream, or out of one JSON text.
//!
//! Servers speak dialects: calls without ids, with ids on every piece or on the first, with one
//! index for all, with names that come late, twice or in pieces; text between the pieces of a call;
//! errors inside a stream that began well. All are read here, without guessing: what cannot be told
//! apart or is damaged is a problem, and a stream with a problem gives no answer at all.
//!
//! Invariant: a call that is returned, its name and its arguments, stands in the stream's bytes.

mod calls;

use serde_json::value::RawValue;
use stepwell_core::event::{FinishReason, Usage};
use stepwell_core::text::shorten;
use stepwell_ports::ModelChunk;
use stepwell_ports::model::WireToolCall;

use self::calls::{Calls, Piece};
use crate::halves::{Halves, lossy};
use crate::sse::{SseError, SseEvent};
use crate::token_ids::TokenIds;
use crate::wire::{CallPiece, Chunk, Message, RawText, WireError, WireIndex, WireText, WireUsage};

/// Tool calls of one answer, at most. Models ask for a handful; the bound keeps a server that
/// repeats itself from filling a session.
pub const TOOL_CALLS_MAX: usize = 128;

/// Bytes of the arguments of one call, at most. Enough to write a large file in one call.
pub const ARGUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of content, reasoning, names and arguments of one answer together, at most. Far above the
/// longest output of any model.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of a call's id or name, at most.
const NAME_BYTES_MAX: usize = 1_024;

/// Bytes of a finish reason that no dialect knows, kept at most.
const FINISH_WORD_BYTES_MAX: usize = 64;

/// Data of the event that ends a stream.
const DONE: &str = "[DONE]";

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What the model said.
    pub content: String,
    /// What the model thought.
    pub reasoning: String,
    /// The calls it asked for, by the server's index.
    pub tool_calls: Vec<WireToolCall>,
    /// Why it stopped.
    pub finish_reason: FinishReason,
    /// The server's own word for that, where it says more.
    pub finish_word: Option<String>,
    /// Tokens; zeros when the server did not say.
    pub usage: Usage,
    /// Prompt and reply as tokens, as far as the server told them.
    pub token_ids: TokenIds,
}

/// Whether an event brought the answer forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A piece of the answer, or its end.
    Token,
    /// Nothing of the answer: a role, a count, noise.
    Nothing,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The server reported an error in place of an answer.
    #[error("{message}")]
    ServerSaid {
        /// The server's words.
        message: String,
        /// The server's words for its kind; may be empty.
        kind: String,
        /// The HTTP status that it would have sent, when it said so.
        code: Option<u16>,
    },
    /// Bytes that are not what the protocol says.
    #[error("{reason}")]
    Damaged {
        /// What is wrong.
        reason: String,
    },
    /// The stream ended before the answer did.
    #[error("the stream ended without a finish_reason and without [DONE]")]
    Incomplete,
    /// The stream ended in the middle of a call, and the server did not say why.
    #[error("the stream ended without a finish_reason, in the middle of a tool call's arguments")]
    CutCall,
    /// The server gave the answer up.
    #[error("the server gave the answer up: finish_reason {reason:?}")]
    GivenUp {
        /// Its finish reason.
        reason: String,
    },
    /// A bound of this module or of [`crate::sse`].
    #[error("{what} of the answer: more than {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
}

impl From<SseError> for Problem {
    fn from(error: SseError) -> Self {
        Self::Damaged { reason: error.to_string() }
    }
}

impl From<WireError> for Problem {
    fn from(WireError { message, kind, code }: WireError) -> Self {
        let message = if message.is_empty() { "an error without words".into() } else { message };
        Self::ServerSaid { message, kind, code }
    }
}

/// A text, and what of it waits for the next piece.
#[derive(Debug, Default)]
struct Said {
    text: String,
    halves: Halves,
}

impl Said {
    /// Takes the next piece; what of it can be shown.
    fn take(&mut self, piece: Vec<u8>) -> String {
        let piece = lossy(self.halves.join(piece));
        self.text.push_str(&piece);
        piece
    }

    fn finish(mut self) -> String {
        self.text.push_str(&lossy(self.halves.rest()));
        self.text
    }
}

/// Puts an answer together, chunk by chunk.
#[derive(Debug, Default)]
pub struct Assembler {
    content: Said,
    reasoning: Said,
    calls: Calls,
    finish_reason: Option<FinishReason>,
    finish_word: Option<String>,
    given_up: Option<String>,
    usage: Usage,
    token_ids: TokenIds,
    has_choice: bool,
    is_done: bool,
    bytes: usize,
}

impl Assembler {
    /// An assembler without anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event of a stream. Pieces of text go to `on_piece` on the way. Events after
    /// the end mark are skipped.
    ///
    /// # Errors
    /// [`Problem`]; the assembler must not be used again.
    pub fn push(
        &mut self,
        event: SseEvent<'_>,
        on_piece: &mut dyn FnMut(ModelChunk),
    ) -> Result<Progress, Problem> {
        let data = event.data.trim();
        if self.is_done || data.is_empty() {
            return Ok(Progress::Nothing);
        }
        if data == DONE {
            self.is_done = true;
            return Ok(Progress::Nothing);
        }
        if event.name == "error" {
            let error = WireError::read(data)
                .unwrap_or_else(|| WireError { message: data.into(), ..WireError::default() });
            return Err(error.into());
        }
        let chunk = read_chunk(data)?;
        self.take_usage(chunk.usage);
        self.token_ids.take_prompt(chunk.prompt_token_ids);
        let mut progress = Progress::Nothing;
        for choice in chunk.choices.unwrap_or_default() {
            if choice.index.is_some_and(|WireIndex(index)| index != 0) {
                continue;
            }
            self.has_choice = true;
            if self.token_ids.take_generated(choice.token_ids, choice.stop_reason) {
                progress = Progress::Token;
            }
            if let Some(delta) = choice.delta.or(choice.message) {
                progress = self.take_message(delta, false, on_piece)?.or(progress);
            }
            if let Some(WireText(reason)) = choice.finish_reason {
                self.take_finish_reason(&reason);
                progress = Progress::Token;
            }
        }
        Ok(progress)
    }

    /// Takes a whole answer that came as one JSON text, which servers send that do not stream.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn whole(json: &str, on_piece: &mut dyn FnMut(ModelChunk)) -> Result<Answer, Problem> {
        let mut assembler = Self::new();
        let chunk = read_chunk(json)?;
        assembler.take_usage(chunk.usage);
        assembler.token_ids.take_prompt(chunk.prompt_token_ids);
        for choice in chunk.choices.unwrap_or_default() {
            if choice.index.is_some_and(|WireIndex(index)| index != 0) {
                continue;
            }
            assembler.has_choice = true;
            assembler.token_ids.take_generated(choice.token_ids, choice.stop_reason);
            if let Some(message) = choice.message.or(choice.delta) {
                assembler.take_message(message, true, on_piece)?;
            }
            if let Some(WireText(reason)) = choice.finish_reason {
                assembler.take_finish_reason(&reason);
            }
        }
        // One JSON text that could be read is whole by itself.
        assembler.is_done = true;
        assembler.finish()
    }

    /// Whether the server said that the answer is whole. What may follow is its usage.
    pub fn is_whole(&self) -> bool {
        self.finish_reason.is_some() || self.given_up.is_some() || self.is_done
    }

    /// Whether the end mark was seen. Nothing after it counts.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The answer, at the end of the stream.
    ///
    /// # Errors
    /// [`Problem`] when the answer is not whole.
    pub fn finish(self) -> Result<Answer, Problem> {
        if let Some(reason) = self.given_up {
            return Err(Problem::GivenUp { reason });
        }
        if !self.is_done && self.finish_reason.is_none() {
            return Err(Problem::Incomplete);
        }
        if !self.has_choice {
            return Err(damaged("the answer has no choices"));
        }
        // Proxies end a stream that broke behind them with an end mark of their own.
        if self.finish_reason.is_none() && self.calls.has_part() {
            return Err(Problem::CutCall);
        }
        let default =
            if self.calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        let finish_reason = self.finish_reason.unwrap_or(default);
        Ok(Answer {
            content: self.content.finish(),
            reasoning: self.reasoning.finish(),
            tool_calls: self.calls.finish(finish_reason)?,
            finish_reason,
            finish_word: self.finish_word,
            usage: self.usage,
            token_ids: self.token_ids,
        })
    }

    /// Counts are not worth an answer: what cannot be read is left out. The last count wins, for
    /// servers that send a running one.
    fn take_usage(&mut self, usage: Option<&RawValue>) {
        if let Some(Ok(usage)) = usage.map(|raw| serde_json::from_str::<WireUsage>(raw.get())) {
            self.usage = usage.to_usage();
        }
    }

    fn take_finish_reason(&mut self, word: &str) {
        let word = word.to_ascii_lowercase();
        // The second is whether the word says more than the reason.
        let (reason, says_more) = match word.as_str() {
            // Some servers send an empty reason on every chunk.
            "" => return,
            "stop" | "eos" | "end_turn" | "stop_sequence" => (FinishReason::Stop, false),
            "tool_calls" | "tool_call" | "tool_use" | "function_call" => {
                (FinishReason::ToolCalls, false)
            }
            "length" | "max_tokens" => (FinishReason::Length, false),
            // vLLM's word for output that was cut because it went in circles.
            "repetition" => (FinishReason::Length, true),
            "content_filter" => (FinishReason::ContentFilter, false),
            "safety" | "recitation" => (FinishReason::ContentFilter, true),
            "abort" | "aborted" | "error" | "cancelled" => {
                self.given_up = Some(word);
                return;
            }
            // Some dialect's word for an end; the answer is whole.
            _ => (FinishReason::Stop, true),
        };
        let is_cut = matches!(reason, FinishReason::Length | FinishReason::ContentFilter);
        if self.finish_reason.is_none() || is_cut {
            self.finish_reason = Some(reason);
            self.finish_word = says_more.then(|| shorten(&word, FINISH_WORD_BYTES_MAX));
        }
    }

    fn take_message(
        &mut self,
        message: Message<'_>,
        is_whole: bool,
        on_piece: &mut dyn FnMut(ModelChunk),
    ) -> Result<Progress, Problem> {
        let mut progress = Progress::Nothing;
        // While the name changed, some servers sent the same text under both.
        let reasoning = raw(message.reasoning);
        let older = raw(message.reasoning_content);
        let reasoning = if reasoning.is_empty() { older } else { reasoning };
        if !reasoning.is_empty() {
            self.count(reasoning.len())?;
            show(self.reasoning.take(reasoning), ModelChunk::Reasoning, on_piece);
            progress = Progress::Token;
        }
        for content in [raw(message.content), raw(message.refusal)] {
            if !content.is_empty() {
                self.count(content.len())?;
                show(self.content.take(content), ModelChunk::Content, on_piece);
                progress = Progress::Token;
            }
        }
        let older = message.function_call.map(|function| CallPiece {
            index: Some(WireIndex(0)),
            id: None,
            function: Some(function),
        });
        let pieces = message.tool_calls.unwrap_or_default().into_iter().chain(older);
        for (at, piece) in pieces.enumerate() {
            let piece = Piece::read(&piece)?;
            // Nothing is sent in two pieces of one list, so a second name in it is a second call.
            let is_second = at > 0 && piece.index.is_none() && piece.id.is_empty();
            let is_new = is_whole || (is_second && !piece.name.is_empty());
            self.count(piece.bytes())?;
            self.calls.take(piece, is_new)?;
            progress = Progress::Token;
        }
        Ok(progress)
    }

    fn count(&mut self, bytes: usize) -> Result<(), Problem> {
        self.bytes += bytes;
        if self.bytes > ANSWER_BYTES_MAX {
            return Err(Problem::TooLarge { what: "bytes", limit: ANSWER_BYTES_MAX });
        }
        Ok(())
    }
}

impl Progress {
    fn or(self, other: Self) -> Self {
        if self == Self::Token { self } else { other }
    }
}

fn raw(text: Option<RawText>) -> Vec<u8> {
    text.unwrap_or_default().0
}

fn show(text: String, chunk: fn(String) -> ModelChunk, on_piece: &mut dyn FnMut(ModelChunk)) {
    if !text.is_empty() {
        on_piece(chunk(text));
    }
}

fn read_chunk(json: &str) -> Result<Chunk<'_>, Problem> {
    // `serde` would take a list for an object with its members in order.
    if !json.trim_start().starts_with('{') {
        return Err(damaged("an event of the answer is no JSON object"));
    }
    let chunk: Chunk<'_> = match serde_json::from_str(json) {
        Ok(chunk) => chunk,
        Err(error) => {
            // An error whose shape does not fit a chunk's is still an error with words.
            return Err(WireError::read(json).map_or_else(|| unreadable(&error), Problem::from));
        }
    };
    let is_error = chunk.error.is_some() || chunk.object.is_some_and(|it| it.get() == "\"error\"");
    // A chunk without choices and with only words, as gateways send, is an error as well.
    if is_error || chunk.choices.is_none() {
        if let Some(error) = WireError::read(json) {
            return Err(error.into());
        }
        if is_error {
            return Err(damaged("an error without words"));
        }
    }
    Ok(chunk)
}

fn unreadable(error: &serde_json::Error) -> Problem {
    Problem::Damaged { reason: format!("an event of the answer cannot be read: {error}") }
}

fn damaged(reason: &str) -> Problem {
    Problem::Damaged { reason: reason.into() }
}
