//! Arguments of the commands about exported sessions.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::engine::ArgValueCompleter;

use super::parse::{ID, address, label};
use crate::complete;

/// Arguments of `export`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  stepwell export 01KYS8
  stepwell export 01KYS8 --fixture -o tests/moves-a-box.stepwell.jsonl
  stepwell export 01KYS8 --redact rules.toml -o - | ssh desk 'cat > failed.stepwell'
  stepwell export 01KYS8 01KZ3F --otlp http://127.0.0.1:4318

docs/export-format.md describes the file and the rules of --redact. As a trace the same session always
has the same ids.")]
pub(crate) struct ExportArgs {
    /// Ids of the sessions; their beginnings are enough
    #[arg(value_name = "ID", value_parser = ID, required = true, add = ArgValueCompleter::new(complete::sessions))]
    pub(crate) ids: Vec<String>,
    /// Where to; `-` is stdout. A name that ends with .jsonl makes plain JSON lines, any other zstd
    #[arg(long, short = 'o', value_name = "FILE", help = "File to write, `-` for stdout [default: ID.stepwell]", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Only what replay needs, as plain JSON lines that can be committed
    #[arg(long)]
    pub(crate) fixture: bool,
    /// Take secrets and chosen fields out, by the rules of this file
    #[arg(long, value_name = "RULES", value_hint = ValueHint::FilePath)]
    pub(crate) redact: Option<PathBuf>,
    /// Write OpenTelemetry traces instead: to a file, `-` for stdout, or to a collector by its address
    #[arg(long, value_name = "FILE|URL", conflicts_with_all = ["output", "fixture", "redact"], value_hint = ValueHint::FilePath)]
    pub(crate) otlp: Option<String>,
    /// A header for the collector, for example a key; may be given more than once
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = label, requires = "otlp")]
    pub(crate) headers: Vec<(String, String)>,
    /// Replace a file that is there
    #[arg(long)]
    pub(crate) force: bool,
}

/// Arguments of `import`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ImportArgs {
    /// Exported sessions; `-` is stdin
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Let the files choose which key of the server is sent to which address
    #[arg(long)]
    pub(crate) trust_keys: bool,
}

/// Arguments of `view`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  stepwell view failed.stepwell
  stepwell view failed.stepwell --listen 127.0.0.1:7272

No server and no store are needed; the file is only read. Ctrl-C ends it.")]
pub(crate) struct ViewArgs {
    /// Exported session
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Address for the pages; a free port of this machine when not given
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0", hide_default_value = true, value_parser = address)]
    pub(crate) listen: SocketAddr,
}

/// Arguments of `anchor`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AnchorArgs {
    /// Sessions; all when none is given
    #[arg(value_name = "ID", value_parser = ID, add = ArgValueCompleter::new(complete::sessions))]
    pub(crate) ids: Vec<String>,
    /// File to write, `-` for stdout
    #[arg(long, short = 'o', value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    pub(crate) force: bool,
}

/// Arguments of `verify`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  stepwell verify failed.stepwell                       is the file as it was written?
  stepwell verify --anchor anchor.jsonl                 are the server's sessions those of then?
  stepwell verify failed.stepwell --anchor anchor.jsonl is the file's history the one of then?

Exits with 1 when a session is missing, shortened, rewritten, damaged or not in the anchor.")]
pub(crate) struct VerifyArgs {
    /// Exported sessions, `-` for one from stdin; without any, the sessions of the server
    #[arg(value_name = "FILE", required_unless_present = "anchor", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// What `stepwell anchor` wrote
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) anchor: Option<PathBuf>,
}
