//! Definitions, good and bad; the bad ones with the exact place.

use stepwell_core::agent::{
    ApprovalRule, ArgumentPattern, Limits, ModelTimeouts, RetryPolicy, Verdict,
};
use stepwell_core::{Agent, Effect, JsonText, ToolKind, ToolSpec};

use super::{AgentFileError, Catalogue, DURATION_MS_MAX, ModelDefaults, read};

fn worker_tool(name: &str, effect: Effect, parameters: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: "does it".into(),
        parameters: JsonText::parse(parameters).unwrap(),
        output_schema: None,
        effect,
        timeout_ms: 60_000,
        kind: ToolKind::Worker,
    }
}

fn catalogue() -> Catalogue {
    let path =
        r#"{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false}"#;
    let command = r#"{"type":"object","properties":{"command":{"type":"string"}},"additionalProperties":false}"#;
    Catalogue::new([
        worker_tool("read_file", Effect::Read, path),
        worker_tool("write_file", Effect::Write, path),
        worker_tool("shell", Effect::Write, command),
    ])
}

fn defaults() -> ModelDefaults {
    ModelDefaults {
        name: Some("small".into()),
        base_url: Some("http://127.0.0.1:8000/v1".into()),
        replicas: vec!["http://127.0.0.1:8001/v1".into()],
        api_key_env: Some("DEFAULT_KEY".into()),
    }
}

#[track_caller]
pub(super) fn good(text: &str) -> Agent {
    match read(text, &catalogue(), &defaults()) {
        Ok(agent) => agent,
        Err(error) => panic!("refused: {error}"),
    }
}

/// The problems as people see them.
#[track_caller]
pub(super) fn refused(text: &str) -> String {
    match read(text, &catalogue(), &defaults()) {
        Ok(agent) => panic!("accepted: {agent:?}"),
        Err(error) => error.to_string(),
    }
}

/// A complete definition with `more` behind it; `more` begins on line 3.
pub(super) fn with(more: &str) -> String {
    format!("name = \"a\"\ninstructions = \"Do it.\"\n{more}")
}

const WHOLE: &str = r#"
name = "fixer"
instructions = """
You mend code.
"""
tools = ["read_file", "shell", "ask_user", "sleep", "write_file"]
interactive = true

[model]
name = "qwen2.5-coder-0.5b"
base_url = "https://models.example:8443/v1"
replicas = ["https://more.example/v1"]
api_key_env = "OPENAI_API_KEY"
parameters = { temperature = 0, max_tokens = 800, stop = ["\n\n"], top_p = 0.9, extra = { b = true, a = 1e-3 } }
[model.timeouts]
connect = "1s"
first_token = "2m"
between_tokens = "30s"
total = "1h"

[limits]
steps = 7
deadline = "2h"
tokens = 200_000
repeat_window = 4
repeat_count = 2
tool_attempts = 5
unusable_replies = 2
observation_bytes = 1024

[approval]
expires_after = "3d"
[[approval.rules]]
tool = "shell"
commands = ["git status", "ls"]
verdict = "allow"
[[approval.rules]]
tool = "write_*"
arguments = { path = "docs/*" }
verdict = "allow"
[[approval.rules]]
tool = "*"
verdict = "ask"

[retry]
attempts = 3
base = "1s"
cap = "10s"

[[tool]]
name = "deploy"
description = "Puts it into production."
effect = "idempotent"
timeout = "10m"
parameters = '{"type": "object", "properties": {"to": {"type": "string"}}}'
output_schema = { type = "string" }
"#;

#[test]
fn every_key_finds_its_place() {
    let agent = good(WHOLE);
    assert_eq!((agent.name.as_str(), agent.version), ("fixer", 0));
    assert_eq!(agent.instructions, "You mend code.\n");
    assert!(agent.interactive);
    let names: Vec<&str> = agent.tools.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["read_file", "shell", "ask_user", "sleep", "write_file", "deploy"]);
    assert_eq!(agent.tools[2].kind, ToolKind::AskUser);
    let deploy = &agent.tools[5];
    assert_eq!((deploy.effect, deploy.timeout_ms), (Effect::Idempotent, 600_000));
    assert_eq!(
        deploy.parameters.as_str(),
        r#"{"type": "object", "properties": {"to": {"type": "string"}}}"#
    );
    assert_eq!(deploy.output_schema.as_ref().unwrap().as_str(), r#"{"type":"string"}"#);
    assert_eq!(agent.model.name, "qwen2.5-coder-0.5b");
    assert_eq!(agent.model.base_url, "https://models.example:8443/v1");
    assert_eq!(agent.model.replicas, ["https://more.example/v1"]);
    assert_eq!(agent.model.api_key_env.as_deref(), Some("OPENAI_API_KEY"));
    assert_eq!(
        agent.model.parameters.as_str(),
        r#"{"temperature":0,"max_tokens":800,"stop":["\n\n"],"top_p":0.9,"extra":{"b":true,"a":0.001}}"#
    );
    let timeouts = ModelTimeouts {
        connect_ms: 1_000,
        first_token_ms: 120_000,
        between_tokens_ms: 30_000,
        total_ms: 3_600_000,
    };
    assert_eq!(agent.model.timeouts, timeouts);
    let limits = Limits {
        steps_max: 7,
        deadline_ms: Some(7_200_000),
        tokens_max: Some(200_000),
        repeat_window: 4,
        repeat_count: 2,
        tool_attempts_max: 5,
        unusable_replies_max: 2,
        observation_bytes_max: 1024,
    };
    assert_eq!(agent.limits, limits);
    assert_eq!(agent.approval_expires_after_ms, Some(259_200_000));
    let retry = RetryPolicy { attempts_max: 3, base_ms: 1_000, cap_ms: 10_000 };
    assert_eq!(agent.retry, retry);
    let path = ArgumentPattern { name: "path".into(), pattern: "docs/*".into() };
    let rule = |tool: &str, arguments, commands: &[&str], verdict| ApprovalRule {
        tool: tool.into(),
        arguments,
        commands: commands.iter().map(|it| (*it).to_owned()).collect(),
        verdict,
    };
    assert_eq!(
        agent.approval_rules,
        [
            rule("shell", vec![], &["git status", "ls"], Verdict::Allow),
            rule("write_*", vec![path], &[], Verdict::Allow),
            rule("*", vec![], &[], Verdict::Ask),
        ]
    );
}

#[test]
fn what_is_left_out_has_the_documented_default() {
    let agent = good(&with(""));
    assert_eq!(agent.model.name, "small");
    assert_eq!(agent.model.base_url, "http://127.0.0.1:8000/v1");
    assert_eq!(agent.model.replicas, ["http://127.0.0.1:8001/v1"]);
    assert_eq!(agent.model.api_key_env.as_deref(), Some("DEFAULT_KEY"));
    assert_eq!(agent.model.parameters, JsonText::empty_object());
    assert_eq!(agent.model.timeouts, ModelTimeouts::default());
    assert_eq!(agent.limits, Limits::default());
    assert_eq!(agent.retry, RetryPolicy::default());
    assert_eq!(agent.approval_expires_after_ms, None);
    assert!(agent.tools.is_empty() && agent.approval_rules.is_empty() && !agent.interactive);
}

#[test]
fn the_default_key_is_sent_to_the_default_address_only() {
    let agent = good(&with("[model]\nbase_url = \"http://elsewhere/v1\"\n"));
    assert_eq!((agent.model.api_key_env, agent.model.replicas), (None, Vec::new()));
}

#[test]
fn huge_durations_mean_never() {
    let agent = good(&with("[limits]\ndeadline = \"1000000000000s\"\n"));
    assert_eq!(agent.limits.deadline_ms, Some(31_536_000_000_000.min(DURATION_MS_MAX)));
    let agent = good(&with("[limits]\ndeadline = \"99999999999999999999999h\"\n"));
    assert_eq!(agent.limits.deadline_ms, Some(DURATION_MS_MAX));
}

#[test]
fn a_text_that_is_no_toml_is_refused_where_it_breaks() {
    for (text, place) in [
        ("name = \"a\nx = 1", "line 1, column "),
        ("name = \"a\"\nname = \"b\"", "line 2, column 1: this is no TOML: duplicate key"),
        ("name = \"a\"\n[limits\nsteps = 1", "line 2, column "),
        ("name", "line 1, column "),
    ] {
        let error = refused(text);
        assert!(error.starts_with(place), "{text:?}: {error}");
        assert!(error.contains("no TOML"), "{text:?}: {error}");
    }
}

#[test]
fn every_problem_is_named_at_once_in_the_order_of_the_text() {
    let text = "name = \"a b\"\ntoolz = []\n[limits]\nsteps = 0\n";
    assert_eq!(
        refused(text),
        "line 1, column 1: an agent needs `instructions`: what the agent is and how it works (the \
         system prompt)\n\
         line 1, column 8: `name` must be letters, digits, `_`, `-` and `.`, at most 128\n\
         line 2, column 1: an agent has no key `toolz`: did you mean `tools`?\n\
         line 4, column 9: `steps` must be 1 to 4294967295, not 0"
    );
}

#[track_caller]
fn check_refusals(cases: &[(&str, &str)]) {
    for (more, says) in cases {
        let error = refused(&with(more));
        assert!(error.contains(says), "{more}\n  says: {error}\n  not:  {says}");
        assert_eq!(error.lines().count(), 1, "{more}: {error}");
    }
}

#[test]
fn wrong_keys_and_types_are_refused_with_their_place() {
    check_refusals(&[
        ("interactive = \"yes\"", "line 3, column 15: `interactive` must be true or false"),
        ("tools = \"shell\"", "line 3, column 9: `tools` must be strings in brackets"),
        ("tools = [1]", "line 3, column 10: `tools` must be strings in brackets"),
        ("limits = 3", "line 3, column 10: `limits` must be a table [limits]"),
        (
            "system_prompt = \"x\"",
            "line 3, column 1: an agent has no key `system_prompt`: did you mean `instructions`?",
        ),
        (
            "[limits]\nmax_steps = 3",
            "line 4, column 1: [limits] has no key `max_steps`: did you mean `steps`?",
        ),
        (
            "[limits]\nsteps = 1.5",
            "line 4, column 9: `steps` must be a whole number, not a TOML float",
        ),
        ("[limits]\nsteps = -1", "line 4, column 9: `steps` must be 1 to 4294967295, not -1"),
        ("[limits]\ntokens = 0", "line 4, column 10: `tokens` must be at least 1, not 0"),
        (
            "[limits]\nrepeat_count = 9",
            "line 4, column 1: an action cannot stand 9 times among the last 8",
        ),
        (
            "[model.timeouts]\nfirst_tokn = \"1s\"",
            "line 4, column 1: [model.timeouts] has no key `first_tokn`: did you mean `first_token`?",
        ),
        ("[retry]\nbase = \"2m\"\ncap = \"1m\"", "line 5, column 1: `cap` is shorter than `base`"),
    ]);
}

#[test]
fn senseless_durations_are_refused_with_their_place() {
    check_refusals(&[
        ("[limits]\ndeadline = \"0s\"", "line 4, column 12: `deadline`: `0s` is no time at all"),
        ("[limits]\ndeadline = \"-5s\"", "line 4, column 12: `deadline`: `-5s` is negative"),
        ("[limits]\ndeadline = \"NaN\"", "line 4, column 12: `deadline`: `NaN` is no duration"),
        (
            "[limits]\ndeadline = nan",
            "line 4, column 12: `deadline` must be a duration, for example",
        ),
        (
            "[limits]\ndeadline = 90",
            "line 4, column 12: `deadline` must be a duration, for example",
        ),
        ("[limits]\ndeadline = \"90\"", "has no unit"),
        ("[model.timeouts]\ntotal = \"0ms\"", "line 4, column 9: `total`: `0ms` is no time at all"),
        (
            "[approval]\nexpires_after = \"-1d\"",
            "line 4, column 17: `expires_after`: `-1d` is negative",
        ),
    ]);
}

#[test]
fn a_model_that_cannot_be_asked_is_refused() {
    check_refusals(&[
        (
            "[model]\nbase_url = \"127.0.0.1:8000\"",
            "line 4, column 12: `base_url` must begin with http",
        ),
        ("[model]\nbase_url = \"http://\"", "line 4, column 12: `base_url` is no address"),
        ("[model]\nbase_url = \"http://h:0/v1\"", "`base_url` has behind its colon no port"),
        ("[model]\nbase_url = \"http://me:pw@host/v1\"", "holds a user or password"),
        ("[[model.fallback]]\nname = \"b\"", "[[model.fallback]] needs `base_url`"),
        (
            "[[model.fallback]]\nname = \"b\"\nbase_url = \"http://b\"\nafter = 12",
            "is asked after 12 attempts, and [retry] ends after 12",
        ),
        ("[model]\nreplicas = [\"gpu2\"]", "line 4, column 13: `replicas` must begin with http"),
        (
            "[model]\nreplicas = [\"http://127.0.0.1:8000/v1\"]",
            "`replicas` names http://127.0.0.1:8000/v1, which is there already",
        ),
        (
            "[model]\nparameters = { messages = [] }",
            "line 4, column 16: `messages` is written by Stepwell itself",
        ),
        ("[model]\nparameters = { stream = false }", "`stream` is written by Stepwell itself"),
        ("[model]\nparameters = { n = 2 }", "`n` must be 1"),
        (
            "[model]\nparameters = { temperature = nan }",
            "line 4, column 30: `temperature` cannot be sent",
        ),
        ("[model]\nparameters = { seed = 1979-05-27 }", "line 4, column 23: `seed` cannot be sent"),
        (
            "[model]\ntemperature = 0",
            "line 4, column 1: [model] has no key `temperature`: write it into `parameters",
        ),
    ]);
    let error = refused(&with("[model]\napi_key_env = \"sk-very-secret\""));
    assert!(error.starts_with("line 4, column 15: `api_key_env` must be the name"), "{error}");
    assert!(!error.contains("very-secret"), "{error}");
    let nothing = ModelDefaults::default();
    let error: AgentFileError = read(&with("[model]\n"), &catalogue(), &nothing).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("line 3, column 2: [model] needs `name`"), "{text}");
    assert!(text.contains("STEPWELL_MODEL_URL"), "{text}");
}

#[test]
fn a_tool_that_nobody_registered_is_refused_with_the_known_ones() {
    check_refusals(&[
        (
            "tools = [\"read_file\", \"edit_file\"]",
            "line 3, column 23: no worker has registered a tool `edit_file`: there is `ask_user`, \
             `read_file`, `shell`, `sleep`, `write_file`. Start a worker that offers it (stepwell \
             worker)",
        ),
        (
            "tools = [\"xyzzy\"]",
            "there is `ask_user`, `read_file`, `shell`, `sleep`, `write_file`. Start a worker",
        ),
        ("tools = [\"shell\", \"shell\"]", "line 3, column 19: `shell` stands twice"),
    ]);
}

#[test]
fn a_tool_of_the_file_is_checked() {
    let tool = |more: &str| format!("[[tool]]\nname = \"t\"\ndescription = \"d\"\n{more}");
    assert_eq!(good(&with(&tool(""))).tools[0].effect, Effect::Write);
    check_refusals(&[
        ("[[tool]]\nname = \"t\"", "line 3, column 1: [[tool]] needs `description`"),
        ("[[tool]]\ndescription = \"t\"", "[[tool]] needs `name`"),
        (
            "[[tool]]\nname = \"a b\"\ndescription = \"d\"",
            "line 4, column 8: `a b` is no tool name",
        ),
        ("[[tool]]\nname = \"sleep\"\ndescription = \"d\"", "is a tool of Stepwell itself"),
        (
            &tool("effect = \"safe\""),
            "line 6, column 10: `effect` must be read, idempotent or write",
        ),
        (&tool("parameters = '{'"), "line 6, column 14: `parameters`: the JSON ends too early"),
        (
            &tool("parameters = { type = \"nonsense\" }"),
            "`parameters`: the schema is not a JSON Schema",
        ),
        (&tool("parameters = { type = \"string\" }"), "must describe an object"),
        (&tool("inputSchema = {}"), "has no key `inputSchema`"),
        (&format!("{}\n{}", tool(""), tool("")), "line 7, column 1: the tool `t` is defined twice"),
    ]);
}

#[test]
fn a_rule_that_cannot_be_meant_is_refused() {
    let rule =
        |more: &str| format!("tools = [\"shell\", \"write_file\"]\n[[approval.rules]]\n{more}");
    check_refusals(&[
        (&rule("verdict = \"allow\""), "line 4, column 1: [[approval.rules]] needs `tool`"),
        (&rule("tool = \"shell\""), "line 4, column 1: [[approval.rules]] needs `verdict`"),
        (
            &rule("tool = \"shell\"\nverdict = \"yes\""),
            "line 6, column 11: `verdict` must be allow, ask or deny, not `yes`",
        ),
        (
            &rule("tool = \"shel\"\nverdict = \"deny\""),
            "line 5, column 8: this rule never fits, the agent has no tool `shel`: did you mean `shell`?",
        ),
        (&rule("tool = \"shell\"\ncommands = []\nverdict = \"allow\""), "`commands` names none"),
        (
            &rule("tool = \"shell\"\ncommands = [\"\"]\nverdict = \"allow\""),
            "an empty command fits nothing",
        ),
        (
            &rule("tool = \"write_file\"\ncommands = [\"ls\"]\nverdict = \"allow\""),
            "line 6, column 1: this rule never fits, no such tool has an argument `command`",
        ),
        (
            &rule("tool = \"write_file\"\narguments = { file = \"x\" }\nverdict = \"deny\""),
            "no such tool has an argument `file`: there is `path`",
        ),
        (
            &rule("tool = \"write_file\"\narguments = { path = 1 }\nverdict = \"deny\""),
            "the pattern for `path` must be a string",
        ),
        (
            &rule("tool = \"shell\"\naction = \"allow\"\nverdict = \"allow\""),
            "did you mean `verdict`?",
        ),
    ]);
}

#[test]
fn a_definition_that_is_too_large_is_refused() {
    let error = refused(&with(&"#".repeat(super::DEFINITION_BYTES_MAX)));
    assert!(error.contains("at most 1048576"), "{error}");
}

/// The definitions in a Markdown text.
fn toml_blocks(text: &str) -> Vec<&str> {
    let blocks = text.split("```toml\n").skip(1);
    blocks.filter_map(|block| block.split("```").next()).collect()
}

#[test]
fn the_definitions_of_the_documentation_can_be_used() {
    let named = ["read_file", "write_file", "edit_file", "list_files", "search_files", "shell"];
    let schema = r#"{"type":"object"}"#;
    let catalogue = Catalogue::new(named.map(|name| worker_tool(name, Effect::Write, schema)));
    let mut definitions = toml_blocks(include_str!("../../../../docs/agents.md"));
    assert_eq!(definitions.len(), 2);
    definitions.push(include_str!("../../../../examples/coder.toml"));
    for definition in definitions {
        let read = read(definition, &catalogue, &defaults());
        assert!(read.is_ok(), "{}\n{definition}", read.unwrap_err());
    }
}
