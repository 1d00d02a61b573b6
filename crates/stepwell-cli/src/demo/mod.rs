//! `stepwell demo`: an agent mends a real project, is killed half-way, and finishes.
//!
//! The demo is a client like any other. It starts a server process on a folder of its own, watches
//! the session, kills that process with SIGKILL and starts it again. Only the model is a script.

mod process;
mod project;
mod story;

use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Context as _;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::process::ServerProcess;
use self::project::Project;
use self::story::Story;
use crate::args::DemoArgs;
use crate::mock_model::{self, Script};
use crate::out::Out;

/// What the model says.
const SCRIPT: &str = include_str!("script.toml");

/// Runs the demo.
pub(crate) async fn run(out: Out, args: DemoArgs) -> anyhow::Result<()> {
    let (folder, keeper) = data_folder(&args)?;
    let project = Project::create(&folder.join("workspaces")).await?;
    let model = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let model_url = format!("http://{}/v1", model.local_addr()?);
    let script = Script::parse(SCRIPT).context("the demo's script")?;
    let stop_model = CancellationToken::new();
    let mut model_part = JoinSet::new();
    model_part.spawn(mock_model::serve(model, script, stop_model.clone()));

    let listen = match args.listen {
        Some(listen) => listen,
        None => free_address().await?,
    };
    let server = ServerProcess::new(listen, &folder, model_url);
    let voice = Voice { out };
    let mut story = Story { server, project, folder: folder.clone(), voice };
    let told = story.tell().await;
    if told.is_ok() && is_heard() {
        story.stay().await?;
    }
    story.server.end().await;
    stop_model.cancel();
    while model_part.join_next().await.is_some() {}
    if args.keep
        && let Some(keeper) = keeper
    {
        let kept = keeper.keep();
        voice.say(&format!("The demo's data is kept in {}", kept.display()));
    }
    told
}

/// Tells the demo: on stdout, or on stderr where stdout is for JSON.
#[derive(Clone, Copy)]
pub(crate) struct Voice {
    out: Out,
}

impl Voice {
    /// A line of the demo's own voice.
    #[expect(clippy::print_stdout, reason = "the demo is told on stdout")]
    pub(crate) fn say(self, line: &str) {
        if self.out.is_json { self.out.remark(line) } else { println!("{line}") }
    }

    /// What came of it, for a program.
    pub(crate) fn result(self, result: &impl Serialize) -> anyhow::Result<()> {
        if self.out.is_json { self.out.json(result) } else { Ok(()) }
    }
}

/// Whether a person reads what is told and can answer.
fn is_heard() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// The folder of the demo, and what removes it again.
fn data_folder(args: &DemoArgs) -> anyhow::Result<(PathBuf, Option<tempfile::TempDir>)> {
    if let Some(folder) = &args.data {
        let is_used = folder.join("stepwell.db").exists();
        anyhow::ensure!(
            !is_used,
            "{} holds a store already: give the demo a folder of its own",
            folder.display()
        );
        std::fs::create_dir_all(folder)
            .with_context(|| format!("the folder {} cannot be made", folder.display()))?;
        return Ok((folder.canonicalize()?, None));
    }
    let keeper = tempfile::Builder::new().prefix("stepwell-demo-").tempdir()?;
    Ok((keeper.path().canonicalize()?, Some(keeper)))
}

/// A port that is free now. The server is started on it more than once, so it needs a number.
async fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?)
}
