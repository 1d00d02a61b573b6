//! A store that takes no more events for a while.

use std::sync::atomic::{AtomicBool, Ordering};

use stepwell_ports::{AppendError, StoreError};
use tokio::sync::watch;

use crate::troubled::{Trouble, Troubled};

/// The store.
pub(crate) type Unsteady = Troubled<FullDisk>;

#[derive(Default)]
pub(crate) struct FullDisk {
    is_full: AtomicBool,
    refused: watch::Sender<u32>,
}

impl Trouble for FullDisk {
    fn before_append(&self) -> Result<(), AppendError> {
        if !self.is_full.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.refused.send_modify(|count| *count += 1);
        let reason = "the disk is full".to_owned();
        Err(AppendError::Unavailable(StoreError::Failed { operation: "append", reason }))
    }
}

impl Unsteady {
    /// From now on events are refused, or taken again.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.trouble.is_full.store(is_full, Ordering::SeqCst);
    }

    /// Returns once an append was refused.
    pub(crate) async fn has_refused(&self) {
        let mut refused = self.trouble.refused.subscribe();
        refused.wait_for(|count| *count > 0).await.unwrap();
    }
}
