//! What a start finds: timers that were due meanwhile, sessions that go on by themselves.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use stepwell_proto::v1::SessionStatus;
use stepwell_tests::{Ev, Stage, agent_with, look, until};

const SLEEPER: &str = "[[step]]\ntool_calls = [{ name = \"sleep\", arguments = { seconds = 1.5 } }]\n\
    [[step]]\ncontent = \"awake\"";

#[expect(clippy::disallowed_methods, reason = "wall time is what timers of the server follow")]
fn wall_ms() -> Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

async fn sleeping(stage: &Stage) -> Result<(String, u64)> {
    let session_id = stage.api.create("Sleep.", &agent_with(&["sleep"], "")).await?;
    let is_timer = |it: &Ev| it.kind == "timer_started";
    let due_at = stage.api.until_event(&session_id, "a timer", is_timer).await?.number("due_at");
    Ok((session_id, due_at))
}

/// Each timer fired once, not before it was due, and the session went on.
async fn check(stage: &Stage, session_id: &str, due_at: u64) -> Result<()> {
    stage.api.until_status(session_id, SessionStatus::Completed).await?;
    let events = stage.api.events(session_id).await?;
    let fired: Vec<&Ev> = events.iter().filter(|it| it.kind == "timer_fired").collect();
    ensure!(fired.len() == 1 && fired[0].number("due_at") == due_at, "{fired:?}");
    ensure!(wall_ms()? >= due_at, "it fired before it was due");
    Ok(())
}

#[tokio::test]
async fn a_timer_that_became_due_while_the_server_was_down_fires_once_at_the_start() -> Result<()> {
    let mut stage = Stage::counting(SLEEPER).await?;
    let (session_id, due_at) = sleeping(&stage).await?;
    stage.server.kill().await?;
    until("the timer's time", async || Ok((wall_ms()? > due_at).then_some(()))).await?;
    stage.api = stage.server.start().await?;
    check(&stage, &session_id, due_at).await
}

#[tokio::test]
async fn a_timer_that_is_not_due_at_the_start_fires_when_it_is() -> Result<()> {
    let mut stage = Stage::counting(SLEEPER).await?;
    let (session_id, due_at) = sleeping(&stage).await?;
    stage.kill_and_start().await?;
    stage.kill_and_start().await?;
    check(&stage, &session_id, due_at).await
}

#[tokio::test]
async fn after_a_kill_every_session_goes_on_by_itself_without_a_caller() -> Result<()> {
    let script = "delay_ms = 30\n[[step]]\nrepeat = 5\ntool_calls = [{ name = \"look\", arguments = \
        { what = \"x{{step}}\", delay_ms = 20 } }]\n[[step]]\ncontent = \"end\"";
    let mut stage = Stage::counting(script).await?;
    let mut ids = Vec::new();
    for number in 0..10 {
        let task = format!("Task {number}.");
        ids.push(stage.api.create(&task, &agent_with(&["look"], "")).await?);
    }
    stage.api.until_event(&ids[9], "step 2", |it| it.number("step") == 2).await?;
    stage.kill_and_start().await?;
    // Nobody asks the server: the store is looked at from outside.
    until("the end of all sessions", async || {
        let store = look(stage.server.data())?;
        let mut ended = 0;
        for session_id in &ids {
            let kinds = store.kinds(session_id)?;
            ended += usize::from(kinds.last().is_some_and(|it| it == "session_finished"));
        }
        Ok((ended == ids.len()).then_some(()))
    })
    .await?;
    for session_id in &ids {
        let session = stage.api.session(session_id).await?;
        ensure!(session.status() == SessionStatus::Completed, "{session:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_session_tells_whether_it_is_running_parked_or_over() -> Result<()> {
    let script = "[[step]]\ntool_calls = [{ name = \"look\", arguments = { what = \"x\", delay_ms = \
        1000 } }]\n[[step]]\ntool_calls = [{ name = \"pay\", arguments = { what = \"x\" } }]\n\
        [[step]]\ncontent = \"end\"";
    let mut stage = Stage::counting(script).await?;
    let session_id = stage.api.create("Go.", &agent_with(&["look", "pay"], "")).await?;
    stage.api.until_event(&session_id, "a call", |it| it.kind == "tool_scheduled").await?;
    let running = stage.api.get(&session_id).await?;
    ensure!(running.ownership == "running" && !running.owner.is_empty(), "{running:?}");
    let approval = stage.api.until_approval(&session_id).await?;
    for _ in 0..2 {
        let parked = until("that it left memory", async || {
            let found = stage.api.get(&session_id).await?;
            Ok((found.ownership != "running").then_some(found))
        });
        let parked = parked.await?;
        ensure!(parked.ownership == "parked", "{parked:?}");
        stage.kill_and_start().await?;
    }
    let approve = stepwell_proto::v1::ApprovalDecision::Approve;
    stage.api.decide(&approval.approval_id, approve).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    ensure!(stage.api.get(&session_id).await?.ownership == "finished");
    Ok(())
}
