//! The gateway to the tool workers: it lets them in, keeps their places, sends them calls, and brings
//! every call to one known end.
//!
//! A worker process is called `name@instance` wherever a call is bound to it. So after a restart of
//! the server it is known whether the process that took a call still lives, or another one with the
//! same name; and the worker inside a server process that is gone is known to be gone at once.
//!
//! Who does what: `hello` checks what workers say about themselves, `catalogue` remembers their tools,
//! `fleet` keeps workers, places and queues, `worker` one worker's state, `calls` the life of a call,
//! `reports` what workers say of it, `held` what they have that nobody follows, `follow` waits for a
//! call's end, `place` for a free place, `stream` is a worker's connection, `tend` brings `late` reports
//! to the log and stops `orphans`, `standing` is what people are told beside the log.
//!
//! Invariants: a call is sent only against a credit. A report counts only with its call's fence, and is
//! acknowledged once it is durable or void. There is no task here: a stream runs in its response, a
//! call in its caller.

mod calls;
mod catalogue;
mod fleet;
mod follow;
mod held;
mod hello;
mod info;
mod late;
mod options;
mod orphans;
mod place;
mod reports;
mod standing;
mod stream;
mod tend;
mod worker;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use stepwell_core::{CallId, SessionId};
use stepwell_ports::tools::{OutputSink, Receipt};
use stepwell_ports::{Clock, Store, ToolGateway, ToolProbe, ToolReport, ToolRequest, ToolSlot};
use stepwell_proto::v1::AttachRequest;
use stepwell_proto::v1::worker_service_server::{WorkerService, WorkerServiceServer};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use self::calls::key_of;
use self::fleet::{Fleet, Patience};
use self::hello::CallKey;
use self::place::{Place, reserve};
use self::stream::{Responses, attach};
use self::worker::Moment;

pub use self::info::WorkerInfo;
pub use self::late::LateReport;
pub use self::options::{CANCEL_GRACE, EMBEDDED_NAME, GatewayOptions, ORPHAN_GRACE, TIMEOUT_GRACE};

/// What all parts of the gateway share.
pub(crate) struct Shared {
    fleet: Mutex<Fleet>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    options: GatewayOptions,
    /// How often workers came, left or granted places, for those who wait for one.
    changes: watch::Sender<u64>,
    registering: tokio::sync::Mutex<()>,
    late: mpsc::Sender<LateReport>,
    late_reports: Mutex<Option<mpsc::Receiver<LateReport>>>,
    closing: CancellationToken,
}

impl Shared {
    fn fleet(&self) -> MutexGuard<'_, Fleet> {
        // Nothing below panics; if something did, a place may be lost, which a reconnect mends.
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moment(&self) -> Moment {
        Moment { now: Instant::now(), wall: self.clock.now() }
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn is_gone(&self, worker: &str) -> bool {
        let (name, instance) = split_label(worker);
        name == EMBEDDED_NAME && instance != self.options.embedded_instance.as_deref()
    }
}

/// Name and instance of `name@instance`.
fn split_label(worker: &str) -> (&str, Option<&str>) {
    match worker.rsplit_once('@') {
        Some((name, instance)) => (name, Some(instance)),
        None => (worker, None),
    }
}

/// The fleet of workers that are connected to this server. A cheap handle.
#[derive(Clone)]
pub struct WorkerGateway {
    shared: Arc<Shared>,
}

impl WorkerGateway {
    /// A gateway without workers. Registered tools are remembered in `store`.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, options: GatewayOptions) -> Self {
        let GatewayOptions { lease, reconnect_grace, orphan_grace, .. } = options;
        let patience = Patience { lease, reconnect_grace, orphan_grace };
        let fleet = Fleet::new(patience, clock.now());
        let (late, late_reports) = mpsc::channel(options::LATE_MAX);
        let shared = Shared {
            fleet: Mutex::new(fleet),
            store,
            clock,
            options,
            changes: watch::Sender::new(0),
            registering: tokio::sync::Mutex::new(()),
            late,
            late_reports: Mutex::new(Some(late_reports)),
            closing: CancellationToken::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The gRPC service, with its message limit set.
    pub fn service(&self) -> WorkerServiceServer<Self> {
        WorkerServiceServer::new(self.clone())
            .max_decoding_message_size(self.shared.options.message_bytes_max)
    }

    /// The connected workers, by name.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        self.shared.fleet().infos()
    }

    /// Names of the connected workers that offer this tool and take calls.
    pub fn workers_of(&self, tool: &str) -> Vec<String> {
        self.shared.fleet().workers_of(tool, Instant::now())
    }

    /// Whether a worker, as named in [`ToolSlot`], ran inside another server process: it can never
    /// come back.
    pub fn is_gone(&self, worker: &str) -> bool {
        self.shared.is_gone(worker)
    }

    /// The connected worker that has this attempt of a call: it runs there, or its report is kept there.
    pub fn holder(&self, session_id: SessionId, call_id: CallId, attempt: u32) -> Option<String> {
        self.shared.fleet().holder(CallKey { session_id, call_id, attempt })
    }

    /// What people should hear of the calls of each session, or of one, beside its log: a worker that
    /// is away and when its lease ends, a worker that is back with a call that was given up.
    pub fn news(&self, of: Option<SessionId>) -> BTreeMap<SessionId, String> {
        self.shared.fleet().news(of, self.shared.options.heartbeat, Instant::now())
    }

    /// Reports without a follower, for an engine that [`WorkerGateway::tend`] is not right for. There
    /// is one receiver: the second call gives `None`.
    pub fn late_reports(&self) -> Option<mpsc::Receiver<LateReport>> {
        self.shared.late_reports.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends all streams with `UNAVAILABLE`, so that the workers come back later. Calls that are
    /// followed go on to their lease's end.
    pub fn close(&self) {
        self.shared.closing.cancel();
    }
}

#[async_trait]
impl WorkerService for WorkerGateway {
    type AttachStream = Responses;

    async fn attach(
        &self,
        request: Request<Streaming<AttachRequest>>,
    ) -> Result<Response<Responses>, Status> {
        attach(self.shared.clone(), request.into_inner()).await.map(Response::new)
    }
}

#[async_trait]
impl ToolGateway for WorkerGateway {
    async fn reserve(&self, request: &ToolRequest) -> ToolSlot {
        let place = reserve(&self.shared, &request.tool.name).await;
        let worker = self.shared.fleet().label(place.worker_id());
        ToolSlot { worker, place: Box::new(place) }
    }

    async fn run(
        &self,
        slot: ToolSlot,
        request: ToolRequest,
        sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> ToolReport {
        match slot.place.downcast::<Place>() {
            Ok(place) => self.shared.run(place, &request, sink, cancel).await,
            Err(_) => ToolReport::NeverStarted {
                reason: "its place belongs to another gateway".to_owned(),
            },
        }
    }

    async fn probe(
        &self,
        worker: &str,
        request: ToolRequest,
        sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> ToolProbe {
        match self.shared.probe(worker, &request, sink, cancel).await {
            ToolReport::NeverStarted { .. } => ToolProbe::NeverStarted,
            report @ (ToolReport::Finished { .. } | ToolReport::Lost { .. }) => {
                ToolProbe::Report(report)
            }
        }
    }

    fn settled(&self, worker: &str, request: &ToolRequest, receipt: Receipt) {
        self.shared.fleet().settled(worker, key_of(request), receipt, Instant::now());
    }

    fn changes(&self) -> u64 {
        *self.shared.changes.borrow()
    }

    async fn changed_since(&self, seen: u64) {
        // The sender is as old as `self`.
        let _ = self.shared.changes.subscribe().wait_for(|changes| *changes != seen).await;
    }

    fn offers(&self, tool: &str) -> bool {
        !self.workers_of(tool).is_empty()
    }
}
