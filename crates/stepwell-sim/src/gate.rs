//! The life of a node, in front of all that its engine asks of the outside.
//!
//! A dead node's calls never come back and whatever ran inside of them is dropped: for everybody else
//! that is what SIGKILL looks like, at whichever await point it struck. A frozen node stands still at
//! its next call and goes on later with what it believed then: a long pause of the machine.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use crate::signal::Signal;

/// Where a node is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It runs.
    Running,
    /// It stands still, and may go on.
    Frozen,
    /// It is gone for good.
    Dead,
}

/// See the module.
#[derive(Debug)]
pub struct Gate {
    life: Mutex<Life>,
    changed: Signal,
}

impl Default for Gate {
    fn default() -> Self {
        Self { life: Mutex::new(Life::Running), changed: Signal::default() }
    }
}

impl Gate {
    /// Where the node is in its life.
    pub fn life(&self) -> Life {
        *self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the node at once.
    pub fn kill(&self) {
        self.change(&[Life::Running, Life::Frozen], Life::Dead);
    }

    /// Stops the node until [`Gate::thaw`].
    pub fn freeze(&self) {
        self.change(&[Life::Running], Life::Frozen);
    }

    /// Lets a frozen node go on.
    pub fn thaw(&self) {
        self.change(&[Life::Frozen], Life::Running);
    }

    fn change(&self, from: &[Life], to: Life) {
        {
            let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
            if !from.contains(&life) {
                return;
            }
            *life = to;
        }
        self.changed.raise();
    }

    /// Lets a call through while the node runs.
    pub async fn pass<F: Future>(&self, call: F) -> F::Output {
        let mut call = Some(Box::pin(call));
        loop {
            let seen = self.changed.changes();
            match (self.life(), &mut call) {
                (Life::Running, Some(running)) => tokio::select! {
                    biased;
                    () = self.changed.changed_since(seen) => {}
                    output = running => return output,
                },
                (Life::Dead, _) => {
                    call = None;
                    std::future::pending::<()>().await;
                }
                (Life::Frozen | Life::Running, _) => self.changed.changed_since(seen).await,
            }
        }
    }

    /// Returns once the node is dead.
    pub async fn died(&self) {
        loop {
            let seen = self.changed.changes();
            if self.life() == Life::Dead {
                return;
            }
            self.changed.changed_since(seen).await;
        }
    }
}
