//! Rules of events and what belongs to them: pages, payloads, snapshots, quarantine.

use stepwell_core::codec::blob_ref;
use stepwell_core::event::{
    EventBody, FinishReason, ModelReplied, ToolCall, ToolFinished, ToolOutcome, Usage,
};
use stepwell_core::state::ForkedFrom;
use stepwell_core::text::INLINE_BYTES_MAX;
use stepwell_core::{CallId, Fence, Seq, Status, Text, TimestampMs};

use super::fixtures::{
    OWNER, Shared, append, append_all, created, id, message, new_session, read_all, whole,
};
use crate::store::{AppendError, Created, SessionFilter};

fn finished(output: &str) -> ToolFinished {
    ToolFinished {
        call_id: CallId { step: 1, index: 1 },
        attempt: 1,
        outcome: ToolOutcome::Ok,
        output: Text::from(output),
        full_output: None,
        late: false,
        duration_ms: 12,
    }
}

fn replied(arguments: &str) -> ModelReplied {
    ModelReplied {
        step: 1,
        attempt: 1,
        content: Text::from("I look."),
        reasoning: Text::default(),
        tool_calls: vec![ToolCall {
            call_id: CallId { step: 1, index: 1 },
            wire_id: "c1".into(),
            name: "find".into(),
            arguments: Text::from(arguments),
            repaired: None,
            problem: None,
        }],
        answer_problem: None,
        finish_reason: FinishReason::ToolCalls,
        finish_word: None,
        usage: Usage::default(),
        endpoint: "http://127.0.0.1:8000/v1".into(),
        first_token_ms: 1,
        duration_ms: 2,
        tokens: None,
    }
}

/// A reader takes what it needs and knows whether there is more.
pub async fn events_are_read_in_pages(store: Shared) {
    let claim = created(&store, 1).await;
    let bodies = (2..=10).map(|n| message(&format!("event {n}")).into()).collect();
    store.append(claim, append_all(id(1), 1, bodies)).await.expect("appends");
    let cases = [
        (0, 4, vec![1, 2, 3, 4]),
        (4, 4, vec![5, 6, 7, 8]),
        (8, 4, vec![9, 10]),
        (10, 4, vec![]),
        (99, 4, vec![]),
        (0, 10, (1..=10).collect()),
    ];
    for (after, limit, expected) in cases {
        let page = store.read(id(1), Seq(after), limit).await.expect("readable");
        let seqs: Vec<u64> = page.events.iter().map(|it| it.seq.0).collect();
        assert_eq!((seqs, page.head), (expected, Seq(10)), "after {after}, at most {limit}");
    }
}

/// Above the inline limit the event keeps an address; equal payloads have equal addresses.
pub async fn large_payloads_are_kept_beside_the_events_and_shared(store: Shared) {
    let at_limit = "ä".repeat(INLINE_BYTES_MAX / 2);
    let above = format!("{at_limit}!");
    let first = created(&store, 1).await;
    let second = created(&store, 2).await;
    let bodies = vec![finished(&at_limit).into(), finished(&above).into()];
    store.append(first, append_all(id(1), 1, bodies)).await.expect("appends");
    store.append(second, append_all(id(2), 1, vec![finished(&above).into()])).await.expect("ok");
    let one = read_all(&store, id(1)).await;
    let two = read_all(&store, id(2)).await;
    assert!(one[1].body.len() > INLINE_BYTES_MAX, "at the limit it stays in the event");
    assert!(one[2].body.len() < 1_024, "above it only a preview stays");
    assert_eq!(one[2].body, two[1].body);
    let address = blob_ref(&above).blob;
    assert!(one[2].body.contains(&address));
    let payload = store.blob(&address).await.expect("readable").expect("is there");
    assert_eq!(payload, above.as_bytes());
    for (stored, text) in [(&one[1], &at_limit), (&one[2], &above), (&two[1], &above)] {
        assert_eq!(whole(&store, stored).await, finished(text).into());
    }
}

/// NUL, replaced surrogates, numbers with 19 digits, white space, long and empty texts.
pub async fn odd_payloads_come_back_byte_for_byte(store: Shared) {
    let texts = [
        "W\0s\0l\0 and more",
        "\0",
        "",
        "lone surrogate \u{fffd} replaced",
        "line\r\nline\u{2028}line\ttab \u{7f} \u{1}",
        "🙂 e\u{301} ﷽ \u{10ffff}",
        r#"{"box": 2512292042121000001, "pi": 3.14159265358979323846264338327950288, "e": 1e400}"#,
        "'; DROP TABLE events; --",
    ];
    let mut bodies: Vec<EventBody> = texts.iter().map(|it| finished(it).into()).collect();
    bodies.extend(texts.iter().map(|it| EventBody::from(replied(it))));
    let five_mb = "0123456789abcde\0".repeat(5 * 65_536);
    bodies.push(finished(&five_mb).into());
    let claim = created(&store, 1).await;
    let mut write = append_all(id(1), 1, bodies.clone());
    write.row.title = "tit\0le".into();
    write.row.explain = "why\0 not".into();
    let expected_row = write.row.clone();
    store.append(claim, write).await.expect("appends");
    let events = read_all(&store, id(1)).await;
    assert_eq!(events.len(), bodies.len() + 1);
    for (stored, body) in events[1..].iter().zip(&bodies) {
        assert!(whole(&store, stored).await == *body, "event {} changed", stored.seq);
    }
    let info = store.session(id(1)).await.expect("readable").expect("is there");
    assert_eq!(info.row, expected_row);
}

/// A shortened output keeps the address of the whole one; it need not be text.
pub async fn whole_outputs_are_kept_beside_their_event(store: Shared) {
    let claim = created(&store, 1).await;
    let full = "line\n".repeat(50_000);
    let mut shortened = finished("line\n[… left out …]");
    shortened.full_output = Some(blob_ref(&full));
    let mut write = append_all(id(1), 1, vec![shortened.clone().into()]);
    write.blobs.push((blob_ref(&full).blob, full.clone().into_bytes()));
    store.append(claim, write).await.expect("appends");
    let events = read_all(&store, id(1)).await;
    assert_eq!(whole(&store, &events[1]).await, shortened.into());
    let payload = store.blob(&blob_ref(&full).blob).await.expect("readable");
    assert_eq!(payload.expect("is there"), full.into_bytes());
}

/// An address is a promise about bytes.
pub async fn a_payload_under_another_address_is_refused(store: Shared) {
    let claim = created(&store, 1).await;
    let mut write = append(id(1), 1, "x");
    write.blobs.push((blob_ref("one thing").blob, b"another thing".to_vec()));
    let refused = store.append(claim, write).await;
    assert!(matches!(refused, Err(AppendError::Malformed { .. })), "{refused:?}");
    assert_eq!(read_all(&store, id(1)).await.len(), 1);
}

/// A cache: visible at the latest after the next write, never older than what was there, never of
/// another version.
pub async fn the_latest_snapshot_of_the_same_version_is_found(store: Shared) {
    let claim = created(&store, 1).await;
    store.append(claim, append(id(1), 1, "x")).await.expect("appends");
    let put = async |seq: u64, version: u32, state: &[u8]| {
        store.put_snapshot(id(1), Seq(seq), version, state.to_vec()).await.expect("is taken");
        store.beat(OWNER, TimestampMs(1)).await.expect("the next write");
    };
    let found = async |version: u32| store.snapshot(id(1), version).await.expect("readable");
    assert_eq!(found(1).await, None);
    put(1, 1, b"one").await;
    assert_eq!(found(1).await, Some((Seq(1), b"one".to_vec())));
    assert_eq!(found(2).await, None, "another version is dropped");
    put(2, 1, &vec![7; 300_000]).await;
    assert_eq!(found(1).await, Some((Seq(2), vec![7; 300_000])));
    put(1, 1, b"late").await;
    assert_eq!(found(1).await, Some((Seq(2), vec![7; 300_000])), "never back");
    put(1, 2, b"").await;
    assert_eq!((found(1).await, found(2).await), (None, Some((Seq(1), Vec::new()))));
    put(9, 2, b"ahead").await;
    assert_eq!(found(2).await, None, "ahead of the events is no state of them");
}

/// Checkpoints lie beside each other: the last one at or before a seq is found. A store may have none,
/// so only what it gives is looked at.
pub async fn a_checkpoint_is_one_at_or_before_the_asked_seq(store: Shared) {
    created(&store, 1).await;
    for (seq, version) in [(1, 1), (1_024, 1), (2_048, 1), (2_048, 2), (3_072, 2)] {
        let state = format!("{seq}/{version}").into_bytes();
        store.put_checkpoint(id(1), Seq(seq), version, state).await.expect("is taken");
        store.beat(OWNER, TimestampMs(1)).await.expect("the next write");
    }
    let found = async |at: u64, version: u32| {
        store.checkpoint(id(1), Seq(at), version).await.expect("readable")
    };
    for (at, version) in [(0, 1), (1, 1), (1_023, 1), (2_000, 1), (9_999, 1), (9_999, 2), (9, 3)] {
        let Some((seq, state)) = found(at, version).await else { continue };
        assert!(seq.0 <= at, "{seq} is after {at}");
        assert_eq!(state, format!("{seq}/{version}").into_bytes());
    }
    assert_eq!(store.checkpoint(id(9), Seq(9), 1).await.expect("readable"), None);
}

/// A fork begins with copies: the parent is not touched, and both go on apart.
pub async fn a_session_may_begin_with_anothers_events(store: Shared) {
    let claim = created(&store, 1).await;
    store.append(claim, append_all(id(1), 1, vec![message("a").into(); 4])).await.expect("appends");
    let fork = |n: u64, seq: u64| {
        let mut new = new_session(id(n));
        new.beginning = Some(ForkedFrom { session_id: id(1), seq: Seq(seq) });
        new.append = append(id(n), seq, "mine");
        new.append.row.parent = new.beginning;
        new
    };
    let Ok(Created::New(claim)) = store.create(fork(2, 3)).await else { panic!("no fork") };
    let page = store.read(id(2), Seq(0), 100).await.expect("readable");
    let parents = store.read(id(1), Seq(0), 3).await.expect("readable");
    assert_eq!((page.head, &page.events[..3]), (Seq(4), &parents.events[..]));
    let info = store.session(id(2)).await.expect("readable").expect("is there");
    assert_eq!(info.row.parent, Some(ForkedFrom { session_id: id(1), seq: Seq(3) }));
    assert_eq!(store.session(id(1)).await.expect("readable").expect("there").row.head_seq, Seq(5));
    store.append(claim, append(id(2), 4, "more")).await.expect("goes on");
    let missing = store.create(fork(3, 9)).await;
    assert!(matches!(missing, Err(AppendError::Conflict { .. })), "{missing:?}");
    let mut orphan = fork(4, 3);
    orphan.beginning = Some(ForkedFrom { session_id: id(8), seq: Seq(3) });
    let orphaned = store.create(orphan).await;
    assert!(matches!(orphaned, Err(AppendError::NotFound { .. })), "{orphaned:?}");
    for n in [3, 4] {
        assert_eq!(store.session(id(n)).await.expect("readable"), None, "nothing was made");
    }
}

/// The log stays as it is; the session stops asking for an owner.
pub async fn a_quarantined_session_keeps_its_events(store: Shared) {
    let claim = created(&store, 1).await;
    let mut write = append(id(1), 1, "x");
    write.wake_at = Some(TimestampMs(5));
    store.append(claim, write).await.expect("appends");
    store.quarantine(id(1), "event 2 is damaged").await.expect("is marked");
    let info = store.session(id(1)).await.expect("readable").expect("is there");
    assert_eq!(info.row.status, Status::Quarantined);
    assert_eq!(info.row.explain, "event 2 is damaged");
    assert_eq!((info.wake_at, info.fence), (None, Fence(1)));
    assert_eq!(read_all(&store, id(1)).await.len(), 2);
    assert_eq!(store.claim_due("other", &[], TimestampMs(9), 9).await.expect("claims"), []);
    let filter = SessionFilter { statuses: vec![Status::Quarantined], ..SessionFilter::default() };
    let page = store.sessions(&filter, None, 9).await.expect("readable");
    assert_eq!(page.rows.len(), 1);
}
