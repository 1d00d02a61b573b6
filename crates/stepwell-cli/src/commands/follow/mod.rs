//! Following a session as it happens, across broken connections and restarts of the server.

use std::time::Duration;

use anyhow::bail;
use stepwell_proto::v1::watch_session_response::Item;
use stepwell_proto::v1::{
    Event, GetSessionRequest, GetSessionResponse, LiveChunk, SessionStatus, WatchSessionRequest,
    WatchSessionResponse,
};
use tonic::Streaming;

use super::expected;
use crate::client::{Client, Refusal};

/// After this long without news, the session is asked why it is where it is.
const QUIET: Duration = Duration::from_millis(300);
/// First wait before a broken connection is tried again.
const RETRY_FIRST: Duration = Duration::from_millis(100);
/// Longest wait between two tries.
const RETRY_MAX: Duration = Duration::from_secs(2);
/// A server that is away for longer than this is not waited for.
pub(super) const AWAY_MAX: Duration = Duration::from_secs(5 * 60);

/// What happened while following.
pub(super) enum News<'a> {
    /// A durable event.
    Event(&'a Event),
    /// A piece of something unfinished.
    Chunk(&'a LiveChunk),
    /// Nothing for a moment: this is how the session is now.
    Quiet(&'a GetSessionResponse),
    /// The connection broke; it is tried again.
    Away(&'a Refusal),
    /// The server answers again.
    Back,
}

/// What to do after news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Go on.
    Continue,
    /// Stop following.
    Stop,
}

/// How following ended.
pub(super) enum End {
    /// The session is over, for good or until a person looks at it.
    Over(Box<GetSessionResponse>, SessionStatus),
    /// The caller had enough.
    Stopped,
    /// Ctrl-C.
    Interrupted,
}

/// What to follow.
pub(super) struct Follow<'a> {
    pub(super) client: &'a Client,
    /// The whole id.
    pub(super) session_id: &'a str,
    /// Events up to this one are known.
    pub(super) after_seq: u64,
    /// Leave live pieces out.
    pub(super) events_only: bool,
}

/// Follows until the session is over, `sink` has enough, or Ctrl-C.
pub(super) async fn follow(
    what: Follow<'_>,
    sink: &mut (dyn FnMut(News<'_>) -> anyhow::Result<Then> + Send),
) -> anyhow::Result<End> {
    let mut follower = Follower { what, away: Duration::ZERO, wait: RETRY_FIRST };
    tokio::select! {
        end = follower.run(sink) => end,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Ok(End::Interrupted)
        }
    }
}

struct Follower<'a> {
    what: Follow<'a>,
    /// For how long the server did not answer.
    away: Duration,
    /// Before the next try.
    wait: Duration,
}

type Sink<'a> = dyn FnMut(News<'_>) -> anyhow::Result<Then> + Send + 'a;

impl Follower<'_> {
    async fn run(&mut self, sink: &mut Sink<'_>) -> anyhow::Result<End> {
        loop {
            let broke = match self.watch().await {
                Ok(stream) => match self.read(stream, sink).await? {
                    Read::Stopped => return Ok(End::Stopped),
                    Read::Over => match self.over().await {
                        Ok(Some(end)) => return Ok(end),
                        Ok(None) => None,
                        Err(error) => Some(error.downcast::<Refusal>()?),
                    },
                    Read::Broke(refusal) => Some(refusal),
                },
                Err(refusal) => Some(refusal),
            };
            if let Some(refusal) = broke {
                self.endure(refusal, sink).await?;
            } else {
                // Ended too early: the server is going down.
                tokio::time::sleep(self.wait).await;
            }
        }
    }

    async fn watch(&self) -> Result<Streaming<WatchSessionResponse>, Refusal> {
        let request = WatchSessionRequest {
            session_id: self.what.session_id.to_owned(),
            after_seq: self.what.after_seq,
            events_only: self.what.events_only,
            whole_payloads: false,
        };
        let client = self.what.client;
        let response = client.sessions().watch_session(request).await;
        Ok(response.map_err(|status| client.refusal(&status))?.into_inner())
    }

    /// Reads one stream to its end.
    async fn read(
        &mut self,
        mut stream: Streaming<WatchSessionResponse>,
        sink: &mut Sink<'_>,
    ) -> anyhow::Result<Read> {
        let mut is_asked = false;
        loop {
            let item = if is_asked {
                stream.message().await
            } else {
                let Ok(item) = tokio::time::timeout(QUIET, stream.message()).await else {
                    is_asked = true;
                    if let Some(read) = self.ask(sink).await? {
                        return Ok(read);
                    }
                    continue;
                };
                item
            };
            let item = match item {
                Ok(Some(item)) => item,
                Ok(None) => return Ok(Read::Over),
                Err(status) => return Ok(Read::Broke(self.what.client.refusal(&status))),
            };
            // An answer counts, not a connection: one that breaks at once would be tried for ever.
            if self.away > Duration::ZERO {
                self.away = Duration::ZERO;
                self.wait = RETRY_FIRST;
                sink(News::Back)?;
            }
            let then = match item.item {
                Some(Item::Event(event)) if event.seq > self.what.after_seq => {
                    self.what.after_seq = event.seq;
                    is_asked = false;
                    sink(News::Event(&event))?
                }
                Some(Item::Chunk(chunk)) => sink(News::Chunk(&chunk))?,
                Some(Item::Event(_) | Item::CaughtUp(_)) | None => Then::Continue,
            };
            if then == Then::Stop {
                return Ok(Read::Stopped);
            }
        }
    }

    /// Nothing comes: how is it?
    async fn ask(&self, sink: &mut Sink<'_>) -> anyhow::Result<Option<Read>> {
        // When this fails the stream will say so too.
        let Ok(response) = self.look().await else { return Ok(None) };
        let status = expected(response.session.as_ref(), "session")?.status();
        if status == SessionStatus::Quarantined {
            return Ok(Some(Read::Over));
        }
        Ok((sink(News::Quiet(&response))? == Then::Stop).then_some(Read::Stopped))
    }

    /// The stream ended: is the session over?
    async fn over(&self) -> anyhow::Result<Option<End>> {
        let response = self.look().await?;
        let status = expected(response.session.as_ref(), "session")?.status();
        let is_over = crate::exit::Exit::of_finished(status).is_some();
        Ok(is_over.then(|| End::Over(Box::new(response), status)))
    }

    /// Asks without a sign of life of its own: whoever follows shows one.
    async fn look(&self) -> Result<GetSessionResponse, Refusal> {
        let request = GetSessionRequest { session_id: self.what.session_id.to_owned() };
        let client = self.what.client;
        let response = client.sessions().get_session(request).await;
        Ok(response.map_err(|status| client.refusal(&status))?.into_inner())
    }

    /// Waits before the next try, or gives up.
    async fn endure(&mut self, refusal: Refusal, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        if !refusal.may_pass() {
            // A session that cannot be read is no failure of ours.
            return Err(refusal.into());
        }
        if self.away >= AWAY_MAX {
            let id = self.what.session_id;
            bail!(
                "{refusal}; gave up waiting for it, the session is not touched: stepwell tail -f {id}"
            );
        }
        // A reader that was too slow is only told to come back.
        if refusal.is_broken {
            sink(News::Away(&refusal))?;
        }
        tokio::time::sleep(self.wait).await;
        self.away += self.wait;
        self.wait = (self.wait * 2).min(RETRY_MAX);
        Ok(())
    }
}

enum Read {
    Over,
    Stopped,
    Broke(Refusal),
}

#[cfg(test)]
mod tests;
