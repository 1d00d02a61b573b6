//! `cargo xtask vllm-test`: the client against a real vLLM server, which it starts and stops itself.
//!
//! Not for CI: it needs a vLLM and minutes. What it prints stands in `docs/vllm.md` and
//! `docs/prefix-cache.md`.

mod cases;
mod histories;
mod picture;
mod prefix;
mod scene;
mod server;
mod session;
mod strict;

use std::path::PathBuf;

use clap::Parser;

use crate::scene::Scene;
use crate::server::Server;

/// Tests the client against a real vLLM server.
#[derive(Parser)]
struct Args {
    /// Command that serves on the port in its last argument, for example `serve.sh`. It is given
    /// flags in `SERVE_FLAGS`, and the key in `STEPWELL_VLLM_KEY` must be the server's.
    #[arg(long)]
    serve: PathBuf,
    /// Name of the model.
    #[arg(long, default_value = "qwen2.5-coder-0.5b")]
    model: String,
    /// Port of the server.
    #[arg(long, default_value_t = 8123)]
    port: u16,
    /// Where to write the picture of the prefix measurement.
    #[arg(long)]
    picture: Option<PathBuf>,
    /// Only the cases, only the session, or only one of the measurements.
    #[arg(long, value_parser = ["cases", "session", "prefix", "histories"])]
    only: Option<String>,
    /// Only cases with this in their name.
    #[arg(long, default_value = "")]
    case: String,
}

#[expect(clippy::print_stdout, reason = "a program tells its user")]
fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let runtime = stepwell_runtime::system::async_runtime()?;
    runtime.block_on(async {
        let mut server = Server::start(&args.serve, args.port).await?;
        println!("vLLM was ready after {} s", server.started_in().as_secs());
        let scene = Scene::new(server.base_url(), &args.model);
        let wants = |part: &str| args.only.as_deref().is_none_or(|only| only == part);
        let mut failed = 0;
        if wants("prefix") {
            let runs = prefix::measure(&scene).await?;
            println!("{}", prefix::table(&runs));
            if let Some(path) = &args.picture {
                std::fs::write(path, picture::draw(&runs))?;
            }
        }
        if wants("histories") {
            let runs = histories::measure(&scene).await?;
            println!("{}", histories::table(&runs));
            histories::check(&runs)?;
        }
        if wants("cases") {
            failed = cases::run(&scene, &mut server, &args.case).await?;
        }
        if wants("session") {
            match session::run(&server.base_url(), &args.model).await {
                Ok(seen) => println!("a whole session: ok, {seen}"),
                Err(error) => {
                    failed += 1;
                    println!("a whole session: FAILED, {error:#}");
                }
            }
        }
        server.stop().await?;
        anyhow::ensure!(failed == 0, "{failed} cases failed");
        Ok(())
    })
}
