//! A node's way to the workers: the adapter that dies with the node.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stepwell_ports::tools::OutputSink;
use stepwell_ports::{ToolGateway, ToolProbe, ToolReport, ToolRequest, ToolSlot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Attempt, CallFault, Fleet, LEASE_MS, Place, STOP_GRACE_MS};
use crate::gate::Gate;

/// See the module.
pub struct NodeTools {
    /// The workers.
    pub fleet: Arc<Fleet>,
    /// The node's name.
    pub node: String,
    /// The life of the node.
    pub gate: Arc<Gate>,
}

const LEASE: Duration = Duration::from_millis(LEASE_MS);

/// What a gateway sees of a call.
enum Look {
    Ended(ToolReport),
    Runs,
    /// The worker is away.
    Away,
    /// The worker is dead.
    Gone,
    /// The worker lives and knows nothing of it.
    Unknown,
}

impl Fleet {
    fn look(&self, worker: &str, attempt: &Attempt) -> Look {
        let mut inner = self.inner();
        let Some(worker) = inner.workers.get_mut(worker).filter(|it| it.is_alive) else {
            return Look::Gone;
        };
        if !worker.is_connected {
            return Look::Away;
        }
        match worker.calls.get_mut(attempt) {
            None => Look::Unknown,
            Some(call) => {
                call.is_followed = true;
                call.report.clone().map_or(Look::Runs, Look::Ended)
            }
        }
    }

    fn tell_to_stop(&self, worker: &str, attempt: &Attempt) {
        let inner = self.inner();
        if let Some(call) = inner.workers.get(worker).and_then(|it| it.calls.get(attempt)) {
            call.cancel.cancel();
        }
    }

    fn unfollow(&self, worker: &str, attempt: &Attempt) {
        let mut inner = self.inner();
        let worker = inner.workers.get_mut(worker);
        if let Some(call) = worker.and_then(|it| it.calls.get_mut(attempt)) {
            call.is_followed = false;
        }
    }

    /// Takes a free place of a worker that this node may use.
    fn take_place(self: &Arc<Self>, node: &str) -> Option<Place> {
        let mut inner = self.inner();
        let mut workers = inner.workers.iter_mut();
        let (name, worker) =
            workers.find(|(_, it)| it.takes_calls_of(node) && it.used < it.slots)?;
        worker.used += 1;
        Some(Place { fleet: self.clone(), worker: name.clone() })
    }
}

/// Ends the following however it ends, also when the node dies.
struct Follow<'a> {
    fleet: &'a Fleet,
    worker: &'a str,
    attempt: Attempt,
}

impl Drop for Follow<'_> {
    fn drop(&mut self) {
        self.fleet.unfollow(self.worker, &self.attempt);
    }
}

impl NodeTools {
    async fn follow(
        &self,
        worker: &str,
        request: &ToolRequest,
        cancel: &CancellationToken,
    ) -> ToolReport {
        let attempt = (request.session_id, request.call_id, request.attempt);
        let follow = Follow { fleet: &self.fleet, worker, attempt };
        let mut until =
            Instant::now() + Duration::from_millis(request.tool.timeout_ms.min(1 << 40));
        let mut why = "its time limit passed";
        let mut away_until: Option<Instant> = None;
        let mut is_told = false;
        loop {
            let seen = self.fleet.changed.changes();
            match self.fleet.look(worker, &attempt) {
                Look::Ended(report) => return report,
                Look::Runs => away_until = None,
                Look::Away | Look::Gone | Look::Unknown => {
                    let give_up = away_until.get_or_insert(Instant::now() + LEASE);
                    if *give_up <= Instant::now() {
                        return lost(&format!("worker {worker} gave no sign of life"));
                    }
                }
            }
            if until <= Instant::now() {
                self.fleet.tell_to_stop(worker, &attempt);
                drop(follow);
                return lost(why);
            }
            let wake_at = away_until.map_or(until, |it| it.min(until));
            tokio::select! {
                biased;
                () = cancel.cancelled(), if !is_told => {
                    is_told = true;
                    self.fleet.tell_to_stop(worker, &attempt);
                    until = Instant::now() + Duration::from_millis(STOP_GRACE_MS);
                    why = "it did not stop";
                }
                () = self.fleet.changed.changed_since(seen) => {}
                () = tokio::time::sleep_until(wake_at) => {}
            }
        }
    }

    async fn run_on(
        &self,
        place: Place,
        request: &ToolRequest,
        sink: &Arc<dyn OutputSink>,
        cancel: &CancellationToken,
    ) -> ToolReport {
        let plan = self.fleet.plan_of(request);
        let (worker, fault) = (place.worker.clone(), plan.fault);
        tokio::time::sleep(self.fleet.way()).await;
        match fault {
            CallFault::NeverStarts => {
                return ToolReport::NeverStarted { reason: "the worker is leaving".to_string() };
            }
            #[expect(clippy::panic, reason = "the bug that the engine must survive")]
            CallFault::Panic => panic!("a simulated bug in the gateway"),
            CallFault::None
            | CallFault::ConnectionBreaks
            | CallFault::WorkerDies
            | CallFault::Hangs => {}
        }
        if cancel.is_cancelled() && self.fleet.inner().heeds_stops {
            return ToolReport::NeverStarted { reason: "it was stopped on its way".to_string() };
        }
        let half = Duration::from_millis(plan.duration_ms / 2);
        if self.fleet.start(&self.node, request, place, plan).await.is_none() {
            return ToolReport::NeverStarted { reason: "the worker refused it".to_string() };
        }
        sink.chunk("…".to_string());
        match fault {
            CallFault::ConnectionBreaks => {
                tokio::time::sleep(half).await;
                lost("the connection broke")
            }
            CallFault::WorkerDies => {
                tokio::time::sleep(half).await;
                self.fleet.kill_worker(&worker);
                self.follow(&worker, request, cancel).await
            }
            CallFault::None | CallFault::NeverStarts | CallFault::Hangs | CallFault::Panic => {
                self.follow(&worker, request, cancel).await
            }
        }
    }

    async fn ask_about(
        &self,
        worker: &str,
        request: &ToolRequest,
        cancel: &CancellationToken,
    ) -> ToolProbe {
        let attempt = (request.session_id, request.call_id, request.attempt);
        tokio::time::sleep(self.fleet.way()).await;
        let give_up = Instant::now() + LEASE;
        loop {
            let seen = self.fleet.changed.changes();
            match self.fleet.look(worker, &attempt) {
                Look::Ended(_) | Look::Runs => {
                    return ToolProbe::Report(self.follow(worker, request, cancel).await);
                }
                Look::Unknown => {
                    if let Some(worker) = self.fleet.inner().workers.get_mut(worker) {
                        worker.denied.insert(attempt);
                    }
                    return ToolProbe::NeverStarted;
                }
                Look::Away | Look::Gone if give_up <= Instant::now() => {
                    return ToolProbe::Report(lost(&format!("worker {worker} did not come back")));
                }
                Look::Away | Look::Gone => {}
            }
            tokio::select! {
                biased;
                () = self.fleet.changed.changed_since(seen) => {}
                () = tokio::time::sleep_until(give_up) => {}
            }
        }
    }
}

fn lost(reason: &str) -> ToolReport {
    ToolReport::Lost { reason: reason.to_string() }
}

#[async_trait]
impl ToolGateway for NodeTools {
    async fn reserve(&self, _request: &ToolRequest) -> ToolSlot {
        let reserve = async {
            loop {
                let seen = self.fleet.changed.changes();
                if let Some(place) = self.fleet.take_place(&self.node) {
                    return ToolSlot { worker: place.worker.clone(), place: Box::new(place) };
                }
                self.fleet.changed.changed_since(seen).await;
            }
        };
        self.gate.pass(reserve).await
    }

    async fn run(
        &self,
        slot: ToolSlot,
        request: ToolRequest,
        sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> ToolReport {
        let run = async {
            match slot.place.downcast::<Place>() {
                Ok(place) => self.run_on(*place, &request, &sink, &cancel).await,
                Err(_) => ToolReport::NeverStarted { reason: "not a place of this fleet".into() },
            }
        };
        self.gate.pass(run).await
    }

    async fn probe(
        &self,
        worker: &str,
        request: ToolRequest,
        _sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> ToolProbe {
        self.gate.pass(self.ask_about(worker, &request, &cancel)).await
    }

    fn offers(&self, _tool: &str) -> bool {
        let inner = self.fleet.inner();
        inner.workers.values().any(|it| it.takes_calls_of(&self.node))
    }

    fn changes(&self) -> u64 {
        self.fleet.changed.changes()
    }

    async fn changed_since(&self, seen: u64) {
        self.gate.pass(self.fleet.changed.changed_since(seen)).await;
    }
}
