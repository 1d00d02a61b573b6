//! Records that say themselves what is around them: the cases from the field, and chance.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use stepwell_core::TimestampMs;
use stepwell_core::spans::records::{Mark, Record, RecordIndex, RecordRow};

const CASES: &str = include_str!("../cases/spans.jsonl");

fn time(value: &Value) -> Option<TimestampMs> {
    value.as_u64().map(TimestampMs)
}

fn load(case: &Value) -> RecordIndex {
    let mut index = RecordIndex::default();
    for span in case["spans"].as_array().unwrap() {
        index.push(&Record {
            id: span[0].as_str().unwrap(),
            parent: span[1].as_str(),
            start: time(&span[2]).unwrap(),
            end: time(&span[3]),
        });
    }
    index
}

fn case(id: &str) -> (Value, Vec<RecordRow>) {
    let rows = CASES.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let case = rows.into_iter().find(|row| row["id"] == id).unwrap();
    let rows = all(&load(&case));
    (case["expect"].clone(), rows)
}

fn all(index: &RecordIndex) -> Vec<RecordRow> {
    index.rows(0, u32::MAX, &[], None).unwrap()
}

#[track_caller]
fn expect_shown(expect: &Value, rows: &[RecordRow]) {
    let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(Value::from(ids), expect["shown"]);
}

/// The tree that `expect` means, as depths.
fn depths(tree: &Value, depth: u32, to: &mut Vec<(String, u32)>) {
    for (id, below) in tree.as_object().unwrap() {
        to.push((id.clone(), depth));
        depths(below, depth + 1, to);
    }
}

#[test]
fn children_arrive_before_their_parent() {
    let (expect, rows) = case("sp01");
    let mut wanted = Vec::new();
    depths(&expect["tree"], 0, &mut wanted);
    let got: Vec<(String, u32)> = rows.iter().map(|row| (row.id.clone(), row.depth)).collect();
    assert_eq!(got, wanted);
    assert!(rows.iter().all(|row| row.marks.is_empty()), "{rows:?}");
}

#[test]
fn a_parent_that_never_arrives() {
    let (expect, rows) = case("sp02");
    expect_shown(&expect, &rows);
    assert_eq!(expect["x_marked"], "parent missing");
    assert_eq!(rows[0].marks, []);
    assert_eq!(rows[1].marks, [Mark::ParentMissing]);
}

#[test]
fn rings_and_a_span_that_is_its_own_parent() {
    let (expect, rows) = case("sp04");
    expect_shown(&expect, &rows);
    let marks: Vec<&[Mark]> = rows.iter().map(|row| row.marks.as_slice()).collect();
    assert_eq!(marks, [&[][..], &[Mark::Ring], &[], &[Mark::Ring]]);
    assert_eq!(rows[2].parent.as_deref(), Some("a"));
}

#[test]
fn the_same_id_twice() {
    let (expect, rows) = case("sp05");
    expect_shown(&expect, &rows);
    let length = rows[0].end.unwrap().0 - rows[0].start.0;
    assert_eq!(Value::from(length), expect["a_length"]);
}

#[test]
fn an_end_before_its_start() {
    let (expect, rows) = case("sp06");
    expect_shown(&expect, &rows);
    assert!(rows.iter().all(|row| row.end == Some(row.start)), "no length: {rows:?}");
    assert_eq!(rows[0].marks, []);
    assert_eq!(rows[1].marks, [Mark::EndBeforeStart]);
}

/// A small generator, so that a failed run can be repeated by its seed alone.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Records in any order, with strays and rings: each id stands once, right below the parent that it
/// names unless it is marked, and every window is that part of the whole.
#[test]
fn any_records_in_any_order_make_one_forest() {
    for seed in 0..300_u64 {
        println!("seed {seed}");
        let mut chance = Chance(seed);
        let count = 1 + chance.below(60);
        let mut index = RecordIndex::default();
        let mut parents = BTreeMap::new();
        for _ in 0..count {
            let id = format!("n{}", chance.below(count));
            let parent = (chance.below(6) > 0).then(|| format!("n{}", chance.below(count + 3)));
            let start = TimestampMs(chance.below(9));
            index.push(&Record {
                id: &id,
                parent: parent.as_deref(),
                start,
                end: Some(TimestampMs(4)),
            });
            parents.entry(id).or_insert(parent);
            check(&index, &parents);
        }
        let ids: Vec<String> = parents.keys().cloned().collect();
        let collapsed: Vec<&str> = ids.iter().step_by(4).map(String::as_str).collect();
        check_windows(&index, &collapsed);
    }
}

#[track_caller]
fn check(index: &RecordIndex, parents: &BTreeMap<String, Option<String>>) {
    let rows = all(index);
    let ids: BTreeSet<&String> = rows.iter().map(|row| &row.id).collect();
    assert_eq!((ids.len(), rows.len()), (parents.len(), parents.len()));
    let mut path: Vec<&str> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        path.truncate(row.depth as usize);
        assert_eq!(path.len(), row.depth as usize, "{row:?}");
        assert_eq!(row.parent.as_deref(), path.last().copied());
        let named = &parents[&row.id];
        if row.marks.contains(&Mark::Ring) {
            assert!(row.parent.is_none());
        } else if row.marks.contains(&Mark::ParentMissing) {
            assert!(!ids.contains(named.as_ref().unwrap()));
        } else {
            assert_eq!(&row.parent, named);
        }
        assert_eq!(index.position(&row.id), Some(at as u32));
        path.push(&row.id);
    }
}

#[track_caller]
fn check_windows(index: &RecordIndex, collapsed: &[&str]) {
    let rows = all(index);
    for depth_max in [None, Some(0), Some(1), Some(3), Some(7)] {
        let mut left: Vec<&RecordRow> = Vec::new();
        let mut skip_to = 0;
        for (at, row) in rows.iter().enumerate() {
            if at < skip_to || depth_max.is_some_and(|limit| row.depth > limit) {
                continue;
            }
            if collapsed.contains(&row.id.as_str()) {
                skip_to = at + row.size as usize;
            }
            left.push(row);
        }
        for from in 0..=left.len() {
            let window = index.rows(from as u32, 3, collapsed, depth_max).unwrap();
            let wanted: Vec<&RecordRow> = left[from..].iter().take(3).copied().collect();
            assert_eq!(window.iter().collect::<Vec<_>>(), wanted, "from {from}, {depth_max:?}");
        }
    }
}

/// A chain that is 20,000 deep and comes from its end: nothing recurses, and a parent that comes late
/// does not touch what is below it.
#[test]
fn a_deep_chain_in_the_wrong_order_is_no_trouble() {
    const COUNT: u32 = 20_000;
    let mut index = RecordIndex::default();
    for n in (0..COUNT).rev() {
        let (id, parent) = (n.to_string(), n.checked_sub(1).map(|it| it.to_string()));
        let time = TimestampMs(u64::from(n));
        index.push(&Record { id: &id, parent: parent.as_deref(), start: time, end: None });
    }
    assert_eq!(index.len(), COUNT);
    let last = index.rows(COUNT - 1, 5, &[], None).unwrap();
    assert_eq!(last.len(), 1);
    assert_eq!((last[0].depth, last[0].id.as_str()), (COUNT - 1, "19999"));
    assert_eq!(index.rows(0, 10, &["3"], None).unwrap().len(), 4);
    assert_eq!(index.rows(0, 10, &[], Some(5)).unwrap().len(), 6);
}
