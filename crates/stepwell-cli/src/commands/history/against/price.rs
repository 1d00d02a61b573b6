//! What a run costs: tokens by their prices.

use stepwell_core::event::Usage;

/// Prices are of so many tokens.
const TOKENS: f64 = 1e6;

/// What a million tokens costs, in whatever currency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prices {
    prompt: f64,
    cached: f64,
    answer: f64,
}

impl Prices {
    /// Reads `PROMPT/CACHED/ANSWER`.
    ///
    /// # Errors
    /// In words, for the command line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            "write PROMPT/CACHED/ANSWER, the prices of a million tokens, for example 0.5/0.05/1.5"
                .to_owned()
        };
        let number = |text: &str| text.parse().ok().filter(|it: &f64| it.is_finite() && *it >= 0.0);
        let prices: Option<Vec<f64>> = text.split('/').map(number).collect();
        match prices.as_deref() {
            Some(&[prompt, cached, answer]) => Ok(Self { prompt, cached, answer }),
            Some(_) | None => Err(wrong()),
        }
    }

    /// What that costs. Cached tokens are a part of the prompt.
    pub(super) fn cost(&self, usage: &Usage) -> f64 {
        let tokens = |count: u64| count as f64 / TOKENS;
        let new = usage.prompt_tokens.saturating_sub(usage.cached_tokens);
        tokens(new) * self.prompt
            + tokens(usage.cached_tokens) * self.cached
            + tokens(usage.completion_tokens) * self.answer
    }
}

/// A cost in a table.
pub(super) fn shown(cost: f64) -> String {
    format!("{cost:.4}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_have_their_own_price() {
        let prices = Prices::parse("2/0.5/8").unwrap();
        let usage =
            Usage { prompt_tokens: 1_000_000, cached_tokens: 400_000, completion_tokens: 250_000 };
        assert_eq!(shown(prices.cost(&usage)), "3.4000");
    }

    #[test]
    fn prices_are_three_numbers() {
        for wrong in ["", "1", "1/2", "1/2/x", "1/2/-3", "1/2/3/4", "1/NaN/2"] {
            assert!(Prices::parse(wrong).unwrap_err().contains("0.5/0.05/1.5"), "{wrong}");
        }
    }
}
