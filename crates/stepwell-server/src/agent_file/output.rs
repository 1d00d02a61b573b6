//! How the model's output is bound: `tool_choice`, `strict_tools` and `when_ignored` of `[model]`, and
//! `[answer]`.

use stepwell_core::output::{AnswerForm, OutputPolicy, ToolChoice, WhenIgnored};
use stepwell_core::{JsonText, ToolSpec};
use stepwell_runtime::{answer, relax, validate};

use super::place::meant_and_all;
use super::reader::{Placed, Section};

/// Longest list of answers to choose from; grammar engines take their time with long ones.
const CHOICES_MAX: usize = 1_000;

/// What `[model]` says about output.
#[derive(Default)]
pub(super) struct Written {
    tool_choice: Option<Placed<String>>,
    strict_tools: Option<bool>,
    when_ignored: WhenIgnored,
}

/// Reads the keys of `[model]`.
pub(super) fn read_model(section: &mut Section<'_>) -> Written {
    let tool_choice = section.text("tool_choice");
    let strict_tools = section.flag("strict_tools");
    let when_ignored = section.string("when_ignored").map(|text| match text.value.as_str() {
        "go_on" => WhenIgnored::GoOn,
        "fail" => WhenIgnored::Fail,
        other => {
            let problem = format!("`when_ignored` must be go_on or fail, not `{other}`");
            section.reader().problem(text.at, problem);
            WhenIgnored::GoOn
        }
    });
    Written { tool_choice, strict_tools, when_ignored: when_ignored.unwrap_or_default() }
}

/// Reads `[answer]` and puts all of it together.
pub(super) fn read(
    document: &mut Section<'_>,
    written: Written,
    tools: &[ToolSpec],
) -> OutputPolicy {
    let strict_tools = written.strict_tools.unwrap_or(true) && !tools.is_empty();
    let relaxed = tools
        .iter()
        .filter(|_| strict_tools)
        .filter_map(|tool| Some((tool.name.clone(), relax::relaxed(&tool.parameters)?)));
    OutputPolicy {
        strict_tools,
        relaxed: relaxed.collect(),
        tool_choice: tool_choice(document, written.tool_choice, tools),
        answer: form(document),
        when_ignored: written.when_ignored,
    }
}

fn tool_choice(
    document: &Section<'_>,
    written: Option<Placed<String>>,
    tools: &[ToolSpec],
) -> ToolChoice {
    let Some(Placed { value, at }) = written else { return ToolChoice::Auto };
    let choice = match value.as_str() {
        "auto" => return ToolChoice::Auto,
        "none" => return ToolChoice::None,
        "required" => ToolChoice::Required,
        name => ToolChoice::Tool(name.to_owned()),
    };
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    if let ToolChoice::Tool(name) = &choice
        && !names.contains(&name.as_str())
    {
        let problem = format!(
            "`tool_choice` must be auto, required, none or one of the agent's tools, and it has no \
             `{name}`: {}",
            meant_and_all(name, &names)
        );
        document.reader().problem(at, problem);
    } else if names.is_empty() {
        document.reader().problem(at, "`tool_choice`: the agent has no tools that it could call");
    }
    choice
}

/// The keys of `[answer]`, of which one is written.
const FORMS: &str = "[answer] says one of `schema`, `regex`, `choice` and `grammar`";

fn form(document: &mut Section<'_>) -> Option<AnswerForm> {
    if !document.has("answer") {
        return None;
    }
    let mut section = document.section("answer");
    let forms: Vec<AnswerForm> =
        [schema(&mut section), regex(&mut section), choice(&mut section), grammar(&mut section)]
            .into_iter()
            .flatten()
            .collect();
    let written = ["schema", "regex", "choice", "grammar"].iter().filter(|it| section.has(it));
    if written.count() != 1 {
        section.reader().problem(section.at, FORMS);
    }
    section.finish(|key| match key {
        "json" | "json_schema" => Some("did you mean `schema`?"),
        "choices" | "enum" => Some("did you mean `choice`?"),
        _ => None,
    });
    forms.into_iter().next()
}

fn schema(section: &mut Section<'_>) -> Option<AnswerForm> {
    let text = section.json("schema")?;
    if let Err(problem) = validate::schema(text.value.as_str()) {
        section.reader().problem(text.at, format!("`schema`: {problem}"));
        return None;
    }
    let relaxed = relax::relaxed(&text.value);
    Some(AnswerForm::Schema { schema: text.value, relaxed })
}

fn regex(section: &mut Section<'_>) -> Option<AnswerForm> {
    let text = section.text("regex")?;
    if let Err(problem) = answer::regex(&text.value) {
        section.reader().problem(text.at, format!("`regex`: {problem}"));
        return None;
    }
    Some(AnswerForm::Regex(text.value))
}

fn choice(section: &mut Section<'_>) -> Option<AnswerForm> {
    let choices = section.strings("choice")?;
    if choices.is_empty() || choices.len() > CHOICES_MAX {
        let problem = format!("`choice` must be 1 to {CHOICES_MAX} texts");
        section.reader().problem(section.place_of("choice"), problem);
        return None;
    }
    Some(AnswerForm::Choice(choices.into_iter().map(|it| it.value).collect()))
}

fn grammar(section: &mut Section<'_>) -> Option<AnswerForm> {
    section.text("grammar").map(|it| AnswerForm::Grammar(it.value))
}

/// Refuses request parameters that say the same in another way: a request has each member once.
pub(super) fn check_parameters(
    document: &Section<'_>,
    output: &OutputPolicy,
    parameters: &JsonText,
) {
    let value = parameters.to_value();
    let is_there = |key: &&&str| value.get(key).is_some();
    if output.answer.is_some() {
        let twice = ["response_format", "structured_outputs"].iter().find(is_there);
        if let Some(key) = twice {
            let problem =
                format!("`{key}` stands in `parameters` of [model] as well: leave it out");
            document.reader().problem(document.place_of("answer"), problem);
        }
    }
    let is_chosen = output.tool_choice != ToolChoice::Auto || output.answer.is_some();
    if is_chosen && is_there(&&"tool_choice") {
        let problem = "`tool_choice` stands in `parameters`: write it into [model] itself";
        document.reader().problem(document.place_of("model"), problem);
    }
}

/// What a person should know about a definition that is good: which parts of its schemas the server is
/// not asked for, because no grammar can express them.
pub fn notes(agent: &stepwell_core::Agent) -> Vec<String> {
    let note = |what: &str, dropped: &[String]| {
        format!(
            "{what}: checked here only, because grammar engines lack it: {}",
            dropped.join(", ")
        )
    };
    let output = &agent.output;
    let tools = output.relaxed.iter();
    let mut notes: Vec<String> =
        tools.map(|(tool, it)| note(&format!("the parameters of `{tool}`"), &it.dropped)).collect();
    if let Some(AnswerForm::Schema { relaxed: Some(relaxed), .. }) = &output.answer {
        notes.push(note("the schema of the answer", &relaxed.dropped));
    }
    if let Some(AnswerForm::Grammar(_)) = &output.answer {
        notes.push("the grammar of the answer: only the server can check it".to_owned());
    }
    notes
}
