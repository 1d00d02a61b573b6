//! A session's queue of inputs, with an atomic "close if empty".
//!
//! A plain channel cannot say "there is nothing, and from now on nobody may send": between the look
//! and the end of the owner an input could slip in and be lost. Here both happen under one lock.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stepwell_core::Input;
use tokio::sync::{Notify, oneshot};

use crate::engine::Submitted;
use crate::error::EngineError;

/// Inputs that may wait for one session. A person or a client that sends more is told to wait.
const WAITING_MAX: usize = 1_024;

/// An input on its way to a session's owner.
pub(crate) struct Letter {
    /// The input.
    pub(crate) input: Input,
    /// Payloads that belong to it: address and bytes.
    pub(crate) blobs: Vec<(String, Vec<u8>)>,
    /// Told once the input is durable, or why it is not.
    pub(crate) reply: oneshot::Sender<Result<Submitted, EngineError>>,
}

/// Why a letter was not taken; it comes back.
pub(crate) enum Returned {
    /// The owner is gone: find the next one.
    Closed(Letter),
    /// Too many wait.
    Full,
}

#[derive(Default)]
struct Queue {
    letters: VecDeque<Letter>,
    is_closed: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Mailbox {
    queue: Mutex<Queue>,
    arrived: Notify,
    blocked: Mutex<Option<String>>,
}

impl Mailbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a letter in.
    pub(crate) fn send(&self, letter: Letter) -> Result<(), Returned> {
        let mut queue = self.queue();
        if queue.is_closed {
            return Err(Returned::Closed(letter));
        }
        if queue.letters.len() >= WAITING_MAX {
            return Err(Returned::Full);
        }
        queue.letters.push_back(letter);
        drop(queue);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for letters and takes all that are there.
    pub(crate) async fn receive(&self) -> Vec<Letter> {
        loop {
            let arrived = self.arrived.notified();
            let letters = self.take();
            if !letters.is_empty() {
                return letters;
            }
            arrived.await;
        }
    }

    /// Takes all letters that are there.
    pub(crate) fn take(&self) -> Vec<Letter> {
        self.queue().letters.drain(..).collect()
    }

    /// Closes the box if it is empty; says whether it is closed now.
    pub(crate) fn close_if_empty(&self) -> bool {
        let mut queue = self.queue();
        queue.is_closed |= queue.letters.is_empty();
        queue.is_closed
    }

    /// Closes the box and takes what is left in it.
    pub(crate) fn close(&self) -> Vec<Letter> {
        let mut queue = self.queue();
        queue.is_closed = true;
        queue.letters.drain(..).collect()
    }

    /// What the session waits for that is not in its log.
    pub(crate) fn blocked(&self) -> Option<String> {
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says what the session waits for.
    pub(crate) fn set_blocked(&self, reason: Option<String>) {
        *self.blocked.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}
