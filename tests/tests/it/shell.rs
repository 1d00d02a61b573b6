//! A write tool of the worker in the server's process, in flight at SIGKILL.

use anyhow::{Context as _, Result, ensure};
use stepwell_proto::v1::SessionStatus;
use stepwell_tests::{Ev, Stage, agent_with, is_alive, until};

const SCRIPT: &str = r#"
[[step]]
[[step.tool_calls]]
name = "shell"
arguments = { command = "echo $$ >> pids; sleep 600 & echo $! >> pids; if [ $(wc -l < pids) -gt 2 ]; then kill %1; echo again; else wait; fi" }

[[step]]
content = "end"
"#;

/// A session whose command has begun; and the processes of the command.
async fn begun(stage: &Stage) -> Result<(String, Vec<i32>)> {
    let rules = "[[approval.rules]]\ntool = \"shell\"\nverdict = \"allow\"";
    let session_id = stage.api.create("Run it.", &agent_with(&["shell"], rules)).await?;
    let file = stage.server.data().join("workspaces").join(&session_id).join("pids");
    let pids = until("the command's beginning", async || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        Ok((pids.len() == 2).then_some(pids))
    });
    Ok((session_id, pids.await?))
}

fn last_result(events: &[Ev]) -> Option<&Ev> {
    events.iter().rfind(|it| it.kind == "tool_finished")
}

#[tokio::test]
async fn a_command_in_flight_at_sigkill_is_gone_and_a_person_says_what_became_of_it() -> Result<()>
{
    let mut stage = Stage::embedded(SCRIPT).await?;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(begun(&stage).await?);
    }
    let pids: Vec<i32> = sessions.iter().flat_map(|(_, pids)| pids.clone()).collect();
    ensure!(pids.iter().all(|pid| is_alive(*pid)), "a command ended by itself");
    stage.server.kill().await?;
    until("the end of all commands", async || {
        Ok((!pids.iter().any(|pid| is_alive(*pid))).then_some(()))
    })
    .await?;
    stage.api = stage.server.start().await?;
    let cli = stage.cli();
    for (session_id, _) in &sessions {
        let approval = stage.api.until_approval(session_id).await?;
        ensure!(approval.question == "what_happened" && approval.tool == "shell", "{approval:?}");
        let shown = cli.run(&["show", session_id]).await?;
        ensure!(shown.stdout.contains("stepwell resolve"), "{}", shown.stdout);
        let wrong = cli.run(&["approve", session_id, "--yes"]).await?;
        wrong.expect(1)?;
        ensure!(wrong.stderr.contains("stepwell resolve"), "{}", wrong.stderr);
    }
    let ids: Vec<&str> = sessions.iter().map(|(id, _)| id.as_str()).collect();
    let waiting = cli.json(&["ls", "--needs-person"]).await?;
    ensure!(waiting.len() == 3, "{waiting:?}");

    let human = cli.run(&["approvals", ids[0]]).await?;
    ensure!(human.stdout.contains("stepwell resolve"), "{}", human.stdout);
    let answers = [
        &["resolve", ids[0], "happened", "--output", "it was done", "--reason", "I saw it"][..],
        &["resolve", ids[1], "did-not-happen", "--reason", "the log shows nothing"],
        &["resolve", ids[2], "failed", "--reason", "rolled back by hand"],
    ];
    for words in answers {
        let resolved = cli.one(words).await?;
        ensure!(resolved["question"] == "what_happened" && resolved["unchanged"] == false);
    }
    let again = cli.run(&["resolve", ids[2], "failed"]).await?;
    again.expect(1)?;
    ensure!(again.stderr.contains("no open approval"), "{}", again.stderr);
    for id in &ids {
        stage.api.until_status(id, SessionStatus::Completed).await?;
    }
    check(&stage, ids[0], "happened", "I saw it", None).await?;
    check(&stage, ids[1], "did_not_happen", "the log shows nothing", Some("again")).await?;
    check(&stage, ids[2], "failed", "rolled back by hand", None).await
}

/// The decision is in the log with its reason and person; and the tool ran again, or not.
async fn check(
    stage: &Stage,
    session_id: &str,
    decision: &str,
    reason: &str,
    ran_again: Option<&str>,
) -> Result<()> {
    let events = stage.api.events(session_id).await?;
    let decided = events.iter().find(|it| it.kind == "approval_decided").context("no decision")?;
    ensure!(
        decided.text("decision") == decision && decided.text("reason") == reason,
        "{decided:?}"
    );
    ensure!(decided.actor == "person:tester", "{decided:?}");
    let result = last_result(&events).map(|it| it.text("output").to_owned());
    match (ran_again, result) {
        (None, None) => {}
        (Some(words), Some(output)) => ensure!(output.contains(words), "{output}"),
        (_, result) => anyhow::bail!("{decision}: the result is {result:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn a_result_that_a_person_gives_must_fit_the_tools_schema() -> Result<()> {
    let script = "[[step]]\ntool_calls = [{ name = \"book\", arguments = { what = \"flight\", \
        slow_attempts = 1 } }]\n[[step]]\ncontent = \"end\"";
    let mut stage = Stage::counting(script).await?;
    let rules = "[[approval.rules]]\ntool = \"book\"\nverdict = \"allow\"";
    let session_id = stage.api.create("Book it.", &agent_with(&["book"], rules)).await?;
    let ledger = stage.ledger()?;
    until("the call's start", async || {
        Ok((!ledger.starts_of(&session_id, "1.1")?.is_empty()).then_some(()))
    })
    .await?;
    stage.worker()?.kill().await?;
    stage.worker()?.start_again()?;
    let approval = stage.api.until_approval(&session_id).await?;
    ensure!(approval.question == "what_happened", "{approval:?}");
    let cli = stage.cli();
    for wrong in ["booked", "{}", r#"{"receipt":"seven"}"#] {
        let refused = cli.run(&["resolve", &session_id, "happened", "--output", wrong]).await?;
        refused.expect(1)?;
        ensure!(refused.stderr.contains("receipt") || refused.stderr.contains("JSON"));
    }
    let words = ["resolve", &session_id, "happened", "--output", r#"{"receipt":7}"#];
    let resolved = cli.one(&words).await?;
    ensure!(resolved["unchanged"] == false, "{resolved}");
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    ensure!(ledger.starts_of(&session_id, "1.1")?.len() == 1);
    Ok(())
}
