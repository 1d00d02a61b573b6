//! A session's history as the server stores it, for what hashes or copies it.

use std::collections::HashSet;

use anyhow::{Context as _, bail};
use stepwell_archive::{BLOB_BYTES_MAX, Chain};
use stepwell_core::{Seq, SessionId, TimestampMs, codec};
use stepwell_ports::StoredEvent;
use stepwell_proto::v1::{Event, GetBlobRequest, Session};
use tonic::Code;

use super::answer;
use super::events::Pages;
use crate::client::{Client, Refusal};

/// So many payloads are remembered as whole; behind these one may be read again.
const REMEMBERED_MAX: usize = 1_000_000;

/// The first `head` events, in pages.
pub(super) struct History<'a> {
    pages: Pages<'a>,
    head: u64,
    last: u64,
}

impl<'a> History<'a> {
    /// The events up to `head`; what comes later is left out, so that the end is known before.
    pub(super) fn new(client: &'a Client, session_id: &str, head: u64) -> Self {
        Self { pages: Pages::new(client, session_id.to_owned(), 0, false), head, last: 0 }
    }

    /// The next events; `None` at the head. A history that ends before its head, or has a gap, is
    /// damaged where it is stored.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Vec<StoredEvent>>> {
        if self.last >= self.head {
            return Ok(None);
        }
        let page = self.pages.next().await?.unwrap_or_default();
        let mut events = Vec::with_capacity(page.len());
        for event in page.into_iter().take_while(|it| it.seq <= self.head) {
            let expected = self.last + 1;
            if event.seq != expected {
                bail!("event {expected} is missing on the server: stepwell doctor says more");
            }
            self.last = event.seq;
            events.push(stored(event)?);
        }
        if events.is_empty() {
            let (last, head) = (self.last, self.head);
            bail!("the history ends at event {last} and not at {head}: stepwell doctor says more");
        }
        Ok(Some(events))
    }

    /// How far it was read.
    pub(super) fn last(&self) -> u64 {
        self.last
    }
}

fn stored(event: Event) -> anyhow::Result<StoredEvent> {
    let seq = event.seq;
    let too_large = || format!("event {seq} has numbers that this release cannot read");
    Ok(StoredEvent {
        seq: Seq(seq),
        time: TimestampMs(u64::try_from(event.time_ms).with_context(too_large)?),
        cause: Seq(event.cause),
        actor: event.actor,
        kind: event.r#type,
        schema: u16::try_from(event.schema).with_context(too_large)?,
        body: event.body_json,
    })
}

/// The id of a session that the server named.
pub(super) fn id_of(session: &Session) -> anyhow::Result<SessionId> {
    Ok(session.session_id.parse()?)
}

/// A history that was read to its head.
pub(super) struct Read {
    /// Its hash.
    pub(super) head_hash: String,
    /// What is wrong first with a payload beside its events.
    pub(super) damage: Option<String>,
}

/// Reads the history up to `head`, with the payloads that belong to it when they are to be looked at.
pub(super) async fn read(
    client: &Client,
    mut payloads: Option<&mut Payloads>,
    session_id: SessionId,
    head: u64,
) -> anyhow::Result<Read> {
    let mut chain = Chain::new(session_id);
    let mut history = History::new(client, &session_id.to_string(), head);
    let mut damage = None;
    while let Some(events) = history.next().await? {
        for event in &events {
            chain.add(event);
            if let (Some(payloads), None) = (payloads.as_deref_mut(), &damage) {
                damage = payloads.damage_of(client, event).await?;
            }
        }
    }
    Ok(Read { head_hash: chain.head(), damage })
}

/// What the server itself finds damaged in a history, or a payload that it lacks.
pub(super) fn damage(error: &anyhow::Error) -> Option<String> {
    let refusal: &Refusal = error.downcast_ref()?;
    match refusal.code {
        Code::DataLoss => Some(format!("{error:#}")),
        _ => None,
    }
}

/// Payloads beside the events, each of which is read once.
#[derive(Default)]
pub(super) struct Payloads {
    whole: HashSet<[u8; blake3::OUT_LEN]>,
}

impl Payloads {
    /// What is wrong with the payloads of an event.
    pub(super) async fn damage_of(
        &mut self,
        client: &Client,
        event: &StoredEvent,
    ) -> anyhow::Result<Option<String>> {
        // What this release cannot read tells of no payload; the chain holds it as it is.
        let Ok(mut body) = codec::decode(&event.kind, event.schema, &event.body) else {
            return Ok(None);
        };
        for payload in codec::payloads(&mut body) {
            let address = &payload.blob.blob;
            let problem = match self.read(client, address).await {
                Ok(true) => continue,
                Ok(false) => format!("payload {address} is not what was written"),
                Err(error) => match (damage(&error), error.downcast_ref()) {
                    (Some(problem), _) => problem,
                    (None, Some(Refusal { code: Code::NotFound, .. })) => {
                        format!("payload {address} is missing")
                    }
                    (None, _) => return Err(error),
                },
            };
            return Ok(Some(format!("event {}: {problem}", event.seq)));
        }
        Ok(None)
    }

    /// Whether the bytes of a payload are those of its address.
    async fn read(&mut self, client: &Client, address: &str) -> anyhow::Result<bool> {
        let Ok(wanted) = blake3::Hash::from_hex(address) else { return Ok(false) };
        if self.whole.contains(wanted.as_bytes()) {
            return Ok(true);
        }
        let mut sessions = client.sessions();
        let call = sessions.get_blob(GetBlobRequest { blob: address.to_owned() });
        let mut pieces = answer(client, call).await?;
        let mut hasher = blake3::Hasher::new();
        while let Some(piece) = pieces.message().await.map_err(|status| client.refusal(&status))? {
            hasher.update(&piece.data);
        }
        let is_whole = hasher.finalize() == wanted;
        if is_whole {
            if self.whole.len() >= REMEMBERED_MAX {
                self.whole.clear();
            }
            self.whole.insert(*wanted.as_bytes());
        }
        Ok(is_whole)
    }
}

/// A payload.
pub(super) async fn blob(client: &Client, address: &str) -> anyhow::Result<Vec<u8>> {
    let mut sessions = client.sessions();
    let call = sessions.get_blob(GetBlobRequest { blob: address.to_owned() });
    let mut pieces = answer(client, call).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.message().await.map_err(|status| client.refusal(&status))? {
        bytes.extend_from_slice(&piece.data);
        if bytes.len() as u64 > BLOB_BYTES_MAX {
            bail!("payload {address} has more than {BLOB_BYTES_MAX} bytes, too many for a file");
        }
    }
    Ok(bytes)
}
