//! `DeleteSessions`: what it refuses, and what everyone else is told afterwards.

use stepwell_proto::v1;
use stepwell_proto::v1::watch_session_response::Item;
use stepwell_proto::v1::{DeleteSessionsRequest, SessionStatus};
use tonic::Code;

use crate::world::{PLAIN, TALKER, Turn, World, within};

async fn delete(world: &World, request: DeleteSessionsRequest) -> Vec<v1::DeletedSession> {
    let mut client = world.sessions().await;
    within(client.delete_sessions(request)).await.unwrap().into_inner().sessions
}

fn of(ids: &[&str]) -> DeleteSessionsRequest {
    DeleteSessionsRequest {
        session_ids: ids.iter().map(|it| (*it).to_owned()).collect(),
        ..DeleteSessionsRequest::default()
    }
}

fn outcomes(sessions: &[v1::DeletedSession]) -> Vec<&str> {
    sessions.iter().map(|it| it.outcome.as_str()).collect()
}

async fn get_code(world: &World, session_id: &str) -> Code {
    let request = v1::GetSessionRequest { session_id: session_id.into() };
    let answer = within(world.sessions().await.get_session(request)).await;
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test]
async fn only_sessions_that_are_over_go_and_each_answer_says_why() {
    let world = World::new(&[Turn::Say(&["Done."]), Turn::Say(&["Hello."])]).await;
    let over = world.create(PLAIN).await;
    world.until_status(&over, SessionStatus::Completed).await;
    let open = world.create(TALKER).await;
    world.until_status(&open, SessionStatus::WaitingInput).await;
    let missing = "00000000000000000000000000";
    let dry = DeleteSessionsRequest { dry_run: true, ..of(&[&over, &open, missing]) };
    let answers = delete(&world, dry).await;
    assert_eq!(outcomes(&answers), ["would_delete", "kept", "not_found"]);
    assert!(answers[0].events >= 3 && answers[0].bytes > 100, "{:?}", answers[0]);
    assert!(answers[1].reason.contains("cancel it first"), "{}", answers[1].reason);
    assert_eq!(get_code(&world, &over).await, Code::Ok, "a dry run changes nothing");
    let too_young = DeleteSessionsRequest { updated_before_ms: 1, ..of(&[&over]) };
    assert_eq!(outcomes(&delete(&world, too_young).await), ["kept"]);
    let answers = delete(&world, of(&[&over[..8], &open])).await;
    assert_eq!(outcomes(&answers), ["deleted", "kept"]);
    assert_eq!(answers[0].session_id, over);
    assert_eq!(get_code(&world, &over).await, Code::NotFound);
    assert_eq!(get_code(&world, &open).await, Code::Ok);
    assert_eq!(outcomes(&delete(&world, of(&[&over])).await), ["not_found"]);
    world.stop().await;
}

#[tokio::test]
async fn a_watcher_of_a_deleted_session_is_told_and_ends() {
    let world = World::new(&[Turn::Say(&["Hello."])]).await;
    let id = world.create(TALKER).await;
    world.until_status(&id, SessionStatus::WaitingInput).await;
    let request = v1::WatchSessionRequest { session_id: id.clone(), ..Default::default() };
    let mut stream = world.sessions().await.watch_session(request).await.unwrap().into_inner();
    while !matches!(within(stream.message()).await.unwrap().unwrap().item, Some(Item::CaughtUp(_)))
    {
    }
    let forced = DeleteSessionsRequest { force: true, ..of(&[&id]) };
    assert_eq!(outcomes(&delete(&world, forced).await), ["deleted"]);
    let status = within(stream.message()).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert!(status.message().contains("was deleted"), "{}", status.message());
    let message = v1::SendMessageRequest {
        session_id: id.clone(),
        content: "Are you there?".into(),
        ..v1::SendMessageRequest::default()
    };
    let status = within(world.sessions().await.send_message(message)).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(get_code(&world, &id).await, Code::NotFound, "nothing brings it back");
    world.stop().await;
}

#[tokio::test]
async fn the_owner_of_a_deleted_session_leaves_and_its_outcome_brings_nothing_back() {
    // The script has no second turn to give: the session waits for its retry in memory.
    let world = World::new(&[Turn::Call("ship", r#"{"order":1}"#)]).await;
    world.register_ship().await;
    let id = world.create(crate::world::SHIPPER).await;
    world.until_status(&id, SessionStatus::WaitingApproval).await;
    let forced = DeleteSessionsRequest { force: true, ..of(&[&id]) };
    assert_eq!(outcomes(&delete(&world, forced).await), ["deleted"]);
    let gone = within(async {
        while world.engine.active_sessions() > 0 {
            tokio::task::yield_now().await;
        }
    });
    gone.await;
    let decide = v1::DecideApprovalRequest {
        approval_id: format!("{id}.5"),
        decision: v1::ApprovalDecision::Approve.into(),
        decided_by: "ada".into(),
        ..v1::DecideApprovalRequest::default()
    };
    let status = within(world.approvals().await.decide_approval(decide)).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "{}", status.message());
    let request = v1::ListApprovalsRequest::default();
    let listed = world.approvals().await.list_approvals(request).await.unwrap().into_inner();
    assert_eq!(listed.approvals, []);
    world.stop().await;
}

#[tokio::test]
async fn a_create_with_the_key_of_a_deleted_session_does_not_run_again() {
    let world = World::new(&[Turn::Say(&["Done."]), Turn::Say(&["Again."])]).await;
    let request = v1::CreateSessionRequest {
        task: "Pay the bill.".into(),
        agent_definition: PLAIN.into(),
        client_key: "bill-7".into(),
        ..v1::CreateSessionRequest::default()
    };
    let mut client = world.sessions().await;
    let created = client.create_session(request.clone()).await.unwrap().into_inner();
    let id = created.session.unwrap().session_id;
    world.until_status(&id, SessionStatus::Completed).await;
    assert_eq!(outcomes(&delete(&world, of(&[&id])).await), ["deleted"]);
    let status = client.create_session(request.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains(&id) && status.message().contains("new key"), "{status}");
    let other = v1::CreateSessionRequest { task: "Something else.".into(), ..request };
    let status = client.create_session(other).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    world.stop().await;
}

#[tokio::test]
async fn a_store_without_a_file_has_no_backup() {
    let world = World::new(&[]).await;
    let channel = world.connection().await;
    let mut client = v1::store_service_client::StoreServiceClient::new(channel);
    let mut stream = client.backup(v1::BackupRequest {}).await.unwrap().into_inner();
    let status = within(stream.message()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    world.stop().await;
}
