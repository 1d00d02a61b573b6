//! The hash chain over a session's events: a changed, missing or swapped event changes every hash
//! after it.

use stepwell_core::SessionId;
use stepwell_ports::StoredEvent;

/// First line of what the chain begins with; the number grows when the formula changes.
const CHAIN_NAME: &str = "stepwell-chain-1";

/// The chain up to some event.
///
/// ```text
/// hash(0) = BLAKE3("stepwell-chain-1" LF session_id LF)
/// hash(n) = BLAKE3(hex(hash(n-1)) LF seq LF time_ms LF cause LF schema LF type LF
///                  bytes of actor LF actor LF body)
/// ```
///
/// Numbers are written in decimal, hashes in small hex; the body is the text as it is stored. The
/// actor has its length in front, because a name may hold a line feed.
#[derive(Debug, Clone)]
pub struct Chain {
    hash: blake3::Hash,
    count: u64,
}

impl Chain {
    /// The chain of a session without events.
    pub fn new(session_id: SessionId) -> Self {
        let start = format!("{CHAIN_NAME}\n{session_id}\n");
        Self { hash: blake3::hash(start.as_bytes()), count: 0 }
    }

    /// The chain whose first `count` events are known by the hash of the last of them; `None` for a
    /// text that is no hash.
    pub fn after(count: u64, head: &str) -> Option<Self> {
        let hash = blake3::Hash::from_hex(head).ok()?;
        Some(Self { hash, count })
    }

    /// Adds the next event; gives its hash in hex.
    pub fn add(&mut self, event: &StoredEvent) -> String {
        let StoredEvent { seq, time, cause, actor, kind, schema, body } = event;
        let mut hasher = blake3::Hasher::new();
        let before = self.hash.to_hex();
        let actor_bytes = actor.len();
        let front =
            format!("{before}\n{seq}\n{time}\n{cause}\n{schema}\n{kind}\n{actor_bytes}\n{actor}\n");
        hasher.update(front.as_bytes());
        hasher.update(body.as_bytes());
        self.hash = hasher.finalize();
        self.count += 1;
        self.head()
    }

    /// Hash of the last event, in hex.
    pub fn head(&self) -> String {
        self.hash.to_hex().to_string()
    }

    /// How many events.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use stepwell_core::{Seq, TimestampMs};

    use super::*;

    #[test]
    fn the_hash_is_the_formula_of_the_manual() {
        let session_id = SessionId::from_random([7; 16]);
        let event = StoredEvent {
            seq: Seq(1),
            time: TimestampMs(1_700_000_000_000),
            cause: Seq(1),
            actor: "person:ada".into(),
            kind: "pause_requested".into(),
            schema: 1,
            body: r#"{"reason":"ü"}"#.into(),
        };
        let mut chain = Chain::new(session_id);
        let start = blake3::hash(format!("stepwell-chain-1\n{session_id}\n").as_bytes());
        let text = format!(
            "{}\n1\n1700000000000\n1\n1\npause_requested\n10\nperson:ada\n{}",
            start.to_hex(),
            event.body
        );
        assert_eq!(chain.add(&event), blake3::hash(text.as_bytes()).to_hex().to_string());
        assert_eq!(chain.count(), 1);
        let next = StoredEvent { seq: Seq(2), ..event };
        let mut later = Chain::after(1, &chain.head()).unwrap();
        assert_eq!((later.add(&next), later.count()), (chain.add(&next), 2));
        assert!(Chain::after(1, "no hash").is_none());
    }
}
