//! Shell completion: live ids, and silence on any trouble. Asked by a real bash.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use stepwell_tests::{Cli, Stage, agent_with, free_address, stepwell};
use tokio::net::TcpListener;
use tokio::process::Command;

use super::PAYER;

/// Completes the last of `words` in bash. Gives the candidates and what was said on stderr.
async fn complete(cli: &Cli, words: &[&str]) -> Result<(Vec<String>, String)> {
    let quoted: Vec<String> = words.iter().map(|it| format!("'{it}'")).collect();
    let last = words.last().context("no word")?;
    let script = format!(
        "source <(stepwell completions bash)\n\
         COMP_WORDS=({}); COMP_CWORD={}; COMP_TYPE=9\n\
         _clap_complete_stepwell stepwell '{last}' ''\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1
    );
    let folder = tempfile::tempdir()?;
    std::os::unix::fs::symlink(stepwell()?, folder.path().join("stepwell"))?;
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH")?);
    let as_of_cli = cli.command(&[])?;
    let mut bash = Command::new("bash");
    for (name, value) in as_of_cli.as_std().get_envs() {
        match value {
            Some(value) => bash.env(name, value),
            None => bash.env_remove(name),
        };
    }
    let output = bash
        .args(["--norc", "-c", &script])
        .env("PATH", path)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    let candidates = String::from_utf8(output.stdout)?;
    let candidates = candidates.lines().filter(|it| !it.is_empty()).map(str::to_owned);
    Ok((candidates.collect(), String::from_utf8(output.stderr)?))
}

#[tokio::test]
async fn ids_of_sessions_and_approvals_and_names_of_agents_are_completed() -> Result<()> {
    let stage = Stage::counting(PAYER).await?;
    let definition = agent_with(&["pay"], "");
    let file = stage.write("payer.toml", &definition)?;
    stage.cli().one(&["agents", "put", &file]).await?;
    let session_id = stage.api.create("Pay.", &definition).await?;
    let approval = stage.api.until_approval(&session_id).await?;
    let cli = stage.cli();
    for words in [
        &["stepwell", "show", ""][..],
        &["stepwell", "tail", "-f", session_id.get(..4).unwrap()],
        &["stepwell", "cancel", session_id.get(..10).unwrap()],
    ] {
        let (candidates, stderr) = complete(&cli, words).await?;
        ensure!(candidates.contains(&session_id), "{words:?}: {candidates:?} {stderr}");
        ensure!(stderr.is_empty(), "{stderr}");
    }
    let (candidates, _) = complete(&cli, &["stepwell", "approve", ""]).await?;
    ensure!(candidates.contains(&approval.approval_id), "{candidates:?}");
    let (candidates, _) = complete(&cli, &["stepwell", "submit", "--agent", "te"]).await?;
    ensure!(candidates.contains(&"tester".to_owned()), "{candidates:?}");
    let (candidates, _) = complete(&cli, &["stepwell", "app"]).await?;
    ensure!(candidates == ["approvals", "approve"], "{candidates:?}");
    Ok(())
}

#[tokio::test]
async fn without_a_server_and_with_one_that_is_silent_completion_is_silent_and_fast() -> Result<()>
{
    let home = tempfile::tempdir()?;
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    for server in [free_address()?, silent.local_addr()?] {
        let cli = Cli::new(&format!("http://{server}"), home.path());
        // Two shells start beside it, so that the bound is far above its own.
        let asking = complete(&cli, &["stepwell", "show", ""]);
        let (candidates, stderr) = tokio::time::timeout(Duration::from_secs(10), asking).await??;
        // What is known without a server stays: the options.
        ensure!(candidates.iter().all(|it| it.starts_with("--")), "{candidates:?}");
        ensure!(stderr.is_empty(), "{stderr}");
    }
    Ok(())
}

#[tokio::test]
async fn every_shell_has_a_script() -> Result<()> {
    let home = tempfile::tempdir()?;
    let cli = Cli::new("http://127.0.0.1:1", home.path());
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = cli.run(&["completions", shell]).await?;
        ran.expect(0)?;
        ensure!(ran.stdout.contains("stepwell"), "{shell}");
    }
    cli.run(&["completions", "tcsh"]).await?.expect(2)?;
    Ok(())
}
