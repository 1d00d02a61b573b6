//! Names and numbers that must not be mixed up: sessions, sequence numbers, calls, fences, times.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

macro_rules! text_serde {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <alloc::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}
/// An id that was given as text and cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}: {expected}")]
pub struct IdError {
    /// What was asked for, in the words of the user.
    pub what: &'static str,
    /// The text as given.
    pub text: String,
    /// What a right one looks like.
    pub expected: &'static str,
}

/// A session's name: 128 random bits, written as 26 characters of the ULID alphabet.
///
/// All bits are random (the time stands in the first event), so a short prefix already names one
/// session among many that were created in the same second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(ulid::Ulid);

impl SessionId {
    /// Makes an id of 16 bytes that the caller drew at random.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(ulid::Ulid::from_bytes(bytes))
    }

    /// The 16 bytes of the id.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_bytes()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SessionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.parse().map(Self).map_err(|_| IdError {
            what: "session id",
            text: text.to_string(),
            expected: "it has 26 letters and digits",
        })
    }
}

text_serde!(SessionId);

/// One tool call of a session: the step that asked for it and its place in that step, from 1.
/// Written `3.1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The step, from 1.
    pub step: u32,
    /// The place in the model's reply, from 1.
    pub index: u32,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.step, self.index)
    }
}

impl FromStr for CallId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parts = text.split_once('.').and_then(|(step, index)| {
            Some(Self { step: step.parse().ok()?, index: index.parse().ok()? })
        });
        parts.ok_or_else(|| IdError {
            what: "call id",
            text: text.to_string(),
            expected: "write STEP.PLACE, for example 3.1",
        })
    }
}

text_serde!(CallId);

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Place of an event in its session: 1, 2, 3 … without gaps; 0 means "before the first".
    Seq
}
number! {
    /// An approval within its session: the seq of the event that asked.
    ApprovalId
}
number! {
    /// Who may write to a session: a number that only grows; the store compares it.
    Fence
}
number! {
    /// Wall time in milliseconds since 1970-01-01 UTC.
    TimestampMs
}

impl Seq {
    /// The next place. Saturates, so that a damaged number cannot wrap to an old one.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl TimestampMs {
    /// This time plus `ms`, saturating: a huge wait means "never", not "now".
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this time; 0 when the clock went back.
    pub fn since_ms(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
