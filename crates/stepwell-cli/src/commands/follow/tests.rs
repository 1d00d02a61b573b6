//! Following a server that breaks, restarts, repeats itself and goes away.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures_util::stream::{self, Stream, StreamExt};
use stepwell_proto::v1;
use stepwell_proto::v1::session_service_server::{SessionService, SessionServiceServer};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use super::*;

type Watch = Pin<Box<dyn Stream<Item = Result<WatchSessionResponse, Status>> + Send>>;
type Blobs = Pin<Box<dyn Stream<Item = Result<v1::GetBlobResponse, Status>> + Send>>;

/// What a watch does after its events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    Ends,
    Breaks,
    Hangs,
}

/// What one watch says: these events, and then.
struct Script(&'static [u64], Tail);

/// A server that answers each watch with the next of its scripts.
#[derive(Clone)]
struct Fake {
    watches: Arc<Mutex<VecDeque<Script>>>,
    asked: Arc<Mutex<Vec<u64>>>,
    status: SessionStatus,
}

impl Fake {
    fn new(status: SessionStatus, watches: impl IntoIterator<Item = Script>) -> Self {
        let watches = Arc::new(Mutex::new(watches.into_iter().collect()));
        Self { watches, asked: Arc::default(), status }
    }

    fn asked(&self) -> Vec<u64> {
        self.asked.lock().unwrap().clone()
    }
}

fn not_here<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not part of the fake"))
}

#[tonic::async_trait]
impl SessionService for Fake {
    type WatchSessionStream = Watch;
    type GetBlobStream = Blobs;

    async fn watch_session(
        &self,
        request: Request<WatchSessionRequest>,
    ) -> Result<Response<Watch>, Status> {
        self.asked.lock().unwrap().push(request.get_ref().after_seq);
        let next = self.watches.lock().unwrap().pop_front();
        let Script(seqs, tail) = next.ok_or_else(|| Status::not_found("no such session"))?;
        let events = stream::iter(seqs).map(|seq| {
            let event = Event { seq: *seq, ..Event::default() };
            Ok(WatchSessionResponse { item: Some(Item::Event(event)) })
        });
        let restarting = stream::iter([Err(Status::unavailable("restarting"))]);
        Ok(Response::new(match tail {
            Tail::Ends => events.boxed(),
            Tail::Breaks => events.chain(restarting).boxed(),
            Tail::Hangs => events.chain(stream::pending()).boxed(),
        }))
    }

    async fn get_session(
        &self,
        _: Request<GetSessionRequest>,
    ) -> Result<Response<GetSessionResponse>, Status> {
        let session = v1::Session { status: self.status.into(), ..v1::Session::default() };
        let session = Some(session);
        Ok(Response::new(GetSessionResponse { session, ..GetSessionResponse::default() }))
    }

    async fn import_session(
        &self,
        _: Request<tonic::Streaming<v1::ImportSessionRequest>>,
    ) -> Result<Response<v1::ImportSessionResponse>, Status> {
        not_here()
    }

    async fn create_session(
        &self,
        _: Request<v1::CreateSessionRequest>,
    ) -> Result<Response<v1::CreateSessionResponse>, Status> {
        not_here()
    }

    async fn list_sessions(
        &self,
        _: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        not_here()
    }

    async fn list_events(
        &self,
        _: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        not_here()
    }

    async fn send_message(
        &self,
        _: Request<v1::SendMessageRequest>,
    ) -> Result<Response<v1::SendMessageResponse>, Status> {
        not_here()
    }

    async fn cancel_session(
        &self,
        _: Request<v1::CancelSessionRequest>,
    ) -> Result<Response<v1::CancelSessionResponse>, Status> {
        not_here()
    }

    async fn pause_session(
        &self,
        _: Request<v1::PauseSessionRequest>,
    ) -> Result<Response<v1::PauseSessionResponse>, Status> {
        not_here()
    }

    async fn resume_session(
        &self,
        _: Request<v1::ResumeSessionRequest>,
    ) -> Result<Response<v1::ResumeSessionResponse>, Status> {
        not_here()
    }

    async fn get_blob(&self, _: Request<v1::GetBlobRequest>) -> Result<Response<Blobs>, Status> {
        not_here()
    }

    async fn list_spans(
        &self,
        _: Request<v1::ListSpansRequest>,
    ) -> Result<Response<v1::ListSpansResponse>, Status> {
        not_here()
    }

    async fn get_span(
        &self,
        _: Request<v1::GetSpanRequest>,
    ) -> Result<Response<v1::GetSpanResponse>, Status> {
        not_here()
    }

    async fn delete_sessions(
        &self,
        _: Request<v1::DeleteSessionsRequest>,
    ) -> Result<Response<v1::DeleteSessionsResponse>, Status> {
        not_here()
    }
}

/// Follows the fake and returns how it ended and what was told, in words.
async fn followed(fake: &Fake, stop_at: &str) -> (anyhow::Result<End>, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let serving = tonic::transport::Server::builder()
        .add_service(SessionServiceServer::new(fake.clone()))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let client = async {
        let client = Client::connect(&server).await.unwrap();
        let mut told = Vec::new();
        let what = Follow { client: &client, session_id: "01J", after_seq: 0, events_only: true };
        let end = follow(what, &mut |news| {
            let words = match news {
                News::Event(event) => format!("event {}", event.seq),
                News::Chunk(chunk) => format!("chunk {}", chunk.text),
                News::Quiet(_) => "quiet".to_owned(),
                News::Away(_) => "away".to_owned(),
                News::Back => "back".to_owned(),
            };
            let then = if words == stop_at { Then::Stop } else { Then::Continue };
            told.push(words);
            Ok(then)
        })
        .await;
        (end, told)
    };
    tokio::select! {
        ended = serving => panic!("the fake ended: {ended:?}"),
        followed = client => followed,
    }
}

#[tokio::test]
async fn a_broken_stream_is_resumed_without_gap_or_double() {
    let fake = Fake::new(
        SessionStatus::Completed,
        [Script(&[1, 2], Tail::Breaks), Script(&[2, 3], Tail::Ends)],
    );
    let (end, told) = followed(&fake, "").await;
    assert!(matches!(end.unwrap(), End::Over(_, SessionStatus::Completed)));
    assert_eq!(told, ["event 1", "event 2", "back", "event 3"]);
    assert_eq!(fake.asked(), [0, 2]);
}

#[tokio::test]
async fn a_stream_that_ends_before_the_session_is_asked_again() {
    let fake = Fake::new(SessionStatus::Thinking, [Script(&[1], Tail::Ends)]);
    let (end, told) = followed(&fake, "").await;
    let error = end.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("no such session"));
    assert_eq!(told, ["event 1"]);
    assert_eq!(fake.asked(), [0, 1]);
}

#[tokio::test]
async fn when_nothing_comes_the_session_is_asked_once() {
    let fake = Fake::new(SessionStatus::WaitingApproval, [Script(&[1], Tail::Hangs)]);
    let (end, told) = followed(&fake, "quiet").await;
    assert!(matches!(end.unwrap(), End::Stopped));
    assert_eq!(told, ["event 1", "quiet"]);
}

#[tokio::test]
async fn a_quarantined_session_is_not_waited_for() {
    let fake = Fake::new(SessionStatus::Quarantined, [Script(&[1], Tail::Hangs)]);
    let (end, _) = followed(&fake, "").await;
    assert!(matches!(end.unwrap(), End::Over(_, SessionStatus::Quarantined)));
}

#[tokio::test]
async fn a_refusal_ends_the_wait() {
    let fake = Fake::new(SessionStatus::Thinking, []);
    let (end, told) = followed(&fake, "").await;
    assert_eq!(end.err().map(|it| it.to_string()).as_deref(), Some("no such session"));
    assert!(told.is_empty());
}
