//! Two sessions side by side.

use stepwell_core::compare::{Outline, compare};
use stepwell_core::event::{Edit, ToolOutcome};
use stepwell_core::ids::Seq;
use stepwell_core::{Event, Text};

use crate::world::{World, fork, id, message};

fn outline(events: &[Event]) -> Outline {
    let mut outline = Outline::default();
    for event in events {
        outline.push(event);
    }
    outline
}

fn differences(a: &World, b: &World) -> Vec<(u32, String)> {
    let found = compare(&outline(&a.events), &outline(&b.events));
    found.into_iter().map(|it| (it.step, it.what)).collect()
}

fn kind(world: &World, seq: Seq) -> &'static str {
    world.events.iter().find(|it| it.seq == seq).map_or("", |it| it.body.kind().as_str())
}

fn story(box_of_step_2: &str) -> World {
    let mut world = World::new();
    world.calls(&[("find", r#"{"box":9}"#)]);
    world.done(id(1, 1), "shelf A");
    world.calls(&[("find", box_of_step_2)]);
    world.done(id(2, 1), "shelf B");
    world.answer("done");
    world
}

#[test]
fn a_session_is_the_same_as_itself_and_as_its_repetition() {
    let world = story(r#"{"box":9}"#);
    assert_eq!(differences(&world, &world), []);
    assert_eq!(
        differences(&world, &story(r#"{ "box" : 9 }"#)),
        [(3, "the request (by its digest)".into())]
    );
}

#[test]
fn the_first_difference_comes_first() {
    let found = differences(&story(r#"{"box":9}"#), &story(r#"{"box":8}"#));
    assert_eq!(found[0], (2, "arguments of call 2.1".to_string()));
    assert_eq!(found[1], (3, "the request (by its digest)".to_string()));
}

#[test]
fn a_fork_differs_from_its_parent_where_it_was_changed() {
    let parent = story(r#"{"box":9}"#);
    let at =
        parent.events.iter().position(|it| it.body.kind().as_str() == "tool_finished").unwrap();
    let mut child = parent.beginning(at);
    let output = Text::from("shelf C");
    let edit = Edit::ToolResult { call_id: id(1, 1), outcome: ToolOutcome::Ok, output };
    child.when(fork(&child.state, vec![edit]));
    child.answer("done");
    let found = differences(&parent, &child);
    assert_eq!(found[0], (1, "result of call 1.1".to_string()));
    let whole = compare(&outline(&parent.events), &outline(&child.events));
    assert_eq!(kind(&parent, whole[0].a_seq), "tool_finished");
    assert_eq!(kind(&child, whole[0].b_seq), "override_applied");
    assert!(found.contains(&(2, "what the model said".to_string())), "{found:?}");
    assert!(found.contains(&(3, "the step".to_string())), "{found:?}");
}

#[test]
fn messages_and_ends_are_compared() {
    let (mut a, mut b) = (World::new(), World::new());
    a.when(message("hurry"));
    a.answer("yes");
    a.answer("done");
    b.answer("yes");
    let found = differences(&a, &b);
    assert_eq!(found[0], (1, "a message".to_string()));
}

#[test]
fn a_difference_names_the_event_that_says_it() {
    let (a, b) = (story(r#"{"box":9}"#), story(r#"{"box":8}"#));
    let found = compare(&outline(&a.events), &outline(&b.events));
    let of = |what: &str| found.iter().find(|it| it.what == what).unwrap();
    let arguments = of("arguments of call 2.1");
    assert_eq!(kind(&a, arguments.a_seq), "model_replied");
    assert_eq!(kind(&b, arguments.b_seq), "model_replied");
    assert_eq!(kind(&a, of("the request (by its digest)").a_seq), "model_requested");
}
