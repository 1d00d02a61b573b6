//! Reflection and health.

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::Signal;
use stepwell_tests::{Stage, StageOptions, agent_with, until};
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

const SERVICES: [&str; 5] = [
    "stepwell.v1.SessionService",
    "stepwell.v1.ApprovalService",
    "stepwell.v1.AgentService",
    "stepwell.v1.WorkerService",
    "stepwell.v1.StoreService",
];

const SILENT: &str = "[[step]]\ncontent = \"x\"";

async fn reflect(stage: &Stage, request: MessageRequest) -> Result<MessageResponse> {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let mut client = ServerReflectionClient::new(stage.api.channel());
    let stream = client.server_reflection_info(tokio_stream::iter([request])).await?;
    let answer: Option<ServerReflectionResponse> = stream.into_inner().message().await?;
    answer.and_then(|it| it.message_response).context("no answer")
}

#[tokio::test]
async fn reflection_lists_the_services_and_describes_them() -> Result<()> {
    let stage = Stage::embedded(SILENT).await?;
    let listed = reflect(&stage, MessageRequest::ListServices(String::new())).await?;
    let MessageResponse::ListServicesResponse(listed) = listed else { bail!("{listed:?}") };
    let names: Vec<&str> = listed.service.iter().map(|it| it.name.as_str()).collect();
    for service in SERVICES.iter().chain(&["grpc.health.v1.Health"]) {
        ensure!(names.contains(service), "{service} is not in {names:?}");
        let asked = MessageRequest::FileContainingSymbol((*service).to_owned());
        let described = reflect(&stage, asked).await?;
        let MessageResponse::FileDescriptorResponse(described) = described else {
            bail!("{described:?}")
        };
        ensure!(!described.file_descriptor_proto.is_empty(), "{service}");
    }
    Ok(())
}

#[tokio::test]
async fn health_answers_for_the_server_and_each_service_and_ends_with_them() -> Result<()> {
    let script =
        "[[step]]\ntool_calls = [{ name = \"shell\", arguments = { command = \"sleep 2\" } }]";
    let options = StageOptions { arguments: &["--drain", "20s"], ..StageOptions::default() };
    let mut stage = Stage::start(script, options).await?;
    let mut health = HealthClient::new(stage.api.channel());
    for service in SERVICES.iter().chain(&[""]) {
        let service = (*service).to_owned();
        let answer = health.check(HealthCheckRequest { service }).await?.into_inner();
        ensure!(answer.status() == ServingStatus::Serving, "{answer:?}");
    }
    let unknown = health.check(HealthCheckRequest { service: "nobody".into() }).await;
    ensure!(unknown.is_err_and(|it| it.code() == Code::NotFound));
    let request = HealthCheckRequest { service: String::new() };
    let mut watch = health.watch(request).await?.into_inner();
    let first: Option<HealthCheckResponse> = watch.message().await?;
    ensure!(first.is_some_and(|it| it.status() == ServingStatus::Serving));

    // While a tool is let to its end the server says that it takes no more work.
    let rules = "[[approval.rules]]\ntool = \"shell\"\nverdict = \"allow\"";
    let session_id = stage.api.create("Sleep.", &agent_with(&["shell"], rules)).await?;
    let dispatched =
        stage.api.until_event(&session_id, "a start", |it| it.kind == "tool_dispatched");
    dispatched.await?;
    stage.server.signal(Signal::SIGTERM)?;
    let refused = until("a refusal", async || {
        let refused = stage.api.create("More.", &agent_with(&["shell"], "")).await;
        Ok(refused.err())
    });
    let refused = refused.await?;
    let status = refused.downcast_ref::<tonic::Status>().context("no status")?;
    ensure!(status.code() == Code::Unavailable, "{status:?}");
    let status = stage.server.wait(stepwell_tests::SOON).await?;
    ensure!(status.success(), "{status}");
    Ok(())
}
