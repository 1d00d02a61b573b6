//! Histories against what was written down about them.

use anyhow::{Result, ensure};
use stepwell_proto::v1::SessionStatus;
use stepwell_tests::{Stage, agent_with};

use super::{Desk, by_hand, completed, export, text, verdict};

/// A model that answers each message.
const TALKER: &str = "[[step]]\ncontent = \"Hello.\"\n[[step]]\ncontent = \"Hello again.\"\n";

#[tokio::test]
async fn an_anchor_tells_intact_grown_rewritten_shortened_and_missing() -> Result<()> {
    let mut stage = Stage::counting(TALKER).await?;
    let agent = agent_with(&[], "").replace("[retry]", "interactive = true\n[retry]");
    let session_id = stage.api.create("Talk.", &agent).await?;
    stage.api.until_status(&session_id, SessionStatus::WaitingInput).await?;
    let cli = stage.cli();
    let anchor = stage.root().join("anchor.jsonl").to_string_lossy().into_owned();
    cli.run(&["anchor", "-o", &anchor]).await?.expect(0)?;
    let words = ["--anchor", anchor.as_str()];
    ensure!(verdict(&cli, &words, 0).await? == "intact");
    let early = export(&stage, &session_id, &[]).await?;
    ensure!(verdict(&cli, &[&early], 0).await? == "intact");
    ensure!(verdict(&cli, &[&early, "--anchor", &anchor], 0).await? == "intact");

    cli.run(&["send", &session_id, "Once more."]).await?.expect(0)?;
    let again = |it: &stepwell_tests::Ev| it.kind == "model_replied" && it.seq > 3;
    stage.api.until_event(&session_id, "second reply", again).await?;
    ensure!(verdict(&cli, &words, 0).await? == "grew");

    by_hand(&mut stage, "UPDATE events SET body = replace(body, 'Hello.', 'Help!.')").await?;
    ensure!(verdict(&cli, &words, 1).await? == "rewritten");
    let changed = stage.root().join("changed.stepwell").to_string_lossy().into_owned();
    cli.run(&["export", &session_id, "-o", &changed]).await?.expect(0)?;
    ensure!(verdict(&cli, &[&changed], 0).await? == "intact", "in itself it is whole");
    ensure!(verdict(&cli, &[&changed, "--anchor", &anchor], 1).await? == "rewritten");

    by_hand(&mut stage, "DELETE FROM events WHERE seq > 2; UPDATE sessions SET head = 2").await?;
    ensure!(verdict(&cli, &words, 1).await? == "shortened");
    by_hand(&mut stage, "DELETE FROM events; DELETE FROM sessions").await?;
    ensure!(verdict(&cli, &words, 1).await? == "missing");
    Ok(())
}

/// A file that every reader would call damaged is not made.
#[tokio::test]
async fn an_event_that_cannot_be_read_is_not_exported() -> Result<()> {
    let (mut stage, session_id) = completed().await?;
    for (i, change) in
        ["body = '{'", "kind = 'tool_rewritten'", "body = '{}', kind = 'model_replied'"]
            .into_iter()
            .enumerate()
    {
        by_hand(&mut stage, &format!("UPDATE events SET {change} WHERE seq = 3")).await?;
        for end in ["stepwell", "jsonl"] {
            let path = stage.root().join(format!("bad-{i}.{end}"));
            let words = ["export", &session_id, "-o", &path.to_string_lossy()];
            let ran = stage.cli().run(&words).await?;
            ran.expect(1)?;
            ensure!(
                ran.stderr.contains("event 3 cannot be exported: "),
                "{change}: {}",
                ran.stderr
            );
            ensure!(!path.exists(), "{change}: a file is left");
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_anchor_holds_all_sessions_or_those_that_are_named() -> Result<()> {
    let (stage, first) = completed().await?;
    let cli = stage.cli();
    let second = stage.api.create("Look.", &agent_with(&["look"], "")).await?;
    let all = cli.json(&["anchor"]).await?;
    ensure!(all.len() == 2, "{all:?}");
    let one = cli.one(&["anchor", &first[..6]]).await?;
    ensure!(text(&one, "session_id") == first && one["events"].as_u64() > Some(3), "{one}");
    ensure!(text(&one, "head_hash").len() == 64, "{one}");

    let anchor = stage.write("anchor.jsonl", &format!("{one}\n\n"))?;
    let file = export(&stage, &second, &[]).await?;
    ensure!(verdict(&cli, &[&file, "--anchor", &anchor], 1).await? == "not_anchored");
    let broken = stage.write("broken.jsonl", &format!("{one}\nnot a line\n"))?;
    let ran = cli.run(&["verify", "--anchor", &broken]).await?;
    ran.expect(1)?;
    ensure!(ran.stderr.contains("line 2"), "{}", ran.stderr);
    cli.run(&["verify"]).await?.expect(2)?;

    let desk = Desk::new(&stage).await?;
    ensure!(verdict(&desk.cli(), &["--anchor", &anchor], 1).await? == "missing");
    Ok(())
}

/// Who says that all is well has read the payloads, too.
#[tokio::test]
async fn a_payload_that_is_not_what_was_written_is_found() -> Result<()> {
    let (mut stage, session_id) = completed().await?;
    let cli = stage.cli();
    let anchor = stage.root().join("anchor.jsonl").to_string_lossy().into_owned();
    cli.run(&["anchor", "-o", &anchor]).await?.expect(0)?;
    let words = ["--anchor", anchor.as_str()];
    ensure!(verdict(&cli, &words, 0).await? == "intact");
    for (sql, reason) in [
        ("UPDATE blobs SET data = x'00'", "Src size is incorrect"),
        ("DELETE FROM blobs", "is missing"),
    ] {
        by_hand(&mut stage, sql).await?;
        let cli = stage.cli();
        let ran = cli.run(&["verify", "--anchor", &anchor, "--json"]).await?;
        ran.expect(1)?;
        let told = &ran.stdout;
        ensure!(told.contains("\"damaged\"") && told.contains("event 1: "), "{sql}: {told}");
        ensure!(told.contains(reason), "{sql}: {told}");
        let data = stage.server.data().to_string_lossy().into_owned();
        let ran = cli.run(&["doctor", "--data", &data]).await?;
        ran.expect(1)?;
        let line = format!("session {session_id}: event 1: payload ");
        ensure!(ran.stdout.contains(&line) && ran.stdout.contains(reason), "{sql}: {}", ran.stdout);
    }
    Ok(())
}
