//! A worker that is frozen, loses its call to the lease, and thaws: the call is alive, so nobody may
//! say what became of it, and it runs once.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stepwell_proto::v1::{ApprovalDecision, SessionStatus};
use stepwell_tests::{Stage, agent_with, until_within};
use tonic::Code;

/// Longer than the lease of a worker, and until it is back.
const WITHIN: Duration = Duration::from_secs(120);

const SCRIPT: &str = r#"
[[step]]
[[step.tool_calls]]
name = "pay"
arguments = { what = "the rent", delay_ms = 60000 }

[[step]]
content = "Paid."
"#;

const RULES: &str = r#"
[[approval.rules]]
tool = "pay"
verdict = "allow"
"#;

async fn until_explain(stage: &Stage, session_id: &str, part: &str) -> Result<String> {
    until_within(WITHIN, part, async || {
        let explain = stage.api.session(session_id).await?.explain;
        Ok(explain.contains(part).then_some(explain))
    })
    .await
}

#[tokio::test]
async fn a_call_whose_frozen_worker_thaws_is_settled_by_its_result_alone() -> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    let worker = Pid::from_raw(stage.worker.as_ref().context("no worker")?.pid());
    let session_id = stage.api.create("Pay.", &agent_with(&["pay"], RULES)).await?;
    until_within(WITHIN, "the payment", async || {
        Ok((!stage.ledger()?.starts()?.is_empty()).then_some(()))
    })
    .await?;
    kill(worker, Signal::SIGSTOP)?;
    let silent = until_explain(&stage, &session_id, "is silent, seen last at").await?;
    ensure!(silent.contains("and its lease ends in"), "{silent}");
    ensure!(!silent.contains("runs on worker"), "{silent}");
    let question = until_within(WITHIN, "the question", async || {
        Ok(stage.api.get(&session_id).await?.open_approvals.pop())
    })
    .await?;
    ensure!(question.question == "what_happened", "{question:?}");

    kill(worker, Signal::SIGCONT)?;
    until_explain(&stage, &session_id, "is connected and still has call 1.1").await?;
    let decisions =
        [ApprovalDecision::DidNotHappen, ApprovalDecision::Failed, ApprovalDecision::Happened];
    for decision in decisions {
        match stage.api.decide(&question.approval_id, decision).await {
            Ok(_) => bail!("{decision:?} was taken for a call that is alive"),
            Err(status) => {
                ensure!(status.code() == Code::FailedPrecondition, "{status:?}");
                ensure!(status.message().contains("still has call 1.1"), "{status:?}");
            }
        }
    }
    until_within(WITHIN, "the end", async || {
        let status = stage.api.session(&session_id).await?.status();
        Ok((status == SessionStatus::Completed).then_some(()))
    })
    .await?;
    let starts = stage.ledger()?.starts_of(&session_id, "1.1")?;
    ensure!(starts.len() == 1, "it ran {} times", starts.len());
    let events = stage.api.events(&session_id).await?;
    ensure!(events.iter().all(|it| it.kind != "approval_decided"), "nobody decided anything");
    Ok(())
}
