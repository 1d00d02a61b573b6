//! The gRPC services over the engine. Each request is checked by `convert`, then one call of the
//! engine or the store, then the answer is converted back.

mod agents;
mod approvals;
mod backup;
mod comparison;
mod delete;
mod find_events;
mod history;
mod sessions;
mod spans;
mod timeline;

pub(crate) use agents::Agents;
pub(crate) use approvals::Approvals;
pub(crate) use backup::{Backups, OneAtATime};
pub(crate) use history::History;
pub(crate) use sessions::Sessions;

use std::sync::Arc;

use stepwell_core::explain::{RUNS_OR_WAITS, WAITS};
use stepwell_core::state::CallStatus;
use stepwell_core::summary::SessionRow;
use stepwell_core::{Agent, SessionId, SessionState};
use stepwell_ports::SessionInfo;
use stepwell_proto::v1;
use stepwell_runtime::Engine;
use stepwell_runtime::task::Tasks;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::agent_file::{self, Catalogue, ModelDefaults};
use crate::gateway::WorkerGateway;
use crate::server::ServerOptions;
use crate::span_cache::SpanCache;
use crate::view::Views;
use crate::{convert, status};

/// What all calls share.
pub(crate) struct Api {
    pub(crate) engine: Engine,
    pub(crate) gateway: WorkerGateway,
    pub(crate) model_defaults: ModelDefaults,
    pub(crate) options: ServerOptions,
    /// Span trees that were asked for lately.
    pub(crate) spans: SpanCache,
    /// The writers of running watches.
    pub(crate) watches: Tasks,
    /// Places of imports.
    pub(crate) imports: Arc<Semaphore>,
    /// Ends all watches.
    pub(crate) shutdown: CancellationToken,
    /// Places of those who read whole histories.
    pub(crate) walks: Semaphore,
    /// The right to copy the store.
    pub(crate) backups: OneAtATime,
    /// Exported files that are looked at.
    pub(crate) views: Views,
}

impl Api {
    /// What the store knows about a session.
    pub(crate) async fn session_info(&self, session_id: SessionId) -> Result<SessionInfo, Status> {
        let found = self.engine.store().session(session_id).await;
        let found = found.map_err(|error| status::store(&error))?;
        found.ok_or_else(|| status::no_session(&session_id.to_string()))
    }

    /// The session that `text` means.
    pub(crate) async fn find(&self, text: &str) -> Result<SessionId, Status> {
        crate::find::session(&**self.engine.store(), text).await
    }

    /// A list row, with what only the live engine knows about why it waits.
    pub(crate) fn row_to_wire(&self, row: SessionRow) -> v1::Session {
        let news = self.gateway.news(Some(row.session_id)).remove(&row.session_id);
        self.row_with_news(row, news)
    }

    /// The same for a page of a list.
    pub(crate) fn rows_to_wire(&self, rows: Vec<SessionRow>) -> Vec<v1::Session> {
        let mut news = self.gateway.news(None);
        let row_to_wire = |row: SessionRow| {
            let news = news.remove(&row.session_id);
            self.row_with_news(row, news)
        };
        rows.into_iter().map(row_to_wire).collect()
    }

    fn row_with_news(&self, row: SessionRow, news: Option<String>) -> v1::Session {
        let live = self.engine.live(row.session_id);
        let absent = live.absent_tool.as_deref().map(no_worker);
        let explain = explained(&row, [live.blocked, absent, news]);
        convert::session(row, explain)
    }

    /// The tools that agents can choose from.
    pub(crate) async fn catalogue(&self) -> Result<Catalogue, Status> {
        let records = self.engine.store().tools().await.map_err(|error| status::store(&error))?;
        Ok(Catalogue::from_records(&records))
    }

    /// Reads a definition that came from `field`.
    pub(crate) async fn read_agent(&self, field: &str, definition: &str) -> Result<Agent, Status> {
        let catalogue = self.catalogue().await?;
        agent_file::read(definition, &catalogue, &self.model_defaults)
            .map_err(|error| status::agent_file(field, &error))
    }
}

/// The row's sentence, and what only the live engine knows.
pub(crate) fn explained(
    row: &SessionRow,
    known_live: impl IntoIterator<Item = Option<String>>,
) -> String {
    let mut explain = row.explain.clone();
    if !row.status.is_final() {
        for it in known_live.into_iter().flatten() {
            if it.starts_with(NO_WORKER) {
                // Then it does not run either.
                explain = explain.replacen(RUNS_OR_WAITS, WAITS, 1);
            }
            if !explain.contains(&it) {
                explain = format!("{explain}; {it}");
            }
        }
    }
    explain
}

/// Why the scheduled calls of a session do not start, when nobody offers their tools.
pub(crate) fn without_worker(
    state: &SessionState,
    is_offered: impl Fn(&str) -> bool,
) -> Option<String> {
    let waiting = state.calls.values().filter(|call| call.status == CallStatus::Scheduled);
    let tool = waiting.map(|call| call.tool.as_str()).find(|tool| !is_offered(tool))?;
    Some(no_worker(tool))
}

const NO_WORKER: &str = "no connected worker offers";

fn no_worker(tool: &str) -> String {
    format!("{NO_WORKER} `{tool}`: connect one that does (stepwell worker has the built-in tools)")
}

/// The definition that a session holds.
pub(crate) fn agent_json(state: &SessionState) -> Result<String, Status> {
    let Some(agent) = state.agent() else { return Ok(String::new()) };
    serde_json::to_string(&**agent)
        .map_err(|error| Status::internal(format!("the agent cannot be written as JSON: {error}")))
}
