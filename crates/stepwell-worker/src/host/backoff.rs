//! Waits between attempts to connect: they grow, and differ between workers.

use std::time::Duration;

use super::options::{RECONNECT_BASE, RECONNECT_CAP};

#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// The next wait: between half and the whole of `base × 2^n`, at most the cap. Many workers that
    /// lost one server at the same moment do not come back at the same moment.
    pub(super) fn next(&mut self) -> Duration {
        let doubled = RECONNECT_BASE.saturating_mul(1 << self.attempts.min(16));
        self.attempts = self.attempts.saturating_add(1);
        let half = doubled.min(RECONNECT_CAP) / 2;
        // Without randomness the wait is the shortest: still growing, only not spread.
        let random = getrandom::u32().unwrap_or(0);
        half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
    }

    /// The connection stood: the next break starts from the beginning.
    pub(super) fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_start_again() {
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..40).map(|_| backoff.next()).collect();
        assert!(waits[0] >= RECONNECT_BASE / 2 && waits[0] <= RECONNECT_BASE, "{waits:?}");
        assert!(waits[1] >= RECONNECT_BASE && waits[1] <= RECONNECT_BASE * 2, "{waits:?}");
        assert!(waits.iter().all(|it| *it <= RECONNECT_CAP), "{waits:?}");
        assert!(waits[39] >= RECONNECT_CAP / 2, "{waits:?}");
        backoff.reset();
        assert!(backoff.next() <= RECONNECT_BASE);
    }
}
