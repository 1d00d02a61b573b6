//! Server-sent events, cases `ss01` to `ss08` of the shared cases.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::{join_all, try_join_all};
use serde_json::Value;
use stepwell_proto::v1::{SendMessageRequest, SessionStatus};
use stepwell_tests::{HttpResponse, SseEvent, Stage, agent_with, get};
use tokio::time::sleep;

const SCRIPT: &str = "delay_ms = 20\n[[step]]\nrepeat = 3\ntool_calls = [{ name = \"look\", arguments \
    = { what = \"x{{step}}\" } }]\n[[step]]\ntool_calls = [{ name = \"pay\", arguments = { what = \
    \"rent\" } }]\n[[step]]\ncontent = \"end\"";

/// Opens the stream of a session.
async fn open(stage: &Stage, session_id: &str, last: Option<&str>) -> Result<HttpResponse> {
    let path = format!("/v1/sessions/{session_id}/events?events_only=true");
    let header = last.map(|last| format!("Last-Event-ID: {last}"));
    get(stage.server.listen(), &path, &header.as_deref().map_or(vec![], |it| vec![it])).await
}

/// The next event of the history.
async fn next(stream: &mut HttpResponse) -> Result<SseEvent> {
    loop {
        let event = stream.event().await?.context("the stream ended")?;
        if !event.id.is_empty() {
            return Ok(event);
        }
    }
}

/// Checks that the stream gives exactly these.
async fn expect(stream: &mut HttpResponse, seqs: std::ops::RangeInclusive<u64>) -> Result<()> {
    for seq in seqs {
        let event = next(stream).await?;
        ensure!(event.id == seq.to_string(), "{event:?} came, not {seq}");
        let data: Value = serde_json::from_str(&event.data)?;
        ensure!(data["seq"] == seq && data["type"] == event.kind.as_str(), "{event:?}");
    }
    Ok(())
}

/// A session that waits for an approval; and its head.
async fn waiting(stage: &Stage) -> Result<(String, u64)> {
    let session_id = stage.api.create("Go on.", &agent_with(&["look", "pay"], "")).await?;
    stage.api.until_approval(&session_id).await?;
    let head = stage.api.session(&session_id).await?.head_seq;
    ensure!(head > 10, "{head}");
    Ok((session_id, head))
}

async fn say(stage: &Stage, session_id: &str, content: &str) -> Result<()> {
    let request = SendMessageRequest {
        session_id: session_id.to_owned(),
        content: content.to_owned(),
        ..SendMessageRequest::default()
    };
    stage.api.sessions().send_message(request).await?;
    Ok(())
}

#[tokio::test]
async fn ss01_a_reconnect_with_the_last_id_goes_on_without_gap_or_double() -> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    let (session_id, head) = waiting(&stage).await?;
    let mut first = open(&stage, &session_id, None).await?;
    ensure!(first.head().contains("text/event-stream"), "{}", first.head());
    expect(&mut first, 1..=4).await?;
    drop(first);
    let mut second = open(&stage, &session_id, Some("4")).await?;
    expect(&mut second, 5..=head).await?;
    for text in ["one more", "and another"] {
        say(&stage, &session_id, text).await?;
    }
    expect(&mut second, head + 1..=head + 2).await
}

#[tokio::test]
async fn ss03_an_id_that_is_unknown_in_the_future_no_number_or_of_another_session_is_an_error()
-> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    let (session_id, _) = waiting(&stage).await?;
    for last in ["999", "-1", "abc", "run-2:7", "+4", "1.0", "99999999999999999999999"] {
        let mut response = open(&stage, &session_id, Some(last)).await?;
        let body = response.text().await?;
        ensure!(response.status == 400, "{last}: {} {body}", response.status);
        let error: Value = serde_json::from_str(&body)?;
        let message = error["error"]["message"].as_str().context("no message")?;
        ensure!(error["error"]["code"] == "INVALID_ARGUMENT" && message.contains(last), "{body}");
    }
    let mut unknown = open(&stage, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", None).await?;
    ensure!(unknown.status == 404 && unknown.text().await?.contains("NOT_FOUND"));
    Ok(())
}

#[tokio::test]
async fn ss04_ids_mean_the_same_after_a_kill_and_a_stop_of_the_server() -> Result<()> {
    let mut stage = Stage::counting(SCRIPT).await?;
    let (session_id, head) = waiting(&stage).await?;
    let mut before = open(&stage, &session_id, None).await?;
    let mut seen = Vec::new();
    for _ in 1..=head {
        seen.push(next(&mut before).await?);
    }
    for ends_in_order in [false, true] {
        let mut stream = open(&stage, &session_id, Some(&head.to_string())).await?;
        if ends_in_order {
            stage.server.stop().await?;
            let last = stream.event().await;
            let is_told = last.as_ref().is_ok_and(|it| {
                it.as_ref().is_none_or(|it| it.kind == "dropped" || it.kind == "caught_up")
            });
            ensure!(is_told, "{last:?}");
            stage.api = stage.server.start().await?;
        } else {
            stage.kill_and_start().await?;
        }
        let mut after = open(&stage, &session_id, Some("4")).await?;
        for event in seen.iter().skip(4) {
            let again = next(&mut after).await?;
            ensure!(again == *event, "{again:?} instead of {event:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn ss08_after_the_end_all_events_and_an_end_come_and_then_a_browser_is_sent_away()
-> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    let (session_id, _) = waiting(&stage).await?;
    stage.cli().one(&["approve", &session_id, "--yes"]).await?;
    let session = stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let mut stream = open(&stage, &session_id, None).await?;
    let events = stream.events().await?;
    let ids: Vec<u64> = events
        .iter()
        .filter(|it| !it.id.is_empty())
        .map(|it| it.id.parse())
        .collect::<Result<_, _>>()?;
    ensure!(ids == (1..=session.head_seq).collect::<Vec<_>>(), "{ids:?}");
    let end = events.last().context("nothing came")?;
    ensure!(end.kind == "end" && end.id.is_empty() && end.data.contains("completed"), "{end:?}");
    let again = open(&stage, &session_id, Some(&session.head_seq.to_string())).await?;
    ensure!(again.status == 204, "{}", again.status);
    Ok(())
}

/// What a slow reader may keep the server from forgetting: what waits for it, and one page.
const SLOW_READER_KIB_MAX: u64 = 6 * 1024;
const SLOW_READERS: u64 = 16;
const MESSAGES: usize = 1_600;
const MESSAGE_BYTES: usize = 12_000;
/// The server drops a reader that takes nothing for 30 s. Nothing tells a reader that does not read,
/// so there is no event to wait for.
const DROPPED_AFTER: Duration = Duration::from_secs(32);

#[tokio::test]
async fn ss06_slow_readers_are_dropped_and_can_resume_and_neither_memory_nor_sessions_suffer()
-> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    let (session_id, head) = waiting(&stage).await?;
    let text = "x".repeat(MESSAGE_BYTES);
    for _ in 0..MESSAGES / 32 {
        let sends = (0..32).map(|_| say(&stage, &session_id, &text));
        join_all(sends).await.into_iter().collect::<Result<()>>()?;
    }
    let last = stage.api.session(&session_id).await?.head_seq;
    ensure!(last == head + MESSAGES as u64, "{last}");
    let before = stage.server.memory_kib()?;
    let mut readers =
        try_join_all((0..SLOW_READERS).map(|_| open(&stage, &session_id, None))).await?;
    // While they read nothing, others work as ever.
    let (other, _) = waiting(&stage).await?;
    stage.cli().one(&["approve", &other, "--yes"]).await?;
    stage.api.until_status(&other, SessionStatus::Completed).await?;
    say(&stage, &session_id, "still here?").await?;
    sleep(DROPPED_AFTER).await;
    let growth = stage.server.memory_kib()?.saturating_sub(before);
    println!("{before} KiB before, {growth} KiB more with {SLOW_READERS} slow readers");
    let most = SLOW_READERS * SLOW_READER_KIB_MAX;
    ensure!(growth < most, "{growth} KiB for {SLOW_READERS} readers, more than {most}");

    // What was on its way still comes, then the reason, then the end; the rest comes after a resume.
    let mut reader = readers.pop().context("no reader")?;
    let mut seq = 0;
    let dropped = loop {
        let event = reader.event().await?.context("the stream ended without a word")?;
        match event.kind.as_str() {
            "dropped" => break event,
            "caught_up" => {}
            _ => {
                seq += 1;
                ensure!(event.id == seq.to_string(), "{} came, not {seq}", event.id);
            }
        }
    };
    ensure!(dropped.id.is_empty() && dropped.data.contains("RESOURCE_EXHAUSTED"), "{dropped:?}");
    ensure!(dropped.data.contains(&format!("after seq {seq}")), "{dropped:?}");
    ensure!(seq < last, "it was not dropped at all");
    ensure!(reader.event().await?.is_none(), "more comes after the end");
    let mut resumed = open(&stage, &session_id, Some(&seq.to_string())).await?;
    expect(&mut resumed, seq + 1..=last + 1).await
}
