//! The spans while they are built: by name, in their order, with what is still open.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::forest::{Forest, NodeId, Under};
use super::recent::Recent;
use super::timeline::Timeline;
use super::{SpanKind, SpanStatus, add_detail};
use crate::event::{Event, Timer};
use crate::ids::{ApprovalId, CallId, Seq, TimestampMs};

/// Names a span before it has an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Session,
    Step(u32),
    Model(u32),
    ModelAttempt(u32, u32),
    Call(CallId),
    CallAttempt(CallId, u32),
    Approval(ApprovalId),
    Timer(Timer),
    Pause,
    Message,
}

impl Key {
    pub(super) fn kind(self) -> SpanKind {
        match self {
            Self::Session => SpanKind::Session,
            Self::Step(_) => SpanKind::Step,
            Self::Model(_) => SpanKind::ModelCall,
            Self::ModelAttempt(..) | Self::CallAttempt(..) => SpanKind::Attempt,
            Self::Call(_) => SpanKind::ToolCall,
            Self::Approval(_) => SpanKind::Approval,
            Self::Timer(_) | Self::Pause | Self::Message => SpanKind::Wait,
        }
    }

    /// The key as a number: it is compared some twenty times an event. Calls of a step are together,
    /// in their order.
    pub(super) fn code(self) -> Code {
        let of_call = |it: CallId| u64::from(it.step) << 32 | u64::from(it.index);
        let (kind, name, attempt): (u8, u64, u32) = match self {
            Self::Session => (0, 0, 0),
            Self::Step(step) => (1, step.into(), 0),
            Self::Model(step) => (2, step.into(), 0),
            Self::ModelAttempt(step, attempt) => (3, step.into(), attempt),
            Self::Call(call_id) => (4, of_call(call_id), 0),
            Self::CallAttempt(call_id, attempt) => (5, of_call(call_id), attempt),
            Self::Approval(id) => (6, id.0, 0),
            Self::Pause => (7, 0, 0),
            Self::Message => (8, 0, 0),
            Self::Timer(Timer::ModelRetry) => (9, 0, 0),
            Self::Timer(Timer::ToolRetry(call_id)) => (10, of_call(call_id), 0),
            Self::Timer(Timer::Sleep(call_id)) => (11, of_call(call_id), 0),
            Self::Timer(Timer::ApprovalExpiry(id)) => (12, id.0, 0),
            Self::Timer(Timer::Deadline) => (13, 0, 0),
            Self::Timer(Timer::CancelGrace) => (14, 0, 0),
        };
        Code(u128::from(kind) << 96 | u128::from(name) << 32 | u128::from(attempt))
    }

    /// The span's id; waits are named by the event that began them.
    pub(super) fn span_id(self, first_seq: Seq) -> String {
        match self {
            Self::Session => "session".into(),
            Self::Step(step) => format!("step:{step}"),
            Self::Model(step) => format!("model:{step}"),
            Self::ModelAttempt(step, attempt) => format!("model:{step}/{attempt}"),
            Self::Call(call_id) => format!("call:{call_id}"),
            Self::CallAttempt(call_id, attempt) => format!("call:{call_id}/{attempt}"),
            Self::Approval(id) => format!("approval:{id}"),
            Self::Timer(_) | Self::Pause | Self::Message => format!("wait:{first_seq}"),
        }
    }

    /// The name of a span that was given none.
    fn plain_name(self) -> String {
        match self {
            Self::Step(step) => format!("step {step}"),
            Self::ModelAttempt(_, attempt) | Self::CallAttempt(_, attempt) => {
                format!("attempt {attempt}")
            }
            Self::Session
            | Self::Model(_)
            | Self::Call(_)
            | Self::Approval(_)
            | Self::Timer(_)
            | Self::Pause
            | Self::Message => String::new(),
        }
    }
}

/// See [`Key::code`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Code(u128);

impl Code {
    /// Names that are used together fall apart.
    pub(super) fn spread(self) -> usize {
        let Self(code) = self;
        let (kind, name, attempt) = (code >> 96, code >> 32, code);
        let low = (name as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (low as usize).wrapping_add(kind as usize * 7).wrapping_add(attempt as u32 as usize * 31)
    }
}

/// What a text names: a key, or the event that began a wait.
enum Named {
    Key(Key),
    Wait(Seq),
}

fn parse(span_id: &str) -> Option<Named> {
    if span_id == "session" {
        return Some(Named::Key(Key::Session));
    }
    let (what, name) = span_id.split_once(':')?;
    let (first, attempt) = match name.split_once('/') {
        Some((first, attempt)) => (first, Some(attempt.parse().ok()?)),
        None => (name, None),
    };
    let key = match (what, attempt) {
        ("step", None) => Key::Step(first.parse().ok()?),
        ("model", None) => Key::Model(first.parse().ok()?),
        ("model", Some(attempt)) => Key::ModelAttempt(first.parse().ok()?, attempt),
        ("call", None) => Key::Call(first.parse().ok()?),
        ("call", Some(attempt)) => Key::CallAttempt(first.parse().ok()?, attempt),
        ("approval", None) => Key::Approval(ApprovalId(first.parse().ok()?)),
        ("wait", None) => return Some(Named::Wait(Seq(first.parse().ok()?))),
        (_, None | Some(_)) => return None,
    };
    Some(Named::Key(key))
}

/// A text that many spans share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name(u32);

const NO_NAME: Name = Name(u32::MAX);

/// A span without what its key and its place say.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) key: Key,
    pub(super) start: TimestampMs,
    pub(super) end: Option<TimestampMs>,
    pub(super) first_seq: Seq,
    pub(super) last_seq: Seq,
    pub(super) status: SpanStatus,
    name: Name,
    /// Attempts below it.
    attempts: u32,
    pub(super) detail: String,
}

/// All of them.
#[derive(Debug, Default)]
struct Names {
    texts: Vec<String>,
    numbers: BTreeMap<String, Name>,
    bytes: usize,
}

impl Names {
    fn number(&mut self, text: &str) -> Name {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = Name(self.texts.len() as u32);
        self.texts.push(text.to_string());
        self.numbers.insert(text.to_string(), number);
        self.bytes += 2 * (text.len() + size_of::<String>()) + size_of::<Name>();
        number
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    pub(super) forest: Forest,
    pub(super) timeline: Timeline,
    /// The latest span of each name.
    index: BTreeMap<Code, NodeId>,
    /// Some of them.
    recent: Recent,
    /// Waits by the event that began them.
    waits: BTreeMap<Seq, NodeId>,
    /// What did not end.
    open: BTreeSet<NodeId>,
    /// What has more than one attempt.
    retried: BTreeSet<NodeId>,
    names: Names,
    detail_bytes: usize,
}

impl Tree {
    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        // A B-tree's nodes are two thirds full or more, and have few pointers.
        let indexed = self.index.len() * (size_of::<Code>() + size_of::<NodeId>())
            + self.waits.len() * (size_of::<Seq>() + size_of::<NodeId>());
        self.nodes.capacity() * size_of::<Node>()
            + self.forest.bytes()
            + self.timeline.bytes()
            + indexed * 3 / 2
            + self.names.bytes
            + self.detail_bytes
    }

    pub(super) fn node(&self, at: NodeId) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    pub(super) fn name_of(&self, node: &Node) -> String {
        match self.names.texts.get(node.name.0 as usize) {
            Some(text) => text.clone(),
            None => node.key.plain_name(),
        }
    }

    /// The latest span of that name.
    pub(super) fn get(&self, key: Key) -> Option<NodeId> {
        let code = key.code();
        self.recent.get(code).or_else(|| self.index.get(&code).copied())
    }

    /// The span of that id.
    pub(super) fn find(&self, span_id: &str) -> Option<NodeId> {
        match parse(span_id)? {
            Named::Key(key) => self.get(key),
            Named::Wait(seq) => self.waits.get(&seq).copied(),
        }
    }

    /// Whether one of the calls of a step is open.
    pub(super) fn has_open_call(&self, step: u32) -> bool {
        let of_step = |index| Key::Call(CallId { step, index }).code();
        self.index.range(of_step(0)..=of_step(u32::MAX)).any(|(_, at)| self.open.contains(at))
    }

    /// All that is open, the innermost first.
    pub(super) fn open_inside_out(&self) -> Vec<NodeId> {
        self.open.iter().rev().copied().collect()
    }

    /// What took more than one attempt and is over.
    pub(super) fn retried(&self) -> impl Iterator<Item = NodeId> {
        self.retried.iter().copied().filter(|it| !self.is_open(*it))
    }

    pub(super) fn is_open(&self, at: NodeId) -> bool {
        self.open.contains(&at)
    }

    /// A new span, even when an older one has the same name.
    pub(super) fn add(&mut self, event: &Event, key: Key, parent: Option<NodeId>) -> NodeId {
        let under = parent.map_or(Under::Nothing, Under::Node);
        let at = match key.kind() {
            SpanKind::Attempt => self.add_attempt(under),
            SpanKind::Session
            | SpanKind::Step
            | SpanKind::ModelCall
            | SpanKind::ToolCall
            | SpanKind::Approval
            | SpanKind::Wait => self.forest.add(under),
        };
        self.nodes.push(Node {
            key,
            start: event.time,
            end: None,
            first_seq: event.seq,
            last_seq: event.seq,
            status: SpanStatus::Open,
            name: NO_NAME,
            attempts: 0,
            detail: String::new(),
        });
        self.index.insert(key.code(), at);
        self.recent.keep(key.code(), at);
        if key.kind() == SpanKind::Wait {
            self.waits.insert(event.seq, at);
        }
        self.open.insert(at);
        self.touch(at, event.seq);
        at
    }

    /// An attempt that is the only one has no row: its call says the same.
    fn add_attempt(&mut self, under: Under) -> NodeId {
        let Under::Node(parent) = under else { return self.forest.add(under) };
        let attempts = match self.nodes.get_mut(parent as usize) {
            Some(node) => {
                node.attempts += 1;
                node.attempts
            }
            None => 1,
        };
        if attempts == 1 {
            return self.forest.add_hidden(under);
        }
        if attempts == 2 {
            self.retried.insert(parent);
            let mut children = self.forest.children_backwards(parent);
            let only = children.find(|it| !self.forest.is_shown(*it));
            drop(children);
            if let Some(only) = only {
                self.forest.show(only);
            }
        }
        self.forest.add(under)
    }

    pub(super) fn name(&mut self, at: NodeId, name: &str) {
        let name = self.names.number(name);
        self.name_as(at, name);
    }

    /// Keeps a name that many spans will have.
    pub(super) fn shared_name(&mut self, text: &str) -> Name {
        self.names.number(text)
    }

    pub(super) fn name_as(&mut self, at: NodeId, name: Name) {
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.name = name;
        }
    }

    pub(super) fn note(&mut self, at: NodeId, seq: Seq, text: &str) {
        self.touch(at, seq);
        if let Some(node) = self.nodes.get_mut(at as usize) {
            let before = node.detail.capacity();
            add_detail(&mut node.detail, text);
            self.detail_bytes += node.detail.capacity() - before;
        }
    }

    /// Says what holds from here on in the place of what the detail began with.
    pub(super) fn put_first(&mut self, at: NodeId, seq: Seq, text: &str) {
        self.touch(at, seq);
        if let Some(node) = self.nodes.get_mut(at as usize) {
            let before = node.detail.capacity();
            node.detail.insert_str(0, &alloc::format!("{text} in place of "));
            self.detail_bytes += node.detail.capacity() - before;
        }
    }

    /// Ends a span, if it is open. A clock that went back makes it empty, not negative.
    pub(super) fn end(&mut self, at: NodeId, event: &Event, status: SpanStatus) {
        self.touch(at, event.seq);
        if self.open.remove(&at)
            && let Some(node) = self.nodes.get_mut(at as usize)
        {
            node.end = Some(TimestampMs(event.time.0.max(node.start.0)));
            node.status = status;
        }
    }

    /// A span goes on that had ended.
    pub(super) fn reopen(&mut self, at: NodeId) {
        if let Some(node) = self.nodes.get_mut(at as usize) {
            (node.end, node.status) = (None, SpanStatus::Open);
            self.open.insert(at);
        }
    }

    /// The event is about this span: it and all around it were there.
    pub(super) fn touch(&mut self, at: NodeId, seq: Seq) {
        self.see(at, seq);
        self.timeline.touch(&self.forest, at, seq);
    }

    /// The span and all around it were there at `seq`.
    pub(super) fn see(&mut self, at: NodeId, seq: Seq) {
        for at in self.forest.outwards(at) {
            if let Some(node) = self.nodes.get_mut(at as usize) {
                node.last_seq = node.last_seq.max(seq);
            }
        }
    }

    /// Forgets the name of a span; it stays in the tree.
    pub(super) fn forget(&mut self, key: Key) -> Option<NodeId> {
        self.recent.forget(key.code());
        self.index.remove(&key.code())
    }

    /// Takes out a span whose name was forgotten, when it is the last one and open.
    pub(super) fn remove_if_last(&mut self, at: NodeId) -> bool {
        if at as usize + 1 != self.nodes.len() {
            return false;
        }
        let Some(node) = self.nodes.pop() else { return false };
        self.detail_bytes -= node.detail.capacity();
        self.open.remove(&at);
        self.waits.remove(&node.first_seq);
        self.forest.remove_last();
        self.timeline.forget(at, node.first_seq);
        true
    }
}
