//! Damage: what networks, proxies and models do to bytes, and what they do not.

use rand::RngExt as _;
use rand::rngs::StdRng;

/// One of `choices`.
pub(crate) fn pick<'a, T: ?Sized>(dice: &mut StdRng, choices: &[&'a T]) -> &'a T {
    choices[dice.random_range(0..choices.len())]
}

/// Damages `bytes` in a few places. `words` are what the format cares about; `other` is spliced in.
pub(crate) fn damage(bytes: &mut Vec<u8>, words: &[&str], other: &[u8], dice: &mut StdRng) {
    for _ in 0..dice.random_range(0..4) {
        let at = dice.random_range(0..=bytes.len());
        let end = dice.random_range(at..=bytes.len());
        match dice.random_range(0..9) {
            0 if at < bytes.len() => bytes[at] = dice.random(),
            1 if at < bytes.len() => bytes[at] ^= 1 << dice.random_range(0..8),
            2 => bytes.insert(at, dice.random()),
            3 => drop(bytes.drain(at..end.min(at + 16))),
            4 => drop(bytes.splice(at..at, pick(dice, words).bytes())),
            5 => bytes.truncate(at),
            6 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(end..end, piece);
            }
            7 if !other.is_empty() => {
                let from = dice.random_range(0..other.len());
                bytes.splice(at..end, other[from..].iter().copied());
            }
            _ => {}
        }
    }
}
