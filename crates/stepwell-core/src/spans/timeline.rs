//! Which spans each event is about.

use alloc::vec::Vec;

use super::forest::{Forest, NodeId};
use crate::ids::Seq;

/// For each event the innermost spans that it is about, in the order of the events.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    seqs: Vec<Seq>,
    nodes: Vec<NodeId>,
    /// Where the entries of the event that is being taken begin.
    begin: usize,
}

impl Timeline {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.seqs.capacity() * size_of::<Seq>() + self.nodes.capacity() * size_of::<NodeId>()
    }

    /// An event comes.
    pub(super) fn begin_event(&mut self) {
        self.begin = self.nodes.len();
    }

    /// An event was taken. What is about nothing else is about `otherwise`.
    pub(super) fn end_event(&mut self, seq: Seq, otherwise: NodeId) {
        if self.nodes.len() <= self.begin {
            self.add(seq, otherwise);
        }
    }

    /// The event is about `node`. What is said of an inner span is not said again of those around it.
    pub(super) fn touch(&mut self, forest: &Forest, node: NodeId, seq: Seq) {
        let of_event = self.nodes.len() > self.begin;
        if let Some(last) = self.nodes.last_mut().filter(|_| of_event) {
            if forest.outwards(*last).any(|it| it == node) {
                return;
            }
            if forest.outwards(node).any(|it| it == *last) {
                *last = node;
                return;
            }
        }
        self.add(seq, node);
    }

    /// Forgets a span that began at `seq` or later.
    pub(super) fn forget(&mut self, node: NodeId, seq: Seq) {
        let mut at = self.nodes.len();
        while let Some(before) = at.checked_sub(1) {
            at = before;
            if self.seqs.get(at).is_none_or(|it| *it < seq) {
                break;
            }
            if self.nodes.get(at) == Some(&node) {
                self.nodes.remove(at);
                self.seqs.remove(at);
                self.begin -= usize::from(at < self.begin);
            }
        }
    }

    /// The span that the event is about, or the one before it when there is no such event.
    pub(super) fn at(&self, seq: Seq) -> Option<NodeId> {
        let first = self.seqs.partition_point(|it| *it < seq);
        let at = if self.seqs.get(first) == Some(&seq) { first } else { first.checked_sub(1)? };
        self.nodes.get(at).copied()
    }

    /// What events from `first` to `last` are about. More than one entry when an event is about
    /// several spans.
    pub(super) fn between(&self, first: Seq, last: Seq) -> impl Iterator<Item = (Seq, NodeId)> {
        let begin = self.seqs.partition_point(|it| *it < first);
        let entries = self.seqs.iter().copied().zip(self.nodes.iter().copied());
        entries.skip(begin).take_while(move |(seq, _)| *seq <= last)
    }

    fn add(&mut self, seq: Seq, node: NodeId) {
        self.seqs.push(seq);
        self.nodes.push(node);
    }
}
