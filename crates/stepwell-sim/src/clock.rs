//! Wall clocks over tokio's paused time: one time for the world, a skew for each node, jumps.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use stepwell_core::TimestampMs;
use stepwell_ports::Clock;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::gate::Gate;

/// Wall time at the beginning of the world: 2026-01-01 UTC.
pub const BEGIN_MS: u64 = 1_767_225_600_000;

/// Longest sleep of a clock, so that a timer which never fires is no jump of tokio's paused time.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The time of the world.
#[derive(Debug)]
pub struct Time {
    begin: Instant,
    jumped_ms: watch::Sender<i64>,
    ahead_ms_max: AtomicI64,
}

impl Time {
    /// Time that begins now.
    pub fn new() -> Arc<Self> {
        let jumped_ms = watch::Sender::new(0);
        Arc::new(Self { begin: Instant::now(), jumped_ms, ahead_ms_max: AtomicI64::new(0) })
    }

    /// Time that passed, whatever the wall clocks say.
    pub fn elapsed_ms(&self) -> u64 {
        self.begin.elapsed().as_millis() as u64
    }

    /// Sets all wall clocks forward, or back when `ms` is negative.
    pub fn jump(&self, ms: i64) {
        self.jumped_ms.send_modify(|jumped| *jumped += ms);
        self.ahead_ms_max.fetch_max(*self.jumped_ms.borrow(), Ordering::SeqCst);
    }

    /// Sets all wall clocks to the latest time that any of them would show without the jumps back, so
    /// that no timer waits for a time that was taken away.
    pub fn heal(&self) {
        self.jumped_ms.send_replace(self.ahead_ms_max.load(Ordering::SeqCst));
    }

    /// Wall time of a clock without skew.
    pub fn now(&self) -> TimestampMs {
        self.skewed(0)
    }

    fn skewed(&self, skew_ms: i64) -> TimestampMs {
        let jumped = *self.jumped_ms.borrow() + skew_ms;
        TimestampMs((BEGIN_MS + self.elapsed_ms()).saturating_add_signed(jumped))
    }
}

/// The wall clock of one node.
#[derive(Debug)]
pub struct NodeClock {
    /// The time of the world.
    pub time: Arc<Time>,
    /// How much this node's clock is ahead of the world's.
    pub skew_ms: i64,
    /// The life of the node.
    pub gate: Arc<Gate>,
}

#[async_trait]
impl Clock for NodeClock {
    fn now(&self) -> TimestampMs {
        self.time.skewed(self.skew_ms)
    }

    async fn wait_until(&self, at: TimestampMs) {
        let wait = async {
            let mut jumps = self.time.jumped_ms.subscribe();
            loop {
                let left_ms = at.since_ms(self.now());
                if left_ms == 0 {
                    return;
                }
                let sleep = tokio::time::sleep(Duration::from_millis(left_ms).min(SLEEP_MAX));
                tokio::select! {
                    biased;
                    _ = jumps.changed() => {}
                    () = sleep => {}
                }
            }
        };
        self.gate.pass(wait).await;
    }
}
