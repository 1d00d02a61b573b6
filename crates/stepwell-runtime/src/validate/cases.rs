//! The failure cases from the field about arguments, `tests/cases/json_args.jsonl`.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use stepwell_core::agent::{Agent, ModelSpec};
use stepwell_core::json::{canonical, read_strict};
use stepwell_core::{JsonText, ToolSpec};

use super::{Judged, judge};

/// Lines of the file; a test that finds none would pass.
const CASES: usize = 43;

fn agent(schema: &Value) -> Agent {
    let schema =
        if schema.is_null() { r#"{"type":"object"}"#.to_owned() } else { schema.to_string() };
    let tool = ToolSpec {
        name: "tool".into(),
        parameters: JsonText::parse(&schema).unwrap(),
        ..ToolSpec::sleep()
    };
    Agent {
        tools: vec![tool],
        ..Agent::new("cases", "", ModelSpec::new("m", "http://127.0.0.1:8000/v1"))
    }
}

/// The kind of error in the cases' words.
fn kind(problem: &str) -> &'static str {
    let words = [
        ("ends too early", "truncated"),
        ("stands twice", "duplicate_key"),
        ("out of range", "number_out_of_range"),
        ("nested deeper", "too_deep"),
        ("one JSON object", "not_an_object"),
        ("invalid JSON", "invalid_json"),
        ("cannot be used: at ", "schema_mismatch"),
    ];
    let found = words.iter().find(|(says, _)| problem.contains(says));
    found.map_or("unknown", |(_, kind)| kind)
}

#[test]
fn every_case_comes_out_as_one_that_is_allowed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/json_args.jsonl");
    let lines = fs::read_to_string(path).unwrap();
    // Read strictly, because the cases hold numbers of many digits.
    let cases: Vec<Value> = lines.lines().map(|line| read_strict(line).unwrap()).collect();
    assert_eq!(cases.len(), CASES);
    for case in cases {
        check(&case);
    }
}

#[track_caller]
fn check(case: &Value) {
    let (id, raw) = (case["id"].as_str().unwrap(), case["raw"].as_str().unwrap());
    let is_cut = case["finish_reason"] == "length";
    let agent = Arc::new(agent(&case["schema"]));
    let Judged { arguments, repaired, problem } = judge(&agent, "tool", raw.to_owned(), is_cut);
    let also = case["also_ok"].as_array().into_iter().flatten();
    let mut allowed = also.chain([&case["expect"]]);
    if let Some(problem) = problem {
        let kind = kind(&problem);
        assert!(allowed.any(|it| it["error"] == kind), "{id}: {kind} {problem}");
        assert_eq!(repaired, None, "{id}");
        let is_kept = arguments == raw || (raw.trim().is_empty() && arguments == "{}");
        assert!(is_kept, "{id}: {arguments}");
        return;
    }
    let value = canonical(&read_strict(arguments.trim()).unwrap());
    let is = |it: &Value| canonical(it) == value;
    assert!(allowed.any(|it| !it["ok"].is_null() && is(&it["ok"])), "{id}: {value}");
    assert!(!case["never"].as_array().into_iter().flatten().any(is), "{id}: {value}");
    match repaired {
        Some(repaired) => {
            assert_eq!(repaired.raw.preview(), raw, "{id}");
            assert_eq!(case["kind"], "light-repair", "{id}: {:?}", repaired.repairs);
        }
        None => assert!(arguments == raw || raw.trim().is_empty(), "{id}"),
    }
}
