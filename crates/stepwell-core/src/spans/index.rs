//! An index over the spans of a session: any window of rows without the rest.

use alloc::string::String;
use alloc::vec::Vec;

use super::build::Builder;
use super::forest::{Folded, NodeId};
use super::{DEPTH_LIMIT_MAX, Span};
use crate::event::Event;
use crate::ids::{Seq, TimestampMs};

/// The spans of a session in pre-order, kept up event by event.
///
/// A new event costs O(log n). Nothing that is asked costs more than what is answered, but for a
/// logarithm: not the session.
#[derive(Debug, Default)]
pub struct SpanIndex {
    builder: Builder,
}

/// A span and its place in the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The span.
    pub span: Span,
    /// Number of rows before it when nothing is left out.
    pub row: u32,
    /// Rows of its subtree, itself among them.
    pub size: u32,
    /// Spans directly below it.
    pub children: u32,
    /// Whether no sibling follows.
    pub is_last: bool,
}

/// A limit that a window cannot be asked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{depth} is too deep a limit: the deepest is {DEPTH_LIMIT_MAX}; leave it out to see all")]
pub struct TooDeep {
    /// What was asked for.
    pub depth: u32,
}

impl SpanIndex {
    /// The index of a history. O(events × log events).
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut index = Self::default();
        index.expect_many();
        for event in events {
            index.push(event);
        }
        index.settle();
        index
    }

    /// Many events will come: what they add is put in order at once by [`Self::settle`], which is
    /// several times faster than one by one. Until then new spans are not seen.
    pub fn expect_many(&mut self) {
        self.builder.tree.forest.expect_many();
    }

    /// Puts in order what came since [`Self::expect_many`]. O(spans); nothing otherwise.
    pub fn settle(&mut self) {
        self.builder.tree.forest.settle();
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        self.builder.event(event);
    }

    /// The greatest seq that was taken; 0 before the first.
    pub fn head(&self) -> Seq {
        self.builder.head
    }

    /// The time of the last event that was taken.
    pub fn time(&self) -> TimestampMs {
        self.builder.time
    }

    /// Rows when nothing is left out.
    pub fn len(&self) -> u32 {
        self.builder.tree.forest.rows()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        self.builder.tree.bytes()
    }

    /// `count` rows from row `from` on.
    pub fn rows(&self, from: u32, count: u32) -> Vec<Row> {
        let folded = self.builder.tree.forest.fold(&[], None);
        folded.window(from, count).filter_map(|it| self.row(it)).collect()
    }

    /// The row of a span. An attempt that is the only one of its call has none.
    pub fn get(&self, span_id: &str) -> Option<Row> {
        self.row(self.builder.tree.find(span_id)?)
    }

    /// What is around a span, from the session to itself. Empty for a span that is not there.
    pub fn path(&self, span_id: &str) -> Vec<Row> {
        let tree = &self.builder.tree;
        let outwards = tree.find(span_id).into_iter().flat_map(|it| tree.forest.outwards(it));
        let mut path: Vec<Row> = outwards.filter_map(|it| self.row(it)).collect();
        path.reverse();
        path
    }

    /// `count` of the spans directly below one, from the `from`th on.
    pub fn children(&self, span_id: &str, from: u32, count: u32) -> Vec<Row> {
        let tree = &self.builder.tree;
        let Some(node) = tree.find(span_id) else { return Vec::new() };
        let children = tree.forest.children(node, from, count);
        children.into_iter().filter_map(|it| self.row(it)).collect()
    }

    /// The innermost span with a row that the event at `seq` is about.
    pub fn at(&self, seq: Seq) -> Option<Row> {
        let tree = &self.builder.tree;
        tree.forest.outwards(tree.timeline.at(seq)?).find_map(|it| self.row(it))
    }

    /// Up to `limit` seqs after `after` of the events that are about a span or what is below it.
    /// Looks at the events from the span's first to its last.
    pub fn seqs(&self, span_id: &str, after: Seq, limit: usize) -> Vec<Seq> {
        let tree = &self.builder.tree;
        let found = tree.find(span_id).and_then(|at| Some((at, tree.node(at)?)));
        let Some((at, node)) = found else { return Vec::new() };
        let mut seqs: Vec<Seq> = Vec::new();
        for (seq, about) in tree.timeline.between(node.first_seq.max(after.next()), node.last_seq) {
            if seqs.last() == Some(&seq) || !tree.forest.outwards(about).any(|it| it == at) {
                continue;
            }
            if seqs.len() == limit {
                break;
            }
            seqs.push(seq);
        }
        seqs
    }

    /// The rows without what is below `collapsed` spans or deeper than `depth_max`. Ids that are not
    /// there are passed over. O(collapsed × log n).
    pub fn view<'a>(
        &self,
        collapsed: impl IntoIterator<Item = &'a str>,
        depth_max: Option<u32>,
    ) -> Result<View<'_>, TooDeep> {
        if let Some(depth) = depth_max.filter(|it| *it > DEPTH_LIMIT_MAX) {
            return Err(TooDeep { depth });
        }
        let tree = &self.builder.tree;
        let collapsed: Vec<NodeId> = collapsed.into_iter().filter_map(|it| tree.find(it)).collect();
        Ok(View { index: self, folded: tree.forest.fold(&collapsed, depth_max) })
    }

    /// Ids of the calls that are over and took more than one attempt. O(their number).
    pub fn retried(&self) -> Vec<String> {
        let tree = &self.builder.tree;
        let nodes = tree.retried().filter_map(|it| tree.node(it));
        nodes.map(|it| it.key.span_id(it.first_seq)).collect()
    }

    fn row(&self, at: NodeId) -> Option<Row> {
        let tree = &self.builder.tree;
        let (node, place) = (tree.node(at)?, tree.forest.place(at)?);
        let id = |at: NodeId| -> Option<String> {
            let node = tree.node(at)?;
            Some(node.key.span_id(node.first_seq))
        };
        let span = Span {
            span_id: node.key.span_id(node.first_seq),
            parent: tree.forest.parent(at).and_then(id),
            depth: place.depth,
            kind: node.key.kind(),
            name: tree.name_of(node),
            start: node.start,
            end: node.end,
            first_seq: node.first_seq,
            last_seq: node.last_seq,
            status: node.status,
            detail: node.detail.clone(),
        };
        let super::forest::Place { row, size, children, is_last, .. } = place;
        Some(Row { span, row, size, children, is_last })
    }
}

/// The rows of an index with some left out.
#[derive(Debug)]
pub struct View<'a> {
    index: &'a SpanIndex,
    folded: Folded<'a>,
}

impl View<'_> {
    /// Rows that are left.
    pub fn len(&self) -> u32 {
        self.folded.rows()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `count` of them, from the `from`th on. O(collapsed + (1 + count) × log n).
    pub fn rows(&self, from: u32, count: u32) -> Vec<Row> {
        self.folded.window(from, count).filter_map(|it| self.index.row(it)).collect()
    }

    /// Which of them a span is, or what it is left out below.
    pub fn position(&self, span_id: &str) -> Option<u32> {
        self.folded.row(self.index.builder.tree.find(span_id)?)
    }

    /// Which of them the event at `seq` is about.
    pub fn position_at(&self, seq: Seq) -> Option<u32> {
        self.folded.row(self.index.builder.tree.timeline.at(seq)?)
    }
}
