//! One session of twelve steps in three ways: how many tokens the server had to read.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::json;
use stepwell_core::account::Account;
use stepwell_core::agent::Agent;
use stepwell_core::prompt::Prompt;
use stepwell_ports::ModelAnswer;

use crate::histories::replied;
use crate::scene::Scene;

const STEPS: u32 = 12;
/// Words of an observation: about 400 tokens.
const OBSERVATION_WORDS: usize = 50;

/// How a session is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As Stepwell sends it, to a model that writes arguments as the template renders them.
    Aligned,
    /// The same to a model that writes them without blanks: the template renders them anew.
    Unaligned,
    /// With the time of the step in the system prompt.
    Timestamp,
}

impl Way {
    const ALL: [Self; 3] = [Self::Aligned, Self::Unaligned, Self::Timestamp];

    fn name(self) -> &'static str {
        match self {
            Self::Aligned => "aligned",
            Self::Unaligned => "arguments rendered anew",
            Self::Timestamp => "time in the system prompt",
        }
    }

    /// What the model is made to say.
    fn says(self, step: u32) -> String {
        match self {
            Self::Aligned | Self::Timestamp => format!(
                "<tool_call>\n{{\"name\": \"read_file\", \"arguments\": {{\"path\": \"part-{step}.txt\"}}}}\n</tool_call>"
            ),
            Self::Unaligned => format!(
                "<tool_call>\n{{\"name\":\"read_file\",\"arguments\":{{\"path\":\"part-{step}.txt\"}}}}\n</tool_call>"
            ),
        }
    }
}

/// One step as the server counted it.
pub(crate) struct Step {
    pub(crate) prompt: u64,
    pub(crate) cached: u64,
    first_token_ms: u64,
}

/// One way, measured.
pub(crate) struct Run {
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step>,
    pub(crate) account: Account,
}

impl Run {
    fn prompts(&self) -> u64 {
        self.steps.iter().map(|it| it.prompt).sum()
    }

    fn uncached(&self) -> u64 {
        self.account.total().usage.uncached_tokens()
    }
}

pub(crate) async fn measure(scene: &Scene) -> anyhow::Result<Vec<Run>> {
    // Side by side: a small model decodes three streams about as fast as one.
    let [aligned, unaligned, timestamp] = Way::ALL.map(|way| session(scene, way));
    let (aligned, unaligned, timestamp) = tokio::join!(aligned, unaligned, timestamp);
    let runs = Way::ALL.into_iter().zip([aligned, unaligned, timestamp]);
    runs.map(|(way, run)| run.with_context(|| way.name())).collect()
}

async fn session(scene: &Scene, way: Way) -> anyhow::Result<Run> {
    let mut run = Run { name: way.name(), steps: Vec::new(), account: Account::default() };
    // A task of its own keeps one way's prompts out of the others' cache.
    let task = format!("Read all parts of the report ({}).", way.name());
    let mut said: Vec<(ModelAnswer, String)> = Vec::new();
    for step in 1..=STEPS {
        // Greedy, and forced, so that all ways say the same.
        let parameters = json!({
            "temperature": 0, "max_tokens": 64,
            "structured_outputs": {"choice": [way.says(step)]},
        });
        let agent = agent_of(scene, way, step, &parameters)?;
        // All but the forced words is the same in every request, as a session's would be.
        let prompt = prompt(&agent, &task, &said);
        let answer = scene.ask(&agent, prompt).await??;
        let reply = replied(step, &answer);
        run.account.add("m", &reply);
        run.steps.push(Step {
            prompt: answer.usage.prompt_tokens,
            cached: answer.usage.cached_tokens,
            first_token_ms: answer.first_token_ms,
        });
        anyhow::ensure!(answer.tool_calls.len() == 1, "step {step}: {answer:?}");
        said.push((answer, observation(step)));
    }
    Ok(run)
}

fn agent_of(
    scene: &Scene,
    way: Way,
    step: u32,
    parameters: &serde_json::Value,
) -> anyhow::Result<Agent> {
    let mut agent = scene.agent(parameters)?;
    if way == Way::Timestamp {
        agent.instructions = format!("It is 12:00:{step:02}. {}", agent.instructions);
    }
    Ok(agent)
}

fn prompt(agent: &Agent, task: &str, said: &[(ModelAnswer, String)]) -> Prompt {
    let mut prompt = Prompt::new(agent, task);
    for ((answer, observation), step) in said.iter().zip(1..) {
        let reply = replied(step, answer);
        prompt.push_assistant(&answer.content, &reply.tool_calls);
        for call in &reply.tool_calls {
            prompt.push_observation(&call.wire_id, observation);
        }
    }
    prompt
}

fn observation(step: u32) -> String {
    let words = (1..=OBSERVATION_WORDS).map(|number| format!("entry-{step}-{number}"));
    words.collect::<Vec<_>>().join(" ")
}

/// The measurement as tables in Markdown.
pub(crate) fn table(runs: &[Run]) -> String {
    let mut text = String::from("| step |");
    for run in runs {
        let _ = write!(text, " {}: prompt | cached | read | first token |", run.name);
    }
    text.push_str("\n|---|");
    text.push_str(&"---|---|---|---|".repeat(runs.len()));
    for at in 0..STEPS as usize {
        let _ = write!(text, "\n| {} |", at + 1);
        for step in runs.iter().filter_map(|run| run.steps.get(at)) {
            let read = step.prompt.saturating_sub(step.cached);
            let (prompt, cached, first) = (step.prompt, step.cached, step.first_token_ms);
            let _ = write!(text, " {prompt} | {cached} | {read} | {first} ms |");
        }
    }
    text.push_str(
        "\n\n| way | read | the least | ratio | without a cache |\n|---|---|---|---|---|\n",
    );
    for run in runs {
        let ratio = run.account.read_ratio().unwrap_or_default();
        let (read, least, all) = (run.uncached(), run.account.bound_tokens, run.prompts());
        let (whole, rest) = (ratio / 1_000, ratio % 1_000);
        let _ = writeln!(text, "| {} | {read} | {least} | {whole}.{rest:03} | {all} |", run.name);
    }
    text
}
