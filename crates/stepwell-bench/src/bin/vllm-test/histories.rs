//! One session with calls that the server's template renders anew, in each form in which a history can
//! be sent: how much of it was kept, token by token.

use std::fmt::Write as _;
use std::process;

use anyhow::{Context as _, ensure};
use serde_json::json;
use stepwell_core::account::Account;
use stepwell_core::agent::{Agent, History};
use stepwell_core::event::{
    FinishReason, ModelErrorKind, ModelReplied, ReplyTokens, SessionCreated, ToolCall,
    ToolFinished, ToolOutcome,
};
use stepwell_core::{Actor, CallId, Input, SessionState, Text, TimestampMs, decide};
use stepwell_ports::ModelAnswer;
use tokio::time::{Duration, sleep};

use crate::scene::Scene;

const STEPS: u32 = 5;
/// Lines in the arguments of a call, of about 12 tokens each.
const LINES: usize = 3;
/// The server takes few requests at once, and counts one that ends for a moment longer.
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(500);
/// Words of an observation.
const OBSERVATION_WORDS: usize = 12;

const HISTORIES: [(History, &str); 3] =
    [(History::Calls, "calls"), (History::Text, "text"), (History::Tokens, "tokens")];

/// A step as it was recorded.
struct Step {
    prompt: u64,
    cached: u64,
    tokens: Box<ReplyTokens>,
}

/// One session.
pub(crate) struct Run {
    name: &'static str,
    steps: Vec<Step>,
    account: Account,
}

/// Runs them side by side: a small model decodes three streams about as fast as one.
pub(crate) async fn measure(scene: &Scene) -> anyhow::Result<Vec<Run>> {
    let [calls, text, tokens] = HISTORIES.map(|(history, name)| session(scene, history, name));
    let (calls, text, tokens) = tokio::join!(calls, text, tokens);
    let runs = HISTORIES.into_iter().zip([calls, text, tokens]);
    runs.map(|((_, name), run)| run.with_context(|| format!("history {name}"))).collect()
}

async fn session(scene: &Scene, history: History, name: &'static str) -> anyhow::Result<Run> {
    let agent = agent(scene, history)?;
    let mut run = Run { name, steps: Vec::new(), account: Account::default() };
    // A task of its own keeps prompts out of the cache of other sessions and runs.
    let mut state = given(&SessionState::default(), created(&agent, name))?;
    for step in 1..=STEPS {
        let answer = ask(scene, &agent, &state).await?;
        let reply = replied(step, &answer);
        let recorded = answer.tokens.clone();
        let recorded = recorded.with_context(|| format!("step {step}: no token ids"))?;
        ensure!(reply.tool_calls.len() == 1, "step {step}: {answer:?}");
        run.account.add("m", &reply);
        let (prompt, cached) = (answer.usage.prompt_tokens, answer.usage.cached_tokens);
        run.steps.push(Step { prompt, cached, tokens: recorded });
        state = given(&state, Input::ModelReplied(reply))?;
        state = given(&state, finished(CallId { step, index: 1 }))?;
    }
    Ok(run)
}

async fn ask(scene: &Scene, agent: &Agent, state: &SessionState) -> anyhow::Result<ModelAnswer> {
    let mut tries = 1;
    loop {
        let tokens = state.tokens.of_model(&agent.model.name);
        match scene.begin_after(agent, state.request(1), tokens).outcome().await? {
            Err(busy) if busy.kind == ModelErrorKind::Overloaded && tries < BUSY_TRIES => {
                tries += 1;
                sleep(BUSY_PAUSE).await;
            }
            outcome => return Ok(outcome?),
        }
    }
}

fn agent(scene: &Scene, history: History) -> anyhow::Result<Agent> {
    let line = "line [a-z]{3} of the report, which nobody reads;";
    let text = [line; LINES].join(" ");
    // Without blanks between names and values, as some models write them.
    let call = format!(
        "<tool_call>\\n\\{{\"name\":\"read_file\",\"arguments\":\\{{\"path\":\"{text}\"\\}}\\}}\\n</tool_call>"
    );
    let parameters = json!({
        "temperature": 0, "max_tokens": 300, "structured_outputs": {"regex": call},
    });
    let mut agent = scene.agent(&parameters)?;
    (agent.model.history, agent.model.token_ids) = (history, true);
    agent.limits.repeat_window = 0;
    Ok(agent)
}

fn given(state: &SessionState, input: Input) -> anyhow::Result<SessionState> {
    Ok(decide(state, input, TimestampMs(1))?.state)
}

fn created(agent: &Agent, name: &str) -> Input {
    let session = SessionCreated {
        agent: agent.clone().into(),
        task: Text::from(format!("Read all parts of the report ({name}, {}).", process::id())),
        title: String::new(),
        labels: Vec::new(),
        workspace: String::new(),
        seed: name.into(),
        paused: false,
    };
    Input::Create { session, by: Actor::Person("tester".into()) }
}

/// A reply as the engine records it.
pub(crate) fn replied(step: u32, answer: &ModelAnswer) -> ModelReplied {
    let calls = answer.tool_calls.iter().zip(1..).map(|(call, index)| ToolCall {
        call_id: CallId { step, index },
        wire_id: call.id.clone(),
        name: call.name.clone(),
        arguments: Text::from(call.arguments.as_str()),
        repaired: None,
        problem: None,
    });
    ModelReplied {
        step,
        attempt: 1,
        content: Text::from(answer.content.as_str()),
        reasoning: Text::from(""),
        tool_calls: calls.collect(),
        finish_reason: match answer.finish_reason {
            FinishReason::Stop if !answer.tool_calls.is_empty() => FinishReason::ToolCalls,
            reason => reason,
        },
        finish_word: answer.finish_word.clone(),
        usage: answer.usage,
        answer_problem: None,
        endpoint: answer.endpoint.clone(),
        first_token_ms: answer.first_token_ms,
        duration_ms: answer.duration_ms,
        tokens: answer.tokens.clone(),
    }
}

fn finished(call_id: CallId) -> Input {
    let words = (1..=OBSERVATION_WORDS).map(|number| format!("entry-{}-{number}", call_id.step));
    let report = ToolFinished {
        call_id,
        attempt: 1,
        outcome: ToolOutcome::Ok,
        output: Text::from(words.collect::<Vec<_>>().join(" ")),
        full_output: None,
        late: false,
        duration_ms: 1,
    };
    Input::ToolFinished { report, worker: "tester".into() }
}

/// What must be so: a template that renders calls anew breaks the prefix, tokens never do.
pub(crate) fn check(runs: &[Run]) -> anyhow::Result<()> {
    let breaks = |name: &str| {
        let run = runs.iter().find(|it| it.name == name);
        run.map(Run::breaks).with_context(|| format!("no history {name}"))
    };
    ensure!(breaks("tokens")? == 0, "tokens that were sent back were not kept");
    ensure!(breaks("calls")? > 0, "calls without blanks were kept: nothing was measured");
    Ok(())
}

impl Run {
    fn breaks(&self) -> usize {
        self.steps.iter().filter(|it| it.tokens.broke.is_some()).count()
    }

    /// Tokens that the server had and that were other ones in the next request.
    fn lost(&self) -> u64 {
        let lost = |it: &Step| it.tokens.broke.as_ref().map_or(0, |broke| broke.known - broke.at);
        self.steps.iter().map(lost).sum()
    }
}

/// The measurement as tables in Markdown.
pub(crate) fn table(runs: &[Run]) -> String {
    let mut text = String::from("| step |");
    for run in runs {
        let _ = write!(text, " {}: prompt | kept | read |", run.name);
    }
    let _ = write!(text, "\n|---|{}", "---|---|---|".repeat(runs.len()));
    for at in 0..STEPS as usize {
        let _ = write!(text, "\n| {} |", at + 1);
        for step in runs.iter().filter_map(|run| run.steps.get(at)) {
            let read = step.prompt.saturating_sub(step.cached);
            let _ = write!(text, " {} | {} | {read} |", step.prompt, step.tokens.kept);
        }
    }
    text.push_str("\n\n| history | breaks | tokens that became others | read | the least | ratio |\n|---|---|---|---|---|---|\n");
    for run in runs {
        let ratio = run.account.read_ratio().unwrap_or_default();
        let read = run.account.total().usage.uncached_tokens();
        let (breaks, lost, least) = (run.breaks(), run.lost(), run.account.bound_tokens);
        let (whole, rest) = (ratio / 1_000, ratio % 1_000);
        let _ = writeln!(
            text,
            "| {} | {breaks} | {lost} | {read} | {least} | {whole}.{rest:03} |",
            run.name
        );
    }
    for run in runs {
        let first = run.steps.iter().find_map(|it| it.tokens.broke.as_ref());
        if let Some(broke) = first {
            let (expected, found) = (&broke.expected_text, &broke.found_text);
            let _ = writeln!(
                text,
                "\n{}: first break at token {} of {}: {expected:?} became {found:?}",
                run.name, broke.at, broke.known
            );
        }
    }
    text
}
