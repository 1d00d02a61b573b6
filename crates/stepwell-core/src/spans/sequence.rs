//! A sequence of brackets in which one can insert, move, count and find in O(log n).
//!
//! A span is a pair: its opening, the pairs below it, its closing. The sequence is a treap whose
//! nodes know their parent and the [`Sum`] of what is below them. Priorities are a hash of the slot's
//! number, so the same calls always make the same tree.
//!
//! Slot 0 is no slot; slot 1 is a divider that counts as nothing; pair `p` opens in slot `2p + 2` and
//! closes in slot `2p + 3`.

use alloc::vec;
use alloc::vec::Vec;

use super::sum::Sum;

/// A place in the sequence.
pub(super) type Slot = u32;

/// No place; as a place to insert before: the end.
pub(super) const NONE: Slot = 0;
/// What divides the sequence.
pub(super) const DIVIDER: Slot = 1;

/// The opening of a pair.
pub(super) fn opening(pair: u32) -> Slot {
    2 * pair + 2
}

/// The closing of a pair.
pub(super) fn closing(pair: u32) -> Slot {
    2 * pair + 3
}

/// The pair that opens in a slot.
pub(super) fn opened_by(slot: Slot) -> Option<u32> {
    is_opening(slot).then(|| (slot - 2) / 2)
}

fn is_opening(slot: Slot) -> bool {
    slot > DIVIDER && slot.is_multiple_of(2)
}

/// The sum of one slot alone.
fn own(slot: Slot) -> &'static Sum {
    match slot {
        NONE | DIVIDER => &Sum::NONE,
        _ if is_opening(slot) => &Sum::OPEN,
        _ => &Sum::CLOSE,
    }
}

/// A hash that decides who is above whom.
fn priority(slot: Slot) -> u32 {
    let mut it = slot.wrapping_mul(0x9E37_79B9);
    it = (it ^ (it >> 16)).wrapping_mul(0x85EB_CA6B);
    it = (it ^ (it >> 13)).wrapping_mul(0xC2B2_AE35);
    it ^ (it >> 16)
}

#[derive(Debug, Clone, Copy)]
struct Node {
    left: Slot,
    right: Slot,
    parent: Slot,
    sum: Sum,
}

const NO_NODE: Node = Node { left: NONE, right: NONE, parent: NONE, sum: Sum::NONE };

/// See the module.
#[derive(Debug)]
pub(super) struct Sequence {
    nodes: Vec<Node>,
    root: Slot,
    /// How often a node was looked at.
    #[cfg(test)]
    looks: core::cell::Cell<u64>,
}

impl Default for Sequence {
    fn default() -> Self {
        Self {
            nodes: vec![NO_NODE, NO_NODE],
            root: DIVIDER,
            #[cfg(test)]
            looks: core::cell::Cell::new(0),
        }
    }
}

impl Sequence {
    /// The sequence of these slots: each pair's two, and the divider. O(slots).
    pub(super) fn of(order: &[Slot]) -> Self {
        let mut sequence = Self::default();
        sequence.nodes.resize(order.len() + 1, NO_NODE);
        // The right edge of the tree so far, from the root.
        let mut edge: Vec<Slot> = Vec::new();
        for slot in order.iter().copied() {
            let mut left = NONE;
            while let Some(last) = edge.pop_if(|it| priority(*it) < priority(slot)) {
                // Nothing comes below it any more.
                sequence.update(last);
                left = last;
            }
            sequence.set(slot, |node| node.left = left);
            sequence.set(left, |node| node.parent = slot);
            if let Some(above) = edge.last().copied() {
                sequence.set(above, |node| node.right = slot);
                sequence.set(slot, |node| node.parent = above);
            }
            edge.push(slot);
        }
        sequence.root = edge.first().copied().unwrap_or(DIVIDER);
        while let Some(last) = edge.pop() {
            sequence.update(last);
        }
        sequence
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }

    /// All of it.
    pub(super) fn total(&self) -> Sum {
        self.node(self.root).sum
    }

    /// A new pair with nothing in it, directly before `at`. Returns its number: 0, 1, 2 …
    pub(super) fn add_before(&mut self, at: Slot) -> u32 {
        let open = self.nodes.len() as Slot;
        self.nodes.push(Node { sum: Sum::OPEN, ..NO_NODE });
        self.nodes.push(Node { sum: Sum::CLOSE, ..NO_NODE });
        let close = open + 1;
        self.insert_before(close, at);
        self.insert_before(open, close);
        // They are neighbours, so one is above the other: its sums are made on the way.
        let is_open_below = self.node(close).left != NONE;
        self.update_to_root(if is_open_below { open } else { close });
        (open - 2) / 2
    }

    /// Takes out the pair that was added last; there must be nothing in it.
    pub(super) fn remove_last(&mut self) {
        let Some(pair) = (self.nodes.len() as u32 / 2).checked_sub(2) else { return };
        self.cut(opening(pair), closing(pair));
        self.nodes.truncate(self.nodes.len() - 2);
    }

    /// Moves a pair and all in it, so that it ends directly before `at`, which is not in it.
    pub(super) fn move_before(&mut self, pair: u32, at: Slot) {
        let moved = self.cut(opening(pair), closing(pair));
        let (before, after) = if at == NONE { (self.root, NONE) } else { self.split_before(at) };
        let before = self.join(before, moved);
        self.root = self.join(before, after);
    }

    /// The sum of everything before `slot`. O(log n).
    pub(super) fn before(&self, slot: Slot) -> Sum {
        let mut sum = self.node(self.node(slot).left).sum;
        let mut child = slot;
        let mut parent = self.node(slot).parent;
        while parent != NONE {
            let node = self.node(parent);
            if node.right == child {
                sum = self.node(node.left).sum.then(own(parent)).then(&sum);
            }
            (child, parent) = (parent, node.parent);
        }
        sum
    }

    /// The opening of row `row` among those at most `depth_max` deep. O(log n).
    pub(super) fn select(&self, row: u32, depth_max: Option<u32>) -> Option<Slot> {
        let mut before = Sum::NONE;
        let mut slot = self.root;
        while slot != NONE {
            let node = self.node(slot);
            let with_left = before.then(&self.node(node.left).sum);
            if row < with_left.rows_to(depth_max) {
                slot = node.left;
                continue;
            }
            before = with_left.then(own(slot));
            if row < before.rows_to(depth_max) {
                return Some(slot);
            }
            slot = node.right;
        }
        None
    }

    /// The slot after `slot`, or [`NONE`]. Amortised O(1).
    pub(super) fn after(&self, slot: Slot) -> Slot {
        let mut next = self.node(slot).right;
        if next != NONE {
            while self.node(next).left != NONE {
                next = self.node(next).left;
            }
            return next;
        }
        let mut child = slot;
        next = self.node(slot).parent;
        while next != NONE && self.node(next).right == child {
            (child, next) = (next, self.node(next).parent);
        }
        next
    }

    /// The next opening after `slot`. O(log n), amortised O(1), however many closings are between.
    pub(super) fn opening_after(&self, slot: Slot) -> Option<Slot> {
        let right = self.node(slot).right;
        if self.node(right).sum.rows > 0 {
            return self.first_opening(right);
        }
        let mut child = slot;
        let mut parent = self.node(slot).parent;
        while parent != NONE {
            let node = self.node(parent);
            if node.left == child {
                if is_opening(parent) {
                    return Some(parent);
                }
                if self.node(node.right).sum.rows > 0 {
                    return self.first_opening(node.right);
                }
            }
            (child, parent) = (parent, node.parent);
        }
        None
    }

    fn first_opening(&self, mut slot: Slot) -> Option<Slot> {
        while slot != NONE {
            let node = self.node(slot);
            if self.node(node.left).sum.rows > 0 {
                slot = node.left;
            } else if is_opening(slot) {
                return Some(slot);
            } else {
                slot = node.right;
            }
        }
        None
    }

    /// How often a node was looked at since this was asked last.
    #[cfg(test)]
    pub(super) fn take_looks(&self) -> u64 {
        self.looks.take()
    }

    fn node(&self, slot: Slot) -> &Node {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        self.nodes.get(slot as usize).unwrap_or(&NO_NODE)
    }

    fn set(&mut self, slot: Slot, change: impl FnOnce(&mut Node)) {
        if slot != NONE
            && let Some(node) = self.nodes.get_mut(slot as usize)
        {
            change(node);
        }
    }

    fn update(&mut self, slot: Slot) {
        let node = self.node(slot);
        let (left, right) = (&self.node(node.left).sum, &self.node(node.right).sum);
        let sum = left.then(own(slot)).then(right);
        self.set(slot, |node| node.sum = sum);
    }

    fn update_to_root(&mut self, mut slot: Slot) {
        while slot != NONE {
            self.update(slot);
            slot = self.node(slot).parent;
        }
    }

    /// Hangs a slot that is in no tree below one with a free side, then lifts it to its place. Its
    /// own sum and those above it are left to the caller.
    fn insert_before(&mut self, slot: Slot, at: Slot) {
        let mut above = if at == NONE { self.root } else { self.node(at).left };
        if at != NONE && above == NONE {
            self.set(at, |node| node.left = slot);
            self.set(slot, |node| node.parent = at);
        } else {
            while self.node(above).right != NONE {
                above = self.node(above).right;
            }
            self.set(above, |node| node.right = slot);
            self.set(slot, |node| node.parent = above);
        }
        loop {
            let parent = self.node(slot).parent;
            if parent == NONE || priority(parent) >= priority(slot) {
                break;
            }
            self.lift(slot, parent);
        }
    }

    /// Rotates `slot` above its parent.
    fn lift(&mut self, slot: Slot, parent: Slot) {
        let grandparent = self.node(parent).parent;
        if self.node(parent).left == slot {
            let between = self.node(slot).right;
            self.set(parent, |node| node.left = between);
            self.set(between, |node| node.parent = parent);
            self.set(slot, |node| node.right = parent);
        } else {
            let between = self.node(slot).left;
            self.set(parent, |node| node.right = between);
            self.set(between, |node| node.parent = parent);
            self.set(slot, |node| node.left = parent);
        }
        self.set(parent, |node| node.parent = slot);
        self.set(slot, |node| node.parent = grandparent);
        self.set(grandparent, |node| {
            if node.left == parent {
                node.left = slot;
            } else {
                node.right = slot;
            }
        });
        if self.root == parent {
            self.root = slot;
        }
        self.update(parent);
    }

    /// Takes the slots from `first` to `last` out and gives the tree of them.
    fn cut(&mut self, first: Slot, last: Slot) -> Slot {
        let (before, rest) = self.split_before(first);
        let after = self.after(last);
        let (cut, after) = if after == NONE { (rest, NONE) } else { self.split_before(after) };
        self.root = self.join(before, after);
        cut
    }

    /// The tree that `slot` is in as two: what is before it, and the rest.
    fn split_before(&mut self, slot: Slot) -> (Slot, Slot) {
        let (mut before, mut rest) = (self.node(slot).left, slot);
        let mut child = slot;
        let mut parent = self.node(slot).parent;
        self.set(slot, |node| (node.left, node.parent) = (NONE, NONE));
        self.set(before, |node| node.parent = NONE);
        self.update(slot);
        while parent != NONE {
            let next = self.node(parent).parent;
            self.set(parent, |node| node.parent = NONE);
            if self.node(parent).left == child {
                self.set(parent, |node| node.left = rest);
                self.set(rest, |node| node.parent = parent);
                rest = parent;
            } else {
                self.set(parent, |node| node.right = before);
                self.set(before, |node| node.parent = parent);
                before = parent;
            }
            self.update(parent);
            (child, parent) = (parent, next);
        }
        (before, rest)
    }

    /// Two trees as one, `left` before `right`.
    fn join(&mut self, left: Slot, right: Slot) -> Slot {
        let (mut left, mut right) = (left, right);
        let (mut root, mut below) = (NONE, NONE);
        // Whether what comes next hangs at the right of `below`.
        let mut is_right = false;
        while left != NONE && right != NONE {
            let takes_left = priority(left) >= priority(right);
            let top = if takes_left { left } else { right };
            self.hang(top, below, is_right, &mut root);
            (below, is_right) = (top, takes_left);
            if takes_left {
                left = self.node(left).right;
            } else {
                right = self.node(right).left;
            }
        }
        let rest = if left == NONE { right } else { left };
        self.hang(rest, below, is_right, &mut root);
        self.update_to_root(below);
        root
    }

    fn hang(&mut self, slot: Slot, below: Slot, is_right: bool, root: &mut Slot) {
        self.set(slot, |node| node.parent = below);
        if below == NONE {
            *root = slot;
        } else if is_right {
            self.set(below, |node| node.right = slot);
        } else {
            self.set(below, |node| node.left = slot);
        }
    }
}
