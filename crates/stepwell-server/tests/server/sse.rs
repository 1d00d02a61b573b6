//! Server-sent events: the cases `ss*` of the catalogue, over a real socket.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use stepwell_ports::memory::MemoryStore;
use stepwell_proto::v1::SessionStatus;
use stepwell_server::ServerOptions;
use tokio::net::TcpSocket;

use crate::http::{Answer, get, get_on};
use crate::stored::{MANY, long_session};
use crate::world::{PLAIN, TALKER, Turn, World, within};

/// One frame that is no comment.
#[derive(Debug, Default, PartialEq)]
struct Frame {
    id: Option<u64>,
    event: String,
    data: String,
}

/// The next frame; `None` at the end of the stream.
async fn frame(answer: &mut Answer) -> Option<Frame> {
    // Not each line: comments come for ever.
    within(frame_at_last(answer)).await
}

async fn frame_at_last(answer: &mut Answer) -> Option<Frame> {
    let mut frame = Frame::default();
    loop {
        let line = answer.line().await?;
        match line.split_once(": ") {
            Some(("id", id)) => frame.id = Some(id.parse().unwrap()),
            Some(("event", event)) => frame.event = event.into(),
            Some(("data", data)) => frame.data = data.into(),
            None if line.is_empty() && !frame.event.is_empty() => return Some(frame),
            // A comment, the time to wait, or the end of one of these.
            Some(_) | None => {}
        }
    }
}

/// Ids of frames up to one of that name, which is the second value.
async fn ids_until(answer: &mut Answer, name: &str) -> (Vec<u64>, Frame) {
    let mut ids = Vec::new();
    while let Some(frame) = frame(answer).await {
        if frame.event == name {
            return (ids, frame);
        }
        ids.extend(frame.id);
    }
    panic!("the stream ended before `{name}`, after {ids:?}");
}

async fn say(world: &World, session_id: &str, content: &str) {
    let request = stepwell_proto::v1::SendMessageRequest {
        session_id: session_id.into(),
        content: content.into(),
        ..Default::default()
    };
    world.sessions().await.send_message(request).await.unwrap();
}

/// An interactive session that waits after its first answer, and its head.
async fn listening(world: &World) -> (String, u64) {
    let id = world.create(TALKER).await;
    let answer = world.until_status(&id, SessionStatus::WaitingInput).await;
    (id, answer.session.unwrap().head_seq)
}

#[tokio::test]
async fn ss01_a_reconnect_gets_what_follows_its_last_id_and_then_what_is_new() {
    let world = World::new(&[Turn::Say(&["One."]), Turn::Say(&["Two."])]).await;
    let (id, head) = listening(&world).await;
    let path = format!("/v1/sessions/{id}/events");
    let mut first = get(world.address, &path, &[]).await;
    assert_eq!(first.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let (seen, notice) = ids_until(&mut first, "caught_up").await;
    assert_eq!(seen, (1..=head).collect::<Vec<_>>());
    assert_eq!(notice.data, format!("{{\"head_seq\":{head}}}"));
    drop(first);
    // The address that a browser repeats is old; the header counts.
    let path = format!("{path}?after_seq=0");
    let mut second = get(world.address, &path, &[("Last-Event-ID", "2")]).await;
    let (seen, _) = ids_until(&mut second, "caught_up").await;
    assert_eq!(seen, (3..=head).collect::<Vec<_>>());
    say(&world, &id, "And?").await;
    let next = frame(&mut second).await.unwrap();
    assert_eq!((next.id, next.event.as_str()), (Some(head + 1), "message_received"));
    let data: Value = serde_json::from_str(&next.data).unwrap();
    assert_eq!(data["session_id"], id.as_str());
    assert_eq!(data["seq"], head + 1);
    assert_eq!(data["type"], "message_received");
    assert_eq!(data["actor"], "person:unknown");
    assert_eq!(data["body"]["content"], "And?");
    world.stop().await;
}

#[tokio::test]
async fn ss03_ids_that_mean_nothing_here_are_refused_and_never_silent() {
    let world = World::new(&[Turn::Say(&["One."])]).await;
    let (id, head) = listening(&world).await;
    let path = format!("/v1/sessions/{id}/events");
    for bad in ["999", "-1", "abc", "other-session:7", "18446744073709551616"] {
        for (path, headers) in [
            (path.clone(), vec![("Last-Event-ID", bad)]),
            (format!("{path}?after_seq={bad}"), vec![]),
        ] {
            let answer = get(world.address, &path, &headers).await;
            assert_eq!(answer.status, 400, "{bad}");
            let body = answer.json().await;
            let message = body["error"]["message"].as_str().unwrap();
            assert!(message.contains(bad), "{bad}: {message}");
        }
    }
    let answer = get(world.address, &path, &[("Last-Event-ID", "999")]).await.json().await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("the head of session {id} is {head}")), "{message}");
    world.stop().await;
}

#[tokio::test]
async fn ss04_ids_mean_the_same_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let options = ServerOptions::default;
    let world = World::over(store.clone(), &[Turn::Say(&["One."])], options()).await;
    let (id, head) = listening(&world).await;
    let path = format!("/v1/sessions/{id}/events");
    let mut before = Vec::new();
    let mut answer = get(world.address, &path, &[]).await;
    while before.len() < head as usize {
        before.push(frame(&mut answer).await.unwrap());
    }
    world.stop().await;
    let world = World::over(store, &[], options()).await;
    let mut answer = get(world.address, &path, &[("Last-Event-ID", "2")]).await;
    for expected in &before[2..] {
        assert_eq!(&frame(&mut answer).await.unwrap(), expected);
    }
    world.stop().await;
}

#[tokio::test]
async fn ss08_a_finished_session_is_told_to_its_end_and_nobody_comes_back() {
    let world = World::new(&[Turn::Say(&["Done."])]).await;
    let id = world.create(PLAIN).await;
    let session = world.until_status(&id, SessionStatus::Completed).await.session.unwrap();
    let head = session.head_seq;
    let path = format!("/v1/sessions/{id}/events");
    let mut answer = get(world.address, &path, &[]).await;
    let (seen, end) = ids_until(&mut answer, "end").await;
    assert_eq!(seen, (1..=head).collect::<Vec<_>>());
    assert_eq!(end.data, format!("{{\"status\":\"completed\",\"head_seq\":{head}}}"));
    assert_eq!((end.id, frame(&mut answer).await), (None, None));
    let again = get(world.address, &path, &[("Last-Event-ID", &head.to_string())]).await;
    assert_eq!((again.status, again.text().await.as_str()), (204, ""));
    world.stop().await;
}

#[tokio::test]
async fn live_pieces_have_no_id_and_come_before_the_event_that_holds_the_whole() {
    let world = World::new(&[Turn::Say(&["One."]), Turn::Say(&["Tw", "o."])]).await;
    let (id, _) = listening(&world).await;
    let mut answer = get(world.address, &format!("/v1/sessions/{id}/events"), &[]).await;
    ids_until(&mut answer, "caught_up").await;
    say(&world, &id, "And?").await;
    let mut pieces = String::new();
    loop {
        let frame = frame(&mut answer).await.unwrap();
        match frame.event.as_str() {
            "chunk" => {
                let data: Value = serde_json::from_str(&frame.data).unwrap();
                assert_eq!((frame.id, &data["kind"]), (None, &Value::from("content")));
                assert_eq!(data["step"], 2);
                pieces.push_str(data["text"].as_str().unwrap());
            }
            "model_replied" => break,
            _ => {}
        }
    }
    assert_eq!(pieces, "Two.");
    world.stop().await;
}

/// Reads nothing for `pause`, then all that comes. The last id when the server cut the stream,
/// `None` when it came to the head.
async fn last_of_slow_reader(world: &World, path: &str, pause: Duration) -> Option<u64> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut answer = get_on(socket.connect(world.address).await.unwrap(), path, &[]).await;
    tokio::time::sleep(pause).await;
    let mut last = 0;
    while let Some(frame) = frame(&mut answer).await {
        match frame.id {
            Some(id) => {
                assert_eq!(id, last + 1, "a gap");
                last = id;
            }
            None if frame.event == "caught_up" => return None,
            None => assert_eq!(frame.event, "dropped"),
        }
    }
    Some(last)
}

#[tokio::test]
async fn ss06_a_reader_that_reads_nothing_is_dropped_and_can_resume() {
    let store = Arc::new(MemoryStore::new());
    let id = long_session(&store, [7; 16]).await;
    let slow_reader = Duration::from_millis(100);
    let options = ServerOptions { slow_reader, ..ServerOptions::default() };
    let world = World::over(store, &[], options).await;
    let path = format!("/v1/sessions/{id}/events");
    // On a machine with much to do, the sockets are not full at once.
    let mut pause = slow_reader * 6;
    let last = loop {
        match last_of_slow_reader(&world, &path, pause).await {
            Some(last) => break last,
            None => pause *= 2,
        }
    };
    assert!(last < MANY, "all {last} events went into buffers");
    let mut answer = get(world.address, &path, &[("Last-Event-ID", &last.to_string())]).await;
    for expected in last + 1..last + 100 {
        assert_eq!(frame(&mut answer).await.unwrap().id, Some(expected));
    }
    world.stop().await;
}
