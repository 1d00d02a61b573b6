//! What a run costs: tokens by their prices.

use stepwell_core::account::{ModelAccount, Price};
use stepwell_core::event::Usage;

use crate::config;

/// What a million tokens costs, in whatever currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prices(Price);

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
        let micros = |text: &str| text.parse().ok().and_then(config::price_micros);
        let prices: Option<Vec<u64>> = text.split('/').map(micros).collect();
        match prices.as_deref() {
            Some(&[prompt, cached, completion]) => {
                Ok(Self(Price { prompt, cached, created: prompt, completion }))
            }
            Some(_) | None => Err(wrong()),
        }
    }

    /// What that costs. Cached tokens are a part of the prompt.
    pub(super) fn cost(&self, usage: &Usage) -> f64 {
        let sums = ModelAccount { usage: *usage, ..ModelAccount::default() };
        sums.cost(&self.0) as f64 / 1e6
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
        let usage = Usage {
            prompt_tokens: 1_000_000,
            cached_tokens: 400_000,
            completion_tokens: 250_000,
            ..Usage::default()
        };
        assert_eq!(shown(prices.cost(&usage)), "3.4000");
    }

    #[test]
    fn prices_are_three_numbers() {
        for wrong in ["", "1", "1/2", "1/2/x", "1/2/-3", "1/2/3/4", "1/NaN/2"] {
            assert!(Prices::parse(wrong).unwrap_err().contains("0.5/0.05/1.5"), "{wrong}");
        }
    }
}
