//! `replay --against`: recorded tasks with another agent, another model, and each way to treat tool
//! calls that are not in the record.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use stepwell_proto::v1::SessionStatus;
use stepwell_tests::{Cli, MockModel, SOON, Stage, agent_with, until_caught};

const SCRIPT: &str = r#"
[[step]]
content = "I run it."
tool_calls = [{ name = "shell", arguments = { command = "echo x >> ran; echo one" } }, { name = "shell", arguments = { command = "echo x >> ran; echo one" } }]

[[step]]
when_last = "denied"
content = "Then not."

[[step]]
step = 2
content = "I look."
tool_calls = [{ name = "read_file", arguments = { path = "ran" } }]

[[step]]
step = 3
content = "It ran."

[[step]]
when = "colour"
tool_calls = [{ name = "ask_user", arguments = { question = "Which colour?" } }, { name = "sleep", arguments = { seconds = 1 } }]

[[step]]
when = "colour"
content = "Fine."

[[step]]
when = "colour"
step = 3
when_last = "and more"
content = "More."

[[step]]
when = "slow"
repeat = "forever"
content = "Slowly."
"#;

/// Says the same at first, and then something else.
const OTHER_SCRIPT: &str = r#"
[[step]]
content = "I run it."
tool_calls = [{ name = "shell", arguments = '{ "command" : "echo x >> ran; echo one" }' }, { name = "shell", arguments = { command = "echo x >> ran; echo one" } }]

[[step]]
content = "I make a file."
tool_calls = [{ name = "shell", arguments = { command = "echo new > made; echo live" } }]

[[step]]
when_last = "live"
content = "It is made."

[[step]]
step = 3
when_last = "no result is recorded"
content = "Nothing came of it."

[[step]]
step = 3
when_last = "nobody was asked"
content = "I was not let."

[[step]]
when = "slow"
repeat = "forever"
content = "Slowly."
fault = { kind = "hang", times = "always" }
"#;

const PATIENT_SCRIPT: &str = r#"
[[step]]
when = "Sleep"
tool_calls = [{ name = "sleep", arguments = { seconds = 1e300 } }]

[[step]]
when = "Run"
tool_calls = [{ name = "shell", arguments = { command = "echo x" } }]

[[step]]
when = "Run"
content = "Then not."
"#;

const TOOLS: [&str; 4] = ["shell", "read_file", "ask_user", "sleep"];
const ALLOW: &str = "[[approval.rules]]\ntool = \"*\"\nverdict = \"allow\"\n";

/// A stage with one agent file, whose write tools ask.
async fn stage() -> Result<(Stage, String)> {
    let stage = Stage::embedded(SCRIPT).await?;
    let agent = stage.write("agent.toml", &agent_with(&TOOLS, ""))?;
    Ok((stage, agent))
}

/// A model that plays `OTHER_SCRIPT`, and an agent file that asks it.
async fn other(stage: &Stage, rest: &str) -> Result<(MockModel, String)> {
    let folder = stage.root().join("other");
    std::fs::create_dir_all(&folder)?;
    let model = MockModel::start(&folder, OTHER_SCRIPT).await?;
    let named = format!("{rest}[model]\nname = \"other\"\nbase_url = \"{}\"\n", model.url());
    let agent = stage.write("other.toml", &agent_with(&TOOLS, &named))?;
    Ok((model, agent))
}

async fn submitted(stage: &Stage, agent: &str, task: &str) -> Result<String> {
    let words = ["submit", "--agent", agent, "--label", "suite=x", task];
    let session = stage.cli().one(&words).await?;
    Ok(session["session_id"].as_str().context("no id")?.to_owned())
}

/// A session whose two calls were each decided so.
async fn decided(stage: &Stage, agent: &str, word: &[&str]) -> Result<String> {
    let id = submitted(stage, agent, "Do it.").await?;
    for _ in 0..2 {
        let approval = stage.api.until_approval(&id).await?.approval_id;
        let words = [&[word[0], approval.as_str()], &word[1..]].concat();
        stage.cli().run(&words).await?.expect(0)?;
    }
    stage.api.until_status(&id, SessionStatus::Completed).await?;
    Ok(id)
}

fn ran(stage: &Stage, id: &str) -> Result<usize> {
    let file = stage.server.data().join("workspaces").join(id).join("ran");
    Ok(std::fs::read_to_string(file)?.lines().count())
}

fn both(recorded: impl Into<Value>, now: impl Into<Value>) -> Value {
    json!({"recorded": recorded.into(), "now": now.into()})
}

#[tokio::test]
async fn the_same_agent_comes_to_the_same_and_runs_no_tool() -> Result<()> {
    let (stage, agent) = stage().await?;
    let cli = stage.cli();
    let id = decided(&stage, &agent, &["approve", "--yes"]).await?;
    let denied = decided(&stage, &agent, &["deny", "--reason", "not now"]).await?;

    let run = cli.one(&["replay", &id, "--against", &agent]).await?;
    ensure!(run["outcome"] == both("completed", "completed"), "{run}");
    ensure!(run["divergence"].is_null() && run["steps"] == both(3, 3), "{run}");
    ensure!(run["tool_calls"] == json!({"served": 3, "unrecorded": 0, "live": 0}), "{run}");
    ensure!(run["tokens"]["recorded"] == run["tokens"]["now"], "{run}");
    ensure!(ran(&stage, &id)? == 2, "a tool ran");

    let run = cli.one(&["replay", &denied, "--against", &agent, "--tools", "deny"]).await?;
    ensure!(run["divergence"].is_null() && run["steps"] == both(2, 2), "{run}");
    ensure!(run["tool_calls"] == json!({"served": 0, "unrecorded": 0, "live": 0}), "{run}");

    let other = r#"{"command": "echo y > ran; echo two"}"#;
    let edited = decided(&stage, &agent, &["approve", "--yes", "--arguments", other]).await?;
    let run = cli.one(&["replay", &edited, "--against", &agent, "--tools", "deny"]).await?;
    ensure!(run["divergence"].is_null() && run["steps"] == both(3, 3), "{run}");
    ensure!(run["tool_calls"] == json!({"served": 3, "unrecorded": 0, "live": 0}), "{run}");

    let before = cli.json(&["ls"]).await?;
    // A file needs no server.
    let file = stage.root().join("x.stepwell.jsonl").to_string_lossy().into_owned();
    cli.run(&["export", &id, "--fixture", "-o", &file]).await?.expect(0)?;
    let alone = Cli::new("http://127.0.0.1:9", stage.root());
    let run = alone.one(&["replay", &file, "--against", &agent, "--diff"]).await?;
    ensure!(run["divergence"].is_null() && run["differences"] == json!([]), "{run}");

    // The table over all that the filters leave.
    let words = ["replay", "--all", "--label", "suite=x", "--status", "completed"];
    let table = cli.run(&[&words[..], &["--against", &agent]].concat()).await?;
    table.expect(0)?;
    ensure!(table.stdout.contains("completed → completed"), "{}", table.stdout);
    ensure!(table.stdout.contains("3 as recorded, 0 diverged, 0 without an end"));
    let few = cli.json(&[&words[..], &["--limit", "1", "--against", &agent]].concat()).await?;
    ensure!(few.len() == 1, "{few:?}");
    let none = cli.json(&["replay", "--all", "--label", "suite=y", "--against", &agent]).await?;
    ensure!(none.is_empty(), "{none:?}");
    ensure!(cli.json(&["ls"]).await? == before, "the server was written to");
    Ok(())
}

#[tokio::test]
async fn other_instructions_alone_are_no_divergence_and_are_told_with_diff() -> Result<()> {
    let (stage, agent) = stage().await?;
    let id = decided(&stage, &agent, &["approve", "--yes"]).await?;
    let changed = agent_with(&TOOLS, "").replace("You test.", "You try.");
    let changed = stage.write("changed.toml", &changed)?;
    let run = stage.cli().one(&["replay", &id, "--against", &changed, "--diff"]).await?;
    ensure!(run["divergence"].is_null(), "{run}");
    let first = &run["differences"][0];
    ensure!(first["step"] == 0 && first["what"] == "instructions", "{first}");
    ensure!(first["a"] == "You test." && first["b"] == "You try.", "{first}");
    let shown = stage.cli().run(&["replay", &id, "--against", &changed, "--diff"]).await?;
    shown.expect(0)?;
    ensure!(shown.stdout.contains("first difference: the beginning, instructions"));
    Ok(())
}

#[tokio::test]
async fn a_call_that_is_not_in_the_record_is_told_denied_or_run() -> Result<()> {
    let (stage, agent) = stage().await?;
    let cli = stage.cli();
    let id = decided(&stage, &agent, &["approve", "--yes"]).await?;
    let (_model, allowing) = other(&stage, ALLOW).await?;

    let run = cli.one(&["replay", &id, "--against", &allowing]).await?;
    ensure!(run["outcome"] == both("completed", "completed"), "{run}");
    ensure!(run["divergence"]["step"] == 2, "{run}");
    ensure!(run["divergence"]["what"] == "what the model said", "{run}");
    ensure!(run["tool_calls"] == json!({"served": 2, "unrecorded": 1, "live": 0}), "{run}");

    let run = cli.one(&["replay", &id, "--against", &allowing, "--tools", "deny"]).await?;
    ensure!(run["outcome"] == both("completed", "left_the_record"), "{run}");
    ensure!(run["reason"].as_str().is_some_and(|it| it.contains("call 2.1: shell")), "{run}");
    ensure!(run["steps"] == both(3, 2) && run["divergence"]["step"] == 2, "{run}");

    let folder: PathBuf = stage.root().join("live");
    let live = folder.to_string_lossy().into_owned();
    let words = ["replay", &id, "--against", &allowing, "--tools", "live", "--workspaces", &live];
    let run = cli.one(&words).await?;
    ensure!(run["tool_calls"] == json!({"served": 2, "unrecorded": 0, "live": 1}), "{run}");
    ensure!(std::fs::read_to_string(folder.join(&id).join("made"))? == "new\n");
    ensure!(!folder.join(&id).join("ran").exists() && ran(&stage, &id)? == 2, "a served tool ran");
    let again = cli.run(&words).await?;
    again.expect(1)?;
    ensure!(again.stdout.contains("is there already"), "{}", again.stdout);
    Ok(())
}

#[tokio::test]
async fn a_run_that_ends_worse_exits_with_3_and_costs_are_shown_with_their_prices() -> Result<()> {
    let (stage, agent) = stage().await?;
    let cli = stage.cli();
    let id = decided(&stage, &agent, &["approve", "--yes"]).await?;
    let short = agent_with(&TOOLS, "[limits]\nsteps = 1");
    let short = stage.write("short.toml", &short)?;
    let prices = "[prices.mock]\nprompt = 1.0\ncached = 0.0\ncompletion = 0.0\n";
    let config = stage.write("prices.toml", prices)?;
    let words = ["--config", &config, "replay", &id, "--against", &short];
    let ran = cli.run(&[&words[..], &["--json"]].concat()).await?;
    ran.expect(3)?;
    ensure!(ran.stderr.contains("1 of 1 run failed where the recorded one"), "{}", ran.stderr);
    let lines = ran.lines()?;
    let run = lines.first().context("no line")?;
    ensure!(run["outcome"] == both("completed", "limit_reached"), "{run}");
    for side in ["recorded", "now"] {
        let tokens = &run["tokens"][side];
        let read = tokens["in"].as_u64().zip(tokens["cached"].as_u64()).map(|(all, hit)| all - hit);
        ensure!(run["cost_micros"][side].as_u64() == read && read.is_some(), "{run}");
    }
    let table = cli.run(&words).await?;
    table.expect(3)?;
    ensure!(table.stdout.contains("COST"), "{}", table.stdout);
    Ok(())
}

#[tokio::test]
async fn an_action_that_nobody_approved_is_denied_with_the_reason() -> Result<()> {
    let (stage, agent) = stage().await?;
    let cli = stage.cli();
    let id = decided(&stage, &agent, &["approve", "--yes"]).await?;
    let (_model, asking) = other(&stage, "").await?;
    let live = stage.root().join("live").to_string_lossy().into_owned();
    for (more, outcome) in [
        (&["--tools", "recorded"][..], "completed"),
        (&["--tools", "live", "--workspaces", &live], "completed"),
        (&["--tools", "deny"], "left_the_record"),
    ] {
        let words = [&["replay", &id, "--against", &asking, "--diff"], more].concat();
        let run = cli.one(&words).await?;
        ensure!(run["outcome"] == both("completed", outcome), "{more:?} {run}");
        ensure!(run["tool_calls"] == json!({"served": 2, "unrecorded": 1, "live": 0}), "{run}");
        if outcome == "completed" {
            ensure!(run.to_string().contains("nobody was asked about this action"), "{run}");
        }
    }
    ensure!(!stage.root().join("live").join(&id).join("made").exists());
    Ok(())
}

#[tokio::test]
async fn people_say_again_what_they_said() -> Result<()> {
    let stage = Stage::embedded(SCRIPT).await?;
    let cli = stage.cli();
    let agent =
        stage.write("agent.toml", &format!("interactive = true\n{}", agent_with(&TOOLS, "")))?;
    let id = submitted(&stage, &agent, "Choose a colour.").await?;
    stage.api.until_status(&id, SessionStatus::WaitingInput).await?;
    cli.run(&["send", &id, "blue"]).await?.expect(0)?;
    let until_step = async |step: &str| {
        stage
            .api
            .until_event(&id, "the reply", |it| {
                it.kind == "model_replied" && it.text("content") == step
            })
            .await
    };
    until_step("Fine.").await?;
    cli.run(&["send", &id, "and more"]).await?.expect(0)?;
    until_step("More.").await?;

    let run = cli.one(&["replay", &id, "--against", &agent, "--timeout", "50s"]).await?;
    ensure!(run["outcome"] == both("open", "open"), "{run}");
    ensure!(run["divergence"].is_null() && run["steps"] == both(3, 3), "{run}");
    ensure!(run["tool_calls"] == json!({"served": 1, "unrecorded": 0, "live": 0}), "{run}");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_run_says_why() -> Result<()> {
    let (stage, agent) = stage().await?;
    let cli = stage.cli();
    let id = submitted(&stage, &agent, "A slow task.").await?;
    stage.api.until_status(&id, SessionStatus::Completed).await?;
    let (_model, hanging) = other(&stage, "").await?;
    let words = ["replay", &id, "--against", &hanging, "--timeout", "300ms", "--json"];
    let ran = cli.run(&words).await?;
    ran.expect(1)?;
    let run = ran.lines()?.pop().context("no line")?;
    ensure!(run["outcome"] == both("completed", "timed_out"), "{run}");
    ensure!(run["error"].as_str().is_some_and(|it| it.contains("--timeout")), "{run}");

    let wrong = stage.write("wrong.toml", "name = \"x\"\ntools = [\"nothing\"]\n")?;
    let keyed = agent_with(&TOOLS, "[model]\napi_key_env = \"SECRET\"\n");
    let keyed = stage.write("keyed.toml", &keyed)?;
    for (words, code, told) in [
        (&["replay", &id, "--against", &keyed][..], 1, "is not sent one"),
        (&["replay", &id, "--against", &wrong][..], 1, "nothing"),
        (&["replay", &id, "--against", "/nowhere.toml"], 1, "cannot open /nowhere.toml"),
        (&["replay", "none.stepwell", "--against", &agent], 1, "cannot open none.stepwell"),
        (&["replay", &id, "--against", &agent, "--tools", "live"], 2, "--workspaces DIR"),
        (&["replay", &id, "--against", &agent, "--workspaces", "w"], 2, "--tools live"),
    ] {
        let ran = cli.run(words).await?;
        ran.expect(code)?;
        let all = format!("{}{}", ran.stdout, ran.stderr);
        ensure!(all.contains(told), "{words:?}: {all}");
    }
    Ok(())
}

#[tokio::test]
async fn a_model_that_gives_no_answer_makes_no_run_and_is_named() -> Result<()> {
    let (stage, agent) = stage().await?;
    let cli = stage.cli();
    let id = decided(&stage, &agent, &["approve", "--yes"]).await?;
    // Nobody listens on the first; the second serves no model under that path.
    let closed = format!("http://{}/v1", stepwell_tests::free_address()?);
    let wrong = format!("{}/nowhere", stage.model.url());
    for (url, told) in [(&closed, "refused"), (&wrong, "404")] {
        let named = format!("[model]\nname = \"m\"\nbase_url = \"{url}\"\n");
        let other = stage.write("dead.toml", &agent_with(&TOOLS, &named))?;
        let ran = cli.run(&["replay", &id, "--against", &other, "--json"]).await?;
        ran.expect(1)?;
        let run = ran.lines()?.pop().context("no line")?;
        ensure!(run["outcome"] == both("completed", "no_model"), "{run}");
        ensure!(run["divergence"].is_null(), "{run}");
        for key in ["reason", "error"] {
            let words = run[key].as_str().unwrap_or_default();
            ensure!(words.contains(url.trim_end_matches("/v1")) && words.contains(told), "{run}");
        }
        let table = cli.run(&["replay", &id, "--against", &other]).await?;
        table.expect(1)?;
        ensure!(table.stdout.contains("completed → no_model"), "{}", table.stdout);
        ensure!(table.stdout.contains("the model gave no answer"), "{}", table.stdout);
    }
    Ok(())
}

#[tokio::test]
async fn what_lapsed_lapses_again_and_what_sleeps_for_ever_is_left_open() -> Result<()> {
    let stage = Stage::embedded(PATIENT_SCRIPT).await?;
    let cli = stage.cli();
    let lapsing = agent_with(&TOOLS, "[approval]\nexpires_after = \"1s\"\n");
    let agent = stage.write("agent.toml", &lapsing)?;
    let id = submitted(&stage, &agent, "Run it.").await?;
    stage.api.until_status(&id, SessionStatus::Completed).await?;
    let run = cli.one(&["replay", &id, "--against", &agent, "--diff"]).await?;
    ensure!(run["outcome"] == both("completed", "completed"), "{run}");
    ensure!(run["divergence"].is_null() && run["differences"] == json!([]), "{run}");

    let id = submitted(&stage, &agent, "Sleep.").await?;
    stage.api.until_status(&id, SessionStatus::Sleeping).await?;
    let run = cli.one(&["replay", &id, "--against", &agent]).await?;
    ensure!(run["outcome"] == both("open", "open") && run["error"].is_null(), "{run}");
    ensure!(run["divergence"].is_null(), "{run}");
    Ok(())
}

#[tokio::test]
async fn ctrl_c_ends_the_runs_and_leaves_nothing() -> Result<()> {
    let (stage, agent) = stage().await?;
    let id = submitted(&stage, &agent, "A slow task.").await?;
    stage.api.until_status(&id, SessionStatus::Completed).await?;
    let (_model, hanging) = other(&stage, "").await?;
    let child = stage.cli().command(&["replay", &id, "--against", &hanging, "--json"])?.spawn()?;
    let pid = i32::try_from(child.id().context("it has ended")?)?;
    until_caught(pid, Signal::SIGINT).await?;
    kill(Pid::from_raw(pid), Signal::SIGINT)?;
    let ended = tokio::time::timeout(SOON, child.wait_with_output()).await??;
    ensure!(ended.status.code() == Some(130) && ended.stdout.is_empty(), "{ended:?}");
    ensure!(String::from_utf8_lossy(&ended.stderr).contains("interrupted"), "{ended:?}");
    Ok(())
}
