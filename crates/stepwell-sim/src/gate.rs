//! The life of a node, in front of all that its engine asks of the outside.
//!
//! A dead node's calls never come back and whatever ran inside of them is dropped: for everybody else
//! that is what SIGKILL looks like, at whichever await point it struck. A frozen node stands still at
//! its next call and goes on later with what it believed then: a long pause of the machine.

use std::future::Future;

use tokio::sync::watch;

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
    life: watch::Sender<Life>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { life: watch::Sender::new(Life::Running) }
    }
}

impl Gate {
    /// Where the node is in its life.
    pub fn life(&self) -> Life {
        *self.life.borrow()
    }

    /// Ends the node at once.
    pub fn kill(&self) {
        self.life.send_replace(Life::Dead);
    }

    /// Stops the node until [`Gate::thaw`].
    pub fn freeze(&self) {
        self.change(Life::Running, Life::Frozen);
    }

    /// Lets a frozen node go on.
    pub fn thaw(&self) {
        self.change(Life::Frozen, Life::Running);
    }

    fn change(&self, from: Life, to: Life) {
        self.life.send_if_modified(|life| {
            let is_from = *life == from;
            if is_from {
                *life = to;
            }
            is_from
        });
    }

    /// Lets a call through while the node runs.
    pub async fn pass<F: Future>(&self, call: F) -> F::Output {
        let mut life = self.life.subscribe();
        let mut call = Some(Box::pin(call));
        loop {
            let now = *life.borrow_and_update();
            match (now, &mut call) {
                (Life::Running, Some(running)) => tokio::select! {
                    biased;
                    _ = life.changed() => {}
                    output = running => return output,
                },
                (Life::Dead, _) => {
                    call = None;
                    std::future::pending::<()>().await;
                }
                (Life::Frozen | Life::Running, _) => {
                    // The sender lives as long as this gate.
                    let _ = life.changed().await;
                }
            }
        }
    }

    /// Returns once the node is dead.
    pub async fn died(&self) {
        let mut life = self.life.subscribe();
        let _ = life.wait_for(|life| *life == Life::Dead).await;
    }
}
