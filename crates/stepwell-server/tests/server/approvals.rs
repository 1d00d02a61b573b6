//! `ApprovalService`: the replies of the cases `ap*` of the catalogue.

use stepwell_proto::v1;
use stepwell_proto::v1::{ApprovalDecision, SessionStatus};
use tonic::{Code, Status};

use crate::world::{SHIPPER, Turn, World};

/// A session that asks whether it may ship, and its approval.
async fn asking(world: &World) -> v1::Approval {
    world.register_ship().await;
    let id = world.create(SHIPPER).await;
    let answer = world.until_status(&id, SessionStatus::WaitingApproval).await;
    answer.open_approvals[0].clone()
}

async fn world() -> World {
    World::new(&[Turn::Call("ship", r#"{"order":771,"qty":1}"#), Turn::Say(&["Done."])]).await
}

fn decide(approval_id: &str, decision: ApprovalDecision) -> v1::DecideApprovalRequest {
    v1::DecideApprovalRequest {
        approval_id: approval_id.into(),
        decision: decision.into(),
        decided_by: "ann".into(),
        ..v1::DecideApprovalRequest::default()
    }
}

async fn send(
    world: &World,
    request: v1::DecideApprovalRequest,
) -> Result<v1::DecideApprovalResponse, Status> {
    world.approvals().await.decide_approval(request).await.map(tonic::Response::into_inner)
}

#[track_caller]
fn expect(result: Result<v1::DecideApprovalResponse, Status>, code: Code, says: &str) {
    let error = result.expect_err("the decision must be refused");
    assert_eq!(error.code(), code, "{error}");
    assert!(error.message().contains(says), "{error}");
}

#[tokio::test]
async fn an_approval_shows_the_exact_action() {
    let world = world().await;
    let approval = asking(&world).await;
    assert_eq!(approval.approval_id, format!("{}.{}", approval.session_id, 4));
    assert_eq!((approval.question.as_str(), approval.status.as_str()), ("may_run", "open"));
    assert_eq!(approval.arguments, r#"{"order":771,"qty":1}"#);
    let list = v1::ListApprovalsRequest::default();
    let open = world.approvals().await.list_approvals(list).await.unwrap().into_inner();
    assert_eq!(open.approvals, [approval]);
    world.stop().await;
}

#[tokio::test]
async fn ap01_the_same_decision_again_changes_nothing() {
    let world = world().await;
    let approval = asking(&world).await;
    // By a prefix of the session: it has one open approval.
    let first = send(&world, decide(&approval.session_id[..6], ApprovalDecision::Approve)).await;
    let first = first.unwrap();
    assert!(!first.unchanged);
    let decided = first.approval.unwrap();
    assert_eq!((decided.status.as_str(), decided.decided_by.as_str()), ("approved", "person:ann"));
    let second = send(&world, decide(&approval.approval_id, ApprovalDecision::Approve)).await;
    assert!(second.unwrap().unchanged);
    let by_prefix = send(&world, decide(&approval.session_id, ApprovalDecision::Approve)).await;
    expect(by_prefix, Code::FailedPrecondition, "is approved by person:ann");
    world.stop().await;
}

#[tokio::test]
async fn ap02_another_decision_is_told_who_was_faster() {
    let world = world().await;
    let approval = asking(&world).await;
    send(&world, decide(&approval.approval_id, ApprovalDecision::Approve)).await.unwrap();
    let denied = send(&world, decide(&approval.approval_id, ApprovalDecision::Deny)).await;
    expect(denied, Code::FailedPrecondition, "decided already: approve by person:ann");
    world.stop().await;
}

#[tokio::test]
async fn ap04_after_a_cancel_nothing_can_be_approved() {
    let world = world().await;
    let approval = asking(&world).await;
    let cancel =
        v1::CancelSessionRequest { session_id: approval.session_id.clone(), ..Default::default() };
    world.sessions().await.cancel_session(cancel).await.unwrap();
    world.until_status(&approval.session_id, SessionStatus::Cancelled).await;
    let approved = send(&world, decide(&approval.approval_id, ApprovalDecision::Approve)).await;
    expect(approved, Code::FailedPrecondition, "the session is cancelled");
    world.stop().await;
}

#[tokio::test]
async fn ap11_edited_arguments_must_fit_and_the_approval_stays_open() {
    let world = world().await;
    let approval = asking(&world).await;
    for (arguments, says) in [
        (r#"{"order":"all"}"#, "arguments: do not fit `ship`, the approval stays open: at /order"),
        (r#"{"order":1,"order":2}"#, "stands twice"),
        ("[1]", "must be one JSON object"),
        ("{", "ends too early"),
    ] {
        let mut request = decide(&approval.approval_id, ApprovalDecision::Approve);
        request.arguments = arguments.into();
        expect(send(&world, request).await, Code::InvalidArgument, says);
    }
    let open = world.until_status(&approval.session_id, SessionStatus::WaitingApproval).await;
    assert_eq!(open.open_approvals, std::slice::from_ref(&approval));
    let mut request = decide(&approval.approval_id, ApprovalDecision::Approve);
    request.arguments = r#"{"order":771,"qty":2}"#.into();
    send(&world, request).await.unwrap();
    let running = world.until_status(&approval.session_id, SessionStatus::ExecutingTools).await;
    assert_eq!(running.open_calls[0].arguments, r#"{"order":771,"qty":2}"#);
    world.stop().await;
}

#[tokio::test]
async fn ap12_another_tool_digest_approval_or_question_is_refused() {
    let world = world().await;
    let approval = asking(&world).await;
    let id = &approval.approval_id;
    let mut request = decide(id, ApprovalDecision::Approve);
    request.tool = "refund".into();
    expect(send(&world, request).await, Code::FailedPrecondition, "the tool differs");
    let mut request = decide(id, ApprovalDecision::Approve);
    request.action_digest = "00".into();
    expect(send(&world, request).await, Code::FailedPrecondition, "the digest differs");
    let other = format!("{}.99", approval.session_id);
    let result = send(&world, decide(&other, ApprovalDecision::Approve)).await;
    expect(result, Code::NotFound, "no approval 99");
    let result = send(&world, decide(id, ApprovalDecision::Happened)).await;
    expect(result, Code::FailedPrecondition, "does not answer approval");
    let result =
        send(&world, decide(&format!("{}.x", approval.session_id), ApprovalDecision::Deny)).await;
    expect(result, Code::InvalidArgument, "it is SESSION.NUMBER");
    let mut request = decide(id, ApprovalDecision::Deny);
    request.decided_by = String::new();
    expect(send(&world, request).await, Code::InvalidArgument, "decided_by: is empty");
    world.stop().await;
}

#[tokio::test]
async fn a_denial_goes_to_the_model_with_its_reason() {
    let world = world().await;
    let approval = asking(&world).await;
    let mut request = decide(&approval.approval_id, ApprovalDecision::Deny);
    request.reason = "not before Friday".into();
    let answer = send(&world, request).await.unwrap().approval.unwrap();
    assert_eq!((answer.status.as_str(), answer.reason.as_str()), ("denied", "not before Friday"));
    let done = world.until_status(&approval.session_id, SessionStatus::Completed).await;
    assert_eq!(done.answer, "Done.");
    world.stop().await;
}
