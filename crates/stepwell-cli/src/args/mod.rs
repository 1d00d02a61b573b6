//! The command line: every command, its arguments and their help.
//!
//! Invariant: only what was asked for. Defaults that a config file can set are filled in by
//! [`crate::config`], so that flag, environment and file have one order everywhere.

mod against;
mod archive;
mod history;
mod manage;
pub(crate) mod parse;
mod retention;
mod server;
mod session;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use against::*;
pub(crate) use archive::*;
pub(crate) use history::*;
pub(crate) use manage::*;
pub(crate) use retention::*;
pub(crate) use server::*;
pub(crate) use session::*;

use crate::exit;

/// Where the server listens when nothing else is said.
pub(crate) const LISTEN_DEFAULT: &str = "127.0.0.1:7171";
/// The server that commands talk to when nothing else is said.
pub(crate) const SERVER_DEFAULT: &str = "http://127.0.0.1:7171";

const FIRST_STEPS: &str = "\
First steps:
  stepwell demo                         see a session survive kill -9, without a model
  stepwell serve                        start the server
  stepwell submit --wait \"Fix the test\"  submit a task and follow it
  stepwell approvals                    what waits for you
";

/// A durable executor for LLM agents.
///
/// Every step of a session is an event in a log: it survives a crash, waits for days without
/// memory, and can be looked at at any time.
#[derive(Debug, Parser)]
#[command(
    name = "stepwell",
    bin_name = "stepwell",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = format!("{FIRST_STEPS}\n{}", exit::HELP)
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command understands.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Address of the server.
    #[arg(
        long,
        help = "Address of the server [default: http://127.0.0.1:7171, or the config file's]",
        global = true,
        value_name = "URL",
        env = "STEPWELL_SERVER",
        hide_env_values = true,
        help_heading = "Everywhere"
    )]
    pub(crate) server: Option<String>,
    /// Print JSON, one object a line, and nothing else on stdout
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// When to use colours.
    #[arg(
        long,
        help = "When to use colours; NO_COLOR is obeyed too",
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t = ColorWhen::Auto,
        help_heading = "Everywhere"
    )]
    pub(crate) color: ColorWhen,
    /// Config file [default: ~/.config/stepwell/config.toml if there is one]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "STEPWELL_CONFIG",
        hide_env_values = true,
        help_heading = "Everywhere"
    )]
    pub(crate) config: Option<PathBuf>,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal.
    Auto,
    /// Also into files and pipes.
    Always,
    /// Not at all.
    Never,
}

/// One command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server, with a worker in it
    Serve(ServeArgs),
    /// Submit a task: starts a session
    Submit(SubmitArgs),
    /// List sessions, newest first
    #[command(visible_alias = "list")]
    Ls(LsArgs),
    /// Show one session: why it is where it is, and what would move it
    Show(ShowArgs),
    /// Print a session's history as JSON lines
    Events(EventsArgs),
    /// Show the end of a session's history, and follow it with -f
    Tail(TailArgs),
    /// Draw a session as a tree of spans
    Tree(TreeArgs),
    /// Show what a session cost step by step, or what all cost by agent and model
    Usage(UsageArgs),
    /// Print the exact request to the model of a step
    Prompt(PromptArgs),
    /// Check that today's rules come to the recorded decisions, or run them against another agent
    Replay(ReplayArgs),
    /// Start a session that begins as another did and goes on otherwise
    Fork(ForkArgs),
    /// Compare two sessions step by step
    Diff(DiffArgs),
    /// List approvals: what waits for a person
    Approvals(ApprovalsArgs),
    /// Let one action run; shows it first
    Approve(ApproveArgs),
    /// Forbid one action; the model is told why
    Deny(DenyArgs),
    /// Say what became of an action whose outcome is unknown
    Resolve(ResolveArgs),
    /// Say something to a session, or answer its question
    Send(SendArgs),
    /// End a session; nothing new starts after it
    Cancel(CancelArgs),
    /// Hold a session: running work is let to its end, nothing new starts
    Pause(PauseArgs),
    /// Let a paused session go on
    Resume(ResumeArgs),
    /// Let a paused session do exactly one thing, and hold it again
    Step(ResumeArgs),
    /// Say why a session is where it is, and what would move it
    Explain(RecordedArg),
    /// Delete sessions for good
    Delete(DeleteArgs),
    /// Delete the sessions that ended long ago
    Prune(PruneArgs),
    /// Save a copy of a running server's store
    Backup(BackupArgs),
    /// Write sessions into files, or as OpenTelemetry traces to a collector
    Export(ExportArgs),
    /// Bring exported sessions into the server
    Import(ImportArgs),
    /// Show an exported session in the browser, read only, without a server
    View(ViewArgs),
    /// Print count and hash of sessions, to be kept elsewhere
    Anchor(AnchorArgs),
    /// Check exported sessions, and histories against what `anchor` wrote
    Verify(VerifyArgs),
    /// List, show, store and check agent definitions
    Agents(AgentsArgs),
    /// List the tools that workers registered
    Tools,
    /// List connected workers
    Workers,
    /// Run a worker that serves the built-in tools to a server
    Worker(WorkerArgs),
    /// Serve a scripted model over the OpenAI API, for tests
    MockModel(MockModelArgs),
    /// See a session survive kill -9, on this machine, without a model
    Demo(DemoArgs),
    /// Check that everything is in place
    Doctor(DoctorArgs),
    /// Print the completion script for a shell
    Completions(CompletionsArgs),
}

impl Command {
    /// Whether tools run in this process, or in one that it starts.
    pub(crate) fn runs_tools(&self) -> bool {
        match self {
            Self::Serve(_) | Self::Worker(_) | Self::Demo(_) => true,
            Self::Replay(args) => args.against.tools == ToolsMode::Live,
            Self::Submit(_)
            | Self::Ls(_)
            | Self::Show(_)
            | Self::Events(_)
            | Self::Tail(_)
            | Self::Tree(_)
            | Self::Usage(_)
            | Self::Prompt(_)
            | Self::Fork(_)
            | Self::Diff(_)
            | Self::Approvals(_)
            | Self::Approve(_)
            | Self::Deny(_)
            | Self::Resolve(_)
            | Self::Send(_)
            | Self::Cancel(_)
            | Self::Pause(_)
            | Self::Resume(_)
            | Self::Step(_)
            | Self::Explain(_)
            | Self::Delete(_)
            | Self::Prune(_)
            | Self::Backup(_)
            | Self::Export(_)
            | Self::Import(_)
            | Self::View(_)
            | Self::Anchor(_)
            | Self::Verify(_)
            | Self::Agents(_)
            | Self::Tools
            | Self::Workers
            | Self::MockModel(_)
            | Self::Doctor(_)
            | Self::Completions(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_has_no_contradictions() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_of_the_manual_is_understood() {
        for line in [
            "stepwell serve --listen 127.0.0.1:0 --data d --workspaces w --no-worker --config c",
            "stepwell serve --model-url http://h/v1 --model m --api-key-env K",
            "stepwell submit do --agent a.toml --title t --label k=v --label a=b --key x --wait",
            "stepwell submit - --wait=person --by ada",
            "stepwell ls --status waiting_approval,thinking --agent a --label k=v --text t --all",
            "stepwell ls --needs-person --limit 3 --json",
            "stepwell show 01J",
            "stepwell show 01J --at 7 --messages=3",
            "stepwell prompt 01J --step 2",
            "stepwell prompt 01J --diff 1 2",
            "stepwell replay 01J x.stepwell --until 9",
            "stepwell replay --all",
            "stepwell replay --all --status failed --agent a --label k=v --limit 3",
            "stepwell replay 01J x.stepwell --against a.toml --diff --timeout 5m --jobs 2",
            "stepwell replay 01J --against a.toml --tools live --workspaces w",
            "stepwell fork 01J --at 9 --result 3.1=ok --message m --model m --dry-run",
            "stepwell diff 01J 01K --whole",
            "stepwell events 01J --after 3 --whole",
            "stepwell tail -f 01J",
            "stepwell tail 01J -n 5",
            "stepwell tree 01J",
            "stepwell tree 01J --at 7 --depth 2 --from 100 --limit 50",
            "stepwell usage 01J",
            "stepwell usage --agent a --label k=v --limit 9",
            "stepwell approvals",
            "stepwell approvals 01J --status approved --status denied",
            "stepwell approve 01J.17 --arguments {} --by ada --yes",
            "stepwell approve 01J --for-session",
            "stepwell deny 01J.17 --reason no",
            "stepwell resolve 01J.17 happened --output ok --reason seen",
            "stepwell resolve 01J.17 did-not-happen",
            "stepwell resolve 01J.17 failed",
            "stepwell send 01J hello --answers 3.1",
            "stepwell cancel 01J --reason r",
            "stepwell pause 01J --reason r",
            "stepwell resume 01J",
            "stepwell step 01J",
            "stepwell explain 01J",
            "stepwell submit --paused do",
            "stepwell delete 01J 01K --force --yes",
            "stepwell prune --older-than 30d --status completed,failed --agent a --label k=v",
            "stepwell prune --older-than 1d12h --limit 3 --dry-run --yes",
            "stepwell backup b.db --force",
            "stepwell agents",
            "stepwell agents list",
            "stepwell agents show coder@3",
            "stepwell agents put a.toml",
            "stepwell agents check a.toml",
            "stepwell tools --json",
            "stepwell workers",
            "stepwell worker --server http://h:1 --name w --workspaces d --concurrency 2",
            "stepwell mock-model --listen 127.0.0.1:0 --script s.toml",
            "stepwell demo --data d --listen 127.0.0.1:0 --keep",
            "stepwell doctor --model http://h/v1",
            "stepwell completions bash",
            "stepwell export 01J -o - --fixture --redact r.toml",
            "stepwell export 01J 01K --force",
            "stepwell export 01J 01K --otlp traces.jsonl --force",
            "stepwell export 01J --otlp http://h:4318 --header Authorization=x",
            "stepwell import a.stepwell b.stepwell -",
            "stepwell anchor -o a.jsonl 01J 01K --force",
            "stepwell anchor",
            "stepwell verify a.stepwell --anchor a.jsonl",
            "stepwell verify --anchor a.jsonl",
        ] {
            let parsed = parse(line);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, kind) in [
            ("stepwell frobnicate", ErrorKind::InvalidSubcommand),
            ("stepwell show", ErrorKind::MissingRequiredArgument),
            ("stepwell ls --status waiting", ErrorKind::InvalidValue),
            ("stepwell ls --limit 0", ErrorKind::ValueValidation),
            ("stepwell submit x --label novalue", ErrorKind::ValueValidation),
            ("stepwell submit x --wait=never", ErrorKind::InvalidValue),
            ("stepwell resolve 01J.1 maybe", ErrorKind::InvalidValue),
            ("stepwell resolve 01J.1 happened", ErrorKind::MissingRequiredArgument),
            ("stepwell serve --listen 7171", ErrorKind::ValueValidation),
            ("stepwell tree 01J --depth 8", ErrorKind::ValueValidation),
            ("stepwell tree 01J --at 0", ErrorKind::ValueValidation),
            ("stepwell export", ErrorKind::MissingRequiredArgument),
            ("stepwell export 01J -o x --otlp http://h", ErrorKind::ArgumentConflict),
            ("stepwell export 01J --redact x --otlp http://h", ErrorKind::ArgumentConflict),
            ("stepwell export 01J --header k=v", ErrorKind::MissingRequiredArgument),
            ("stepwell ls --all --limit 3", ErrorKind::ArgumentConflict),
            ("stepwell delete", ErrorKind::MissingRequiredArgument),
            ("stepwell prune", ErrorKind::MissingRequiredArgument),
            ("stepwell prune --older-than 30", ErrorKind::ValueValidation),
            ("stepwell prune --older-than 30d --status thinking", ErrorKind::InvalidValue),
            ("stepwell replay 01J --limit 3", ErrorKind::ArgumentConflict),
            ("stepwell replay --limit 3", ErrorKind::MissingRequiredArgument),
            ("stepwell replay 01J --diff", ErrorKind::MissingRequiredArgument),
            ("stepwell replay 01J --against a --until 3", ErrorKind::ArgumentConflict),
            ("stepwell replay 01J --against a --tools some", ErrorKind::InvalidValue),
            ("stepwell import", ErrorKind::MissingRequiredArgument),
            ("stepwell verify", ErrorKind::MissingRequiredArgument),
        ] {
            assert_eq!(parse(line).unwrap_err().kind(), kind, "{line}");
        }
    }

    #[test]
    fn a_typo_gets_a_suggestion() {
        for (line, suggestion) in
            [("stepwell aprovals", "approvals"), ("stepwell ls --statsu x", "--status")]
        {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(suggestion), "{error}");
        }
    }

    #[test]
    fn the_help_tells_the_exit_codes() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("limit of the agent ended the session"), "{help}");
    }

    #[test]
    fn wait_has_two_ways() {
        for (line, expected) in [
            ("stepwell submit x", None),
            ("stepwell submit x --wait", Some(WaitUntil::End)),
            ("stepwell submit --wait x", Some(WaitUntil::End)),
            ("stepwell submit x --wait=person", Some(WaitUntil::Person)),
        ] {
            let Command::Submit(args) = parse(line).unwrap().command else { panic!("{line}") };
            assert_eq!(args.wait, expected, "{line}");
        }
    }
}
