//! Exports without what must not leave the house.

use anyhow::{Result, ensure};
use stepwell_archive::redact::marker;
use stepwell_proto::v1::{ReplaySessionRequest, SessionStatus};
use stepwell_tests::{Api, Stage, agent_with};

use super::{Desk, LOOKER, by_hand, export, history, text, verdict};

const KEY: &str = "sk-abcdefghijklmnopqrstuvwxyz";

#[tokio::test]
async fn secrets_and_chosen_fields_stay_here() -> Result<()> {
    let stage = Stage::counting(LOOKER).await?;
    let task = format!("Look with the key {KEY} at ticket TCK-4711. {}", "x ".repeat(10_000));
    let session_id = stage.api.create(&task, &agent_with(&["look"], "")).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let cli = stage.cli();
    let rules = "[[secret]]\nname = \"ticket\"\npattern = \"TCK-[0-9]+\"\n\
                 [[field]]\nevent = \"tool_finished\"\npointer = \"/output\"\n";
    let rules = stage.write("rules.toml", rules)?;
    let path = stage.root().join("clean.stepwell.jsonl").to_string_lossy().into_owned();
    let made = cli.one(&["export", &session_id, "-o", &path, "--redact", &rules]).await?;
    ensure!(made["redacted_events"].as_u64() >= Some(2), "{made}");
    let anchor = cli.one(&["anchor", &session_id]).await?;
    ensure!(text(&made, "original_head_hash") == text(&anchor, "head_hash"), "{made}");
    ensure!(text(&made, "head_hash") != text(&anchor, "head_hash"), "{made}");

    let file = std::fs::read_to_string(&path)?;
    ensure!(!file.contains(KEY) && !file.contains("TCK-4711"), "{file}");
    ensure!(file.contains("[redacted api_key bytes:29 blake3:"));
    ensure!(file.contains("[redacted ticket bytes:8 blake3:"));
    ensure!(file.contains("\"redacted\":[\"/task\",\"/title\"]"));
    ensure!(verdict(&cli, &[&path], 0).await? == "redacted");
    let anchors = stage.write("anchor.jsonl", &format!("{anchor}\n"))?;
    ensure!(verdict(&cli, &[&path, "--anchor", &anchors], 0).await? == "redacted");

    let asked = cli.run(&["prompt", &path, "--step", "1"]).await?;
    asked.expect(0)?;
    ensure!(asked.stdout.contains("[redacted api_key") && !asked.stdout.contains(KEY));
    ensure!(asked.stderr.contains("texts were removed from the session"), "{}", asked.stderr);

    let desk = Desk::new(&stage).await?;
    desk.cli().one(&["import", &path]).await?;
    let there = history(&desk.cli(), &session_id, &["--whole"]).await?;
    ensure!(there.contains("[redacted field bytes:") && !there.contains(KEY), "{there}");
    let replayed = desk.cli().run(&["replay", &session_id]).await?;
    replayed.expect(0)?;
    ensure!(replayed.stdout.contains("decisions not checked"), "{}", replayed.stdout);
    let request = ReplaySessionRequest { session_id: session_id.clone(), until_seq: 0 };
    let api = Api::connect(&desk.server.url()).await?;
    let played = api.history().replay_session(request).await?.into_inner();
    ensure!(played.verdict == "same" && played.unchecked > 0, "{played:?}");
    // Out again, with rules and without, the file still says what it is, and of which history.
    for more in [&[][..], &["--redact", &rules]] {
        let again = stage.root().join(format!("again-{}.stepwell", more.len()));
        let again = again.to_string_lossy().into_owned();
        let words = [&["export", &session_id, "-o", &again], more].concat();
        let out = desk.cli().one(&words).await?;
        ensure!(text(&out, "original_head_hash") == text(&anchor, "head_hash"), "{out}");
        ensure!(verdict(&cli, &[&again], 0).await? == "redacted");
        ensure!(verdict(&cli, &[&again, "--anchor", &anchors], 0).await? == "redacted");
        let replayed = cli.run(&["replay", &again]).await?;
        replayed.expect(0)?;
        ensure!(replayed.stdout.contains("decisions not checked"), "{}", replayed.stdout);
    }
    ensure!(verdict(&desk.cli(), &["--anchor", &anchors], 0).await? == "redacted");
    let other = stage.write(
        "other.jsonl",
        &format!("{anchor}\n").replace("head_hash\":\"", "head_hash\":\"0"),
    )?;
    ensure!(verdict(&desk.cli(), &["--anchor", &other], 1).await? == "rewritten");
    let ran = cli.run(&["import", &path]).await?;
    ran.expect(1)?;
    ensure!(ran.stderr.contains("redacted"), "{}", ran.stderr);
    Ok(())
}

/// Prints so much that only the beginning and the end are shown; the first cut goes through a key.
const PRINTER: &str = r#"
[[step]]
[[step.tool_calls]]
name = "shell"
arguments = { command = "head -c 8165 /dev/zero | tr '\\0' x; echo; printf 'g%s' hp_; seq -s '' 10 27; seq 1 9000" }

[[step]]
content = "Done."
"#;

/// What Stepwell itself cut (an output, a title, a preview) keeps no piece of a secret.
#[tokio::test]
async fn a_secret_across_a_cut_leaves_no_piece() -> Result<()> {
    let stage = Stage::embedded(PRINTER).await?;
    let key = "ghp_zyxwvutsrqponmlkjihgfedcba9876543210";
    let task = format!("{} {key}", "w".repeat(60));
    let allowing = "[[approval.rules]]\ntool = \"shell\"\nverdict = \"allow\"\n";
    let session_id = stage.api.create(&task, &agent_with(&["shell"], allowing)).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let before = history(&stage.cli(), &session_id, &["--whole"]).await?;
    ensure!(before.contains("ghp_10111213") && before.contains("bytes left out"), "{before}");
    let unused = "[[field]]\nevent = \"message_received\"\npointer = \"/content\"\n";
    let rules = stage.write("rules.toml", unused)?;
    for more in [&["--fixture"][..], &[]] {
        let path = stage.root().join(format!("pieces-{}.jsonl", more.len()));
        let path = path.to_string_lossy().into_owned();
        let words = [&["export", &session_id, "-o", &path, "--redact", &rules], more].concat();
        let made = stage.cli().one(&words).await?;
        ensure!(made["left"]["count"] == 0, "{made}");
        ensure!(made["unused_fields"][0] == "message_received /content", "{made}");
        let file = std::fs::read_to_string(&path)?;
        for piece in ["ghp_", "101112", "212223", "zyxw"] {
            ensure!(!file.contains(piece), "{piece} in {file}");
        }
        // What is shown is a payload too.
        let payloads = file.matches("{\"line\":\"blob\"").count();
        ensure!(payloads == if more.is_empty() { 2 } else { 1 }, "{payloads}");
        stage.cli().run(&["replay", &path]).await?.expect(0)?;
    }
    Ok(())
}

/// A text that only looks like a marker switches off nothing where nothing was taken out.
#[tokio::test]
async fn a_pasted_marker_hides_no_change() -> Result<()> {
    let mut stage = Stage::counting(LOOKER).await?;
    let task = format!("plain {}", marker("api_key", b"not ours"));
    let session_id = stage.api.create(&task, &agent_with(&["look"], "")).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let replayed = stage.cli().run(&["replay", &session_id]).await?;
    replayed.expect(0)?;
    ensure!(!replayed.stdout.contains("not checked"), "{}", replayed.stdout);
    let other = "UPDATE events SET body = json_set(body, '$.prompt_digest', '00') \
                 WHERE kind = 'model_requested'";
    by_hand(&mut stage, other).await?;
    let cli = stage.cli();
    cli.run(&["replay", &session_id]).await?.expect(3)?;
    let request = ReplaySessionRequest { session_id: session_id.clone(), until_seq: 0 };
    let played = stage.api.history().replay_session(request).await?.into_inner();
    ensure!(played.verdict == "diverged", "{played:?}");
    let file = export(&stage, &session_id, &[]).await?;
    cli.run(&["replay", &file]).await?.expect(3)?;
    for what in [&session_id, &file] {
        let asked = cli.run(&["prompt", what, "--step", "1"]).await?;
        asked.expect(1)?;
        ensure!(asked.stderr.contains("these are not the bytes"), "{}", asked.stderr);
    }
    Ok(())
}

/// A model that sleeps, runs what a rule forbids, and names a tool that there is not.
const RUNNER: &str = r#"
[[step]]
[[step.tool_calls]]
name = "sleep"
arguments = { seconds = 0.01 }
[[step.tool_calls]]
name = "shell"
arguments = { command = "sudo reboot" }
[[step.tool_calls]]
name = "peekSECRETZZ"
arguments = { what = "sky" }

[[step]]
content = "Done."
"#;

const RULES: &str = "[[approval.rules]]\ntool = \"shell\"\ncommands = [\"sudo\"]\nverdict = \"deny\"\n\
                     [[approval.rules]]\ntool = \"shell\"\narguments = { command = \"XSECRETZZ*\" }\n\
                     verdict = \"allow\"\n";

/// What rules of the agent, schemas and clocks look at may be taken out, and the replay stays honest.
#[tokio::test]
async fn a_redacted_session_replays_whatever_was_taken_out() -> Result<()> {
    let stage = Stage::embedded(RUNNER).await?;
    let agent = agent_with(&["sleep", "shell"], RULES);
    let session_id = stage.api.create("Run.", &agent).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let cli = stage.cli();
    let field = |pointer: &str, event: &str| {
        format!("[[field]]\nevent = \"{event}\"\npointer = \"{pointer}\"\n")
    };
    let secret = |name: &str, pattern: &str| {
        format!("[[secret]]\nname = \"{name}\"\npattern = \"{pattern}\"\n")
    };
    for (i, rules) in [
        field("/tool_calls/*/arguments", "model_replied"),
        field("/message", "tool_refused"),
        field("/agent/approval_rules/*/commands/*", "session_created"),
        secret("sudo", "reboot|SECRETZZ|seconds"),
        secret("z", "hello|echo|sudo"),
        secret("z", "[a-z]+"),
    ]
    .iter()
    .enumerate()
    {
        let rules = stage.write("rules.toml", rules)?;
        let path = stage.root().join(format!("{i}.stepwell")).to_string_lossy().into_owned();
        cli.run(&["export", &session_id, "-o", &path, "--redact", &rules]).await?.expect(0)?;
        let replayed = cli.run(&["replay", &path]).await?;
        replayed.expect(0)?;
        let said = &replayed.stdout;
        ensure!(said.contains("same") && said.contains("not checked"), "{i}: {said}");
        ensure!(!said.contains(" 1 decisions"), "{said}");
    }
    Ok(())
}

#[tokio::test]
async fn what_a_rule_finds_goes_or_is_told() -> Result<()> {
    let stage = Stage::embedded(RUNNER).await?;
    let agent = agent_with(&["sleep", "shell"], RULES).replace("tester", "NAMESECRETZZ");
    let session_id = stage.api.create("Run.", &agent).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let rules = "[[secret]]\nname = \"z\"\npattern = \"[a-zA-Z]+SECRETZZ\"\n";
    let rules = stage.write("rules.toml", rules)?;
    let path = stage.root().join("left.jsonl").to_string_lossy().into_owned();
    let words = ["export", &session_id, "-o", &path, "--force", "--redact", &rules];
    let ran = stage.cli().run(&words).await?;
    ran.expect(0)?;
    let told = ["still find something in 1 place ", "event 1 /agent/name"];
    ensure!(told.iter().all(|it| ran.stderr.contains(it)), "{}", ran.stderr);
    let file = std::fs::read_to_string(&path)?;
    ensure!(file.matches("SECRETZZ").count() == 1, "{file}");
    let made = stage.cli().one(&words).await?;
    ensure!(made["left"]["count"] == 1, "{made}");
    ensure!(made["left"]["places"][0]["pointer"] == "/agent/name", "{made}");
    ensure!(made["left"]["places"][0]["seq"] == 1, "{made}");
    Ok(())
}

#[tokio::test]
async fn rules_that_mean_nothing_are_refused_before_anything_is_written() -> Result<()> {
    let (stage, session_id) = super::completed().await?;
    let rules = stage.write("rules.toml", "secrets = [\"keys\"]")?;
    let path = stage.root().join("x.stepwell").to_string_lossy().into_owned();
    let words = ["export", &session_id, "-o", &path, "--redact", &rules];
    let ran = stage.cli().run(&words).await?;
    ran.expect(1)?;
    ensure!(ran.stderr.contains("no built-in rule \"keys\""), "{}", ran.stderr);
    ensure!(!stage.root().join("x.stepwell").exists());
    export(&stage, &session_id, &[]).await?;
    Ok(())
}
