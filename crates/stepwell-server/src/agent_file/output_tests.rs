//! `[answer]` and what `[model]` says about output.

use stepwell_core::agent::History;
use stepwell_core::output::{AnswerForm, OutputPolicy, ToolChoice, WhenIgnored};
use stepwell_core::{Agent, Effect};

use super::notes;
use super::tests::{good, refused, with};

fn output(more: &str) -> OutputPolicy {
    good(&with(more)).output
}

#[track_caller]
fn check_refused(more: &str, says: &str) {
    let problems = refused(&with(more));
    assert!(problems.contains(says), "{problems}");
}

#[test]
fn tools_are_strict_unless_the_file_says_no() {
    assert!(output("tools = [\"shell\"]").strict_tools);
    assert!(!output("tools = [\"shell\"]\n[model]\nstrict_tools = false").strict_tools);
    assert!(output("").is_default(), "without tools there is nothing to be strict about");
}

#[test]
fn a_history_is_sent_as_the_file_says() {
    let model = |more: &str| good(&with(more)).model;
    for (word, history) in
        [("calls", History::Calls), ("text", History::Text), ("tokens", History::Tokens)]
    {
        assert_eq!(model(&format!("[model]\nhistory = \"{word}\"")).history, history);
    }
    assert_eq!((model("").history, model("").token_ids), (History::Calls, false));
    assert!(model("[model]\ntoken_ids = true").token_ids);
    check_refused("[model]\nhistory = \"exact\"", "calls, text or tokens");
    let twice = "[model]\nparameters = { return_token_ids = true }";
    check_refused(twice, "write `token_ids = true` into [model]");
}

#[test]
fn what_engines_do_not_accept_is_relaxed_and_named() {
    let agent: Agent = good(&with(
        r#"tools = ["shell"]
[[tool]]
name = "pick"
description = "Picks."
effect = "read"
parameters = { type = "object", properties = { z = { type = "array", uniqueItems = true }, a = { type = "string" } } }
[answer]
schema = { type = "object", minProperties = 1 }"#,
    ));
    let pick = &agent.output.relaxed["pick"];
    assert_eq!(
        pick.schema.as_str(),
        r#"{"type":"object","properties":{"z":{"type":"array"},"a":{"type":"string"}}}"#
    );
    assert_eq!(pick.dropped, ["/properties/z/uniqueItems"]);
    assert!(agent.tool("pick").is_some_and(|tool| tool.effect == Effect::Read));
    assert!(
        agent.tool("pick").unwrap().parameters.as_str().contains("uniqueItems"),
        "the true one"
    );
    let notes = notes(&agent);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("`pick`") && notes[0].contains("/properties/z/uniqueItems"));
    assert!(notes[1].contains("answer") && notes[1].contains("/minProperties"));
}

#[test]
fn each_form_of_an_answer_is_read() {
    for (answer, expected) in [
        ("regex = 'a+'", AnswerForm::Regex("a+".into())),
        ("choice = [\"yes\", \"no\"]", AnswerForm::Choice(vec!["yes".into(), "no".into()])),
        ("grammar = 'start: \"x\"'", AnswerForm::Grammar("start: \"x\"".into())),
    ] {
        assert_eq!(output(&format!("[answer]\n{answer}")).answer, Some(expected));
    }
    let schema = output("[answer]\nschema = '{\"type\": \"object\"}'").answer;
    let Some(AnswerForm::Schema { schema, relaxed: None }) = schema else { panic!("{schema:?}") };
    assert_eq!(schema.as_str(), r#"{"type": "object"}"#);
}

#[test]
fn a_choice_among_tools_is_read() {
    for (choice, expected) in [
        ("auto", ToolChoice::Auto),
        ("none", ToolChoice::None),
        ("required", ToolChoice::Required),
        ("shell", ToolChoice::Tool("shell".into())),
    ] {
        let more = format!("tools = [\"shell\"]\n[model]\ntool_choice = \"{choice}\"");
        assert_eq!(output(&more).tool_choice, expected);
    }
    let fail = output("[model]\nwhen_ignored = \"fail\"");
    assert_eq!(fail.when_ignored, WhenIgnored::Fail);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (more, says) in [
        ("[answer]", "one of `schema`"),
        ("[answer]\nregex = 'a'\nchoice = ['a']", "one of `schema`"),
        ("[answer]\nregex = '(?=a)'", "`regex`: it cannot be used"),
        ("[answer]\nchoice = []", "1 to 1000 texts"),
        ("[answer]\nschema = { type = \"nonsense\" }", "`schema`: "),
        ("[answer]\njson = {}", "did you mean `schema`?"),
        ("tools = [\"shell\"]\n[model]\ntool_choice = \"shel\"", "did you mean `shell`?"),
        ("[model]\ntool_choice = \"required\"", "no tools that it could call"),
        ("[model]\nwhen_ignored = \"ignore\"", "go_on or fail"),
        (
            "[model]\nparameters = { response_format = { type = \"json_object\" } }\n[answer]\nregex = 'a'",
            "`response_format` stands in `parameters`",
        ),
        (
            "tools = [\"shell\"]\n[model]\ntool_choice = \"none\"\nparameters = { tool_choice = \"auto\" }",
            "write it into [model] itself",
        ),
        ("response_format = 1", "did you mean [answer]?"),
    ] {
        check_refused(more, says);
    }
}
