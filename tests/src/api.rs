//! A client of the gRPC API.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use stepwell_proto::v1::agent_service_client::AgentServiceClient;
use stepwell_proto::v1::approval_service_client::ApprovalServiceClient;
use stepwell_proto::v1::history_service_client::HistoryServiceClient;
use stepwell_proto::v1::session_service_client::SessionServiceClient;
use stepwell_proto::v1::watch_session_response::Item;
use stepwell_proto::v1::{
    Approval, ApprovalDecision, CreateSessionRequest, DecideApprovalRequest,
    DecideApprovalResponse, Event, GetSessionRequest, GetSessionResponse, ListEventsRequest,
    ListToolsRequest, ListWorkersRequest, Session, SessionStatus, WatchSessionRequest,
    WatchSessionResponse,
};
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::wait::{SOON, until};

/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Largest answer.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A connection to a server that answered. It ends with the server's process.
#[derive(Debug, Clone)]
pub struct Api {
    channel: Channel,
}

/// An event with its body as JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Ev {
    /// Place in the log.
    pub seq: u64,
    /// Type, for example `tool_finished`.
    pub kind: String,
    /// Seq of the input that led to it; all that follows from one input becomes durable together.
    pub cause: u64,
    /// Who did it.
    pub actor: String,
    /// Content.
    pub body: Value,
}

impl TryFrom<Event> for Ev {
    type Error = anyhow::Error;

    fn try_from(event: Event) -> Result<Self> {
        let body = serde_json::from_str(&event.body_json)
            .with_context(|| format!("event {} has no JSON: {:?}", event.seq, event.body_json))?;
        let Event { seq, cause, r#type: kind, actor, .. } = event;
        Ok(Self { seq, kind, cause, actor, body })
    }
}

impl Ev {
    /// A text of the body; empty when there is none.
    pub fn text(&self, name: &str) -> &str {
        self.body.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A number of the body; 0 when there is none.
    pub fn number(&self, name: &str) -> u64 {
        self.body.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    /// The call that it is about; empty for none.
    pub fn call_id(&self) -> &str {
        self.text("call_id")
    }
}

impl Api {
    /// Connects and waits for an answer.
    ///
    /// # Errors
    /// When there is none.
    pub async fn connect(url: &str) -> Result<Self> {
        let endpoint = Endpoint::from_shared(url.to_owned())?.connect_timeout(CONNECT_WITHIN);
        let api = Self { channel: endpoint.connect().await? };
        api.agents().list_workers(ListWorkersRequest {}).await?;
        Ok(api)
    }

    /// The connection, for other services.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// `SessionService`.
    pub fn sessions(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channel()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    /// `ApprovalService`.
    pub fn approvals(&self) -> ApprovalServiceClient<Channel> {
        ApprovalServiceClient::new(self.channel())
    }

    /// `HistoryService`.
    pub fn history(&self) -> HistoryServiceClient<Channel> {
        HistoryServiceClient::new(self.channel())
    }

    /// `AgentService`.
    pub fn agents(&self) -> AgentServiceClient<Channel> {
        AgentServiceClient::new(self.channel())
    }

    /// Waits until a connected worker offers the tool.
    ///
    /// # Errors
    /// When none comes.
    pub async fn until_tool(&self, name: &str) -> Result<()> {
        until(&format!("a worker that offers {name}"), async || {
            let tools = self.agents().list_tools(ListToolsRequest {}).await?.into_inner().tools;
            let is_there = tools.iter().any(|it| it.name == name && !it.workers.is_empty());
            Ok(is_there.then_some(()))
        })
        .await
    }

    /// Starts a session; gives its id.
    ///
    /// # Errors
    /// The server's.
    pub async fn create(&self, task: &str, agent_definition: &str) -> Result<String> {
        let request = CreateSessionRequest {
            task: task.to_owned(),
            agent_definition: agent_definition.to_owned(),
            submitted_by: "tester".to_owned(),
            ..CreateSessionRequest::default()
        };
        let response = self.sessions().create_session(request).await?.into_inner();
        Ok(response.session.context("no session in the answer")?.session_id)
    }

    /// A session with all that is open.
    ///
    /// # Errors
    /// The server's.
    pub async fn get(&self, session_id: &str) -> Result<GetSessionResponse, Status> {
        let request = GetSessionRequest { session_id: session_id.to_owned() };
        Ok(self.sessions().get_session(request).await?.into_inner())
    }

    /// A session's row.
    ///
    /// # Errors
    /// The server's.
    pub async fn session(&self, session_id: &str) -> Result<Session> {
        self.get(session_id).await?.session.context("no session in the answer")
    }

    /// Waits until the session has a status.
    ///
    /// # Errors
    /// When it does not come, with where the session is.
    pub async fn until_status(&self, session_id: &str, status: SessionStatus) -> Result<Session> {
        let mut last = String::new();
        let waiting = until("the status", async || {
            let session = self.session(session_id).await?;
            last = format!("{:?}: {}", session.status(), session.explain);
            let is_over = matches!(
                session.status(),
                SessionStatus::Completed
                    | SessionStatus::Failed
                    | SessionStatus::Cancelled
                    | SessionStatus::LimitReached
                    | SessionStatus::Quarantined
            );
            if session.status() == status {
                return Ok(Some(session));
            }
            ensure!(!is_over, "the session is {last}");
            Ok(None)
        });
        let found = waiting.await;
        found.with_context(|| format!("{session_id} should become {status:?} and is {last}"))
    }

    /// Waits for an open approval of the session.
    ///
    /// # Errors
    /// When none comes.
    pub async fn until_approval(&self, session_id: &str) -> Result<Approval> {
        until("an open approval", async || {
            Ok(self.get(session_id).await?.open_approvals.into_iter().next())
        })
        .await
    }

    /// Decides an approval.
    ///
    /// # Errors
    /// The server's.
    pub async fn decide(
        &self,
        approval_id: &str,
        decision: ApprovalDecision,
    ) -> Result<DecideApprovalResponse, Status> {
        let request = DecideApprovalRequest {
            approval_id: approval_id.to_owned(),
            decision: decision.into(),
            decided_by: "tester".to_owned(),
            ..DecideApprovalRequest::default()
        };
        Ok(self.approvals().decide_approval(request).await?.into_inner())
    }

    /// The whole log.
    ///
    /// # Errors
    /// The server's; and a gap or a double in the log.
    pub async fn events(&self, session_id: &str) -> Result<Vec<Ev>> {
        let mut events: Vec<Ev> = Vec::new();
        loop {
            let after_seq = events.last().map_or(0, |it| it.seq);
            let request = ListEventsRequest {
                session_id: session_id.to_owned(),
                after_seq,
                ..ListEventsRequest::default()
            };
            let page = self.sessions().list_events(request).await?.into_inner();
            for event in page.events {
                let event = Ev::try_from(event)?;
                let wanted = events.last().map_or(1, |it| it.seq + 1);
                ensure!(event.seq == wanted, "event {} stands where {wanted} should", event.seq);
                events.push(event);
            }
            let last = events.last().map_or(0, |it| it.seq);
            if last >= page.head_seq {
                return Ok(events);
            }
        }
    }

    /// Waits until the log has an event that fits.
    ///
    /// # Errors
    /// When none comes.
    pub async fn until_event(
        &self,
        session_id: &str,
        what: &str,
        fits: impl Fn(&Ev) -> bool,
    ) -> Result<Ev> {
        let mut watch = self.watch(session_id, 0).await?;
        let finding = async {
            loop {
                match watch.next().await? {
                    Watched::Event(event) if fits(&event) => return Ok(event),
                    Watched::Event(_) | Watched::CaughtUp => {}
                    Watched::End => bail!("the session ended without {what}"),
                }
            }
        };
        let found = tokio::time::timeout(SOON, finding).await;
        found.with_context(|| format!("{session_id} has no {what}"))?
    }

    /// Watches a session's events after a seq.
    ///
    /// # Errors
    /// The server's.
    pub async fn watch(&self, session_id: &str, after_seq: u64) -> Result<Watch, Status> {
        let request = WatchSessionRequest {
            session_id: session_id.to_owned(),
            after_seq,
            events_only: true,
            whole_payloads: false,
        };
        let stream = self.sessions().watch_session(request).await?.into_inner();
        Ok(Watch { stream, last: after_seq })
    }
}

/// A running watch. It checks that no event is missing and none comes twice.
#[derive(Debug)]
pub struct Watch {
    stream: Streaming<WatchSessionResponse>,
    last: u64,
}

/// What a watch gives.
#[derive(Debug)]
pub enum Watched {
    /// The next event.
    Event(Ev),
    /// All that was stored when the watch began was given.
    CaughtUp,
    /// The session is over.
    End,
}

impl Watch {
    /// The next news. Cancel-safe.
    ///
    /// # Errors
    /// A gap or a double; and a broken connection.
    pub async fn next(&mut self) -> Result<Watched> {
        loop {
            let Some(response) = self.stream.message().await? else { return Ok(Watched::End) };
            match response.item {
                Some(Item::Event(event)) => {
                    let event = Ev::try_from(event)?;
                    let wanted = self.last + 1;
                    ensure!(event.seq == wanted, "event {} came, not {wanted}", event.seq);
                    self.last = event.seq;
                    return Ok(Watched::Event(event));
                }
                Some(Item::CaughtUp(_)) => return Ok(Watched::CaughtUp),
                Some(Item::Chunk(_)) | None => {}
            }
        }
    }
}

/// An agent with these tools, that waits little between tries, and with more lines of its definition.
pub fn agent_with(tools: &[&str], rest: &str) -> String {
    let names: Vec<String> = tools.iter().map(|it| format!("{it:?}")).collect();
    format!(
        "name = \"tester\"\ninstructions = \"You test.\"\ntools = [{}]\n\
         [retry]\nbase = \"20ms\"\ncap = \"200ms\"\n{rest}",
        names.join(", ")
    )
}
