//! Time and randomness, handed in at the composition root.

use async_trait::async_trait;
use stepwell_core::{SessionId, TimestampMs};

/// Wall time, and waiting for it.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// Wall time now.
    fn now(&self) -> TimestampMs;

    /// Returns once wall time has reached `at`, also after the clock was set or the machine slept.
    /// Cancel-safe.
    async fn wait_until(&self, at: TimestampMs);
}

/// A source of session ids.
pub trait Random: Send + Sync + 'static {
    /// A new session id that nobody else will draw.
    fn session_id(&self) -> SessionId;
}
