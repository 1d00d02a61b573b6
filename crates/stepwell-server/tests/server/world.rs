//! A server on a free port, its engine, and a model that plays a script.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use stepwell_core::event::{FinishReason, ModelErrorKind, Usage};
use stepwell_core::{Effect, JsonText, TimestampMs, ToolKind, ToolSpec};
use stepwell_ports::memory::MemoryStore;
use stepwell_ports::model::WireToolCall;
use stepwell_ports::{
    ModelAnswer, ModelChunk, ModelFailure, ModelPort, ModelRequest, ModelSink, Store, ToolRecord,
};
use stepwell_proto::v1;
use stepwell_proto::v1::agent_service_client::AgentServiceClient;
use stepwell_proto::v1::approval_service_client::ApprovalServiceClient;
use stepwell_proto::v1::session_service_client::SessionServiceClient;
use stepwell_runtime::system::{SystemClock, SystemRandom};
use stepwell_runtime::{Engine, EngineOptions, Ports};
use stepwell_server::agent_file::ModelDefaults;
use stepwell_server::gateway::{GatewayOptions, WorkerGateway};
use stepwell_server::{ServerOptions, Services, serve};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

/// Longest that anything in these tests may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What the model says, in order.
#[derive(Debug, Clone)]
pub(crate) enum Turn {
    /// Pieces of an answer.
    Say(&'static [&'static str]),
    /// A call.
    Call(&'static str, &'static str),
}

struct Script(Mutex<VecDeque<Turn>>);

#[async_trait]
impl ModelPort for Script {
    async fn ask(
        &self,
        _: ModelRequest,
        sink: Arc<dyn ModelSink>,
        _: CancellationToken,
    ) -> Result<ModelAnswer, ModelFailure> {
        let turn = self.0.lock().unwrap().pop_front();
        let mut answer = ModelAnswer {
            content: String::new(),
            reasoning: String::new(),
            tool_calls: vec![],
            finish_reason: FinishReason::Stop,
            finish_word: None,
            usage: Usage {
                prompt_tokens: 10,
                cached_tokens: 4,
                completion_tokens: 2,
                ..Usage::default()
            },
            endpoint: "script".into(),
            first_token_ms: 1,
            duration_ms: 2,
            tokens: None,
        };
        match turn {
            Some(Turn::Say(pieces)) => {
                for piece in pieces {
                    sink.chunk(ModelChunk::Content((*piece).into()));
                    answer.content.push_str(piece);
                }
            }
            Some(Turn::Call(name, arguments)) => {
                answer.finish_reason = FinishReason::ToolCalls;
                let (name, arguments) = (name.into(), arguments.into());
                answer.tool_calls.push(WireToolCall { id: "w1".into(), name, arguments });
            }
            None => {
                let message = "the script is over".into();
                let kind = ModelErrorKind::BadRequest;
                return Err(ModelFailure::new("script".into(), kind, message));
            }
        }
        Ok(answer)
    }
}

/// A running server.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
}

impl World {
    /// A server over an empty store.
    pub(crate) async fn new(turns: &[Turn]) -> Self {
        Self::over(Arc::new(MemoryStore::new()), turns, ServerOptions::default()).await
    }

    /// A server over `store`.
    pub(crate) async fn over(
        store: Arc<dyn Store>,
        turns: &[Turn],
        options: ServerOptions,
    ) -> Self {
        let clock = Arc::new(SystemClock);
        let node = format!("node-{:x}", stepwell_runtime::system::random_bytes()[0]);
        let gateway = WorkerGateway::new(store.clone(), clock.clone(), GatewayOptions::default());
        let ports = Ports {
            store: store.clone(),
            model: Arc::new(Script(Mutex::new(turns.iter().cloned().collect()))),
            tools: Arc::new(gateway.clone()),
            clock,
            random: Arc::new(SystemRandom),
        };
        let drain = Duration::from_millis(100);
        let engine = Engine::new(ports, EngineOptions { drain, ..EngineOptions::for_node(node) });
        let shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let (running, stop) = (engine.clone(), shutdown.clone());
        tasks.spawn(async move { running.run(stop).await });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let model_defaults = ModelDefaults {
            name: Some("script".into()),
            base_url: Some("http://127.0.0.1:9/v1".into()),
            replicas: Vec::new(),
            api_key_env: None,
        };
        let services = Services { engine: engine.clone(), gateway, model_defaults, shown: None };
        let stop = shutdown.clone();
        tasks.spawn(async move { serve(listener, services, options, stop).await.unwrap() });
        Self { address, engine, store, shutdown, tasks }
    }

    /// Stops engine and server, as SIGTERM does.
    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        within(async { while self.tasks.join_next().await.is_some() {} }).await;
    }

    pub(crate) async fn connection(&self) -> Channel {
        self.channel().await
    }

    async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn sessions(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channel().await)
    }

    pub(crate) async fn approvals(&self) -> ApprovalServiceClient<Channel> {
        ApprovalServiceClient::new(self.channel().await)
    }

    pub(crate) async fn agents(&self) -> AgentServiceClient<Channel> {
        AgentServiceClient::new(self.channel().await)
    }

    /// Creates a session and gives its id.
    pub(crate) async fn create(&self, definition: &str) -> String {
        let request = v1::CreateSessionRequest {
            task: "Do it.".into(),
            agent_definition: definition.into(),
            ..v1::CreateSessionRequest::default()
        };
        let answer = self.sessions().await.create_session(request).await.unwrap().into_inner();
        answer.session.unwrap().session_id
    }

    /// The session, once it is as `is_so` wants it.
    pub(crate) async fn until(
        &self,
        session_id: &str,
        is_so: impl Fn(&v1::GetSessionResponse) -> bool,
    ) -> v1::GetSessionResponse {
        let mut client = self.sessions().await;
        let mut changes = self.engine.subscribe(session_id.parse().unwrap());
        within(async {
            loop {
                let request = v1::GetSessionRequest { session_id: session_id.into() };
                let answer = client.get_session(request).await.unwrap().into_inner();
                if is_so(&answer) {
                    return answer;
                }
                changes.head.changed().await.unwrap();
            }
        })
        .await
    }

    /// The session, once it has that status.
    pub(crate) async fn until_status(
        &self,
        session_id: &str,
        status: v1::SessionStatus,
    ) -> v1::GetSessionResponse {
        self.until(session_id, |it| it.session.as_ref().unwrap().status() == status).await
    }

    /// Registers `ship`, a write tool that no worker offers.
    pub(crate) async fn register_ship(&self) {
        let spec = ToolSpec {
            name: "ship".into(),
            description: "Ships an order.".into(),
            parameters: JsonText::parse(
                r#"{"type":"object","properties":{"order":{"type":"integer"},"qty":{"type":"integer"}},"required":["order"],"additionalProperties":false}"#,
            )
            .unwrap(),
            output_schema: None,
            effect: Effect::Write,
            timeout_ms: 60_000,
            kind: ToolKind::Worker,
        };
        self.put_ship(&serde_json::to_string(&spec).unwrap()).await;
    }

    /// Makes `ship` a tool that this release cannot read.
    pub(crate) async fn unregister_ship(&self) {
        self.put_ship("{}").await;
    }

    async fn put_ship(&self, spec: &str) {
        let record = ToolRecord {
            name: "ship".into(),
            spec: spec.into(),
            worker: "w".into(),
            seen_at: TimestampMs(1),
        };
        self.store.put_tools(vec![record]).await.unwrap();
    }
}

/// The future's value, or a failed test when it takes too long.
#[track_caller]
pub(crate) fn within<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let place = std::panic::Location::caller();
    async move {
        let value = tokio::time::timeout(PATIENCE, future).await;
        value.unwrap_or_else(|_| panic!("took longer than {PATIENCE:?}: {place}"))
    }
}

/// An agent without tools that finishes with its first answer.
pub(crate) const PLAIN: &str = "name = \"plain\"\ninstructions = \"Answer.\"\n";

/// An agent that waits for the next message after each answer.
pub(crate) const TALKER: &str = "name = \"talker\"\ninstructions = \"Talk.\"\ninteractive = true\n";

/// An agent that ships orders; nothing in it allows that.
pub(crate) const SHIPPER: &str =
    "name = \"shipper\"\ninstructions = \"Ship.\"\ntools = [\"ship\", \"ask_user\"]\n";
