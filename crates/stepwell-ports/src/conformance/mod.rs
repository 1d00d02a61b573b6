//! What every store must do, as tests that any store can be put through.
//!
//! ```text
//! stepwell_ports::store_conformance!(fresh_store());
//! ```
//! makes one `#[tokio::test]` per rule. `fresh_store()` is evaluated for each and gives a pair: what
//! must outlive the store (a temporary folder, or `()`), and an `Arc<dyn Store>`.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "this is test support: a rule that does not hold ends the test"
)]

mod append;
mod catalogue;
mod claims;
mod deletion;
mod differential;
pub mod fixtures;
mod imports;
mod lists;
mod payloads;

pub use differential::{SEEDS, differential, seeds};

/// The rules, each an `async fn(Arc<dyn Store>)` that panics when the store breaks it.
pub mod rules {
    pub use super::append::*;
    pub use super::catalogue::*;
    pub use super::claims::*;
    pub use super::deletion::*;
    pub use super::imports::*;
    pub use super::lists::*;
    pub use super::payloads::*;
}

/// One `#[tokio::test]` for each rule that a store must keep. See [`crate::conformance`].
#[macro_export]
macro_rules! store_conformance {
    ($make:expr) => {
        $crate::store_conformance! { @each $make;
            a_new_session_is_there_with_its_events
            a_client_key_gives_one_session_for_ever
            an_id_that_exists_is_not_created_again
            an_append_moves_head_row_and_wake_up
            an_append_at_another_place_is_refused
            of_two_appends_at_one_place_one_is_stored
            what_is_not_there_is_said_to_be_not_there
            malformed_appends_are_refused_whole
            an_older_claim_is_fenced
            the_same_owner_keeps_its_fence
            a_refused_append_leaves_its_neighbours_alone
            due_sessions_of_the_dead_are_claimed_earliest_first
            at_most_so_many_are_claimed
            own_due_sessions_are_found_and_not_fenced
            the_next_wake_up_is_the_earliest_later_one
            a_time_beyond_all_clocks_is_kept_as_never
            events_are_read_in_pages
            large_payloads_are_kept_beside_the_events_and_shared
            odd_payloads_come_back_byte_for_byte
            whole_outputs_are_kept_beside_their_event
            a_payload_under_another_address_is_refused
            the_latest_snapshot_of_the_same_version_is_found
            a_checkpoint_is_one_at_or_before_the_asked_seq
            a_session_may_begin_with_anothers_events
            a_quarantined_session_keeps_its_events
            a_session_that_is_brought_in_is_seen_at_its_end
            what_was_taken_out_of_a_session_stays_known
            what_was_brought_in_is_owned_by_nobody_and_goes_on
            an_import_that_is_dropped_leaves_nothing
            an_import_refuses_gaps_and_what_is_no_session
            a_session_that_exists_is_not_brought_in
            sessions_are_created_while_one_is_brought_in
            the_newest_update_is_listed_first
            pages_lose_and_repeat_no_session_that_rests
            sessions_are_filtered
            a_token_of_another_list_is_refused
            approvals_are_replaced_by_their_ids
            approvals_are_listed_newest_first_and_filtered
            a_definition_that_changed_is_a_new_version
            tools_are_remembered
            nodes_are_remembered_the_latest_ones
            a_deleted_session_is_gone_for_everyone
            only_a_session_that_fits_is_deleted
            a_client_key_remembers_that_its_session_was_deleted
            others_keep_what_they_share_with_a_deleted_session
            a_fork_keeps_only_the_payloads_of_its_own_events
            a_payload_that_was_removed_can_come_back
            a_deleted_id_can_be_created_again
            the_size_of_a_session_counts_what_would_go
        }
    };
    (@each $make:expr; $($rule:ident)*) => {
        $(
            #[tokio::test]
            async fn $rule() {
                let (_outlives, store) = $make;
                $crate::conformance::rules::$rule(store).await;
            }
        )*
    };
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::memory::{FaultTime, FaultyStore, MemoryStore};
    use crate::store::Store;

    fn fresh() -> ((), Arc<dyn Store>) {
        ((), Arc::new(MemoryStore::new()))
    }

    crate::store_conformance!(fresh());

    mod behind_a_wrapper_without_faults {
        use super::*;

        fn fresh() -> ((), Arc<dyn Store>) {
            let store = FaultyStore::new(MemoryStore::new(), 0, FaultTime::BeforeEffect);
            ((), Arc::new(store))
        }

        crate::store_conformance!(fresh());
    }
}
