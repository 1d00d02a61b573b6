//! `SessionService`: keys, watches across restarts, pages, bad requests.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::join_all;
use stepwell_proto::v1::{
    CreateSessionRequest, ListEventsRequest, ListSessionsRequest, SendMessageRequest,
    SessionStatus, WatchSessionRequest,
};
use stepwell_tests::{Stage, Watched, agent_with};
use tonic::Code;

const LONG: &str = "delay_ms = 20\n[[step]]\nrepeat = 12\ntool_calls = [{ name = \"look\", \
    arguments = { what = \"x{{step}}\" } }]\n[[step]]\ncontent = \"end\"";

const SHORT: &str = "[[step]]\ncontent = \"Hello.\"";

fn request(task: &str, key: &str) -> CreateSessionRequest {
    CreateSessionRequest {
        task: task.to_owned(),
        agent_definition: agent_with(&["look"], ""),
        client_key: key.to_owned(),
        ..CreateSessionRequest::default()
    }
}

#[tokio::test]
async fn create_is_idempotent_by_key_also_at_once_and_after_a_kill() -> Result<()> {
    let mut stage = Stage::counting(SHORT).await?;
    let create = || {
        let mut sessions = stage.api.sessions();
        async move { sessions.create_session(request("Say hello.", "k")).await }
    };
    let mut ids = BTreeSet::new();
    let mut created = 0;
    for answer in join_all((0..16).map(|_| create())).await {
        let answer = answer?.into_inner();
        created += usize::from(answer.created);
        ids.insert(answer.session.context("no session")?.session_id);
    }
    ensure!(created == 1 && ids.len() == 1, "{created} created, {ids:?}");
    stage.kill_and_start().await?;
    let mut sessions = stage.api.sessions();
    let again = sessions.create_session(request("Say hello.", "k")).await?.into_inner();
    ensure!(!again.created && again.session.is_some_and(|it| ids.contains(&it.session_id)));
    let other = sessions.create_session(request("Say something else.", "k")).await;
    let status = other.err().context("the key was taken twice")?;
    ensure!(status.code() == Code::AlreadyExists, "{status:?}");
    ensure!(status.message().contains(ids.first().unwrap()), "{status:?}");
    Ok(())
}

#[tokio::test]
async fn a_watch_resumes_from_every_seq_across_kills_without_gap_or_double() -> Result<()> {
    let mut stage = Stage::counting(LONG).await?;
    let session_id = stage.api.create("Go on.", &agent_with(&["look"], "")).await?;
    // The watch checks each seq itself.
    let mut last = 0;
    for stop in [5, 6, 17, 30] {
        let mut watch = stage.api.watch(&session_id, last).await?;
        while last < stop {
            if let Watched::Event(event) = watch.next().await? {
                last = event.seq;
            }
        }
        stage.server.kill().await?;
        // What was on its way still comes; then the break is no silent end.
        while let Ok(news) = watch.next().await {
            ensure!(!matches!(news, Watched::End), "a killed server ended its watch in order");
        }
        stage.api = stage.server.start().await?;
    }
    let mut watch = stage.api.watch(&session_id, last).await?;
    loop {
        match watch.next().await? {
            Watched::Event(event) => last = event.seq,
            Watched::CaughtUp => {}
            Watched::End => break,
        }
    }
    ensure!(stage.api.session(&session_id).await?.head_seq == last);
    for after_seq in 0..=last {
        let mut watch = stage.api.watch(&session_id, after_seq).await?;
        let mut count = 0;
        loop {
            match watch.next().await? {
                Watched::Event(_) => count += 1,
                Watched::CaughtUp => {}
                Watched::End => break,
            }
        }
        ensure!(count == last - after_seq, "{count} events after {after_seq}");
    }
    Ok(())
}

#[tokio::test]
async fn a_watch_gives_live_pieces_that_end_in_the_event_with_the_whole() -> Result<()> {
    use stepwell_proto::v1::watch_session_response::Item;
    let script = "chunk_bytes = 4\nchunk_delay_ms = 5\n[[step]]\ncontent = \
        \"A sentence of many small pieces.\"";
    let stage = Stage::counting(script).await?;
    let session_id = stage.api.create("Speak.", &agent_with(&["look"], "")).await?;
    let request = WatchSessionRequest { session_id, ..WatchSessionRequest::default() };
    let mut stream = stage.api.sessions().watch_session(request).await?.into_inner();
    let (mut live, mut whole) = (String::new(), String::new());
    while let Some(item) = stream.message().await? {
        match item.item {
            Some(Item::Chunk(chunk)) if chunk.kind == "content" => live.push_str(&chunk.text),
            Some(Item::Event(event)) if event.r#type == "model_replied" => {
                let body: serde_json::Value = serde_json::from_str(&event.body_json)?;
                body["content"].as_str().unwrap().clone_into(&mut whole);
            }
            _ => {}
        }
    }
    ensure!(whole == "A sentence of many small pieces.", "{whole}");
    ensure!(!live.is_empty() && whole.ends_with(&live), "live: {live}");
    Ok(())
}

#[tokio::test]
async fn lists_page_by_key_with_every_session_once() -> Result<()> {
    let stage = Stage::counting(SHORT).await?;
    let mut wanted = BTreeSet::new();
    for number in 0..25 {
        let task = format!("Task {number}");
        wanted.insert(stage.api.create(&task, &agent_with(&["look"], "")).await?);
    }
    for session_id in &wanted {
        stage.api.until_status(session_id, SessionStatus::Completed).await?;
    }
    let (mut found, mut pages, mut page_token) = (Vec::new(), 0, String::new());
    loop {
        let request =
            ListSessionsRequest { page_size: 7, page_token, ..ListSessionsRequest::default() };
        let page = stage.api.sessions().list_sessions(request).await?.into_inner();
        ensure!(page.sessions.len() <= 7);
        let ordered = page.sessions.is_sorted_by(|a, b| a.updated_at_ms >= b.updated_at_ms);
        ensure!(ordered, "newest update first");
        found.extend(page.sessions.into_iter().map(|it| it.session_id));
        pages += 1;
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    ensure!(pages == 4 && found.len() == 25, "{pages} pages, {} sessions", found.len());
    ensure!(found.into_iter().collect::<BTreeSet<_>>() == wanted);
    let request =
        ListSessionsRequest { page_token: "nonsense".into(), ..ListSessionsRequest::default() };
    let status = stage.api.sessions().list_sessions(request).await.err().context("no error")?;
    ensure!(status.code() == Code::InvalidArgument, "{status:?}");
    Ok(())
}

#[tokio::test]
async fn events_page_and_messages_are_taken_once_by_key() -> Result<()> {
    let stage = Stage::counting(SHORT).await?;
    let agent = agent_with(&["look"], "").replace("tools", "interactive = true\ntools");
    let session_id = stage.api.create("Talk.", &agent).await?;
    stage.api.until_status(&session_id, SessionStatus::WaitingInput).await?;
    let say = |key: &str| SendMessageRequest {
        session_id: session_id.clone(),
        content: "And?".to_owned(),
        client_key: key.to_owned(),
        ..SendMessageRequest::default()
    };
    for key in ["a", "a", "b", "a"] {
        // The model has no second step, so the session ends after the first message.
        let _ = stage.api.sessions().send_message(say(key)).await;
    }
    let events = stage.api.events(&session_id).await?;
    let keys: Vec<_> =
        events.iter().map(|it| it.text("client_key")).filter(|it| !it.is_empty()).collect();
    ensure!(keys.iter().filter(|it| **it == "a").count() == 1, "{keys:?}");
    let mut after_seq = 0;
    let mut read = Vec::new();
    loop {
        let (session_id, page_size) = (session_id.clone(), 3);
        let request =
            ListEventsRequest { session_id, after_seq, page_size, ..ListEventsRequest::default() };
        let page = stage.api.sessions().list_events(request).await?.into_inner();
        ensure!(page.events.len() <= 3);
        read.extend(page.events.iter().map(|it| it.seq));
        after_seq = read.last().copied().context("an empty page")?;
        if after_seq >= page.head_seq {
            break;
        }
    }
    ensure!(read == (1..=after_seq).collect::<Vec<_>>(), "{read:?}");
    Ok(())
}

#[tokio::test]
async fn bad_requests_name_the_field_and_store_nothing() -> Result<()> {
    let stage = Stage::counting(SHORT).await?;
    let good = request("x", "");
    let long = |bytes: usize| "x".repeat(bytes);
    for (wrong, field) in [
        (CreateSessionRequest { task: String::new(), ..good.clone() }, "task"),
        (CreateSessionRequest { task: long(4 * 1024 * 1024 + 1), ..good.clone() }, "task"),
        (CreateSessionRequest { agent: "also".into(), ..good.clone() }, "agent"),
        (CreateSessionRequest { agent_definition: String::new(), ..good.clone() }, "agent"),
        (CreateSessionRequest { title: long(513), ..good.clone() }, "title"),
        (CreateSessionRequest { client_key: long(257), ..good.clone() }, "client_key"),
        (CreateSessionRequest { workspace: "../up".into(), ..good.clone() }, "workspace"),
        (CreateSessionRequest { workspace: "/etc".into(), ..good.clone() }, "workspace"),
        (CreateSessionRequest { submitted_by: long(257), ..good.clone() }, "submitted_by"),
        (
            CreateSessionRequest { labels: [(String::new(), "v".into())].into(), ..good.clone() },
            "labels",
        ),
    ] {
        let status = stage.api.sessions().create_session(wrong).await.err().context(field)?;
        ensure!(status.code() == Code::InvalidArgument, "{field}: {status:?}");
        ensure!(status.message().contains(field), "{field}: {status:?}");
    }
    let huge = CreateSessionRequest { task: long(9 * 1024 * 1024), ..good.clone() };
    let status = stage.api.sessions().create_session(huge).await.err().context("too large")?;
    ensure!(status.code() == Code::ResourceExhausted, "{status:?}");
    let listed = stage.api.sessions().list_sessions(ListSessionsRequest::default()).await?;
    ensure!(listed.into_inner().sessions.is_empty(), "something was stored");

    let session_id = stage.api.create("x", &agent_with(&["look"], "")).await?;
    let after_seq = 999;
    let watch = stage.api.watch(&session_id, after_seq).await.err().context("no error")?;
    ensure!(watch.code() == Code::InvalidArgument && watch.message().contains("999"), "{watch:?}");
    Ok(())
}
