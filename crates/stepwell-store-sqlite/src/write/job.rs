//! One write: what it does, and who waits for it.

use rusqlite::Connection;
use stepwell_ports::StoreError;
use tokio::sync::oneshot;

use crate::error::About;

/// A write in the queue, whatever its answer is.
pub(crate) trait Job: Send {
    /// What it is about, for errors.
    fn about(&self) -> About;

    /// Does its work inside the open transaction and keeps the answer for later.
    fn apply(&mut self, conn: &Connection) -> rusqlite::Result<()>;

    /// Gives the answer: its own, once its transaction is durable, or that error.
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
}

/// A write with its caller.
pub(crate) struct Pending<T, E, F> {
    about: About,
    work: F,
    kept: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<T, E, F> Pending<T, E, F> {
    pub(crate) fn new(about: About, work: F, reply: oneshot::Sender<Result<T, E>>) -> Self {
        Self { about, work, kept: None, reply }
    }
}

impl<T, E, F> Job for Pending<T, E, F>
where
    F: FnMut(&Connection) -> rusqlite::Result<Result<T, E>> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn about(&self) -> About {
        self.about
    }

    fn apply(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        self.kept = Some((self.work)(conn)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let answer = match (outcome, self.kept) {
            (Ok(()), Some(kept)) => kept,
            (Ok(()), None) => Err(E::from(self.about.failed("it was not carried out"))),
            (Err(error), _) => Err(E::from(error)),
        };
        // A caller that is gone does not want to know.
        let _ = self.reply.send(answer);
    }
}
