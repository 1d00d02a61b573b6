//! The allocator of Stepwell's programs, and how long it keeps what was freed. A program that calls
//! [`keep_freed_memory`] has it; see `docs/adr/0005-freed-memory-is-kept-for-a-while.md`.
//!
//! Apart from all else because here are the only calls that the compiler cannot check.

use std::ffi::{c_int, c_long};

use mimalloc::MiMalloc;

/// What one thread allocates another one frees all the time here (a session's task, the store's
/// writer): with the system's allocator that takes a third of the time of a step.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How long memory that was freed stays with the process before the system gets it back.
const KEPT_MS: c_long = 10_000;

/// The place of `mi_option_purge_delay` in `mi_option_t` of mimalloc 3 (`mimalloc.h`).
const PURGE_DELAY: c_int = 15;

#[expect(unsafe_code, reason = "mimalloc's options have no safe interface")]
mod sys {
    use super::{c_int, c_long};

    // Of the library that the crate `mimalloc` links.
    unsafe extern "C" {
        fn mi_option_get(option: c_int) -> c_long;
        fn mi_option_set_default(option: c_int, value: c_long);
    }

    /// The value of an option.
    pub(super) fn option(option: c_int) -> c_long {
        // SAFETY: reads one number; mimalloc ignores numbers that are no option.
        unsafe { mi_option_get(option) }
    }

    /// Gives an option another default: what the environment says stays.
    pub(super) fn set_default(option: c_int, value: c_long) {
        // SAFETY: writes one number, which mimalloc reads at its next purge.
        unsafe { mi_option_set_default(option, value) }
    }
}

/// Keeps freed memory for ten seconds, or for as long as `MIMALLOC_PURGE_DELAY` says (milliseconds, -1
/// for ever). To be called first in `main`, before there are other threads. Gives the milliseconds.
pub fn keep_freed_memory() -> i64 {
    sys::set_default(PURGE_DELAY, KEPT_MS);
    sys::option(PURGE_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another version of mimalloc may number its options otherwise.
    #[test]
    fn the_option_is_the_delay_of_purges() {
        assert_eq!(sys::option(PURGE_DELAY), 1_000, "the default of mimalloc 3");
        assert_eq!(keep_freed_memory(), KEPT_MS);
    }
}
