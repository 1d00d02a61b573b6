//! A store that does something of the test's right after it has read events.

use std::pin::Pin;
use std::sync::Mutex;

use async_trait::async_trait;

use crate::troubled::{Trouble, Troubled};

type Hook = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The store.
pub(crate) type Interposed = Troubled<AfterRead>;

/// What is done once, between a read and its answer.
#[derive(Default)]
pub(crate) struct AfterRead(Mutex<Option<Hook>>);

#[async_trait]
impl Trouble for AfterRead {
    async fn after_read(&self) {
        let hook = self.0.lock().unwrap().take();
        if let Some(hook) = hook {
            hook.await;
        }
    }
}

impl Interposed {
    /// Does `hook` after the next read of events.
    pub(crate) fn after_next_read(&self, hook: impl Future<Output = ()> + Send + 'static) {
        *self.trouble.0.lock().unwrap() = Some(Box::pin(hook));
    }
}
