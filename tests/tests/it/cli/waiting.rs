//! `submit`, with and without `--wait`, and the exit codes by outcome.

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stepwell_proto::v1::SessionStatus;
use stepwell_tests::{Stage, agent_with, until_caught};

use super::{LOOKER, PAYER, text};

#[tokio::test]
async fn submit_wait_tells_the_session_its_events_and_its_end_and_exits_with_0() -> Result<()> {
    let stage = Stage::counting(LOOKER).await?;
    let agent = stage.write("agent.toml", &agent_with(&["look"], ""))?;
    let cli = stage.cli();
    let lines = cli.json(&["submit", "--agent", &agent, "--wait", "What is the sky like?"]).await?;
    let (first, last) = (&lines[0], &lines[lines.len() - 1]);
    ensure!(first["created"] == true && first["session_id"] == last["session_id"], "{first}");
    ensure!(last["status"] == "completed" && last["answer"] == "It is blue.", "{last}");
    let kinds: Vec<&str> = lines.iter().filter_map(|it| it["type"].as_str()).collect();
    ensure!(
        kinds.len() == lines.len() - 2 && kinds.last() == Some(&"session_finished"),
        "{kinds:?}"
    );
    let human = cli.run(&["submit", "--agent", &agent, "--wait", "And now?"]).await?;
    human.expect(0)?;
    ensure!(human.stdout.contains("It is blue.") && human.stdout.contains("completed"));
    Ok(())
}

#[tokio::test]
async fn submit_without_wait_gives_the_id_and_a_key_never_starts_a_second_session() -> Result<()> {
    let mut stage = Stage::counting(LOOKER).await?;
    let agent = stage.write("agent.toml", &agent_with(&["look"], ""))?;
    let words = ["submit", "--agent", &agent, "--key", "nightly", "Look."];
    let first = stage.cli().one(&words).await?;
    ensure!(first["created"] == true, "{first}");
    stage.kill_and_start().await?;
    let again = stage.cli().one(&words).await?;
    ensure!(again["created"] == false && again["session_id"] == first["session_id"], "{again}");
    let other =
        stage.cli().run(&["submit", "--agent", &agent, "--key", "nightly", "Else."]).await?;
    other.expect(1)?;
    ensure!(other.stderr.contains(text(&first, "session_id")), "{}", other.stderr);
    let human = stage.cli().run(&["submit", "--agent", &agent, "Look again."]).await?;
    human.expect(0)?;
    ensure!(human.stderr.contains("stepwell tail -f"), "{}", human.stderr);
    ensure!(stage.cli().json(&["ls"]).await?.len() == 2);
    Ok(())
}

#[tokio::test]
async fn the_task_may_come_from_stdin() -> Result<()> {
    let stage = Stage::counting(LOOKER).await?;
    let agent = stage.write("agent.toml", &agent_with(&["look"], ""))?;
    for words in [
        &["submit", "--agent", &agent, "--json", "-"][..],
        &["submit", "--agent", &agent, "--json"],
    ] {
        let ran = stage.cli().run_with(words, "Schön, nicht?\nNext line.".as_bytes()).await?;
        ran.expect(0)?;
        let lines = ran.lines()?;
        ensure!(lines[0]["title"] == "Schön, nicht?", "{}", lines[0]);
    }
    Ok(())
}

#[tokio::test]
async fn a_session_that_failed_exits_with_3_and_says_why() -> Result<()> {
    let script = "[[step]]\ncontent = \"x\"\n\
        fault = { kind = \"status\", status = 401, message = \"no such key\", times = \"always\" }";
    let stage = Stage::counting(script).await?;
    let agent = stage.write("agent.toml", &agent_with(&["look"], ""))?;
    for json in [&[][..], &["--json"]] {
        let ran = stage
            .cli()
            .run(&[&["submit", "--agent", &agent, "--wait", "x"], json].concat())
            .await?;
        ran.expect(3)?;
        ensure!(ran.stdout.contains("no such key"), "the reason is not told");
        // The address that refused.
        ensure!(ran.stdout.contains(stage.model.url().trim_start_matches("http://")));
    }
    Ok(())
}

#[tokio::test]
async fn a_session_that_reached_a_limit_exits_with_5_and_names_it() -> Result<()> {
    let stage = Stage::counting(LOOKER).await?;
    let agent = stage.write("agent.toml", &agent_with(&["look"], "[limits]\nsteps = 1"))?;
    let ran = stage.cli().run(&["submit", "--agent", &agent, "--wait", "--json", "x"]).await?;
    ran.expect(5)?;
    let lines = ran.lines()?;
    let last = &lines[lines.len() - 1];
    ensure!(last["status"] == "limit_reached" && text(last, "explain").contains("steps"), "{last}");
    Ok(())
}

#[tokio::test]
async fn a_session_that_was_cancelled_exits_with_4_and_one_that_waits_for_a_person_with_6()
-> Result<()> {
    let stage = Stage::counting(PAYER).await?;
    let agent = stage.write("agent.toml", &agent_with(&["pay"], ""))?;
    let cli = stage.cli();
    let person = cli.run(&["submit", "--agent", &agent, "--wait=person", "x"]).await?;
    person.expect(6)?;
    ensure!(person.stdout.contains("waiting_approval"), "{}", person.stdout);
    let waiting = cli.json(&["ls", "--needs-person"]).await?;
    ensure!(waiting.len() == 1 && waiting[0]["status"] == "waiting_approval", "{waiting:?}");

    let words = ["submit", "--agent", &agent, "--wait", "--key", "cancel-me", "x"];
    let child = cli.command(&words)?.spawn()?;
    let key = ["submit", "--agent", &agent, "--key", "cancel-me", "x"];
    let session = cli.one(&key).await?;
    let session_id = text(&session, "session_id");
    stage.api.until_approval(session_id).await?;
    cli.one(&["cancel", session_id, "--reason", "not needed"]).await?;
    let output = child.wait_with_output().await?;
    ensure!(output.status.code() == Some(4), "{output:?}");
    Ok(())
}

#[tokio::test]
async fn ctrl_c_ends_the_wait_with_130_and_not_the_session() -> Result<()> {
    let stage = Stage::counting(PAYER).await?;
    let agent = stage.write("agent.toml", &agent_with(&["pay"], ""))?;
    let words = ["submit", "--agent", &agent, "--wait", "--key", "k", "x"];
    let child = stage.cli().command(&words)?.spawn()?;
    let session = stage.cli().one(&["submit", "--agent", &agent, "--key", "k", "x"]).await?;
    let session_id = text(&session, "session_id").to_owned();
    stage.api.until_approval(&session_id).await?;
    let pid = i32::try_from(child.id().context("it ended")?)?;
    let interrupting = async {
        until_caught(pid, Signal::SIGINT).await?;
        kill(Pid::from_raw(pid), Signal::SIGINT)?;
        anyhow::Ok(())
    };
    let (output, sent) = tokio::join!(child.wait_with_output(), interrupting);
    sent?;
    let output = output?;
    ensure!(output.status.code() == Some(130), "{output:?}");
    let stderr = String::from_utf8(output.stderr)?;
    ensure!(stderr.contains("the session goes on") && stderr.contains(&session_id), "{stderr}");
    stage.api.until_status(&session_id, SessionStatus::WaitingApproval).await?;
    Ok(())
}

#[tokio::test]
async fn a_wait_survives_a_kill_of_the_server_and_exits_by_the_outcome() -> Result<()> {
    let mut stage = Stage::counting(PAYER).await?;
    let agent = stage.write("agent.toml", &agent_with(&["pay"], ""))?;
    let words = ["submit", "--agent", &agent, "--wait", "--key", "k", "--json", "x"];
    let child = stage.cli().command(&words)?.spawn()?;
    let session = stage.cli().one(&["submit", "--agent", &agent, "--key", "k", "x"]).await?;
    let session_id = text(&session, "session_id").to_owned();
    stage.api.until_approval(&session_id).await?;
    stage.kill_and_start().await?;
    stage.cli().one(&["approve", &session_id, "--yes"]).await?;
    let output = child.wait_with_output().await?;
    ensure!(output.status.success(), "{output:?}");
    let stdout = String::from_utf8(output.stdout)?;
    let last: serde_json::Value = serde_json::from_str(stdout.lines().last().context("no line")?)?;
    ensure!(last["answer"] == "It is paid.", "{last}");
    Ok(())
}
