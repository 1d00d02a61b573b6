//! How much of the index is touched: the bounds are counts, not times.

use alloc::format;

use super::forest::{Forest, Under};
use super::sequence::Sequence;

/// Nodes of the tree that are looked at for one window of 50 rows, over three sizes.
#[test]
fn a_window_touches_the_window_and_a_logarithm() {
    for count in [1_000_u32, 10_000, 100_000] {
        let forest = broad(count);
        let log = u64::from(count.ilog2());
        for from in [0, count / 2, count - 50] {
            let folded = forest.fold(&[], None);
            forest.take_looks();
            assert_eq!(folded.window(from, 50).count(), 50);
            let looks = forest.take_looks();
            assert!(looks <= 50 * 12 + 20 * log, "{looks} looks for 50 rows of {count}");
        }
        forest.take_looks();
        assert!(forest.place(count / 2).is_some());
        let looks = forest.take_looks();
        assert!(looks <= 40 * log, "{looks} looks for one place in {count}");
    }
}

/// Collapsed subtrees are stepped over, not walked through.
#[test]
fn a_collapsed_subtree_costs_no_more_than_a_row() {
    let mut forest = Forest::default();
    let root = forest.add(Under::Nothing);
    let mut steps = alloc::vec::Vec::new();
    for _ in 0..100 {
        let step = forest.add(Under::Node(root));
        steps.push(step);
        for _ in 0..1_000 {
            forest.add(Under::Node(step));
        }
    }
    for (collapsed, depth_max) in [(&steps[..], None), (&[][..], Some(1))] {
        forest.take_looks();
        let folded = forest.fold(collapsed, depth_max);
        assert_eq!(folded.rows(), 101);
        assert_eq!(folded.window(0, 200).count(), 101);
        let looks = forest.take_looks();
        let bound = 101 * 10 * u64::from(forest.rows().ilog2());
        assert!(looks <= bound, "{looks} looks for 101 rows, {depth_max:?}");
    }
}

/// Adding the last of many costs about what adding the last of few did.
#[test]
fn an_added_node_touches_a_logarithm() {
    for count in [1_000_u32, 10_000, 100_000] {
        let mut forest = broad(count);
        forest.take_looks();
        for _ in 0..100 {
            forest.add(Under::Node(0));
        }
        let looks = forest.take_looks() / 100;
        let bound = 40 * u64::from(count.ilog2());
        assert!(looks <= bound, "{looks} looks to add one to {count}");
    }
}

/// A root with children that have three children each.
fn broad(count: u32) -> Forest {
    let mut forest = Forest::default();
    let root = forest.add(Under::Nothing);
    while forest.rows() < count {
        let step = forest.add(Under::Node(root));
        for _ in 0..3 {
            forest.add(Under::Node(step));
        }
    }
    forest
}

#[test]
fn the_same_calls_make_the_same_tree() {
    let build = || {
        let mut sequence = Sequence::default();
        for at in [0, 0, 3, 2, 5, 0, 4] {
            sequence.add_before(at);
        }
        sequence.remove_last();
        sequence.move_before(0, 0);
        format!("{sequence:?}")
    };
    assert_eq!(build(), build());
}
