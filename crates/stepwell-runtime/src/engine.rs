//! The engine's face: create sessions, give them inputs, watch them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stepwell_core::event::{Event, Label, SessionCreated};
use stepwell_core::pending::needs_owner;
use stepwell_core::summary::{SessionRow, approval_rows, session_row};
use stepwell_core::text::title_of;
use stepwell_core::{Actor, Agent, Input, Seq, SessionId, SessionState, Text, TimestampMs, decide};
use stepwell_ports::store::Created;
use stepwell_ports::{
    Append, AppendError, Claim, Clock, DeleteOnly, Deleted, ModelPort, NewSession, Random, Store,
    StoreError, ToolGateway,
};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::error::EngineError;
use crate::live::{Live, LiveInfo, Subscription};
use crate::load::load;
use crate::mailbox::{Answer, Letter, Mailbox, Origin, Reply, Sent};
use crate::owner::{Owner, Place, Start};
use crate::retry_budget::RetryBudgets;
use crate::scheduler::Planner;
use crate::task::Tasks;

/// What the engine needs from the outside.
#[derive(Clone)]
pub struct Ports {
    /// Where the events are.
    pub store: Arc<dyn Store>,
    /// How models are asked.
    pub model: Arc<dyn ModelPort>,
    /// Who runs tools.
    pub tools: Arc<dyn ToolGateway>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Session ids.
    pub random: Arc<dyn Random>,
}

/// Bounds of the engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Name of this process among the owners of sessions; new for each process.
    pub node: String,
    /// Sessions that are worked on at the same time; others wait in the store. An input of a person
    /// is decided nevertheless.
    pub active_sessions_max: usize,
    /// Model calls in flight at the same time.
    pub model_calls_max: usize,
    /// A node without a sign of life for this long is dead: its sessions are taken over.
    pub node_lease: Duration,
    /// The store belongs to this process alone, so every other node is dead already.
    pub sole_owner: bool,
    /// How long running model calls and tools may take to end when the engine goes down.
    pub drain: Duration,
}

impl EngineOptions {
    /// The defaults for a process of that name.
    pub fn for_node(node: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            active_sessions_max: 4_096,
            model_calls_max: 256,
            node_lease: Duration::from_secs(30),
            sole_owner: true,
            drain: Duration::from_secs(10),
        }
    }
}

/// A session to create.
#[derive(Debug, Clone)]
pub struct CreateSession {
    /// The agent's definition, tools resolved.
    pub agent: Agent,
    /// The first user message.
    pub task: Text,
    /// Name for lists; the first line of the task when empty.
    pub title: String,
    /// Labels.
    pub labels: Vec<Label>,
    /// Folder of the workspace; empty for one of its own.
    pub workspace: String,
    /// The client's key.
    pub client_key: Option<String>,
    /// BLAKE3 of what the client sent, to notice a key that is used for something else.
    pub request_digest: String,
    /// Hold it before it does anything.
    pub paused: bool,
    /// Who submits.
    pub by: Actor,
}

/// What became of a create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedSession {
    /// The session.
    pub session_id: SessionId,
    /// False when the client's key was used before.
    pub is_new: bool,
}

/// What became of an input. It is durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// The session's row after it.
    pub row: SessionRow,
    /// False when the same was said before and nothing changed.
    pub changed: bool,
}

/// A running engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

/// What all parts of the engine share.
pub(crate) struct Inner {
    pub(crate) ports: Ports,
    pub(crate) options: EngineOptions,
    pub(crate) live: Arc<Live>,
    /// Sessions in memory.
    pub(crate) owned: Mutex<BTreeMap<SessionId, Arc<Mailbox>>>,
    pub(crate) active: Arc<Semaphore>,
    pub(crate) model_calls: Arc<Semaphore>,
    pub(crate) retry_budgets: RetryBudgets,
    /// Owners of sessions.
    pub(crate) owners: Tasks,
    /// Model calls and tool calls.
    pub(crate) effects: Tasks,
    pub(crate) planner: Planner,
    /// No new work starts.
    pub(crate) draining: CancellationToken,
    /// Nothing runs any more: owners leave, and no input is taken.
    pub(crate) leaving: CancellationToken,
}

impl Engine {
    /// An engine that does nothing until [`Engine::run`] is polled.
    pub fn new(ports: Ports, options: EngineOptions) -> Self {
        let inner = Inner {
            live: Arc::default(),
            owned: Mutex::default(),
            active: Arc::new(Semaphore::new(options.active_sessions_max)),
            model_calls: Arc::new(Semaphore::new(options.model_calls_max)),
            retry_budgets: RetryBudgets::default(),
            owners: Tasks::new(),
            effects: Tasks::new(),
            planner: Planner::default(),
            draining: CancellationToken::new(),
            leaving: CancellationToken::new(),
            ports,
            options,
        };
        Self { inner: Arc::new(inner) }
    }

    /// An engine with the same ports over another store. Until it is run, it only reads.
    pub fn over(&self, store: Arc<dyn Store>) -> Self {
        let ports = Ports { store, ..self.inner.ports.clone() };
        Self::new(ports, self.inner.options.clone())
    }

    /// Takes over what nobody owns, wakes what is due, until `shutdown`; then drains: nothing new
    /// starts, running model calls and tools get [`EngineOptions::drain`] to end, everything that
    /// ended is recorded.
    pub async fn run(&self, shutdown: CancellationToken) {
        crate::scheduler::run(self, &shutdown).await;
        self.inner.draining.cancel();
        let dropped = self.inner.effects.finish(self.inner.options.drain).await;
        if dropped > 0 {
            tracing::warn!(dropped, "calls did not end in time; the next start picks them up");
        }
        self.inner.leaving.cancel();
        self.inner.owners.finish(OWNERS_END).await;
        if !self.inner.options.sole_owner {
            self.say_goodbye().await;
        }
    }

    /// A last sign of life from long ago, so that other nodes take over at once.
    async fn say_goodbye(&self) {
        let (store, node) = (&self.inner.ports.store, &self.inner.options.node);
        let beat = store.beat(node, TimestampMs(0));
        if !matches!(tokio::time::timeout(OWNERS_END, beat).await, Ok(Ok(()))) {
            tracing::debug!("others have to wait for the lease to run out");
        }
    }

    /// The session that was created with this key before, so that the same request can be answered
    /// even when its agent could not be resolved any more.
    ///
    /// # Errors
    /// [`EngineError::KeyTaken`], [`EngineError::KeyOfDeleted`], [`EngineError::Store`].
    pub async fn created_before(
        &self,
        client_key: &str,
        request_digest: &str,
    ) -> Result<Option<SessionId>, EngineError> {
        let keyed = self.inner.ports.store.keyed(client_key).await?;
        keyed.map(|it| known(&Created::of_key(&it, request_digest))).transpose()
    }

    /// Creates a session. Durable when it returns.
    ///
    /// # Errors
    /// [`EngineError::KeyTaken`], [`EngineError::KeyOfDeleted`], [`EngineError::Store`],
    /// [`EngineError::ShuttingDown`].
    pub async fn create(&self, create: CreateSession) -> Result<CreatedSession, EngineError> {
        if self.inner.draining.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        let session_id = self.inner.ports.random.session_id();
        let now = self.inner.ports.clock.now();
        let task_preview = create.task.preview();
        let title = if create.title.trim().is_empty() {
            title_of(task_preview)
        } else {
            create.title.clone()
        };
        let session = SessionCreated {
            agent: Arc::new(create.agent),
            task: create.task,
            title,
            labels: create.labels,
            workspace: create.workspace,
            seed: session_id.to_string(),
            paused: create.paused,
        };
        let before = SessionState::default();
        let decision = decide(&before, Input::Create { session, by: create.by }, now)?;
        let append = append_of(session_id, &before, &decision.state, decision.events, Vec::new())
            .ok_or(EngineError::NotFound { session_id })?;
        let new = NewSession {
            session_id,
            client_key: create.client_key,
            request_digest: create.request_digest,
            owner: self.inner.options.node.clone(),
            beginning: None,
            append,
        };
        self.begin(new, decision.state).await
    }

    /// Stores a new session and owns it.
    pub(crate) async fn begin(
        &self,
        new: NewSession,
        state: SessionState,
    ) -> Result<CreatedSession, EngineError> {
        let session_id = new.session_id;
        let created = self.inner.ports.store.create(new).await;
        if let Err(AppendError::Unavailable(_)) = created {
            // It may exist all the same, and nobody else knows of it.
            self.inner.planner.look_later(session_id);
        }
        match created? {
            Created::New(claim) => {
                self.inner.live.announce(session_id, state.head);
                self.adopt(claim, state);
                Ok(CreatedSession { session_id, is_new: true })
            }
            before @ (Created::Existing(_) | Created::KeyTaken(_) | Created::Deleted(_)) => {
                Ok(CreatedSession { session_id: known(&before)?, is_new: false })
            }
        }
    }

    /// Gives a session an input. Durable when it returns `Ok`.
    ///
    /// # Errors
    /// [`EngineError`]; after [`EngineError::Store`] the outcome may be unknown: ask again, an input
    /// that was taken is not taken twice.
    pub async fn submit(
        &self,
        session_id: SessionId,
        input: Input,
    ) -> Result<Submitted, EngineError> {
        self.submit_from(session_id, input, Vec::new(), Origin::Outside).await
    }

    pub(crate) async fn submit_from(
        &self,
        session_id: SessionId,
        input: Input,
        blobs: Vec<(String, Vec<u8>)>,
        origin: Origin,
    ) -> Result<Submitted, EngineError> {
        let (mut input, mut blobs) = (input, blobs);
        while !self.inner.leaving.is_cancelled() {
            let mailbox = self.mailbox(session_id, &origin);
            let (reply, answer) = oneshot::channel();
            let reply = Reply::Waiting(reply);
            match mailbox.send(Letter { input, blobs, origin: origin.clone(), reply }) {
                Sent::Yes => {}
                Sent::Full(_) => return Err(EngineError::Busy { session_id }),
                // The owner that closed it is about to leave the table.
                Sent::Closed => tokio::task::yield_now().await,
            }
            match answer.await {
                Ok(Answer::Decided(result)) => return result,
                Ok(Answer::Unread { input: unread, blobs: with }) => {
                    (input, blobs) = (unread, with);
                }
                // Its owner was dropped in the middle of an append.
                Err(_) if self.inner.leaving.is_cancelled() => break,
                Err(_) => return Err(owner_broke()),
            }
        }
        Err(EngineError::ShuttingDown)
    }

    /// Deletes a session for good, if it is as `only` wants it. If it is in memory, its owner leaves
    /// and what it runs is told to stop; its watchers are told, and end.
    ///
    /// # Errors
    /// The store's; the outcome may be unknown: ask again.
    pub async fn delete(
        &self,
        session_id: SessionId,
        only: &DeleteOnly,
    ) -> Result<Deleted, StoreError> {
        let deleted = self.inner.ports.store.delete(session_id, only).await;
        match deleted {
            Ok(Deleted::NotFound | Deleted::Kept { .. }) => {}
            // After an error it may be gone. If it is not, its owner is back soon.
            Ok(Deleted::Yes) | Err(_) => self.let_go(session_id),
        }
        deleted
    }

    fn let_go(&self, session_id: SessionId) {
        let owned = self.inner.owned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mailbox) = owned.get(&session_id) {
            mailbox.deleted();
        }
        drop(owned);
        self.inner.live.announce(session_id, Seq(u64::MAX));
    }

    /// The state of a session, folded now. O(events since its last cached state). Writes nothing: a
    /// session whose log turns out to be bad is put away by its next owner.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::Quarantined`], [`EngineError::Store`].
    pub async fn state(&self, session_id: SessionId) -> Result<SessionState, EngineError> {
        load(&*self.inner.ports.store, session_id).await
    }

    /// Watches a session: no notice is missed from here on.
    pub fn subscribe(&self, session_id: SessionId) -> Subscription {
        self.inner.live.subscribe(session_id)
    }

    /// What only the live engine knows about a session.
    pub fn live(&self, session_id: SessionId) -> LiveInfo {
        let mailbox = {
            let owned = self.inner.owned.lock().unwrap_or_else(PoisonError::into_inner);
            owned.get(&session_id).cloned()
        };
        // One lock after the other, never one inside the other.
        match mailbox {
            Some(mailbox) => {
                LiveInfo { in_memory: true, blocked: mailbox.blocked(), absent_tool: None }
            }
            None => LiveInfo {
                absent_tool: self.inner.planner.absent_tool(session_id),
                ..LiveInfo::default()
            },
        }
    }

    /// Sessions in memory.
    pub fn active_sessions(&self) -> usize {
        self.inner.owned.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.ports.store
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.ports.clock
    }

    /// The workers.
    pub fn tools(&self) -> &Arc<dyn ToolGateway> {
        &self.inner.ports.tools
    }

    /// Name of this process among the owners of sessions.
    pub fn node(&self) -> &str {
        &self.inner.options.node
    }

    /// The mailbox of a session; an owner is made for it when there is none.
    pub(crate) fn mailbox(&self, session_id: SessionId, origin: &Origin) -> Arc<Mailbox> {
        let mut owned = self.inner.owned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mailbox) = owned.get(&session_id) {
            return mailbox.clone();
        }
        let mailbox = Arc::<Mailbox>::default();
        owned.insert(session_id, mailbox.clone());
        drop(owned);
        // What an effect has to say is no reason to take a session away from another node.
        let start = if origin.is_owed() { Start::IfOurs } else { Start::TakeOver };
        Owner::spawn(self, session_id, mailbox.clone(), start, None);
        mailbox
    }

    /// Owns a session that was just created.
    fn adopt(&self, claim: Claim, state: SessionState) {
        if let Some(mailbox) = self.vacant(claim.session_id) {
            let start = Start::Created { claim, state: Box::new(state) };
            Owner::spawn(self, claim.session_id, mailbox, start, None);
        }
    }

    /// Owns a session that was claimed because it is due; says no if it is in memory.
    pub(crate) fn activate(&self, claim: Claim) -> bool {
        let session_id = claim.session_id;
        let Some(place) = self.place() else {
            self.inner.planner.wait_for_room(session_id);
            return true;
        };
        let Some(mailbox) = self.vacant(session_id) else {
            let owned = self.inner.owned.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(mailbox) = owned.get(&session_id) {
                mailbox.claimed(claim.fence);
            }
            return false;
        };
        Owner::spawn(self, session_id, mailbox, Start::Claimed(claim), Some(place));
        true
    }

    /// Looks at a session if this node still has it; says no if it is in memory.
    pub(crate) fn revisit(&self, session_id: SessionId, place: Option<Place>) -> bool {
        let Some(mailbox) = self.vacant(session_id) else { return false };
        Owner::spawn(self, session_id, mailbox, Start::IfOurs, place);
        true
    }

    /// A place in memory for a session that comes by itself: those that wait go first.
    pub(crate) fn free_place(&self) -> Option<Place> {
        if self.inner.planner.is_queue() { None } else { self.place() }
    }

    /// A place in memory, if one is free.
    pub(crate) fn place(&self) -> Option<Place> {
        self.inner.active.clone().try_acquire_owned().ok()
    }

    fn vacant(&self, session_id: SessionId) -> Option<Arc<Mailbox>> {
        let mut owned = self.inner.owned.lock().unwrap_or_else(PoisonError::into_inner);
        if owned.contains_key(&session_id) {
            return None;
        }
        let mailbox = Arc::<Mailbox>::default();
        owned.insert(session_id, mailbox.clone());
        Some(mailbox)
    }

    /// The owner of a session is gone.
    pub(crate) fn forget(&self, session_id: SessionId, mailbox: &Arc<Mailbox>) {
        let mut owned = self.inner.owned.lock().unwrap_or_else(PoisonError::into_inner);
        if owned.get(&session_id).is_some_and(|it| Arc::ptr_eq(it, mailbox)) {
            owned.remove(&session_id);
        }
    }
}

/// How long owners may take to record what ended, once nothing runs any more.
const OWNERS_END: Duration = Duration::from_secs(5);

/// The owner of a session ended in the middle of an append.
fn owner_broke() -> EngineError {
    EngineError::Store(StoreError::Failed {
        operation: "append",
        reason: "the session's owner broke off, see the server's log; ask again".to_string(),
    })
}

/// The session of a key that was used before.
fn known(created: &Created) -> Result<SessionId, EngineError> {
    match *created {
        Created::New(Claim { session_id, .. }) | Created::Existing(session_id) => Ok(session_id),
        Created::KeyTaken(session_id) => Err(EngineError::KeyTaken { session_id }),
        Created::Deleted(session_id) => Err(EngineError::KeyOfDeleted { session_id }),
    }
}

/// The write of a decision; `None` for a session without a first event.
pub(crate) fn append_of(
    session_id: SessionId,
    before: &SessionState,
    after: &SessionState,
    events: Vec<Event>,
    blobs: Vec<(String, Vec<u8>)>,
) -> Option<Append> {
    let wake_at = if needs_owner(after) { Some(TimestampMs(0)) } else { after.next_due() };
    Some(Append {
        expected: before.head,
        events,
        row: session_row(session_id, after)?,
        wake_at,
        approvals: approval_rows(session_id, before, after),
        blobs,
    })
}
