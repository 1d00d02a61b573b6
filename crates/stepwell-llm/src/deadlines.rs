//! The time limits of one call, and which of them comes next.
//!
//! Invariant: no clock is read here, `now` comes in.

use std::fmt;
use std::time::Duration;

use stepwell_core::agent::ModelTimeouts;
use stepwell_core::event::TimeLimit;
use tokio::time::Instant;

/// Longer limits are cut to this, a year, so that no sum of time overflows.
const LIMIT_MS_MAX: u64 = 365 * 24 * 60 * 60 * 1_000;

/// How long to wait for the rest (usage, end mark) once the server said that the answer is whole.
/// After it the answer is taken without its usage.
const TAIL_MS_MAX: u64 = 5_000;

/// A limit that can pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// From the request to the first token.
    FirstToken(u64),
    /// From one token to the next.
    BetweenTokens(u64),
    /// From the last token to the end of the stream; no failure.
    Tail,
    /// The whole call.
    Total(u64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstToken(ms) => write!(
                f,
                "no token within {ms} ms of the request (`first_token` of [model.timeouts])"
            ),
            Self::BetweenTokens(ms) => {
                write!(f, "no further token within {ms} ms (`between_tokens` of [model.timeouts])")
            }
            Self::Tail => f.write_str("no end of the stream after the end of the answer"),
            Self::Total(ms) => {
                write!(f, "not finished within {ms} ms (`total` of [model.timeouts])")
            }
        }
    }
}

impl From<Limit> for TimeLimit {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::FirstToken(_) => Self::FirstToken,
            Limit::BetweenTokens(_) | Limit::Tail => Self::BetweenTokens,
            Limit::Total(_) => Self::Total,
        }
    }
}

/// The limits of one call that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    started: Instant,
    limits: ModelTimeouts,
    first_token: Option<Instant>,
    last_token: Instant,
    is_whole: bool,
}

impl Deadlines {
    /// The limits of a call that begins now.
    pub(crate) fn new(limits: ModelTimeouts, now: Instant) -> Self {
        Self { started: now, limits, first_token: None, last_token: now, is_whole: false }
    }

    /// A token has come. What keeps a connection alive without one is not to be reported here.
    pub(crate) fn token(&mut self, now: Instant) {
        self.last_token = now;
        self.first_token.get_or_insert(now);
    }

    /// The server said that the answer is whole.
    pub(crate) fn whole(&mut self, now: Instant) {
        if !self.is_whole {
            self.token(now);
            self.is_whole = true;
        }
    }

    /// The next limit and when it passes.
    pub(crate) fn next(&self) -> (Instant, Limit) {
        let ModelTimeouts { first_token_ms, between_tokens_ms, total_ms, .. } = self.limits;
        let (from, ms, limit) = if self.is_whole {
            (self.last_token, TAIL_MS_MAX, Limit::Tail)
        } else if self.first_token.is_some() {
            (self.last_token, between_tokens_ms, Limit::BetweenTokens(between_tokens_ms))
        } else {
            (self.started, first_token_ms, Limit::FirstToken(first_token_ms))
        };
        let next = (after(from, ms), limit);
        let total = (after(self.started, total_ms), Limit::Total(total_ms));
        // A whole answer is not lost to a limit that passes while its usage is on the way.
        if total.0 < next.0 && !self.is_whole { total } else { next }
    }

    /// Milliseconds from the request to the first token, to `now` when there was none.
    pub(crate) fn first_token_ms(&self, now: Instant) -> u64 {
        elapsed_ms(self.started, self.first_token.unwrap_or(now))
    }

    /// Milliseconds since the request.
    pub(crate) fn elapsed_ms(&self, now: Instant) -> u64 {
        elapsed_ms(self.started, now)
    }
}

fn after(from: Instant, ms: u64) -> Instant {
    from + Duration::from_millis(ms.min(LIMIT_MS_MAX))
}

fn elapsed_ms(from: Instant, to: Instant) -> u64 {
    to.saturating_duration_since(from).as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> ModelTimeouts {
        ModelTimeouts {
            connect_ms: 1,
            first_token_ms: 1_000,
            between_tokens_ms: 300,
            total_ms: 10_000,
        }
    }

    #[test]
    fn each_phase_has_its_limit() {
        let started = Instant::now();
        let at = |ms| started + Duration::from_millis(ms);
        let mut deadlines = Deadlines::new(limits(), started);
        assert_eq!(deadlines.next(), (at(1_000), Limit::FirstToken(1_000)));
        deadlines.token(at(900));
        assert_eq!(deadlines.next(), (at(1_200), Limit::BetweenTokens(300)));
        deadlines.token(at(1_100));
        assert_eq!(deadlines.next(), (at(1_400), Limit::BetweenTokens(300)));
        deadlines.whole(at(1_150));
        deadlines.whole(at(1_200));
        assert_eq!(deadlines.next(), (at(1_150 + TAIL_MS_MAX), Limit::Tail));
        assert_eq!(
            (deadlines.first_token_ms(at(1_200)), deadlines.elapsed_ms(at(1_200))),
            (900, 1_200)
        );
    }

    #[test]
    fn the_whole_call_ends_the_other_limits() {
        let started = Instant::now();
        let at = |ms| started + Duration::from_millis(ms);
        let mut deadlines = Deadlines::new(ModelTimeouts { total_ms: 1_100, ..limits() }, started);
        deadlines.token(at(900));
        assert_eq!(deadlines.next(), (at(1_100), Limit::Total(1_100)));
        deadlines.whole(at(1_000));
        assert_eq!(deadlines.next().1, Limit::Tail);
    }

    #[test]
    fn limits_beyond_time_are_no_overflow() {
        let endless = ModelTimeouts {
            connect_ms: u64::MAX,
            first_token_ms: u64::MAX,
            between_tokens_ms: u64::MAX,
            total_ms: u64::MAX,
        };
        let now = Instant::now();
        let mut deadlines = Deadlines::new(endless, now);
        assert_eq!(deadlines.next().1, Limit::FirstToken(u64::MAX));
        deadlines.token(now);
        assert_eq!(deadlines.next().1, Limit::BetweenTokens(u64::MAX));
    }
}
