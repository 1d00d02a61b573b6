//! Arguments of the commands that travel in time.

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap_complete::engine::ArgValueCompleter;

use super::parse::{ID_OR_FILE, label, status_names};
use super::{Actor, AgainstArgs, RecordedArg, SessionArg};
use crate::complete;

/// Arguments of `show`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) session: RecordedArg,
    /// As it was right after this event
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) at: Option<u64>,
    /// Also show the messages that the model would see then: the last N
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1000")]
    pub(crate) messages: Option<u32>,
}

/// Arguments of `prompt`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The bytes go to stdout as they were sent; their digest is compared with the recorded one.

Examples:
  stepwell prompt 01J --step 3 > request.json
  stepwell prompt 01J --diff 3 4")]
pub(crate) struct PromptArgs {
    #[command(flatten)]
    pub(crate) session: RecordedArg,
    /// The step whose request is wanted; the last one when not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) step: Option<u32>,
    /// What the request of step M has that the one of step N has not
    #[arg(long, value_names = ["N", "M"], num_args = 2, conflicts_with = "step", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) diff: Option<Vec<u32>>,
}

/// Arguments of `replay`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Feeds the recorded inputs through the rules of this release and compares every decision; nothing is
asked, run or written. Exit code 0: the same; 3: diverged, with the first event and both sides.

With --against the recorded task is run anew with another agent, in this process: the model is asked,
tools give what they gave then. Exit code 0: every run came to an end; 3: one failed, was cancelled or
reached a limit where the recorded one had completed; 1: one did not come to an end.
Neither the server nor the recorded session is written to.

Examples:
  stepwell replay 01J
  stepwell replay --all
  stepwell replay incident.stepwell --until 120
  stepwell replay 01J --against coder.toml --diff
  stepwell replay --all --label suite=nightly --against coder.toml --json")]
pub(crate) struct ReplayArgs {
    /// Sessions by id, or exported files; `-` is one from stdin
    #[arg(value_name = "ID|FILE", value_parser = ID_OR_FILE, required_unless_present = "all", add = ArgValueCompleter::new(complete::sessions))]
    pub(crate) what: Vec<String>,
    /// Only the events up to this one
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) until: Option<u64>,
    /// Every session of the server, or those that the filters leave
    #[arg(long, conflicts_with = "what")]
    pub(crate) all: bool,
    /// Only with this status; may be given more than once, or with commas
    #[arg(long = "status", value_name = "STATUS", value_delimiter = ',', conflicts_with = "what", value_parser = PossibleValuesParser::new(status_names()))]
    pub(crate) statuses: Vec<String>,
    /// Only of this agent
    #[arg(long, value_name = "NAME", conflicts_with = "what", add = ArgValueCompleter::new(complete::agents))]
    pub(crate) agent: Option<String>,
    /// Only with this label; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", conflicts_with = "what", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// At most so many, those that were updated last first
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "what", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    #[command(flatten)]
    pub(crate) against: AgainstArgs,
}

/// Arguments of `fork`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The source is only read. Without --at the fork begins right before the first thing that is changed.

Examples:
  stepwell fork 01J --result 3.1=@output.txt        another result of that call
  stepwell fork 01J --message \"Use the other API\"   say something before it ended
  stepwell fork 01J --at 42 --model qwen2.5-coder   ask another model from there on
  stepwell fork 01J --reply 2=@reply.json --dry-run what would be done again

A reply is words, or JSON: {\"content\": \"…\", \"calls\": [{\"tool\": \"…\", \"arguments\": {…}}]}")]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,
    /// The last event that both share
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) at: Option<u64>,
    /// Another result of a tool call; may be given more than once
    #[arg(long = "result", value_name = "CALL=TEXT|@FILE")]
    pub(crate) results: Vec<String>,
    /// The call failed with this error
    #[arg(long = "error", value_name = "CALL=TEXT|@FILE")]
    pub(crate) errors: Vec<String>,
    /// Another reply of the model in that step
    #[arg(long = "reply", value_name = "STEP=TEXT|@FILE")]
    pub(crate) reply: Option<String>,
    /// Other arguments of a tool call
    #[arg(long = "arguments", value_name = "CALL=JSON|@FILE")]
    pub(crate) arguments: Vec<String>,
    /// Say something there
    #[arg(long = "message", value_name = "TEXT|@FILE")]
    pub(crate) message: Option<String>,
    /// Go on with another agent: a file, a stored name, or NAME@VERSION
    #[arg(long, value_name = "FILE|NAME", value_parser = NonEmptyStringValueParser::new())]
    #[arg(add = ArgValueCompleter::new(complete::agents_and_files))]
    pub(crate) agent: Option<String>,
    /// Go on with another model
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) model: Option<String>,
    /// Address of that model's API, which is sent no key of the source's
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) base_url: Option<String>,
    /// Go on with another system prompt
    #[arg(long, value_name = "TEXT|@FILE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) instructions: Option<String>,
    /// Name for lists; the source's when not given
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) title: Option<String>,
    /// Folder to work in; the source's when not given, with its files as they are now
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) workspace: Option<String>,
    /// Hold it before it does anything
    #[arg(long)]
    pub(crate) paused: bool,
    /// Only report what may be done again
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) actor: Actor,
}

/// Arguments of `diff`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DiffArgs {
    /// The first session, by id or as an exported file
    #[arg(value_name = "A", value_parser = ID_OR_FILE, add = ArgValueCompleter::new(complete::sessions))]
    pub(crate) a: String,
    /// The second session, by id or as an exported file
    #[arg(value_name = "B", value_parser = ID_OR_FILE, add = ArgValueCompleter::new(complete::sessions))]
    pub(crate) b: String,
    /// Texts whole, not shortened
    #[arg(long)]
    pub(crate) whole: bool,
}
