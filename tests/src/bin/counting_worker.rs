//! A worker whose tools write each of their starts into a file before they do anything else.
//!
//! `counting-worker --server URL --name NAME --ledger FILE [--concurrency N]`

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stepwell_tests::{Ledger, Started};
use stepwell_worker::host::{HostOptions, WorkerHost};
use stepwell_worker::{Effect, ToolContext, ToolError, Toolbox, tool_fn};
use tokio_util::sync::CancellationToken;

/// How long a slow attempt takes: longer than any test waits for it.
const SLOW: Duration = Duration::from_secs(90);

/// What makes a call take its time.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Call {
    /// What it is about.
    what: String,
    /// How long the call takes.
    #[serde(default)]
    delay_ms: u64,
    /// So many first attempts take very long.
    #[serde(default)]
    slow_attempts: u32,
    /// So many bytes come out.
    #[serde(default)]
    bytes: usize,
}

/// What `book` gives back.
#[derive(Debug, Serialize, JsonSchema)]
struct Receipt {
    /// Number of the receipt.
    receipt: i64,
}

struct Arguments {
    server: String,
    name: String,
    ledger: PathBuf,
    concurrency: u32,
}

fn arguments() -> Result<Arguments> {
    let mut words = std::env::args().skip(1);
    let (mut server, mut name, mut ledger, mut concurrency) = (None, None, None, 8);
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--server" => server = Some(value),
            "--name" => name = Some(value),
            "--ledger" => ledger = Some(PathBuf::from(value)),
            "--concurrency" => concurrency = value.parse()?,
            _ => bail!("unknown argument {word}"),
        }
    }
    Ok(Arguments {
        server: server.context("--server is missing")?,
        name: name.context("--name is missing")?,
        ledger: ledger.context("--ledger is missing")?,
        concurrency,
    })
}

fn toolbox(ledger: &Ledger) -> Result<Toolbox> {
    let mut toolbox = Toolbox::new();
    for (name, effect, verb) in [
        ("look", Effect::Read, "saw"),
        ("put", Effect::Idempotent, "put"),
        ("pay", Effect::Write, "paid"),
    ] {
        let ledger = ledger.clone();
        let tool =
            tool_fn(name, format!("Says that it {verb} it."), effect, move |context, call| {
                let ledger = ledger.clone();
                async move { run(&ledger, name, verb, &context, &call).await }
            });
        toolbox.add(tool.concurrency(64).timeout(2 * SLOW))?;
    }
    let ledger = ledger.clone();
    let book = tool_fn("book", "Books it.", Effect::Write, move |context, call| {
        let ledger = ledger.clone();
        async move {
            run(&ledger, "book", "booked", &context, &call).await?;
            serde_json::to_string(&Receipt { receipt: 1 }).map_err(ToolError::failed)
        }
    });
    toolbox.add(book.output::<Receipt>().timeout(2 * SLOW))?;
    Ok(toolbox)
}

async fn run(
    ledger: &Ledger,
    tool: &str,
    verb: &str,
    context: &ToolContext,
    call: &Call,
) -> Result<String, ToolError> {
    let started = Started {
        tool: tool.to_owned(),
        key: context.idempotency_key.clone(),
        attempt: context.attempt,
        pid: i32::try_from(std::process::id()).map_err(ToolError::failed)?,
        arguments: serde_json::to_string(call).map_err(ToolError::failed)?,
    };
    ledger.note(&started).map_err(ToolError::failed)?;
    let is_slow = context.attempt <= call.slow_attempts;
    let takes = if is_slow { SLOW } else { Duration::from_millis(call.delay_ms) };
    let is_stopped = tokio::select! {
        () = tokio::time::sleep(takes) => false,
        () = context.cancel.cancelled() => true,
    };
    ledger.note_end(&started).map_err(ToolError::failed)?;
    if is_stopped {
        return Err(ToolError::Cancelled { partial: None });
    }
    let mut output = format!("{verb} {}", call.what);
    let filling = call.bytes.saturating_sub(output.len());
    output.extend(call.what.chars().cycle().take(filling));
    Ok(output)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let Arguments { server, name, ledger, concurrency } = arguments()?;
    let folder = ledger.parent().context("the ledger must lie in a folder")?;
    let mut options = HostOptions::new(server, name, folder.join("worker-workspaces"));
    options.concurrency = concurrency;
    let host = WorkerHost::new(options, toolbox(&Ledger::new(&ledger))?);
    host.run(CancellationToken::new()).await?;
    Ok(())
}
