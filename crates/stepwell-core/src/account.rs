//! What a session cost: tokens by model, times, money, and how well the prefix cache was used.
//!
//! A model server must read a session's first prompt and every observation once; all else it has
//! read or written itself. So the least that a session can cost is known, and how far it is from
//! that is one number ([`Account::read_ratio`]).

use alloc::collections::BTreeMap;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::event::{ModelReplied, Usage};

/// Sums of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// By the model that answered.
    pub models: BTreeMap<String, ModelAccount>,
    /// Tokens of the first prompt and of all observations: what had to be read.
    pub bound_tokens: u64,
    /// Tokens of the last prompt and of what the model said to it, as they stand in the next.
    last: Option<u64>,
    /// Replies whose server told no tokens.
    #[serde(default)]
    pub uncounted_replies: u32,
    /// Tokens of these replies and their prompts, estimated.
    #[serde(default)]
    pub uncounted_tokens: u64,
}

/// Bytes of a token where nobody counts, roughly: four characters of English, as `OpenAI` tells its
/// users, and less in code and JSON.
const BYTES_PER_TOKEN: u64 = 4;

/// Sums of the replies of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelAccount {
    /// Replies.
    pub replies: u32,
    /// Their tokens.
    pub usage: Usage,
    /// Time to the first token of all of them together, in milliseconds.
    pub first_token_ms: u64,
    /// Time after the first token, in milliseconds.
    pub decode_ms: u64,
    /// Tokens after the first one.
    pub decode_tokens: u64,
}

/// A prompt of a session as the server counted it: what the next, which begins with it, is estimated
/// by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// The model that counted.
    pub model: String,
    /// Length of the request body in bytes.
    pub bytes: u64,
    /// Messages in it.
    pub messages: u32,
    /// What they are in tokens.
    pub tokens: u64,
}

/// What tokens of a model cost: millionths of the currency for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Price {
    /// Prompt tokens that were read.
    pub prompt: u64,
    /// Prompt tokens out of the cache.
    pub cached: u64,
    /// Prompt tokens that were read and put into the cache, where the server bills them apart.
    pub created: u64,
    /// Completion tokens, reasoning among them.
    pub completion: u64,
}

impl Account {
    /// Takes a reply of `model`.
    pub fn add(&mut self, model: &str, reply: &ModelReplied) {
        let sums = self.models.entry(model.into()).or_default();
        let usage = &reply.usage;
        sums.replies = sums.replies.saturating_add(1);
        sums.usage.add(usage);
        sums.first_token_ms = sums.first_token_ms.saturating_add(reply.first_token_ms);
        let decode_ms = reply.duration_ms.saturating_sub(reply.first_token_ms);
        sums.decode_ms = sums.decode_ms.saturating_add(decode_ms);
        let decoded = usage.completion_tokens.saturating_sub(1);
        sums.decode_tokens = sums.decode_tokens.saturating_add(decoded);
        if usage.prompt_tokens == 0 {
            // The server does not count.
            return;
        }
        let new = usage.prompt_tokens.saturating_sub(self.last.unwrap_or(0));
        self.bound_tokens = self.bound_tokens.saturating_add(new);
        // Reasoning is not sent back.
        let said = usage.completion_tokens.saturating_sub(usage.reasoning_tokens);
        self.last = Some(usage.prompt_tokens.saturating_add(said));
    }

    /// Takes a reply whose server told no tokens: prompt and reply together are `bytes`.
    pub(crate) fn estimate(&mut self, bytes: u64) {
        self.uncounted_replies = self.uncounted_replies.saturating_add(1);
        let tokens = bytes.div_ceil(BYTES_PER_TOKEN);
        self.uncounted_tokens = self.uncounted_tokens.saturating_add(tokens);
    }

    /// All models together.
    pub fn total(&self) -> ModelAccount {
        let mut total = ModelAccount::default();
        for sums in self.models.values() {
            total.add(sums);
        }
        total
    }

    /// Uncached prompt tokens in thousandths of what had to be read: 1000 is the least. `None`
    /// when nothing is known.
    pub fn read_ratio(&self) -> Option<u64> {
        let uncached = self.total().usage.uncached_tokens();
        (self.bound_tokens > 0)
            .then(|| rounded(u128::from(uncached) * 1_000, u128::from(self.bound_tokens)))
    }
}

impl ModelAccount {
    /// Adds other sums.
    pub fn add(&mut self, other: &Self) {
        self.replies = self.replies.saturating_add(other.replies);
        self.usage.add(&other.usage);
        self.first_token_ms = self.first_token_ms.saturating_add(other.first_token_ms);
        self.decode_ms = self.decode_ms.saturating_add(other.decode_ms);
        self.decode_tokens = self.decode_tokens.saturating_add(other.decode_tokens);
    }

    /// The cost in millionths of the currency.
    pub fn cost(&self, price: &Price) -> u64 {
        let usage = &self.usage;
        let read = usage.uncached_tokens().saturating_sub(usage.created_tokens);
        let parts = [
            (read, price.prompt),
            (usage.cached_tokens, price.cached),
            (usage.created_tokens, price.created),
            (usage.completion_tokens, price.completion),
        ];
        let costs = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price));
        let sum = costs.fold(0, u128::saturating_add);
        rounded(sum, 1_000_000)
    }
}

fn rounded(dividend: u128, divisor: u128) -> u64 {
    u64::try_from(dividend.saturating_add(divisor / 2) / divisor).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FinishReason;
    use crate::text::Text;

    fn reply(prompt: u64, cached: u64, completion: u64, reasoning: u64) -> ModelReplied {
        ModelReplied {
            answer_problem: None,
            step: 1,
            attempt: 1,
            content: Text::from(""),
            reasoning: Text::from(""),
            tool_calls: alloc::vec::Vec::new(),
            finish_reason: FinishReason::Stop,
            finish_word: None,
            usage: Usage {
                prompt_tokens: prompt,
                cached_tokens: cached,
                completion_tokens: completion,
                reasoning_tokens: reasoning,
                created_tokens: 0,
            },
            endpoint: String::new(),
            first_token_ms: 100,
            duration_ms: 400,
            tokens: None,
        }
    }

    #[test]
    fn the_least_is_the_first_prompt_and_the_observations() {
        let mut account = Account::default();
        // The last reply thinks 20 tokens, which the prompt after it does not have.
        for (prompt, cached, completion, reasoning) in
            [(1_000, 0, 50, 0), (1_450, 1_040, 30, 20), (1_860, 1_450, 10, 0)]
        {
            account.add("m", &reply(prompt, cached, completion, reasoning));
        }
        assert_eq!(account.bound_tokens, 1_000 + 400 + 400);
        assert_eq!(account.total().usage.uncached_tokens(), 1_000 + 410 + 410);
        assert_eq!(account.read_ratio(), Some(1_011));
    }

    #[test]
    fn a_server_that_counts_nothing_has_no_ratio() {
        let mut account = Account::default();
        account.add("m", &reply(0, 0, 0, 0));
        assert_eq!((account.read_ratio(), account.total().replies), (None, 1));
    }

    #[test]
    fn models_are_kept_apart_and_times_are_summed() {
        let mut account = Account::default();
        account.add("a", &reply(100, 0, 4, 0));
        account.add("b", &reply(200, 0, 1, 0));
        let a = &account.models["a"];
        assert_eq!((a.first_token_ms, a.decode_ms, a.decode_tokens), (100, 300, 3));
        assert_eq!(account.total().usage.prompt_tokens, 300);
    }

    #[test]
    fn a_price_is_for_a_million_tokens() {
        let usage = Usage {
            prompt_tokens: 3_000_000,
            cached_tokens: 1_000_000,
            created_tokens: 500_000,
            completion_tokens: 200_000,
            reasoning_tokens: 100_000,
        };
        let sums = ModelAccount { usage, ..ModelAccount::default() };
        let price =
            Price { prompt: 1_000_000, cached: 100_000, created: 1_250_000, completion: 5_000_000 };
        assert_eq!(sums.cost(&price), 1_500_000 + 100_000 + 625_000 + 1_000_000);
        let huge = Price { prompt: u64::MAX, ..Price::default() };
        assert_eq!(sums.cost(&huge), u64::MAX);
    }

    #[test]
    fn numbers_beyond_all_reason_stop_at_the_largest() {
        let most = u64::MAX;
        let mut account = Account::default();
        for model in ["a", "a", "b"] {
            account.add(model, &reply(most, 0, most, most));
        }
        let total = account.total();
        assert_eq!((total.usage.prompt_tokens, total.decode_tokens), (most, most));
        assert_eq!(account.bound_tokens, most);
        let price = Price { prompt: most, cached: most, created: most, completion: most };
        assert_eq!(total.cost(&price), most);
    }
}
