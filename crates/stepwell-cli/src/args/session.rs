//! Arguments of the commands about sessions.

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCompleter;
use stepwell_core::spans::DEPTH_LIMIT_MAX;

use super::parse::{ID, ID_OR_FILE, client_key, label, status_names};
use crate::complete;

/// Who acts, for the history.
#[derive(Debug, Clone, Args)]
pub(crate) struct Actor {
    /// Your name in the history.
    #[arg(
        long = "by",
        value_name = "NAME",
        help = "Your name in the history [default: $STEPWELL_USER, or $USER]"
    )]
    pub(crate) by: Option<String>,
}

/// One session.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionArg {
    /// Id of the session; its beginning is enough
    #[arg(value_name = "ID", value_parser = ID, add = ArgValueCompleter::new(complete::sessions))]
    pub(crate) id: String,
}

/// One session that is only read.
#[derive(Debug, Clone, Args)]
pub(crate) struct RecordedArg {
    /// Id of the session, its beginning is enough; or an exported file (`-` for stdin), which needs no
    /// server
    #[arg(value_name = "ID|FILE", value_parser = ID_OR_FILE, add = ArgValueCompleter::new(complete::sessions))]
    pub(crate) id: String,
}

/// Until when `submit --wait` waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitUntil {
    /// Until the session is over; says how to approve when it waits for that
    End,
    /// Until the session is over or waits for a person
    Person,
}

/// Arguments of `submit`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  stepwell submit --agent coder \"Fix the failing test\" --wait
  stepwell submit --agent ./coder.toml - < task.md
  stepwell submit --agent coder@3 --key nightly-2026-07-30 \"Check the links\" --json

With --wait the exit code tells the outcome: see `stepwell --help`.")]
pub(crate) struct SubmitArgs {
    /// The task in words; `-` (or nothing, behind a pipe) reads it from stdin
    #[arg(value_name = "TASK")]
    pub(crate) task: Option<String>,
    /// A file with an agent definition, or the name of a stored agent, or NAME@VERSION
    #[arg(long, value_name = "FILE|NAME", env = "STEPWELL_AGENT", add = ArgValueCompleter::new(complete::agents_and_files))]
    pub(crate) agent: Option<String>,
    /// Name for lists; the first line of the task when not given
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Put a label on the session; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// Folder to work in, below the server's folder for workspaces; a new one when not given
    #[arg(long, value_name = "NAME")]
    pub(crate) workspace: Option<String>,
    /// Your own key for this task: the same key never starts a second session
    #[arg(long, value_name = "KEY", value_parser = client_key)]
    pub(crate) key: Option<String>,
    /// Hold it before it does anything: step through it with `stepwell step`
    #[arg(long, conflicts_with = "wait")]
    pub(crate) paused: bool,
    /// Follow the session and exit by its outcome; `--wait=person` also ends when it waits for a person
    #[arg(long, value_enum, value_name = "UNTIL", num_args = 0..=1, require_equals = true, default_missing_value = "end")]
    pub(crate) wait: Option<WaitUntil>,
    #[command(flatten)]
    pub(crate) actor: Actor,
}

/// Arguments of `ls`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LsArgs {
    /// Only with this status; may be given more than once, or with commas
    #[arg(long = "status", value_name = "STATUS", value_delimiter = ',', value_parser = PossibleValuesParser::new(status_names()))]
    pub(crate) statuses: Vec<String>,
    /// Only those that wait for a person
    #[arg(long, short = 'p', conflicts_with = "statuses")]
    pub(crate) needs_person: bool,
    /// Only of this agent
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::agents))]
    pub(crate) agent: Option<String>,
    /// Only with this label; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// Only when the title contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// At most so many
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}

/// Arguments of `events`.
#[derive(Debug, Clone, Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    pub(crate) session: RecordedArg,
    /// Only events after this one
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) after: u64,
    /// Put large payloads into the lines, not only their addresses and beginnings
    #[arg(long)]
    pub(crate) whole: bool,
}

/// Arguments of `tail`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    pub(crate) session: RecordedArg,
    /// Go on with what happens next, with live tokens and output, until the session is over
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,
    /// So many events of the past
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    pub(crate) lines: u64,
    /// All events after this one, instead of the last N
    #[arg(long, value_name = "SEQ", conflicts_with = "lines")]
    pub(crate) after: Option<u64>,
    /// With --json and -f: also print the live pieces
    #[arg(long, requires = "follow")]
    pub(crate) live: bool,
}

/// Arguments of `tree`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    pub(crate) session: RecordedArg,
    /// The tree as it stood after this event; what was open then is open
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) at: Option<u64>,
    /// Leave out what is deeper: 0 is the session alone, 1 its steps, 2 their calls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(DEPTH_LIMIT_MAX)))]
    pub(crate) depth: Option<u32>,
    /// Begin with this row, counted from 0
    #[arg(long, value_name = "ROW", default_value_t = 0)]
    pub(crate) from: u32,
    /// At most so many rows
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
}

/// Arguments of `usage`.
#[derive(Debug, Clone, Args)]
pub(crate) struct UsageArgs {
    /// Id of one session; its beginning is enough
    #[arg(value_name = "ID", value_parser = ID, add = ArgValueCompleter::new(complete::sessions))]
    pub(crate) id: Option<String>,
    /// Only of this agent
    #[arg(long, value_name = "NAME", conflicts_with = "id", add = ArgValueCompleter::new(complete::agents))]
    pub(crate) agent: Option<String>,
    /// Only with this label; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label, conflicts_with = "id")]
    pub(crate) labels: Vec<(String, String)>,
    /// At most so many sessions, the newest
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "id")]
    pub(crate) limit: u32,
}

/// Arguments of `send`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SendArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,
    /// What to say; `-` reads it from stdin
    pub(crate) text: String,
    /// The question it answers (a call id, for example 3.1); the oldest open one when not given
    #[arg(long, value_name = "CALL")]
    pub(crate) answers: Option<String>,
    /// Your own key for this message: the same key is taken once
    #[arg(long, value_name = "KEY", value_parser = client_key)]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) actor: Actor,
}

/// Arguments of `cancel`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) actor: Actor,
}

/// Arguments of `pause`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) actor: Actor,
}

/// Arguments of `resume`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,
    #[command(flatten)]
    pub(crate) actor: Actor,
}
