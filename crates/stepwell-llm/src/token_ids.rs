//! Token ids as they come with an answer: those of the prompt once, those of the reply in pieces.

use serde_json::value::RawValue;

/// Ids of one answer, at most. No model reads or writes that many; an answer with more is taken
/// without them.
const IDS_MAX: usize = 4 * 1024 * 1024;

/// The ids of one answer, as far as the server told them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenIds {
    /// Of the prompt.
    pub prompt: Vec<u32>,
    /// Of the reply.
    pub generated: Vec<u32>,
    /// The reply ends with a text that the server was told to stop at, not with a token of the model
    /// that ends its turn.
    pub ends_in_text: bool,
}

impl TokenIds {
    /// Takes what a chunk says of the prompt. Ids are not worth an answer: what cannot be read is left
    /// out.
    pub(crate) fn take_prompt(&mut self, ids: Option<&RawValue>) {
        if let Some(ids) = ids.and_then(read) {
            self.prompt = ids;
        }
    }

    /// Takes the next ids of the reply; whether there were any.
    pub(crate) fn take_generated(
        &mut self,
        ids: Option<&RawValue>,
        stop_reason: Option<&RawValue>,
    ) -> bool {
        self.ends_in_text |= stop_reason.is_some_and(|it| it.get().starts_with('"'));
        let Some(ids) = ids.and_then(read) else { return false };
        let has_room = self.generated.len() + ids.len() <= IDS_MAX;
        if has_room {
            self.generated.extend_from_slice(&ids);
        }
        has_room && !ids.is_empty()
    }
}

/// `null` is none.
fn read(ids: &RawValue) -> Option<Vec<u32>> {
    serde_json::from_str::<Vec<u32>>(ids.get()).ok().filter(|it| it.len() <= IDS_MAX)
}
