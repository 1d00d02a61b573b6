//! `ls`, `show`, `events`, `tail`, `tree`.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use stepwell_proto::v1::SessionStatus;
use stepwell_tests::{Stage, agent_with};

use super::{LOOKER, text};

/// A stage with a session that completed.
async fn completed() -> Result<(Stage, String)> {
    let stage = Stage::counting(LOOKER).await?;
    let session_id = stage.api.create("Look at the sky.", &agent_with(&["look"], "")).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    Ok((stage, session_id))
}

#[tokio::test]
async fn ls_lists_sessions_newest_first_and_filters_them() -> Result<()> {
    let stage = Stage::counting(LOOKER).await?;
    let (cli, agent) = (stage.cli(), stage.write("agent.toml", &agent_with(&["look"], ""))?);
    let ran = cli.run(&["ls"]).await?;
    ran.expect(0)?;
    ensure!(ran.stdout.is_empty() && ran.stderr.contains("no sessions"));
    let mut ids = Vec::new();
    for (title, team) in [("first", "team=a"), ("second", "team=b")] {
        let words = ["submit", "--agent", &agent, "--title", title, "--label", team, title];
        let session = cli.one(&words).await?;
        ids.push(text(&session, "session_id").to_owned());
        stage.api.until_status(ids.last().unwrap(), SessionStatus::Completed).await?;
    }
    let lines = cli.json(&["ls"]).await?;
    let found: Vec<&str> = lines.iter().map(|it| text(it, "session_id")).collect();
    ensure!(found == [ids[1].as_str(), ids[0].as_str()], "{found:?}");
    ensure!(lines[0]["status"] == "completed" && lines[0]["title"] == "second", "{}", lines[0]);
    ensure!(lines[0]["labels"] == json!({"team": "b"}) && lines[0]["agent"] == "tester");
    ensure!(lines[0]["head_seq"].as_u64() > Some(5) && lines[0]["step"] == 2, "{}", lines[0]);
    for (filter, wanted) in [
        (&["--label", "team=a"][..], 1),
        (&["--text", "SECOND"], 1),
        (&["--agent", "tester"], 2),
        (&["--agent", "other"], 0),
        (&["--status", "completed,failed"], 2),
        (&["--status", "thinking"], 0),
        (&["--needs-person"], 0),
        (&["--limit", "1"], 1),
        (&["--all"], 2),
    ] {
        let found = cli.json(&[&["ls"], filter].concat()).await?;
        ensure!(found.len() == wanted, "{filter:?} gives {found:?}");
    }
    let human = cli.run(&["ls"]).await?;
    human.expect(0)?;
    for words in ["SESSION", "STATUS", "completed", "first", "second", ids[0].as_str()] {
        ensure!(human.stdout.contains(words), "{words}");
    }
    ensure!(!human.stdout.contains('\u{1b}'), "colours in a pipe");
    Ok(())
}

#[tokio::test]
async fn show_tells_where_a_session_is_by_a_prefix_of_its_id_in_any_case() -> Result<()> {
    let (stage, session_id) = completed().await?;
    let cli = stage.cli();
    let prefix = session_id.get(..6).context("a short id")?.to_lowercase();
    let shown = cli.one(&["show", &prefix]).await?;
    ensure!(
        shown["session_id"] == json!(session_id) && shown["answer"] == "It is blue.",
        "{shown}"
    );
    ensure!(shown["ownership"] == "finished" && shown["open_calls"] == json!([]), "{shown}");
    ensure!(shown["agent_json"]["name"] == "tester", "{shown}");
    let human = cli.run(&["show", &prefix]).await?;
    human.expect(0)?;
    for words in [session_id.as_str(), "completed", "Look at the sky.", "It is blue."] {
        ensure!(human.stdout.contains(words), "{words}");
    }
    Ok(())
}

#[tokio::test]
async fn events_and_tail_tell_the_history_to_programs_and_to_people() -> Result<()> {
    let (stage, session_id) = completed().await?;
    let cli = stage.cli();
    let events = cli.run(&["events", &session_id]).await?;
    events.expect(0)?;
    let lines = events.lines()?;
    for (line, seq) in lines.iter().zip(1_u64..) {
        ensure!(line["seq"] == seq && line["session_id"] == json!(session_id), "{line}");
        ensure!(line["time_ms"].as_i64() > Some(0) && line["body"].is_object(), "{line}");
    }
    let kinds: Vec<&str> = lines.iter().map(|it| text(it, "type")).collect();
    let wanted = [
        "session_created",
        "model_requested",
        "model_replied",
        "tool_scheduled",
        "tool_finished",
        "model_requested",
        "model_replied",
        "session_finished",
    ];
    ensure!(kinds == wanted, "{kinds:?}");
    ensure!(cli.json(&["events", &session_id]).await? == lines, "--json changes nothing");
    ensure!(cli.json(&["events", &session_id, "--after", "6"]).await? == lines[6..]);
    ensure!(cli.json(&["tail", &session_id, "-n", "2"]).await? == lines[6..]);
    ensure!(cli.json(&["tail", &session_id, "-f"]).await? == lines);
    ensure!(cli.json(&["tail", &session_id, "--after", "7"]).await? == lines[7..]);
    for words in [&["tail", session_id.as_str()][..], &["tail", "-f", session_id.as_str()]] {
        let human = cli.run(words).await?;
        human.expect(0)?;
        ensure!(human.stdout.lines().count() >= 8, "{}", human.stdout);
        for words in ["#1 ", "tool_finished", "look 1.1 ok", "saw sky", "session_finished"] {
            ensure!(human.stdout.contains(words), "{words}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn tail_follows_a_session_across_a_kill_of_the_server_without_gap_or_double() -> Result<()> {
    let script = "delay_ms = 50\n[[step]]\nrepeat = 8\ntool_calls = [\
        { name = \"look\", arguments = { what = \"x{{step}}\" } }]\n[[step]]\ncontent = \"end\"";
    let mut stage = Stage::counting(script).await?;
    let session_id = stage.api.create("Go on.", &agent_with(&["look"], "")).await?;
    let tail = stage.cli().command(&["tail", "-f", "--json", &session_id])?.spawn()?;
    let is_far = |it: &stepwell_tests::Ev| it.kind == "model_replied" && it.number("step") == 3;
    stage.api.until_event(&session_id, "step 3", is_far).await?;
    stage.kill_and_start().await?;
    let output = tail.wait_with_output().await?;
    ensure!(output.status.success(), "{output:?}");
    let seqs: Vec<u64> = String::from_utf8(output.stdout)?
        .lines()
        .map(|line| {
            let event: serde_json::Value = serde_json::from_str(line)?;
            event["seq"].as_u64().context("no seq")
        })
        .collect::<Result<_>>()?;
    let head = stage.api.session(&session_id).await?.head_seq;
    ensure!(seqs == (1..=head).collect::<Vec<_>>(), "{seqs:?}");
    Ok(())
}

#[tokio::test]
async fn tail_live_gives_the_pieces_of_an_answer_as_lines_of_their_own() -> Result<()> {
    let script = "chunk_bytes = 4\ndelay_ms = 100\nchunk_delay_ms = 10\n[[step]]\ncontent = \
        \"A sentence of many small pieces.\"";
    let stage = Stage::counting(script).await?;
    let session_id = stage.api.create("Speak.", &agent_with(&["look"], "")).await?;
    let lines = stage.cli().json(&["tail", "-f", "--live", &session_id]).await?;
    let (events, pieces): (Vec<_>, Vec<_>) = lines.iter().partition(|it| it["type"].is_string());
    ensure!(events.len() == 4 && pieces.iter().all(|it| it["kind"] == "content"), "{lines:?}");
    let said: String = pieces.iter().map(|it| text(it, "text")).collect();
    ensure!("A sentence of many small pieces.".ends_with(&said) && !said.is_empty(), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn tree_draws_the_spans_of_a_session() -> Result<()> {
    let (stage, session_id) = completed().await?;
    let cli = stage.cli();
    let spans = cli.json(&["tree", &session_id]).await?;
    let kinds: Vec<&str> = spans.iter().map(|it| text(it, "kind")).collect();
    for kind in ["session", "step", "model_call", "tool_call"] {
        ensure!(kinds.contains(&kind), "{kinds:?}");
    }
    ensure!(spans[0]["parent_id"] == "" && spans[0]["depth"] == 0, "{}", spans[0]);
    let human = cli.run(&["tree", &session_id]).await?;
    human.expect(0)?;
    for words in ["step 1", "step 2", "model call mock", "tool call look 1.1 ok"] {
        ensure!(human.stdout.contains(words), "{words}");
    }
    Ok(())
}
