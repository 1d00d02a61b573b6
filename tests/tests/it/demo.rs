//! `stepwell demo`, without a terminal.

use anyhow::{Result, ensure};
use stepwell_tests::Cli;

#[tokio::test]
async fn the_demo_without_a_terminal_survives_two_kills_approves_by_itself_and_ends_well()
-> Result<()> {
    let home = tempfile::tempdir()?;
    let ran = Cli::new("http://127.0.0.1:1", home.path()).run(&["demo"]).await?;
    ran.expect(0)?;
    for words in [
        "The model is a script",
        "Tools, files, approval and log are real",
        "one test fails",
        "kill -9",
        "started again as process",
        "no rule covers the write tool `shell`",
        "There is no terminal to ask at, so the demo approves by itself.",
        "two kills, every call ran once",
        "all tests pass, and the change is committed once",
    ] {
        ensure!(ran.stdout.contains(words), "the demo does not say {words:?}");
    }
    let kills = ran.stdout.matches("*** kill -9").count();
    ensure!(kills == 2, "{kills} kills");
    Ok(())
}

#[tokio::test]
async fn for_a_program_the_demo_tells_on_stderr_and_ends_with_one_line_of_json() -> Result<()> {
    let home = tempfile::tempdir()?;
    let ran = Cli::new("http://127.0.0.1:1", home.path()).run(&["demo", "--json"]).await?;
    ran.expect(0)?;
    let lines = ran.lines()?;
    ensure!(lines.len() == 1 && lines[0]["status"] == "completed", "{lines:?}");
    ensure!(lines[0]["kills"] == 2 && lines[0]["tests_pass"] == true, "{lines:?}");
    ensure!(ran.stderr.matches("*** kill -9").count() == 2, "{}", ran.stderr);
    Ok(())
}
