//! The one task that owns a session while it is in memory.
//!
//! It takes inputs from the session's mailbox, decides them, appends all that follows in one write,
//! and then keeps the running model and tool calls equal to what is pending. When nothing is owed but
//! waiting, it leaves, and the session is a row in the store again.
//!
//! Invariant: no `.await` stands between reading and changing the state, except the append itself.

use std::sync::Arc;

use stepwell_core::event::Event;
use stepwell_core::pending::needs_owner;
use stepwell_core::state::STATE_VERSION;
use stepwell_core::{Input, Reject, SessionId, SessionState, decide, pending};
use stepwell_ports::{AppendError, Claim};
use tokio::sync::oneshot;

use crate::effects::Effects;
use crate::engine::{Engine, Submitted, append_of};
use crate::error::EngineError;
use crate::load::{is_worth_caching, load, refresh};
use crate::mailbox::{Letter, Mailbox};

/// How often one batch is decided again after somebody else appended first.
const CONFLICTS_MAX: u32 = 8;

/// First and longest wait between two tries to read a session back from a store that fails.
const REREAD_MS: (u64, u64) = (100, 5_000);

/// How an owner begins.
pub(crate) enum Start {
    /// The state is in the store only; the claim is held already, or must be taken.
    Cold { claim: Option<Claim> },
    /// The session was just created.
    Warm { claim: Claim, state: Box<SessionState> },
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
}

/// Leaves the table of owners however the owner ends, so that nobody waits for a dead one.
struct Leave {
    engine: Engine,
    session_id: SessionId,
    mailbox: Arc<Mailbox>,
}

impl Drop for Leave {
    fn drop(&mut self) {
        // Letters that are left lose their reply channel, which their senders see.
        drop(self.mailbox.close());
        self.engine.forget(self.session_id, &self.mailbox);
        self.engine.inner.planner.owner_left();
    }
}

type Reply = oneshot::Sender<Result<Submitted, EngineError>>;

/// Whether the owner goes on.
#[derive(PartialEq)]
enum Next {
    GoOn,
    Leave,
}

impl Owner {
    /// Starts the owner of a session.
    pub(crate) fn spawn(
        engine: &Engine,
        session_id: SessionId,
        mailbox: Arc<Mailbox>,
        start: Start,
    ) {
        let engine = engine.clone();
        let leave = Leave { engine: engine.clone(), session_id, mailbox: mailbox.clone() };
        engine.inner.owners.clone().spawn(async move {
            let _leave = leave;
            let Ok(_permit) = engine.inner.active.clone().acquire_owned().await else { return };
            match Self::begin(&engine, session_id, mailbox.clone(), start).await {
                Ok(owner) => Box::pin(owner.run()).await,
                Err(error) => refuse_all(&engine, session_id, &mailbox, error).await,
            }
        });
    }

    async fn begin(
        engine: &Engine,
        session_id: SessionId,
        mailbox: Arc<Mailbox>,
        start: Start,
    ) -> Result<Self, EngineError> {
        let (claim, state) = match start {
            Start::Warm { claim, state } => (claim, *state),
            Start::Cold { claim } => {
                let store = &engine.inner.ports.store;
                let claim = match claim {
                    Some(claim) => claim,
                    None => store.claim(session_id, &engine.inner.options.node).await?,
                };
                (claim, load(&**store, session_id).await?)
            }
        };
        let effects = Effects::new(engine.clone(), session_id);
        let cached_at = state.head.0;
        let engine = engine.clone();
        Ok(Self { engine, session_id, mailbox, claim, state, effects, cached_at })
    }

    async fn run(mut self) {
        self.reconcile();
        loop {
            if self.wake_if_due().await == Next::Leave {
                break;
            }
            if !needs_owner(&self.state) {
                self.cache().await;
                if self.mailbox.close_if_empty() {
                    break;
                }
            }
            let letters = tokio::select! {
                letters = self.mailbox.receive() => letters,
                () = self.next_timer() => continue,
            };
            if self.handle(letters).await == Next::Leave {
                break;
            }
        }
        self.effects.stop_all();
    }

    async fn next_timer(&self) {
        match self.state.next_due() {
            Some(due_at) => self.engine.inner.ports.clock.wait_until(due_at).await,
            None => std::future::pending().await,
        }
    }

    async fn wake_if_due(&mut self) -> Next {
        let now = self.engine.inner.ports.clock.now();
        if self.state.next_due().is_none_or(|due_at| due_at > now) || self.state.is_finished() {
            return Next::GoOn;
        }
        let (reply, _) = oneshot::channel();
        let next = self.handle(vec![Letter { input: Input::Wake, blobs: Vec::new(), reply }]).await;
        if self.state.next_due().is_some_and(|due_at| due_at <= now) {
            // The store did not take it: leave, the scheduler comes back to it.
            return Next::Leave;
        }
        next
    }

    /// Decides letters and appends what follows; answers each once that is durable.
    async fn handle(&mut self, letters: Vec<Letter>) -> Next {
        let mut letters = letters;
        for _ in 0..CONFLICTS_MAX {
            let Some(draft) = self.draft(letters) else { return Next::GoOn };
            match self.append(&draft).await {
                Ok(()) => {
                    self.commit(draft);
                    return Next::GoOn;
                }
                Err(AppendError::Conflict { .. }) => {
                    if self.reread().await == Next::Leave {
                        return Next::Leave;
                    }
                    letters = draft.letters;
                }
                Err(AppendError::Unavailable(error)) => {
                    self.mailbox.set_blocked(Some(error.to_string()));
                    tracing::warn!(session = %self.session_id, %error, "append failed");
                    draft.refuse(|| EngineError::Store(error.clone()));
                    return self.reread().await;
                }
                Err(error @ AppendError::Malformed { .. }) => {
                    tracing::error!(session = %self.session_id, %error, "a bug in the engine");
                    let reason = error.to_string();
                    self.quarantine(&reason).await;
                    let session_id = self.session_id;
                    draft.refuse(|| EngineError::Quarantined { session_id, reason: reason.clone() });
                    return Next::Leave;
                }
                Err(AppendError::Fenced { .. } | AppendError::NotFound { .. }) => {
                    tracing::info!(session = %self.session_id, "the session changed hands");
                    let session_id = self.session_id;
                    draft.refuse(|| EngineError::Moved { session_id });
                    return Next::Leave;
                }
            }
        }
        Next::Leave
    }

    /// Decides all letters one after the other. Answers at once those that change nothing; `None`
    /// when no event follows from any.
    fn draft(&mut self, letters: Vec<Letter>) -> Option<Draft> {
        let now = self.engine.inner.ports.clock.now();
        let mut after: Option<SessionState> = None;
        let mut draft = Draft::default();
        for letter in letters {
            let state = after.as_ref().unwrap_or(&self.state);
            match decide(state, letter.input.clone(), now) {
                Ok(decision) => {
                    draft.changes.push(!decision.events.is_empty());
                    draft.events.extend(decision.events);
                    draft.letters.push(letter);
                    after = Some(decision.state);
                }
                Err(reject) => {
                    if let Reject::Internal(_) | Reject::Endless = reject {
                        tracing::error!(session = %self.session_id, %reject, "a bug in the engine");
                    }
                    answer(letter.reply, Err(reject.into()));
                }
            }
        }
        if draft.events.is_empty() {
            let row = stepwell_core::summary::session_row(self.session_id, &self.state);
            for letter in draft.letters {
                let submitted = row.clone().map(|row| Submitted { row, changed: false });
                let session_id = self.session_id;
                answer(letter.reply, submitted.ok_or(EngineError::NotFound { session_id }));
            }
            return None;
        }
        draft.after = after.map(Box::new);
        Some(draft)
    }

    async fn append(&self, draft: &Draft) -> Result<(), AppendError> {
        let after = draft.after.as_deref().unwrap_or(&self.state);
        let blobs = draft.letters.iter().flat_map(|letter| letter.blobs.clone()).collect();
        let events = draft.events.clone();
        let session_id = self.session_id;
        let append = append_of(session_id, &self.state, after, events, blobs)
            .ok_or(AppendError::NotFound { session_id })?;
        self.engine.inner.ports.store.append(self.claim, append).await.map(|_| ())
    }

    /// The append is durable: take the new state, carry out what is owed, answer.
    fn commit(&mut self, draft: Draft) {
        if let Some(after) = draft.after {
            self.state = *after;
        }
        self.mailbox.set_blocked(None);
        self.engine.inner.live.announce(self.session_id, self.state.head);
        if let Some(due_at) = self.state.next_due() {
            self.engine.inner.planner.wake_by(due_at);
        }
        self.reconcile();
        if let Some(row) = stepwell_core::summary::session_row(self.session_id, &self.state) {
            for (letter, changed) in draft.letters.into_iter().zip(draft.changes) {
                answer(letter.reply, Ok(Submitted { row: row.clone(), changed }));
            }
        }
    }

    fn reconcile(&mut self) {
        self.effects.reconcile(&self.state, &pending(&self.state));
    }

    /// The outcome of an append is unknown: look what the store has, however long it takes.
    async fn reread(&mut self) -> Next {
        let clock = self.engine.inner.ports.clock.clone();
        let mut wait_ms = REREAD_MS.0;
        loop {
            let store = self.engine.inner.ports.store.clone();
            match refresh(&*store, self.session_id, &mut self.state).await {
                Ok(()) => {
                    self.reconcile();
                    return Next::GoOn;
                }
                Err(EngineError::Quarantined { reason, .. }) => {
                    self.quarantine(&reason).await;
                    return Next::Leave;
                }
                Err(error) => {
                    self.mailbox.set_blocked(Some(error.to_string()));
                    tokio::select! {
                        () = clock.wait_until(clock.now().plus_ms(wait_ms)) => {}
                        () = self.engine.inner.draining.cancelled() => return Next::Leave,
                    }
                    wait_ms = (wait_ms * 2).min(REREAD_MS.1);
                }
            }
        }
    }

    async fn quarantine(&self, reason: &str) {
        quarantine(&self.engine, self.session_id, reason).await;
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

/// Letters that were decided, and what follows from all of them.
#[derive(Default)]
struct Draft {
    letters: Vec<Letter>,
    changes: Vec<bool>,
    events: Vec<Event>,
    after: Option<Box<SessionState>>,
}

impl Draft {
    fn refuse(self, error: impl Fn() -> EngineError) {
        for letter in self.letters {
            answer(letter.reply, Err(error()));
        }
    }
}

fn answer(reply: Reply, result: Result<Submitted, EngineError>) {
    // Whoever asked may have gone; the fact stands anyway.
    let _ = reply.send(result);
}

async fn quarantine(engine: &Engine, session_id: SessionId, reason: &str) {
    tracing::error!(session = %session_id, reason, "session quarantined");
    if let Err(error) = engine.inner.ports.store.quarantine(session_id, reason).await {
        tracing::error!(session = %session_id, %error, "the quarantine could not be stored");
    }
    engine.inner.live.announce(session_id, stepwell_core::Seq(u64::MAX));
}

/// The session could not be taken into memory: everyone who waits is told why.
async fn refuse_all(
    engine: &Engine,
    session_id: SessionId,
    mailbox: &Mailbox,
    error: EngineError,
) {
    if let EngineError::Quarantined { reason, .. } = &error {
        quarantine(engine, session_id, reason).await;
    }
    for letter in mailbox.close() {
        let error = match &error {
            EngineError::NotFound { session_id } => {
                EngineError::NotFound { session_id: *session_id }
            }
            EngineError::Quarantined { session_id, reason } => {
                EngineError::Quarantined { session_id: *session_id, reason: reason.clone() }
            }
            EngineError::Store(error) => EngineError::Store(error.clone()),
            EngineError::KeyTaken { .. }
            | EngineError::Rejected(_)
            | EngineError::Invalid { .. }
            | EngineError::Moved { .. }
            | EngineError::ShuttingDown
            | EngineError::Busy { .. } => EngineError::Moved { session_id },
        };
        answer(letter.reply, Err(error));
    }
}
