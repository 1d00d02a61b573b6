//! `approvals`, `approve`, `deny`, `resolve`, `send`, `pause`, `resume`, `cancel`.

use anyhow::{Result, ensure};
use serde_json::json;
use stepwell_proto::v1::SessionStatus;
use stepwell_tests::{Stage, agent_with};

use super::{PAYER, text};

async fn waiting(stage: &Stage) -> Result<String> {
    let session_id = stage.api.create("Pay the rent.", &agent_with(&["pay"], "")).await?;
    stage.api.until_approval(&session_id).await?;
    Ok(session_id)
}

#[tokio::test]
async fn approvals_shows_what_waits_and_approve_shows_it_and_lets_it_run() -> Result<()> {
    let stage = Stage::counting(PAYER).await?;
    let cli = stage.cli();
    let nothing = cli.run(&["approvals"]).await?;
    nothing.expect(0)?;
    ensure!(nothing.stdout.is_empty() && nothing.stderr.contains("no approvals"));
    let session_id = waiting(&stage).await?;
    let approval = cli.one(&["approvals"]).await?;
    ensure!(approval["tool"] == "pay" && approval["arguments"] == json!({"what": "rent"}));
    ensure!(approval["status"] == "open" && approval["question"] == "may_run", "{approval}");
    let approval_id = text(&approval, "approval_id").to_owned();
    ensure!(cli.one(&["approvals", &session_id]).await? == approval);
    for words in [&["approvals"][..], &["approvals", &session_id]] {
        let human = cli.run(words).await?;
        human.expect(0)?;
        for words in [approval_id.as_str(), "pay", "rent"] {
            ensure!(human.stdout.contains(words), "{words}");
        }
    }
    let human = cli.run(&["approve", &approval_id, "--by", "petra"]).await?;
    human.expect(0)?;
    ensure!(human.stderr.contains("rent"), "the action is not shown: {}", human.stderr);
    ensure!(human.stdout.contains("approved"), "{}", human.stdout);
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let decided = cli.one(&["approvals", "--status", "approved"]).await?;
    ensure!(decided["decided_by"] == "person:petra", "{decided}");
    let again = cli.one(&["approve", &approval_id, "--by", "petra"]).await?;
    ensure!(again["unchanged"] == true && again["session"]["status"] == "completed", "{again}");
    Ok(())
}

#[tokio::test]
async fn approve_by_the_sessions_id_with_other_arguments_and_for_the_whole_session() -> Result<()> {
    let script = "[[step]]\nrepeat = 2\ntool_calls = [{ name = \"pay\", arguments = { what = \
        \"bill {{step}}\" } }]\n[[step]]\ncontent = \"paid\"";
    let stage = Stage::counting(script).await?;
    let cli = stage.cli();
    let session_id = waiting(&stage).await?;
    let prefix = session_id.get(..8).unwrap();
    let edited = stage.write("edited.json", r#"{"what": "half a bill"}"#)?;
    let words = ["approve", prefix, "--for-session", "--arguments", &format!("@{edited}"), "--yes"];
    let decided = cli.one(&words).await?;
    ensure!(decided["status"] == "approved" && decided["unchanged"] == false, "{decided}");
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let starts = stage.ledger()?.starts()?;
    let whats: Vec<_> = starts.iter().map(|it| it.arguments.as_str()).collect();
    ensure!(whats.len() == 2 && whats[0].contains("half a bill") && whats[1].contains("bill 2"));
    Ok(())
}

#[tokio::test]
async fn deny_tells_the_model_why() -> Result<()> {
    let stage = Stage::counting(PAYER).await?;
    let session_id = waiting(&stage).await?;
    let denied = stage.cli().one(&["deny", &session_id, "--reason", "not on a Friday"]).await?;
    ensure!(denied["status"] == "denied" && denied["reason"] == "not on a Friday", "{denied}");
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let refused = stage.api.until_event(&session_id, "a refusal", |it| it.kind == "tool_refused");
    ensure!(refused.await?.text("message").contains("not on a Friday"));
    ensure!(stage.ledger()?.starts()?.is_empty());
    let other = waiting(&stage).await?;
    let human = stage.cli().run(&["deny", &other]).await?;
    human.expect(0)?;
    ensure!(human.stdout.contains("denied") && human.stdout.contains(&other), "{}", human.stdout);
    Ok(())
}

#[tokio::test]
async fn approve_and_resolve_refuse_the_other_ones_question_and_name_the_right_command()
-> Result<()> {
    let stage = Stage::counting(PAYER).await?;
    let session_id = waiting(&stage).await?;
    let ran = stage.cli().run(&["resolve", &session_id, "failed"]).await?;
    ran.expect(1)?;
    ensure!(ran.stderr.contains("stepwell approve"), "{}", ran.stderr);
    Ok(())
}

#[tokio::test]
async fn send_answers_a_question_and_says_things() -> Result<()> {
    let script = r#"
[[step]]
[[step.tool_calls]]
name = "ask_user"
arguments = { question = "Which colour?" }

[[step]]
content = "I take it."
"#;
    let stage = Stage::counting(script).await?;
    let cli = stage.cli();
    let agent = agent_with(&["ask_user"], "");
    for how in [&["green"][..], &["green", "--answers", "1.1"], &["-"]] {
        let session_id = stage.api.create("Choose.", &agent).await?;
        stage.api.until_status(&session_id, SessionStatus::WaitingInput).await?;
        let shown = cli.run(&["show", &session_id]).await?;
        ensure!(shown.stdout.contains("Which colour?"), "{}", shown.stdout);
        let words = [&["send", session_id.as_str(), "--json"][..], how].concat();
        let ran = cli.run_with(&words, b"green").await?;
        ran.expect(0)?;
        ensure!(ran.lines()?[0]["session_id"] == json!(session_id));
        stage.api.until_status(&session_id, SessionStatus::Completed).await?;
        let said = stage.api.until_event(&session_id, "it", |it| it.kind == "message_received");
        let said = said.await?;
        ensure!(said.text("content") == "green" && said.text("answers") == "1.1", "{said:?}");
        ensure!(said.actor == "person:tester", "{said:?}");
        let other = stage.api.create("Choose again.", &agent).await?;
        stage.api.until_status(&other, SessionStatus::WaitingInput).await?;
        let human = cli.run(&["send", &other, "blue"]).await?;
        human.expect(0)?;
        ensure!(human.stdout.contains(&other), "{}", human.stdout);
        let late = cli.run(&["send", &session_id, "more"]).await?;
        late.expect(1)?;
        ensure!(late.stderr.contains("completed"), "{}", late.stderr);
    }
    Ok(())
}

#[tokio::test]
async fn pause_resume_and_cancel_in_both_forms() -> Result<()> {
    let stage = Stage::counting(PAYER).await?;
    let cli = stage.cli();
    let session_id = waiting(&stage).await?;
    let id = session_id.as_str();
    let paused = cli.one(&["pause", id, "--reason", "lunch"]).await?;
    let explain = text(&paused, "explain");
    ensure!(explain.contains("paused") && explain.contains("lunch"), "{paused}");
    // Approved while paused: it runs after the resume only.
    cli.one(&["approve", id, "--yes"]).await?;
    ensure!(stage.api.session(id).await?.status() == SessionStatus::Paused);
    ensure!(stage.ledger()?.starts()?.is_empty());
    let resumed = cli.run(&["resume", id]).await?;
    resumed.expect(0)?;
    ensure!(resumed.stdout.contains(id), "{}", resumed.stdout);
    stage.api.until_status(id, SessionStatus::Completed).await?;
    ensure!(stage.ledger()?.starts()?.len() == 1);

    let other = waiting(&stage).await?;
    cli.run(&["pause", &other]).await?.expect(0)?;
    cli.one(&["resume", &other]).await?;
    let cancelled = cli.run(&["cancel", &other, "--reason", "not needed any more"]).await?;
    cancelled.expect(0)?;
    ensure!(cancelled.stdout.contains("cancelled"), "{}", cancelled.stdout);
    let again = cli.one(&["cancel", &other]).await?;
    ensure!(again["status"] == "cancelled", "{again}");
    let late = cli.run(&["approve", &other, "--yes"]).await?;
    late.expect(1)?;
    Ok(())
}
