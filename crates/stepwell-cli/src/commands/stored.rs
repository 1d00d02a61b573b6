//! A session's history as the server stores it, for what hashes or copies it.

use anyhow::{Context as _, bail};
use stepwell_archive::{BLOB_BYTES_MAX, Chain};
use stepwell_core::{Seq, SessionId, TimestampMs};
use stepwell_ports::StoredEvent;
use stepwell_proto::v1::{Event, GetBlobRequest, Session};

use super::answer;
use super::events::Pages;
use crate::client::Client;

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

/// The hash of the history up to `head`.
pub(super) async fn head_hash(
    client: &Client,
    session_id: SessionId,
    head: u64,
) -> anyhow::Result<String> {
    let mut chain = Chain::new(session_id);
    let mut history = History::new(client, &session_id.to_string(), head);
    while let Some(events) = history.next().await? {
        for event in &events {
            chain.add(event);
        }
    }
    Ok(chain.head())
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
