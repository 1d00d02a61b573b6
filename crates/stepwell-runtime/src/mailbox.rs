//! A session's queue of inputs, with an atomic "close if empty".
//!
//! A plain channel cannot say "there is nothing, and from now on nobody may send": between the look
//! and the end of the owner an input could slip in and be lost. Here both happen under one lock.
//!
//! Invariant: a letter is decided by exactly one owner, or comes back to its sender unread.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stepwell_core::summary::session_row;
use stepwell_core::{Fence, Input, SessionId, SessionState};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::effects::EffectId;
use crate::engine::Submitted;
use crate::error::EngineError;
use crate::handover::Handover;

/// Inputs that may wait for one session. A person or a client that sends more is told to wait.
const WAITING_MAX: usize = 1_024;

/// Letters that are decided together. Together with the calls of one reply
/// ([`crate::model_call::TOOL_CALLS_MAX`]) it keeps an append within the store's bound.
const BATCH_MAX: usize = 256;

/// Who sends an input.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// A person, a client, a worker that reports late.
    Outside,
    /// A model call or a tool call that the engine carries out; the token says that it was told to
    /// stop.
    Effect(CancellationToken),
    /// The owner itself.
    Owner,
}

impl Origin {
    /// The engine itself owes the session this input: it is offered again until it is taken.
    pub(crate) fn is_owed(&self) -> bool {
        match self {
            Self::Outside => false,
            Self::Effect(_) | Self::Owner => true,
        }
    }
}

/// An input on its way to a session's owner.
pub(crate) struct Letter {
    /// The input.
    pub(crate) input: Input,
    /// Payloads that belong to it: address and bytes.
    pub(crate) blobs: Vec<(String, Vec<u8>)>,
    /// Who sends it.
    pub(crate) origin: Origin,
    /// Who is told once the input is durable, or why it is not.
    pub(crate) reply: Reply,
}

/// Who is told what becomes of a letter.
pub(crate) enum Reply {
    /// Somebody who waits for it.
    Waiting(oneshot::Sender<Answer>),
    /// An effect that has ended. Nobody waits unless its outcome is not taken.
    Handover(Box<Handover>),
    /// Nobody: the owner wrote it to itself.
    Nobody,
}

/// What becomes of a letter.
pub(crate) enum Answer {
    /// It was decided.
    Decided(Result<Submitted, EngineError>),
    /// The owner left before it looked: send it to the next one.
    Unread {
        /// The input.
        input: Input,
        /// Payloads that belong to it.
        blobs: Vec<(String, Vec<u8>)>,
    },
}

impl Letter {
    /// Tells the sender what became of it. Whoever asked may have gone; the fact stands anyway.
    /// `Ok` is made only for those who wait for it.
    pub(crate) fn answer(self, result: Result<Taken<'_>, EngineError>) {
        match (self.reply, result) {
            (Reply::Waiting(reply), result) => {
                let result = result.and_then(Taken::submitted);
                let _ = reply.send(Answer::Decided(result));
            }
            (Reply::Handover(handover), Ok(_)) => handover.taken(),
            (Reply::Handover(handover), Err(error)) => {
                handover.refused(self.input, self.blobs, &error);
            }
            (Reply::Nobody, _) => {}
        }
    }

    /// Gives it back.
    pub(crate) fn give_back(self) {
        match self.reply {
            Reply::Waiting(reply) => {
                let _ = reply.send(Answer::Unread { input: self.input, blobs: self.blobs });
            }
            Reply::Handover(handover) => handover.unread(self.input, self.blobs),
            Reply::Nobody => {}
        }
    }
}

/// What a sender is told of an input that was taken.
pub(crate) struct Taken<'a> {
    /// The session.
    pub(crate) session_id: SessionId,
    /// Its state after the input.
    pub(crate) state: &'a SessionState,
    /// Whether the input changed something.
    pub(crate) changed: bool,
}

impl Taken<'_> {
    fn submitted(self) -> Result<Submitted, EngineError> {
        let Self { session_id, state, changed } = self;
        let row = session_row(session_id, state).ok_or(EngineError::NotFound { session_id })?;
        Ok(Submitted { row, changed })
    }
}

/// What became of the wish to put a letter in.
pub(crate) enum Sent {
    /// It is in.
    Yes,
    /// The owner is gone, and the letter went back to its sender: find the next owner.
    Closed,
    /// Too many wait: the letter is the caller's again.
    Full(Box<Letter>),
}

/// What an owner finds in its mailbox.
#[derive(Default)]
pub(crate) struct Post {
    /// Inputs, in the order in which they came.
    pub(crate) letters: Vec<Letter>,
    /// Effects that ended without a word.
    pub(crate) ended: Vec<EffectId>,
    /// An effect has found that nobody can carry it out now.
    pub(crate) has_stalled: bool,
    /// This node took the session over with this fence, though it has an owner here.
    pub(crate) claimed: Option<Fence>,
    /// The session was deleted.
    pub(crate) is_deleted: bool,
}

impl Post {
    fn is_empty(&self) -> bool {
        let Self { letters, ended, has_stalled, claimed, is_deleted } = self;
        letters.is_empty() && ended.is_empty() && !has_stalled && claimed.is_none() && !is_deleted
    }
}

#[derive(Default)]
struct Queue {
    letters: VecDeque<Letter>,
    ended: Vec<EffectId>,
    has_stalled: bool,
    claimed: Option<Fence>,
    is_deleted: bool,
    is_closed: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Mailbox {
    queue: Mutex<Queue>,
    arrived: Notify,
    blocked: Mutex<Option<String>>,
    /// What its model call waits for before it is sent.
    in_line: Mutex<Option<&'static str>>,
}

/// See [`Mailbox::in_line`].
pub(crate) struct InLine<'a>(&'a Mailbox);

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        *self.0.in_line.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Mailbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a letter in.
    pub(crate) fn send(&self, letter: Letter) -> Sent {
        let mut queue = self.queue();
        if queue.is_closed {
            drop(queue);
            letter.give_back();
            return Sent::Closed;
        }
        if queue.letters.len() >= WAITING_MAX {
            return Sent::Full(Box::new(letter));
        }
        queue.letters.push_back(letter);
        drop(queue);
        self.arrived.notify_one();
        Sent::Yes
    }

    /// Tells the owner that an effect ended and that nothing will come of it.
    pub(crate) fn effect_ended(&self, effect: EffectId) {
        let mut queue = self.queue();
        if !queue.is_closed {
            queue.ended.push(effect);
            drop(queue);
            self.arrived.notify_one();
        }
    }

    /// Tells the owner that an effect waits for what nobody offers.
    pub(crate) fn effect_stalled(&self) {
        self.queue().has_stalled = true;
        self.arrived.notify_one();
    }

    /// Tells the owner with which fence this node has the session now. One with an older fence lost it
    /// meanwhile and does not know it yet.
    pub(crate) fn claimed(&self, fence: Fence) {
        let mut queue = self.queue();
        if !queue.is_closed {
            queue.claimed = Some(fence);
            drop(queue);
            self.arrived.notify_one();
        }
    }

    /// Tells the owner that the session was deleted.
    pub(crate) fn deleted(&self) {
        self.queue().is_deleted = true;
        self.arrived.notify_one();
    }

    /// Waits for something and takes it. Cancel-safe.
    pub(crate) async fn receive(&self) -> Post {
        loop {
            let arrived = self.arrived.notified();
            let post = self.take();
            if !post.is_empty() {
                return post;
            }
            arrived.await;
        }
    }

    /// Takes what is there, one batch at most.
    pub(crate) fn take(&self) -> Post {
        let mut queue = self.queue();
        let batch = queue.letters.len().min(BATCH_MAX);
        let letters = queue.letters.drain(..batch).collect();
        if !queue.letters.is_empty() {
            self.arrived.notify_one();
        }
        let ended = std::mem::take(&mut queue.ended);
        let has_stalled = std::mem::take(&mut queue.has_stalled);
        let (claimed, is_deleted) = (queue.claimed.take(), queue.is_deleted);
        Post { letters, ended, has_stalled, claimed, is_deleted }
    }

    /// Closes the box if no letter is in it; says whether it is closed now.
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
        let blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let in_line = || *self.in_line.lock().unwrap_or_else(PoisonError::into_inner);
        blocked.or_else(|| in_line().map(str::to_owned))
    }

    /// Says what its model call waits for before it is sent, until that is dropped.
    pub(crate) fn in_line(&self, place: &'static str) -> InLine<'_> {
        *self.in_line.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
        InLine(self)
    }

    /// Says what the session waits for.
    pub(crate) fn set_blocked(&self, reason: Option<String>) {
        *self.blocked.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}
