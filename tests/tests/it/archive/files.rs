//! A file on a desk: everything that only reads a session reads it, without any server.

use anyhow::{Result, ensure};
use stepwell_tests::Cli;

use super::{completed, export, waiting};

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:9";

#[tokio::test]
async fn a_file_shows_what_the_server_shows() -> Result<()> {
    let (stage, id) = completed().await?;
    let file = export(&stage, &id, &[]).await?;
    let (here, desk) = (stage.cli(), Cli::new(NOWHERE, stage.root()));
    for words in [
        ["tree", "X", "--json"].as_slice(),
        &["events", "X"],
        &["events", "X", "--whole"],
        &["tail", "X"],
        &["prompt", "X", "--step", "2"],
        &["prompt", "X", "--diff", "1", "2"],
        &["show", "X", "--at", "4", "--json", "--messages=3"],
        &["replay", "X"],
    ] {
        let with =
            |what: &str| -> Vec<String> { words.iter().map(|it| it.replace('X', what)).collect() };
        let (served, filed) = (with(&id), with(&file));
        let served: Vec<&str> = served.iter().map(String::as_str).collect();
        let filed: Vec<&str> = filed.iter().map(String::as_str).collect();
        let (served, filed) = (here.run(&served).await?, desk.run(&filed).await?);
        served.expect(0)?;
        filed.expect(0)?;
        ensure!(served.stdout == filed.stdout, "{words:?}\n{}\n{}", served.stdout, filed.stdout);
    }
    let same = desk.run(&["diff", &file, &file]).await?;
    same.expect(0)?;
    ensure!(same.stdout.contains("the same in every step"), "{}", same.stdout);
    let mixed = here.run(&["diff", &id, &file]).await?;
    ensure!(mixed.stdout.contains("the same in every step"), "{}", mixed.stdout);
    let explained = desk.one(&["explain", &file]).await?;
    ensure!(explained["status"] == "completed" && explained["next"] == serde_json::json!([]));
    Ok(())
}

#[tokio::test]
async fn a_file_of_an_open_session_says_where_it_stood_and_names_no_command() -> Result<()> {
    let (stage, id) = waiting().await?;
    let file = export(&stage, &id, &[]).await?;
    let desk = Cli::new(NOWHERE, stage.root());
    for words in [["explain", &file], ["show", &file]] {
        let ran = desk.run(&words).await?;
        ran.expect(0)?;
        let said = &ran.stdout;
        ensure!(
            said.contains("waits for approval") && !said.contains("stepwell approve"),
            "{said}"
        );
    }
    let ran = desk.run(&["tail", "-f", &file]).await?;
    ran.expect(2)?;
    ensure!(ran.stderr.contains("does not go on"), "{}", ran.stderr);
    Ok(())
}

#[tokio::test]
async fn what_is_no_file_of_a_session_is_said_with_its_name() -> Result<()> {
    let (stage, _) = waiting().await?;
    let desk = Cli::new(NOWHERE, stage.root());
    let wrong = stage.write("wrong.stepwell", "hello")?;
    for (file, problem) in [(wrong.as_str(), "no exported session"), ("no.stepwell", "cannot open")]
    {
        for command in ["show", "explain", "events", "tail", "tree", "prompt", "replay"] {
            let ran = desk.run(&[command, file]).await?;
            ran.expect(1)?;
            let said = format!("{}{}", ran.stdout, ran.stderr);
            ensure!(said.contains(problem) && said.contains(file), "{command}: {said}");
        }
    }
    Ok(())
}
