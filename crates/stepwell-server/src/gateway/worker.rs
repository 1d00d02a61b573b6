//! One worker as the gateway knows it: its stream, its places, its calls.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use stepwell_core::{Effect, TimestampMs};
use stepwell_ports::ToolReport;
use stepwell_ports::tools::OutputSink;
use stepwell_proto::v1::{
    AttachResponse, Call, Cancel, Probe, ReportAck, attach_response::Message,
};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use tonic::Status;
use tracing::warn;

use super::held::{Held, HeldState, Watch};
use super::hello::{CallKey, Offered, Registration};
use super::options::{LIVE_BYTES_PER_SECOND_MAX, SETTLED_KEPT, UNFOLLOWED_KEPT};

/// Names one worker process for as long as the gateway knows it.
pub(super) type WorkerId = u64;

/// A moment on the two clocks: one for waiting, one for people.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Instant,
    pub(super) wall: TimestampMs,
}

/// The way to a connected worker.
pub(super) struct Link {
    pub(super) id: u64,
    outbound: mpsc::Sender<AttachResponse>,
    close: Option<oneshot::Sender<Status>>,
}

impl Link {
    pub(super) fn new(
        id: u64,
        outbound: mpsc::Sender<AttachResponse>,
        close: oneshot::Sender<Status>,
    ) -> Self {
        Self { id, outbound, close: Some(close) }
    }

    /// Ends the stream with a status that the worker sees.
    pub(super) fn close(&mut self, status: Status) {
        if let Some(close) = self.close.take() {
            // A stream that is gone needs no closing.
            drop(close.send(status));
        }
    }
}

/// A tool of this worker.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) effect: Effect,
    concurrency: u32,
    /// Places of this tool that are reserved or hold a call.
    in_use: u32,
}

impl Offer {
    pub(super) fn has_room(&self) -> bool {
        self.concurrency == 0 || self.in_use < self.concurrency
    }
}

/// Who waits for a call's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attention {
    /// A `run` or `probe` of the engine.
    Followed,
    /// Nobody now. The engine stopped waiting without an answer and will ask again.
    Unattended,
    /// Nobody: it was given up as lost. It may still run and hold its place.
    Abandoned,
    /// Nobody: the attempt is followed on another worker. What this one reports changes nothing.
    Void,
}

/// What a worker says about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Running,
    Finished(ToolReport),
    NeverStarted { reason: String },
    Unknown,
}

/// A call that was given to this worker.
pub(super) struct LiveCall {
    pub(super) key: CallKey,
    pub(super) tool: String,
    pub(super) attention: Attention,
    /// Wakes the follower after every change.
    pub(super) notify: Arc<Notify>,
    pub(super) sink: Option<Arc<dyn OutputSink>>,
    /// The last word, until the follower takes it.
    pub(super) outcome: Option<Said>,
    /// Since when a probe has no answer.
    pub(super) asked_at: Option<Instant>,
    /// The worker said or showed that the call began.
    pub(super) has_begun: bool,
    pub(super) cancel_wanted: bool,
    /// The call's message while it may have to be sent once more.
    pub(super) resend: Option<Call>,
    /// Counts while nobody follows it.
    pub(super) watch: Watch,
    live_window: (Instant, usize),
}

impl LiveCall {
    pub(super) fn new(key: CallKey, tool: String, sink: Arc<dyn OutputSink>, now: Instant) -> Self {
        Self {
            key,
            tool,
            attention: Attention::Followed,
            notify: Arc::new(Notify::new()),
            sink: Some(sink),
            outcome: None,
            asked_at: None,
            has_begun: false,
            cancel_wanted: false,
            resend: None,
            watch: Watch::after(Duration::ZERO, now),
            live_window: (now, 0),
        }
    }

    /// Takes a piece of output in, if it is not more than anybody can read.
    pub(super) fn admits_output(&mut self, bytes: usize, now: Instant) -> bool {
        let (since, taken) = &mut self.live_window;
        if now.saturating_duration_since(*since) >= Duration::from_secs(1) {
            (*since, *taken) = (now, 0);
        }
        *taken = taken.saturating_add(bytes);
        *taken <= LIVE_BYTES_PER_SECOND_MAX
    }

    /// Takes the worker's word in. The first last word counts, and it may not say both "it runs" and
    /// "it never began".
    pub(super) fn hear(&mut self, said: Said) {
        let was_asked = self.asked_at.take().is_some();
        if !was_asked {
            // It has the call, and refuses or answers it: the call did not get lost on its way.
            self.resend = None;
        }
        if self.outcome.is_some() {
            return;
        }
        match said {
            Said::Running => self.has_begun = true,
            Said::NeverStarted { .. } if self.has_begun => self.outcome = Some(Said::Unknown),
            last @ (Said::Finished(_) | Said::NeverStarted { .. } | Said::Unknown) => {
                self.outcome = Some(last);
            }
        }
        self.notify.notify_one();
    }
}

/// One worker process.
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) instance: String,
    pub(super) offers: BTreeMap<String, Offer>,
    pub(super) capacity: u32,
    pub(super) link: Option<Link>,
    /// Another process has the name now.
    pub(super) is_replaced: bool,
    pub(super) is_draining: bool,
    /// What the worker granted on this connection and was not used up. Reserved places are part of
    /// it until their call is sent.
    pub(super) credits: u32,
    pub(super) reserved: u32,
    /// By fence.
    pub(super) calls: BTreeMap<u64, LiveCall>,
    /// Calls that the worker brought back and nobody asked about yet, and reports without an
    /// acknowledgement.
    pub(super) held: HashMap<CallKey, Held>,
    /// How long whoever follows a call may take to come.
    pub(super) orphan_grace: Duration,
    settled: VecDeque<(CallKey, u64)>,
    pub(super) lies: u32,
    pub(super) connected_at: TimestampMs,
    pub(super) seen: Moment,
    pub(super) left_at: Instant,
    /// Its last connection was ended because its lease ran out.
    pub(super) fell_silent: bool,
}

impl Worker {
    pub(super) fn new(
        registration: Registration,
        link: Link,
        orphan_grace: Duration,
        at: Moment,
    ) -> Self {
        let Registration { name, instance, tools, capacity, held } = registration;
        let mut worker = Self {
            name,
            instance,
            offers: BTreeMap::new(),
            capacity,
            link: None,
            is_replaced: false,
            is_draining: false,
            credits: 0,
            reserved: 0,
            calls: BTreeMap::new(),
            held: HashMap::new(),
            orphan_grace,
            settled: VecDeque::new(),
            lies: 0,
            connected_at: at.wall,
            seen: at,
            left_at: at.now,
            fell_silent: false,
        };
        worker.open(Opening { tools, capacity, held }, link, at);
        worker
    }

    /// Takes a connection of the same process in: the first, or one after a break.
    pub(super) fn open(&mut self, opening: Opening, link: Link, at: Moment) {
        if let Some(old) = &mut self.link {
            old.close(Status::aborted("this worker opened a newer stream"));
        }
        let Opening { tools, capacity, held } = opening;
        let offers = tools.into_iter().map(|Offered { spec, concurrency }| {
            let in_use = self.offers.get(&spec.name).map_or(0, |it| it.in_use);
            (spec.name, Offer { effect: spec.effect, concurrency, in_use })
        });
        self.offers = offers.collect();
        self.capacity = capacity;
        self.link = Some(link);
        self.is_draining = false;
        self.fell_silent = false;
        // Granted anew after each hello, for what is free then.
        self.credits = 0;
        self.lies = 0;
        self.connected_at = at.wall;
        self.seen = at;
        self.bring_back(held, at.now);
        self.compare_calls(at.now);
    }

    /// After a break: what the worker still holds goes on, about the rest it is asked.
    fn compare_calls(&mut self, now: Instant) {
        let mut messages = Vec::new();
        let mut gone = Vec::new();
        for (fence, call) in &mut self.calls {
            let held = self.held.remove(&call.key);
            let is_same = held.is_some_and(|it| it.fence == *fence);
            match call.attention {
                Attention::Followed if call.outcome.is_some() => {}
                Attention::Followed => {
                    if !is_same {
                        call.asked_at = Some(now);
                        messages.push(probe(call.key, *fence));
                    }
                    if call.cancel_wanted {
                        messages.push(cancel(call.key, *fence));
                    }
                }
                Attention::Unattended | Attention::Abandoned | Attention::Void if is_same => {}
                Attention::Unattended | Attention::Abandoned | Attention::Void => {
                    gone.push(*fence);
                    self.held.extend(held.map(|it| (call.key, it)));
                }
            }
            call.notify.notify_one();
        }
        for fence in gone {
            self.remove_call(fence);
        }
        for message in messages {
            self.send(message);
        }
    }

    /// How people and the log call this process.
    pub(super) fn label(&self) -> String {
        format!("{}@{}", self.name, self.instance)
    }

    pub(super) fn is_alive(&self, now: Instant, lease: Duration) -> bool {
        self.link.is_some() && now.saturating_duration_since(self.seen.now) < lease
    }

    /// Places for calls that can be reserved now.
    pub(super) fn free_places(&self, now: Instant, lease: Duration) -> u32 {
        if self.is_alive(now, lease) && !self.is_draining {
            self.credits.saturating_sub(self.reserved)
        } else {
            0
        }
    }

    /// Hands a message to the stream. A worker that lets its messages pile up is cut off.
    pub(super) fn send(&mut self, message: Message) {
        let Some(link) = &mut self.link else {
            return;
        };
        let sent = link.outbound.try_send(AttachResponse { message: Some(message) });
        if matches!(sent, Err(mpsc::error::TrySendError::Full(_))) {
            warn!(worker = self.name, "the worker does not read its stream; it is cut off");
            link.close(Status::resource_exhausted("the worker does not read its stream"));
        }
    }

    pub(super) fn take_place(&mut self, tool: &str) {
        self.reserved = self.reserved.saturating_add(1);
        if let Some(offer) = self.offers.get_mut(tool) {
            offer.in_use = offer.in_use.saturating_add(1);
        }
    }

    pub(super) fn give_place_back(&mut self, tool: &str) {
        self.reserved = self.reserved.saturating_sub(1);
        self.free_tool(tool);
    }

    fn free_tool(&mut self, tool: &str) {
        if let Some(offer) = self.offers.get_mut(tool) {
            offer.in_use = offer.in_use.saturating_sub(1);
        }
    }

    /// Adds a call whose place of the tool is counted already.
    pub(super) fn add_call(&mut self, fence: u64, call: LiveCall) {
        self.calls.insert(fence, call);
    }

    /// Adds a call that runs here already, and asks about it.
    pub(super) fn adopt_call(&mut self, fence: u64, mut call: LiveCall, now: Instant) {
        if let Some(offer) = self.offers.get_mut(&call.tool) {
            offer.in_use = offer.in_use.saturating_add(1);
        }
        call.asked_at = Some(now);
        self.send(probe(call.key, fence));
        self.calls.insert(fence, call);
    }

    /// Ends what the gateway knows of this attempt under older fences: it gets a new one.
    pub(super) fn supersede(&mut self, key: CallKey) {
        let of_key = self.calls.iter().filter(|(_, call)| call.key == key);
        let fences: Vec<u64> = of_key.map(|(fence, _)| *fence).collect();
        for fence in fences {
            self.settle(fence);
        }
        if let Some(held) = self.held.remove(&key) {
            self.remember_settled(key, held.fence);
        }
    }

    /// Removes a call and frees its place of the tool. Its follower, if any, is told.
    pub(super) fn remove_call(&mut self, fence: u64) -> Option<LiveCall> {
        let call = self.calls.remove(&fence)?;
        call.notify.notify_one();
        self.free_tool(&call.tool);
        Some(call)
    }

    /// Removes a call, and remembers its fence so that a repeated report is no lie.
    pub(super) fn settle(&mut self, fence: u64) -> Option<LiveCall> {
        let call = self.remove_call(fence)?;
        self.remember_settled(call.key, fence);
        Some(call)
    }

    pub(super) fn remember_settled(&mut self, key: CallKey, fence: u64) {
        if self.settled.len() >= SETTLED_KEPT {
            self.settled.pop_front();
        }
        self.settled.push_back((key, fence));
    }

    pub(super) fn was_settled(&self, key: CallKey, fence: u64) -> bool {
        self.settled.contains(&(key, fence))
    }

    /// Nobody follows the call any more; its end is awaited all the same.
    pub(super) fn unfollow(&mut self, fence: u64, attention: Attention, now: Instant) {
        if let Some(call) = self.calls.get_mut(&fence) {
            call.attention = attention;
            call.watch = Watch::after(self.orphan_grace, now);
            call.sink = None;
            call.resend = None;
            let (key, has_ended) = (call.key, call.outcome.is_some());
            if has_ended {
                // Nobody took the last word, so it was not acknowledged: the worker still has it.
                self.remove_call(fence);
                self.hold(key, fence, HeldState::Reported, now);
            }
        }
        let unfollowed = self.calls.iter().filter(|(_, it)| it.attention != Attention::Followed);
        let fences: Vec<u64> = unfollowed.map(|(fence, _)| *fence).collect();
        // The oldest fences come first.
        let surplus = fences.len().saturating_sub(UNFOLLOWED_KEPT);
        for fence in fences.into_iter().take(surplus) {
            self.settle(fence);
        }
    }

    pub(super) fn is_followed(&self) -> bool {
        self.calls.values().any(|it| it.attention == Attention::Followed)
    }

    pub(super) fn wake_followers(&self) {
        for call in self.calls.values() {
            call.notify.notify_one();
        }
    }
}

/// What a worker says at the beginning of each connection.
pub(super) struct Opening {
    pub(super) tools: Vec<Offered>,
    pub(super) capacity: u32,
    pub(super) held: HashMap<CallKey, u64>,
}

pub(super) fn ack(key: CallKey, fence: u64) -> Message {
    let CallKey { session_id, call_id, .. } = key;
    Message::Ack(ReportAck {
        session_id: session_id.to_string(),
        call_id: call_id.to_string(),
        fence,
    })
}

pub(super) fn cancel(key: CallKey, fence: u64) -> Message {
    let CallKey { session_id, call_id, .. } = key;
    Message::Cancel(Cancel {
        session_id: session_id.to_string(),
        call_id: call_id.to_string(),
        fence,
    })
}

pub(super) fn probe(key: CallKey, fence: u64) -> Message {
    let CallKey { session_id, call_id, attempt } = key;
    let (session_id, call_id) = (session_id.to_string(), call_id.to_string());
    Message::Probe(Probe { session_id, call_id, attempt, fence })
}
