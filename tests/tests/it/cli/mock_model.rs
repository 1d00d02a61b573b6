//! `mock-model`: a scripted model over the OpenAI API.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stepwell_tests::{Cli, MockModel, get};
use tokio::io::{AsyncBufReadExt as _, BufReader};

#[tokio::test]
async fn mock_model_lists_its_model_and_says_that_it_is_well() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let script = "model = \"parrot\"\n[[step]]\ncontent = \"hello\"";
    let model = MockModel::start(folder.path(), script).await?;
    let address = model.url().trim_start_matches("http://").trim_end_matches("/v1");
    let address: SocketAddr = address.parse()?;
    let models = get(address, "/v1/models", &[]).await?.text().await?;
    let models: serde_json::Value = serde_json::from_str(&models)?;
    ensure!(models["data"][0]["id"] == "parrot", "{models}");
    ensure!(get(address, "/health", &[]).await?.status == 200);
    Ok(())
}

#[tokio::test]
async fn mock_model_says_in_words_what_it_is_and_ends_with_0_on_sigterm() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("script.toml"), "[[step]]\ncontent = \"x\"")?;
    let cli = Cli::new("http://127.0.0.1:1", folder.path());
    let words = ["mock-model", "--script", "script.toml", "--listen", "127.0.0.1:0"];
    let mut child = cli.command(&words)?.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
    let line = lines.next_line().await?.context("it says nothing")?;
    ensure!(line.contains("not a real one") && line.contains("/v1"), "{line}");
    let pid = i32::try_from(child.id().context("it ended")?)?;
    kill(Pid::from_raw(pid), Signal::SIGTERM)?;
    let status = child.wait().await?;
    ensure!(status.code() == Some(0), "{status}");
    Ok(())
}

#[tokio::test]
async fn a_typo_in_a_script_is_shown_with_line_and_column() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cli = Cli::new("http://127.0.0.1:1", folder.path());
    for (text, place) in [
        ("[[step]]\ncontnt = \"x\"", ":2:1"),
        ("[[step]]\ncontent = \"x\"\nrepeat = 0", ":3:10"),
        ("model = \"x\"", ":1:1"),
        ("[[step]]\nfault = { kind = \"status\" }", ":2:18"),
    ] {
        std::fs::write(folder.path().join("script.toml"), text)?;
        let ran = cli.run(&["mock-model", "--script", "script.toml"]).await?;
        ran.expect(1)?;
        let place = format!("script.toml{place}");
        ensure!(ran.stderr.contains(&place), "{place} is not in {:?}", ran.stderr);
    }
    let missing = cli.run(&["mock-model", "--script", "nowhere.toml"]).await?;
    missing.expect(1)?;
    ensure!(missing.stderr.contains("nowhere.toml"), "{}", missing.stderr);
    Ok(())
}
