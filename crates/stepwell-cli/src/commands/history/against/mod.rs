//! `replay --against`: recorded tasks again, with another agent.
//!
//! Each session gets an engine of its own in this process, with a store in memory: the model is asked,
//! tools give what they gave in the record, and a stand-in says what people said then. Nothing is
//! written to the server or to the record.

mod asker;
mod clock;
mod driver;
mod gateway;
mod ledger;
mod live;
mod policy;
mod record;
mod report;
mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::bail;
use futures_util::{StreamExt as _, stream};
use stepwell_core::account::Price;
use stepwell_core::agent::Agent;
use stepwell_llm::OpenAiClient;
use stepwell_ports::ModelPort;
use stepwell_server::agent_file::{self, Catalogue, ModelDefaults};
use stepwell_worker::Toolbox;
use tokio_util::sync::CancellationToken;

use crate::args::{AgainstArgs, ReplayArgs, ToolsMode};
use crate::client::Client;
use crate::commands::agents::builtin_tools;
use crate::commands::source::Source;
use crate::commands::{Context, read_file};
use crate::exit::{Exit, UsageError};
use crate::out::Paint;
use crate::progress::Spinner;
use crate::{serve, view};

use driver::{Ended, Setting, play};
use gateway::Otherwise;
use live::Workshop;
use record::Record;
use report::{Both, Report, print_table};
use source::{read, sources};

pub(super) use source::request;

/// How long one session may take when nothing is said.
const SESSION_TIME: Duration = Duration::from_secs(30 * 60);

/// Stands for the recorded address until it is known that nothing else names one.
const RECORDED_ADDRESS: &str = "http://recorded.invalid";

/// What all runs share.
struct Plan {
    /// Name of the definition's file, for messages.
    file: String,
    definition: String,
    defaults: ModelDefaults,
    model: Arc<dyn ModelPort>,
    /// Whether it has answered, in any run.
    has_answered: Arc<AtomicBool>,
    tools: ToolsMode,
    workspaces: Option<PathBuf>,
    toolbox: Arc<Toolbox>,
    time: Duration,
    stop: CancellationToken,
    paint: Paint,
    /// By the model's name.
    prices: BTreeMap<String, Price>,
}

/// Runs all that the arguments name.
pub(super) async fn run(context: &Context, args: &ReplayArgs, file: &Path) -> anyhow::Result<Exit> {
    let plan = Plan::new(context, &args.against, file)?;
    let (sources, client) = sources(context, args).await?;
    let total = sources.len();
    let jobs = args.against.jobs as usize;
    let runs = sources.into_iter().map(|it| plan.run(it, client.as_ref()));
    let mut runs = stream::iter(runs).buffered(jobs);
    let mut interrupt = Box::pin(tokio::signal::ctrl_c());
    let mut reports = Vec::new();
    let mut spinner = Spinner::new(context.out);
    loop {
        spinner.say(&format!("ran {} of {total} sessions", reports.len()));
        let done = tokio::select! {
            done = runs.next() => done,
            _ = &mut interrupt, if !plan.stop.is_cancelled() => {
                plan.stop.cancel();
                continue;
            }
        };
        match done {
            Some(Some(report)) => {
                if context.out.is_json {
                    spinner.hide();
                    report.print_json(context.out, args.against.diff)?;
                }
                reports.push(report);
            }
            // It was interrupted.
            Some(None) => {}
            None => break,
        }
    }
    spinner.hide();
    conclude(context, args, &reports, plan.stop.is_cancelled())
}

fn conclude(
    context: &Context,
    args: &ReplayArgs,
    reports: &[Report],
    is_interrupted: bool,
) -> anyhow::Result<Exit> {
    let out = context.out;
    let failed = reports.iter().filter(|it| it.is_failed()).count();
    let diverged = reports.iter().filter(|it| it.is_diverged() && !it.is_failed()).count();
    reports.iter().filter_map(Report::note).for_each(|note| out.remark(&note));
    if !out.is_json && !reports.is_empty() {
        print_table(out, reports)?;
        if args.against.diff {
            reports.iter().try_for_each(|it| it.print_differences(out))?;
        }
        let same = reports.len() - failed - diverged;
        if reports.len() > 1 {
            out.line(&format!("{same} as recorded, {diverged} diverged, {failed} without an end"))?;
        }
    } else if reports.is_empty() && !is_interrupted {
        out.faint_remark("no sessions: the filters leave none");
    }
    if is_interrupted {
        out.remark("interrupted; the sessions that had not ended are left out");
        return Ok(Exit::Interrupted);
    }
    if failed > 0 {
        let runs = view::when::counted(reports.len(), "run");
        bail!("{failed} of {runs} did not come to an end");
    }
    let worse = reports.iter().filter(|it| it.is_worse()).count();
    if worse > 0 {
        let runs = view::when::counted(reports.len(), "run");
        out.remark(&format!("{worse} of {runs} failed where the recorded one had completed"));
        return Ok(Exit::Diverged);
    }
    Ok(Exit::Ok)
}

impl Plan {
    fn new(context: &Context, args: &AgainstArgs, file: &Path) -> anyhow::Result<Self> {
        let problem = match (args.tools, &args.workspaces) {
            (ToolsMode::Live, None) => {
                "--tools live needs --workspaces DIR: a folder for the tools"
            }
            (ToolsMode::Recorded | ToolsMode::Deny, Some(_)) => {
                "--workspaces is for --tools live: no tool runs otherwise"
            }
            (ToolsMode::Live, Some(_)) | (ToolsMode::Recorded | ToolsMode::Deny, None) => "",
        };
        if !problem.is_empty() {
            return Err(UsageError(problem.to_owned()).into());
        }
        let workspaces = args.workspaces.as_deref().map(std::path::absolute).transpose()?;
        Ok(Self {
            file: file.display().to_string(),
            definition: read_file(file)?,
            defaults: context.config.model_defaults(args),
            model: Arc::new(OpenAiClient::new()),
            has_answered: Arc::default(),
            tools: args.tools,
            workspaces,
            toolbox: Arc::new(serve::toolbox()?),
            time: args.timeout.unwrap_or(SESSION_TIME),
            stop: CancellationToken::new(),
            paint: context.out.paint_err,
            prices: context.config.prices(),
        })
    }

    /// Runs one session; `None` when it was interrupted.
    async fn run(&self, source: Source, client: Option<&Client>) -> Option<Report> {
        if self.stop.is_cancelled() {
            return None;
        }
        match self.try_run(&source, client).await {
            Ok(report) => report,
            Err(error) => Some(Report::of_error(source.name(), &error)),
        }
    }

    async fn try_run(
        &self,
        source: &Source,
        client: Option<&Client>,
    ) -> anyhow::Result<Option<Report>> {
        let record = tokio::select! {
            record = read(source, client) => Arc::new(record?),
            () = self.stop.cancelled() => return Ok(None),
        };
        let agent = self.agent(&record)?;
        let price = |name: &str| self.prices.get(name).copied();
        let prices =
            Both { recorded: price(&record.agent.model.name), now: price(&agent.model.name) };
        let setting = Setting {
            agent,
            model: self.model.clone(),
            has_answered: self.has_answered.clone(),
            otherwise: self.otherwise(&record)?,
            time: self.time,
        };
        let played = play(record.clone(), setting, &self.stop).await?;
        let is_interrupted = played.ended == Ended::Interrupted;
        Ok((!is_interrupted).then(|| Report::of(&record, played, prices)))
    }

    /// The definition, with the tools of the recorded agent and the built-in ones to choose from: the
    /// recorded descriptions win, because the model saw those.
    fn agent(&self, record: &Record) -> anyhow::Result<Agent> {
        let recorded = record.agent.tools.iter().cloned();
        let catalogue = Catalogue::new(builtin_tools().into_iter().chain(recorded));
        let mut defaults = self.defaults.clone();
        let model = &record.agent.model;
        defaults.name.get_or_insert_with(|| model.name.clone());
        if defaults.base_url.is_none() {
            defaults.base_url = Some(RECORDED_ADDRESS.to_owned());
            defaults.api_key_env = None;
        }
        let agent = agent_file::read(&self.definition, &catalogue, &defaults).map_err(|error| {
            let problem = error.to_string();
            let shown = view::source::annotate(&self.file, &self.definition, &problem, self.paint);
            anyhow::Error::msg(shown)
        })?;
        at_recorded_address(agent, &model.base_url)
    }

    fn otherwise(&self, record: &Record) -> anyhow::Result<Otherwise> {
        Ok(match (self.tools, &self.workspaces) {
            (ToolsMode::Deny, _) => Otherwise::Leave,
            (ToolsMode::Live, Some(workspaces)) => {
                let toolbox = self.toolbox.clone();
                Otherwise::Run(Arc::new(Workshop::open(toolbox, workspaces, &record.session_id)?))
            }
            (ToolsMode::Recorded, _) | (ToolsMode::Live, None) => Otherwise::Tell,
        })
    }
}

/// Puts the recorded address where nothing else names one. No key goes there: a file from elsewhere
/// must not say where a key is sent.
fn at_recorded_address(mut agent: Agent, recorded: &str) -> anyhow::Result<Agent> {
    if agent.model.base_url != RECORDED_ADDRESS {
        return Ok(agent);
    }
    if let Some(key) = &agent.model.api_key_env {
        bail!(
            "the definition names a key (api_key_env = \"{key}\") and no address, and the recorded \
             address {recorded} is not sent one: write base_url into [model], or give --model-url"
        );
    }
    recorded.clone_into(&mut agent.model.base_url);
    Ok(agent)
}
