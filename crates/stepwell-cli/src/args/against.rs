//! Arguments of `replay --against`: a recorded task again, with another agent.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use clap_complete::engine::{ArgValueCompleter, PathCompleter};

use super::parse::{age, model_address};

/// Runs side by side when nothing is said: few enough for one model server.
const JOBS_DEFAULT: u32 = 4;

/// Runs side by side, at most.
const JOBS_MAX: i64 = 64;

/// What becomes of a tool call that the recorded session did not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolsMode {
    /// The model is told that no result is recorded
    Recorded,
    /// The built-in tool runs, in a new folder below --workspaces
    Live,
    /// The run ends there
    Deny,
}

/// What `replay` does with another agent.
#[derive(Debug, Clone, Args)]
pub(crate) struct AgainstArgs {
    /// Run the recorded task with this agent definition instead: asks the model, serves recorded results
    #[arg(long, value_name = "AGENT_FILE", conflicts_with = "until", help_heading = "Another agent",
          add = ArgValueCompleter::new(PathCompleter::file()))]
    pub(crate) against: Option<PathBuf>,
    /// What becomes of a tool call that is not in the record
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = ToolsMode::Recorded, requires = "against", help_heading = "Another agent")]
    pub(crate) tools: ToolsMode,
    /// Folder for the folders that live tools work in, a new one for each session
    #[arg(long, value_name = "DIR", requires = "against", help_heading = "Another agent",
          add = ArgValueCompleter::new(PathCompleter::dir()))]
    pub(crate) workspaces: Option<PathBuf>,
    /// How long one session may take, for example 90s or 10m [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = age, requires = "against", help_heading = "Another agent")]
    pub(crate) timeout: Option<Duration>,
    /// Sessions that run side by side
    #[arg(long, short = 'j', value_name = "N", default_value_t = JOBS_DEFAULT, requires = "against",
          value_parser = clap::value_parser!(u32).range(1..=JOBS_MAX), help_heading = "Another agent")]
    pub(crate) jobs: u32,
    /// Print every difference, as `stepwell diff` does
    #[arg(long, requires = "against", help_heading = "Another agent")]
    pub(crate) diff: bool,
    /// Model server when the definition names none; the recorded one when not given
    #[arg(long, value_name = "URL", env = "STEPWELL_MODEL_URL", value_parser = model_address, help_heading = "Another agent")]
    pub(crate) model_url: Option<String>,
    /// Model when the definition names none; the recorded one when not given
    #[arg(long, value_name = "NAME", env = "STEPWELL_MODEL", help_heading = "Another agent")]
    pub(crate) model: Option<String>,
    /// Environment variable that holds the key for --model-url
    #[arg(long, value_name = "NAME", env = "STEPWELL_API_KEY_ENV", help_heading = "Another agent")]
    pub(crate) api_key_env: Option<String>,
}
