//! The calls of one answer, out of pieces of many dialects.

use serde::de::IgnoredAny;
use stepwell_core::event::FinishReason;
use stepwell_ports::model::WireToolCall;

use super::{ARGUMENT_BYTES_MAX, NAME_BYTES_MAX, Problem, TOOL_CALLS_MAX, damaged, unreadable};
use crate::halves::Halves;
use crate::wire::{CallPiece, FunctionPiece, WireIndex};

/// A piece of a call, read.
pub(super) struct Piece {
    pub(super) index: Option<i64>,
    pub(super) id: String,
    pub(super) name: String,
    arguments: Vec<u8>,
}

impl Piece {
    /// Empty text and `null` mean: not given.
    pub(super) fn read(piece: &CallPiece<'_>) -> Result<Self, Problem> {
        let function = piece.function.as_ref();
        let arguments = function.map(FunctionPiece::argument_text).transpose();
        Ok(Self {
            index: piece.index.map(|WireIndex(index)| index),
            id: piece.id.clone().unwrap_or_default().0,
            name: function.and_then(|it| it.name.clone()).unwrap_or_default().0,
            arguments: arguments.map_err(|error| unreadable(&error))?.unwrap_or_default(),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.id.len() + self.name.len() + self.arguments.len()
    }
}

#[derive(Debug)]
struct OpenCall {
    index: Option<i64>,
    call: WireToolCall,
    halves: Halves,
    /// Its server gives each piece another id.
    changes_id: bool,
}

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Vec<OpenCall>,
    /// The call that the last piece went to.
    current: Option<usize>,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether some call's arguments are not whole.
    pub(super) fn has_part(&self) -> bool {
        let is_part = |it: &OpenCall| !it.call.arguments.is_empty() && !is_json(&it.call.arguments);
        self.open.iter().any(is_part)
    }

    /// Takes the next piece, of a call that is known to be new or of any.
    pub(super) fn take(&mut self, piece: Piece, is_new: bool) -> Result<(), Problem> {
        let found = if is_new { None } else { self.find(&piece) };
        let at = match found {
            Some(at) => at,
            None => self.open(&piece)?,
        };
        self.current = Some(at);
        let Some(OpenCall { call, halves, changes_id, .. }) = self.open.get_mut(at) else {
            return Ok(());
        };
        if call.id.is_empty() {
            call.id = piece.id;
        } else {
            *changes_id |= !piece.id.is_empty() && piece.id != call.id;
        }
        take_name(call, piece.name)?;
        if call.id.len().max(call.name.len()) > NAME_BYTES_MAX {
            return Err(Problem::TooLarge { what: "id or name of a call", limit: NAME_BYTES_MAX });
        }
        if call.arguments.len() + piece.arguments.len() > ARGUMENT_BYTES_MAX {
            return Err(Problem::TooLarge { what: "argument bytes", limit: ARGUMENT_BYTES_MAX });
        }
        // What would stand for half a character in another text would run here.
        let arguments = String::from_utf8(halves.join(piece.arguments));
        call.arguments.push_str(&arguments.map_err(|_| half_a_character())?);
        Ok(())
    }

    /// The open call that a piece belongs to. An index names a place, but a new id on a used place
    /// is a new call, because some servers give all calls one index.
    fn find(&self, piece: &Piece) -> Option<usize> {
        let last = |fits: &dyn Fn(&OpenCall) -> bool| self.open.iter().rposition(fits);
        let at = match piece.index {
            Some(index) => {
                last(&|it| it.index == Some(index) && has_id_of(it, piece)).or_else(|| {
                    last(&|it| it.index == Some(index)).filter(|at| self.goes_on(*at, piece))
                })
            }
            None if piece.id.is_empty() => self.current,
            None => last(&|it| it.call.id == piece.id)
                .or_else(|| self.current.filter(|at| self.goes_on(*at, piece))),
        }?;
        self.open.get(at).is_some_and(|it| continues(&it.call, piece)).then_some(at)
    }

    /// Whether a piece with an id of its own can only be more of the call at `at`: it names no tool,
    /// and that call is named and not whole. Some servers give every piece another id.
    fn goes_on(&self, at: usize, piece: &Piece) -> bool {
        let is_more = piece.name.is_empty() && !piece.arguments.is_empty();
        // Once is enough: reading the arguments again for each piece would cost their square.
        let is_open = |it: &OpenCall| {
            it.changes_id || (!it.call.name.is_empty() && !is_json(&it.call.arguments))
        };
        is_more && self.open.get(at).is_some_and(is_open)
    }

    fn open(&mut self, piece: &Piece) -> Result<usize, Problem> {
        if self.open.len() >= TOOL_CALLS_MAX {
            return Err(Problem::TooLarge { what: "tool calls", limit: TOOL_CALLS_MAX });
        }
        let call =
            WireToolCall { id: String::new(), name: String::new(), arguments: String::new() };
        let halves = Halves::default();
        self.open.push(OpenCall { index: piece.index, call, halves, changes_id: false });
        Ok(self.open.len() - 1)
    }

    /// All calls, by index; those with the same index or none stay in the order in which they were
    /// opened.
    pub(super) fn finish(self, finish_reason: FinishReason) -> Result<Vec<WireToolCall>, Problem> {
        let mut place = i64::MIN;
        let mut keyed: Vec<(i64, WireToolCall)> = Vec::with_capacity(self.open.len());
        for OpenCall { index, call, mut halves, .. } in self.open {
            place = index.unwrap_or(place);
            if !halves.rest().is_empty() {
                return Err(half_a_character());
            }
            if is_blank(&call, finish_reason) {
                continue;
            }
            if call.name.is_empty() {
                return Err(damaged("a tool call has no name"));
            }
            keyed.push((place, call));
        }
        keyed.sort_by_key(|(place, _)| *place);
        Ok(keyed.into_iter().map(|(_, call)| call).collect())
    }
}

fn has_id_of(open: &OpenCall, piece: &Piece) -> bool {
    piece.id.is_empty() || open.call.id.is_empty() || open.call.id == piece.id
}

/// Whether a piece that points to `open` belongs to it and is not the next call under the same
/// number: it has no name, or one that can be a part or a repetition of the open call's name.
fn continues(open: &WireToolCall, piece: &Piece) -> bool {
    let is_same_id = !piece.id.is_empty() && piece.id == open.id;
    if is_same_id || piece.name.is_empty() || open.name.is_empty() || open.arguments.is_empty() {
        return true;
    }
    let is_next = !piece.arguments.is_empty() && is_json(&open.arguments);
    piece.name == open.name && !is_next
}

/// A name may come late, again with each piece, grown with each piece, or in parts.
fn take_name(call: &mut WireToolCall, name: String) -> Result<(), Problem> {
    if name.is_empty() || name == call.name {
        return Ok(());
    }
    if !call.name.is_empty() && !call.arguments.is_empty() {
        let reason = format!("a tool call changes its name from {:?} to {name:?}", call.name);
        return Err(Problem::Damaged { reason });
    }
    if name.starts_with(&call.name) {
        call.name = name;
    } else {
        call.name.push_str(&name);
    }
    Ok(())
}

/// Whether nothing was asked yet: an empty piece, or a call that was cut off before its name.
fn is_blank(call: &WireToolCall, finish_reason: FinishReason) -> bool {
    let is_cut = matches!(finish_reason, FinishReason::Length | FinishReason::ContentFilter);
    call.name.is_empty() && (is_cut || (call.id.is_empty() && call.arguments.is_empty()))
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn half_a_character() -> Problem {
    damaged("the arguments of a tool call have half of a character (a lone surrogate)")
}
