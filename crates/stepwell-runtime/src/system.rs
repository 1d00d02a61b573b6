//! The real clock and real randomness, for composition roots.

use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use stepwell_core::{SessionId, TimestampMs};
use stepwell_ports::{Clock, Random};

/// Longest sleep before the wall clock is looked at again: bounds how late a timer can notice that
/// the clock was set forward or that the machine slept.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The wall clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the adapter that others take as Clock")]
    fn now(&self) -> TimestampMs {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        TimestampMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    async fn wait_until(&self, at: TimestampMs) {
        loop {
            let left = at.since_ms(self.now());
            if left == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(left).min(LOOK_EVERY)).await;
        }
    }
}

/// The random numbers of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn session_id(&self) -> SessionId {
        SessionId::from_random(random_bytes())
    }
}

/// 16 random bytes.
///
/// # Panics
/// If the operating system gives no random numbers.
pub fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    #[expect(clippy::expect_used, reason = "a system without randomness cannot name sessions")]
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// The process's async runtime, as engines want it: a thread a core, less the core of the store's
/// writer, which is on the way of every step. With a thread on that core as well, the two take turns
/// there, and each commit wakes a second thread for nothing.
///
/// # Errors
/// When the operating system gives no threads.
pub fn async_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = cores.saturating_sub(1).max(1);
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}
