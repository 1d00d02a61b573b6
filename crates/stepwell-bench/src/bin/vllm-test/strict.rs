//! Strict schemas: what the server's grammar engine binds, and what it must not be sent.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use stepwell_core::JsonText;
use stepwell_core::agent::{Agent, Effect, ToolKind, ToolSpec};
use stepwell_core::prompt::Prompt;
use stepwell_ports::ModelFailure;
use stepwell_runtime::{relax, validate};

use crate::scene::Scene;

/// What the task asks for breaks the schema, so a model that is not bound does.
const TASK: &str = "Call set_dial with level 99, mode \"medium\" and tags \"x\", \"y\" and \"z\".";
const TOOL: &str = "set_dial";

/// The schema, with a keyword that no grammar can express.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "level": {"type": "integer", "minimum": 7, "maximum": 9},
            "mode": {"enum": ["fast", "slow"]},
            "tags": {
                "type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2, "uniqueItems": true,
            },
        },
        "required": ["level", "mode", "tags"],
        "additionalProperties": false,
    })
}

pub(crate) async fn run(scene: &Scene) -> anyhow::Result<String> {
    let strict = bound(scene)?;
    let relaxed = strict.output.relaxed.get(TOOL).context("nothing had to be relaxed")?.clone();
    let arguments = ask(scene, &strict).await??;
    let tool = strict.tools.first().context("no tool")?;
    let sent = ToolSpec { parameters: relaxed.schema, ..tool.clone() };
    if let Err(problem) = validate::arguments(&sent, &arguments) {
        bail!("strict, and yet {problem}");
    }
    let mut loose = strict.clone();
    loose.output.strict_tools = false;
    let unbound = ask(scene, &loose).await??;
    if validate::arguments(&sent, &unbound).is_ok() {
        bail!("nothing is shown: the model keeps to the schema by itself, `{unbound}`");
    }
    let mut whole = strict;
    whole.output.relaxed.clear();
    let unrelaxed = match ask(scene, &whole).await? {
        Ok(arguments) => format!("is answered with `{arguments}`"),
        Err(failure) => format!("is refused (HTTP {})", failure.http_status.unwrap_or_default()),
    };
    let dropped = relaxed.dropped.join(", ");
    Ok(format!(
        "`{arguments}`; without `strict` it is `{unbound}`; a schema with `{dropped}` left in it \
         {unrelaxed}"
    ))
}

/// The arguments of the call that the model makes.
async fn ask(scene: &Scene, agent: &Agent) -> anyhow::Result<Result<String, ModelFailure>> {
    let answer = match scene.ask(agent, Prompt::new(agent, TASK)).await? {
        Ok(answer) => answer,
        Err(failure) => return Ok(Err(failure)),
    };
    let call = answer.tool_calls.into_iter().next();
    let call = call.with_context(|| format!("no call, but {:?}", answer.content))?;
    Ok(Ok(call.arguments))
}

fn bound(scene: &Scene) -> anyhow::Result<Agent> {
    let parameters = json!({"temperature": 0, "max_tokens": 64, "tool_choice": "required"});
    let mut agent = scene.agent(&parameters)?;
    let parameters = JsonText::parse(&schema().to_string())?;
    agent.output.strict_tools = true;
    agent.output.relaxed =
        relax::relaxed(&parameters).map(|it| (TOOL.to_owned(), it)).into_iter().collect();
    agent.tools = vec![ToolSpec {
        name: TOOL.into(),
        description: "Sets the dial.".into(),
        parameters,
        output_schema: None,
        effect: Effect::Read,
        timeout_ms: 1_000,
        kind: ToolKind::Worker,
    }];
    Ok(agent)
}
