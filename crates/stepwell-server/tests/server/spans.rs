//! Windows of span trees over gRPC, and the events of one span.

use std::sync::Arc;

use stepwell_ports::memory::MemoryStore;
use stepwell_proto::v1::{
    CancelSessionRequest, GetSpanRequest, ListSpansRequest, ListSpansResponse, SessionStatus, Span,
};
use stepwell_server::ServerOptions;
use tonic::Code;

use crate::sessions::expect;
use crate::stored::messages;
use crate::world::{SHIPPER, TALKER, Turn, World};

async fn list(world: &World, request: ListSpansRequest) -> ListSpansResponse {
    world.sessions().await.list_spans(request).await.unwrap().into_inner()
}

fn of(session_id: &str) -> ListSpansRequest {
    ListSpansRequest { session_id: session_id.into(), ..ListSpansRequest::default() }
}

fn ids(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.span_id.as_str()).collect()
}

/// A session that asked for a call that nobody answers.
async fn asking(world: &World) -> String {
    world.register_ship().await;
    let id = world.create(SHIPPER).await;
    world.until_status(&id, SessionStatus::WaitingApproval).await;
    id
}

#[tokio::test]
async fn a_window_says_where_it_is_and_what_is_around_it() {
    let world = World::new(&[Turn::Call("ship", "{\"order\":7}")]).await;
    let id = asking(&world).await;
    let all = list(&world, of(&id)).await;
    assert_eq!(ids(&all.spans), ["session", "step:1", "model:1", "call:1.1", "approval:4"]);
    assert_eq!((all.total_rows, all.first_row, all.head_seq, all.at_seq), (5, 0, 4, 4));
    assert!(all.ancestors.is_empty());
    let step = &all.spans[1];
    assert_eq!(
        (step.row, step.subtree_size, step.child_count, step.is_last_child),
        (1, 4, 2, true)
    );
    assert!(!all.spans[2].is_last_child);
    let part = list(&world, ListSpansRequest { from_row: 3, limit: 1, ..of(&id) }).await;
    assert_eq!((part.spans, part.first_row, part.total_rows), (all.spans[3..4].to_vec(), 3, 5));
    assert_eq!(ids(&part.ancestors), ["session", "step:1"]);
    let beyond = list(&world, ListSpansRequest { from_row: 99, ..of(&id) }).await;
    assert_eq!((beyond.spans.len(), beyond.total_rows), (0, 5));
    world.stop().await;
}

#[tokio::test]
async fn subtrees_and_depths_can_be_left_out() {
    let world = World::new(&[Turn::Call("ship", "{\"order\":7}")]).await;
    let id = asking(&world).await;
    let collapsed = vec!["call:1.1".to_owned(), "nothing".to_owned()];
    let without = list(&world, ListSpansRequest { collapsed, ..of(&id) }).await;
    assert_eq!(ids(&without.spans), ["session", "step:1", "model:1", "call:1.1"]);
    assert_eq!((without.total_rows, without.spans[3].subtree_size), (4, 2));
    let folded: Vec<bool> = without.spans.iter().map(|span| span.folded).collect();
    assert_eq!(folded, [false, false, false, true]);
    let shallow = list(&world, ListSpansRequest { depth_max: Some(0), ..of(&id) }).await;
    assert_eq!(ids(&shallow.spans), ["session"]);
    let mut client = world.sessions().await;
    let deep = ListSpansRequest { depth_max: Some(8), ..of(&id) };
    let error = client.list_spans(deep).await.unwrap_err();
    expect(&error, Code::InvalidArgument, "depth_max: 8 is too deep a limit: the deepest is 7");
    let many = ListSpansRequest { collapsed: vec!["x".into(); 1_001], ..of(&id) };
    let error = client.list_spans(many).await.unwrap_err();
    expect(&error, Code::InvalidArgument, "collapsed: has 1001 spans, at most 1000");
    let many = ListSpansRequest { expanded: vec!["x".into(); 1_001], ..of(&id) };
    let error = client.list_spans(many).await.unwrap_err();
    expect(&error, Code::InvalidArgument, "expanded: has 1001 spans, at most 1000");
    world.stop().await;
}

#[tokio::test]
async fn the_last_rows_of_a_session_that_is_over_come_with_the_session() {
    let world = World::new(&[Turn::Say(&["One."]), Turn::Say(&["Two."])]).await;
    let id = world.create(TALKER).await;
    world.until_status(&id, SessionStatus::WaitingInput).await;
    let cancel = CancelSessionRequest { session_id: id.clone(), ..Default::default() };
    world.sessions().await.cancel_session(cancel).await.unwrap();
    world.until_status(&id, SessionStatus::Cancelled).await;
    let all = list(&world, of(&id)).await;
    let last = list(&world, ListSpansRequest { around_last: true, limit: 1, ..of(&id) }).await;
    assert_eq!(last.spans, all.spans[all.spans.len() - 1..]);
    assert_eq!((last.around_row, last.first_row), (0, last.total_rows - 1));
    assert_eq!(last.ancestors[0], all.spans[0]);
    world.stop().await;
}

#[tokio::test]
async fn the_past_is_shown_as_it_stood() {
    let world = World::new(&[Turn::Say(&["One."]), Turn::Say(&["Two."])]).await;
    let id = world.create(TALKER).await;
    let info = world.until_status(&id, SessionStatus::WaitingInput).await;
    let head = info.session.unwrap().head_seq;
    let now = list(&world, of(&id)).await;
    let status = |spans: &[Span], id: &str| {
        spans.iter().find(|it| it.span_id == id).map(|it| it.status.clone())
    };
    assert_eq!(status(&now.spans, "model:1").as_deref(), Some("ok"));
    let then = list(&world, ListSpansRequest { at_seq: 2, ..of(&id) }).await;
    assert_eq!(ids(&then.spans), ["session", "step:1", "model:1"]);
    assert!(then.spans.iter().all(|it| it.status == "open" && it.end_ms == 0));
    assert_eq!((then.at_seq, then.head_seq), (2, head));
    let around = list(&world, ListSpansRequest { around_seq: 2, limit: 1, ..of(&id) }).await;
    assert_eq!((ids(&around.spans), around.around_row), (vec!["model:1"], 2));
    let last = list(&world, ListSpansRequest { around_seq: head, limit: 1, ..of(&id) }).await;
    let around = list(&world, ListSpansRequest { around_last: true, limit: 1, ..of(&id) }).await;
    assert_eq!(around, last);
    let mut client = world.sessions().await;
    for (request, field) in [
        (ListSpansRequest { at_seq: 99, ..of(&id) }, "at_seq: is 99, but the head of session"),
        (ListSpansRequest { around_seq: 99, ..of(&id) }, "around_seq: is 99"),
    ] {
        expect(&client.list_spans(request).await.unwrap_err(), Code::InvalidArgument, field);
    }
    world.stop().await;
}

#[tokio::test]
async fn the_events_of_a_span_come_when_they_are_asked_for() {
    let world = World::new(&[Turn::Call("ship", "{\"order\":7}")]).await;
    let id = asking(&world).await;
    let mut client = world.sessions().await;
    let request = GetSpanRequest {
        session_id: id.clone(),
        span_id: "call:1.1".into(),
        ..GetSpanRequest::default()
    };
    let call = client.get_span(request.clone()).await.unwrap().into_inner();
    let types: Vec<&str> = call.events.iter().map(|it| it.r#type.as_str()).collect();
    assert_eq!(types, ["model_replied", "approval_requested"]);
    assert!(call.events[0].body_json.contains("order"), "{}", call.events[0].body_json);
    assert_eq!(ids(&call.ancestors), ["session", "step:1"]);
    assert!(!call.has_more);
    let page = GetSpanRequest { page_size: 1, ..request.clone() };
    let first = client.get_span(page.clone()).await.unwrap().into_inner();
    assert_eq!((first.events.len(), first.has_more), (1, true));
    let next = GetSpanRequest { after_seq: first.events[0].seq, ..page };
    let next = client.get_span(next).await.unwrap().into_inner();
    assert_eq!((next.events.as_slice(), next.has_more), (&call.events[1..], false));
    let then = GetSpanRequest { at_seq: 3, ..request.clone() };
    assert_eq!(client.get_span(then).await.unwrap().into_inner().events.len(), 1);
    let nothing = GetSpanRequest { span_id: "call:9.9".into(), ..request };
    let error = client.get_span(nothing).await.unwrap_err();
    expect(&error, Code::NotFound, "has no span \"call:9.9\": stepwell tree --json");
    world.stop().await;
}

#[tokio::test]
async fn a_window_has_at_most_a_thousand_rows_and_a_page_of_events_as_many() {
    let store = Arc::new(MemoryStore::new());
    let id = messages(&store, [9; 16], 2_500).await.to_string();
    let world = World::over(store, &[], ServerOptions::default()).await;
    let window = list(&world, ListSpansRequest { limit: 5_000, ..of(&id) }).await;
    assert_eq!((window.spans.len(), window.head_seq), (1, 2_500));
    let mut client = world.sessions().await;
    let request = GetSpanRequest {
        session_id: id,
        span_id: "session".into(),
        page_size: 5_000,
        ..GetSpanRequest::default()
    };
    let page = client.get_span(request).await.unwrap().into_inner();
    assert_eq!((page.events.len(), page.has_more), (1_000, true));
    world.stop().await;
}
