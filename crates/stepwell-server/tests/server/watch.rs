//! `WatchSession`: never a gap, never a double.

use std::sync::Arc;
use std::time::Duration;

use stepwell_ports::memory::MemoryStore;
use stepwell_proto::v1;
use stepwell_proto::v1::watch_session_response::Item;
use stepwell_proto::v1::{SessionStatus, WatchSessionRequest};
use stepwell_server::ServerOptions;
use tonic::{Code, Status, Streaming};

use crate::interposed::Interposed;
use crate::stored::messages;
use crate::world::{PLAIN, TALKER, Turn, World, within};

async fn watch(
    world: &World,
    session_id: &str,
    after_seq: u64,
) -> Streaming<v1::WatchSessionResponse> {
    let request = WatchSessionRequest {
        session_id: session_id.into(),
        after_seq,
        ..WatchSessionRequest::default()
    };
    world.sessions().await.watch_session(request).await.unwrap().into_inner()
}

async fn next(stream: &mut Streaming<v1::WatchSessionResponse>) -> Option<Item> {
    within(stream.message()).await.unwrap().map(|it| it.item.unwrap())
}

/// Seqs of the next `count` events.
async fn seqs(stream: &mut Streaming<v1::WatchSessionResponse>, count: usize) -> Vec<u64> {
    let mut seqs = Vec::new();
    while seqs.len() < count {
        match next(stream).await.expect("the watch goes on") {
            Item::Event(event) => seqs.push(event.seq),
            Item::Chunk(_) | Item::CaughtUp(_) => {}
        }
    }
    seqs
}

fn message(session_id: &str, content: &str) -> v1::SendMessageRequest {
    v1::SendMessageRequest {
        session_id: session_id.into(),
        content: content.into(),
        ..v1::SendMessageRequest::default()
    }
}

#[tokio::test]
async fn du24_an_event_between_the_stored_and_the_live_part_is_seen_exactly_once() {
    let store = Arc::new(Interposed::default());
    let turns = [Turn::Say(&["One."]), Turn::Say(&["Two."])];
    let world = World::over(store.clone(), &turns, ServerOptions::default()).await;
    let id = world.create(TALKER).await;
    let head = world.until_status(&id, SessionStatus::WaitingInput).await.session.unwrap().head_seq;
    let mut client = world.sessions().await;
    let request = message(&id, "And?");
    // Stored and announced after the watch has read the page, before it waits for notices.
    store.after_next_read(async move {
        client.send_message(request).await.unwrap();
    });
    let mut stream = watch(&world, &id, 0).await;
    let expected: Vec<u64> = (1..=head + 3).collect();
    assert_eq!(seqs(&mut stream, expected.len()).await, expected);
    world.stop().await;
}

#[tokio::test]
async fn watchers_that_come_at_any_moment_see_every_event_once() {
    const MESSAGES: usize = 40;
    let turns = vec![Turn::Say(&["Yes."]); MESSAGES + 1];
    let world = World::new(&turns).await;
    let id = world.create(TALKER).await;
    let mut client = world.sessions().await;
    let mut streams = Vec::new();
    for i in 0..MESSAGES {
        client.send_message(message(&id, &i.to_string())).await.unwrap();
        streams.push(watch(&world, &id, i as u64 / 2).await);
    }
    let cancel = v1::CancelSessionRequest { session_id: id.clone(), ..Default::default() };
    client.cancel_session(cancel).await.unwrap();
    let session = world.until_status(&id, SessionStatus::Cancelled).await.session.unwrap();
    for (i, stream) in streams.iter_mut().enumerate() {
        let mut last = i as u64 / 2;
        while let Some(item) = next(stream).await {
            if let Item::Event(event) = item {
                assert_eq!(event.seq, last + 1, "watcher {i}");
                last = event.seq;
            }
        }
        assert_eq!(last, session.head_seq, "watcher {i}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_watch_ends_after_the_last_event_and_says_when_it_caught_up() {
    let world = World::new(&[Turn::Say(&["Done."])]).await;
    let id = world.create(PLAIN).await;
    let head = world.until_status(&id, SessionStatus::Completed).await.session.unwrap().head_seq;
    let mut stream = watch(&world, &id[..6], 1).await;
    assert_eq!(seqs(&mut stream, head as usize - 1).await, (2..=head).collect::<Vec<_>>());
    assert_eq!(next(&mut stream).await, Some(Item::CaughtUp(v1::CaughtUp { head_seq: head })));
    assert_eq!(next(&mut stream).await, None);
    world.stop().await;
}

#[tokio::test]
async fn a_seq_beyond_the_head_is_refused_with_the_head() {
    let world = World::new(&[Turn::Say(&["Done."])]).await;
    let id = world.create(PLAIN).await;
    let head = world.until_status(&id, SessionStatus::Completed).await.session.unwrap().head_seq;
    let request = WatchSessionRequest {
        session_id: id.clone(),
        after_seq: head + 1,
        ..WatchSessionRequest::default()
    };
    let error = world.sessions().await.watch_session(request).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains(&format!("the head of session {id} is {head}")), "{error}");
    world.stop().await;
}

#[tokio::test]
async fn a_shutdown_ends_watches_with_the_place_to_go_on() {
    let world = World::new(&[Turn::Say(&["One."])]).await;
    let id = world.create(TALKER).await;
    let head = world.until_status(&id, SessionStatus::WaitingInput).await.session.unwrap().head_seq;
    let mut stream = watch(&world, &id, 0).await;
    seqs(&mut stream, head as usize).await;
    assert_eq!(next(&mut stream).await, Some(Item::CaughtUp(v1::CaughtUp { head_seq: head })));
    world.stop().await;
    let error = within(stream.message()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains(&format!("watch again after seq {head}")), "{error}");
}

/// Takes nothing for `pause`, then all that comes. The last seq and how the watch ended, `None` when
/// it came to the head.
async fn slow_reader(world: &World, id: &str, pause: Duration) -> Option<(u64, Status)> {
    let mut stream = watch(world, id, 0).await;
    tokio::time::sleep(pause).await;
    let mut last = 0;
    loop {
        match within(stream.message()).await {
            Ok(answer) => match answer.unwrap().item.unwrap() {
                Item::Event(event) => {
                    assert_eq!(event.seq, last + 1, "a gap");
                    last = event.seq;
                }
                Item::Chunk(_) | Item::CaughtUp(_) => return None,
            },
            Err(error) => return Some((last, error)),
        }
    }
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_ended_and_told_where_to_go_on() {
    // More than the windows of a connection take.
    const COUNT: u64 = 20_000;
    let store = Arc::new(MemoryStore::new());
    let id = messages(&store, [9; 16], COUNT).await.to_string();
    let patience = Duration::from_millis(100);
    let options = ServerOptions { slow_reader: patience, ..ServerOptions::default() };
    let world = World::over(store, &[], options).await;
    // On a machine with much to do, the windows are not full at once.
    let mut pause = patience * 3;
    let (last, error) = loop {
        match slow_reader(&world, &id, pause).await {
            Some(ended) => break ended,
            None => pause *= 2,
        }
    };
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    assert!(error.message().contains(&format!("watch again after seq {last}")), "{error}");
    assert!(last < COUNT);
    let mut stream = watch(&world, &id, last).await;
    assert_eq!(seqs(&mut stream, 3).await, [last + 1, last + 2, last + 3]);
    world.stop().await;
}
