//! One connection to the server, from hello to its end.
//!
//! What must arrive (reports, answers) waits in order for room on the stream; what may get lost (live
//! output) is dropped when there is none. Reading never waits for writing, so two full pipes cannot
//! stop each other.

use std::collections::VecDeque;
use std::time::Duration;

use stepwell_proto::v1::worker_service_client::WorkerServiceClient;
use stepwell_proto::v1::{
    AttachRequest, AttachResponse, CallReport, Credit, Drain, Heartbeat, Welcome, attach_request,
    attach_response,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tracing::info;

use super::desk::{Desk, Local, Reply};
use super::job::News;
use super::ledger::Key;
use super::options::{
    ANSWERS_MAX, ATTACH_WITHIN, GOODBYE, HEARTBEAT_MAX, HEARTBEAT_MIN, MESSAGE_BYTES_DEFAULT,
    OUTBOUND_WAITING,
};
use super::wire::{self, request};

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// The host has left.
    Done,
    /// The server does not take this worker, and trying again changes nothing.
    Refused(Status),
    /// Another worker has the name, for now.
    NameTaken(Status),
    Broken(Status),
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::InvalidArgument
            | Code::Unimplemented
            | Code::Unauthenticated
            | Code::PermissionDenied => Self::Refused(status),
            Code::AlreadyExists => Self::NameTaken(status),
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::NotFound
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => Self::Broken(status),
        }
    }
}

/// What became of something that was waited for while the calls went on.
pub(super) enum Tended<T> {
    Ready(T),
    /// The host has left meanwhile.
    Done,
}

/// Waits for `future`; calls go on and end meanwhile, without a server to tell.
pub(super) async fn tend<F: Future>(
    desk: &mut Desk,
    shutdown: &CancellationToken,
    future: F,
) -> Tended<F::Output> {
    let mut future = std::pin::pin!(future);
    loop {
        if desk.is_done() {
            return Tended::Done;
        }
        let (alarm, is_leaving) = (desk.alarm(), desk.is_leaving());
        let local = tokio::select! {
            output = &mut future => return Tended::Ready(output),
            local = desk.local() => Some(local),
            () = shutdown.cancelled(), if !is_leaving => None,
            () = sleep_until(alarm), if is_leaving => None,
        };
        match local {
            // The report is in the ledger now; it goes out after the next hello.
            Some(Local::News(news)) => drop(desk.take(news)),
            Some(Local::PlaceFree) => {}
            None if is_leaving => desk.on_alarm(),
            None => desk.leave(),
        }
    }
}

/// Makes a connection and works on it to its end. `welcomed` is set once the server has taken the
/// worker.
pub(super) async fn connect(
    desk: &mut Desk,
    channel: &Channel,
    shutdown: &CancellationToken,
    welcomed: &mut bool,
) -> End {
    let mut connection = match open(desk, channel, shutdown).await {
        Ok(connection) => connection,
        Err(end) => return end,
    };
    *welcomed = true;
    info!(worker = desk.options.name, server = desk.options.server, "connected");
    connection.work(desk, shutdown).await
}

async fn open(
    desk: &mut Desk,
    channel: &Channel,
    shutdown: &CancellationToken,
) -> Result<Connection, End> {
    let (outbound, requests) = mpsc::channel(OUTBOUND_WAITING);
    // There is room: nothing else was sent.
    drop(outbound.try_send(desk.hello()));
    let mut client = WorkerServiceClient::new(channel.clone());
    let attach = async move {
        let mut inbound = client.attach(ReceiverStream::new(requests)).await?.into_inner();
        let first = inbound.message().await?;
        Ok::<_, Status>((inbound, first))
    };
    let (inbound, first) = match tend(desk, shutdown, timeout(ATTACH_WITHIN, attach)).await {
        Tended::Ready(Ok(Ok(opened))) => opened,
        Tended::Ready(Ok(Err(status))) => return Err(status.into()),
        Tended::Ready(Err(_)) => {
            return Err(End::Broken(Status::deadline_exceeded("the server does not answer")));
        }
        Tended::Done => return Err(End::Done),
    };
    match first.and_then(|it| it.message) {
        Some(attach_response::Message::Welcome(welcome)) => {
            Ok(Connection::new(desk, outbound, inbound, &welcome))
        }
        Some(_) | None => Err(End::Broken(Status::internal("the server gave no welcome"))),
    }
}

/// What waits for room on the stream.
enum Outgoing {
    Answer(Box<CallReport>),
    /// Made from the ledger when there is room, so that large reports do not wait twice.
    Report(Key),
    Drain,
}

struct Connection {
    outbound: mpsc::Sender<AttachRequest>,
    inbound: Streaming<AttachResponse>,
    waiting: VecDeque<Outgoing>,
    /// Credits that the server has not used.
    granted: u32,
    beats: Interval,
    is_beat_due: bool,
    bytes_max: usize,
}

enum Event {
    /// The stream takes a message, or (false) never again one.
    Room(bool),
    Message(Result<Option<AttachResponse>, Status>),
    Local(Local),
    Beat,
    Shutdown,
    Alarm,
}

impl Connection {
    fn new(
        desk: &Desk,
        outbound: mpsc::Sender<AttachRequest>,
        inbound: Streaming<AttachResponse>,
        welcome: &Welcome,
    ) -> Self {
        let heartbeat = Duration::from_millis(welcome.heartbeat_ms);
        let mut beats = interval(heartbeat.clamp(HEARTBEAT_MIN, HEARTBEAT_MAX));
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut waiting: VecDeque<Outgoing> =
            desk.ledger.unacknowledged().into_iter().map(Outgoing::Report).collect();
        if desk.is_leaving() {
            waiting.push_front(Outgoing::Drain);
        }
        let bytes_max = match welcome.message_bytes_max {
            0 => MESSAGE_BYTES_DEFAULT,
            given => usize::try_from(given).unwrap_or(MESSAGE_BYTES_DEFAULT),
        };
        Self { outbound, inbound, waiting, granted: 0, beats, is_beat_due: false, bytes_max }
    }

    async fn work(&mut self, desk: &mut Desk, shutdown: &CancellationToken) -> End {
        loop {
            if desk.is_done() && self.waiting.is_empty() {
                return self.say_goodbye().await;
            }
            let event = self.event(desk, shutdown).await;
            match event {
                Event::Shutdown => {
                    desk.leave();
                    self.waiting.push_front(Outgoing::Drain);
                }
                Event::Alarm => desk.on_alarm(),
                Event::Beat => {
                    self.is_beat_due = true;
                    desk.ledger.prune(Instant::now());
                }
                Event::Room(true) => self.send_next(desk),
                Event::Room(false) => return self.last_word().await,
                Event::Message(Ok(Some(response))) => self.hear(desk, response),
                Event::Message(Ok(None)) => {
                    return End::Broken(Status::unavailable("the server ended the stream"));
                }
                Event::Message(Err(status)) => return status.into(),
                Event::Local(Local::News(News::Output { key, text })) => {
                    self.pass_on(desk, key, text);
                }
                Event::Local(Local::News(news)) => {
                    let reply = desk.take(news);
                    self.reply(reply);
                }
                Event::Local(Local::PlaceFree) => {}
            }
            if self.waiting.len() > ANSWERS_MAX {
                return End::Broken(Status::resource_exhausted("the server does not read"));
            }
        }
    }

    async fn event(&mut self, desk: &mut Desk, shutdown: &CancellationToken) -> Event {
        let has_something =
            !self.waiting.is_empty() || self.is_beat_due || desk.grantable(self.granted) > 0;
        let (alarm, is_leaving) = (desk.alarm(), desk.is_leaving());
        tokio::select! {
            () = shutdown.cancelled(), if !is_leaving => Event::Shutdown,
            () = sleep_until(alarm), if is_leaving => Event::Alarm,
            _ = self.beats.tick() => Event::Beat,
            // The room stays: nobody else sends on this stream.
            room = self.outbound.reserve(), if has_something => Event::Room(room.is_ok()),
            message = self.inbound.message() => Event::Message(message),
            local = desk.local() => Event::Local(local),
        }
    }

    fn send_next(&mut self, desk: &Desk) {
        let next = self.next(desk).unwrap_or_else(|| {
            self.is_beat_due = false;
            request(attach_request::Message::Heartbeat(Heartbeat { running_calls: desk.running() }))
        });
        // There is room. Should the stream break at this moment, the next turn of the loop sees it,
        // and what was lost with it is said again after the reconnect.
        drop(self.outbound.try_send(next));
    }

    /// The next message that is not a heartbeat. Credits first: an answer can make the server want
    /// to send the call again at once.
    fn next(&mut self, desk: &Desk) -> Option<AttachRequest> {
        let calls = desk.grantable(self.granted);
        if calls > 0 {
            self.granted = self.granted.saturating_add(calls);
            return Some(request(attach_request::Message::Credit(Credit { calls })));
        }
        while let Some(next) = self.waiting.pop_front() {
            match next {
                Outgoing::Drain => return Some(request(attach_request::Message::Drain(Drain {}))),
                Outgoing::Answer(report) => {
                    return Some(request(attach_request::Message::Report(*report)));
                }
                Outgoing::Report(key) => {
                    // It may have been thrown away meanwhile.
                    if let Some((fence, report)) = desk.ledger.report(&key) {
                        let report = wire::report(key, fence, &report, self.bytes_max);
                        return Some(request(attach_request::Message::Report(report)));
                    }
                }
            }
        }
        None
    }

    fn hear(&mut self, desk: &mut Desk, response: AttachResponse) {
        match response.message {
            Some(attach_response::Message::Call(call)) => {
                self.granted = self.granted.saturating_sub(1);
                let reply = desk.call(call);
                self.reply(reply);
            }
            Some(attach_response::Message::Cancel(cancel)) => {
                desk.ledger.cancel(&cancel.session_id, &cancel.call_id, cancel.fence);
            }
            Some(attach_response::Message::Ack(ack)) => {
                desk.ledger.acknowledge(&ack.session_id, &ack.call_id, ack.fence);
            }
            Some(attach_response::Message::Probe(probe)) => {
                let reply = desk.probe(probe);
                self.reply(reply);
            }
            // A newer server may say things that mean nothing to this release.
            Some(attach_response::Message::Welcome(_)) | None => {}
        }
    }

    fn reply(&mut self, reply: Reply) {
        match reply {
            Reply::Nothing => {}
            Reply::Answer(report) => self.waiting.push_back(Outgoing::Answer(Box::new(report))),
            Reply::Report(key) => self.waiting.push_back(Outgoing::Report(key)),
        }
    }

    fn pass_on(&self, desk: &Desk, key: Key, text: String) {
        if let Some(fence) = desk.ledger.fence(&key) {
            // Dropped when there is no room.
            drop(self.outbound.try_send(wire::output(key, fence, text)));
        }
    }

    /// The stream takes nothing more; the server's status says why.
    async fn last_word(&mut self) -> End {
        let status = timeout(GOODBYE, async {
            loop {
                match self.inbound.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return Status::unavailable("the server ended the stream"),
                    Err(status) => return status,
                }
            }
        });
        status.await.unwrap_or_else(|_| Status::unavailable("the stream broke")).into()
    }

    /// Everything is said. Closing our side and reading to the end lets the last message arrive.
    async fn say_goodbye(&mut self) -> End {
        let (closed, _) = mpsc::channel(1);
        self.outbound = closed;
        drop(self.last_word().await);
        End::Done
    }
}
