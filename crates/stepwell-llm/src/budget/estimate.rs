//! How many tokens a request has, from its bytes alone. Pure.

use stepwell_core::account::Measured;

/// Bytes of a token where the server has not counted yet: that of English text and of code.
const BYTES_PER_TOKEN: u64 = 4;

/// New text may have this many times as many tokens in its bytes as the text before (digits, rare
/// scripts) …
const DENSER_TIMES: u64 = 2;

/// … or only this part of them (blanks, lines of dashes).
const SPARSER_TIMES: u64 = 4;

/// Tokens of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Estimate {
    pub(super) at_least: u64,
    pub(super) likely: u64,
    pub(super) at_most: u64,
}

/// The tokens of a request of `bytes` that begins with the prompt that was `measured`. That part is
/// known; of what is new it is guessed from how dense that part is.
pub(super) fn estimate(bytes: u64, measured: Option<&Measured>) -> Estimate {
    let measured = measured.filter(|it| it.bytes > 0 && it.tokens > 0);
    let (known, known_bytes) = measured.map_or((0, 0), |it| (it.tokens, it.bytes));
    let (tokens, of_bytes) = measured.map_or((1, BYTES_PER_TOKEN), |it| (it.tokens, it.bytes));
    // Of a fork that left something out of its prompt nothing is new.
    let new_bytes = u128::from(bytes.saturating_sub(known_bytes));
    let new = new_bytes.saturating_mul(u128::from(tokens)) / u128::from(of_bytes);
    let new = u64::try_from(new).unwrap_or(u64::MAX);
    Estimate {
        at_least: known.saturating_add(new / SPARSER_TIMES),
        likely: known.saturating_add(new),
        at_most: known.saturating_add(new.saturating_mul(DENSER_TIMES)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: u64, measured: Option<(u64, u64)>, expected: [u64; 3]) {
        let measured = measured.map(|(bytes, tokens)| Measured {
            model: "m".into(),
            bytes,
            messages: 2,
            tokens,
        });
        let Estimate { at_least, likely, at_most } = estimate(bytes, measured.as_ref());
        assert_eq!([at_least, likely, at_most], expected, "{bytes} {measured:?}");
    }

    #[test]
    fn what_was_counted_is_known_and_what_is_new_is_guessed() {
        check(40_000, None, [2_500, 10_000, 20_000]);
        check(40_000, Some((30_000, 10_000)), [10_833, 13_333, 16_666]);
        check(30_000, Some((30_000, 10_000)), [10_000, 10_000, 10_000]);
        check(20_000, Some((30_000, 10_000)), [10_000, 10_000, 10_000]);
    }

    #[test]
    fn senseless_counts_are_no_panic() {
        check(400, Some((0, 7)), [25, 100, 200]);
        check(400, Some((7, 0)), [25, 100, 200]);
        check(u64::MAX, Some((1, u64::MAX)), [u64::MAX; 3]);
    }
}
