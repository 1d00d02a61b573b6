//! `agents`, `tools`, `workers`, `worker`.

use anyhow::{Result, ensure};
use serde_json::json;
use stepwell_proto::v1::SessionStatus;
use stepwell_tests::{Process, Stage, agent_with, until};

use super::{LOOKER, text};

#[tokio::test]
async fn agents_are_checked_stored_in_versions_listed_shown_and_used() -> Result<()> {
    let stage = Stage::counting(LOOKER).await?;
    let cli = stage.cli();
    let definition = agent_with(&["look"], "");
    let file = stage.write("looker.toml", &definition)?;
    let checked = cli.one(&["agents", "check", &file]).await?;
    ensure!(checked == json!({"name": "tester", "ok": true}), "{checked}");
    let human = cli.run(&["agents", "check", &file]).await?;
    human.expect(0)?;
    ensure!(human.stdout.contains("tester") && human.stdout.contains("1 tool"), "{}", human.stdout);
    ensure!(cli.json(&["agents"]).await?.is_empty(), "a check stores nothing");
    for _ in 0..2 {
        let stored = cli.one(&["agents", "put", &file]).await?;
        ensure!(stored["version"] == 1 && stored["definition"] == json!(definition), "{stored}");
    }
    let changed = definition.replace("You test.", "You test well.");
    std::fs::write(&file, &changed)?;
    let put = cli.run(&["agents", "put", &file]).await?;
    put.expect(0)?;
    ensure!(put.stdout.contains("tester") && put.stdout.contains('2'), "{}", put.stdout);
    let listed = cli.one(&["agents", "list"]).await?;
    ensure!(listed["name"] == "tester" && listed["version"] == 2, "{listed}");
    ensure!(cli.run(&["agents"]).await?.stdout.contains("tester"));
    let shown = cli.run(&["agents", "show", "tester@1"]).await?;
    shown.expect(0)?;
    ensure!(shown.stdout.trim_end() == definition.trim_end(), "{}", shown.stdout);
    ensure!(cli.one(&["agents", "show", "tester"]).await?["definition"] == json!(changed));
    for (name, version) in [("tester", 2), ("tester@1", 1)] {
        let session = cli.one(&["submit", "--agent", name, "Look."]).await?;
        ensure!(session["agent_version"] == version, "{session}");
        stage.api.until_status(text(&session, "session_id"), SessionStatus::Completed).await?;
    }
    for unknown in ["nobody", "tester@9"] {
        let ran = cli.run(&["submit", "--agent", unknown, "Look."]).await?;
        ran.expect(1)?;
        ensure!(ran.stderr.contains(unknown.split('@').next().unwrap()), "{}", ran.stderr);
    }
    Ok(())
}

#[tokio::test]
async fn stored_agents_and_tools_survive_a_kill_and_sessions_start_without_a_worker() -> Result<()>
{
    let mut stage = Stage::counting(LOOKER).await?;
    let file = stage.write("looker.toml", &agent_with(&["look"], ""))?;
    stage.cli().one(&["agents", "put", &file]).await?;
    stage.worker()?.kill().await?;
    stage.kill_and_start().await?;
    let session = stage.cli().one(&["submit", "--agent", "tester", "Look."]).await?;
    let session_id = text(&session, "session_id");
    stage.api.until_status(session_id, SessionStatus::ExecutingTools).await?;
    let shown = until("why it waits", async || {
        let shown = stage.cli().one(&["show", session_id]).await?;
        Ok(text(&shown, "explain").contains("worker").then_some(shown))
    });
    ensure!(text(&shown.await?, "explain").contains("look"));
    stage.worker()?.start_again()?;
    stage.api.until_status(session_id, SessionStatus::Completed).await?;
    Ok(())
}

#[tokio::test]
async fn tools_and_workers_are_listed_in_both_forms() -> Result<()> {
    let stage = Stage::counting(LOOKER).await?;
    let cli = stage.cli();
    let tools = cli.json(&["tools"]).await?;
    let pay = tools.iter().find(|it| it["name"] == "pay").unwrap();
    ensure!(pay["effect"] == "write" && pay["workers"] == json!(["counter"]), "{pay}");
    ensure!(pay["parameters"]["properties"]["what"]["type"] == "string", "{pay}");
    let book = tools.iter().find(|it| it["name"] == "book").unwrap();
    ensure!(book["output_schema"]["required"] == json!(["receipt"]), "{book}");
    let worker = cli.one(&["workers"]).await?;
    ensure!(worker["name"] == "counter" && worker["capacity"] == 64, "{worker}");
    for command in ["tools", "workers"] {
        let human = cli.run(&[command]).await?;
        human.expect(0)?;
        ensure!(human.stdout.contains("pay") || human.stdout.contains("counter"));
    }
    Ok(())
}

#[tokio::test]
async fn a_worker_of_the_binary_serves_the_built_in_tools() -> Result<()> {
    let script = r#"
[[step]]
[[step.tool_calls]]
name = "write_file"
arguments = { path = "hello.txt", content = "hello" }

[[step]]
content = "Written."
"#;
    let stage = Stage::counting(script).await?;
    let mut command =
        stage.cli().command(&["worker", "--name", "second", "--workspaces", "places"])?;
    command.stdin(std::process::Stdio::null());
    let _worker = Process::spawn("worker", command, &stage.root().join("second.log"))?;
    stage.api.until_tool("write_file").await?;
    let rules = "[[approval.rules]]\ntool = \"write_file\"\nverdict = \"allow\"";
    let session_id = stage.api.create("Write.", &agent_with(&["write_file"], rules)).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let written = stage.root().join("places").join(&session_id).join("hello.txt");
    ensure!(std::fs::read_to_string(written)? == "hello");
    Ok(())
}
