//! A scripted server, and a host to play with.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use stepwell_proto::v1::worker_service_server::{WorkerService, WorkerServiceServer};
use stepwell_proto::v1::{
    AttachRequest, AttachResponse, Call, CallReport, Cancel, Hello, Probe, ReportAck, Welcome,
    attach_request, attach_response, call_report,
};
use stepwell_worker::host::{HostError, HostOptions, WorkerHost};
use stepwell_worker::{
    Effect, Tool, ToolContext, ToolDescription, ToolError, ToolOutput, ToolResult, Toolbox,
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("nothing came")
}

/// One stream, as the server holds it. Dropping it breaks it.
pub(crate) struct Stream {
    from: Streaming<AttachRequest>,
    to: mpsc::Sender<Result<AttachResponse, Status>>,
    pub(crate) hello: Hello,
    /// Granted, and not asked for by the test yet.
    credits: u32,
}

/// Hands every stream to the test.
struct Door {
    streams: mpsc::Sender<Stream>,
    refuse: Option<Status>,
}

#[async_trait]
impl WorkerService for Door {
    type AttachStream = ReceiverStream<Result<AttachResponse, Status>>;

    async fn attach(
        &self,
        request: Request<Streaming<AttachRequest>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        if let Some(status) = &self.refuse {
            return Err(status.clone());
        }
        let mut from = request.into_inner();
        let first = from.message().await?.and_then(|it| it.message);
        let Some(attach_request::Message::Hello(hello)) = first else {
            return Err(Status::invalid_argument("no hello"));
        };
        let (to, responses) = mpsc::channel(256);
        let stream = Stream { from, to, hello, credits: 0 };
        self.streams.send(stream).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(responses)))
    }
}

pub(crate) struct ScriptedServer {
    address: SocketAddr,
    streams: mpsc::Receiver<Stream>,
    _serving: JoinSet<()>,
}

impl ScriptedServer {
    pub(crate) async fn start() -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)), None).await
    }

    pub(crate) async fn refusing(status: Status) -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)), Some(status)).await
    }

    pub(crate) async fn at(address: SocketAddr, refuse: Option<Status>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, streams) = mpsc::channel(4);
        let service = WorkerServiceServer::new(Door { streams: sender, refuse });
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        Self { address, streams, _serving: serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next stream; not welcomed yet.
    pub(crate) async fn stream(&mut self) -> Stream {
        soon(self.streams.recv()).await.unwrap()
    }

    /// The next stream, welcomed.
    pub(crate) async fn welcomed(&mut self) -> Stream {
        let stream = self.stream().await;
        stream.welcome(Duration::from_millis(100), 4 * 1024 * 1024).await;
        stream
    }
}

impl Stream {
    pub(crate) async fn say(&self, message: attach_response::Message) {
        let response = AttachResponse { message: Some(message) };
        soon(self.to.send(Ok(response))).await.unwrap();
    }

    pub(crate) async fn welcome(&self, heartbeat: Duration, message_bytes_max: u64) {
        let heartbeat_ms = heartbeat.as_millis() as u64;
        let welcome = Welcome { heartbeat_ms, lease_ms: 30_000, message_bytes_max };
        self.say(attach_response::Message::Welcome(welcome)).await;
    }

    pub(crate) async fn end_with(self, status: Status) {
        soon(self.to.send(Err(status))).await.unwrap();
    }

    pub(crate) async fn hear(&mut self) -> Option<attach_request::Message> {
        let message = soon(self.from.message()).await.unwrap()?;
        Some(message.message.unwrap())
    }

    /// What is granted, as soon as it is something.
    pub(crate) async fn credit(&mut self) -> u32 {
        while self.credits == 0 {
            match soon(self.hear()).await.unwrap() {
                attach_request::Message::Credit(credit) => self.credits += credit.calls,
                attach_request::Message::Heartbeat(_) => {}
                other => panic!("{other:?}"),
            }
        }
        std::mem::take(&mut self.credits)
    }

    /// The next report. Other messages may come between.
    pub(crate) async fn report(&mut self) -> CallReport {
        soon(self.until(|message| match message {
            attach_request::Message::Report(report) => Some(report),
            _ => None,
        }))
        .await
    }

    /// The first message that is wanted. Credits on the way are kept.
    pub(crate) async fn until<T>(
        &mut self,
        wanted: impl Fn(attach_request::Message) -> Option<T>,
    ) -> T {
        loop {
            let message = self.hear().await.unwrap();
            if let attach_request::Message::Credit(credit) = &message {
                self.credits += credit.calls;
            }
            if let Some(found) = wanted(message) {
                return found;
            }
        }
    }

    pub(crate) async fn call(&self, call: Call) {
        self.say(attach_response::Message::Call(call)).await;
    }

    pub(crate) async fn probe(&self, call: Call) {
        let Call { session_id, call_id, attempt, fence, .. } = call;
        let probe = Probe { session_id, call_id, attempt, fence };
        self.say(attach_response::Message::Probe(probe)).await;
    }

    pub(crate) async fn ack(&self, call: Call) {
        let Call { session_id, call_id, fence, .. } = call;
        self.say(attach_response::Message::Ack(ReportAck { session_id, call_id, fence })).await;
    }

    pub(crate) async fn cancel(&self, call: Call) {
        let Call { session_id, call_id, fence, .. } = call;
        self.say(attach_response::Message::Cancel(Cancel { session_id, call_id, fence })).await;
    }
}

/// The call `STEP.1`, for the tool `gate`.
pub(crate) fn call(step: u32, fence: u64) -> Call {
    Call {
        session_id: "S".to_owned(),
        call_id: format!("{step}.1"),
        attempt: 1,
        idempotency_key: format!("S/{step}.1"),
        tool: "gate".to_owned(),
        arguments: format!("{{\"step\":{step}}}"),
        timeout_ms: 3_600_000,
        fence,
        workspace: "S".to_owned(),
    }
}

#[track_caller]
pub(crate) fn assert_said(
    report: &CallReport,
    outcome: call_report::Outcome,
    fence: u64,
    words: &str,
) {
    assert_eq!((report.outcome(), report.fence), (outcome, fence), "{report:?}");
    assert!(report.output.contains(words), "{report:?}");
}

/// Counts its starts and waits to be released.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) starts: Arc<AtomicU32>,
    pub(crate) release: Arc<Semaphore>,
    output: String,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self::saying("done".to_owned())
    }

    pub(crate) fn saying(output: String) -> Self {
        Self { starts: Arc::default(), release: Arc::new(Semaphore::new(0)), output }
    }

    pub(crate) fn starts(&self) -> u32 {
        self.starts.load(Ordering::SeqCst)
    }

    pub(crate) fn release(&self) {
        self.release.add_permits(1);
    }
}

#[async_trait]
impl Tool for Gate {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "gate".to_owned(),
            description: "Waits.".to_owned(),
            parameters: r#"{"type":"object"}"#.to_owned(),
            output_schema: Some(r#"{"type":"string"}"#.to_owned()),
            effect: Effect::Idempotent,
            timeout: Duration::from_secs(9),
            concurrency: 3,
        }
    }

    async fn call(&self, context: ToolContext, arguments: &str) -> ToolResult {
        self.starts.fetch_add(1, Ordering::SeqCst);
        context.output.send(format!("began {arguments}"));
        tokio::select! {
            permit = self.release.acquire() => permit.unwrap().forget(),
            () = context.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
        }
        let text = format!("{} {}", self.output, context.idempotency_key);
        Ok(ToolOutput { text, full: None })
    }
}

pub(crate) struct Host {
    pub(crate) gate: Gate,
    pub(crate) shutdown: CancellationToken,
    pub(crate) root: TempDir,
    task: JoinSet<Result<(), HostError>>,
}

impl Host {
    pub(crate) fn start(url: &str, gate: Gate) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut options = HostOptions::new(url, "w", root.path().join("workspaces"));
        options.concurrency = 2;
        let mut toolbox = Toolbox::new();
        toolbox.add(gate.clone()).unwrap();
        let shutdown = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(WorkerHost::new(options, toolbox).run(shutdown.clone()));
        Self { gate, shutdown, root, task }
    }

    pub(crate) async fn end(mut self) -> Result<(), HostError> {
        soon(self.task.join_next()).await.unwrap().unwrap()
    }
}
