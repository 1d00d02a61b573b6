//! The one source of chance: a seed, and numbers that follow from it on every machine.

use std::sync::{Arc, Mutex, PoisonError};

use stepwell_core::SessionId;
use stepwell_ports::Random;

/// Numbers from a seed. Clones draw from the same row of numbers, [`Dice::fork`] begins its own.
///
/// The generator is written out (`SplitMix64`) so that a seed which failed once fails for ever, also
/// after an update of a library.
#[derive(Debug, Clone)]
pub struct Dice {
    seed: u64,
    state: Arc<Mutex<u64>>,
}

impl Dice {
    /// Numbers that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, state: Arc::new(Mutex::new(seed)) }
    }

    /// Numbers of their own for one part of the world. They depend on the seed and the name only, so
    /// that one part drawing more does not change what the others see.
    pub fn fork(&self, name: &str) -> Self {
        let seed = name.bytes().fold(mix(self.seed), |hash, byte| mix(hash ^ u64::from(byte)));
        Self::new(seed)
    }

    /// The next number.
    pub fn draw(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(*state)
    }

    /// A number below `end`; 0 when `end` is 0.
    pub fn below(&self, end: u64) -> u64 {
        self.draw() % end.max(1)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True in `per_mille` of 1,000 cases.
    pub fn chance(&self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// One of `items`; `None` when there are none.
    pub fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

impl Random for Dice {
    fn session_id(&self) -> SessionId {
        let (high, low) = (u128::from(self.draw()), u128::from(self.draw()));
        SessionId::from_random((high << 64 | low).to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let dice = Dice::new(1);
        assert_eq!([dice.draw(), dice.draw()], [0x910A_2DEC_8902_5CC1, 0xBEEB_8DA1_658E_EC67]);
        assert_ne!(Dice::new(1).fork("a").draw(), Dice::new(1).fork("b").draw());
        let used = Dice::new(7);
        used.draw();
        assert_eq!(used.fork("a").draw(), Dice::new(7).fork("a").draw());
    }
}
