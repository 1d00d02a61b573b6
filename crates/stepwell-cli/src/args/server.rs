//! Arguments of the commands that are processes of their own: `serve`, `worker`, `mock-model`,
//! `demo`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap_complete::engine::{ArgValueCompleter, PathCompleter};

use super::parse::{address, host_name, model_address};

/// Arguments of `serve`.
///
/// Each can stand in the config file and in the environment too; the flag wins, then the
/// environment. `crate::config::ServeSettings` is what comes out.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "\
Examples:
  stepwell serve
  stepwell serve --model-url http://127.0.0.1:8000/v1 --model qwen3
  stepwell serve --data /srv/stepwell --listen 0.0.0.0:7171 --no-worker")]
pub(crate) struct ServeArgs {
    /// Address to listen on, gRPC and HTTP [default: 127.0.0.1:7171]
    #[arg(long, value_name = "IP:PORT", env = "STEPWELL_LISTEN", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Name that the server may be asked by, beside localhost and IP addresses; web pages of that
    /// host may use it, too. May be given more than once
    #[arg(long = "allow-host", value_name = "NAME", env = "STEPWELL_ALLOW_HOST", value_delimiter = ',', value_parser = host_name)]
    pub(crate) allow_hosts: Vec<String>,
    /// Folder for the store [default: ~/.local/share/stepwell]
    #[arg(long, value_name = "DIR", env = "STEPWELL_DATA", add = ArgValueCompleter::new(PathCompleter::dir()))]
    pub(crate) data: Option<PathBuf>,
    /// Folder for the workspaces of sessions [default: DATA/workspaces]
    #[arg(long, value_name = "DIR", env = "STEPWELL_WORKSPACES", add = ArgValueCompleter::new(PathCompleter::dir()))]
    pub(crate) workspaces: Option<PathBuf>,
    /// Start no worker in this process; tools wait until one connects
    #[arg(long)]
    pub(crate) no_worker: bool,
    /// Tool calls that the worker of this process runs at the same time
    #[arg(long, value_name = "N", env = "STEPWELL_CONCURRENCY", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) concurrency: Option<u32>,
    /// Model server for agents that name none.
    #[arg(
        long,
        value_name = "URL",
        env = "STEPWELL_MODEL_URL",
        value_parser = model_address,
        help = "Model server for agents that name none, for example http://127.0.0.1:8000/v1"
    )]
    pub(crate) model_url: Option<String>,
    /// A further server of the same model; repeat it, or separate several with commas
    #[arg(
        long,
        value_name = "URL",
        env = "STEPWELL_MODEL_REPLICAS",
        value_delimiter = ',',
        value_parser = model_address,
        requires = "model_url"
    )]
    pub(crate) model_replica: Vec<String>,
    /// Model for agents that name none
    #[arg(long, value_name = "NAME", env = "STEPWELL_MODEL")]
    pub(crate) model: Option<String>,
    /// Environment variable that holds the key for --model-url
    #[arg(long, value_name = "NAME", env = "STEPWELL_API_KEY_ENV")]
    pub(crate) api_key_env: Option<String>,
    /// Use a data folder on a network file system; safe only while no other machine uses it
    #[arg(long)]
    pub(crate) allow_network_file_system: bool,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Limits of the engine.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Sessions in memory at the same time; others wait in the store
    #[arg(long, value_name = "N", env = "STEPWELL_ACTIVE_SESSIONS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) active_sessions: Option<u32>,
    /// Model calls in flight at the same time
    #[arg(long, value_name = "N", env = "STEPWELL_MODEL_CALLS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) model_calls: Option<u32>,
    /// How long running work may take to end when the server goes down, for example 10s
    #[arg(long, value_name = "TIME", env = "STEPWELL_DRAIN")]
    pub(crate) drain: Option<String>,
    /// Largest file that `stepwell import` may bring, in bytes, packed or unpacked [default: 8 GiB]
    #[arg(long, value_name = "N", env = "STEPWELL_IMPORT_BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) import_bytes: Option<u64>,
}

/// Arguments of `worker`. The server is the global `--server`.
#[derive(Debug, Clone, Args)]
pub(crate) struct WorkerArgs {
    /// Name of the worker, unique on the server [default: HOST-PROCESS]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Folder for the workspaces of sessions [default: DATA/workspaces]
    #[arg(long, value_name = "DIR", env = "STEPWELL_WORKSPACES", add = ArgValueCompleter::new(PathCompleter::dir()))]
    pub(crate) workspaces: Option<PathBuf>,
    /// Tool calls that run at the same time
    #[arg(long, value_name = "N", env = "STEPWELL_CONCURRENCY", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) concurrency: Option<u32>,
}

/// Arguments of `mock-model`.
#[derive(Debug, Clone, Args)]
pub(crate) struct MockModelArgs {
    /// Address to listen on
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8010", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// What the model says, step by step (docs/mock-model.md)
    #[arg(long, value_name = "FILE", add = ArgValueCompleter::new(PathCompleter::file()))]
    pub(crate) script: PathBuf,
}

/// Arguments of `demo`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Folder for the demo's data; a fresh temporary one when not given
    #[arg(long, value_name = "DIR", add = ArgValueCompleter::new(PathCompleter::dir()))]
    pub(crate) data: Option<PathBuf>,
    /// Address of the demo's server; a free port of this machine when not given
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Leave the demo's data when it ends
    #[arg(long)]
    pub(crate) keep: bool,
}

/// Arguments of `completions`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
To switch completion on:
  bash:  echo 'source <(stepwell completions bash)' >> ~/.bashrc
  zsh:   echo 'source <(stepwell completions zsh)' >> ~/.zshrc
  fish:  stepwell completions fish > ~/.config/fish/completions/stepwell.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_parser = PossibleValuesParser::new(["bash", "zsh", "fish", "elvish", "powershell"]))]
    pub(crate) shell: String,
}
