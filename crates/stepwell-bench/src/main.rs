//! `cargo xtask bench`: the engine beside the physical limit, measured in the same run.

mod client;
mod inproc;
mod memory;
mod process;
mod raw;
mod report;
mod spans;
mod time;
mod travel;
mod wire;
mod workload;
mod world;

use clap::Parser;

use crate::report::Measure;

/// Measures the engine beside the limit of bare SQLite on the same disk in the same run.
#[derive(Parser)]
struct Args {
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    /// Folder on the disk to measure; the system's folder for temporary files when not given.
    #[arg(long)]
    folder: Option<std::path::PathBuf>,
    /// A tenth of the work, for a look while one works on something.
    #[arg(long)]
    quick: bool,
    /// Only the measures whose name contains one of these.
    names: Vec<String>,
    /// Internal: the part of a measure that needs a process of its own.
    #[arg(long, hide = true)]
    child: Option<String>,
}

#[expect(clippy::print_stderr, reason = "a program tells its user")]
fn main() -> anyhow::Result<()> {
    // As the `stepwell` binary does.
    stepwell_alloc::keep_freed_memory();
    let args = Args::parse();
    let runtime = stepwell_runtime::system::async_runtime()?;
    if let Some(child) = &args.child {
        let folder = args.folder.clone().unwrap_or_else(std::env::temp_dir);
        return runtime.block_on(process::child(child, &folder));
    }
    let bench = Bench {
        folder: args.folder.clone().unwrap_or_else(std::env::temp_dir),
        scale: if args.quick { 10 } else { 1 },
        as_json: args.json,
    };
    let mut failed = false;
    for (name, run) in MEASURES {
        let wanted =
            args.names.is_empty() || args.names.iter().any(|it| name.contains(it.as_str()));
        if !wanted {
            continue;
        }
        match run(&bench, &runtime) {
            Ok(measures) => measures.iter().for_each(|it| it.print(bench.as_json)),
            Err(error) => {
                failed = true;
                eprintln!("{name}: {error:#}");
            }
        }
    }
    anyhow::ensure!(!failed, "some measures could not be taken");
    Ok(())
}

/// What all measures need to know.
pub(crate) struct Bench {
    /// On the disk that is measured.
    pub(crate) folder: std::path::PathBuf,
    /// Divides the amount of work.
    pub(crate) scale: usize,
    as_json: bool,
}

impl Bench {
    /// An empty folder that goes away.
    pub(crate) fn scratch(&self) -> anyhow::Result<tempfile::TempDir> {
        Ok(tempfile::Builder::new().prefix("stepwell-bench-").tempdir_in(&self.folder)?)
    }
}

type Run = fn(&Bench, &tokio::runtime::Runtime) -> anyhow::Result<Vec<Measure>>;

const MEASURES: &[(&str, Run)] = &[
    ("one_session_step", inproc::one_at_a_time),
    ("sessions_64_steps", inproc::many_at_once),
    ("restart_1000", process::restart),
    ("growth_step_500", inproc::growth),
    ("store_100k", inproc::full_store),
    ("disk_per_step", inproc::disk),
    ("waiting_memory", process::waiting),
    ("process_start", process::start),
    ("fold", inproc::fold),
    ("spans", spans::windows),
    ("travel", travel::travel),
    ("client", client::against_bare_reader),
    ("wire", wire::steps),
];
