//! One worker's stream, from its hello to its end.
//!
//! The response stream is the task: polling it reads what the worker says, and dropping it is the end
//! of the connection. A worker that does not read its responses is not heard either once its pipe is
//! full, and its lease runs out.
//!
//! Invariant: whatever a worker sends, it can hurt nothing but its own stream.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use stepwell_proto::v1::{
    AttachRequest, AttachResponse, CallReport, Hello, OutputChunk, Welcome, attach_request,
    attach_response,
};
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::{Status, Streaming};
use tracing::{debug, info, warn};

use super::Shared;
use super::catalogue;
use super::fleet::LinkEnds;
use super::hello::{self, Registration};
use super::late::LateReport;
use super::options::HELLO_WITHIN;
use super::reports::Heard;

/// What the server sends to a worker.
pub(super) type Responses = Pin<Box<dyn Stream<Item = Result<AttachResponse, Status>> + Send>>;

/// Lets a worker in and gives its stream.
///
/// # Errors
/// - `INVALID_ARGUMENT`: the hello is missing or wrong; the message says what.
/// - `ALREADY_EXISTS`: a living worker has the name.
/// - `RESOURCE_EXHAUSTED`: there are too many workers.
/// - `UNAVAILABLE`: the tools could not be stored, or the server is going down; try again.
pub(super) async fn attach(
    shared: Arc<Shared>,
    mut inbound: Streaming<AttachRequest>,
) -> Result<Responses, Status> {
    if shared.closing.is_cancelled() {
        return Err(going_down());
    }
    let hello = first_message(&mut inbound).await?;
    let embedded = shared.options.embedded_instance.clone();
    // Compiling schemas takes time that belongs to no async thread.
    let checked = tokio::task::spawn_blocking(move || hello::check(hello, embedded.as_deref()));
    let registration =
        checked.await.map_err(|_| Status::internal("the hello was not readable"))??;
    let label = format!("{}@{}", registration.name, registration.instance);
    let ends = register(&shared, registration).await?;
    info!(worker = label, "worker connected");
    let session = Session {
        welcome: Some(welcome(&shared)),
        shared,
        label,
        inbound,
        ends,
        heard_at: Instant::now(),
        is_over: false,
    };
    let responses = futures_util::stream::unfold(session, |mut session| async move {
        let item = session.next().await?;
        Some((item, session))
    });
    Ok(Box::pin(responses))
}

async fn first_message(inbound: &mut Streaming<AttachRequest>) -> Result<Hello, Status> {
    let first = timeout(HELLO_WITHIN, inbound.message()).await;
    let first = first.map_err(|_| Status::deadline_exceeded("no hello came in time"))??;
    match first.and_then(|it| it.message) {
        Some(attach_request::Message::Hello(hello)) => Ok(hello),
        Some(_) | None => Err(Status::invalid_argument("the first message must be hello")),
    }
}

/// Stores the worker's tools and gives it its place among the workers. One at a time, so that two
/// workers with the same tool or name see each other.
async fn register(shared: &Shared, registration: Registration) -> Result<LinkEnds, Status> {
    let _one_at_a_time = shared.registering.lock().await;
    shared.fleet().check_name(&registration, Instant::now())?;
    if !registration.tools.is_empty() {
        let unavailable = |error: stepwell_ports::StoreError| {
            Status::unavailable(format!("the tools could not be stored: {error}"))
        };
        let known = shared.store.tools().await.map_err(unavailable)?;
        let name = registration.name.as_str();
        let others = |tool: &str| shared.fleet().strongest_effect(tool, name);
        let now = shared.clock.now();
        let records = catalogue::merge(name, &registration.tools, &known, others, now)
            .map_err(unavailable)?;
        shared.store.put_tools(records).await.map_err(unavailable)?;
    }
    let ends = shared.fleet().attach(registration, shared.moment())?;
    shared.changed();
    Ok(ends)
}

fn welcome(shared: &Shared) -> AttachResponse {
    let options = &shared.options;
    let welcome = Welcome {
        heartbeat_ms: options.heartbeat.as_millis() as u64,
        lease_ms: options.lease.as_millis() as u64,
        message_bytes_max: options.message_bytes_max as u64,
    };
    AttachResponse { message: Some(attach_response::Message::Welcome(welcome)) }
}

fn going_down() -> Status {
    Status::unavailable("the server is going down: connect again when it is back")
}

struct Session {
    welcome: Option<AttachResponse>,
    shared: Arc<Shared>,
    label: String,
    inbound: Streaming<AttachRequest>,
    ends: LinkEnds,
    heard_at: Instant,
    is_over: bool,
}

enum Event {
    Inbound(Result<Option<AttachRequest>, Status>),
    Outbound(Option<AttachResponse>),
    Closed(Option<Status>),
    LeaseOver,
    ServerCloses,
}

/// What an event leads to: something for the worker, or the end.
enum Step {
    GoOn,
    Send(AttachResponse),
    End(Option<Status>),
}

impl Session {
    async fn next(&mut self) -> Option<Result<AttachResponse, Status>> {
        if let Some(welcome) = self.welcome.take() {
            return Some(Ok(welcome));
        }
        while !self.is_over {
            let event = self.event().await;
            match self.step(event) {
                // A worker that never stops talking lets other tasks have their turn.
                Step::GoOn => consume_budget().await,
                Step::Send(response) => return Some(Ok(response)),
                Step::End(status) => {
                    self.end();
                    let status = status?;
                    debug!(worker = self.label, %status, "the worker's stream is closed");
                    return Some(Err(status));
                }
            }
        }
        None
    }

    async fn event(&mut self) -> Event {
        let lease_ends_at = self.heard_at + self.shared.options.lease;
        tokio::select! {
            message = self.inbound.message() => Event::Inbound(message),
            response = self.ends.outbound.recv() => Event::Outbound(response),
            status = &mut self.ends.closed => Event::Closed(status.ok()),
            () = sleep_until(lease_ends_at) => Event::LeaseOver,
            () = self.shared.closing.cancelled() => Event::ServerCloses,
        }
    }

    fn step(&mut self, event: Event) -> Step {
        match event {
            Event::Inbound(Ok(Some(request))) => match self.hear(request) {
                Ok(()) => Step::GoOn,
                Err(status) => Step::End(Some(status)),
            },
            Event::Inbound(Ok(None)) => Step::End(None),
            Event::Inbound(Err(status)) => Step::End(Some(status)),
            Event::Outbound(Some(response)) => Step::Send(response),
            Event::Outbound(None) => {
                let status = self.ends.closed.try_recv().ok();
                Step::End(Some(status.unwrap_or_else(replaced)))
            }
            Event::Closed(status) => Step::End(Some(status.unwrap_or_else(replaced))),
            Event::LeaseOver => {
                warn!(worker = self.label, "no sign of life within the lease");
                Step::End(Some(Status::deadline_exceeded("no sign of life within the lease")))
            }
            Event::ServerCloses => Step::End(Some(going_down())),
        }
    }

    fn hear(&mut self, request: AttachRequest) -> Result<(), Status> {
        let LinkEnds { worker_id, link_id, .. } = self.ends;
        let at = self.shared.moment();
        self.heard_at = at.now;
        if !self.shared.fleet().touch(worker_id, link_id, at) {
            return Err(replaced());
        }
        match request.message {
            Some(attach_request::Message::Hello(_)) => {
                return Err(Status::invalid_argument("hello may only be the first message"));
            }
            Some(attach_request::Message::Credit(credit)) => {
                self.shared.fleet().credit(worker_id, credit.calls, at.now);
                self.shared.changed();
            }
            Some(attach_request::Message::Output(chunk)) => self.pass_on(chunk),
            Some(attach_request::Message::Report(report)) => return self.report(report),
            Some(attach_request::Message::Drain(_)) => {
                info!(worker = self.label, "the worker takes no more calls");
                self.shared.fleet().drain(worker_id);
            }
            // A heartbeat did its work by coming. A message of a newer release says nothing to us.
            Some(attach_request::Message::Heartbeat(_)) | None => {}
        }
        Ok(())
    }

    fn pass_on(&self, chunk: OutputChunk) {
        let sink = self.shared.fleet().output(self.ends.worker_id, &chunk, Instant::now());
        if let Some(sink) = sink {
            sink.chunk(chunk.text);
        }
    }

    fn report(&self, report: CallReport) -> Result<(), Status> {
        let heard = self.shared.fleet().report(self.ends.worker_id, report, Instant::now());
        match heard {
            Heard::Taken | Heard::Ignored => Ok(()),
            Heard::Late { key, fence, worker, report } => {
                let shared = Arc::downgrade(&self.shared);
                let late = LateReport::new(shared, (key, fence), worker, report);
                if self.shared.late.try_send(late).is_err() {
                    // Not acknowledged, so the worker keeps it and is asked for it again.
                    debug!(worker = self.label, "nobody takes late reports now");
                }
                Ok(())
            }
            Heard::Close(reason) => Err(Status::failed_precondition(reason)),
        }
    }

    fn end(&mut self) {
        if !self.is_over {
            self.is_over = true;
            let LinkEnds { worker_id, link_id, .. } = self.ends;
            self.shared.fleet().detach(worker_id, link_id, Instant::now());
            self.shared.changed();
            info!(worker = self.label, "worker disconnected");
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

fn replaced() -> Status {
    Status::aborted("this worker opened a newer stream, or another process has its name now")
}
