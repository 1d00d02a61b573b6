//! A prefix cache like a model server's: blocks of the request, the least recently used go first.
//!
//! A block is known by the hash of all bytes up to its end, so that it fits only behind the same
//! beginning. What the model said is not put into it: it stands otherwise in the next request.

use std::collections::{BTreeMap, HashMap};

/// Hash of a request up to the end of a block.
type Prefix = [u8; 32];

/// The cache of one server.
#[derive(Debug)]
pub(super) struct PrefixCache {
    block_bytes: usize,
    blocks_max: usize,
    /// When each block was used last.
    used: HashMap<Prefix, u64>,
    /// The same, by time.
    by_time: BTreeMap<u64, Prefix>,
    time: u64,
}

impl PrefixCache {
    /// Room for this many blocks.
    pub(super) fn new(block_bytes: usize, blocks_max: usize) -> Self {
        Self { block_bytes, blocks_max, used: HashMap::new(), by_time: BTreeMap::new(), time: 0 }
    }

    /// How many leading blocks of `request` are there; all its whole blocks are there afterwards.
    pub(super) fn read(&mut self, request: &[u8]) -> usize {
        let mut hasher = blake3::Hasher::new();
        let mut prefixes = Vec::with_capacity(request.len() / self.block_bytes.max(1));
        for block in request.chunks_exact(self.block_bytes.max(1)) {
            hasher.update(block);
            prefixes.push(*hasher.finalize().as_bytes());
        }
        let known = prefixes.iter().take_while(|it| self.used.contains_key(*it)).count();
        // The last first: what is nearest to the beginning is of most use and goes last.
        for prefix in prefixes.into_iter().rev() {
            self.touch(prefix);
        }
        while self.used.len() > self.blocks_max {
            let Some((_, oldest)) = self.by_time.pop_first() else { break };
            self.used.remove(&oldest);
        }
        known
    }

    fn touch(&mut self, prefix: Prefix) {
        self.time += 1;
        if let Some(before) = self.used.insert(prefix, self.time) {
            self.by_time.remove(&before);
        }
        self.by_time.insert(self.time, prefix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_behind_the_same_beginning_are_there() {
        let mut cache = PrefixCache::new(4, 100);
        for (request, known) in [
            ("aaaabbbbcc", 0),
            ("aaaabbbbcccc", 2),
            ("aaaabbbbcccc", 3),
            ("xaaabbbbcccc", 0),
            ("aaaaxxxxcccc", 1),
        ] {
            assert_eq!(cache.read(request.as_bytes()), known, "{request}");
        }
    }

    #[test]
    fn what_was_used_least_recently_goes_first() {
        let mut cache = PrefixCache::new(1, 4);
        cache.read(b"ab");
        cache.read(b"cd");
        assert_eq!(cache.read(b"ab"), 2);
        cache.read(b"ef");
        assert_eq!((cache.read(b"ab"), cache.used.len()), (2, 4));
        // "cd" had to go.
        assert_eq!(cache.read(b"cd"), 0);
    }
}
