//! Arguments of the commands that remove sessions and save the store.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap_complete::engine::{ArgValueCompleter, PathCompleter};

use super::parse::{ID, age, label, over_status_names};
use crate::complete;

/// Arguments of `delete`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
What is deleted cannot be brought back. A session that is not over must be cancelled first.
Its --key stays known, so that a repeated submit does not run the task again.

Examples:
  stepwell delete 01KYS8
  stepwell delete 01KYS8 01KYS7 --yes")]
pub(crate) struct DeleteArgs {
    /// Ids of sessions; their beginnings are enough
    #[arg(value_name = "ID", value_parser = ID, required = true, add = ArgValueCompleter::new(complete::sessions))]
    pub(crate) ids: Vec<String>,
    /// Also a session that is not over: what it runs is stopped, and its outcome is lost
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not ask once more
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

/// Arguments of `prune`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A session that changes while this runs is looked at again, and stays when it no longer fits.

Examples:
  stepwell prune --older-than 30d --dry-run
  stepwell prune --older-than 12w --status completed --label team=core --yes")]
pub(crate) struct PruneArgs {
    /// Only sessions whose last update is longer ago than this, for example 30d, 12w, 36h
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) older_than: Duration,
    /// Only with this status; may be given more than once, or with commas
    #[arg(long = "status", value_name = "STATUS", value_delimiter = ',',
          default_value = "completed,failed,cancelled,limit_reached",
          value_parser = PossibleValuesParser::new(over_status_names()))]
    pub(crate) statuses: Vec<String>,
    /// Only of this agent
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::agents))]
    pub(crate) agent: Option<String>,
    /// Only with this label; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// At most so many, those that were updated last first
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Only show what would be deleted
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask once more
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

/// Arguments of `backup`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The copy is consistent, and checked before it gets its name. Sessions go on meanwhile.
To restore it, put it into an empty folder as stepwell.db and start the server on that folder.

Example:
  stepwell backup /backups/stepwell-2026-07-30.db")]
pub(crate) struct BackupArgs {
    /// Where to put it, on this machine
    #[arg(value_name = "FILE", add = ArgValueCompleter::new(PathCompleter::file()))]
    pub(crate) file: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    pub(crate) force: bool,
}
