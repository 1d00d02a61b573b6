//! The signals that end a process in order.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What comes so soon after the first is the same order once more: `timeout`, terminals and process
/// managers send a signal to the process and to its group.
const AS_ONE: Duration = Duration::from_millis(300);

/// SIGTERM and SIGINT. Neither ends the process by itself any more once this is there, so it is made
/// before anybody is told that the process can be talked to.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes them over.
    ///
    /// # Errors
    /// When the system does not let it.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Returns when one of them comes.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Called after the first came: returns when somebody has lost patience.
    pub(crate) async fn wait_again(&mut self) {
        let settled = tokio::time::sleep(AS_ONE);
        tokio::pin!(settled);
        loop {
            tokio::select! {
                biased;
                () = &mut settled => break,
                () = self.wait() => {}
            }
        }
        self.wait().await;
    }
}
