//! Out of one server and into another.

use anyhow::{Result, ensure};
use stepwell_proto::v1::SessionStatus;
use stepwell_tests::{SOON, Stage, agent_with, look, until};

use super::{Desk, completed, export, history, names, text, waiting};

#[tokio::test]
async fn a_session_is_the_same_on_another_server_byte_for_byte() -> Result<()> {
    let (stage, session_id) = completed().await?;
    let desk = Desk::new(&stage).await?;
    let (here, there) = (stage.cli(), desk.cli());
    let file = export(&stage, &session_id, &[]).await?;
    let imported = there.one(&["import", &file]).await?;
    ensure!(imported["created"] == true && imported["held"] == false, "{imported}");

    for more in [[].as_slice(), &["--whole"]] {
        let (ours, theirs) =
            (history(&here, &session_id, more).await?, history(&there, &session_id, more).await?);
        ensure!(ours == theirs, "{ours}\n{theirs}");
    }
    let (ours, theirs) = (here.one(&["ls"]).await?, there.one(&["ls"]).await?);
    ensure!(ours == theirs, "{ours}\n{theirs}");
    let (ours, theirs) =
        (here.one(&["anchor", &session_id]).await?, there.one(&["anchor", &session_id]).await?);
    ensure!(ours == theirs && text(&ours, "head_hash") == text(&imported, "head_hash"), "{ours}");
    here.run(&["tree", &session_id]).await?.expect(0)?;
    there.run(&["tree", &session_id]).await?.expect(0)?;

    // And from there on: the file is the same but for the time of its making.
    let again = there.one(&["export", &session_id]).await?;
    ensure!(text(&again, "head_hash") == text(&imported, "head_hash"), "{again}");
    let made = format!("{session_id}.stepwell");
    let files = names(&desk.root)?;
    ensure!(files.contains(&made) && !files.iter().any(|it| it.contains("tmp")), "{files:?}");
    Ok(())
}

#[tokio::test]
async fn the_same_file_twice_is_once_and_another_history_is_refused() -> Result<()> {
    let (stage, session_id) = waiting().await?;
    let desk = Desk::new(&stage).await?;
    let there = desk.cli();
    let early = export(&stage, &session_id, &[]).await?;
    let first = there.one(&["import", &early]).await?;
    ensure!(first["created"] == true && first["held"] == true, "{first}");
    let second = there.one(&["import", &early]).await?;
    ensure!(second["created"] == false, "{second}");

    // Where it came from it is here too.
    let home = stage.cli().one(&["import", &early]).await?;
    ensure!(home["created"] == false, "{home}");

    stage.cli().run(&["deny", &session_id]).await?.expect(0)?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let late = stage.root().join("late.stepwell").to_string_lossy().into_owned();
    stage.cli().run(&["export", &session_id, "-o", &late]).await?.expect(0)?;
    let ran = there.run(&["import", &late]).await?;
    ran.expect(1)?;
    ensure!(ran.stderr.contains("another history"), "{}", ran.stderr);
    let ran = there.run(&["import", &early, &late]).await?;
    ran.expect(1)?;
    ensure!(ran.stderr.contains("1 of 2 files were not imported"), "{}", ran.stderr);
    // The file of then is the beginning of what is here now.
    let home = stage.cli().one(&["import", &early]).await?;
    ensure!(home["created"] == false, "{home}");
    Ok(())
}

#[tokio::test]
async fn an_open_session_is_held_and_goes_on_when_a_person_says_so() -> Result<()> {
    let (mut stage, session_id) = waiting().await?;
    let file = export(&stage, &session_id, &[]).await?;
    let before = history(&stage.cli(), &session_id, &[]).await?;
    // The same model and worker, another store: what could run would run.
    stage.server.stop().await?;
    let data = stage.root().join("other");
    let mut server = stepwell_tests::Server::new(stage.root(), Some(stage.model.url()))?
        .arguments(&["--no-worker"])
        .in_folder(&data)
        .on(stage.server.listen());
    let api = server.start().await?;
    api.until_tool("pay").await?;
    let cli = stage.cli();
    let imported = cli.one(&["import", &file]).await?;
    ensure!(imported["held"] == true, "{imported}");

    let after = history(&cli, &session_id, &[]).await?;
    ensure!(after.starts_with(&before), "{after}");
    let added: Vec<&str> = after[before.len()..].lines().collect();
    ensure!(added.len() == 1, "{added:?}");
    ensure!(added[0].contains("\"pause_requested\"") && added[0].contains("person:import"));
    ensure!(added[0].contains("imported from out-0.stepwell"), "{added:?}");
    let show = cli.run(&["show", &session_id]).await?;
    ensure!(
        show.stdout.contains("held, not to run here by itself: imported from out-0.stepwell"),
        "{}",
        show.stdout
    );
    let approvals = cli.json(&["approvals"]).await?;
    ensure!(approvals.len() == 1, "{approvals:?}");

    // It survives a restart as any other, still held.
    server.kill().await?;
    let api = server.start().await?;
    api.until_tool("pay").await?;
    ensure!(look(&data)?.head(&session_id)? == before.lines().count() as u64 + 1);
    cli.run(&["resume", &session_id]).await?.expect(0)?;
    cli.run(&["approve", &session_id, "--yes"]).await?.expect(0)?;
    api.until_status(&session_id, SessionStatus::Completed).await?;
    server.stop().await
}

/// A call that runs where the session comes from, in a pause, does not run where it is brought to.
#[tokio::test]
async fn a_paused_session_with_a_running_call_is_told_as_it_is_and_stepped_from_there() -> Result<()>
{
    let script = "[[step]]\ntool_calls = [{ name = \"pay\", arguments = { what = \"rent\", \
                  delay_ms = 600000 } }]\n[[step]]\ncontent = \"end\"";
    let stage = Stage::counting(script).await?;
    let rules = "[[approval.rules]]\ntool = \"pay\"\nverdict = \"allow\"";
    let session_id = stage.api.create("Pay.", &agent_with(&["pay"], rules)).await?;
    stage.api.until_event(&session_id, "its start", |it| it.kind == "tool_dispatched").await?;
    stage.cli().run(&["pause", &session_id]).await?.expect(0)?;
    let file = export(&stage, &session_id, &[]).await?;
    let desk = Desk::new(&stage).await?;
    let there = desk.cli();
    ensure!(there.one(&["import", &file]).await?["held"] == true);
    let shown = there.one(&["explain", &session_id]).await?;
    ensure!(text(&shown, "status") == "paused", "{shown}");
    for part in ["held, not to run here", "paused before by person:tester", "is not known here"] {
        ensure!(text(&shown, "explain").contains(part), "{part:?} is not in {shown}");
    }
    // What is refused sets nothing going.
    let before = history(&there, &session_id, &[]).await?;
    there.run(&["approve", &format!("{session_id}.999"), "--yes"]).await?.expect(1)?;
    ensure!(history(&there, &session_id, &[]).await? == before, "it went on by itself");

    let stepping = there.command(&["step", &session_id])?.spawn()?;
    let owed = until("what was owed", async || {
        let history = history(&there, &session_id, &[]).await?;
        Ok(history.contains("\"tool_lost\"").then_some(history))
    });
    ensure!(owed.await?.contains("\"resume_requested\""));
    let ended = tokio::time::timeout(SOON, stepping.wait_with_output()).await??;
    ensure!(ended.status.code() == Some(0), "{ended:?}");
    Ok(())
}

#[tokio::test]
async fn a_fixture_is_plain_and_a_pipe_takes_the_packed_form() -> Result<()> {
    let (stage, session_id) = completed().await?;
    let (cli, desk) = (stage.cli(), Desk::new(&stage).await?);
    let ran = cli.run(&["export", &session_id, "--fixture", "-o", "-"]).await?;
    ran.expect(0)?;
    let fixture = ran.stdout.clone();
    let lines = ran.lines()?;
    ensure!(lines[0]["fixture"] == true && text(&lines[0], "session_id") == session_id);
    let ran = desk.cli().run_with(&["import", "-", "--json"], ran.stdout.as_bytes()).await?;
    ran.expect(0)?;
    ensure!(ran.stdout.contains("\"file\":\"-\""), "{}", ran.stdout);
    let ours = history(&cli, &session_id, &["--whole"]).await?;
    ensure!(ours == history(&desk.cli(), &session_id, &["--whole"]).await?);

    let made = cli.one(&["export", &session_id, "--fixture"]).await?;
    let path = stage.root().join(format!("{session_id}.stepwell.jsonl"));
    ensure!(std::fs::read_to_string(&path)? == fixture, "a fixture of the same session differs");
    ensure!(text(&made, "file") == format!("{session_id}.stepwell.jsonl"), "{made}");
    let ran = cli.run(&["export", &session_id, "-o", "-", "--json"]).await?;
    ran.expect(2)?;
    let ran = cli.run(&["export", &session_id, "-o", "/nowhere/x.stepwell"]).await?;
    ran.expect(1)?;
    ensure!(
        ran.stderr.contains("cannot write /nowhere/x.stepwell: there is no folder /nowhere"),
        "{}",
        ran.stderr
    );
    Ok(())
}
