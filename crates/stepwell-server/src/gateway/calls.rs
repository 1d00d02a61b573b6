//! The life of a call on a worker: sent, followed, ended or lost. `reports` has what workers say of it.
//!
//! Invariant: as of `fleet`: plain data, no await, no clock.

use std::sync::Arc;

use stepwell_core::Effect;
use stepwell_ports::tools::OutputSink;
use stepwell_ports::{ToolReport, ToolRequest};
use stepwell_proto::v1::{Call, OutputChunk, attach_response};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::catalogue::is_stronger;
use super::fleet::Fleet;
use super::hello::CallKey;
use super::options::TIMEOUT_MS_MAX;
use super::worker::{Attention, LiveCall, Said, WorkerId, ack, cancel};

/// A call whose end somebody waits for.
pub(super) struct Following {
    pub(super) worker_id: WorkerId,
    pub(super) fence: u64,
    pub(super) notify: Arc<Notify>,
}

/// What became of the wish to start a call on its reserved place.
pub(super) enum Start {
    Started(Following),
    /// The worker is away or granted nothing yet. Look again after a change or at that time.
    Later(Instant),
    Never(String),
    Refused(String),
}

/// What became of the wish to take over a call that an earlier owner started.
pub(super) enum Adopt {
    Adopted(Following),
    /// The worker is away. Look again after a change, until that time if one is known.
    Later(Option<Instant>),
    Lost(String),
}

/// What is known of a followed call.
pub(super) enum Look {
    Ended(ToolReport),
    Lost(String),
    /// Nothing new. Without news the lease ends then.
    Wait(Instant),
}

impl Fleet {
    /// Sends a call on its reserved place.
    pub(super) fn start(
        &mut self,
        worker_id: WorkerId,
        request: &ToolRequest,
        sink: &Arc<dyn OutputSink>,
        now: Instant,
    ) -> Start {
        let patience = self.patience;
        let fence = self.next_fence();
        let Some(worker) = self.workers.get_mut(&worker_id) else {
            return Start::Never("its worker left before the call was sent".to_owned());
        };
        let name = &worker.name;
        let Some(offer) = worker.offers.get(&request.tool.name) else {
            return Start::Never(format!("worker {name} no longer offers the tool"));
        };
        // A session that believes that it may repeat the call would run it twice blindly.
        if is_stronger(offer.effect, request.tool.effect) {
            return Start::Refused(changed_effect(request));
        }
        if worker.is_replaced {
            return Start::Never(format!(
                "worker {name} was started again before the call was sent"
            ));
        }
        if worker.is_draining {
            return Start::Never(format!("worker {name} is leaving and takes no more calls"));
        }
        if !worker.is_alive(now, patience.lease) {
            let until = worker.left_at + patience.reconnect_grace;
            if worker.link.is_some() || worker.fell_silent || now >= until {
                return Start::Never(format!("worker {name} left before the call was sent"));
            }
            return Start::Later(until);
        }
        if worker.credits == 0 {
            return Start::Later(worker.seen.now + patience.lease);
        }
        let key = key_of(request);
        worker.supersede(key);
        worker.credits = worker.credits.saturating_sub(1);
        worker.reserved = worker.reserved.saturating_sub(1);
        let mut call = LiveCall::new(key, request.tool.name.clone(), sink.clone(), now);
        let message = call_message(request, fence);
        call.resend = Some(message.clone());
        let notify = call.notify.clone();
        worker.add_call(fence, call);
        worker.send(attach_response::Message::Call(message));
        Start::Started(Following { worker_id, fence, notify })
    }

    /// Takes over a call that an earlier owner started on the process `instance` of `name`.
    pub(super) fn adopt(
        &mut self,
        (name, instance): (&str, Option<&str>),
        request: &ToolRequest,
        sink: &Arc<dyn OutputSink>,
        now: Instant,
    ) -> Adopt {
        let grace = self.patience.reconnect_grace;
        let fence = self.next_fence();
        let Some(worker_id) = self.names.get(name).copied() else {
            return Adopt::Later(None);
        };
        let Some(worker) = self.workers.get_mut(&worker_id) else {
            return Adopt::Later(None);
        };
        let key = key_of(request);
        let is_it = match instance {
            Some(instance) => worker.instance == instance,
            // Without the process's name only what the worker itself brought back is sure.
            None => worker.held.contains_key(&key) || worker.calls.values().any(|it| it.key == key),
        };
        if !is_it {
            return Adopt::Lost(format!(
                "worker {name} was started again; what became of the call is not known"
            ));
        }
        if worker.link.is_none() {
            return Adopt::Later(Some(worker.left_at + grace));
        }
        worker.supersede(key);
        let call = LiveCall::new(key, request.tool.name.clone(), sink.clone(), now);
        let notify = call.notify.clone();
        worker.adopt_call(fence, call, now);
        Adopt::Adopted(Following { worker_id, fence, notify })
    }

    /// Looks at a followed call, and takes its last word if there is one.
    pub(super) fn look(&mut self, worker_id: WorkerId, fence: u64, now: Instant) -> Look {
        let patience = self.patience;
        let Some(worker) = self.workers.get_mut(&worker_id) else {
            return Look::Lost("its worker is gone".to_owned());
        };
        let name = worker.name.clone();
        let Some(call) = worker.calls.get_mut(&fence) else {
            return Look::Lost(format!("somebody else asked worker {name} about this call"));
        };
        if matches!(call.outcome, Some(Said::NeverStarted { .. }))
            && worker.credits > worker.reserved
            && let Some(message) = call.resend.take()
        {
            // The call went into a stream that had broken: it is sent once more, as if only now.
            call.outcome = None;
            worker.credits = worker.credits.saturating_sub(1);
            worker.send(attach_response::Message::Call(message));
        } else if let Some(said) = call.outcome.take() {
            let (key, is_kept) = (call.key, matches!(said, Said::Finished(_)));
            if is_kept {
                worker.hand_over(fence, now);
            } else {
                worker.settle(fence);
                worker.send(ack(key, fence));
            }
            self.serve(worker_id, now);
            return Look::Ended(report_of(&name, said));
        }
        let Some(worker) = self.workers.get(&worker_id) else {
            return Look::Lost(format!("worker {name} is gone"));
        };
        let asked_at = worker.calls.get(&fence).and_then(|it| it.asked_at);
        if worker.is_replaced {
            return Look::Lost(format!(
                "worker {name} was started again; what became of the call is not known"
            ));
        }
        let (until, trouble) = match (&worker.link, asked_at) {
            // Its time was over before its connection was: there is no second wait.
            (None, _) if worker.fell_silent => {
                (worker.seen.now + patience.lease, "gave no sign of life")
            }
            (None, _) => {
                (worker.left_at + patience.reconnect_grace, "broke off and did not come back")
            }
            (Some(_), Some(asked_at)) if asked_at < worker.seen.now => {
                (asked_at + patience.lease, "was asked about the call and did not answer")
            }
            (Some(_), _) => (worker.seen.now + patience.lease, "gave no sign of life"),
        };
        if now < until {
            return Look::Wait(until);
        }
        Look::Lost(format!("worker {name} {trouble} in time"))
    }

    /// Tells the worker to stop a followed call.
    pub(super) fn cancel(&mut self, worker_id: WorkerId, fence: u64) {
        let Some(worker) = self.workers.get_mut(&worker_id) else {
            return;
        };
        let Some(call) = worker.calls.get_mut(&fence) else {
            return;
        };
        call.cancel_wanted = true;
        // It must not begin now.
        call.resend = None;
        let key = call.key;
        worker.send(cancel(key, fence));
    }

    /// Nobody follows the call any more.
    pub(super) fn unfollow(
        &mut self,
        worker_id: WorkerId,
        fence: u64,
        attention: Attention,
        now: Instant,
    ) {
        if let Some(worker) = self.workers.get_mut(&worker_id) {
            worker.unfollow(fence, attention, now);
            self.serve(worker_id, now);
        }
        self.prune(now);
    }

    /// The sink for a piece of output of a followed call, if it is not too much.
    pub(super) fn output(
        &mut self,
        worker_id: WorkerId,
        chunk: &OutputChunk,
        now: Instant,
    ) -> Option<Arc<dyn OutputSink>> {
        let call = self.workers.get_mut(&worker_id)?.calls.get_mut(&chunk.fence)?;
        let is_same = call.key.session_id.to_string() == chunk.session_id
            && call.key.call_id.to_string() == chunk.call_id;
        if !is_same {
            return None;
        }
        call.has_begun = true;
        call.resend = None;
        if call.admits_output(chunk.text.len(), now) { call.sink.clone() } else { None }
    }
}

pub(super) fn key_of(request: &ToolRequest) -> CallKey {
    let ToolRequest { session_id, call_id, attempt, .. } = *request;
    CallKey { session_id, call_id, attempt }
}

fn call_message(request: &ToolRequest, fence: u64) -> Call {
    let session_id = request.session_id.to_string();
    Call {
        call_id: request.call_id.to_string(),
        attempt: request.attempt,
        idempotency_key: request.idempotency_key(),
        tool: request.tool.name.clone(),
        arguments: request.arguments.clone(),
        timeout_ms: request.tool.timeout_ms.min(TIMEOUT_MS_MAX),
        fence,
        workspace: request.workspace.clone(),
        session_id,
    }
}

fn changed_effect(request: &ToolRequest) -> String {
    let told = match request.tool.effect {
        Effect::Read => "it only reads",
        Effect::Idempotent | Effect::Write => "it may be repeated",
    };
    format!(
        "the tool {} was not run: this session was told when it began that {told}, and its worker now \
         declares that it does more; start a new session to use it",
        request.tool.name
    )
}

fn report_of(worker: &str, said: Said) -> ToolReport {
    match said {
        Said::Finished(report) => report,
        Said::NeverStarted { reason } => {
            let reason = if reason.is_empty() { "it gave no reason".to_owned() } else { reason };
            ToolReport::NeverStarted {
                reason: format!("worker {worker} did not begin it: {reason}"),
            }
        }
        Said::Unknown | Said::Running => ToolReport::Lost {
            reason: format!("worker {worker} no longer knows what became of the call"),
        },
    }
}
