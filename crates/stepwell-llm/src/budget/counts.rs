//! Counts that a server gave, remembered within bounds.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::mem;

/// Counts of one generation. Two are kept, so that what is in use stays.
const GENERATION_MAX: usize = 512;

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Counted<'a> {
    /// A message, by its text.
    Message(&'a str),
    /// A whole request, by its digest.
    Request(&'a str),
}

impl Counted<'_> {
    fn key(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// The counts of one server.
#[derive(Debug, Default)]
pub(super) struct Counts {
    young: HashMap<u64, u64>,
    old: HashMap<u64, u64>,
}

impl Counts {
    /// The tokens of it, when they are remembered.
    pub(super) fn get(&mut self, counted: Counted<'_>) -> Option<u64> {
        let key = counted.key();
        if let Some(tokens) = self.young.get(&key) {
            return Some(*tokens);
        }
        let tokens = self.old.remove(&key)?;
        self.put(key, tokens);
        Some(tokens)
    }

    /// Remembers the tokens of it.
    pub(super) fn insert(&mut self, counted: Counted<'_>, tokens: u64) {
        self.put(counted.key(), tokens);
    }

    fn put(&mut self, key: u64, tokens: u64) {
        if self.young.len() >= GENERATION_MAX {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_no_request() {
        let mut counts = Counts::default();
        counts.insert(Counted::Message("a"), 7);
        assert_eq!(counts.get(Counted::Message("a")), Some(7));
        assert_eq!(counts.get(Counted::Request("a")), None);
    }

    #[test]
    fn what_is_in_use_stays_and_the_rest_goes() {
        let mut counts = Counts::default();
        counts.insert(Counted::Message("in use"), 1);
        counts.insert(Counted::Message("left"), 2);
        for number in 0..GENERATION_MAX * 10 {
            counts.insert(Counted::Message(&number.to_string()), 0);
            assert_eq!(counts.get(Counted::Message("in use")), Some(1));
            assert!(counts.young.len() + counts.old.len() <= 2 * GENERATION_MAX);
        }
        assert_eq!(counts.get(Counted::Message("left")), None);
    }
}
