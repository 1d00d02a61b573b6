//! `SessionService`.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use stepwell_core::summary::ApprovalStatus;
use stepwell_core::{Input, Seq, SessionId};
use stepwell_ports::ApprovalFilter;
use stepwell_ports::store::PAGE_ROWS_MAX;
use stepwell_proto::v1;
use stepwell_runtime::{CreateSession, EngineError};
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{Api, agent_json, explained, spans, without_worker};
use crate::convert::{self, AgentChoice, Creation, Message, SessionQuery, Stop};
use crate::ownership::{Owners, Ownership};
use crate::watch::{self, WatchItem, WatchOptions, expect_seq};
use crate::{import, payload, status};

/// Bytes of event bodies on one page: below what gRPC clients take by default.
pub(super) const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of one piece of a payload.
const BLOB_PIECE_BYTES: usize = 64 * 1024;

/// The service.
#[derive(Clone)]
pub(crate) struct Sessions(pub(crate) Arc<Api>);

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[async_trait]
impl v1::session_service_server::SessionService for Sessions {
    type WatchSessionStream = Answers<v1::WatchSessionResponse>;
    type GetBlobStream = Answers<v1::GetBlobResponse>;

    async fn create_session(
        &self,
        request: Request<v1::CreateSessionRequest>,
    ) -> Result<Response<v1::CreateSessionResponse>, Status> {
        let creation = Creation::try_from(request.into_inner())?;
        self.create(creation).await.map(Response::new)
    }

    async fn get_session(
        &self,
        request: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionResponse>, Status> {
        let session_id = self.0.find(&request.into_inner().session_id).await?;
        self.get(session_id).await.map(Response::new)
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        let SessionQuery { filter, page, rows } = request.into_inner().try_into()?;
        let page = self.0.engine.store().sessions(&filter, page.as_deref(), rows).await;
        let page = page.map_err(|error| status::store(&error))?;
        Ok(Response::new(v1::ListSessionsResponse {
            sessions: self.0.rows_to_wire(page.rows),
            next_page_token: page.next_page.unwrap_or_default(),
        }))
    }

    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        let request = request.into_inner();
        let session_id = self.0.find(&request.session_id).await?;
        let after = Seq(request.after_seq);
        expect_seq(&self.0.session_info(session_id).await?, after)?;
        let rows = convert::page_rows(request.page_size, PAGE_ROWS_MAX);
        let store = self.0.engine.store();
        let page = store.read(session_id, after, rows).await;
        let page = page.map_err(|error| status::store(&error))?;
        let mut events = Vec::with_capacity(page.events.len());
        let mut bytes = 0;
        for mut event in page.events {
            if request.whole_payloads {
                let whole = payload::whole(&**store, event).await;
                event = whole.map_err(|error| status::store(&error))?;
            }
            bytes += event.body.len();
            if bytes > PAGE_BYTES_MAX && !events.is_empty() {
                break;
            }
            events.push(convert::event(session_id, event));
        }
        Ok(Response::new(v1::ListEventsResponse { events, head_seq: page.head.0 }))
    }

    async fn watch_session(
        &self,
        request: Request<v1::WatchSessionRequest>,
    ) -> Result<Response<Self::WatchSessionStream>, Status> {
        let request = request.into_inner();
        let session_id = self.0.find(&request.session_id).await?;
        let options = WatchOptions {
            after: Seq(request.after_seq),
            events_only: request.events_only,
            whole_payloads: request.whole_payloads,
        };
        let mut watch = watch::begin(&self.0, session_id, options).await?;
        Ok(Response::new(Box::pin(async_stream::stream! {
            while let Some(next) = watch.next().await {
                match next {
                    Ok(item) => if let Some(answer) = watch_answer(session_id, item) {
                        yield Ok(answer);
                    },
                    Err(status) => yield Err(status),
                }
            }
        })))
    }

    async fn send_message(
        &self,
        request: Request<v1::SendMessageRequest>,
    ) -> Result<Response<v1::SendMessageResponse>, Status> {
        let message = Message::try_from(request.into_inner())?;
        let Message { session, content, answers, client_key, by } = message;
        let input = Input::Message { content, answers, client_key, by };
        let session = Some(self.submit(&session, input).await?);
        Ok(Response::new(v1::SendMessageResponse { session }))
    }

    async fn cancel_session(
        &self,
        request: Request<v1::CancelSessionRequest>,
    ) -> Result<Response<v1::CancelSessionResponse>, Status> {
        let Stop { session, reason, by } = request.into_inner().try_into()?;
        let session = Some(self.submit(&session, Input::Cancel { reason, by }).await?);
        Ok(Response::new(v1::CancelSessionResponse { session }))
    }

    async fn pause_session(
        &self,
        request: Request<v1::PauseSessionRequest>,
    ) -> Result<Response<v1::PauseSessionResponse>, Status> {
        let Stop { session, reason, by } = request.into_inner().try_into()?;
        let session = Some(self.submit(&session, Input::Pause { reason, by }).await?);
        Ok(Response::new(v1::PauseSessionResponse { session }))
    }

    async fn resume_session(
        &self,
        request: Request<v1::ResumeSessionRequest>,
    ) -> Result<Response<v1::ResumeSessionResponse>, Status> {
        let request = request.into_inner();
        let once = request.once;
        let Stop { session, by, .. } = request.try_into()?;
        let session = Some(self.submit(&session, Input::Resume { once, by }).await?);
        Ok(Response::new(v1::ResumeSessionResponse { session }))
    }

    async fn get_blob(
        &self,
        request: Request<v1::GetBlobRequest>,
    ) -> Result<Response<Self::GetBlobStream>, Status> {
        let address = convert::blob_address(&request.into_inner().blob)?;
        let payload = self.0.engine.store().blob(&address).await;
        let payload = payload.map_err(|error| status::store(&error))?.ok_or_else(|| {
            Status::not_found(format!("there is no payload with the address {address}"))
        })?;
        let mut rest = prost_bytes(payload);
        Ok(Response::new(Box::pin(async_stream::stream! {
            while !rest.is_empty() {
                let piece = rest.split_to(rest.len().min(BLOB_PIECE_BYTES));
                yield Ok(v1::GetBlobResponse { data: piece });
            }
        })))
    }

    async fn import_session(
        &self,
        request: Request<Streaming<v1::ImportSessionRequest>>,
    ) -> Result<Response<v1::ImportSessionResponse>, Status> {
        import::run(&self.0, request.into_inner()).await.map(Response::new)
    }

    async fn list_spans(
        &self,
        request: Request<v1::ListSpansRequest>,
    ) -> Result<Response<v1::ListSpansResponse>, Status> {
        spans::list(&self.0, request.into_inner()).await.map(Response::new)
    }

    async fn get_span(
        &self,
        request: Request<v1::GetSpanRequest>,
    ) -> Result<Response<v1::GetSpanResponse>, Status> {
        spans::get(&self.0, request.into_inner()).await.map(Response::new)
    }

    async fn delete_sessions(
        &self,
        request: Request<v1::DeleteSessionsRequest>,
    ) -> Result<Response<v1::DeleteSessionsResponse>, Status> {
        let sessions = self.0.delete(request.into_inner().try_into()?).await?;
        Ok(Response::new(v1::DeleteSessionsResponse { sessions }))
    }
}

fn prost_bytes(payload: Vec<u8>) -> axum::body::Bytes {
    payload.into()
}

fn watch_answer(session_id: SessionId, item: WatchItem) -> Option<v1::WatchSessionResponse> {
    use v1::watch_session_response::Item;
    let item = match item {
        WatchItem::Event(event) => Item::Event(convert::event(session_id, event)),
        WatchItem::Chunk(chunk) => Item::Chunk(convert::chunk(chunk)),
        WatchItem::CaughtUp(head) => Item::CaughtUp(v1::CaughtUp { head_seq: head.0 }),
        // The end of the stream says it.
        WatchItem::Ended { .. } => return None,
    };
    Some(v1::WatchSessionResponse { item: Some(item) })
}

impl Sessions {
    async fn create(&self, creation: Creation) -> Result<v1::CreateSessionResponse, Status> {
        // First of all: what was created stays created, whatever became of its agent and tools.
        if let Some(key) = &creation.client_key {
            let before = self.0.engine.created_before(key, &creation.request_digest).await;
            if let Some(session_id) = before.map_err(create_status)? {
                return self.created(session_id, false).await;
            }
        }
        let agent = match &creation.agent {
            AgentChoice::Given { definition } => {
                self.0.read_agent("agent_definition", definition).await?
            }
            AgentChoice::Stored { name, version } => stored_agent(&self.0, name, *version).await?,
        };
        let create = CreateSession {
            agent,
            task: creation.task,
            title: creation.title,
            labels: creation.labels,
            workspace: creation.workspace,
            client_key: creation.client_key,
            request_digest: creation.request_digest,
            paused: creation.paused,
            by: creation.by,
        };
        let created = self.0.engine.create(create).await.map_err(create_status)?;
        self.created(created.session_id, created.is_new).await
    }

    async fn created(
        &self,
        session_id: SessionId,
        created: bool,
    ) -> Result<v1::CreateSessionResponse, Status> {
        let info = self.0.session_info(session_id).await?;
        let session = Some(self.0.row_to_wire(info.row));
        Ok(v1::CreateSessionResponse { session, created })
    }

    async fn get(&self, session_id: SessionId) -> Result<v1::GetSessionResponse, Status> {
        let api = &self.0;
        let store = api.engine.store();
        let mut info = api.session_info(session_id).await?;
        let nodes = store.nodes().await.map_err(|error| status::store(&error))?;
        let live = api.engine.live(session_id);
        let owners = Owners {
            node: api.engine.node(),
            nodes: &nodes,
            lease_ms: u64::try_from(api.options.node_lease.as_millis()).unwrap_or(u64::MAX),
            now: api.engine.clock().now(),
        };
        let ownership: Ownership = owners.of(&info, live.in_memory);
        let owner_seen_at_ms = owners.seen_at(&info.owner).map(convert::time).unwrap_or_default();
        let filter =
            ApprovalFilter { statuses: vec![ApprovalStatus::Open], session_id: Some(session_id) };
        let approvals = store.approvals(&filter, None, PAGE_ROWS_MAX).await;
        let approvals = approvals.map_err(|error| status::store(&error))?.rows;
        let mut answer = v1::GetSessionResponse {
            open_approvals: approvals.into_iter().map(convert::approval).collect(),
            owner: info.owner.clone(),
            owner_seen_at_ms,
            ownership: ownership.as_str().to_owned(),
            redaction: info.redaction.as_ref().map(convert::redaction),
            ..v1::GetSessionResponse::default()
        };
        // Asked for every few seconds by whoever looks at it, so it may not cost the whole history.
        match api.engine.outline_at(session_id, info.row.head_seq).await {
            Ok(state) => {
                let tools = api.engine.tools();
                let blocked =
                    live.blocked.or_else(|| without_worker(&state, |tool| tools.offers(tool)));
                answer.paused = state.paused.is_some() && !state.is_finished();
                answer.open_calls = convert::open_calls(&state);
                answer.wakes_at_ms = state.next_due().map(convert::time).unwrap_or_default();
                state.last_reply.preview().clone_into(&mut answer.answer);
                answer.account = Some(convert::account(&state.account, &api.options.prices));
                answer.agent_json = agent_json(&state)?;
                let news = api.gateway.news(Some(session_id)).remove(&session_id);
                info.row.explain = explained(&info.row, [blocked, news]);
            }
            // The row says why, and what else is known stays visible.
            Err(EngineError::Quarantined { reason, .. }) => {
                let damage = format!("its history cannot be read: {reason}");
                if info.row.status.is_final() {
                    info.row.explain = format!("{}; {damage}", info.row.explain);
                } else {
                    info.row.explain = damage;
                    // Nothing else can become of it; whoever gives it an input stores that.
                    info.row.status = stepwell_core::Status::Quarantined;
                    answer.open_approvals.clear();
                }
            }
            Err(error) => return Err(status::engine(session_id, error)),
        }
        let explain = info.row.explain.clone();
        answer.session = Some(convert::session(info.row, explain));
        Ok(answer)
    }

    /// Gives the session that `text` means an input, and its row after it.
    async fn submit(&self, text: &str, input: Input) -> Result<v1::Session, Status> {
        let session_id = self.0.find(text).await?;
        let submitted = self.0.engine.submit(session_id, input).await;
        let submitted = submitted.map_err(|error| status::engine(session_id, error))?;
        Ok(self.0.row_to_wire(submitted.row))
    }
}

/// A stored definition, with its tools.
pub(super) async fn stored_agent(
    api: &Api,
    name: &str,
    version: Option<u32>,
) -> Result<stepwell_core::Agent, Status> {
    let record = super::agents::stored(api, name, version).await?;
    let field = format!("agent {name} version {}", record.version);
    let mut agent = api.read_agent(&field, &record.definition).await?;
    agent.version = record.version;
    Ok(agent)
}

/// A create names no session when it fails, but for a key that was taken.
pub(super) fn create_status(error: EngineError) -> Status {
    match error {
        EngineError::Rejected(reject) => Status::internal(format!("a new session was {reject}")),
        EngineError::NotFound { session_id }
        | EngineError::NoSuchEvent { session_id, .. }
        | EngineError::KeyTaken { session_id }
        | EngineError::KeyOfDeleted { session_id }
        | EngineError::Quarantined { session_id, .. }
        | EngineError::Moved { session_id }
        | EngineError::Busy { session_id } => status::engine(session_id, error),
        EngineError::Store(error) => status::store(&error),
        EngineError::Invalid { .. } => Status::invalid_argument(error.to_string()),
        EngineError::ShuttingDown => Status::unavailable(error.to_string()),
    }
}
