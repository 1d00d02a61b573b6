//! `SessionService` over the wire, and what the port itself refuses.

use std::sync::Arc;

use stepwell_ports::Store as _;
use stepwell_ports::memory::MemoryStore;
use stepwell_proto::v1;
use stepwell_proto::v1::SessionStatus;
use stepwell_server::ServerOptions;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::stored::messages;
use crate::world::{PLAIN, SHIPPER, TALKER, Turn, World, within};

fn create(definition: &str, key: &str) -> v1::CreateSessionRequest {
    v1::CreateSessionRequest {
        task: "Mend it.\nNow.".into(),
        agent_definition: definition.into(),
        labels: [("team".to_owned(), "core".to_owned())].into(),
        client_key: key.into(),
        submitted_by: "ann".into(),
        ..v1::CreateSessionRequest::default()
    }
}

#[tokio::test]
async fn a_session_runs_to_its_answer() {
    let world = World::new(&[Turn::Say(&["It is ", "done."])]).await;
    let mut client = world.sessions().await;
    let answer = client.create_session(create(PLAIN, "")).await.unwrap().into_inner();
    assert!(answer.created);
    let id = answer.session.unwrap().session_id;
    let done = world.until_status(&id, SessionStatus::Completed).await;
    assert_eq!(done.answer, "It is done.");
    assert_eq!((done.ownership.as_str(), done.owner.as_str()), ("finished", world.engine.node()));
    let session = done.session.unwrap();
    assert_eq!((session.title.as_str(), session.agent.as_str()), ("Mend it.", "plain"));
    assert_eq!(session.labels["team"], "core");
    let agent: serde_json::Value = serde_json::from_str(&done.agent_json).unwrap();
    assert_eq!(agent["model"]["name"], "script");
    let list = v1::ListSessionsRequest {
        labels: [("team".to_owned(), "core".to_owned())].into(),
        ..v1::ListSessionsRequest::default()
    };
    let list = client.list_sessions(list).await.unwrap().into_inner();
    assert_eq!(list.sessions.len(), 1);
    let request = v1::ListEventsRequest { session_id: id, after_seq: 1, ..Default::default() };
    let page = client.list_events(request).await.unwrap().into_inner();
    assert_eq!(page.head_seq, session.head_seq);
    let kinds: Vec<&str> = page.events.iter().map(|it| it.r#type.as_str()).collect();
    assert_eq!(kinds, ["model_requested", "model_replied", "session_finished"]);
    world.stop().await;
}

#[tokio::test]
async fn the_same_key_gives_the_same_session_and_another_request_is_told() {
    let world = World::new(&[Turn::Say(&["Done."])]).await;
    let mut client = world.sessions().await;
    let first = client.create_session(create(PLAIN, "k")).await.unwrap().into_inner();
    let second = client.create_session(create(PLAIN, "k")).await.unwrap().into_inner();
    let id = first.session.unwrap().session_id;
    assert_eq!((second.created, second.session.unwrap().session_id), (false, id.clone()));
    let mut other = create(PLAIN, "k");
    other.task = "Something else.".into();
    let error = client.create_session(other).await.unwrap_err();
    assert_eq!(error.code(), Code::AlreadyExists);
    assert!(error.message().contains(&id), "{error}");
    world.stop().await;
}

/// A client that got no answer asks again, and by then the agent may be another one.
#[tokio::test]
async fn a_key_that_was_used_needs_no_agent_any_more() {
    let world = World::new(&[Turn::Say(&["Done."])]).await;
    world.register_ship().await;
    let mut client = world.sessions().await;
    let first = client.create_session(create(SHIPPER, "k")).await.unwrap().into_inner();
    world.unregister_ship().await;
    let refused = client.create_session(create(SHIPPER, "")).await.unwrap_err();
    expect(&refused, Code::InvalidArgument, "`ship`");
    let again = client.create_session(create(SHIPPER, "k")).await.unwrap().into_inner();
    let id = first.session.unwrap().session_id;
    assert_eq!((again.created, again.session.unwrap().session_id), (false, id.clone()));
    let mut other = create(SHIPPER, "k");
    other.task = "Something else.".into();
    let error = client.create_session(other).await.unwrap_err();
    expect(&error, Code::AlreadyExists, &id);
    world.stop().await;
}

/// Whoever only looks changes nothing; whoever wants the session to move finds it put away.
#[tokio::test]
async fn a_read_of_a_damaged_session_says_so_and_writes_nothing() {
    let store = Arc::new(MemoryStore::new());
    let session_id = messages(&store, [9; 16], 3).await;
    let world = World::over(store.clone(), &[], ServerOptions::default()).await;
    let before = store.session(session_id).await.unwrap();
    let mut client = world.sessions().await;
    let id = session_id.to_string();
    let get = v1::GetSessionRequest { session_id: id.clone() };
    let shown = client.get_session(get).await.unwrap().into_inner().session.unwrap();
    assert!(shown.explain.contains("its history cannot be read: event 1"), "{}", shown.explain);
    let decide = v1::DecideApprovalRequest {
        approval_id: format!("{id}.2"),
        decision: v1::ApprovalDecision::Approve.into(),
        decided_by: "ann".into(),
        ..Default::default()
    };
    assert_eq!(store.session(session_id).await.unwrap(), before, "a read writes nothing");
    let error = world.approvals().await.decide_approval(decide).await.unwrap_err();
    assert!(error.message().contains("history is damaged"), "{error}");
    let after = store.session(session_id).await.unwrap().unwrap();
    assert_eq!(after.row.status, stepwell_core::Status::Quarantined);
    world.stop().await;
}

#[track_caller]
pub(crate) fn expect(error: &Status, code: Code, says: &str) {
    assert_eq!(error.code(), code, "{error}");
    assert!(error.message().contains(says), "{error}");
}

#[tokio::test]
async fn bad_requests_say_what_is_wrong_and_where() {
    let world = World::new(&[]).await;
    let mut client = world.sessions().await;
    let typo = "name = \"a\"\ninstructions = \"x\"\n[limts]\nsteps = 1\n";
    let error = client.create_session(create(typo, "")).await.unwrap_err();
    let says =
        "agent_definition: line 3, column 2: an agent has no key `limts`: did you mean `limits`?";
    expect(&error, Code::InvalidArgument, says);
    let tools = "name = \"a\"\ninstructions = \"x\"\ntools = [\"ship\"]\n";
    let error = client.create_session(create(tools, "")).await.unwrap_err();
    expect(
        &error,
        Code::InvalidArgument,
        "line 3, column 10: no worker has registered a tool `ship`",
    );
    let unknown =
        v1::CreateSessionRequest { task: "x".into(), agent: "nobody".into(), ..Default::default() };
    let error = client.create_session(unknown).await.unwrap_err();
    expect(&error, Code::NotFound, "there is no agent `nobody`");
    let get = v1::GetSessionRequest { session_id: "01J".into() };
    let error = client.get_session(get).await.unwrap_err();
    expect(&error, Code::InvalidArgument, "session_id: \"01J\" is too short");
    let get = v1::GetSessionRequest { session_id: "00000000000000000000000000".into() };
    let error = client.get_session(get).await.unwrap_err();
    expect(&error, Code::NotFound, "there is no session 0000000000");
    let blob = v1::GetBlobRequest { blob: "ab".repeat(32) };
    let error = client.get_blob(blob).await.unwrap_err();
    expect(&error, Code::NotFound, "there is no payload");
    world.stop().await;
}

#[tokio::test]
async fn a_request_that_is_too_large_or_no_utf8_is_refused_in_words() {
    let world = World::new(&[]).await;
    let mut client = world.sessions().await.max_encoding_message_size(64 << 20);
    let mut large = create(PLAIN, "");
    large.task = "x".repeat(9 << 20);
    let error = client.create_session(large).await.unwrap_err();
    expect(&error, Code::ResourceExhausted, "the request is too large: found 94");
    let mut task = create(PLAIN, "");
    task.task = "x".repeat((4 << 20) + 1);
    let error = client.create_session(task).await.unwrap_err();
    expect(&error, Code::InvalidArgument, "task: has 4194305 bytes, at most 4194304");
    // A worker's hello has bytes where this request has text.
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", world.address));
    let channel = channel.unwrap().connect().await.unwrap();
    let mut raw = tonic::client::Grpc::new(channel);
    raw.ready().await.unwrap();
    let report = v1::GetBlobResponse { data: vec![0xff, 0xfe].into() };
    let codec = tonic_prost::ProstCodec::<v1::GetBlobResponse, v1::GetSessionResponse>::new();
    let path = "/stepwell.v1.SessionService/GetSession".parse().unwrap();
    let error = raw.unary(tonic::Request::new(report), path, codec).await.unwrap_err();
    expect(&error, Code::InvalidArgument, "the request cannot be read");
    world.stop().await;
}

#[tokio::test]
async fn a_prefix_names_a_session_when_it_fits_one_only() {
    let store = Arc::new(MemoryStore::new());
    let mut ids = Vec::new();
    for last in 1..=3 {
        let mut id = [7; 16];
        id[15] = last;
        ids.push(messages(&store, id, 1).await.to_string());
    }
    let other = messages(&store, [9; 16], 1).await.to_string();
    let world = World::over(store, &[], ServerOptions::default()).await;
    let mut client = world.sessions().await;
    let mut spans = async |id: &str| {
        let request = v1::ListSpansRequest { session_id: id.into(), ..Default::default() };
        client.list_spans(request).await.map(|_| ())
    };
    spans(&other[..4].to_lowercase()).await.unwrap();
    spans(&ids[1]).await.unwrap();
    let error = spans(&ids[0][..8]).await.unwrap_err();
    expect(&error, Code::InvalidArgument, "fits several sessions, give more characters:");
    for id in &ids {
        expect(&error, Code::InvalidArgument, &format!("  {id}  waiting_input  long"));
    }
    let error = spans("ZZZZ").await.unwrap_err();
    expect(&error, Code::NotFound, "there is no session whose id begins with ZZZZ");
    world.stop().await;
}

#[tokio::test]
async fn the_span_tree_is_listed_in_pre_order() {
    let world = World::new(&[Turn::Say(&["Done."])]).await;
    let id = world.create(PLAIN).await;
    world.until_status(&id, SessionStatus::Completed).await;
    let request = v1::ListSpansRequest { session_id: id, ..Default::default() };
    let spans = world.sessions().await.list_spans(request).await.unwrap().into_inner().spans;
    let rows: Vec<_> =
        spans.iter().map(|it| (it.depth, it.kind.as_str(), it.status.as_str())).collect();
    assert_eq!(rows, [(0, "session", "ok"), (1, "step", "ok"), (2, "model_call", "ok")]);
    assert_eq!(spans[1].parent_id, spans[0].span_id);
    world.stop().await;
}

#[tokio::test]
async fn pause_resume_cancel_and_messages_change_the_session_once() {
    let world = World::new(&[Turn::Say(&["One."]), Turn::Say(&["Two."])]).await;
    let id = world.create(TALKER).await;
    let waiting = world.until_status(&id, SessionStatus::WaitingInput).await;
    assert_eq!(waiting.session.unwrap().explain, "waits for a message: stepwell send");
    let mut client = world.sessions().await;
    let pause = v1::PauseSessionRequest {
        session_id: id.clone(),
        reason: "lunch".into(),
        requested_by: "ann".into(),
    };
    let paused = client.pause_session(pause.clone()).await.unwrap().into_inner().session.unwrap();
    assert_eq!(paused.status(), SessionStatus::Paused);
    assert!(paused.explain.contains("paused by person:ann (lunch)"), "{}", paused.explain);
    let again = client.pause_session(pause).await.unwrap().into_inner().session.unwrap();
    assert_eq!(again.head_seq, paused.head_seq);
    let resume = v1::ResumeSessionRequest { session_id: id.clone(), ..Default::default() };
    client.resume_session(resume).await.unwrap();
    let say = v1::SendMessageRequest {
        session_id: id.clone(),
        content: "And?".into(),
        client_key: "m1".into(),
        ..v1::SendMessageRequest::default()
    };
    client.send_message(say.clone()).await.unwrap();
    let after = world
        .until(&id, |it| {
            it.answer == "Two."
                && it.session.as_ref().unwrap().status() == SessionStatus::WaitingInput
        })
        .await;
    let head = after.session.unwrap().head_seq;
    let repeated = client.send_message(say).await.unwrap().into_inner().session.unwrap();
    assert_eq!(repeated.head_seq, head);
    let cancel = v1::CancelSessionRequest { session_id: id.clone(), ..Default::default() };
    client.cancel_session(cancel.clone()).await.unwrap();
    world.until_status(&id, SessionStatus::Cancelled).await;
    client.cancel_session(cancel).await.unwrap();
    let late = v1::SendMessageRequest { session_id: id, content: "x".into(), ..Default::default() };
    let error = client.send_message(late).await.unwrap_err();
    expect(&error, Code::FailedPrecondition, "the session is cancelled");
    world.stop().await;
}

#[tokio::test]
async fn a_tool_that_nobody_offers_is_why_the_session_waits() {
    let rule = "[[approval.rules]]\ntool = \"ship\"\nverdict = \"allow\"\n";
    let world = World::new(&[Turn::Call("ship", r#"{"order":1}"#)]).await;
    world.register_ship().await;
    let id = world.create(&format!("{SHIPPER}{rule}")).await;
    let answer = world.until_status(&id, SessionStatus::ExecutingTools).await;
    assert_eq!(answer.open_calls[0].status, "scheduled");
    assert_eq!(answer.ownership, "running");
    let explain = &answer.session.unwrap().explain;
    assert!(explain.contains("no connected worker offers `ship`"), "{explain}");
    world.stop().await;
}

#[tokio::test]
async fn large_payloads_are_blobs_that_can_be_had_whole() {
    let world = World::new(&[Turn::Say(&["Done."])]).await;
    let mut client = world.sessions().await;
    let mut request = create(PLAIN, "");
    request.task = format!("{}\0ende", "ä".repeat(100_000));
    let task = request.task.clone();
    let id = client.create_session(request).await.unwrap().into_inner().session.unwrap().session_id;
    let list = v1::ListEventsRequest { session_id: id, page_size: 1, ..Default::default() };
    let page = client.list_events(list.clone()).await.unwrap().into_inner();
    let body: serde_json::Value = serde_json::from_str(&page.events[0].body_json).unwrap();
    assert_eq!(body["task"]["bytes"], task.len());
    let blob = v1::GetBlobRequest { blob: body["task"]["blob"].as_str().unwrap().into() };
    let mut pieces = client.get_blob(blob).await.unwrap().into_inner();
    let mut whole = Vec::new();
    while let Some(piece) = within(pieces.message()).await.unwrap() {
        assert!(piece.data.len() <= 64 * 1024);
        whole.extend_from_slice(&piece.data);
    }
    assert_eq!(whole, task.as_bytes());
    let list = v1::ListEventsRequest { whole_payloads: true, ..list };
    let page = client.list_events(list).await.unwrap().into_inner();
    let body: serde_json::Value = serde_json::from_str(&page.events[0].body_json).unwrap();
    assert_eq!(body["task"], task.as_str());
    world.stop().await;
}

#[tokio::test]
async fn health_reflection_and_unknown_methods_are_answered() {
    let world = World::new(&[]).await;
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", world.address));
    let channel = channel.unwrap().connect().await.unwrap();
    let mut health = HealthClient::new(channel.clone());
    for service in ["", "stepwell.v1.SessionService"] {
        let request = HealthCheckRequest { service: service.into() };
        let answer = health.check(request).await.unwrap().into_inner();
        assert_eq!(
            answer.status(),
            tonic_health::pb::health_check_response::ServingStatus::Serving
        );
    }
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut reflection = ServerReflectionClient::new(channel.clone());
    let answers = reflection.server_reflection_info(tokio_stream::once(ask)).await.unwrap();
    let answer = within(answers.into_inner().message()).await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}")
    };
    let names: Vec<&str> = list.service.iter().map(|it| it.name.as_str()).collect();
    for service in ["SessionService", "ApprovalService", "AgentService", "WorkerService"] {
        assert!(names.contains(&format!("stepwell.v1.{service}").as_str()), "{names:?}");
    }
    let mut raw = tonic::client::Grpc::new(channel);
    raw.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckRequest>::new();
    let request = tonic::Request::new(HealthCheckRequest::default());
    let path = "/stepwell.v2.Nothing/Do".parse().unwrap();
    let error = raw.unary(request, path, codec).await.unwrap_err();
    expect(&error, Code::Unimplemented, "this server has no method /stepwell.v2.Nothing/Do");
    world.stop().await;
}
