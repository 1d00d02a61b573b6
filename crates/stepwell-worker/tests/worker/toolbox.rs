//! What is registered, and what is refused.

use std::time::Duration;

use serde_json::{Value, json};
use stepwell_worker::{
    Effect, Tool, ToolContext, ToolDescription, ToolError, ToolResult, Toolbox, ToolboxError,
    tool_fn,
};

use crate::support::Bench;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Add {
    /// The first summand.
    left: i64,
    /// The second summand.
    right: Option<f64>,
}

fn add() -> impl Tool {
    tool_fn("add", "Adds.", Effect::Read, |_context, sum: Add| async move {
        Ok(format!("{} {:?}", sum.left, sum.right))
    })
    .timeout(Duration::from_secs(3))
    .concurrency(2)
    .output::<String>()
}

#[tokio::test]
async fn a_function_is_a_tool() {
    let bench = Bench::new();
    let description = add().describe();
    let schema: Value = serde_json::from_str(&description.parameters).unwrap();
    assert_eq!(schema["properties"]["left"]["description"], "The first summand.", "{schema}");
    assert_eq!(description.output_schema.as_deref(), Some(r#"{"type":"string"}"#));
    assert_eq!((description.timeout.as_secs(), description.concurrency), (3, 2));
    let text = add().call(bench.context(), r#"{"left": 9007199254740993, "right": 1e2}"#).await;
    assert_eq!(text.unwrap().text, "9007199254740993 Some(100.0)");
    for wrong in [
        "",
        "{}",
        "[]",
        "null",
        r#"{"left":"1"}"#,
        r#"{"left":1.5}"#,
        r#"{"left":1,"x":2}"#,
        r#"{"left":1} {}"#,
        "{\"left\":\u{0}}",
    ] {
        let refused = add().call(bench.context(), wrong).await;
        assert!(
            matches!(&refused, Err(ToolError::Failed(text)) if text.contains("`add`")),
            "{wrong}: {refused:?}"
        );
    }
}

#[test]
fn one_name_is_given_once() {
    let mut toolbox = Toolbox::new();
    toolbox.add(add()).unwrap();
    assert_eq!(toolbox.add(add()), Err(ToolboxError::DuplicateName("add".to_owned())));
    assert_eq!(toolbox.len(), 1);
}

struct Described(ToolDescription);

#[async_trait::async_trait]
impl Tool for Described {
    fn describe(&self) -> ToolDescription {
        self.0.clone()
    }

    async fn call(&self, _context: ToolContext, _arguments: &str) -> ToolResult {
        Ok("".into())
    }
}

#[test]
fn descriptions_that_cannot_work_are_refused() {
    let good = add().describe();
    let check = |change: fn(&mut ToolDescription), expected: &str| {
        let mut description = good.clone();
        change(&mut description);
        let refused = Toolbox::new().add(Described(description)).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}, not {expected}");
    };
    check(|it| it.name = "a b".to_owned(), "no tool name");
    check(|it| it.name = String::new(), "no tool name");
    check(|it| it.name = "x".repeat(65), "no tool name");
    check(|it| it.parameters = "{".to_owned(), "parameters schema is not usable");
    check(|it| it.parameters = r#"{"type":"string"}"#.to_owned(), "must be \"object\"");
    check(|it| it.output_schema = Some("3".to_owned()), "output schema is not usable");
    check(|it| it.timeout = Duration::ZERO, "timeout is zero");
    check(|it| it.concurrency = 0, "concurrency is zero");
}

#[test]
fn the_built_in_tools_say_what_they_do() {
    let bench = Bench::new();
    let effects: Vec<_> =
        bench.toolbox.descriptions().map(|it| (it.name.as_str(), it.effect.as_str())).collect();
    assert_eq!(
        effects,
        [
            ("edit_file", "write"),
            ("list_files", "read"),
            ("read_file", "read"),
            ("search_files", "read"),
            ("shell", "write"),
            ("write_file", "write"),
        ]
    );
    for description in bench.toolbox.descriptions() {
        let schema: Value = serde_json::from_str(&description.parameters).unwrap();
        assert_eq!(schema["additionalProperties"], false, "{schema}");
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{}: {name}", description.name);
        }
    }
}

#[tokio::test]
async fn no_arguments_make_a_tool_panic() {
    let bench = Bench::new();
    bench.put("a.txt", "one\ntwo\n");
    let nasty = [
        json!(""),
        json!("\0"),
        json!("/"),
        json!("."),
        json!("./"),
        json!(".."),
        json!("a.txt/b"),
        json!("x".repeat(100_000)),
        json!("x/".repeat(5_000)),
        json!("\u{202e}\u{1f9ea}\n"),
        json!("[["),
        json!("(((("),
        json!("**/**/**"),
        json!(-1),
        json!(u64::MAX),
        json!(0),
        json!(1e308),
        json!(null),
        json!([]),
        json!({}),
        json!(true),
    ];
    for description in bench.toolbox.descriptions() {
        let schema: Value = serde_json::from_str(&description.parameters).unwrap();
        let names: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        for value in &nasty {
            for name in &names {
                if name == "command" {
                    continue;
                }
                let mut arguments = json!({"path": "a.txt"});
                for required in schema["required"].as_array().into_iter().flatten() {
                    arguments[required.as_str().unwrap()] = json!("a.txt");
                }
                if description.name == "shell" {
                    arguments = json!({"command": "exit 0"});
                }
                arguments[name] = value.clone();
                // Whatever comes out: it comes out.
                let _ = bench.call(&description.name, arguments).await;
            }
        }
    }
}
