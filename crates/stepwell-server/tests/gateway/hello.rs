//! Who is let in, and what is remembered of their tools.

use stepwell_core::{Effect, ToolSpec};
use stepwell_ports::Store;
use stepwell_proto::v1::{Heartbeat, HeldCall, Hello, ToolOffer, attach_request};
use tonic::Code;

use crate::world::{RawWorker, World, hello, offer, patient};

/// Expects that a worker with this change in its hello is refused, with these words.
async fn refused(change: impl FnOnce(&mut Hello), code: Code, words: &str) {
    let world = World::new(patient());
    let mut hello = hello("w", "1");
    change(&mut hello);
    let status = RawWorker::join(&world.url(), hello).await.err().expect(words);
    assert_eq!(status.code(), code, "{status}");
    assert!(status.message().contains(words), "{words:?} is not in {:?}", status.message());
    assert!(world.gateway.workers().is_empty());
    assert!(world.store.tools().await.unwrap().is_empty(), "nothing of it is stored");
}

async fn invalid(change: impl FnOnce(&mut Hello), words: &str) {
    refused(change, Code::InvalidArgument, words).await;
}

#[tokio::test]
async fn names_have_a_form() {
    invalid(|it| it.name.clear(), "no worker name").await;
    invalid(|it| it.name = "a b".to_owned(), "\"a b\" is no worker name").await;
    invalid(|it| it.name = "w@1".to_owned(), "no worker name").await;
    invalid(|it| it.name = "x".repeat(129), "no worker name").await;
    invalid(|it| it.name = "x".repeat(1_000_000), "…").await;
    invalid(|it| it.instance.clear(), "no instance").await;
    invalid(|it| it.instance = "x".repeat(65), "no instance").await;
    invalid(|it| it.name = "embedded".to_owned(), "belongs to the worker inside").await;
}

#[tokio::test]
async fn numbers_have_bounds() {
    invalid(|it| it.concurrency = 0, "concurrency is 0").await;
    invalid(|it| it.concurrency = u32::MAX, "concurrency is").await;
    invalid(|it| it.tools = vec![offer("a"); 300], "300 tools").await;
    invalid(|it| it.held = vec![HeldCall::default(); 5_000], "5000 held calls").await;
    invalid(|it| it.held = vec![HeldCall::default()], "held call 0").await;
    invalid(|it| it.tools[0].timeout_ms = 0, "time limit is 0 ms").await;
    invalid(|it| it.tools[0].timeout_ms = u64::MAX, "time limit is").await;
}

#[tokio::test]
async fn tools_have_names_that_models_take() {
    invalid(|it| it.tools[1].name = "no.dots".to_owned(), "tool \"no.dots\": no model API").await;
    invalid(|it| it.tools[1].name = String::new(), "no model API").await;
    invalid(|it| it.tools[1].name = "x".repeat(65), "no model API").await;
    invalid(|it| it.tools[1].name = "a".to_owned(), "tool \"a\": the name is there twice").await;
    invalid(|it| it.tools[1].name = "ask_user".to_owned(), "the engine itself").await;
    invalid(|it| it.tools[1].effect = "harmless".to_owned(), "\"harmless\"").await;
    invalid(|it| it.tools[1].description = "x".repeat(20_000), "description has 20000").await;
}

#[tokio::test]
async fn a_schema_that_is_none_is_refused_with_what_is_wrong() {
    for (schema, words) in [
        ("", "tool \"b\": its parameters schema is no JSON Schema"),
        ("{", "ends"),
        ("[]", "must be a JSON object"),
        ("{}", "\"type\" must be \"object\""),
        (r#"{"type":"string"}"#, "\"type\" must be \"object\""),
        (r#"{"type":"object","properties":3}"#, "/properties"),
        (r#"{"type":"object","properties":{"x":{"type":"strnig"}}}"#, "/properties/x/type"),
        (r#"{"type":"object","properties":{"x":{"pattern":"("}}}"#, "/properties/x"),
        (r##"{"type":"object","properties":{"x":{"$ref":"#/nowhere"}}}"##, "nowhere"),
        (r#"{"type":"object","properties":{"x":{"$ref":"http://127.0.0.1:1/"}}}"#, "127.0.0.1"),
        (r#"{"type":"object","$schema":"urn:mine"}"#, "urn:mine"),
        (r#"{"type":"object","type":"object"}"#, "twice"),
    ] {
        invalid(|it| it.tools[1].parameters = schema.to_owned(), words).await;
    }
    invalid(|it| it.tools[1].output_schema = r#"{"type":1}"#.to_owned(), "its output schema").await;
    invalid(|it| it.tools[1].parameters = " ".repeat(300_000), "schema has 300000 bytes").await;
}

#[tokio::test]
async fn hello_comes_first_and_once() {
    let world = World::new(patient());
    let first = attach_request::Message::Heartbeat(Heartbeat { running_calls: 1 });
    let status = RawWorker::say_first(&world.url(), first).await.err().unwrap();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("must be hello"), "{status}");
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.say(attach_request::Message::Hello(hello("w", "1"))).await;
    assert_eq!(worker.closed().await.0, Code::InvalidArgument);
    world.until(|it| it.workers().is_empty()).await;
}

#[tokio::test]
async fn a_name_belongs_to_one_living_process() {
    let world = World::new(patient());
    let first = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    let mut other = hello("w", "2");
    other.tools = vec![offer("c")];
    let status = RawWorker::join(&world.url(), other.clone()).await.err().unwrap();
    assert_eq!(status.code(), Code::AlreadyExists);
    assert!(status.message().contains("\"w\""), "{status}");
    let known: Vec<String> =
        world.store.tools().await.unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(known, ["a", "b"], "nothing of the refused one is stored");
    drop(first);
    world.until(|it| it.workers().is_empty()).await;
    RawWorker::join(&world.url(), other).await.unwrap();
}

async fn stored(world: &World, tool: &str) -> (ToolSpec, String) {
    let tools = world.store.tools().await.unwrap();
    let record = tools.into_iter().find(|it| it.name == tool).unwrap();
    (serde_json::from_str(&record.spec).unwrap(), record.worker)
}

#[tokio::test]
async fn tools_are_remembered_and_their_effect_class_is_guarded() {
    let world = World::new(patient());
    let careful = RawWorker::join(&world.url(), hello("careful", "1")).await.unwrap();
    let (spec, worker) = stored(&world, "a").await;
    assert_eq!((spec.effect, worker.as_str()), (Effect::Write, "careful"));
    let lax = |name: &str, instance: &str| {
        let tool = ToolOffer {
            effect: "read".to_owned(),
            description: "Newer.".to_owned(),
            timeout_ms: 9,
            ..offer("a")
        };
        Hello { tools: vec![tool], ..hello(name, instance) }
    };
    RawWorker::join(&world.url(), lax("lax", "1")).await.unwrap();
    let (spec, _) = stored(&world, "a").await;
    assert_eq!(spec.effect, Effect::Write, "another worker does not weaken it");
    assert_eq!((spec.description.as_str(), spec.timeout_ms), ("Newer.", 9), "the rest is newer");
    drop(careful);
    world.until(|it| it.workers().iter().all(|worker| worker.name != "careful")).await;
    RawWorker::join(&world.url(), lax("careful", "2")).await.unwrap();
    let (spec, _) = stored(&world, "a").await;
    assert_eq!(spec.effect, Effect::Write, "`lax` was the last that registered it");
    world.until(|it| it.workers().iter().all(|worker| worker.name != "careful")).await;
    RawWorker::join(&world.url(), lax("careful", "3")).await.unwrap();
    let (spec, _) = stored(&world, "a").await;
    assert_eq!(spec.effect, Effect::Read, "its own worker changed its mind");
}
