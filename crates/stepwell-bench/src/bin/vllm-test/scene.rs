//! An agent at the server, and its requests.

use std::sync::Arc;

use anyhow::Context as _;

use stepwell_core::account::Measured;
use stepwell_core::agent::{Agent, Effect, ModelSpec, ModelTimeouts, ToolKind, ToolSpec};
use stepwell_core::prompt::Prompt;
use stepwell_core::tokens::Tokens;
use stepwell_core::{JsonText, SessionId};
use stepwell_llm::OpenAiClient;
use stepwell_ports::{
    Affinity, ModelAnswer, ModelChunk, ModelFailure, ModelPort as _, ModelRequest, ModelSink,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Variable with the server's key, and one with a wrong key.
pub(crate) const KEY_ENV: &str = "STEPWELL_VLLM_KEY";
pub(crate) const WRONG_KEY_ENV: &str = "STEPWELL_VLLM_WRONG_KEY";

/// On a machine that is shared a small model may speak two tokens a second.
const TIMEOUTS: ModelTimeouts = ModelTimeouts {
    connect_ms: 10_000,
    first_token_ms: 300_000,
    between_tokens_ms: 120_000,
    total_ms: 1_200_000,
};

/// Reports that the first piece came.
struct FirstPiece(mpsc::Sender<()>);

impl ModelSink for FirstPiece {
    fn chunk(&self, _: ModelChunk) {
        // Full means that it was told already.
        let _ = self.0.try_send(());
    }
}

/// A request under way, and its first piece.
pub(crate) struct Asked {
    pub(crate) first_piece: mpsc::Receiver<()>,
    pub(crate) cancel: CancellationToken,
    task: JoinSet<Result<ModelAnswer, ModelFailure>>,
}

impl Asked {
    /// How it ended.
    pub(crate) async fn outcome(mut self) -> anyhow::Result<Result<ModelAnswer, ModelFailure>> {
        Ok(self.task.join_next().await.context("the request is gone")??)
    }
}

pub(crate) struct Scene {
    client: Arc<OpenAiClient>,
    agent: Agent,
}

impl Scene {
    pub(crate) fn new(base_url: String, model: &str) -> Self {
        Self { client: Arc::new(OpenAiClient::new()), agent: agent(base_url, model) }
    }

    /// The agent with these parameters.
    pub(crate) fn agent(&self, parameters: &serde_json::Value) -> anyhow::Result<Agent> {
        let mut agent = self.agent.clone();
        agent.model.parameters = JsonText::parse(&parameters.to_string())?;
        Ok(agent)
    }

    /// Begins a request.
    pub(crate) fn begin(&self, agent: &Agent, prompt: Prompt) -> Asked {
        self.begin_knowing(agent, prompt, None, Tokens::default())
    }

    /// Begins a request of which so much was counted before.
    pub(crate) fn begin_measured(
        &self,
        agent: &Agent,
        prompt: Prompt,
        measured: Option<Measured>,
    ) -> Asked {
        self.begin_knowing(agent, prompt, measured, Tokens::default())
    }

    /// Begins a request of a session whose last request and reply had these tokens.
    pub(crate) fn begin_after(&self, agent: &Agent, prompt: Prompt, tokens: Tokens) -> Asked {
        self.begin_knowing(agent, prompt, None, tokens)
    }

    fn begin_knowing(
        &self,
        agent: &Agent,
        prompt: Prompt,
        measured: Option<Measured>,
        tokens: Tokens,
    ) -> Asked {
        let (told, first_piece) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        let request = ModelRequest {
            session_id: SessionId::from_random([7; 16]),
            step: 1,
            attempt: 1,
            tokens,
            model: agent.model.clone(),
            measured,
            affinity: Affinity::default(),
            prompt,
        };
        let (client, stop) = (self.client.clone(), cancel.clone());
        let mut task = JoinSet::new();
        task.spawn(async move { client.ask(request, Arc::new(FirstPiece(told)), stop).await });
        Asked { first_piece, cancel, task }
    }

    /// Asks and waits.
    pub(crate) async fn ask(
        &self,
        agent: &Agent,
        prompt: Prompt,
    ) -> anyhow::Result<Result<ModelAnswer, ModelFailure>> {
        self.begin(agent, prompt).outcome().await
    }
}

fn agent(base_url: String, model: &str) -> Agent {
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}"#;
    Agent {
        version: 1,
        tools: vec![ToolSpec {
            name: "read_file".into(),
            description: "Reads a text file.".into(),
            parameters: JsonText::parse(schema).unwrap_or_else(|_| JsonText::empty_object()),
            output_schema: None,
            effect: Effect::Read,
            timeout_ms: 1_000,
            kind: ToolKind::Worker,
        }],
        ..Agent::new(
            "tester",
            &"You read files and answer questions about them. Use the tools you have. \
                       Answer in short sentences."
                .repeat(6),
            ModelSpec {
                api_key_env: Some(KEY_ENV.into()),
                timeouts: TIMEOUTS,
                ..ModelSpec::new(model, base_url)
            },
        )
    }
}
