//! Approvals against the real server: restarts, several people at once, after a cancel.
//!
//! Cases `ap01` to `ap12` of the shared cases, as far as they need a process.

use anyhow::{Context as _, Result, bail, ensure};
use futures_util::future::join_all;
use serde_json::{Value, json};
use stepwell_proto::v1::{
    Approval, ApprovalDecision, CancelSessionRequest, DecideApprovalRequest, SessionStatus,
};
use stepwell_tests::{Stage, agent_with};
use tonic::{Code, Status};

const SCRIPT: &str = r#"
[[step]]
content = "I ship it."
[[step.tool_calls]]
name = "pay"
arguments = { what = "order 771" }

[[step]]
content = "Done."
"#;

/// A session that waits for the approval of its only call.
async fn waiting(stage: &Stage) -> Result<(String, Approval)> {
    let session_id = stage.api.create("Ship order 771.", &agent_with(&["pay"], "")).await?;
    let approval = stage.api.until_approval(&session_id).await?;
    ensure!(approval.question == "may_run" && approval.call_id == "1.1", "{approval:?}");
    ensure!(serde_json::from_str::<Value>(&approval.arguments)? == json!({"what": "order 771"}));
    Ok((session_id, approval))
}

async fn count(stage: &Stage, session_id: &str, kind: &str) -> Result<usize> {
    let events = stage.api.events(session_id).await?;
    Ok(events.iter().filter(|it| it.kind == kind).count())
}

/// The call ran so often, with these words.
fn check_runs(stage: &Stage, session_id: &str, whats: &[&str]) -> Result<()> {
    let starts = stage.ledger()?.starts_of(session_id, "1.1")?;
    let found: Vec<Value> = starts
        .iter()
        .map(|it| serde_json::from_str::<Value>(&it.arguments).map(|it| it["what"].clone()))
        .collect::<serde_json::Result<_>>()?;
    ensure!(found == whats, "it ran with {found:?} and not with {whats:?}");
    Ok(())
}

fn refusal<T>(result: Result<T, Status>, code: Code, words: &[&str]) -> Result<()> {
    let Err(status) = result else { bail!("it was not refused") };
    ensure!(status.code() == code, "{status:?}");
    for word in words {
        ensure!(status.message().contains(word), "{word:?} is not in {:?}", status.message());
    }
    Ok(())
}

#[tokio::test]
async fn ap07_an_approval_survives_a_restart_and_then_runs_once_with_what_was_shown() -> Result<()>
{
    let mut stage = Stage::counting(SCRIPT).await?;
    let (session_id, before) = waiting(&stage).await?;
    stage.kill_and_start().await?;
    let after = stage.api.until_approval(&session_id).await?;
    ensure!(before == after, "before {before:?}\nafter {after:?}");
    check_runs(&stage, &session_id, &[])?;
    stage.api.decide(&after.approval_id, ApprovalDecision::Approve).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    check_runs(&stage, &session_id, &["order 771"])
}

#[tokio::test]
async fn ap08_a_restart_between_approval_and_run_asks_nobody_again_and_runs_once() -> Result<()> {
    let mut stage = Stage::counting(SCRIPT).await?;
    let (session_id, approval) = waiting(&stage).await?;
    // Without a worker the call is approved and cannot start.
    stage.worker()?.kill().await?;
    stage.api.decide(&approval.approval_id, ApprovalDecision::Approve).await?;
    stage.kill_and_start().await?;
    let open = stage.api.get(&session_id).await?.open_approvals;
    ensure!(open.is_empty(), "it asks again: {open:?}");
    check_runs(&stage, &session_id, &[])?;
    stage.worker()?.start_again()?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    ensure!(count(&stage, &session_id, "approval_requested").await? == 1);
    check_runs(&stage, &session_id, &["order 771"])
}

#[tokio::test]
async fn ap01_ap02_the_same_decision_again_is_fine_and_another_names_who_was_faster() -> Result<()>
{
    let mut stage = Stage::counting(SCRIPT).await?;
    let (session_id, Approval { approval_id, .. }) = waiting(&stage).await?;
    let first = stage.api.decide(&approval_id, ApprovalDecision::Approve).await?;
    ensure!(!first.unchanged);
    // Also after a restart, and after the session ended.
    for round in 0..2 {
        let again = stage.api.decide(&approval_id, ApprovalDecision::Approve).await?;
        ensure!(again.unchanged, "round {round}");
        let other = stage.api.decide(&approval_id, ApprovalDecision::Deny).await;
        refusal(other, Code::FailedPrecondition, &["approve", "tester"])?;
        stage.api.until_status(&session_id, SessionStatus::Completed).await?;
        stage.kill_and_start().await?;
    }
    ensure!(count(&stage, &session_id, "approval_decided").await? == 1);
    check_runs(&stage, &session_id, &["order 771"])
}

#[tokio::test]
async fn of_many_people_who_decide_at_once_one_is_first_and_all_others_are_told_so() -> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    let (session_id, approval) = waiting(&stage).await?;
    let decide = |number: usize| {
        let approves = number.is_multiple_of(2);
        let decision = if approves { ApprovalDecision::Approve } else { ApprovalDecision::Deny };
        let request = DecideApprovalRequest {
            approval_id: approval.approval_id.clone(),
            decision: decision.into(),
            decided_by: format!("person-{number}"),
            ..DecideApprovalRequest::default()
        };
        let mut approvals = stage.api.approvals();
        async move { (approves, approvals.decide_approval(request).await) }
    };
    let answers = join_all((0..20).map(decide)).await;
    let event =
        stage.api.until_event(&session_id, "a decision", |it| it.kind == "approval_decided");
    let event = event.await?;
    let winner = event.actor.strip_prefix("person:").context("no person")?.to_owned();
    let was_approved = event.text("decision") == "approve";
    let mut first = 0;
    for (approves, answer) in answers {
        match answer {
            Ok(answer) => {
                ensure!(approves == was_approved, "a decision was taken that did not count");
                first += usize::from(!answer.into_inner().unchanged);
            }
            Err(status) => {
                ensure!(approves != was_approved, "{status:?}");
                refusal::<()>(Err(status), Code::FailedPrecondition, &[&winner])?;
            }
        }
    }
    ensure!(first == 1, "{first} decisions were the first");
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    ensure!(count(&stage, &session_id, "approval_decided").await? == 1);
    check_runs(&stage, &session_id, if was_approved { &["order 771"] } else { &[] })
}

#[tokio::test]
async fn ap04_an_approval_after_a_cancel_is_refused_and_nothing_runs_also_after_a_restart()
-> Result<()> {
    let mut stage = Stage::counting(SCRIPT).await?;
    let (session_id, Approval { approval_id, .. }) = waiting(&stage).await?;
    let request = CancelSessionRequest {
        session_id: session_id.clone(),
        reason: "not needed".to_owned(),
        requested_by: "tester".to_owned(),
    };
    stage.api.sessions().cancel_session(request).await?;
    for _ in 0..2 {
        let late = stage.api.decide(&approval_id, ApprovalDecision::Approve).await;
        refusal(late, Code::FailedPrecondition, &["cancelled"])?;
        stage.kill_and_start().await?;
    }
    stage.api.until_status(&session_id, SessionStatus::Cancelled).await?;
    ensure!(count(&stage, &session_id, "approval_decided").await? == 0);
    check_runs(&stage, &session_id, &[])
}

#[tokio::test]
async fn ap06_an_approval_after_its_time_is_refused_and_nothing_runs() -> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    let agent = agent_with(&["pay"], "[approval]\nexpires_after = \"100ms\"");
    let session_id = stage.api.create("Ship it soon.", &agent).await?;
    let asked =
        stage.api.until_event(&session_id, "a question", |it| it.kind == "approval_requested");
    let approval_id = format!("{session_id}.{}", asked.await?.number("approval_id"));
    stage.api.until_event(&session_id, "its end", |it| it.kind == "timer_fired").await?;
    let late = stage.api.decide(&approval_id, ApprovalDecision::Approve).await;
    refusal(late, Code::FailedPrecondition, &["expired"])?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    check_runs(&stage, &session_id, &[])
}

#[tokio::test]
async fn ap10_ap11_changed_arguments_run_when_they_fit_and_are_refused_when_they_do_not()
-> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    let (session_id, approval) = waiting(&stage).await?;
    let with = |arguments: &str| DecideApprovalRequest {
        approval_id: approval.approval_id.clone(),
        decision: ApprovalDecision::Approve.into(),
        arguments: arguments.to_owned(),
        action_digest: approval.action_digest.clone(),
        decided_by: "tester".to_owned(),
        ..DecideApprovalRequest::default()
    };
    for wrong in
        [r#"{"what":7}"#, r#"{"order":"all"}"#, "{}", "[]", "{", r#"{"what":"a","what":"b"}"#]
    {
        let refused = stage.api.approvals().decide_approval(with(wrong)).await;
        refusal(refused, Code::InvalidArgument, &[])?;
        stage.api.until_approval(&session_id).await?;
    }
    stage.api.approvals().decide_approval(with(r#"{"what":"order 772"}"#)).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    check_runs(&stage, &session_id, &["order 772"])
}

#[tokio::test]
async fn ap12_a_decision_about_another_action_tool_or_approval_is_refused_and_it_stays_open()
-> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    let (session_id, approval) = waiting(&stage).await?;
    let right = DecideApprovalRequest {
        approval_id: approval.approval_id.clone(),
        decision: ApprovalDecision::Approve.into(),
        decided_by: "tester".to_owned(),
        ..DecideApprovalRequest::default()
    };
    for (wrong, code) in [
        (
            DecideApprovalRequest { tool: "refund".into(), ..right.clone() },
            Code::FailedPrecondition,
        ),
        (
            DecideApprovalRequest { action_digest: "0".repeat(64), ..right.clone() },
            Code::FailedPrecondition,
        ),
        (
            DecideApprovalRequest {
                decision: ApprovalDecision::Happened.into(),
                output: "shipped".into(),
                ..right.clone()
            },
            Code::FailedPrecondition,
        ),
        (
            DecideApprovalRequest { approval_id: format!("{session_id}.999"), ..right.clone() },
            Code::NotFound,
        ),
        (
            DecideApprovalRequest { decided_by: String::new(), ..right.clone() },
            Code::InvalidArgument,
        ),
        (DecideApprovalRequest { decision: 0, ..right.clone() }, Code::InvalidArgument),
    ] {
        let words = format!("{wrong:?}");
        let refused = stage.api.approvals().decide_approval(wrong).await;
        refusal(refused, code, &[]).context(words)?;
        ensure!(stage.api.until_approval(&session_id).await? == approval);
    }
    check_runs(&stage, &session_id, &[])
}
