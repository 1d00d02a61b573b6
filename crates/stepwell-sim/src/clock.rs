//! Wall clocks over tokio's paused time: one time for the world, a skew for each node, jumps.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use stepwell_core::TimestampMs;
use stepwell_ports::Clock;
use tokio::time::Instant;

use crate::gate::Gate;
use crate::signal::Signal;

/// Wall time at the beginning of the world: 2026-01-01 UTC.
pub const BEGIN_MS: u64 = 1_767_225_600_000;

/// Longest sleep of a clock, so that a timer which never fires is no jump of tokio's paused time.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The time of the world.
#[derive(Debug)]
pub struct Time {
    begin: Instant,
    jumped_ms: AtomicI64,
    ahead_ms_max: AtomicI64,
    jumped: Signal,
}

impl Time {
    /// Time that begins now.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            begin: Instant::now(),
            jumped_ms: AtomicI64::new(0),
            ahead_ms_max: AtomicI64::new(0),
            jumped: Signal::default(),
        })
    }

    /// Time that passed, whatever the wall clocks say.
    pub fn elapsed_ms(&self) -> u64 {
        self.begin.elapsed().as_millis() as u64
    }

    /// Sets all wall clocks forward, or back when `ms` is negative.
    pub fn jump(&self, ms: i64) {
        let jumped_ms = self.jumped_ms.fetch_add(ms, Ordering::SeqCst) + ms;
        self.ahead_ms_max.fetch_max(jumped_ms, Ordering::SeqCst);
        self.jumped.raise();
    }

    /// Sets all wall clocks to the latest time that any of them would show without the jumps back, so
    /// that no timer waits for a time that was taken away.
    pub fn heal(&self) {
        let ahead_ms = self.ahead_ms_max.load(Ordering::SeqCst);
        self.jumped_ms.store(ahead_ms, Ordering::SeqCst);
        self.jumped.raise();
    }

    /// Wall time of a clock without skew.
    pub fn now(&self) -> TimestampMs {
        self.skewed(0)
    }

    fn skewed(&self, skew_ms: i64) -> TimestampMs {
        let jumped = self.jumped_ms.load(Ordering::SeqCst) + skew_ms;
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
            loop {
                let seen = self.time.jumped.changes();
                let left_ms = at.since_ms(self.now());
                if left_ms == 0 {
                    return;
                }
                let sleep = tokio::time::sleep(Duration::from_millis(left_ms).min(SLEEP_MAX));
                tokio::select! {
                    biased;
                    () = self.time.jumped.changed_since(seen) => {}
                    () = sleep => {}
                }
            }
        };
        self.gate.pass(wait).await;
    }
}
