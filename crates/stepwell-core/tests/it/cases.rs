//! Every case from the field that is about the core has a test that names it.

use serde_json::Value;

/// Cases that the core alone cannot fail, and who is responsible for them.
const ELSEWHERE: &[(&str, &str)] = &[
    ("du24", "the watch of the server"),
    ("du25", "the store"),
    ("du27", "the store"),
    ("du29", "the store"),
    ("du30", "the store"),
    ("ti05", "the workers: a call has one end, whoever reports it"),
    ("ti09", "nobody yet: there are no timers by calendar"),
];

const TESTS: &[&str] = &[
    include_str!("approvals.rs"),
    include_str!("cancel.rs"),
    include_str!("codec.rs"),
    include_str!("durability.rs"),
    include_str!("outcome.rs"),
    include_str!("span_records.rs"),
    include_str!("steps.rs"),
    include_str!("timers.rs"),
];

#[test]
fn every_case_is_named_by_a_test() {
    let files = [
        include_str!("../cases/approvals.jsonl"),
        include_str!("../cases/durability.jsonl"),
        include_str!("../cases/spans.jsonl"),
        include_str!("../cases/timers.jsonl"),
    ];
    for row in files.iter().flat_map(|file| file.lines()) {
        let row: Value = serde_json::from_str(row).unwrap();
        let case = row["id"].as_str().unwrap();
        let is_named = TESTS.iter().any(|text| text.contains(case));
        let is_elsewhere = ELSEWHERE.iter().any(|(it, _)| *it == case);
        assert!(is_named != is_elsewhere, "{case}: {}", row["title"]);
    }
}
