//! Names that the server may be asked by, and pages that may ask.

use anyhow::{Result, ensure};
use stepwell_tests::{Cli, Server, get};

#[tokio::test]
async fn only_the_pages_and_names_that_were_allowed_get_an_answer() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = Server::new(folder.path(), None)?.arguments(&[
        "--no-worker",
        "--allow-host",
        "gpu.example",
    ]);
    server.start().await?;
    let origin = format!("origin: http://{}", server.listen());
    for allowed in ["accept: */*", "origin: https://gpu.example", &origin] {
        let mut answer = get(server.listen(), "/v1/sessions", &[allowed]).await?;
        ensure!(answer.status == 200, "{allowed}: {}", answer.text().await?);
    }
    for refused in ["origin: http://evil.example", "origin: null", "host: evil.example"] {
        let mut answer = get(server.listen(), "/v1/sessions", &[refused]).await?;
        let status = answer.status;
        let text = answer.text().await?;
        ensure!(status == 403 && text.contains("--allow-host"), "{refused}: {status} {text}");
    }
    let port = server.listen().port();
    let by_name = Cli::new(&format!("http://localhost:{port}"), folder.path());
    by_name.run(&["ls"]).await?.expect(0)?;
    server.stop().await
}

#[tokio::test]
async fn a_host_is_a_name_alone() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::new(folder.path(), None)?.arguments(&["--allow-host", "http://gpu:7171"]);
    let refused = server.start_refused().await?;
    ensure!(refused.code == Some(2), "{refused:?}");
    ensure!(refused.text.contains("without scheme and port"), "{refused:?}");
    Ok(())
}
