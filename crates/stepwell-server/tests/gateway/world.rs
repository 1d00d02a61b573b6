//! A server process that can be killed, an engine's side of calls, and workers that say anything.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stepwell_core::event::ToolOutcome;
use stepwell_core::{Effect, JsonText, SessionId, ToolKind, ToolSpec};
use stepwell_ports::memory::MemoryStore;
use stepwell_ports::tools::{OutputSink, Receipt};
use stepwell_ports::{Store, ToolGateway, ToolProbe, ToolReport, ToolRequest, ToolSlot};
use stepwell_proto::v1::worker_service_client::WorkerServiceClient;
use stepwell_proto::v1::{
    AttachRequest, AttachResponse, Call, CallReport, Credit, Heartbeat, HeldCall, Hello,
    OutputChunk, ToolOffer, Welcome, attach_request, attach_response, call_report,
};
use stepwell_runtime::system::SystemClock;
use stepwell_server::gateway::{GatewayOptions, WorkerGateway};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Endpoint, Server};
use tonic::{Code, Status, Streaming};

/// Nothing here takes this long unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// For what must run out in a test.
pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// Awaits with patience, so that a hang is a failure with a place.
#[track_caller]
pub(crate) fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let place = std::panic::Location::caller();
    async move { timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("nothing came, at {place}")) }
}

/// Limits that never run out, so that a slow machine changes nothing.
pub(crate) fn patient() -> GatewayOptions {
    GatewayOptions {
        heartbeat: Duration::from_millis(100),
        lease: 2 * PATIENCE,
        reconnect_grace: 2 * PATIENCE,
        timeout_grace: 2 * PATIENCE,
        cancel_grace: 2 * PATIENCE,
        ..GatewayOptions::default()
    }
}

/// A server process and what survives it: store and address.
pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) gateway: WorkerGateway,
    pub(crate) address: SocketAddr,
    process: Option<Runtime>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill();
    }
}

impl World {
    pub(crate) fn new(options: GatewayOptions) -> Self {
        let store = Arc::new(MemoryStore::new());
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let (gateway, address, process) = start(&store, address, options);
        Self { store, gateway, address, process: Some(process) }
    }

    /// The server is gone without a word: its sockets close, its memory is lost.
    pub(crate) fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.shutdown_background();
        }
    }

    /// Starts the next process on the same store and address.
    pub(crate) fn restart(&mut self, options: GatewayOptions) {
        self.kill();
        let (gateway, _, process) = start(&self.store, self.address, options);
        self.gateway = gateway;
        self.process = Some(process);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The engine reserves a place.
    pub(crate) async fn reserve(&self, request: &ToolRequest) -> ToolSlot {
        soon(self.gateway.reserve(request)).await
    }

    /// The engine reserves a place and runs the call.
    pub(crate) async fn run(&self, request: ToolRequest) -> Running {
        let slot = self.reserve(&request).await;
        self.run_on(slot, request)
    }

    /// What comes is written down.
    pub(crate) fn run_on(&self, slot: ToolSlot, request: ToolRequest) -> Running {
        self.run_and_say(slot, request, Some(Receipt::Durable))
    }

    /// What comes is written down or not, or that is not known yet.
    pub(crate) fn run_and_say(
        &self,
        slot: ToolSlot,
        request: ToolRequest,
        receipt: Option<Receipt>,
    ) -> Running {
        let gateway = self.gateway.clone();
        let label = slot.worker.clone();
        Running::new(label.clone(), |sink, cancel| async move {
            let report = gateway.run(slot, request.clone(), sink, cancel).await;
            if let Some(receipt) = receipt {
                gateway.settled(&label, &request, receipt);
            }
            report
        })
    }

    /// The engine asks what became of a call.
    pub(crate) fn probe(&self, label: &str, request: ToolRequest) -> Running {
        let (gateway, worker) = (self.gateway.clone(), label.to_owned());
        Running::new(label.to_owned(), |sink, cancel| async move {
            match gateway.probe(&worker, request.clone(), sink, cancel).await {
                ToolProbe::Report(report) => {
                    gateway.settled(&worker, &request, Receipt::Durable);
                    report
                }
                ToolProbe::NeverStarted => never_started(),
            }
        })
    }

    /// Waits until the connected workers are such.
    pub(crate) async fn until(&self, is_so: impl Fn(&WorkerGateway) -> bool) {
        soon(async {
            while !is_so(&self.gateway) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// A server process on `store`: its gateway, its address, its threads.
pub(crate) fn start(
    store: &Arc<impl Store>,
    address: SocketAddr,
    options: GatewayOptions,
) -> (WorkerGateway, SocketAddr, Runtime) {
    let gateway = WorkerGateway::new(store.clone(), Arc::new(SystemClock), options);
    let process = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = listen(address);
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let service = gateway.service();
    let _inside = process.enter();
    let incoming = TcpListenerStream::new(TcpListener::from_std(listener).unwrap());
    let server = Server::builder().add_service(service).serve_with_incoming(incoming);
    // Ends with the runtime, which is this process.
    drop(process.spawn(server));
    (gateway, address, process)
}

/// A process that was killed a moment ago may still hold the address.
fn listen(address: SocketAddr) -> std::net::TcpListener {
    let patience_ends_at = tokio::time::Instant::now() + PATIENCE;
    loop {
        match std::net::TcpListener::bind(address) {
            Ok(listener) => return listener,
            Err(error) if tokio::time::Instant::now() > patience_ends_at => panic!("{error}"),
            Err(_) => std::thread::yield_now(),
        }
    }
}

pub(crate) fn never_started() -> ToolReport {
    ToolReport::NeverStarted { reason: String::new() }
}

/// What the engine's live view got.
#[derive(Default)]
pub(crate) struct Seen {
    text: Mutex<String>,
    changed: watch::Sender<()>,
}

impl OutputSink for Seen {
    fn chunk(&self, text: String) {
        self.text.lock().unwrap().push_str(&text);
        self.changed.send_replace(());
    }
}

/// A call that the engine waits for.
pub(crate) struct Running {
    pub(crate) label: String,
    pub(crate) cancel: CancellationToken,
    seen: Arc<Seen>,
    task: JoinSet<ToolReport>,
}

impl Running {
    fn new<F, R>(label: String, run: F) -> Self
    where
        F: FnOnce(Arc<dyn OutputSink>, CancellationToken) -> R,
        R: Future<Output = ToolReport> + Send + 'static,
    {
        let (seen, cancel) = (Arc::new(Seen::default()), CancellationToken::new());
        let mut task = JoinSet::new();
        task.spawn(run(seen.clone(), cancel.clone()));
        Self { label, cancel, seen, task }
    }

    pub(crate) async fn end(mut self) -> ToolReport {
        soon(self.task.join_next()).await.unwrap().unwrap()
    }

    /// The reason of a lost call.
    pub(crate) async fn lost(self) -> String {
        match self.end().await {
            ToolReport::Lost { reason } => reason,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn until_output(&self, expected: &str) {
        let mut changed = self.seen.changed.subscribe();
        soon(async {
            while self.seen.text.lock().unwrap().as_str() != expected {
                changed.changed().await.unwrap();
            }
        })
        .await;
    }

    pub(crate) fn output(&self) -> String {
        self.seen.text.lock().unwrap().clone()
    }
}

pub(crate) fn spec(tool: &str, effect: Effect) -> ToolSpec {
    ToolSpec {
        name: tool.to_owned(),
        description: String::new(),
        parameters: JsonText::empty_object(),
        output_schema: None,
        effect,
        timeout_ms: 3_600_000,
        kind: ToolKind::Worker,
    }
}

/// The call `STEP.1` of one session, a write.
pub(crate) fn request(tool: &str, step: u32) -> ToolRequest {
    ToolRequest {
        session_id: SessionId::from_random([7; 16]),
        call_id: format!("{step}.1").parse().unwrap(),
        attempt: 1,
        workspace: "work".to_owned(),
        tool: spec(tool, Effect::Write),
        arguments: r#"{"a":1}"#.to_owned(),
    }
}

pub(crate) fn offer(tool: &str) -> ToolOffer {
    ToolOffer {
        name: tool.to_owned(),
        description: "A tool.".to_owned(),
        parameters: r#"{"type":"object"}"#.to_owned(),
        output_schema: String::new(),
        effect: "write".to_owned(),
        timeout_ms: 1_000,
        concurrency: 0,
    }
}

/// A hello of the process `INSTANCE` with two tools, `a` and `b`.
pub(crate) fn hello(name: &str, instance: &str) -> Hello {
    Hello {
        name: name.to_owned(),
        instance: instance.to_owned(),
        tools: vec![offer("a"), offer("b")],
        concurrency: 4,
        held: Vec::new(),
    }
}

pub(crate) fn held(call: &Call) -> HeldCall {
    HeldCall {
        session_id: call.session_id.clone(),
        call_id: call.call_id.clone(),
        attempt: call.attempt,
        fence: call.fence,
    }
}

pub(crate) fn report(call: &Call, outcome: call_report::Outcome, output: &str) -> CallReport {
    CallReport {
        session_id: call.session_id.clone(),
        call_id: call.call_id.clone(),
        attempt: call.attempt,
        fence: call.fence,
        outcome: outcome.into(),
        output: output.to_owned(),
        duration_ms: 5,
        ..CallReport::default()
    }
}

#[track_caller]
pub(crate) fn assert_ok(report: &ToolReport, expected: &str) {
    match report {
        ToolReport::Finished { outcome: ToolOutcome::Ok, output, .. } => {
            assert_eq!(output, expected);
        }
        other => panic!("{other:?}"),
    }
}

/// A worker that says what the test says.
pub(crate) struct RawWorker {
    to: mpsc::Sender<AttachRequest>,
    from: Streaming<AttachResponse>,
    pub(crate) welcome: Welcome,
}

impl RawWorker {
    pub(crate) async fn join(url: &str, hello: Hello) -> Result<Self, Status> {
        let mut worker = Self::say_first(url, attach_request::Message::Hello(hello)).await?;
        match worker.hear().await {
            attach_response::Message::Welcome(welcome) => worker.welcome = welcome,
            other => panic!("{other:?}"),
        }
        Ok(worker)
    }

    /// Opens a stream with any message.
    pub(crate) async fn say_first(
        url: &str,
        message: attach_request::Message,
    ) -> Result<Self, Status> {
        let channel = soon(Endpoint::from_shared(url.to_owned()).unwrap().connect()).await.unwrap();
        let (to, requests) = mpsc::channel(64);
        to.send(AttachRequest { message: Some(message) }).await.unwrap();
        let mut client = WorkerServiceClient::new(channel);
        let from = soon(client.attach(ReceiverStream::new(requests))).await?.into_inner();
        Ok(Self { to, from, welcome: Welcome::default() })
    }

    pub(crate) async fn say(&self, message: attach_request::Message) {
        soon(self.to.send(AttachRequest { message: Some(message) })).await.unwrap();
    }

    /// As [`RawWorker::say`], on a stream that may have ended.
    pub(crate) async fn try_say(&self, message: attach_request::Message) -> bool {
        self.send(AttachRequest { message: Some(message) }).await
    }

    pub(crate) async fn send(&self, request: AttachRequest) -> bool {
        soon(self.to.send(request)).await.is_ok()
    }

    pub(crate) async fn credit(&self, calls: u32) {
        self.say(attach_request::Message::Credit(Credit { calls })).await;
    }

    pub(crate) async fn output(&self, call: &Call, text: &str) {
        let Call { session_id, call_id, fence, .. } = call.clone();
        let text = text.to_owned();
        let chunk = OutputChunk { session_id, call_id, fence, text };
        self.say(attach_request::Message::Output(chunk)).await;
    }

    pub(crate) async fn report(&self, report: CallReport) {
        self.say(attach_request::Message::Report(report)).await;
    }

    /// Gives signs of life until `other` is ready.
    pub(crate) async fn beating<F: Future>(&self, every: Duration, other: F) -> F::Output {
        let beats = async {
            let mut beats = tokio::time::interval(every);
            loop {
                beats.tick().await;
                let heartbeat = attach_request::Message::Heartbeat(Heartbeat { running_calls: 1 });
                // A stream that has ended takes none.
                self.try_say(heartbeat).await;
            }
        };
        soon(async {
            tokio::select! {
                output = other => output,
                () = beats => unreachable!(),
            }
        })
        .await
    }

    /// The server's next message.
    #[track_caller]
    pub(crate) fn hear(&mut self) -> impl Future<Output = attach_response::Message> {
        let next = soon(self.from.message());
        async move { next.await.unwrap().unwrap().message.unwrap() }
    }

    #[track_caller]
    pub(crate) fn call(&mut self) -> impl Future<Output = Call> {
        let next = self.hear();
        async move {
            match next.await {
                attach_response::Message::Call(call) => call,
                other => panic!("{other:?}"),
            }
        }
    }

    /// The fence that the server asks under.
    pub(crate) async fn asked(&mut self) -> u64 {
        match self.hear().await {
            attach_response::Message::Probe(probe) => probe.fence,
            other => panic!("{other:?}"),
        }
    }

    /// The fence of the call that is acknowledged.
    pub(crate) async fn acknowledged(&mut self) -> u64 {
        match self.hear().await {
            attach_response::Message::Ack(ack) => ack.fence,
            other => panic!("{other:?}"),
        }
    }

    /// The fence of the call that is to stop.
    pub(crate) async fn cancelled(&mut self) -> u64 {
        match self.hear().await {
            attach_response::Message::Cancel(cancel) => cancel.fence,
            other => panic!("{other:?}"),
        }
    }

    /// Reads to the end of the stream, which must be an error.
    pub(crate) async fn closed(&mut self) -> (Code, String) {
        soon(async {
            loop {
                match self.from.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("the stream ended well"),
                    Err(status) => return (status.code(), status.message().to_owned()),
                }
            }
        })
        .await
    }
}

/// A worker `w@1` that runs a call of the tool `a`.
pub(crate) async fn busy(world: &World) -> (RawWorker, Running, Call) {
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    let running = world.run(request("a", 1)).await;
    let call = worker.call().await;
    (worker, running, call)
}
