//! `doctor`: what it finds, and that it makes nothing.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use stepwell_proto::v1::SessionStatus;
use stepwell_tests::{Cli, Stage, agent_with, free_address};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{LOOKER, text};

fn finding<'v>(lines: &'v [Value], check: &str) -> Result<&'v Value> {
    lines.iter().find(|it| it["check"] == check).with_context(|| format!("no finding on {check}"))
}

#[tokio::test]
async fn doctor_finds_a_running_server_in_order() -> Result<()> {
    let stage = Stage::counting(LOOKER).await?;
    let session_id = stage.api.create("Look.", &agent_with(&["look"], "")).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let data = stage.server.data().to_str().context("no UTF-8")?.to_owned();
    let listen = stage.server.listen().to_string();
    let words = ["doctor", "--data", &data, "--listen", &listen, "--model", stage.model.url()];
    let lines = stage.cli().json(&words).await?;
    for check in ["config", "data", "store", "history", "port", "server", "worker", "model"] {
        ensure!(finding(&lines, check)?["status"] == "ok", "{check}: {lines:?}");
    }
    ensure!(text(finding(&lines, "worker")?, "message").contains("counter"));
    let human = stage.cli().run(&words).await?;
    human.expect(0)?;
    // What the scripted model cannot do is a warning, with what follows from it on a line below.
    let is_well = |line: &str| ["ok", "warn", "   "].iter().any(|it| line.starts_with(it));
    ensure!(human.stdout.lines().all(is_well), "{}", human.stdout);
    Ok(())
}

#[tokio::test]
async fn doctor_without_anything_says_what_to_do_and_makes_nothing() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = free_address()?;
    let cli = Cli::new(&format!("http://{server}"), home.path());
    let listen = server.to_string();
    let lines = cli.json(&["doctor", "--listen", &listen]).await?;
    let found = finding(&lines, "server")?;
    ensure!(text(found, "message").contains(&listen) && !text(found, "next").is_empty(), "{found}");
    ensure!(std::fs::read_dir(home.path())?.count() == 0, "something was made");
    Ok(())
}

#[tokio::test]
async fn doctor_fails_with_1_when_something_would_keep_a_server_from_running() -> Result<()> {
    let home = tempfile::tempdir()?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let taken = listener.local_addr()?.to_string();
    let cli = Cli::new(&format!("http://{}", free_address()?), home.path());
    let dead = format!("http://{}/v1", free_address()?);
    let ran = cli.run(&["doctor", "--listen", &taken, "--model", &dead, "--json"]).await?;
    ran.expect(1)?;
    let lines = ran.lines()?;
    let port = finding(&lines, "port")?;
    ensure!(port["status"] == "fail" && text(port, "message").contains(&taken), "{port}");
    let model = finding(&lines, "model")?;
    ensure!(model["status"] == "fail" && text(model, "message").contains(&dead), "{model}");
    ensure!(!text(model, "next").is_empty(), "{model}");
    Ok(())
}

/// A gateway that is well, before a model that is not.
#[tokio::test]
async fn doctor_fails_when_the_model_server_lists_a_model_and_answers_nothing() -> Result<()> {
    let home = tempfile::tempdir()?;
    let cli = Cli::new(&format!("http://{}", free_address()?), home.path());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    let listen = free_address()?.to_string();
    let words = ["doctor", "--listen", &listen, "--model", &url, "--json"];
    let ran = tokio::select! {
        ran = cli.run(&words) => ran?,
        failed = list_only(&listener) => return failed,
    };
    ran.expect(1)?;
    let lines = ran.lines()?;
    ensure!(text(finding(&lines, "model")?, "message").contains("m-of-test"), "{lines:?}");
    let rest = lines.iter().find(|it| it["check"] == "supports" && it["status"] == "fail");
    ensure!(text(rest.context("no failure")?, "message").contains("not tried"), "{lines:?}");
    let asked = lines.iter().filter(|it| it["check"] == "supports").count();
    ensure!(asked == 3, "its context, one try, and that there is no more: {lines:?}");
    Ok(())
}

/// Lists a model, and closes the connection on all else.
async fn list_only(listener: &TcpListener) -> Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut head = [0; 4_096];
        let read = stream.read(&mut head).await?;
        if head[..read].starts_with(b"GET /v1/models ") {
            let body = r#"{"data":[{"id":"m-of-test"}]}"#;
            let length = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await?;
        }
    }
}
