//! Work that a session is still owed by the outside.
//!
//! `pending(state)` is what a new owner carries out after a crash, and what a live owner keeps
//! running: a command that is no longer pending is to be stopped. `decide` reports as commands what
//! its decision added to `pending`, so nothing that was ordered can be lost between commit and
//! dispatch.

use alloc::string::String;
use alloc::vec::Vec;

use crate::event::Timer;
use crate::ids::{CallId, TimestampMs};
use crate::state::{Call, CallStatus, Phase, SessionState};

/// An order to the edge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Send the prompt of the state to the model.
    AskModel {
        /// The step.
        step: u32,
        /// The attempt.
        attempt: u32,
    },
    /// Find a worker with a free place. A tool that may be repeated is started at once; for any
    /// other the session must first be told (`ToolDispatched`), and the call becomes a
    /// [`Command::FollowTool`].
    RunTool {
        /// The call.
        call_id: CallId,
        /// The attempt.
        attempt: u32,
    },
    /// Bring a started call to its end: start it on the place that was reserved for it, or, when
    /// this owner reserved none, ask the worker what became of it.
    FollowTool {
        /// The call.
        call_id: CallId,
        /// The attempt.
        attempt: u32,
        /// The worker that has it.
        worker: String,
    },
    /// Tell a running call to stop, and follow it to its end.
    StopTool {
        /// The call.
        call_id: CallId,
        /// The attempt.
        attempt: u32,
    },
    /// Come back with [`crate::Input::Wake`] at that time.
    WaitUntil {
        /// For what.
        timer: Timer,
        /// When.
        due_at: TimestampMs,
    },
}

impl Command {
    /// Whether there is something to do for it at `now`, and not only to wait.
    pub(crate) fn is_due(&self, now: TimestampMs) -> bool {
        match self {
            Self::WaitUntil { due_at, .. } => *due_at <= now,
            Self::AskModel { .. }
            | Self::RunTool { .. }
            | Self::FollowTool { .. }
            | Self::StopTool { .. } => true,
        }
    }
}

/// What a session in `state` is owed. O(open calls and timers). One that was only brought here is owed
/// nothing before somebody gives it an input.
pub fn pending(state: &SessionState) -> Vec<Command> {
    let mut commands = Vec::new();
    if state.is_brought() {
        return commands;
    }
    match state.phase {
        Phase::Absent | Phase::Finished { .. } => return commands,
        Phase::Thinking { attempt } => {
            commands.push(Command::AskModel { step: state.step, attempt });
        }
        Phase::Ready | Phase::Backoff { .. } | Phase::Acting | Phase::Listening => {}
    }
    for (call_id, call) in &state.calls {
        commands.extend(owed_to_call(state, *call_id, call));
    }
    commands.extend(
        state
            .timers
            .iter()
            .map(|(timer, due_at)| Command::WaitUntil { timer: *timer, due_at: *due_at }),
    );
    commands
}

fn owed_to_call(state: &SessionState, call_id: CallId, call: &Call) -> Option<Command> {
    let attempt = call.attempt;
    match &call.status {
        CallStatus::Scheduled | CallStatus::Dispatched { .. } if state.cancelled.is_some() => {
            Some(Command::StopTool { call_id, attempt })
        }
        // Nothing new starts in a paused session; a call that may be repeated may have started.
        CallStatus::Scheduled if !state.may_start(call) => None,
        CallStatus::Scheduled => Some(Command::RunTool { call_id, attempt }),
        CallStatus::Dispatched { worker } => {
            Some(Command::FollowTool { call_id, attempt, worker: worker.clone() })
        }
        CallStatus::Proposed
        | CallStatus::AwaitingApproval
        | CallStatus::Approved
        | CallStatus::TurnedDown { .. }
        | CallStatus::Lost { .. }
        | CallStatus::AwaitingRetry
        | CallStatus::AwaitingOutcome
        | CallStatus::AwaitingAnswer
        | CallStatus::Sleeping
        | CallStatus::Settled { .. } => None,
    }
}

pub(crate) fn may_repeat(state: &SessionState, call: &Call) -> bool {
    let tool = state.agent().and_then(|agent| agent.tool(&call.tool));
    tool.is_some_and(|tool| tool.effect.may_repeat())
}

/// Whether a session in `state` needs an owner in memory now: work is owed that is no mere wait.
pub fn needs_owner(state: &SessionState) -> bool {
    pending(state).iter().any(|command| match command {
        Command::AskModel { .. }
        | Command::RunTool { .. }
        | Command::FollowTool { .. }
        | Command::StopTool { .. } => true,
        Command::WaitUntil { .. } => false,
    })
}
