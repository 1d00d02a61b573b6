//! `cargo xtask session FILE`: makes a long session with everything in it, as an exported file.
//!
//! The rules of the core decide every event, so the file is a true history: it can be imported,
//! looked at, replayed and forked. The same seed makes the same file.

mod story;

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use stepwell_archive::{Form, Header, Writer};
use stepwell_core::codec::{self, EVENT_SCHEMA};
use stepwell_core::{Event, SessionId};
use stepwell_ports::StoredEvent;

use crate::story::Story;

/// Makes a long session with everything in it, as an exported file.
#[derive(Parser)]
struct Args {
    /// The file to write; `stepwell import` reads it.
    file: PathBuf,
    /// Events of the session, about.
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// Another number, another session.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[expect(clippy::print_stdout, reason = "a program tells its user")]
fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let id = u128::from(args.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let session_id = SessionId::from_random(id.to_be_bytes());
    let file = File::create(&args.file)
        .with_context(|| format!("cannot write {}", args.file.display()))?;
    let header = Header::new(session_id, env!("CARGO_PKG_VERSION"), 0);
    let mut writer = Writer::new(BufWriter::new(file), Form::Packed, &header)?;
    let mut story = Story::new(session_id, args.seed, args.events);
    let mut count = 0;
    while let Some(events) = story.next_append()? {
        for event in events {
            let (stored, payloads) = stored(event)?;
            writer.event(&stored, &payloads, &[])?;
            count += 1;
        }
    }
    writer.finish(None)?;
    println!("{session_id}: {count} events in {}", args.file.display());
    Ok(())
}

/// Payloads with their addresses.
type Payloads = Vec<(String, Vec<u8>)>;

/// An event as a store has it, and the payloads that lie beside it.
fn stored(event: Event) -> anyhow::Result<(StoredEvent, Payloads)> {
    let mut body = event.body;
    let mut payloads = Vec::new();
    codec::detach(&mut body, &mut |address, payload| {
        payloads.push((address.to_owned(), payload.as_bytes().to_vec()));
    });
    let stored = StoredEvent {
        seq: event.seq,
        time: event.time,
        cause: event.cause,
        actor: event.actor.to_string(),
        kind: body.kind().as_str().to_owned(),
        schema: EVENT_SCHEMA,
        body: codec::encode(&body)?,
    };
    Ok((stored, payloads))
}
