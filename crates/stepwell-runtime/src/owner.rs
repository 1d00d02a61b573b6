//! The one task that owns a session while it is in memory.
//!
//! It takes inputs from the session's mailbox, decides them, appends all that follows in one write,
//! and then keeps the running model and tool calls equal to what is pending. When nothing is owed but
//! waiting, it leaves, and the session is a row in the store again.
//!
//! Inputs are always served; work is carried out only while the owner holds one of the places in
//! memory. An owner that finds none leaves too, and so does one whose calls no worker takes; the
//! scheduler comes back to the session.
//!
//! Invariants: no `.await` stands between reading and changing the state, except the append itself.
//! An owner that leaves a session with work to do tells the scheduler.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use stepwell_core::pending::needs_owner;
use stepwell_core::state::STATE_VERSION;
use stepwell_core::{Command, Input, SessionId, SessionState, TimestampMs, pending};
use stepwell_ports::{AppendError, Claim, StoreError};
use tokio::sync::OwnedSemaphorePermit;

use crate::draft::{Draft, draft};
use crate::effects::Effects;
use crate::engine::{Engine, Inner, append_of};
use crate::error::EngineError;
use crate::load::{CHECKPOINT_EVENTS, is_worth_caching, keep_checkpoint, load, refresh};
use crate::mailbox::{Letter, Mailbox, Origin, Post, Reply};
use crate::reserve::reserve;
use crate::stall::Absent;
use crate::task::pause;

/// How often one batch is decided again after somebody else appended first.
const CONFLICTS_MAX: u32 = 8;

/// First and longest wait between two tries to read a session back from a store that fails.
const REREAD: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long an owner waits before it offers the store a due timer again.
const WAKE_AGAIN: Duration = Duration::from_secs(1);

/// A place in memory: the right to carry out a session's work.
pub(crate) type Place = OwnedSemaphorePermit;

/// How an owner begins.
pub(crate) enum Start {
    /// The state is in the store only, and the claim is held already.
    Claimed(Claim),
    /// The session must be claimed, whoever has it.
    TakeOver,
    /// The session is worked on only if this node has it.
    IfOurs,
    /// The session was just created.
    Created {
        /// The claim of its creator.
        claim: Claim,
        /// Its state.
        state: Box<SessionState>,
    },
}

/// How an owner leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Departure {
    /// The session waits for an input or for a timer that the store knows.
    Parked,
    /// There is work, and no place in memory.
    NoRoom,
    /// There is work, and nobody who could do it.
    NoWorker(Absent),
    /// Something is not as it should be, or not known: somebody has to look at the session later.
    InDoubt,
    /// The session is not to be worked on: it does not exist, or its log is bad.
    Gone,
}

/// See the module.
pub(crate) struct Owner {
    engine: Engine,
    session_id: SessionId,
    mailbox: Arc<Mailbox>,
    claim: Claim,
    state: SessionState,
    effects: Effects,
    cached_at: u64,
    /// The place in memory.
    place: Option<Place>,
    /// The outcome of an append was unknown: it may still become durable.
    is_in_doubt: bool,
    /// The store did not take something that is owed to the session and will be offered again.
    owes: bool,
    /// The store did not take a due timer.
    must_rest: bool,
}

/// Leaves the table of owners however the owner ends, so that nobody waits for a dead one.
struct Leave {
    engine: Engine,
    session_id: SessionId,
    mailbox: Arc<Mailbox>,
    /// What a panic leaves behind is in doubt.
    departure: Departure,
}

impl Drop for Leave {
    fn drop(&mut self) {
        let unread = self.mailbox.close();
        self.engine.forget(self.session_id, &self.mailbox);
        let planner = &self.engine.inner.planner;
        match std::mem::replace(&mut self.departure, Departure::Gone) {
            Departure::Parked | Departure::Gone => {}
            Departure::NoRoom => planner.wait_for_room(self.session_id),
            Departure::NoWorker(absent) => planner.wait_for_worker(self.session_id, absent),
            Departure::InDoubt => planner.look_later(self.session_id),
        }
        planner.owner_left();
        unread.into_iter().for_each(Letter::give_back);
    }
}

impl Owner {
    /// Starts the owner of a session, with a place in memory if the caller took one for it.
    pub(crate) fn spawn(
        engine: &Engine,
        session_id: SessionId,
        mailbox: Arc<Mailbox>,
        start: Start,
        place: Option<Place>,
    ) {
        let engine = engine.clone();
        let departure = Departure::InDoubt;
        let leave =
            Leave { engine: engine.clone(), session_id, mailbox: mailbox.clone(), departure };
        engine.inner.owners.clone().spawn(async move {
            // Moved in as a whole: it must be dropped with this task and not before.
            let mut leave = leave;
            let begun = Self::begin(&engine, session_id, mailbox.clone(), start).await;
            leave.departure = match begun {
                Ok(owner) => match Box::pin(Self { place, ..owner }.run()).await {
                    Ok(never) => match never {},
                    Err(departure) => departure,
                },
                Err(error) => refuse_all(&engine, session_id, &mailbox, error).await,
            };
        });
    }

    async fn begin(
        engine: &Engine,
        session_id: SessionId,
        mailbox: Arc<Mailbox>,
        start: Start,
    ) -> Result<Self, EngineError> {
        let store = &*engine.inner.ports.store;
        let node = &engine.inner.options.node;
        let (claim, state) = match start {
            Start::Created { claim, state } => (claim, *state),
            Start::Claimed(claim) => (claim, load(store, session_id).await?),
            Start::TakeOver => {
                let claim = store.claim(session_id, node).await?;
                (claim, load(store, session_id).await?)
            }
            Start::IfOurs => {
                let info = store.session(session_id).await?;
                let info = info.ok_or(EngineError::NotFound { session_id })?;
                if info.owner != *node {
                    return Err(EngineError::Moved { session_id });
                }
                let claim = Claim { session_id, fence: info.fence };
                (claim, load(store, session_id).await?)
            }
        };
        Ok(Self {
            engine: engine.clone(),
            session_id,
            effects: Effects::new(engine.clone(), session_id, mailbox.clone()),
            mailbox,
            claim,
            cached_at: state.head.0,
            state,
            place: None,
            is_in_doubt: false,
            owes: false,
            must_rest: false,
        })
    }

    /// Serves the session until it may leave.
    async fn run(mut self) -> Result<Infallible, Departure> {
        let leaving = self.engine.inner.leaving.clone();
        self.reconcile();
        loop {
            self.wake_if_due().await?;
            self.leave_if_idle().await?;
            let post = tokio::select! {
                biased;
                post = self.mailbox.receive() => post,
                () = leaving.cancelled() => {
                    // Nothing runs any more. What was asked until now is still decided.
                    let Post { letters, .. } = self.mailbox.take();
                    self.handle(letters).await?;
                    return Err(Departure::Parked);
                }
                () = self.next_timer() => {
                    self.must_rest = false;
                    continue;
                }
            };
            if post.is_deleted {
                let session_id = self.session_id;
                tracing::info!(session = %session_id, "the session was deleted");
                let gone = || Err(EngineError::NotFound { session_id });
                post.letters.into_iter().for_each(|letter| letter.answer(gone()));
                // Looked at once more: it may have been created again meanwhile.
                return Err(Departure::InDoubt);
            }
            if post.claimed.is_some_and(|fence| fence > self.claim.fence) {
                tracing::info!(session = %self.session_id, "the session left this node and came back");
                post.letters.into_iter().for_each(Letter::give_back);
                return Err(Departure::InDoubt);
            }
            let has_ended = !post.ended.is_empty();
            post.ended.into_iter().for_each(|effect| self.effects.ended(effect));
            self.handle(post.letters).await?;
            if has_ended {
                self.reconcile();
            }
        }
    }

    async fn leave_if_idle(&mut self) -> Result<(), Departure> {
        let departure = if self.must_rest {
            // A timer is due and not recorded yet; the session says why.
            return Ok(());
        } else if !needs_owner(&self.state) {
            self.cache().await;
            if self.is_in_doubt { Departure::InDoubt } else { Departure::Parked }
        } else if self.place.is_none() {
            Departure::NoRoom
        } else if self.effects.are_stalled() {
            self.cache().await;
            if self.is_in_doubt { Departure::InDoubt } else { Departure::NoWorker(self.absent()) }
        } else {
            return Ok(());
        };
        if self.mailbox.close_if_empty() { Err(departure) } else { Ok(()) }
    }

    /// What the session waits for once it is out of memory.
    fn absent(&self) -> Absent {
        let tool_of = |command: Command| match command {
            Command::RunTool { call_id, .. } => {
                self.state.calls.get(&call_id).map(|call| call.tool.clone())
            }
            Command::AskModel { .. }
            | Command::FollowTool { .. }
            | Command::StopTool { .. }
            | Command::WaitUntil { .. } => None,
        };
        let tools = pending(&self.state).into_iter().filter_map(tool_of).collect();
        Absent { tools, due_at: self.state.next_due() }
    }

    async fn next_timer(&self) {
        if self.must_rest {
            return pause(WAKE_AGAIN).await;
        }
        match self.state.next_due() {
            Some(due_at) => self.engine.inner.ports.clock.wait_until(due_at).await,
            None => std::future::pending().await,
        }
    }

    async fn wake_if_due(&mut self) -> Result<(), Departure> {
        let now = self.engine.inner.ports.clock.now();
        if self.must_rest || self.state.next_due().is_none_or(|due_at| due_at > now) {
            return Ok(());
        }
        let (input, origin, reply) = (Input::Wake, Origin::Owner, Reply::Nobody);
        self.handle(vec![Letter { input, blobs: Vec::new(), origin, reply }]).await?;
        self.must_rest = self.state.next_due().is_some_and(|due_at| due_at <= now);
        Ok(())
    }

    /// Decides letters and appends what follows; answers each once that is durable.
    async fn handle(&mut self, letters: Vec<Letter>) -> Result<(), Departure> {
        let mut letters = letters;
        for _ in 0..CONFLICTS_MAX {
            let now = self.engine.inner.ports.clock.now();
            let mut drafted = match draft(self.session_id, &self.state, letters, now) {
                Ok(Some(drafted)) => drafted,
                Ok(None) => return Ok(()),
                Err(reason) => return Err(self.quarantine(&reason).await),
            };
            self.reserve(&mut drafted, now).await;
            match self.append(&mut drafted).await {
                Ok(()) => {
                    let before = self.state.head.0;
                    self.commit(drafted);
                    if before / CHECKPOINT_EVENTS != self.state.head.0 / CHECKPOINT_EVENTS {
                        let store = &*self.engine.inner.ports.store;
                        keep_checkpoint(store, self.session_id, &self.state).await;
                    }
                    return Ok(());
                }
                Err(AppendError::Conflict { .. }) => {
                    self.reread().await?;
                    letters = drafted.letters;
                }
                Err(AppendError::Unavailable(error)) => {
                    return self.append_failed(drafted, &error).await;
                }
                Err(error @ AppendError::Malformed { .. }) => {
                    return self.refused_as_malformed(drafted, &error).await;
                }
                Err(AppendError::NotFound { .. }) => {
                    tracing::info!(session = %self.session_id, "the session was deleted");
                    let session_id = self.session_id;
                    drafted.refuse(|| EngineError::NotFound { session_id });
                    return Err(Departure::InDoubt);
                }
                Err(AppendError::Fenced { .. }) => {
                    tracing::info!(session = %self.session_id, "the session changed hands");
                    let session_id = self.session_id;
                    drafted.refuse(|| EngineError::Moved { session_id });
                    return Err(Departure::InDoubt);
                }
            }
        }
        letters.into_iter().for_each(Letter::give_back);
        Err(Departure::InDoubt)
    }

    /// Only one that may start calls now looks for their places.
    async fn reserve(&self, drafted: &mut Draft, now: TimestampMs) {
        let Inner { ports, draining, .. } = &*self.engine.inner;
        if self.place.is_some() && !draining.is_cancelled() {
            reserve(drafted, &self.effects, &*ports.tools, now).await;
        }
    }

    async fn append(&self, drafted: &mut Draft) -> Result<(), AppendError> {
        let blobs = drafted.letters.iter().flat_map(|letter| letter.blobs.clone()).collect();
        let (events, session_id) = (std::mem::take(&mut drafted.events), self.session_id);
        let append = append_of(session_id, &self.state, &drafted.after, events, blobs)
            .ok_or(AppendError::NotFound { session_id })?;
        self.engine.inner.ports.store.append(self.claim, append).await.map(|_| ())
    }

    /// The append is durable: take the new state, carry out what is owed, answer.
    fn commit(&mut self, mut drafted: Draft) {
        let reserved = std::mem::take(&mut drafted.reserved);
        drafted.commit(self.session_id, |after| {
            self.state = after;
            self.effects.hold(reserved);
            self.owes = false;
            self.mailbox.set_blocked(None);
            self.moved();
            &self.state
        });
    }

    /// The state is another one, and durable.
    fn moved(&mut self) {
        self.engine.inner.live.announce(self.session_id, self.state.head);
        if let Some(due_at) = self.state.next_due() {
            self.engine.inner.planner.wake_by(due_at);
        }
        self.reconcile();
    }

    fn reconcile(&mut self) {
        if self.place.is_none() && needs_owner(&self.state) {
            self.place = self.engine.free_place();
        }
        let wanted = if self.place.is_some() { pending(&self.state) } else { Vec::new() };
        self.effects.reconcile(&self.state, &wanted);
    }

    /// The outcome is unknown: tell everyone so, and look what the store has.
    async fn append_failed(
        &mut self,
        mut drafted: Draft,
        error: &StoreError,
    ) -> Result<(), Departure> {
        let reason = error.to_string();
        // It may be durable after all.
        self.effects.hold(std::mem::take(&mut drafted.reserved));
        // Once for each reason, not for each try.
        if self.mailbox.blocked().as_ref() != Some(&reason) {
            tracing::warn!(session = %self.session_id, %error, "append failed, tried again");
        }
        self.is_in_doubt = true;
        self.owes |= drafted.letters.iter().any(|letter| letter.origin.is_owed());
        self.mailbox.set_blocked(Some(reason));
        drafted.refuse(|| EngineError::Store(error.clone()));
        self.reread().await?;
        if !self.owes {
            // Only a request failed, and whoever made it was told.
            self.mailbox.set_blocked(None);
        }
        Ok(())
    }

    /// The store finds the append malformed: nothing was written.
    async fn refused_as_malformed(
        &mut self,
        drafted: Draft,
        error: &AppendError,
    ) -> Result<(), Departure> {
        tracing::error!(session = %self.session_id, %error, "a bug in the engine");
        let reason = error.to_string();
        let is_owed = drafted.letters.iter().any(|letter| letter.origin.is_owed());
        let refusal = StoreError::Failed { operation: "append", reason: reason.clone() };
        // A request must not be able to put a session away. An outcome that can never be recorded
        // leaves no other way.
        if !is_owed {
            drafted.refuse(|| EngineError::Store(refusal.clone()));
            return Ok(());
        }
        let session_id = self.session_id;
        drafted.refuse(|| EngineError::Quarantined { session_id, reason: reason.clone() });
        Err(self.quarantine(&reason).await)
    }

    /// Looks what the store has of the session, however long it takes.
    async fn reread(&mut self) -> Result<(), Departure> {
        let store = self.engine.inner.ports.store.clone();
        let leaving = self.engine.inner.leaving.clone();
        let mut wait = REREAD.0;
        loop {
            let head = self.state.head;
            match refresh(&*store, self.session_id, &mut self.state).await {
                Ok(()) if self.state.head == head => {
                    self.reconcile();
                    return Ok(());
                }
                Ok(()) => {
                    self.moved();
                    return Ok(());
                }
                Err(EngineError::Quarantined { reason, .. }) => {
                    return Err(self.quarantine(&reason).await);
                }
                Err(EngineError::Store(error)) => self.refuse_waiting(&error),
                Err(_) => return Err(Departure::InDoubt),
            }
            tokio::select! {
                biased;
                () = leaving.cancelled() => return Err(Departure::InDoubt),
                () = pause(wait) => wait = (wait * 2).min(REREAD.1),
            }
        }
    }

    /// Whoever waits is told that the store cannot be read.
    fn refuse_waiting(&mut self, error: &StoreError) {
        self.mailbox.set_blocked(Some(error.to_string()));
        let post = self.mailbox.take();
        for letter in post.letters {
            self.owes |= letter.origin.is_owed();
            letter.answer(Err(EngineError::Store(error.clone())));
        }
        // What is still wanted of them is started again once the store can be read.
        post.ended.into_iter().for_each(|effect| self.effects.ended(effect));
    }

    async fn quarantine(&self, reason: &str) -> Departure {
        quarantine(&self.engine, self.session_id, reason).await
    }

    /// Caches the state before the session leaves memory, when that saves a later owner much.
    async fn cache(&mut self) {
        if self.state.is_finished() || !is_worth_caching(&self.state, self.cached_at) {
            return;
        }
        let Ok(bytes) = serde_json::to_vec(&self.state) else { return };
        let (store, head) = (&self.engine.inner.ports.store, self.state.head);
        match store.put_snapshot(self.session_id, head, STATE_VERSION, bytes).await {
            Ok(()) => self.cached_at = head.0,
            Err(error) => tracing::debug!(session = %self.session_id, %error, "no snapshot"),
        }
    }
}

/// Puts a session away whose log is bad.
async fn quarantine(engine: &Engine, session_id: SessionId, reason: &str) -> Departure {
    tracing::error!(session = %session_id, reason, "session quarantined");
    let stored = engine.inner.ports.store.quarantine(session_id, reason).await;
    engine.inner.live.announce(session_id, stepwell_core::Seq(u64::MAX));
    match stored {
        Ok(()) => Departure::Gone,
        Err(error) => {
            tracing::error!(session = %session_id, %error, "the quarantine could not be stored");
            Departure::InDoubt
        }
    }
}

/// The session could not be taken into memory: everyone who waits is told why.
async fn refuse_all(
    engine: &Engine,
    session_id: SessionId,
    mailbox: &Mailbox,
    error: EngineError,
) -> Departure {
    let departure = match &error {
        EngineError::Quarantined { reason, .. } => quarantine(engine, session_id, reason).await,
        EngineError::Store(_) => Departure::InDoubt,
        // There is no such session, or another node has it.
        EngineError::NotFound { .. }
        | EngineError::NoSuchEvent { .. }
        | EngineError::Moved { .. }
        | EngineError::KeyTaken { .. }
        | EngineError::KeyOfDeleted { .. }
        | EngineError::Rejected(_)
        | EngineError::Invalid { .. }
        | EngineError::ShuttingDown
        | EngineError::Busy { .. } => Departure::Gone,
    };
    for letter in mailbox.close() {
        let error = match &error {
            EngineError::NotFound { .. } => EngineError::NotFound { session_id },
            EngineError::Quarantined { reason, .. } => {
                EngineError::Quarantined { session_id, reason: reason.clone() }
            }
            EngineError::Store(error) => EngineError::Store(error.clone()),
            EngineError::KeyTaken { .. }
            | EngineError::NoSuchEvent { .. }
            | EngineError::KeyOfDeleted { .. }
            | EngineError::Rejected(_)
            | EngineError::Invalid { .. }
            | EngineError::Moved { .. }
            | EngineError::ShuttingDown
            | EngineError::Busy { .. } => EngineError::Moved { session_id },
        };
        letter.answer(Err(error));
    }
    departure
}
