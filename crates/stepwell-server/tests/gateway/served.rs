//! A server process with a gateway and an engine, which can be killed and started again.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use stepwell_core::agent::ModelSpec;
use stepwell_core::event::{EventBody, FinishReason, ToolFinished, Usage};
use stepwell_core::{Actor, Agent, Effect, Input, Seq, SessionId, SessionState, Text};
use stepwell_ports::model::WireToolCall;
use stepwell_ports::{ModelAnswer, ModelFailure, ModelPort, ModelRequest, ModelSink, Store};
use stepwell_proto::v1::{Call, Hello, attach_response};
use stepwell_runtime::system::{SystemClock, SystemRandom, random_bytes};
use stepwell_runtime::{CreateSession, Engine, EngineOptions, Ports};
use stepwell_server::gateway::{GatewayOptions, WorkerGateway};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::unsteady::Unsteady;
use crate::world::{RawWorker, SHORT, hello, patient, soon, spec, start};

/// Calls without a follower are looked at often.
pub(crate) fn watchful() -> GatewayOptions {
    GatewayOptions { orphan_grace: SHORT / 10, ..patient() }
}

/// A hello of the process `INSTANCE` whose tool `a` only reads.
pub(crate) fn reader(name: &str, instance: &str) -> Hello {
    let mut hello = hello(name, instance);
    hello.tools[0].effect = "read".to_owned();
    hello
}

/// Calls `a` in the first step and ends in the second.
struct Script;

#[async_trait]
impl ModelPort for Script {
    async fn ask(
        &self,
        request: ModelRequest,
        _: Arc<dyn ModelSink>,
        _: CancellationToken,
    ) -> Result<ModelAnswer, ModelFailure> {
        let call = WireToolCall { id: "w".into(), name: "a".into(), arguments: "{}".into() };
        let (tool_calls, finish_reason) = match request.step {
            1 => (vec![call], FinishReason::ToolCalls),
            _ => (Vec::new(), FinishReason::Stop),
        };
        Ok(ModelAnswer {
            content: "Done.".into(),
            reasoning: String::new(),
            tool_calls,
            finish_reason,
            finish_word: None,
            usage: Usage {
                prompt_tokens: 1,
                cached_tokens: 0,
                completion_tokens: 1,
                ..Usage::default()
            },
            endpoint: "script".into(),
            first_token_ms: 1,
            duration_ms: 1,
            tokens: None,
        })
    }
}

/// See the module.
pub(crate) struct Served {
    pub(crate) store: Arc<Unsteady>,
    pub(crate) engine: Engine,
    address: SocketAddr,
    process: Option<Runtime>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Served {
    pub(crate) fn new(options: GatewayOptions) -> Self {
        let store = Arc::<Unsteady>::default();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let (gateway, address, process) = start(&store, address, options);
        let engine = work(&store, &gateway, &process);
        Self { store, engine, address, process: Some(process) }
    }

    pub(crate) fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.shutdown_background();
        }
    }

    pub(crate) fn restart(&mut self, options: GatewayOptions) {
        self.kill();
        let (gateway, _, process) = start(&self.store, self.address, options);
        self.engine = work(&self.store, &gateway, &process);
        self.process = Some(process);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Does something in the process: what it starts there ends with it.
    async fn inside<F>(&self, future: F) -> F::Output
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let process = self.process.as_ref().unwrap();
        soon(process.spawn(future)).await.unwrap()
    }

    /// Starts a session; its model calls `a`, which only reads.
    pub(crate) async fn create(&self) -> SessionId {
        let engine = self.engine.clone();
        let create = CreateSession {
            paused: false,
            agent: agent(),
            task: Text::from("Look."),
            title: String::new(),
            labels: Vec::new(),
            workspace: String::new(),
            client_key: None,
            request_digest: String::new(),
            by: Actor::Engine,
        };
        self.inside(async move { engine.create(create).await }).await.unwrap().session_id
    }

    /// Cancels a session and waits for its end.
    pub(crate) async fn cancel(&self, session_id: SessionId) {
        let engine = self.engine.clone();
        let cancel = Input::Cancel { reason: "enough".into(), by: Actor::Engine };
        self.inside(async move { engine.submit(session_id, cancel).await }).await.unwrap();
        self.until(session_id, SessionState::is_finished).await;
    }

    /// The session's state, once it is such.
    pub(crate) async fn until(
        &self,
        session_id: SessionId,
        is_so: impl Fn(&SessionState) -> bool,
    ) -> SessionState {
        let mut changes = self.engine.subscribe(session_id);
        soon(async {
            loop {
                let state = self.engine.state(session_id).await.unwrap();
                if is_so(&state) {
                    return state;
                }
                changes.head.changed().await.unwrap();
            }
        })
        .await
    }

    /// What tools gave, in order.
    pub(crate) async fn results(&self, session_id: SessionId) -> Vec<ToolFinished> {
        let page = self.store.read(session_id, Seq(0), 1_000).await.unwrap();
        let bodies = page
            .events
            .iter()
            .map(|it| stepwell_core::codec::decode(&it.kind, it.schema, &it.body).unwrap());
        let finished = bodies.filter_map(|body| match body {
            EventBody::ToolFinished(finished) => Some(finished),
            _ => None,
        });
        finished.collect()
    }
}

fn work(store: &Arc<Unsteady>, gateway: &WorkerGateway, process: &Runtime) -> Engine {
    let ports = Ports {
        store: store.clone(),
        model: Arc::new(Script),
        tools: Arc::new(gateway.clone()),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
    };
    let node = format!("node-{:x}", u128::from_le_bytes(random_bytes()));
    let engine = Engine::new(ports, EngineOptions::for_node(node));
    let (running, tending, gateway) = (engine.clone(), engine.clone(), gateway.clone());
    // Both end with the process.
    drop(process.spawn(async move { running.run(CancellationToken::new()).await }));
    drop(process.spawn(async move { gateway.tend(&tending, &CancellationToken::new()).await }));
    engine
}

fn agent() -> Agent {
    Agent {
        tools: vec![spec("a", Effect::Read)],
        ..Agent::new("reader", "Look.", ModelSpec::new("script", "http://127.0.0.1:9/v1"))
    }
}

impl RawWorker {
    /// Reads until the server asks how the call stands. Whether it was told to stop before.
    pub(crate) async fn asked_about(&mut self, call: &Call) -> bool {
        let mut is_stopped = false;
        loop {
            match self.hear().await {
                attach_response::Message::Cancel(cancel) => {
                    assert_eq!(cancel.fence, call.fence);
                    is_stopped = true;
                }
                attach_response::Message::Probe(probe) => {
                    assert_eq!((probe.fence, &probe.call_id), (call.fence, &call.call_id));
                    return is_stopped;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Reads until the call is acknowledged; questions about it may come before that.
    pub(crate) async fn acknowledged_after_all(&mut self, call: &Call) {
        loop {
            match self.hear().await {
                attach_response::Message::Ack(ack) => {
                    assert_eq!(ack.fence, call.fence);
                    return;
                }
                attach_response::Message::Cancel(_) | attach_response::Message::Probe(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}
