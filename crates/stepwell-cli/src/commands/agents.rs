//! `agents`: list, show, store and check definitions.

use std::path::Path;

use stepwell_core::{Effect, JsonText, ToolKind, ToolSpec};
use stepwell_proto::v1::{
    GetAgentRequest, ListAgentsRequest, ListToolsRequest, PutAgentRequest, Tool,
};
use stepwell_server::agent_file::{self, AgentFileError, Catalogue, ModelDefaults};
use stepwell_worker::builtin::{BuiltinOptions, add_builtin_tools};
use stepwell_worker::{ToolDescription, Toolbox};

use super::submit::Agent;
use super::{Context, answer, expected, read_file};
use crate::args::{AgentsAction, AgentsArgs};
use crate::client::{Client, Refusal};
use crate::exit::{Exit, UsageError};
use crate::{time, view};

/// `agents …`.
pub(super) async fn run(context: &Context, args: AgentsArgs) -> anyhow::Result<Exit> {
    match args.action.unwrap_or(AgentsAction::List) {
        AgentsAction::List => list(context).await,
        AgentsAction::Show { name } => show(context, &name).await,
        AgentsAction::Put { file } => put(context, &file).await,
        AgentsAction::Check { file } => check(context, &file).await,
    }
}

async fn list(context: &Context) -> anyhow::Result<Exit> {
    let client = context.client().await?;
    let agents = answer(&client, client.agents().list_agents(ListAgentsRequest {})).await?.agents;
    let out = context.out;
    if out.is_json {
        for agent in &agents {
            out.json(&view::json::Agent::from(agent))?;
        }
    } else if agents.is_empty() {
        out.faint_remark("no agents are stored; store one with: stepwell agents put FILE");
    } else {
        out.lines(&view::fleet::agents(&agents, time::now_ms(), out.width, out.paint))?;
    }
    Ok(Exit::Ok)
}

async fn show(context: &Context, name: &str) -> anyhow::Result<Exit> {
    let Agent::Stored { name, version } = Agent::of(name) else {
        let problem = format!("{name:?} is a file: `agents show` takes the name of a stored agent");
        return Err(UsageError(problem).into());
    };
    let client = context.client().await?;
    let request = GetAgentRequest { name: name.to_owned(), version };
    let response = answer(&client, client.agents().get_agent(request)).await?;
    let agent = expected(response.agent.as_ref(), "agent")?;
    if context.out.is_json {
        context.out.json(&view::json::Agent::from(agent))?;
    } else {
        // As its author wrote it: `agents show x > x.toml` gives the file back.
        let care = view::visible::Care::Prose;
        let definition = view::visible::block(&agent.definition, care, crate::out::Paint::NONE);
        context.out.line(definition.trim_end())?;
    }
    Ok(Exit::Ok)
}

async fn put(context: &Context, file: &Path) -> anyhow::Result<Exit> {
    let definition = read_file(file)?;
    let client = context.client().await?;
    let request = PutAgentRequest { definition: definition.clone() };
    let response = answer(&client, client.agents().put_agent(request)).await;
    let response =
        response.map_err(|error| explain(context, file, &definition, &error.to_string()))?;
    let agent = expected(response.agent.as_ref(), "agent")?;
    let out = context.out;
    if out.is_json {
        out.json(&view::json::Agent::from(agent))?;
    } else {
        let name = view::visible::brief(&agent.name);
        out.line(&format!("{}  version {}", out.paint.strong(name), agent.version))?;
        for note in &response.notes {
            out.faint_remark(&view::visible::brief(note));
        }
    }
    Ok(Exit::Ok)
}

/// The server's words with the lines that they are about.
fn explain(context: &Context, file: &Path, text: &str, message: &str) -> anyhow::Error {
    let file = file.display().to_string();
    let shown = view::source::annotate(&file, text, message, context.out.paint_err);
    anyhow::Error::msg(shown)
}

async fn check(context: &Context, file: &Path) -> anyhow::Result<Exit> {
    let definition = read_file(file)?;
    let (catalogue, source) = match tools_of_server(&context.server).await {
        Ok(tools) => (Catalogue::new(tools), Source::Server),
        Err(refusal) if refusal.is_broken => (Catalogue::new(builtin_tools()), Source::Builtin),
        Err(refusal) => return Err(refusal.into()),
    };
    let agent = check_text(&definition, &catalogue)
        .map_err(|error| explain(context, file, &definition, &error.to_string()))?;
    let out = context.out;
    if out.is_json {
        #[derive(serde::Serialize)]
        struct Checked<'a> {
            name: &'a str,
            ok: bool,
        }
        out.json(&Checked { name: &agent.name, ok: true })?;
        return Ok(Exit::Ok);
    }
    let tools = view::when::counted(agent.tools.len(), "tool");
    out.line(&format!("{}: {} is a good definition, {tools}", file.display(), agent.name))?;
    for note in agent_file::notes(&agent) {
        out.faint_remark(&note);
    }
    if source == Source::Builtin {
        out.faint_remark(&format!(
            "no server answers at {}: only the built-in tools are known",
            context.server
        ));
    }
    Ok(Exit::Ok)
}

/// Whose tools a definition was checked against.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Server,
    Builtin,
}

/// Checks with a stand-in for the model defaults: they are the server's business.
fn check_text(
    definition: &str,
    catalogue: &Catalogue,
) -> Result<stepwell_core::Agent, AgentFileError> {
    let defaults = ModelDefaults {
        name: Some("model".to_owned()),
        base_url: Some("http://127.0.0.1:8000/v1".to_owned()),
        replicas: Vec::new(),
        api_key_env: None,
    };
    agent_file::read(definition, catalogue, &defaults)
}

async fn tools_of_server(server: &str) -> Result<Vec<ToolSpec>, Refusal> {
    let client = Client::connect(server).await?;
    let response = client.agents().list_tools(ListToolsRequest {}).await;
    let response = response.map_err(|status| client.refusal(&status))?.into_inner();
    Ok(response.tools.iter().filter_map(tool_of_wire).collect())
}

/// `None` for a tool that this release cannot read.
fn tool_of_wire(tool: &Tool) -> Option<ToolSpec> {
    let effect = match tool.effect.as_str() {
        "read" => Effect::Read,
        "idempotent" => Effect::Idempotent,
        _ => Effect::Write,
    };
    let output_schema = match tool.output_schema.as_str() {
        "" => None,
        schema => Some(JsonText::parse(schema).ok()?),
    };
    Some(ToolSpec {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: JsonText::parse(&tool.parameters).ok()?,
        output_schema,
        effect,
        timeout_ms: tool.timeout_ms,
        kind: ToolKind::Worker,
    })
}

/// The tools that every worker has.
pub(super) fn builtin_tools() -> Vec<ToolSpec> {
    let mut toolbox = Toolbox::new();
    if add_builtin_tools(&mut toolbox, BuiltinOptions::default()).is_err() {
        return Vec::new();
    }
    toolbox.descriptions().filter_map(tool_of_worker).collect()
}

fn tool_of_worker(tool: &ToolDescription) -> Option<ToolSpec> {
    let effect = match tool.effect {
        stepwell_worker::Effect::Read => Effect::Read,
        stepwell_worker::Effect::Idempotent => Effect::Idempotent,
        stepwell_worker::Effect::Write => Effect::Write,
    };
    let output_schema = match &tool.output_schema {
        None => None,
        Some(schema) => Some(JsonText::parse(schema).ok()?),
    };
    Some(ToolSpec {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: JsonText::parse(&tool.parameters).ok()?,
        output_schema,
        effect,
        timeout_ms: u64::try_from(tool.timeout.as_millis()).unwrap_or(u64::MAX),
        kind: ToolKind::Worker,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::Paint;

    #[test]
    fn a_definition_is_checked_without_a_server() {
        let catalogue = Catalogue::new(builtin_tools());
        let good = "name = \"x\"\ninstructions = \"do\"\ntools = [\"shell\", \"read_file\", \"ask_user\"]\n";
        let agent = check_text(good, &catalogue).unwrap();
        assert_eq!(agent.tools.len(), 3);
    }

    #[test]
    fn a_typo_is_shown_with_its_line() {
        let text = "name = \"x\"\ninstructions = \"do\"\ntools = [\"shel\"]\n";
        let error = check_text(text, &Catalogue::new(builtin_tools())).unwrap_err();
        let shown = view::source::annotate("a.toml", text, &error.to_string(), Paint::NONE);
        assert!(
            shown.contains("a.toml:3:10: ") && shown.contains("3 | tools = [\"shel\"]"),
            "{shown}"
        );
        assert!(shown.contains("did you mean `shell`?"), "{shown}");
    }

    #[test]
    fn a_tool_from_the_wire_keeps_its_effect() {
        let mut tool = Tool {
            name: "x".into(),
            parameters: "{\"type\":\"object\"}".into(),
            effect: "read".into(),
            ..Tool::default()
        };
        assert_eq!(tool_of_wire(&tool).map(|it| it.effect), Some(Effect::Read));
        tool.parameters = "{".into();
        assert!(tool_of_wire(&tool).is_none());
    }
}
