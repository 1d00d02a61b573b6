//! SIGTERM: what runs ends and is recorded; a second signal ends at once.

use std::time::Duration;

use anyhow::{Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stepwell_proto::v1::SessionStatus;
use stepwell_tests::{Ev, POLL, SOON, Stage, StageOptions, agent_with, look, until};

const RULES: &str = "[[approval.rules]]\ntool = \"shell\"\nverdict = \"allow\"";

fn script(seconds: u32) -> String {
    format!(
        "[[step]]\ntool_calls = [{{ name = \"shell\", arguments = {{ command = \"touch began; sleep \
         {seconds}; echo done\" }} }}]\n[[step]]\ncontent = \"end\""
    )
}

/// A session whose shell command has begun.
async fn begun(stage: &Stage) -> Result<String> {
    let session_id = stage.api.create("Run it.", &agent_with(&["shell"], RULES)).await?;
    let mark = stage.server.data().join("workspaces").join(&session_id).join("began");
    until("the command's beginning", async || Ok(mark.exists().then_some(()))).await?;
    Ok(session_id)
}

#[tokio::test]
async fn on_sigterm_a_running_tool_ends_and_is_recorded_and_the_exit_code_is_0() -> Result<()> {
    let options = StageOptions { arguments: &["--drain", "30s"], ..StageOptions::default() };
    let mut stage = Stage::start(&script(1), options).await?;
    let session_id = begun(&stage).await?;
    stage.server.signal(Signal::SIGTERM)?;
    let status = stage.server.wait(SOON).await?;
    ensure!(status.code() == Some(0), "{status}");
    let log = stage.server.log_text();
    ensure!(!log.contains("WARN"), "a stop in order is nothing to warn of: {log}");
    let kinds = look(stage.server.data())?.kinds(&session_id)?;
    let finished = kinds.iter().filter(|it| *it == "tool_finished").count();
    ensure!(finished == 1, "{kinds:?}");
    stage.api = stage.server.start().await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let is_result = |it: &Ev| it.kind == "tool_finished";
    let result = stage.api.until_event(&session_id, "its result", is_result).await?;
    ensure!(result.text("outcome") == "ok" && result.text("output").contains("done"), "{result:?}");
    let events = stage.api.events(&session_id).await?;
    let starts = events.iter().filter(|it| it.kind == "tool_dispatched").count();
    ensure!(starts == 1, "it was started {starts} times");
    Ok(())
}

#[tokio::test]
async fn a_second_signal_ends_at_once_and_the_next_start_asks_what_became_of_the_tool() -> Result<()>
{
    let options = StageOptions { arguments: &["--drain", "60s"], ..StageOptions::default() };
    let mut stage = Stage::start(&script(50), options).await?;
    let session_id = begun(&stage).await?;
    stage.server.signal(Signal::SIGTERM)?;
    until("the first signal to be heard", async || {
        let refused = stage.api.create("More.", &agent_with(&["shell"], RULES)).await;
        Ok(refused.is_err().then_some(()))
    })
    .await?;
    // One that comes right after the first is the same order: it is sent until it is heard.
    let pid = Pid::from_raw(stage.server.pid()?);
    let again = async {
        loop {
            // One that has ended gets none.
            let _ = kill(pid, Signal::SIGTERM);
            tokio::time::sleep(POLL).await;
        }
    };
    let status = tokio::select! {
        status = stage.server.wait(Duration::from_secs(10)) => status?,
        () = again => unreachable!(),
    };
    ensure!(status.code() == Some(1), "{status}");
    stage.api = stage.server.start().await?;
    let approval = stage.api.until_approval(&session_id).await?;
    ensure!(approval.question == "what_happened", "{approval:?}");
    Ok(())
}

#[tokio::test]
async fn on_sigterm_a_tool_that_takes_longer_than_the_drain_is_left_and_the_exit_code_is_0()
-> Result<()> {
    let options = StageOptions { arguments: &["--drain", "300ms"], ..StageOptions::default() };
    let mut stage = Stage::start(&script(50), options).await?;
    let session_id = begun(&stage).await?;
    stage.server.signal(Signal::SIGTERM)?;
    let status = stage.server.wait(Duration::from_secs(30)).await?;
    ensure!(status.code() == Some(0), "{status}");
    stage.api = stage.server.start().await?;
    let approval = stage.api.until_approval(&session_id).await?;
    ensure!(approval.question == "what_happened", "{approval:?}");
    Ok(())
}
