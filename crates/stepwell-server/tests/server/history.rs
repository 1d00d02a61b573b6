//! The strip of a session, its replay, its comparison with another, and windows of its messages.

use std::sync::Arc;

use stepwell_ports::memory::MemoryStore;
use stepwell_proto::v1;
use stepwell_proto::v1::history_service_client::HistoryServiceClient;
use stepwell_server::ServerOptions;
use tonic::Code;
use tonic::transport::Channel;

use crate::sessions::expect;
use crate::stored::messages;
use crate::world::{TALKER, Turn, World};

async fn history(world: &World) -> HistoryServiceClient<Channel> {
    HistoryServiceClient::new(world.connection().await)
}

/// A session that said something and waits for the next message.
async fn talked(world: &World) -> (String, u64) {
    let id = world.create(TALKER).await;
    let info = world.until_status(&id, v1::SessionStatus::WaitingInput).await;
    (id, info.session.unwrap().head_seq)
}

fn timeline(session_id: &str, after_seq: u64, limit: u32) -> v1::GetTimelineRequest {
    v1::GetTimelineRequest { session_id: session_id.into(), after_seq, limit }
}

fn names(strip: &v1::GetTimelineResponse) -> Vec<&str> {
    let name = |mark: &u8| strip.types[usize::from(mark & 0x7f)].as_str();
    strip.marks.iter().map(name).collect()
}

#[tokio::test]
async fn a_strip_has_type_time_and_step_of_every_event() {
    let world = World::new(&[Turn::Say(&["One."]), Turn::Say(&["Two."])]).await;
    let (id, head) = talked(&world).await;
    let mut client = history(&world).await;
    let all = client.get_timeline(timeline(&id, 0, 0)).await.unwrap().into_inner();
    assert_eq!(names(&all), ["session_created", "model_requested", "model_replied"]);
    let begins: Vec<bool> = all.marks.iter().map(|mark| mark & 0x80 != 0).collect();
    assert_eq!((begins, all.steps_before), (vec![false, true, false], 0));
    assert_eq!((all.last_seq, all.head_seq, all.gaps_ms[0]), (head, head, 0));
    let list = v1::ListEventsRequest { session_id: id.clone(), ..Default::default() };
    let events = world.sessions().await.list_events(list).await.unwrap().into_inner().events;
    let mut at = all.first_ms;
    for (event, gap) in events.iter().zip(&all.gaps_ms) {
        at += gap;
        assert_eq!(at, event.time_ms);
    }
    let part = client.get_timeline(timeline(&id, 2, 1)).await.unwrap().into_inner();
    assert_eq!((names(&part), part.steps_before), (vec!["model_replied"], 1));
    assert_eq!((part.first_ms, part.gaps_ms), (events[2].time_ms, vec![0]));
    let error = client.get_timeline(timeline(&id, 99, 0)).await.unwrap_err();
    expect(&error, Code::InvalidArgument, "after_seq");
    world.stop().await;
}

#[tokio::test]
async fn a_long_strip_is_a_few_bytes_an_event() {
    use prost::Message as _;
    let store = Arc::new(MemoryStore::new());
    let id = messages(&store, [9; 16], 50_000).await.to_string();
    let world = World::over(store, &[], ServerOptions::default()).await;
    let mut client = history(&world).await;
    let all = client.get_timeline(timeline(&id, 0, 0)).await.unwrap().into_inner();
    assert_eq!((all.marks.len(), all.gaps_ms.len()), (50_000, 50_000));
    assert!(all.encoded_len() < 4 * 50_000, "{} bytes", all.encoded_len());
    world.stop().await;
}

#[tokio::test]
async fn a_replay_says_same_and_a_made_up_history_diverges() {
    let store = Arc::new(MemoryStore::new());
    let made_up = messages(&store, [9; 16], 3).await.to_string();
    let world = World::over(store, &[Turn::Say(&["One."])], ServerOptions::default()).await;
    let (id, head) = talked(&world).await;
    let mut client = history(&world).await;
    let ask = |id: &str, until_seq| v1::ReplaySessionRequest { session_id: id.into(), until_seq };
    let same = client.replay_session(ask(&id, 0)).await.unwrap().into_inner();
    assert_eq!((same.verdict.as_str(), same.events, same.inputs), ("same", head, 2));
    let part = client.replay_session(ask(&id, 1)).await.unwrap().into_inner();
    assert_eq!((part.verdict.as_str(), part.events), ("same", 1));
    let other = client.replay_session(ask(&made_up, 0)).await.unwrap().into_inner();
    assert_eq!((other.verdict.as_str(), other.seq, other.events), ("diverged", 1, 0));
    assert!(
        other.reason.starts_with("at event 1: recorded is message_received"),
        "{}",
        other.reason
    );
    world.stop().await;
}

#[tokio::test]
async fn two_sessions_differ_where_the_model_said_something_else() {
    let world = World::new(&[Turn::Say(&["One."]), Turn::Say(&["Two."])]).await;
    let (a, head) = talked(&world).await;
    let (b, _) = talked(&world).await;
    let mut client = history(&world).await;
    let ask = |a: &str, b: &str| v1::CompareSessionsRequest {
        a_session_id: a.into(),
        b_session_id: b.into(),
    };
    let answer = client.compare_sessions(ask(&a, &b)).await.unwrap().into_inner();
    let [difference] = &answer.differences[..] else { panic!("{answer:?}") };
    assert_eq!((difference.step, difference.what.as_str()), (1, "what the model said"));
    assert_eq!((difference.a.as_deref(), difference.b.as_deref()), (Some("One."), Some("Two.")));
    assert_eq!((difference.a_seq, difference.b_bytes, difference.is_divergence), (3, 4, true));
    let side = answer.a.unwrap();
    assert_eq!((side.steps, side.events, side.session.unwrap().session_id), (1, head, a.clone()));
    let same = client.compare_sessions(ask(&a, &a)).await.unwrap().into_inner();
    assert_eq!((same.differences.len(), same.differences_total), (0, 0));
    let error = client.compare_sessions(ask(&a, "00000000")).await.unwrap_err();
    expect(&error, Code::NotFound, "b_session_id: there is no session");
    world.stop().await;
}

#[tokio::test]
async fn messages_name_the_event_that_they_came_with() {
    let world = World::new(&[Turn::Say(&["One."])]).await;
    let (id, head) = talked(&world).await;
    let state =
        v1::GetStateRequest { session_id: id, at_seq: head, messages_from: 0, messages_limit: 10 };
    let state = history(&world).await.get_state(state).await.unwrap().into_inner();
    let places: Vec<(u64, u32)> =
        state.message_origins.iter().map(|it| (it.seq, it.step)).collect();
    assert_eq!(places, [(1, 0), (1, 0), (3, 1)], "{:?}", state.messages_json);
    world.stop().await;
}

const ASKER: &str = "name = \"asker\"\ninstructions = \"Ask.\"\ntools = [\"ask_user\"]\n";

#[tokio::test]
async fn whether_it_is_held_is_told_of_every_moment_whatever_it_waits_for() {
    let world = World::new(&[Turn::Call("ask_user", "{\"question\":\"Where to?\"}")]).await;
    let id = world.create(ASKER).await;
    let asked = world.until_status(&id, v1::SessionStatus::WaitingInput).await;
    let before = asked.session.unwrap().head_seq;
    let pause = v1::PauseSessionRequest { session_id: id.clone(), ..Default::default() };
    world.sessions().await.pause_session(pause).await.unwrap();
    let mut client = history(&world).await;
    for (at_seq, is_held) in [(before, false), (0, true)] {
        let ask = v1::GetStateRequest { session_id: id.clone(), at_seq, ..Default::default() };
        let state = client.get_state(ask).await.unwrap().into_inner();
        assert_eq!(state.paused, is_held, "at {at_seq}");
        let calls: Vec<_> = state.open_calls.iter().map(|it| it.status.as_str()).collect();
        assert_eq!(calls, ["awaiting_answer"], "the answer is taken meanwhile");
    }
    world.stop().await;
}

fn finding(session_id: &str, text: &str) -> v1::FindEventsRequest {
    v1::FindEventsRequest { session_id: session_id.into(), text: text.into(), ..Default::default() }
}

/// Seqs of what is found, and how far it looked.
async fn found(
    client: &mut HistoryServiceClient<Channel>,
    request: v1::FindEventsRequest,
) -> (Vec<u64>, u64) {
    let mut parts = client.find_events(request).await.unwrap().into_inner();
    let (mut seqs, mut looked) = (Vec::new(), 0);
    while let Some(part) = parts.message().await.unwrap() {
        seqs.extend(part.found.iter().map(|it| it.seq));
        looked = part.seq;
    }
    (seqs, looked)
}

#[tokio::test]
async fn a_text_is_found_in_every_event_that_has_it() {
    let world = World::new(&[Turn::Say(&["Swapped \"Month\" and day."])]).await;
    let (id, head) = talked(&world).await;
    let mut client = history(&world).await;
    let request = finding(&id, "\"month\" AND");
    let mut parts = client.find_events(request.clone()).await.unwrap().into_inner();
    let part = parts.message().await.unwrap().unwrap();
    let it = &part.found[0];
    assert_eq!((it.seq, it.r#type.as_str()), (head, "model_replied"));
    assert_eq!(
        (it.before.as_str(), it.r#match.as_str(), it.after.as_str()),
        ("Swapped ", "\"Month\" and", " day.")
    );
    assert_eq!((part.seq, part.head_seq), (head, head));
    assert_eq!(found(&mut client, request).await, (vec![head], head));
    assert_eq!(found(&mut client, finding(&id, "model_replied")).await, (vec![], head));
    for text in ["", &"x".repeat(201)] {
        let error = client.find_events(finding(&id, text)).await.unwrap_err();
        expect(&error, Code::InvalidArgument, "text");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_search_goes_on_where_it_stopped() {
    let store = Arc::new(MemoryStore::new());
    let id = messages(&store, [9; 16], 2_500).await.to_string();
    let world = World::over(store, &[], ServerOptions::default()).await;
    let mut client = history(&world).await;
    let (mut seqs, mut after_seq) = (Vec::new(), 0);
    for count in [1_000, 1_000, 500] {
        let request = v1::FindEventsRequest { after_seq, ..finding(&id, "XX") };
        let (more, looked) = found(&mut client, request).await;
        assert_eq!((more.len(), more.last()), (count, Some(&looked)));
        seqs.extend(more);
        after_seq = looked;
    }
    assert_eq!(seqs, (1..=2_500).collect::<Vec<u64>>());
    world.stop().await;
}
