//! The span index: it grows with the events, and every window of it is that part of the whole.

use std::collections::BTreeSet;

use stepwell_core::event::{ModelErrorKind, ToolOutcome};
use stepwell_core::spans::{DEPTH_LIMIT_MAX, Row, SpanIndex, SpanKind, spans};
use stepwell_core::{Event, Seq};

use crate::spans::check_tree;
use crate::world::{World, id, report};

/// The rows that are left, found by looking at each.
fn naive(all: &[Row], collapsed: &[&str], depth_max: Option<u32>) -> Vec<Row> {
    let mut left = Vec::new();
    let mut skip_to = 0;
    for row in all {
        if row.row < skip_to || depth_max.is_some_and(|limit| row.span.depth > limit) {
            continue;
        }
        if collapsed.contains(&row.span.span_id.as_str()) {
            skip_to = row.row + row.size;
        }
        left.push(row.clone());
    }
    left
}

/// Row numbers, sizes, counts and last children, found by looking at each.
#[track_caller]
fn check_places(all: &[Row]) {
    for (at, row) in all.iter().enumerate() {
        assert_eq!(row.row as usize, at);
        let below = all[at + 1..].iter().take_while(|it| it.span.depth > row.span.depth);
        assert_eq!(row.size as usize, below.clone().count() + 1, "{row:?}");
        let children = below.filter(|it| it.span.depth == row.span.depth + 1).count();
        assert_eq!(row.children as usize, children, "{row:?}");
        let after = all[at + 1..].iter().find(|it| it.span.depth <= row.span.depth);
        assert_eq!(row.is_last, after.is_none_or(|it| it.span.depth < row.span.depth), "{row:?}");
    }
}

/// All that can be asked is the same as what the whole tree says.
#[track_caller]
pub(crate) fn check_index(index: &SpanIndex) {
    let all = index.rows(0, u32::MAX);
    assert_eq!(all.len(), index.len() as usize);
    check_tree(&all.iter().map(|row| row.span.clone()).collect::<Vec<_>>());
    check_places(&all);
    for row in &all {
        let id = row.span.span_id.as_str();
        assert_eq!(index.get(id).as_ref(), Some(row));
        assert_eq!(index.rows(row.row, 1), std::slice::from_ref(row));
        let path = index.path(id);
        assert_eq!(path.len() as u32, row.span.depth + 1);
        assert!(path.windows(2).all(|it| it[1].span.parent.as_ref() == Some(&it[0].span.span_id)));
        let is_child = |it: &&Row| it.span.parent.as_deref() == Some(id);
        let children: Vec<Row> = all.iter().filter(is_child).cloned().collect();
        assert_eq!(index.children(id, 0, u32::MAX), children);
        assert_eq!(
            index.children(id, 1, 2),
            children.iter().skip(1).take(2).cloned().collect::<Vec<_>>()
        );
    }
    let some: Vec<&str> = all.iter().step_by(3).map(|row| row.span.span_id.as_str()).collect();
    for collapsed in [&[][..], &some[..], &some[some.len() / 2..]] {
        for depth_max in [None, Some(0), Some(1), Some(2), Some(DEPTH_LIMIT_MAX)] {
            check_view(index, &naive(&all, collapsed, depth_max), collapsed, depth_max);
        }
    }
}

fn check_view(index: &SpanIndex, left: &[Row], collapsed: &[&str], depth_max: Option<u32>) {
    let view = index.view(collapsed.iter().copied(), depth_max).unwrap();
    assert_eq!(view.len() as usize, left.len());
    assert_eq!(view.rows(0, u32::MAX), left);
    let middle = left.len() / 2;
    assert_eq!(
        view.rows(middle as u32, 2),
        left[middle..].iter().take(2).cloned().collect::<Vec<_>>()
    );
    assert!(view.rows(view.len(), 5).is_empty());
    for row in index.rows(0, u32::MAX) {
        let path = index.path(&row.span.span_id);
        let shown = path.iter().rev().find_map(|it| left.iter().position(|shown| shown == it));
        assert_eq!(view.position(&row.span.span_id).map(|it| it as usize), shown);
    }
}

/// Each event is about the spans that `seqs` names it for, and every event about the session.
#[track_caller]
pub(crate) fn check_seqs(index: &SpanIndex, events: &[Event]) {
    let all: Vec<Seq> = events.iter().map(|event| event.seq).collect();
    assert_eq!(index.seqs("session", Seq(0), usize::MAX), all);
    for row in index.rows(0, u32::MAX) {
        let span = &row.span;
        let seqs = index.seqs(&span.span_id, Seq(0), usize::MAX);
        assert_eq!(seqs.first(), Some(&span.first_seq), "{span:?}");
        assert_eq!(seqs.last(), Some(&span.last_seq), "{span:?}");
        let paged = index.seqs(&span.span_id, seqs[0], 1);
        assert_eq!(paged, seqs.iter().skip(1).take(1).copied().collect::<Vec<_>>());
    }
    for event in events {
        let at = index.at(event.seq).unwrap().span;
        assert!(at.first_seq <= event.seq && event.seq <= at.last_seq, "{at:?} {event:?}");
        assert!(index.seqs(&at.span_id, Seq(event.seq.0 - 1), 1) == [event.seq]);
    }
}

/// A session with retries, lost calls, questions and waits.
fn eventful() -> World {
    let mut world = World::new();
    world.after(100).fail(ModelErrorKind::Timeout);
    world.wake();
    world.after(100).calls(&[("find", r#"{"box":9}"#), ("pay", "{}"), ("ship", "{}")]);
    world.after(10).lose(id(1, 1));
    world.after(10).reserve(id(1, 2));
    world.wake();
    world.after(10).done(id(1, 1), "shelf A");
    world.after(10).when(report(id(1, 2), 1, ToolOutcome::Error, "no"));
    world
}

#[test]
fn every_window_is_that_part_of_the_whole_after_every_event() {
    let world = eventful();
    let mut index = SpanIndex::default();
    check_places(&index.rows(0, 10));
    for (at, event) in world.events.iter().enumerate() {
        index.push(event);
        assert_eq!(index.head(), event.seq);
        check_index(&index);
        check_seqs(&index, &world.events[..=at]);
        // The same at once, and the same in two parts.
        let mut many = SpanIndex::of(&world.events[..at / 2]);
        many.expect_many();
        world.events[at / 2..=at].iter().for_each(|event| many.push(event));
        many.settle();
        check_index(&many);
        assert_eq!(many.rows(0, u32::MAX), index.rows(0, u32::MAX));
    }
    let mut shuffled: Vec<&Event> = world.events.iter().rev().collect();
    shuffled.rotate_left(5);
    check_index(&SpanIndex::of(shuffled));
}

#[test]
fn the_tree_at_a_seq_is_the_tree_of_the_events_up_to_it() {
    let world = eventful();
    let whole = spans(&world.events);
    for (at, event) in world.events.iter().enumerate() {
        let index = SpanIndex::of(&world.events[..=at]);
        let then = index.rows(0, u32::MAX);
        // What ended later was open then; what began later was not there.
        for row in &then {
            assert!(row.span.first_seq <= event.seq && row.span.last_seq <= event.seq);
        }
        let ids: BTreeSet<&str> = then.iter().map(|row| row.span.span_id.as_str()).collect();
        for span in whole.iter().filter(|it| it.kind != SpanKind::Attempt) {
            assert_eq!(
                ids.contains(span.span_id.as_str()),
                span.first_seq <= event.seq,
                "{span:?}"
            );
        }
    }
    let open = SpanIndex::of(&world.events[..2]);
    assert!(open.get("model:1").unwrap().span.end.is_none());
}

#[test]
fn an_event_leads_to_the_span_that_it_is_about() {
    let world = eventful();
    let index = SpanIndex::of(&world.events);
    let about: Vec<String> =
        world.events.iter().map(|it| index.at(it.seq).unwrap().span.span_id).collect();
    insta::assert_debug_snapshot!("what_each_event_is_about", about);
}

#[test]
fn what_is_not_there_is_not_found() {
    let index = SpanIndex::of(&eventful().events);
    for id in ["", "step:9", "step:x", "step:1/2", "wait:1", "call:1", "nothing:1", "session:1"] {
        assert!(index.get(id).is_none() && index.path(id).is_empty(), "{id}");
        assert!(index.children(id, 0, 9).is_empty());
        assert!(index.seqs(id, Seq(0), 9).is_empty());
    }
    let view = index.view(["nothing"], None).unwrap();
    assert_eq!(view.len(), index.len());
    assert!(view.position("nothing").is_none());
    let error = index.view([], Some(DEPTH_LIMIT_MAX + 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "8 is too deep a limit: the deepest is 7; leave it out to see all"
    );
    assert!(SpanIndex::default().at(Seq(1)).is_none());
}
