//! The span tree: what is below what, how it stands, and that nothing is left out.

use std::collections::BTreeSet;
use std::fmt::Write;

use stepwell_core::decide::Verdict;
use stepwell_core::event::{ApprovalDecision, EventBody, ModelErrorKind, ToolOutcome};
use stepwell_core::spans::{Span, SpanIndex, SpanKind, SpanStatus, spans};
use stepwell_core::{Event, Input, Seq, TimestampMs};

use crate::world::{
    START, World, agent, cancel, id, message, never_started, pause, report, resume, verdict,
};

/// One line for each span: indentation, kind, name, status, start and end since the first event.
fn draw(tree: &[Span]) -> String {
    let mut text = String::new();
    for span in tree {
        let indent = "  ".repeat(span.depth as usize);
        let end = span.end.map_or("…".to_string(), |end| (end.0 - START).to_string());
        let (kind, status) = (span.kind.as_str(), span.status.as_str());
        let start = span.start.0 - START;
        writeln!(
            text,
            "{indent}{kind} `{}` {status} {start}..{end} #{}..#{} {}",
            span.name, span.first_seq, span.last_seq, span.detail
        )
        .unwrap();
    }
    text
}

/// What holds for every tree: pre-order, known parents, right depths, children as they began, unique
/// ids, no negative length, `open` is what has no end.
#[track_caller]
pub(crate) fn check_tree(tree: &[Span]) {
    let mut path: Vec<&Span> = Vec::new();
    let mut ids = BTreeSet::new();
    for span in tree {
        path.truncate(span.depth as usize);
        assert_eq!(path.len(), span.depth as usize, "pre-order: {span:?}");
        let parent = path.last().map(|it| it.span_id.clone());
        assert_eq!(span.parent, parent, "the parent is around it");
        assert_eq!(span.parent.is_none(), span.kind == SpanKind::Session);
        assert!(ids.insert(span.span_id.clone()), "ids are unique: {}", span.span_id);
        assert!(span.end.is_none_or(|end| end >= span.start), "no negative length: {span:?}");
        assert_eq!(span.end.is_none(), span.status == SpanStatus::Open, "{span:?}");
        assert!(span.last_seq >= span.first_seq);
        if let Some(parent) = path.last() {
            assert!(parent.last_seq >= span.last_seq, "{parent:?} {span:?}");
        }
        path.push(span);
    }
    for parent in tree {
        let children = tree.iter().filter(|it| it.parent.as_ref() == Some(&parent.span_id));
        let attempts = children.clone().filter(|it| it.kind == SpanKind::Attempt).count();
        assert_ne!(attempts, 1, "a single attempt says nothing new: {parent:?}");
    }
}

#[track_caller]
fn tree_of(world: &World) -> String {
    let tree = spans(&world.events);
    check_tree(&tree);
    draw(&tree)
}

#[test]
fn a_session_with_everything() {
    let mut world = World::new();
    world.after(100).fail(ModelErrorKind::Timeout);
    world.wake();
    world.after(100).calls(&[
        ("find", r#"{"box":9}"#),
        ("pay", r#"{"order":7}"#),
        ("ship", r#"{"order":771}"#),
        ("erase", "{}"),
    ]);
    world.after(10).lose(id(1, 1));
    world.after(10).reserve(id(1, 2));
    world.wake();
    world.after(10).done(id(1, 1), "shelf A");
    world.after(10).lose(id(1, 2));
    let payment = *world.state.approvals.keys().last().unwrap();
    world.after(1_000).when(Input::Decide(verdict(payment, ApprovalDecision::DidNotHappen)));
    world.after(10).reserve(id(1, 2));
    world.after(10).when(report(id(1, 2), 2, ToolOutcome::Error, "no money\nat all"));
    let shipment = world.approval();
    let deny = Verdict { reason: "refunded".into(), ..verdict(shipment, ApprovalDecision::Deny) };
    world.after(1_000).when(Input::Decide(deny));
    world.after(50).calls(&[("sleep", r#"{"seconds":5}"#)]);
    world.after(10).when(pause());
    world.wake();
    world.after(1_000).when(resume());
    world.after(50).answer("done");
    insta::assert_snapshot!("a_session_with_everything", tree_of(&world));
}

#[test]
fn what_is_open_is_open() {
    let mut world = World::acting(&[("find", "{}"), ("ship", "{}"), ("ask_user", "{}")]);
    world.after(5).done(id(1, 1), "x");
    let tree = spans(&world.events);
    check_tree(&tree);
    let open: Vec<&str> =
        tree.iter().filter(|it| it.end.is_none()).map(|it| it.span_id.as_str()).collect();
    assert_eq!(open, ["session", "step:1", "call:1.2", "approval:5", "call:1.3"]);
}

#[test]
fn an_interactive_session_shows_its_waits_for_messages() {
    let mut agent = agent();
    agent.interactive = true;
    let mut world = World::of(agent);
    world.after(10).answer("hello");
    world.after(60_000).when(message("hi"));
    world.after(10).when(message("and"));
    world.after(10).answer("what?");
    world.after(10).answer("yes?");
    insta::assert_snapshot!("an_interactive_session", tree_of(&world));
}

#[test]
fn a_cancelled_session_ends_what_was_open_and_keeps_late_results() {
    let mut world = World::acting(&[("find", "{}"), ("pay", "{}"), ("ship", "{}")]);
    world.reserve(id(1, 2));
    world.after(100).when(cancel());
    world.after(10).lose(id(1, 2));
    world.wake();
    world.after(50_000).when(report(id(1, 1), 1, ToolOutcome::Ok, "late"));
    insta::assert_snapshot!("a_cancelled_session", tree_of(&world));
}

#[test]
fn a_call_whose_outcome_stayed_unknown_ends_lost() {
    let mut world = World::acting(&[("pay", "{}")]);
    world.reserve(id(1, 1));
    world.after(10).lose(id(1, 1));
    world.after(10).when(cancel());
    let tree = spans(&world.events);
    check_tree(&tree);
    let call = tree.iter().find(|it| it.span_id == "call:1.1").unwrap();
    assert_eq!(call.status, SpanStatus::Lost);
    assert_eq!(tree[0].status, SpanStatus::Cancelled);
}

#[test]
fn attempts_are_shown_when_there_is_more_than_one() {
    let mut world = World::acting(&[("pay", "{}")]);
    world.reserve(id(1, 1));
    let attempts = |world: &World| {
        spans(&world.events).iter().filter(|it| it.kind == SpanKind::Attempt).count()
    };
    assert_eq!(attempts(&world), 0);
    world.when(never_started(id(1, 1), 1));
    assert_eq!(attempts(&world), 2);
    let retried = |world: &World| SpanIndex::of(&world.events).retried();
    assert!(retried(&world).is_empty(), "it is still under way");
    world.reserve(id(1, 1));
    world.when(report(id(1, 1), 2, ToolOutcome::Ok, "paid"));
    assert_eq!(retried(&world), ["call:1.1"]);
}

#[test]
fn nothing_makes_no_tree() {
    assert!(spans(&[]).is_empty());
}

/// sp01 … sp06 in our words: children before parents, parents that never come, a clock that goes
/// back, the same said twice. All is shown, nothing loops, nothing is negative.
#[test]
fn any_order_of_events_makes_a_tree() {
    let mut world = World::acting(&[("find", "{}"), ("ship", "{}"), ("sleep", r#"{"seconds":1}"#)]);
    world.lose(id(1, 1));
    world.decided(ApprovalDecision::Approve);
    world.reserve(id(1, 2));
    world.wake();
    world.after(500).when(Input::Wake);
    let events = &world.events;
    for start in 0..events.len() {
        check_tree(&spans(&events[start..]));
        check_tree(&spans(events[..=start].iter().rev()));
        let mut one = events[start].clone();
        one.time = TimestampMs(0);
        one.seq = Seq(u64::MAX);
        let with_old = events.iter().chain([&one]);
        let tree = spans(with_old);
        assert!(tree.iter().all(|it| it.end.is_none_or(|end| end >= it.start)));
    }
    for missing in 0..events.len() {
        let rest = events.iter().enumerate().filter(|(at, _)| *at != missing);
        check_tree(&spans(rest.map(|(_, event)| event)));
    }
}

#[test]
fn a_child_without_its_parent_is_shown_below_one_that_is_made_up() {
    let mut world = World::acting(&[("find", "{}")]);
    world.done(id(1, 1), "x");
    let orphans: Vec<&Event> = world
        .events
        .iter()
        .filter(|event| matches!(event.body, EventBody::ToolFinished(_)))
        .collect();
    let tree = spans(orphans);
    check_tree(&tree);
    let ids: Vec<&str> = tree.iter().map(|it| it.span_id.as_str()).collect();
    assert_eq!(ids, ["session", "step:1", "call:1.1"]);
}

/// 10,000 steps in one tree: the cost grows with the events, not with their square.
#[test]
fn a_long_history_is_no_trouble() {
    let mut world = World::acting(&[("find", "{}")]);
    world.done(id(1, 1), "x");
    let step: Vec<Event> = world.events[1..].to_vec();
    let mut events = vec![world.events[0].clone()];
    for n in 0..10_000_u32 {
        for event in &step {
            let mut event = event.clone();
            event.seq = Seq(events.len() as u64 + 1);
            match &mut event.body {
                EventBody::ModelRequested(it) => it.step += n,
                EventBody::ModelReplied(it) => {
                    it.step += n;
                    it.tool_calls[0].call_id.step += n;
                }
                EventBody::ToolScheduled(it) => it.call_id.step += n,
                EventBody::ToolFinished(it) => it.call_id.step += n,
                _ => {}
            }
            events.push(event);
        }
    }
    let tree = spans(&events);
    assert!(tree.len() > 30_000);
    assert_eq!(tree[0].last_seq, Seq(events.len() as u64));
}
