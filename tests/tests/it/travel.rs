//! Time travel with the real binary: past moments, exact prompts, replay, forks, comparison, steps.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use stepwell_proto::v1::{ApprovalDecision, SessionStatus};
use stepwell_tests::{Ev, Stage, agent_with};

/// The model swaps the wrong numbers, unless the file that it read says what is right.
const SCRIPT: &str = r#"
[[step]]
content = "I look which test fails."
tool_calls = [{ name = "shell", arguments = { command = "node --test" } }]

[[step]]
content = "I read the code."
tool_calls = [{ name = "read_file", arguments = { path = "src/dates.js" } }]

[[step]]
step = 3
when_last = "the day comes first"
content = "The day comes first."
tool_calls = [{ name = "edit_file", arguments = { path = "src/dates.js", old_text = "[, month, day, year]", new_text = "[, day, month, year]" } }]

[[step]]
step = 3
content = "The year must come first."
tool_calls = [{ name = "edit_file", arguments = { path = "src/dates.js", old_text = "[, month, day, year]", new_text = "[, year, month, day]" } }]

[[step]]
content = "The tests again."
tool_calls = [{ name = "shell", arguments = { command = "node --test" } }]

[[step]]
step = 5
when_last = "exit code 0"
content = "All green."

[[step]]
step = 5
content = "I give up."
"#;

const RULES: &str = "[[approval.rules]]\ntool = \"*\"\nverdict = \"allow\"";

const PROJECT: &str = "../crates/stepwell-cli/src/demo/project";

/// The demo's project in a workspace of that name.
fn project(stage: &Stage, name: &str) -> Result<()> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(PROJECT);
    let to = stage.server.data().join("workspaces").join(name);
    for file in ["package.json", "src/dates.js", "test/dates.test.js"] {
        let place = to.join(file);
        std::fs::create_dir_all(place.parent().context("no folder")?)?;
        std::fs::copy(from.join(file), place)?;
    }
    Ok(())
}

async fn submitted(stage: &Stage, workspace: &str) -> Result<String> {
    let agent = agent_with(&["shell", "read_file", "edit_file"], RULES);
    let agent = stage.write("agent.toml", &agent)?;
    let words = ["submit", "--agent", &agent, "--workspace", workspace, "Mend the dates."];
    let session = stage.cli().one(&words).await?;
    Ok(session["session_id"].as_str().context("no id")?.to_owned())
}

fn green(stage: &Stage, workspace: &str) -> Result<bool> {
    let folder = stage.server.data().join("workspaces").join(workspace);
    let ran = std::process::Command::new("node").arg("--test").current_dir(folder).output()?;
    Ok(ran.status.success())
}

/// The tutorial of docs/debugging-a-failed-session.md.
#[tokio::test]
async fn a_failed_session_is_replayed_forked_with_one_other_result_and_ends_green() -> Result<()> {
    let stage = Stage::embedded(SCRIPT).await?;
    project(&stage, "broken")?;
    project(&stage, "mended")?;
    let (cli, id) = (stage.cli(), submitted(&stage, "broken").await?);
    stage.api.until_status(&id, SessionStatus::Completed).await?;
    let shown = cli.one(&["show", &id]).await?;
    ensure!(shown["answer"] == "I give up." && !green(&stage, "broken")?, "{shown}");

    let replayed = cli.one(&["replay", &id]).await?;
    ensure!(replayed["verdict"] == "same" && replayed["events"] == shown["head_seq"], "{replayed}");

    let before = cli.one(&["show", &id, "--at", "9", "--messages=1"]).await?;
    ensure!(before["head_seq"] == 9 && before["open_calls"][0]["call_id"] == "2.1", "{before}");

    let read = std::fs::read_to_string(stage.server.data().join("workspaces/mended/src/dates.js"))?;
    let hinted = stage.write("hinted.js", &format!("// the day comes first\n{read}"))?;
    let result = format!("2.1=@{hinted}");
    let dry = cli.one(&["fork", &id, "--result", &result, "--dry-run"]).await?;
    ensure!(dry["session"] == Value::Null && dry["shares_workspace"] == true, "{dry}");
    let again: Vec<&Value> =
        dry["hazards"].as_array().context("no list")?.iter().map(|it| &it["tool"]).collect();
    ensure!(again == ["edit_file", "shell"], "{again:?}");

    let forked = cli.one(&["fork", &id, "--result", &result, "--workspace", "mended"]).await?;
    let fork = forked["session"]["session_id"].as_str().context("no fork")?.to_owned();
    stage.api.until_status(&fork, SessionStatus::Completed).await?;
    let shown = cli.one(&["show", &fork]).await?;
    ensure!(shown["answer"] == "All green." && shown["parent_id"] == json!(id), "{shown}");
    ensure!(green(&stage, "mended")? && !green(&stage, "broken")?);

    let differences = cli.json(&["diff", &id, &fork]).await?;
    let first = differences.first().context("no difference")?;
    ensure!(first["step"] == 2 && first["what"] == "result of call 2.1", "{first}");
    let replayed = cli.one(&["replay", &fork]).await?;
    ensure!(replayed["verdict"] == "same", "{replayed}");
    let all = cli.run(&["replay", "--all"]).await?;
    all.expect(0)?;
    ensure!(all.stdout.contains("2 the same, 0 diverged"), "{}", all.stdout);
    Ok(())
}

#[tokio::test]
async fn the_exact_prompt_of_every_step_is_printed_and_compared() -> Result<()> {
    let stage = Stage::embedded(SCRIPT).await?;
    project(&stage, "broken")?;
    let (cli, id) = (stage.cli(), submitted(&stage, "broken").await?);
    stage.api.until_status(&id, SessionStatus::Completed).await?;
    let mut before = String::new();
    for step in 1..=5 {
        let printed = cli.run(&["prompt", &id, "--step", &step.to_string()]).await?;
        printed.expect(0)?;
        let body = printed.stdout;
        ensure!(body.starts_with(before.trim_end_matches("]}")), "step {step} begins otherwise");
        let parsed: Value = serde_json::from_str(&body)?;
        ensure!(parsed["messages"].as_array().map(Vec::len) == Some(2 * step), "step {step}");
        before = body;
    }
    let diff = cli.one(&["prompt", &id, "--diff", "2", "3"]).await?;
    ensure!(diff["same_messages"] == 4 && diff["same_head"] == true, "{diff}");
    ensure!(diff["added"].as_array().map(Vec::len) == Some(2), "{diff}");
    let missing = cli.run(&["prompt", &id, "--step", "9"]).await?;
    missing.expect(1)?;
    ensure!(missing.stderr.contains("did not ask the model in step 9"), "{}", missing.stderr);
    let later = cli.run(&["show", &id, "--at", "999"]).await?;
    later.expect(1)?;
    ensure!(later.stderr.contains("has no event 999"), "{}", later.stderr);
    Ok(())
}

#[tokio::test]
async fn a_session_is_stepped_through_one_thing_at_a_time() -> Result<()> {
    let stage = Stage::embedded(SCRIPT).await?;
    project(&stage, "stepped")?;
    let cli = stage.cli();
    let agent = agent_with(&["shell", "read_file", "edit_file"], RULES);
    let agent = stage.write("agent.toml", &agent)?;
    let words = ["submit", "--paused", "--agent", &agent, "--workspace", "stepped", "Mend it."];
    let session = cli.one(&words).await?;
    ensure!(session["status"] == "paused" && session["head_seq"] == 1, "{session}");
    let id = session["session_id"].as_str().context("no id")?.to_owned();
    let explained = cli.one(&["explain", &id]).await?;
    let why = explained["explain"].as_str().context("no sentence")?;
    ensure!(why.contains("paused") && why.contains("step 1 is about to begin"), "{why}");
    let mut owed = Vec::new();
    for _ in 0..9 {
        let events = cli.json(&["step", &id]).await?;
        let is_owed =
            |it: &&Value| it["type"] == "model_requested" || it["type"] == "tool_scheduled";
        owed.push(events.iter().filter(is_owed).count());
    }
    ensure!(owed == [1; 9], "{owed:?}");
    cli.json(&["step", &id]).await?;
    stage.api.until_status(&id, SessionStatus::Completed).await?;
    let refused = cli.run(&["step", &id]).await?;
    refused.expect(1)?;
    Ok(())
}

#[tokio::test]
async fn a_fork_that_does_not_fit_says_why_and_makes_nothing() -> Result<()> {
    let stage = Stage::embedded(SCRIPT).await?;
    project(&stage, "broken")?;
    let (cli, id) = (stage.cli(), submitted(&stage, "broken").await?);
    stage.api.until_status(&id, SessionStatus::Completed).await?;
    for (words, told) in [
        (&["--result", "9.9=x"][..], "there is no call 9.9"),
        (&["--at", "999", "--message", "hi"], "has no event 999"),
        (&["--at", "2", "--result", "1.1=x"], "was not asked for yet, it is open from event"),
        (&["--at", "20", "--result", "2.1=x"], "has its result, it is open from event"),
        (&["--at", "2", "--reply", "2=x"], "the reply of step 2 is not awaited, but at event"),
        (&["--at", "9", "--arguments", "1.1={}"], "right after the model asked for it, at event"),
        (&["--arguments", "1.1={\"nonsense\":1}"], "the arguments of call 1.1: "),
        (&["--reply", "9=x"], "the model gave no reply in step 9"),
        (&["--reply", "x=y"], "--reply x=…: \"x\" is no step, they are counted from 1"),
        (&["--reply", "0=y"], "--reply 0=…: \"0\" is no step, they are counted from 1"),
        (&["--result", "nine=x"], "--result nine=…: \"nine\" is no call id: write STEP.PLACE"),
        (&["--result", "1.1"], "has no `=`"),
        (&["--at", "9", "--base-url", "notaurl"], "--base-url: must begin with http"),
        (&["--at", "9", "--base-url", "http://a:secret@127.0.0.1:1/v1"], "a user or password"),
        (&["--at", "9", "--model", ""], "a value is required for '--model"),
        (&["--at", "9", "--model", " "], "--model: is empty"),
    ] {
        let ran = cli.run(&[&["fork", &id], words].concat()).await?;
        ensure!(ran.code != Some(0) && ran.stderr.contains(told), "{words:?}: {}", ran.stderr);
    }
    let sessions = cli.json(&["ls"]).await?;
    ensure!(sessions.len() == 1, "{sessions:?}");
    Ok(())
}

/// Two write tools at once; the file gets a line for each time that the command runs.
const BOTH: &str = r#"
[[step]]
content = "Both at once."
tool_calls = [
    { name = "write_file", arguments = { path = "note.txt", content = "a note" } },
    { name = "shell", arguments = { command = "echo ran >> ran.txt" } },
]

[[step]]
content = "Done."
"#;

fn runs(stage: &Stage, workspace: &str) -> Result<usize> {
    let file = stage.server.data().join("workspaces").join(workspace).join("ran.txt");
    Ok(std::fs::read_to_string(file)?.lines().count())
}

fn id_of(forked: &Value) -> Result<String> {
    Ok(forked["session"]["session_id"].as_str().context("no fork")?.to_owned())
}

#[tokio::test]
async fn a_fork_asks_what_became_of_a_write_tool_that_was_on_its_way() -> Result<()> {
    let stage = Stage::embedded(BOTH).await?;
    let (api, cli) = (&stage.api, stage.cli());
    let id = api.create("Do both.", &agent_with(&["shell", "write_file"], RULES)).await?;
    api.until_status(&id, SessionStatus::Completed).await?;
    let events = api.events(&id).await?;
    let started = |it: &&Ev| it.kind == "tool_dispatched" && it.call_id() == "1.2";
    let at = events.iter().find(started).context("it never ran")?.seq;
    let words = ["fork", &id, "--at", &at.to_string()];

    let dry = cli.one(&[&words[..], &["--dry-run"]].concat()).await?;
    let hazards = dry["hazards"].as_array().context("no list")?;
    let shell = hazards.iter().find(|it| it["call_id"] == "1.2").context("it is not listed")?;
    ensure!(shell["seq"] == at && shell["ending"] == "ok", "{dry}");
    let told = cli.run(&[&words[..], &["--dry-run"]].concat()).await?;
    ensure!(told.stdout.contains("the fork asks a person what became of it"), "{}", told.stdout);
    let told = cli.run(&["fork", &id, "--error", "1.2=boom", "--dry-run"]).await?;
    let line = told.stdout.lines().find(|it| it.starts_with("  1.2  shell")).unwrap_or_default();
    ensure!(line.contains("stays done; the fork is told otherwise"), "{}", told.stdout);

    let fork = id_of(&cli.one(&words).await?)?;
    // Both were given away at once, so both are asked about.
    let mut asked_about = BTreeSet::new();
    while asked_about.len() < 2 {
        let asked = api.until_approval(&fork).await?;
        ensure!(asked.question == "what_happened", "{asked:?}");
        api.decide(&asked.approval_id, ApprovalDecision::Happened).await?;
        ensure!(asked_about.insert(asked.call_id.clone()), "{asked:?}");
    }
    ensure!(asked_about.contains("1.2"), "{asked_about:?}");
    api.until_status(&fork, SessionStatus::Completed).await?;
    ensure!(runs(&stage, &id)? == 1, "the fork ran it again");
    let replayed = cli.one(&["replay", &fork]).await?;
    ensure!(replayed["verdict"] == "same", "{replayed}");
    Ok(())
}

#[tokio::test]
async fn a_fork_asks_again_what_a_person_allowed_in_its_source() -> Result<()> {
    let stage = Stage::embedded(BOTH).await?;
    let (api, cli) = (&stage.api, stage.cli());
    let rules = RULES.replace('*', "write_file");
    let id = api.create("Do both.", &agent_with(&["shell", "write_file"], &rules)).await?;
    let asked = api.until_approval(&id).await?;
    let edited = json!({ "command": "echo edited >> ran.txt" });
    let words = ["approve", &asked.approval_id, "--arguments", &edited.to_string(), "--by", "ann"];
    cli.run(&words).await?.expect(0)?;
    api.until_status(&id, SessionStatus::Completed).await?;

    let tree = cli.run(&["tree", &id]).await?;
    ensure!(tree.stdout.contains("echo edited"), "{}", tree.stdout);
    let events = api.events(&id).await?;
    let decided = events.iter().find(|it| it.kind == "approval_decided").context("not decided")?;
    for event in events.iter().filter(|it| it.seq >= decided.seq && it.call_id() == "1.2") {
        if event.kind == "tool_dispatched" || event.kind == "tool_finished" {
            continue;
        }
        let words = ["fork", &id, "--at", &event.seq.to_string()];
        let dry = cli.one(&[&words[..], &["--dry-run"]].concat()).await?;
        let told = dry["hazards"].to_string();
        ensure!(told.contains("echo edited") && !told.contains("echo ran"), "{told}");
        let fork = id_of(&cli.one(&words).await?)?;
        let again = api.until_approval(&fork).await?;
        ensure!(again.question == "may_run" && again.call_id == "1.2", "{again:?}");
        ensure!(serde_json::from_str::<Value>(&again.arguments)? == edited, "{again:?}");
        ensure!(again.approval_id != format!("{fork}.{}", decided.number("approval_id")));
        ensure!(runs(&stage, &id)? == 1, "the fork ran it");
        let replayed = cli.one(&["replay", &fork]).await?;
        ensure!(replayed["verdict"] == "same", "{replayed}");
    }
    Ok(())
}

#[tokio::test]
async fn a_held_fork_has_no_leave_of_its_sources_single_step() -> Result<()> {
    let stage = Stage::embedded(BOTH).await?;
    let (api, cli) = (&stage.api, stage.cli());
    let agent = stage.write("agent.toml", &agent_with(&["shell", "write_file"], RULES))?;
    let held = cli.one(&["submit", "--paused", "--agent", &agent, "Do both."]).await?;
    let id = held["session_id"].as_str().context("no id")?.to_owned();
    cli.json(&["step", &id]).await?;
    api.until_event(&id, "a reply", |it| it.kind == "model_replied").await?;
    cli.json(&["step", &id]).await?;
    let is_scheduled = |it: &Ev| it.kind == "tool_scheduled";
    let scheduled = api.until_event(&id, "a call", is_scheduled).await?;
    let at = scheduled.seq.to_string();
    let fork = id_of(&cli.one(&["fork", &id, "--at", &at, "--paused"]).await?)?;
    let shown = cli.one(&["show", &fork]).await?;
    ensure!(shown["status"] == "paused" && shown["head_seq"] == scheduled.seq + 1, "{shown}");
    let parent = cli.one(&["show", &id]).await?;
    ensure!(shown["created_at_ms"].as_u64() > parent["created_at_ms"].as_u64(), "{shown}");
    Ok(())
}
