//! Nodes with a parent each, in an order that any window can be read from.
//!
//! Roots come first, then strays: nodes whose parent is not there (yet). Children stand in the order
//! in which they were added. Depth, row and size are never stored: they are counted in O(log n), so
//! that a new node, or a subtree that gets its parent, costs O(log n) however much is below or after
//! it.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::sequence::{DIVIDER, NONE, Sequence, Slot, closing, opened_by, opening};
use super::sum::LEVELS;

/// A node's number: 0, 1, 2 … in the order in which they were added.
pub(super) type NodeId = u32;

const NO_NODE: NodeId = NodeId::MAX;
/// Of a hidden node.
const NO_PAIR: u32 = u32::MAX;
/// Of a node that has a row and gets its brackets with many others.
const PAIR_TO_COME: u32 = u32::MAX - 1;

/// Deepest limit that a window can be asked with.
pub const DEPTH_LIMIT_MAX: u32 = LEVELS as u32 - 1;

#[derive(Debug, Clone, Copy)]
struct Link {
    parent: NodeId,
    last_child: NodeId,
    /// The sibling before it.
    previous: NodeId,
    /// Its brackets; none while it is hidden.
    pair: u32,
    /// Children that are not hidden.
    children: u32,
}

/// Where a new node goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Under {
    /// Below that node, as its last child.
    Node(NodeId),
    /// It has no parent.
    Nothing,
    /// Its parent is not there.
    Missing,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Forest {
    links: Vec<Link>,
    sequence: Sequence,
    /// The node of each pair of brackets.
    owners: Vec<NodeId>,
    /// The order is made at once when all have come.
    is_bulk: bool,
}

/// A place of a node in the whole order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) row: u32,
    pub(super) depth: u32,
    /// Rows of its subtree, itself among them.
    pub(super) size: u32,
    pub(super) children: u32,
    /// Whether no sibling follows.
    pub(super) is_last: bool,
}

impl Forest {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.sequence.bytes()
            + self.links.capacity() * size_of::<Link>()
            + self.owners.capacity() * size_of::<NodeId>()
    }

    #[cfg(test)]
    pub(super) fn take_looks(&self) -> u64 {
        self.sequence.take_looks()
    }

    /// All rows.
    pub(super) fn rows(&self) -> u32 {
        self.sequence.total().rows
    }

    /// Adds a node.
    pub(super) fn add(&mut self, under: Under) -> NodeId {
        let node = self.add_hidden(under);
        let at = match under {
            Under::Node(parent) => self.end_of(parent),
            Under::Nothing => DIVIDER,
            Under::Missing => NONE,
        };
        self.insert(node, at);
        node
    }

    /// Adds a node that has no row until it is shown.
    pub(super) fn add_hidden(&mut self, under: Under) -> NodeId {
        let node = self.links.len() as NodeId;
        let mut link = Link {
            parent: NO_NODE,
            last_child: NO_NODE,
            previous: NO_NODE,
            pair: NO_PAIR,
            children: 0,
        };
        if let Under::Node(parent) = under
            && let Some(above) = self.links.get_mut(parent as usize)
        {
            link.parent = parent;
            link.previous = core::mem::replace(&mut above.last_child, node);
        }
        self.links.push(link);
        node
    }

    /// Gives a hidden node its row, among its siblings as they were added.
    pub(super) fn show(&mut self, node: NodeId) {
        let Some(parent) = self.parent(node).filter(|_| !self.is_shown(node)) else { return };
        let mut at = self.end_of(parent);
        let younger = self.children_backwards(parent).take_while(|it| *it != node);
        if let Some(pair) = younger.filter_map(|it| self.pair(it)).last() {
            at = opening(pair);
        }
        self.insert(node, at);
    }

    /// Whether it has a row.
    pub(super) fn is_shown(&self, node: NodeId) -> bool {
        self.links.get(node as usize).is_some_and(|it| it.pair != NO_PAIR)
    }

    /// Many nodes will come: their order is made at once by [`Self::settle`], which is cheaper than
    /// one by one. Until then none of them is seen. Not for strays.
    pub(super) fn expect_many(&mut self) {
        self.is_bulk = true;
    }

    /// Makes the order of what came since [`Self::expect_many`]. O(nodes).
    pub(super) fn settle(&mut self) {
        if !core::mem::take(&mut self.is_bulk)
            || !self.links.iter().any(|link| link.pair == PAIR_TO_COME)
        {
            return;
        }
        self.owners.clear();
        let mut order = Vec::with_capacity(2 * self.links.len() + 1);
        // Nodes that are open, the innermost last, each before its children.
        let mut path: Vec<(NodeId, bool)> = Vec::new();
        let roots = (0..self.links.len() as NodeId).rev();
        path.extend(roots.filter(|it| self.parent(*it).is_none()).map(|it| (it, false)));
        while let Some((node, is_entered)) = path.pop() {
            let Some(link) = self.links.get_mut(node as usize) else { continue };
            if link.pair == NO_PAIR {
                continue;
            }
            if is_entered {
                order.push(closing(link.pair));
                continue;
            }
            link.pair = self.owners.len() as u32;
            order.push(opening(link.pair));
            self.owners.push(node);
            path.push((node, true));
            path.extend(self.children_backwards(node).map(|it| (it, false)));
        }
        order.push(DIVIDER);
        self.sequence = Sequence::of(&order);
    }

    /// Takes out the node that was added last, when nothing is below it.
    pub(super) fn remove_last(&mut self) {
        let Some(link) = self.links.pop() else { return };
        if link.pair != NO_PAIR && link.pair != PAIR_TO_COME {
            self.sequence.remove_last();
            self.owners.pop();
        }
        if let Some(above) = self.links.get_mut(link.parent as usize) {
            above.last_child = link.previous;
            above.children -= u32::from(link.pair != NO_PAIR);
        }
    }

    /// Puts a stray and all below it under its parent. False, and nothing done, when the parent is
    /// itself below the stray.
    pub(super) fn adopt(&mut self, parent: NodeId, stray: NodeId) -> bool {
        let Some(pair) = self.pair(stray) else { return false };
        if self.is_within(parent, stray) {
            return false;
        }
        let at = self.end_of(parent);
        self.sequence.move_before(pair, at);
        let mut previous = NO_NODE;
        if let Some(above) = self.links.get_mut(parent as usize) {
            above.children += 1;
            previous = core::mem::replace(&mut above.last_child, stray);
        }
        if let Some(link) = self.links.get_mut(stray as usize) {
            (link.parent, link.previous) = (parent, previous);
        }
        true
    }

    /// The node around it.
    pub(super) fn parent(&self, node: NodeId) -> Option<NodeId> {
        let parent = self.links.get(node as usize)?.parent;
        (parent != NO_NODE).then_some(parent)
    }

    /// It and all around it, from the inside.
    pub(super) fn outwards(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        core::iter::successors(Some(node), |it| self.parent(*it))
    }

    /// Its children, hidden ones too, the youngest first.
    pub(super) fn children_backwards(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let known = |it: NodeId| (it != NO_NODE).then_some(it);
        let last = self.links.get(node as usize).and_then(|it| known(it.last_child));
        core::iter::successors(last, move |it| known(self.links.get(*it as usize)?.previous))
    }

    /// Whether `node` is `around` or below it. O(log n).
    pub(super) fn is_within(&self, node: NodeId, around: NodeId) -> bool {
        let (Some(node), Some(around)) = (self.pair(node), self.pair(around)) else { return false };
        let row = |slot| self.sequence.before(slot).rows;
        let at = row(opening(node));
        row(opening(around)) <= at && at < row(closing(around))
    }

    /// Where a node stands in the whole order. `None` for a hidden one. O(log n).
    pub(super) fn place(&self, node: NodeId) -> Option<Place> {
        let pair = self.pair(node)?;
        let before = self.sequence.before(opening(pair));
        let end = self.sequence.before(closing(pair));
        Some(Place {
            row: before.rows,
            depth: u32::try_from(before.delta).unwrap_or(0),
            size: end.rows - before.rows,
            children: self.links.get(node as usize).map_or(0, |it| it.children),
            is_last: opened_by(self.sequence.after(closing(pair))).is_none(),
        })
    }

    /// Some of the children that have rows, in order. O(log n + window) down to
    /// [`DEPTH_LIMIT_MAX`], deeper O(log n + `from` + window).
    pub(super) fn children(&self, node: NodeId, from: u32, count: u32) -> Vec<NodeId> {
        let (Some(pair), Some(place)) = (self.pair(node), self.place(node)) else {
            return Vec::new();
        };
        let level = Some(place.depth + 1).filter(|it| *it <= DEPTH_LIMIT_MAX);
        let mut next = self.sequence.after(opening(pair));
        let mut skip = from;
        if level.is_some() && from < place.children {
            let row = self.sequence.before(opening(pair)).rows_to(level) + 1 + from;
            next = self.sequence.select(row, level).unwrap_or(NONE);
            skip = 0;
        }
        let siblings = core::iter::successors(opened_by(next), |it| {
            opened_by(self.sequence.after(closing(*it)))
        });
        let window = siblings.skip(skip as usize).take(count as usize);
        window.filter_map(|it| self.owner(it)).collect()
    }

    /// The order with some subtrees left out. O(collapsed × log n).
    pub(super) fn fold(&self, collapsed: &[NodeId], depth_max: Option<u32>) -> Folded<'_> {
        Folded::new(self, collapsed, depth_max)
    }

    fn insert(&mut self, node: NodeId, at: Slot) {
        let mut pair = PAIR_TO_COME;
        if !self.is_bulk {
            pair = self.sequence.add_before(at);
            self.owners.push(node);
        }
        let Some(link) = self.links.get_mut(node as usize) else { return };
        link.pair = pair;
        let parent = link.parent;
        if let Some(above) = self.links.get_mut(parent as usize) {
            above.children += 1;
        }
    }

    fn pair(&self, node: NodeId) -> Option<u32> {
        let pair = self.links.get(node as usize)?.pair;
        (pair != NO_PAIR && pair != PAIR_TO_COME).then_some(pair)
    }

    /// Where the next child goes.
    fn end_of(&self, node: NodeId) -> Slot {
        self.pair(node).map_or(NONE, closing)
    }

    fn owner(&self, pair: u32) -> Option<NodeId> {
        self.owners.get(pair as usize).copied()
    }
}

/// Rows that are left out: below a collapsed node.
#[derive(Debug, Clone, Copy)]
struct Gap {
    /// The row of the collapsed node, among those within the depth limit.
    row: u32,
    /// Rows below it.
    hidden: u32,
}

/// The order of a forest with some subtrees left out.
#[derive(Debug)]
pub(super) struct Folded<'a> {
    forest: &'a Forest,
    depth_max: Option<u32>,
    collapsed: BTreeSet<NodeId>,
    /// By row, none within another.
    gaps: Vec<Gap>,
}

impl<'a> Folded<'a> {
    fn new(forest: &'a Forest, collapsed: &[NodeId], depth_max: Option<u32>) -> Self {
        let rows_before = |slot| forest.sequence.before(slot).rows_to(depth_max);
        let mut gaps = Vec::with_capacity(collapsed.len());
        for pair in collapsed.iter().filter_map(|it| forest.pair(*it)) {
            let before = forest.sequence.before(opening(pair));
            // Below the limit it has no row itself.
            if depth_max.is_some_and(|limit| i64::from(before.delta) > i64::from(limit)) {
                continue;
            }
            let row = before.rows_to(depth_max);
            gaps.push(Gap { row, hidden: rows_before(closing(pair)).saturating_sub(row + 1) });
        }
        gaps.sort_unstable_by_key(|gap| gap.row);
        let mut end = 0;
        gaps.retain(|gap| {
            let is_outer = gap.row >= end;
            end = end.max(gap.row + gap.hidden + 1);
            is_outer
        });
        Self { forest, depth_max, collapsed: collapsed.iter().copied().collect(), gaps }
    }

    /// Rows that are left.
    pub(super) fn rows(&self) -> u32 {
        let all = self.forest.sequence.total().rows_to(self.depth_max);
        all - self.gaps.iter().map(|gap| gap.hidden).sum::<u32>()
    }

    /// A window. O(collapsed + (1 + window) × log n).
    pub(super) fn window(&self, from: u32, count: u32) -> impl Iterator<Item = NodeId> {
        let mut row = from;
        for gap in &self.gaps {
            if gap.row >= row {
                break;
            }
            row = row.saturating_add(gap.hidden);
        }
        let first = self.forest.sequence.select(row, self.depth_max);
        let mut depth = first.map_or(0, |it| self.forest.sequence.before(it).delta);
        let rows = core::iter::successors(first, move |slot| {
            let pair = opened_by(*slot)?;
            let is_closed = self.is_closed(pair, depth);
            let next = self.forest.sequence.opening_after(if is_closed {
                closing(pair)
            } else {
                *slot
            })?;
            if self.depth_max.is_some() {
                depth = self.forest.sequence.before(next).delta;
            }
            Some(next)
        });
        rows.take(count as usize).filter_map(|it| self.forest.owner(opened_by(it)?))
    }

    fn is_closed(&self, pair: u32, depth: i32) -> bool {
        self.depth_max.is_some_and(|limit| i64::from(depth) >= i64::from(limit))
            || self.forest.owner(pair).is_some_and(|it| self.collapsed.contains(&it))
    }

    /// The row of a node, or of what it is left out below. O((collapsed + depth) × log n).
    pub(super) fn row(&self, node: NodeId) -> Option<u32> {
        let is_deep = |it: &NodeId| {
            let depth = self.forest.place(*it).map_or(0, |place| place.depth);
            self.depth_max.is_some_and(|limit| depth > limit)
        };
        let node =
            self.forest.outwards(node).find(|it| self.forest.is_shown(*it) && !is_deep(it))?;
        let mut row =
            self.forest.sequence.before(opening(self.forest.pair(node)?)).rows_to(self.depth_max);
        let mut left_out = 0;
        for gap in &self.gaps {
            if gap.row >= row {
                break;
            }
            if row <= gap.row + gap.hidden {
                row = gap.row;
                break;
            }
            left_out += gap.hidden;
        }
        Some(row - left_out)
    }
}
