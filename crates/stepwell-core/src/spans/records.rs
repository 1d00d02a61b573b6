//! The same index over spans that say themselves what is around them, in any order.
//!
//! For what does not come from one session's events: records of several sessions, or of others.
//! Children may come before their parent, the parent may never come, links may form a ring, an id
//! may come twice, an end may lie before its start. All is shown once, and marked.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::DEPTH_LIMIT_MAX;
use super::forest::{Forest, NodeId, Under};
use super::index::TooDeep;
use crate::ids::TimestampMs;

/// What somebody says of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its name; a second record of the same name adds to the first.
    pub id: &'a str,
    /// The span around it.
    pub parent: Option<&'a str>,
    /// When it began.
    pub start: TimestampMs,
    /// When it ended, if it did.
    pub end: Option<TimestampMs>,
}

/// What is wrong with a span's place or time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Its parent did not come.
    ParentMissing,
    /// Its parent is below it, or itself.
    Ring,
    /// Its end was before its start: it is shown with no length.
    EndBeforeStart,
}

/// A record in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRow {
    /// Its name.
    pub id: String,
    /// The span that it stands below.
    pub parent: Option<String>,
    /// 0 for roots and strays.
    pub depth: u32,
    /// Rows of its subtree, itself among them.
    pub size: u32,
    /// When it began.
    pub start: TimestampMs,
    /// When it ended; never before its start.
    pub end: Option<TimestampMs>,
    /// What is wrong with it.
    pub marks: Vec<Mark>,
}

#[derive(Debug)]
struct Known {
    id: String,
    parent: Option<String>,
    start: TimestampMs,
    end: Option<TimestampMs>,
    is_in_ring: bool,
}

/// An index over records.
#[derive(Debug, Default)]
pub struct RecordIndex {
    forest: Forest,
    records: Vec<Known>,
    ids: BTreeMap<String, NodeId>,
    /// Strays by the parent that they wait for.
    waiting: BTreeMap<String, Vec<NodeId>>,
}

impl RecordIndex {
    /// Takes a record. O(log n), and as much for each span that waited for it.
    pub fn push(&mut self, record: &Record<'_>) {
        if let Some(at) = self.ids.get(record.id).copied() {
            self.add_to(at, record);
            return;
        }
        let parent = record.parent.and_then(|it| self.ids.get(it).copied());
        let under = match (record.parent, parent) {
            (None, _) => Under::Nothing,
            (Some(_), Some(parent)) => Under::Node(parent),
            (Some(_), None) => Under::Missing,
        };
        let at = self.forest.add(under);
        self.records.push(Known {
            id: record.id.to_string(),
            parent: record.parent.map(ToString::to_string),
            start: record.start,
            end: record.end,
            is_in_ring: false,
        });
        self.ids.insert(record.id.to_string(), at);
        if under == Under::Missing
            && let Some(parent) = record.parent
        {
            self.waiting.entry(parent.to_string()).or_default().push(at);
        }
        for stray in self.waiting.remove(record.id).unwrap_or_default() {
            let is_adopted = self.forest.adopt(at, stray);
            if let Some(stray) = self.records.get_mut(stray as usize) {
                stray.is_in_ring = !is_adopted;
            }
        }
    }

    /// What a later record of the same span knows more. A parent that only it names is passed over:
    /// the span already has its place.
    fn add_to(&mut self, at: NodeId, record: &Record<'_>) {
        if let Some(known) = self.records.get_mut(at as usize) {
            known.start = known.start.min(record.start);
            known.end = known.end.max(record.end);
        }
    }

    /// Rows when nothing is left out.
    pub fn len(&self) -> u32 {
        self.forest.rows()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the order itself, without the records.
    pub fn order_bytes(&self) -> usize {
        self.forest.bytes()
    }

    /// `count` rows from row `from` on, without what is below `collapsed` or deeper than `depth_max`.
    pub fn rows(
        &self,
        from: u32,
        count: u32,
        collapsed: &[&str],
        depth_max: Option<u32>,
    ) -> Result<Vec<RecordRow>, TooDeep> {
        if let Some(depth) = depth_max.filter(|it| *it > DEPTH_LIMIT_MAX) {
            return Err(TooDeep { depth });
        }
        let collapsed: Vec<NodeId> =
            collapsed.iter().filter_map(|it| self.ids.get(*it).copied()).collect();
        let folded = self.forest.fold(&collapsed, depth_max);
        Ok(folded.window(from, count).filter_map(|it| self.row(it)).collect())
    }

    /// The row of a span.
    pub fn get(&self, id: &str) -> Option<RecordRow> {
        self.row(*self.ids.get(id)?)
    }

    /// The number of a span's row.
    pub fn position(&self, id: &str) -> Option<u32> {
        Some(self.forest.place(*self.ids.get(id)?)?.row)
    }

    fn row(&self, at: NodeId) -> Option<RecordRow> {
        let (known, place) = (self.records.get(at as usize)?, self.forest.place(at)?);
        let parent = self.forest.parent(at).and_then(|it| self.records.get(it as usize));
        let mut marks = Vec::new();
        if known.is_in_ring {
            marks.push(Mark::Ring);
        } else if known.parent.is_some() && parent.is_none() {
            marks.push(Mark::ParentMissing);
        }
        if known.end.is_some_and(|end| end < known.start) {
            marks.push(Mark::EndBeforeStart);
        }
        Some(RecordRow {
            id: known.id.clone(),
            parent: parent.map(|it| it.id.clone()),
            depth: place.depth,
            size: place.size,
            start: known.start,
            end: known.end.map(|end| end.max(known.start)),
            marks,
        })
    }
}
