//! Arguments of the commands about approvals, agents and the installation.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::{ArgValueCompleter, PathCompleter};

use super::parse::{ID, address, model_address};
use super::session::Actor;
use crate::complete;

/// Arguments of `approvals`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ApprovalsArgs {
    /// Only of this session, each with its whole action
    #[arg(value_name = "ID", value_parser = ID, add = ArgValueCompleter::new(complete::sessions))]
    pub(crate) session: Option<String>,
    /// Those with this status instead of the open ones; may be given more than once
    #[arg(long = "status", value_name = "STATUS", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(["open", "approved", "denied", "expired", "void"]))]
    pub(crate) statuses: Vec<String>,
    /// At most so many
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}

/// One approval.
#[derive(Debug, Clone, Args)]
pub(crate) struct ApprovalArg {
    /// Id of the approval (SESSION.NUMBER), or the session when only one is open; the beginning of
    /// the session's id is enough
    #[arg(value_name = "ID", value_parser = ID, add = ArgValueCompleter::new(complete::approvals))]
    pub(crate) id: String,
}

/// Arguments of `approve`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The exact action is shown first; on a terminal you are asked once more.
Only that action may run: if it changed in the meantime, nothing happens.

Examples:
  stepwell approve 01KYS8D3V0QXG6N9T7W2B4C5E6.17
  stepwell approve 01KYS8 --arguments '{\"command\":\"cargo test\"}'
  stepwell approve 01KYS8 --arguments @edited.json --by ada --yes")]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    pub(crate) approval: ApprovalArg,
    /// Run with these arguments instead of the proposed ones
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) arguments: Option<String>,
    /// Also let every later call of this tool in this session run
    #[arg(long)]
    pub(crate) for_session: bool,
    /// Do not ask once more
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) actor: Actor,
}

/// Arguments of `deny`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    pub(crate) approval: ApprovalArg,
    /// Why; the model sees it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) actor: Actor,
}

/// What became of an action whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fate {
    /// It happened, with the result that --output gives
    Happened,
    /// It did not happen: run it
    DidNotHappen,
    /// Tell the model that it failed
    Failed,
}

/// Arguments of `resolve`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  stepwell resolve 01KYS8 happened --output 'deployed v42'
  stepwell resolve 01KYS8 did-not-happen --reason 'the log of the host shows nothing'
  stepwell resolve 01KYS8 failed --reason 'rolled back by hand'")]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    pub(crate) approval: ApprovalArg,
    /// What became of it
    #[arg(value_enum)]
    pub(crate) fate: Fate,
    /// The result that the model sees; only and always with `happened`
    #[arg(long, value_name = "TEXT|@FILE", required_if_eq("fate", "happened"))]
    pub(crate) output: Option<String>,
    /// How you know, for the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) actor: Actor,
}

/// Arguments of `agents`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    pub(crate) action: Option<AgentsAction>,
}

/// What to do with agent definitions.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum AgentsAction {
    /// List stored agents (what `agents` alone does)
    List,
    /// Print a definition as its author wrote it
    Show {
        /// Name of the agent, or NAME@VERSION
        #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::agents))]
        name: String,
    },
    /// Check a definition and store it as the next version of its name
    Put {
        /// The definition (TOML, docs/agents.md); `-` reads stdin
        #[arg(value_name = "FILE", add = ArgValueCompleter::new(PathCompleter::file().stdio()))]
        file: PathBuf,
    },
    /// Check a definition and store nothing; knows the tools of the server when one answers
    Check {
        /// The definition (TOML, docs/agents.md); `-` reads stdin
        #[arg(value_name = "FILE", add = ArgValueCompleter::new(PathCompleter::file().stdio()))]
        file: PathBuf,
    },
}

/// Arguments of `doctor`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DoctorArgs {
    /// Data folder to look at [default: as for serve]
    #[arg(long, value_name = "DIR", env = "STEPWELL_DATA", add = ArgValueCompleter::new(PathCompleter::dir()))]
    pub(crate) data: Option<PathBuf>,
    /// Address where the server should listen [default: as for serve]
    #[arg(long, value_name = "IP:PORT", env = "STEPWELL_LISTEN", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Model server to ask [default: as for serve]
    #[arg(
        long,
        value_name = "URL",
        env = "STEPWELL_MODEL_URL",
        value_parser = model_address,
        help = "Model server to ask, for example http://127.0.0.1:8000/v1 [default: as for serve]"
    )]
    pub(crate) model: Option<String>,
    /// Environment variable that holds the key for --model
    #[arg(long, value_name = "NAME", env = "STEPWELL_API_KEY_ENV")]
    pub(crate) api_key_env: Option<String>,
}
