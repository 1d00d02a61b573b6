//! Looks for broken promises: in the logs, in what the store shows of them, in the ledgers of model
//! and workers, and in what people were told.
//!
//! Invariant: a check never changes the world and takes no simulated time.

mod coverage;
mod grammar;
mod imports;
mod ledger;
mod replay;
mod told;

use std::collections::BTreeMap;
use std::fmt;

use stepwell_core::event::{Event, EventBody};
use stepwell_core::pending::needs_owner;
use stepwell_core::state::CallStatus;
use stepwell_core::state::Phase;
use stepwell_core::summary::{SessionRow, session_row};
use stepwell_core::{Seq, SessionId, SessionState, Status, TimestampMs, apply, pending};

pub use coverage::{Coverage, phase_name};
pub use imports::brought_in;
pub use told::{Asked, Told, ToldBook};

use crate::world::World;

/// A broken promise.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The session, when it is about one.
    pub session_id: Option<SessionId>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.session_id {
            Some(session_id) => write!(f, "session {session_id}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// A broken promise of one session.
pub fn broken(session_id: SessionId, what: impl Into<String>) -> Violation {
    Violation { session_id: Some(session_id), what: what.into() }
}

/// What was seen of a session so far.
#[derive(Default)]
struct Seen {
    log: Vec<Event>,
    state: SessionState,
    /// The last request to the model, without its closing.
    last_open_body: Option<String>,
}

/// See the module.
#[derive(Default)]
pub struct Checker {
    seen: BTreeMap<SessionId, Seen>,
    /// What happened in which phase.
    pub coverage: Coverage,
}

impl Checker {
    /// Checks everything that is new since the last time.
    ///
    /// # Errors
    /// The first broken promise.
    pub async fn look(&mut self, world: &World) -> Result<(), Violation> {
        for row in world.rows().await {
            self.look_at(world, row).await?;
        }
        Ok(())
    }

    async fn look_at(&mut self, world: &World, row: SessionRow) -> Result<(), Violation> {
        let session_id = row.session_id;
        let seen = self.seen.entry(session_id).or_default();
        let new = world.log_after(session_id, seen.state.head).await;
        replay::check(&seen.state, &new).map_err(|what| broken(session_id, what))?;
        for event in new {
            self.coverage.note(&seen.state, &event);
            seen.take(event).map_err(|what| broken(session_id, what))?;
        }
        if row.status == Status::Quarantined {
            if world.sky.is_damaged(session_id) {
                return Ok(());
            }
            return Err(broken(session_id, format!("quarantined: {}", row.explain)));
        }
        seen.compare(world, &row).await.map_err(|what| broken(session_id, what))
    }

    /// Checks what can be judged only over the whole of time: that no history was changed, what model
    /// and workers noted, and what people were told.
    ///
    /// # Errors
    /// The first broken promise.
    pub async fn look_back(&self, world: &World, told: &ToldBook) -> Result<(), Violation> {
        for (session_id, seen) in &self.seen {
            let log = world.log(*session_id).await;
            if log != seen.log {
                return Err(broken(*session_id, "its history was changed"));
            }
            grammar::check(&log).map_err(|what| broken(*session_id, what))?;
        }
        let logs: BTreeMap<SessionId, &[Event]> =
            self.seen.iter().map(|(session_id, seen)| (*session_id, seen.log.as_slice())).collect();
        ledger::check_asks(&world.model.asks(), &logs)?;
        let starts = world.fleet.starts();
        ledger::check_starts(&starts, &logs)?;
        told::check_cancels(told, &starts)?;
        told::check(told, &logs)
    }

    /// The last known state of a session.
    pub fn state(&self, session_id: SessionId) -> Option<&SessionState> {
        self.seen.get(&session_id).map(|seen| &seen.state)
    }

    /// A number that differs when anything in any log differs.
    pub fn fingerprint(&self) -> u64 {
        let texts = self.seen.iter().map(|(id, seen)| format!("{id} {:?}", seen.log));
        let bytes = texts.flat_map(String::into_bytes);
        bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
        })
    }
}

impl Seen {
    fn take(&mut self, event: Event) -> Result<(), String> {
        if event.seq != self.state.head.next() {
            return Err(format!("event {} follows event {}", event.seq, self.state.head));
        }
        if let EventBody::ModelRequested(it) = &event.body {
            let prompt = self.state.request(it.attempt);
            if it.prompt_digest != prompt.digest() || it.prompt_bytes != prompt.body_bytes() {
                return Err(format!("event {}: the prompt is not the recorded one", event.seq));
            }
            let body = prompt.body();
            let Some(open) = body.strip_suffix("]}") else {
                return Err(format!("event {}: the prompt is not closed", event.seq));
            };
            if self.last_open_body.as_ref().is_some_and(|last| !open.starts_with(last)) {
                return Err(format!(
                    "event {}: the prompt does not begin with the last",
                    event.seq
                ));
            }
            self.last_open_body = Some(open.to_string());
        }
        apply(&mut self.state, &event).map_err(|error| error.to_string())?;
        self.log.push(event);
        Ok(())
    }

    /// What the store shows of the session against what its events say.
    async fn compare(&self, world: &World, row: &SessionRow) -> Result<(), String> {
        let state = &self.state;
        if Some(row) != session_row(row.session_id, state).as_ref() {
            return Err(format!("its row is {row:?}, its events say otherwise"));
        }
        let info = world.info(row.session_id).await;
        let wake_at = if needs_owner(state) { Some(TimestampMs(0)) } else { state.next_due() };
        if info.wake_at != wake_at {
            return Err(format!("it is woken at {:?}, not at {wake_at:?}", info.wake_at));
        }
        if row.explain.is_empty() {
            return Err("nothing explains where it is".to_string());
        }
        if !has_cause(state) {
            return Err(format!("it is open and waits for nothing: {}", row.explain));
        }
        let open = state.approvals.len();
        let listed = world.open_approvals(row.session_id).await;
        if open != listed {
            return Err(format!("{open} approvals are open, {listed} are listed"));
        }
        Ok(())
    }
}

/// Whether something will move the session, or somebody can.
fn has_cause(state: &SessionState) -> bool {
    let asks = |call: &stepwell_core::state::Call| call.status == CallStatus::AwaitingAnswer;
    state.is_finished()
        || state.paused.is_some()
        || state.phase == Phase::Listening
        || !pending(state).is_empty()
        || !state.approvals.is_empty()
        || state.calls.values().any(asks)
}

/// Position of the first event that `is_it`.
fn position(log: &[Event], is_it: impl Fn(&EventBody) -> bool) -> Option<Seq> {
    log.iter().find(|event| is_it(&event.body)).map(|event| event.seq)
}
