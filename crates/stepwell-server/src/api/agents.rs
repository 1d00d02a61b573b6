//! `AgentService`.

use std::sync::Arc;

use stepwell_core::ToolKind;
use stepwell_ports::AgentRecord;
use stepwell_proto::v1;
use tonic::{Request, Response, Status, async_trait};

use super::Api;
use crate::{agent_file, convert, status};

/// What stands in the place of a worker's name for the engine's own tools.
const ENGINE: &str = "engine";

/// The service.
#[derive(Clone)]
pub(crate) struct Agents(pub(crate) Arc<Api>);

#[async_trait]
impl v1::agent_service_server::AgentService for Agents {
    async fn put_agent(
        &self,
        request: Request<v1::PutAgentRequest>,
    ) -> Result<Response<v1::PutAgentResponse>, Status> {
        let definition = convert::definition(request.into_inner().definition)?;
        let agent = self.0.read_agent("definition", &definition).await?;
        let now = self.0.engine.clock().now();
        let record = self.0.engine.store().put_agent(&agent.name, &definition, now).await;
        let record = record.map_err(|error| status::store(&error))?;
        let notes = agent_file::notes(&agent);
        let agent = Some(convert::agent_record(record));
        Ok(Response::new(v1::PutAgentResponse { agent, notes }))
    }

    async fn get_agent(
        &self,
        request: Request<v1::GetAgentRequest>,
    ) -> Result<Response<v1::GetAgentResponse>, Status> {
        let v1::GetAgentRequest { name, version } = request.into_inner();
        let record = stored(&self.0, &name, (version > 0).then_some(version)).await?;
        Ok(Response::new(v1::GetAgentResponse { agent: Some(convert::agent_record(record)) }))
    }

    async fn list_agents(
        &self,
        _: Request<v1::ListAgentsRequest>,
    ) -> Result<Response<v1::ListAgentsResponse>, Status> {
        let records = self.0.engine.store().agents().await;
        let records = records.map_err(|error| status::store(&error))?;
        let agents = records.into_iter().map(convert::agent_record).collect();
        Ok(Response::new(v1::ListAgentsResponse { agents }))
    }

    async fn list_tools(
        &self,
        _: Request<v1::ListToolsRequest>,
    ) -> Result<Response<v1::ListToolsResponse>, Status> {
        let catalogue = self.0.catalogue().await?;
        let tools = catalogue.tools().map(|tool| {
            let workers = match tool.kind {
                ToolKind::Worker => self.0.gateway.workers_of(&tool.name),
                ToolKind::AskUser | ToolKind::Sleep => vec![ENGINE.to_owned()],
            };
            convert::tool(tool, workers)
        });
        Ok(Response::new(v1::ListToolsResponse { tools: tools.collect() }))
    }

    async fn list_workers(
        &self,
        _: Request<v1::ListWorkersRequest>,
    ) -> Result<Response<v1::ListWorkersResponse>, Status> {
        let workers = self.0.gateway.workers().into_iter().map(convert::worker).collect();
        Ok(Response::new(v1::ListWorkersResponse { workers }))
    }
}

/// A stored definition.
///
/// # Errors
/// `NOT_FOUND` with the names that there are.
pub(crate) async fn stored(
    api: &Api,
    name: &str,
    version: Option<u32>,
) -> Result<AgentRecord, Status> {
    let store = api.engine.store();
    let found = store.agent(name, version).await.map_err(|error| status::store(&error))?;
    if let Some(record) = found {
        return Ok(record);
    }
    let latest = store.agent(name, None).await.map_err(|error| status::store(&error))?;
    if let (Some(latest), Some(version)) = (latest, version) {
        let text =
            format!("agent `{name}` has no version {version}, its latest is {}", latest.version);
        return Err(Status::not_found(text));
    }
    let all = store.agents().await.map_err(|error| status::store(&error))?;
    let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
    let known = crate::agent_file::meant_and_all(name, &names);
    let text = format!("there is no agent `{name}`: {known} stepwell agents put FILE stores one");
    Err(Status::not_found(text))
}
