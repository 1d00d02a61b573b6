//! Time travel: a session at any past moment, the exact prompts, forks.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use stepwell_core::agent::Agent;
use stepwell_core::summary::{approval_rows, session_row};
use stepwell_core::{Seq, SessionId, SessionState};
use stepwell_proto::v1;
use stepwell_runtime::{ForkPlan, ForkSession, MessageWindow};
use tonic::{Request, Response, Status};

use super::{Api, agent_json, comparison, find_events, timeline};
use crate::convert::{self, AgentChoice, BadField, Forking};
use crate::status;

/// Messages of one answer.
const MESSAGES_MAX: u32 = 1_000;

/// Bytes of the messages of one answer; the first is sent whatever its size.
const MESSAGES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of one piece of a prompt.
const PIECE_BYTES: usize = 256 * 1024;

/// The service.
pub(crate) struct History(pub(crate) Arc<Api>);

#[tonic::async_trait]
impl v1::history_service_server::HistoryService for History {
    type GetPromptStream =
        Pin<Box<dyn Stream<Item = Result<v1::GetPromptResponse, Status>> + Send + 'static>>;
    type FindEventsStream =
        Pin<Box<dyn Stream<Item = Result<v1::FindEventsResponse, Status>> + Send + 'static>>;

    async fn get_state(
        &self,
        request: Request<v1::GetStateRequest>,
    ) -> Result<Response<v1::GetStateResponse>, Status> {
        let request = request.into_inner();
        let session_id = self.0.find(&request.session_id).await?;
        let head = self.0.session_info(session_id).await?.row.head_seq;
        let at = if request.at_seq == 0 { head } else { Seq(request.at_seq) };
        let (from, limit) = (request.messages_from, request.messages_limit.min(MESSAGES_MAX));
        let window = self.0.engine.messages_at(session_id, at, from, limit).await;
        let window = window.map_err(|error| status::engine(session_id, error))?;
        let mut answer = describe(session_id, &window.state)?;
        answer.head_seq = head.0;
        answer.account = Some(convert::account(&window.state.account, &self.0.options.prices));
        add_messages(&mut answer, window);
        Ok(Response::new(answer))
    }

    async fn get_prompt(
        &self,
        request: Request<v1::GetPromptRequest>,
    ) -> Result<Response<Self::GetPromptStream>, Status> {
        let v1::GetPromptRequest { session_id, step } = request.into_inner();
        let session_id = self.0.find(&session_id).await?;
        let engine_status = |error| status::engine(session_id, error);
        let found = self.0.engine.request_of_step(session_id, step).await.map_err(engine_status)?;
        let Some((seq, asked)) = found else {
            let message = format!("session {session_id} did not ask the model in step {step}");
            return Err(Status::out_of_range(message));
        };
        let state = self.0.engine.state_at(session_id, seq).await.map_err(engine_status)?;
        let prompt = state.request(asked.attempt);
        let mut first = v1::GetPromptResponse {
            digest: prompt.digest(),
            recorded_digest: asked.prompt_digest,
            seq: seq.0,
            ..v1::GetPromptResponse::default()
        };
        Ok(Response::new(Box::pin(async_stream::stream! {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            for segment in prompt.body_segments() {
                piece.extend_from_slice(segment.as_bytes());
                if piece.len() >= PIECE_BYTES {
                    first.data = std::mem::take(&mut piece).into();
                    yield Ok(std::mem::take(&mut first));
                }
            }
            first.data = piece.into();
            yield Ok(first);
        })))
    }

    async fn fork_session(
        &self,
        request: Request<v1::ForkSessionRequest>,
    ) -> Result<Response<v1::ForkSessionResponse>, Status> {
        let forking = Forking::try_from(request.into_inner())?;
        self.fork(forking).await.map(Response::new)
    }

    async fn get_timeline(
        &self,
        request: Request<v1::GetTimelineRequest>,
    ) -> Result<Response<v1::GetTimelineResponse>, Status> {
        timeline::get(&self.0, request.into_inner()).await.map(Response::new)
    }

    async fn find_events(
        &self,
        request: Request<v1::FindEventsRequest>,
    ) -> Result<Response<Self::FindEventsStream>, Status> {
        let found = find_events::find(self.0.clone(), request.into_inner()).await?;
        Ok(Response::new(Box::pin(found)))
    }

    async fn replay_session(
        &self,
        request: Request<v1::ReplaySessionRequest>,
    ) -> Result<Response<v1::ReplaySessionResponse>, Status> {
        comparison::replay(&self.0, request.into_inner()).await.map(Response::new)
    }

    async fn compare_sessions(
        &self,
        request: Request<v1::CompareSessionsRequest>,
    ) -> Result<Response<v1::CompareSessionsResponse>, Status> {
        comparison::sessions(&self.0, request.into_inner()).await.map(Response::new)
    }
}

impl History {
    async fn fork(&self, forking: Forking) -> Result<v1::ForkSessionResponse, Status> {
        let engine = &self.0.engine;
        if let Some(key) = &forking.client_key {
            let before = engine.created_before(key, &forking.request_digest).await;
            if let Some(session_id) = before.map_err(super::sessions::create_status)? {
                let session = Some(self.row(session_id).await?);
                return Ok(v1::ForkSessionResponse { session, ..Default::default() });
            }
        }
        let parent = self.0.find(&forking.session).await?;
        let agent = self.agent_of(&forking, parent).await?;
        let dry_run = forking.dry_run;
        let fork = ForkSession {
            parent,
            at: forking.at,
            changes: forking.changes,
            agent,
            title: forking.title,
            workspace: forking.workspace,
            paused: forking.paused,
            client_key: forking.client_key,
            request_digest: forking.request_digest,
            by: forking.by,
        };
        let engine_status = |error| status::engine(parent, error);
        let plan = engine.plan_fork(&fork).await.map_err(engine_status)?;
        let mut answer = report(&plan);
        if !dry_run {
            let created = engine.fork(fork, plan).await.map_err(engine_status)?;
            answer.session = Some(self.row(created.session_id).await?);
            answer.created = created.is_new;
        }
        Ok(answer)
    }

    async fn row(&self, session_id: SessionId) -> Result<v1::Session, Status> {
        Ok(self.0.row_to_wire(self.0.session_info(session_id).await?.row))
    }

    /// The definition that holds from the fork on, when it is another one.
    async fn agent_of(
        &self,
        forking: &Forking,
        parent: SessionId,
    ) -> Result<Option<Agent>, Status> {
        let whole = match &forking.agent {
            Some(AgentChoice::Given { definition }) => {
                Some(self.0.read_agent("agent_definition", definition).await?)
            }
            Some(AgentChoice::Stored { name, version }) => {
                Some(super::sessions::stored_agent(&self.0, name, *version).await?)
            }
            None => None,
        };
        let Forking { model, base_url, instructions, .. } = forking;
        if model.is_none() && base_url.is_none() && instructions.is_none() {
            return Ok(whole);
        }
        let mut agent = if let Some(agent) = whole {
            agent
        } else {
            let state = self.0.engine.state(parent).await;
            let state = state.map_err(|error| status::engine(parent, error))?;
            let agent = state.agent().map(|agent| Agent::clone(agent));
            agent.ok_or_else(|| BadField::new("session_id", "has no agent"))?
        };
        // It is no stored version any more.
        agent.version = 0;
        let set = |field: &mut String, given: &Option<String>| {
            if let Some(given) = given {
                field.clone_from(given);
            }
        };
        set(&mut agent.model.name, model);
        if base_url.as_ref().is_some_and(|url| *url != agent.model.base_url) {
            agent.model.replicas.clear();
            // The key is for the address that it was written beside: no other server may be sent it.
            agent.model.api_key_env = None;
        }
        set(&mut agent.model.base_url, base_url);
        set(&mut agent.instructions, instructions);
        Ok(Some(agent))
    }
}

fn report(plan: &ForkPlan) -> v1::ForkSessionResponse {
    let hazards = plan.hazards.iter().map(|hazard| v1::Hazard {
        seq: hazard.seq.0,
        call_id: hazard.call_id.to_string(),
        tool: hazard.tool.clone(),
        arguments: hazard.arguments.clone(),
        ending: hazard.ending.as_str().to_owned(),
        result_given: hazard.result_given,
    });
    v1::ForkSessionResponse {
        session: None,
        created: false,
        at_seq: plan.at.0,
        hazards: hazards.collect(),
        workspace: plan.workspace.clone(),
        shares_workspace: plan.shares_workspace,
    }
}

fn describe(session_id: SessionId, state: &SessionState) -> Result<v1::GetStateResponse, Status> {
    let row = session_row(session_id, state);
    let row = row.ok_or_else(|| status::no_session(&session_id.to_string()))?;
    let explain = row.explain.clone();
    let open = approval_rows(session_id, &SessionState::default(), state);
    let timers = state.timers.iter().map(|(timer, due_at)| v1::Timer {
        name: timer.to_string(),
        due_at_ms: convert::time(*due_at),
    });
    Ok(v1::GetStateResponse {
        session: Some(convert::session(row, explain)),
        open_calls: convert::open_calls(state),
        open_approvals: open.into_iter().map(convert::approval).collect(),
        timers: timers.collect(),
        limits: Some(limits(state)),
        answer: state.last_reply.preview().to_owned(),
        agent_json: agent_json(state)?,
        prompt_bytes: state.prompt.body_bytes(),
        messages_total: state.prompt.messages().into(),
        paused: state.paused.is_some() && !state.is_finished(),
        ..v1::GetStateResponse::default()
    })
}

fn limits(state: &SessionState) -> v1::Limits {
    let agent = state.agent();
    let deadline = state.timers.get(&stepwell_core::event::Timer::Deadline);
    v1::Limits {
        steps: state.step,
        steps_max: agent.map_or(0, |agent| agent.limits.steps_max),
        tokens: state.usage.total(),
        tokens_max: agent.and_then(|agent| agent.limits.tokens_max).unwrap_or_default(),
        deadline_at_ms: deadline.copied().map(convert::time).unwrap_or_default(),
    }
}

fn add_messages(answer: &mut v1::GetStateResponse, window: MessageWindow) {
    answer.messages_from = window.from.into();
    let mut bytes = 0;
    for message in window.messages {
        bytes += message.json.len();
        if bytes > MESSAGES_BYTES_MAX && !answer.messages_json.is_empty() {
            break;
        }
        answer.message_origins.push(v1::MessageOrigin {
            seq: message.seq.0,
            step: message.step,
            call_id: message.call_id.map(|it| it.to_string()).unwrap_or_default(),
        });
        answer.messages_json.push(message.json);
    }
}
