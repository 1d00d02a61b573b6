//! A clock that can be moved on: a recorded task that sleeps for a night does not take one again.

use async_trait::async_trait;
use stepwell_core::TimestampMs;
use stepwell_ports::Clock;
use stepwell_runtime::system::SystemClock;
use tokio::sync::watch;

/// Wall time, and what was skipped.
#[derive(Debug, Default)]
pub(super) struct SkippingClock {
    skipped_ms: watch::Sender<u64>,
}

impl SkippingClock {
    /// Makes it `at`, if that is to come.
    pub(super) fn skip_to(&self, at: TimestampMs) {
        let left = at.since_ms(self.now());
        self.skipped_ms.send_modify(|it| *it = it.saturating_add(left));
    }
}

#[async_trait]
impl Clock for SkippingClock {
    fn now(&self) -> TimestampMs {
        SystemClock.now().plus_ms(*self.skipped_ms.borrow())
    }

    async fn wait_until(&self, at: TimestampMs) {
        let mut skipped = self.skipped_ms.subscribe();
        loop {
            let by = *skipped.borrow_and_update();
            let real = TimestampMs(at.0.saturating_sub(by));
            tokio::select! {
                () = SystemClock.wait_until(real) => return,
                // The sender lives as long as this clock.
                _ = skipped.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_skip_ends_the_wait_of_one_who_waits_already() {
        let clock = SkippingClock::default();
        let at = clock.now().plus_ms(3_600_000);
        let waiting = clock.wait_until(at);
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            () = &mut waiting => panic!("an hour passed"),
            () = std::future::ready(()) => {}
        }
        clock.skip_to(at);
        waiting.await;
        assert!(clock.now() >= at);
    }
}
