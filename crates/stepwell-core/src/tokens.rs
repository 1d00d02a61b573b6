//! A session's requests as tokens: what the server has read and written, and whether the next request
//! begins with it.
//!
//! The bytes of a request begin with those of the one before it, but a server that renders the history
//! anew may make other tokens of them than the model generated. Where the server tells its token ids,
//! each reply is compared and keeps the ids that are new in it, so that the log grows with the session
//! and not with its square.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::event::{FinishReason, ModelReplied, PrefixBreak, ReplyTokens};
use crate::text::Text;

/// The last request and the reply to it, as tokens. Empty when they are not known. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    ids: Arc<Vec<u32>>,
    /// Of these, those of the request.
    prompt: usize,
    /// Messages up to and with the reply.
    messages: u32,
    /// The reply did not come to its end.
    is_cut: bool,
    /// Whose tokens they are.
    model: String,
}

impl Tokens {
    /// Their ids.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// How many messages of a prompt they are.
    pub fn messages(&self) -> u32 {
        self.messages
    }

    /// Whether the model was cut off before its reply came to its end.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The same for a request to `model`: nothing, when they are another model's.
    #[must_use]
    pub fn of_model(&self, model: &str) -> Self {
        if self.model == model { self.clone() } else { Self::default() }
    }

    /// What is recorded of a request of the tokens `prompt`, to which `generated` was replied.
    pub fn reply(&self, prompt: &[u32], generated: &[u32]) -> ReplyTokens {
        let kept = kept(&self.ids, prompt);
        ReplyTokens {
            kept: kept as u64,
            prompt: written(prompt.get(kept..).unwrap_or_default()),
            generated: written(generated),
            broke: self.broke(kept, prompt),
            text: None,
        }
    }

    /// Where the tokens of a request leave those that are known, of which it has the first `kept`.
    fn broke(&self, kept: usize, prompt: &[u32]) -> Option<PrefixBreak> {
        let expected = *self.ids.get(kept)?;
        Some(PrefixBreak {
            at: kept as u64,
            known: self.ids.len() as u64,
            in_reply: kept >= self.prompt,
            expected,
            found: prompt.get(kept).copied(),
            expected_text: String::new(),
            found_text: String::new(),
        })
    }

    /// What is known after `reply`, with which the prompt has `messages`. Nothing, when it is not
    /// recorded or does not follow.
    #[must_use]
    pub(crate) fn after(&self, reply: &ModelReplied, model: &str, messages: u32) -> Self {
        let followed = reply.tokens.as_ref().and_then(|it| self.with(it));
        let is_cut = match reply.finish_reason {
            FinishReason::Length | FinishReason::ContentFilter => true,
            FinishReason::Stop | FinishReason::ToolCalls => false,
        };
        followed.map_or_else(Self::default, |(ids, prompt)| Self {
            ids: Arc::new(ids),
            prompt,
            messages,
            is_cut,
            model: model.to_string(),
        })
    }

    fn with(&self, reply: &ReplyTokens) -> Option<(Vec<u32>, usize)> {
        let kept = usize::try_from(reply.kept).ok()?;
        let mut ids = self.ids.get(..kept)?.to_vec();
        ids.extend(read(reply.prompt.whole()?)?);
        let prompt = ids.len();
        ids.extend(read(reply.generated.whole()?)?);
        Some((ids, prompt))
    }
}

/// How many tokens two lists begin with in common.
pub fn kept<T: PartialEq>(known: &[T], prompt: &[T]) -> usize {
    known.iter().zip(prompt).take_while(|(known, new)| known == new).count()
}

/// Ids as they are stored: decimal, a blank between two.
fn written(ids: &[u32]) -> Text {
    let mut text = String::new();
    for id in ids {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&id.to_string());
    }
    Text::from(text)
}

fn read(text: &str) -> Option<Vec<u32>> {
    text.split_ascii_whitespace().map(|id| id.parse().ok()).collect()
}

impl Serialize for Tokens {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ids = written(&self.ids);
        (ids, self.prompt, self.messages, self.is_cut, &self.model).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (ids, prompt, messages, is_cut, model) =
            <(Text, usize, u32, bool, String)>::deserialize(deserializer)?;
        let ids = ids.whole().and_then(read);
        let ids = ids.ok_or_else(|| serde::de::Error::custom("no list of token ids"))?;
        Ok(Self { ids: Arc::new(ids), prompt, messages, is_cut, model })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(prompt: &[u32], generated: &[u32]) -> Tokens {
        let reply = Tokens::default().reply(prompt, generated);
        let (ids, prompt) = Tokens::default().with(&reply).unwrap();
        Tokens { ids: Arc::new(ids), prompt, ..Tokens::default() }
    }

    /// A break as (at, in the reply, expected, found).
    type Broke = Option<(u64, bool, u32, Option<u32>)>;

    #[track_caller]
    fn check(known: &Tokens, prompt: &[u32], kept: u64, broke: Broke) {
        let reply = known.reply(prompt, &[90]);
        let found = reply.broke.map(|it| (it.at, it.in_reply, it.expected, it.found));
        assert_eq!((reply.kept, found), (kept, broke), "{prompt:?}");
    }

    #[test]
    fn a_request_is_compared_with_the_last_one_and_its_reply() {
        let known = known(&[1, 2, 3], &[4, 5]);
        for (prompt, kept, broke) in [
            (&[1, 2, 3, 4, 5, 6, 7][..], 5, None),
            (&[1, 2, 3, 4, 5], 5, None),
            // The template renders the reply anew.
            (&[1, 2, 3, 4, 6, 5, 7], 4, Some((4, true, 5, Some(6)))),
            (&[1, 2, 3, 9, 9], 3, Some((3, true, 4, Some(9)))),
            // Something in the prompt itself changed.
            (&[1, 8, 3, 4, 5], 1, Some((1, false, 2, Some(8)))),
            (&[8], 0, Some((0, false, 1, Some(8)))),
            // It is shorter than what is known.
            (&[1, 2], 2, Some((2, false, 3, None))),
            (&[], 0, Some((0, false, 1, None))),
        ] {
            check(&known, prompt, kept, broke);
        }
    }

    #[test]
    fn a_first_request_breaks_nothing() {
        check(&Tokens::default(), &[1, 2], 0, None);
    }

    #[test]
    fn what_is_recorded_is_what_is_new_and_gives_the_whole_back() {
        let known = known(&[1, 2, 3], &[4, 5]);
        let reply = known.reply(&[1, 2, 3, 4, 6, 7], &[8, 9]);
        assert_eq!((reply.prompt.preview(), reply.generated.preview()), ("6 7", "8 9"));
        let (ids, prompt) = known.with(&reply).unwrap();
        assert_eq!((ids, prompt), (alloc::vec![1, 2, 3, 4, 6, 7, 8, 9], 6));
    }

    #[test]
    fn what_does_not_follow_or_cannot_be_read_is_not_known() {
        let known = known(&[1, 2], &[3]);
        let good = known.reply(&[1, 2, 3, 4], &[5]);
        let longer = ReplyTokens { kept: 4, ..good.clone() };
        let damaged = ReplyTokens { generated: Text::from("5 x"), ..good.clone() };
        assert!(known.with(&good).is_some());
        assert!(known.with(&longer).is_none() && known.with(&damaged).is_none());
    }

    #[test]
    fn they_survive_the_cache_of_states() {
        let known = Tokens { model: "m".into(), messages: 3, is_cut: true, ..known(&[1], &[2]) };
        let json = serde_json::to_string(&known).unwrap();
        assert_eq!(serde_json::from_str::<Tokens>(&json).unwrap(), known);
        assert_eq!(known.of_model("m"), known);
        assert_eq!(known.of_model("other"), Tokens::default());
    }
}
