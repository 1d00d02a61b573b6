//! Facts of a session's history.
//!
//! Two families: **inputs** are what was observed or asked from outside, **decisions** are what the
//! state machine concluded. Each variant's doc says when it is legal and what it leads to.
//!
//! Invariant: a stored event is never rewritten; older schemas are upcast when read (`codec`).

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::agent::Agent;
use crate::ids::{IdError, Seq, TimestampMs};

mod bodies;
mod fork;
mod model;
mod timer;

pub use bodies::*;
pub use fork::*;
pub use model::*;
pub use timer::*;

/// Who did it. Written `engine`, `person:NAME`, `worker:NAME`, `model:NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// The engine, following its rules.
    Engine,
    /// A person or a client program that acts for one.
    Person(String),
    /// A tool worker.
    Worker(String),
    /// A model server, by model name.
    Model(String),
}

/// The name of the person who holds a session that came from elsewhere: nobody did it by hand.
pub const IMPORTER: &str = "import";

impl Actor {
    /// Whether it stands for an import.
    pub fn is_import(&self) -> bool {
        matches!(self, Self::Person(name) if name == IMPORTER)
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine => f.write_str("engine"),
            Self::Person(name) => write!(f, "person:{name}"),
            Self::Worker(name) => write!(f, "worker:{name}"),
            Self::Model(name) => write!(f, "model:{name}"),
        }
    }
}

impl FromStr for Actor {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match text.split_once(':') {
            None if text == "engine" => Ok(Self::Engine),
            Some(("person", name)) => Ok(Self::Person(name.into())),
            Some(("worker", name)) => Ok(Self::Worker(name.into())),
            Some(("model", name)) => Ok(Self::Model(name.into())),
            None | Some(_) => Err(IdError {
                what: "actor",
                text: text.into(),
                expected: "engine, person:NAME, worker:NAME or model:NAME",
            }),
        }
    }
}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <alloc::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// One event of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Place in the session.
    pub seq: Seq,
    /// When it was decided, by the clock of the node that wrote it.
    pub time: TimestampMs,
    /// Seq of the input that caused it; inputs name themselves.
    pub cause: Seq,
    /// Who did it.
    pub actor: Actor,
    /// What happened.
    pub body: EventBody,
}

/// Which of the two families an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Observed or asked from outside.
    Input,
    /// Concluded by the state machine.
    Decision,
}

macro_rules! events {
    ($( $(#[$doc:meta])* $name:ident, $text:literal, $family:ident; )*) => {
        /// What happened. Past tense, no behaviour, nothing that can be derived.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum EventBody {
            $( $(#[$doc])* $name($name), )*
        }

        /// The type of an event, without its content.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventKind {
            $( #[doc = concat!("See [`EventBody::", stringify!($name), "`].")] $name, )*
        }

        impl EventKind {
            /// Every type, in the order of declaration.
            pub const ALL: &'static [Self] = &[ $( Self::$name, )* ];

            /// The stored name, for example `tool_finished`.
            pub fn as_str(self) -> &'static str {
                match self { $( Self::$name => $text, )* }
            }

            /// The type of that stored name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $( $text => Some(Self::$name), )* _ => None }
            }

            /// Input or decision.
            pub fn family(self) -> Family {
                match self { $( Self::$name => Family::$family, )* }
            }
        }

        impl EventBody {
            /// The type of this event.
            pub fn kind(&self) -> EventKind {
                match self { $( Self::$name(_) => EventKind::$name, )* }
            }

            /// The stored JSON of the content.
            pub(crate) fn to_json(&self) -> serde_json::Result<String> {
                match self { $( Self::$name(body) => serde_json::to_string(body), )* }
            }

            /// Reads the stored JSON of the content.
            pub(crate) fn from_json(kind: EventKind, json: &str) -> serde_json::Result<Self> {
                match kind { $( EventKind::$name => serde_json::from_str(json).map(Self::$name), )* }
            }
        }

        $( impl From<$name> for EventBody {
            fn from(body: $name) -> Self { Self::$name(body) }
        } )*
    };
}

events! {
    /// First event of every session, and only there. Leads to the first `model_requested`.
    SessionCreated, "session_created", Input;
    /// The model answered the open request. Thinking only. Leads to a decision about each tool call,
    /// or to the end of the session.
    ModelReplied, "model_replied", Input;
    /// An attempt to ask the model failed. Thinking only. Leads to a retry timer or to the end.
    ModelFailed, "model_failed", Input;
    /// A worker was given a call that must not run twice; written before the worker may start.
    /// Legal for a scheduled write call. Consumes the call's approval.
    ToolDispatched, "tool_dispatched", Input;
    /// A tool call came to its end, well or not. Legal for a call that was scheduled or dispatched;
    /// marked `late` when the session had already gone on without it.
    ToolFinished, "tool_finished", Input;
    /// The worker of a call is gone and its outcome is unknown. Leads to another attempt when the
    /// tool may be repeated, else to a question to a person.
    ToolLost, "tool_lost", Input;
    /// A person decided an open approval or settled an unknown outcome.
    ApprovalDecided, "approval_decided", Input;
    /// A message to the session. Legal in every phase but the last; shown to the model with the next
    /// request, or the answer to an open `ask_user` call.
    MessageReceived, "message_received", Input;
    /// A timer was due. Legal when that timer is set.
    TimerFired, "timer_fired", Input;
    /// Somebody asked to end the session. Nothing new starts after it.
    CancelRequested, "cancel_requested", Input;
    /// Somebody asked to hold the session. Running work is let to its end, nothing new starts.
    PauseRequested, "pause_requested", Input;
    /// Somebody asked to go on. Legal when paused.
    ResumeRequested, "resume_requested", Input;
    /// The session is a fork: the events before this one are its parent's, and this is what is
    /// otherwise. Once, in every phase but the first. Leads to whatever is owed then.
    OverrideApplied, "override_applied", Input;

    /// A request to the model is owed. Leads to `model_replied` or `model_failed`.
    ModelRequested, "model_requested", Decision;
    /// A tool call may run.
    ToolScheduled, "tool_scheduled", Decision;
    /// A tool call will not run; the model is told why.
    ToolRefused, "tool_refused", Decision;
    /// A person is asked. Leads to `approval_decided`, or to `timer_fired` when it expires.
    ApprovalRequested, "approval_requested", Decision;
    /// A timer was set. Leads to `timer_fired`, or is dropped when its reason is gone.
    TimerStarted, "timer_started", Decision;
    /// Last event of every session, but for late results.
    SessionFinished, "session_finished", Decision;
}

impl EventBody {
    /// The agent definition that the session has from this event on.
    pub fn agent(&self) -> Option<&Agent> {
        match self {
            Self::SessionCreated(it) => Some(&it.agent),
            Self::OverrideApplied(it) => it.agent.as_deref(),
            Self::ModelReplied(_)
            | Self::ModelFailed(_)
            | Self::ToolDispatched(_)
            | Self::ToolFinished(_)
            | Self::ToolLost(_)
            | Self::ApprovalDecided(_)
            | Self::MessageReceived(_)
            | Self::TimerFired(_)
            | Self::CancelRequested(_)
            | Self::PauseRequested(_)
            | Self::ResumeRequested(_)
            | Self::ModelRequested(_)
            | Self::ToolScheduled(_)
            | Self::ToolRefused(_)
            | Self::ApprovalRequested(_)
            | Self::TimerStarted(_)
            | Self::SessionFinished(_) => None,
        }
    }
}
