//! A long session travels in little memory.

use std::fs::File;
use std::io::BufWriter;

use anyhow::{Context as _, Result, ensure};
use stepwell_archive::{Form, Limits, Reader, Writer};
use stepwell_core::Seq;
use stepwell_ports::StoredEvent;
use stepwell_tests::{Stage, look, until};
use tokio::time::Instant;

use super::{Desk, completed, export, text};

/// Events of the session; `STEPWELL_LONG_EVENTS` chooses another number.
const EVENTS: u64 = 20_000;

/// What a server may take more than before while it reads or writes a file, whatever its length.
const MEMORY_KIB_MAX: u64 = 72 * 1024;

/// The largest memory that a process ever had in use, in KiB.
fn peak_kib(pid: i32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("no VmHWM")?.parse()?)
}

/// A session that is paused and let go on for ever, with reasons of half a kilobyte.
async fn long_file(stage: &Stage, session_id: &str, events: u64) -> Result<String> {
    let short = std::fs::read(export(stage, session_id, &[]).await?)?;
    let mut reader = Reader::open(short.as_slice(), Limits::default())?;
    let mut header = reader.header().clone();
    header.events = Some(events);
    let first = reader.next_item()?.context("no first event")?;
    let path = stage.root().join("long.stepwell");
    let mut writer = Writer::new(BufWriter::new(File::create(&path)?), Form::Packed, &header)?;
    writer.event(&first.stored, &first.blobs, &[])?;
    for seq in 2..=events {
        let is_pause = seq % 2 == 0;
        let reason = format!("reason {seq} ").repeat(40);
        let event = StoredEvent {
            seq: Seq(seq),
            cause: Seq(seq),
            kind: if is_pause { "pause_requested" } else { "resume_requested" }.to_owned(),
            body: if is_pause { format!("{{\"reason\":\"{reason}\"}}") } else { "{}".to_owned() },
            ..first.stored.clone()
        };
        writer.event(&event, &[], &[])?;
    }
    writer.finish(None)?;
    Ok(path.to_string_lossy().into_owned())
}

#[tokio::test]
async fn a_long_session_needs_no_more_memory_than_a_short_one() -> Result<()> {
    let chosen = std::env::var("STEPWELL_LONG_EVENTS").ok().and_then(|it| it.parse().ok());
    let events: u64 = chosen.unwrap_or(EVENTS);
    let (stage, session_id) = completed().await?;
    let desk = Desk::new(&stage).await?;
    let cli = desk.cli();
    let file = long_file(&stage, &session_id, events).await?;
    let bytes = std::fs::metadata(&file)?.len();

    let before = peak_kib(desk.server.pid()?)?;
    let start = Instant::now();
    // Waits longer than a test's command usually may.
    let mut import = cli.command(&["import", &file, "--json"])?.spawn()?;
    ensure!(import.wait().await?.success(), "not imported");
    let imported = start.elapsed();
    let again = cli.one(&["import", &file]).await?;
    ensure!(again["created"] == false && again["events"] == events, "{again}");
    let start = Instant::now();
    let made = cli.one(&["export", &session_id, "-o", "again.stepwell"]).await?;
    let exported = start.elapsed();
    ensure!(made["events"].as_u64() >= Some(events), "{made}");
    ensure!(text(&made, "head_hash").len() == 64);
    let peak = peak_kib(desk.server.pid()?)?;
    println!(
        "{events} events in {bytes} bytes: imported in {imported:?}, exported in {exported:?}, the \
         server's peak is {peak} KiB, before it was {before} KiB"
    );
    ensure!(peak - before < MEMORY_KIB_MAX, "the server took {peak} KiB, before {before} KiB");
    Ok(())
}

#[tokio::test]
async fn a_server_killed_while_it_imports_has_all_of_it_or_nothing() -> Result<()> {
    let (stage, session_id) = completed().await?;
    let mut desk = Desk::new(&stage).await?;
    let file = long_file(&stage, &session_id, EVENTS).await?;
    let cli = desk.cli();
    let mut import = cli.command(&["import", &file])?.spawn()?;
    let data = desk.server.data().to_owned();
    until("the first events", async || Ok((look(&data)?.events()? > 500).then_some(()))).await?;
    desk.server.kill().await?;
    let was_told = import.wait().await?.success();

    desk.server.start().await?;
    let listed = cli.json(&["ls"]).await?;
    ensure!(listed.len() == 1 || !was_told, "it was said to be here and is not");
    if listed.is_empty() {
        until("that nothing is left of the import", async || {
            Ok((look(&data)?.events()? == 0).then_some(()))
        })
        .await?;
    }
    let again = cli.one(&["import", &file]).await?;
    ensure!(again["events"] == EVENTS, "{again}");
    ensure!(cli.json(&["events", &session_id]).await?.len() as u64 >= EVENTS);
    Ok(())
}
