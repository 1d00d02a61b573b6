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
        let wrong = |expected| IdError { what: "session id", text: text.to_string(), expected };
        let id: ulid::Ulid = text.parse().map_err(|_| wrong("it has 26 letters and digits"))?;
        // 26 characters hold 130 bits, an id 128: what is too large would be cut to another id.
        if text.starts_with(|first| first > '7') {
            return Err(wrong("its first character is a digit from 0 to 7"));
        }
        Ok(Self(id))
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

    /// The time as people write it, for example `2026-11-29 23:54:20 UTC`; `never` beyond the year
    /// 9999. Days to dates after Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
    pub fn to_utc(self) -> String {
        let (days, seconds) = (self.0 / 86_400_000, self.0 / 1_000 % 86_400);
        if days > 2_932_896 {
            return "never".to_string();
        }
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        alloc::format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }

    /// Milliseconds from `earlier` to this time; 0 when the clock went back.
    pub fn since_ms(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_write_them() {
        for (ms, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399_999, "2000-02-28 23:59:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_835_395_200_000, "2028-02-29 00:00:00 UTC"),
            (1_795_996_460_579, "2026-11-29 23:54:20 UTC"),
            (253_402_300_799_000, "9999-12-31 23:59:59 UTC"),
            (u64::MAX, "never"),
        ] {
            assert_eq!(TimestampMs(ms).to_utc(), text);
        }
    }
}
