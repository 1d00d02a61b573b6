//! The connection to the server, and what its errors mean for a person.

mod probe;
mod words;

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use stepwell_proto::v1::agent_service_client::AgentServiceClient;
use stepwell_proto::v1::approval_service_client::ApprovalServiceClient;
use stepwell_proto::v1::history_service_client::HistoryServiceClient;
use stepwell_proto::v1::session_service_client::SessionServiceClient;
use stepwell_proto::v1::store_service_client::StoreServiceClient;
use tokio::io::DuplexStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status, TimeoutExpired};

/// How long a connection may take to stand.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest message that is taken: a page of events with whole payloads.
const MESSAGE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// How long an answer may take; a stream has to begin in this time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A connection that is not used is checked this often, so that a dead one is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Stands for the address of a server in this process.
const WITHIN: &str = "http://localhost";
/// Header in which a server says its release.
pub(crate) const RELEASE_HEADER: &str = "stepwell-version";

/// Why a call did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// What kind.
    pub(crate) code: Code,
    /// In words, with what to do next.
    pub(crate) message: String,
    /// The server did not say it: the connection failed, and the outcome is unknown.
    pub(crate) is_broken: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Refusal {}

impl Refusal {
    /// Whether the same call may succeed after a while.
    pub(crate) fn may_pass(&self) -> bool {
        self.is_broken || matches!(self.code, Code::Unavailable | Code::ResourceExhausted)
    }
}

/// A server that answered.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    server: String,
    channel: Channel,
}

impl Client {
    /// Connects.
    pub(crate) async fn connect(server: &str) -> Result<Self, Refusal> {
        Self::connect_for(server, ANSWER_TIMEOUT).await
    }

    /// Connects for calls whose answer may take so long.
    pub(crate) async fn connect_for(server: &str, patience: Duration) -> Result<Self, Refusal> {
        let endpoint = endpoint(server, CONNECT_TIMEOUT)?.timeout(patience);
        let connected = endpoint.connect().await;
        let channel = connected.map_err(|error| no_connection(server, &error))?;
        Ok(Self { server: server.to_owned(), channel })
    }

    /// A server at the other end of a pipe in this process.
    pub(crate) async fn within(pipe: DuplexStream) -> Result<Self, Refusal> {
        let endpoint = endpoint(WITHIN, CONNECT_TIMEOUT)?;
        let mut pipe = Some(pipe);
        let connector = tower::service_fn(move |_: Uri| {
            // There is only one.
            let pipe = pipe.take().map(TokioIo::new).ok_or(io::ErrorKind::ConnectionRefused);
            std::future::ready(pipe.map_err(io::Error::from))
        });
        let connected = endpoint.connect_with_connector(connector).await;
        let channel = connected.map_err(|error| no_connection(WITHIN, &error))?;
        Ok(Self { server: WITHIN.to_owned(), channel })
    }

    /// Address of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The channel itself, for services that are not ours.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Sessions.
    pub(crate) fn sessions(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channel()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Approvals.
    pub(crate) fn approvals(&self) -> ApprovalServiceClient<Channel> {
        ApprovalServiceClient::new(self.channel()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Past moments and forks.
    pub(crate) fn history(&self) -> HistoryServiceClient<Channel> {
        HistoryServiceClient::new(self.channel()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Agents, tools and workers.
    pub(crate) fn agents(&self) -> AgentServiceClient<Channel> {
        AgentServiceClient::new(self.channel()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// The store as a whole.
    pub(crate) fn store(&self) -> StoreServiceClient<Channel> {
        StoreServiceClient::new(self.channel()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// What a failed call means.
    pub(crate) fn refusal(&self, status: &Status) -> Refusal {
        refusal(&self.server, status)
    }

    /// The same, and when no Stepwell server said it, a look at who answers there.
    pub(crate) async fn refusal_of_whom(&self, status: &Status) -> Refusal {
        let refusal = self.refusal(status);
        if status.metadata().contains_key(RELEASE_HEADER) {
            return refusal;
        }
        match probe::stranger(&self.server).await {
            Some(who) => foreign(&self.server, who),
            None => refusal,
        }
    }
}

/// How to reach `server`.
pub(crate) fn endpoint(server: &str, timeout: Duration) -> Result<Endpoint, Refusal> {
    let wrong = |problem: &str| Refusal {
        code: Code::InvalidArgument,
        message: format!(
            "{server:?} is no address of a server: {problem}; write for example \
             http://127.0.0.1:7171"
        ),
        is_broken: false,
    };
    if server.starts_with("https://") {
        return Err(wrong("this release speaks plain http; put a proxy or a tunnel in between"));
    }
    let endpoint =
        Endpoint::from_shared(server.to_owned()).map_err(|error| wrong(&error.to_string()))?;
    if endpoint.uri().scheme_str() != Some("http") || endpoint.uri().host().is_none() {
        return Err(wrong("it must begin with http:// and name a host"));
    }
    endpoint
        .connect_timeout(timeout)
        .timeout(ANSWER_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .user_agent(concat!("stepwell/", env!("CARGO_PKG_VERSION")))
        .map_err(|error| wrong(&error.to_string()))
}

fn no_connection(server: &str, error: &(dyn Error + 'static)) -> Refusal {
    let reason = reason(error);
    Refusal {
        code: Code::Unavailable,
        message: format!(
            "no server answers at {server} ({reason}): start one with `stepwell serve`, or name \
             another with --server"
        ),
        is_broken: true,
    }
}

/// What went wrong with a connection, in a few words.
fn reason(error: &(dyn Error + 'static)) -> String {
    if find::<TimeoutExpired>(error).is_some() {
        return "it did not answer in time".into();
    }
    if let Some(error) = find::<io::Error>(error) {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => return "connection refused".into(),
            io::ErrorKind::TimedOut => return "it did not answer in time".into(),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                return "the connection broke".into();
            }
            _ => {}
        }
    }
    // The innermost cause says what happened; the others say where.
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

fn find<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// What a failed call means. A status of the server is passed on in its own words.
pub(crate) fn refusal(server: &str, status: &Status) -> Refusal {
    let code = status.code();
    let (message, is_broken) = match status.source() {
        // Made on this side: no answer, or none that is gRPC.
        Some(cause) => (broken(server, &reason(cause)), true),
        None if code == Code::Unimplemented => {
            let message = format!(
                "the server at {server} does not know this call: it is another release than this \
                 command ({})",
                env!("CARGO_PKG_VERSION")
            );
            (message, false)
        }
        None if status.message().is_empty() => {
            (format!("the server at {server} refused without a reason ({code})"), false)
        }
        None => (words::in_flags(status.message()), false),
    };
    Refusal { code, message, is_broken }
}

/// Not worth another try: whoever answers there will not become a Stepwell server.
fn foreign(server: &str, who: &str) -> Refusal {
    Refusal {
        code: Code::Unimplemented,
        message: format!(
            "{who} answers at {server}, and it is no Stepwell server: start one with `stepwell \
             serve`, or name its address with --server"
        ),
        is_broken: false,
    }
}

fn broken(server: &str, reason: &str) -> String {
    format!(
        "no answer from {server} ({reason}): it may have been stopped, or it is no Stepwell server"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_must_be_one() {
        for (server, problem) in [
            ("https://h:1", "plain http"),
            ("ftp://h:1", "http://"),
            ("http://", "no address"),
            ("http://a b", "no address"),
        ] {
            let message = endpoint(server, CONNECT_TIMEOUT).unwrap_err().message;
            assert!(message.contains(problem) && message.contains(server), "{server}: {message}");
        }
        assert!(endpoint("http://127.0.0.1:7171", CONNECT_TIMEOUT).is_ok());
    }

    #[tokio::test]
    async fn a_refused_connection_names_the_address_and_what_to_do() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let refusal = Client::connect(&server).await.unwrap_err();
        assert_eq!(
            refusal.message,
            format!(
                "no server answers at {server} (connection refused): start one with `stepwell \
                 serve`, or name another with --server"
            )
        );
        assert!(refusal.may_pass());
    }

    #[tokio::test]
    async fn a_server_of_another_kind_is_called_so() {
        let routes = axum::Router::new();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let mut serving = tokio::task::JoinSet::new();
        serving.spawn(async move { axum::serve(listener, routes).await });
        let client = Client::connect(&server).await.unwrap();
        let request = stepwell_proto::v1::ListWorkersRequest {};
        let status = client.agents().list_workers(request).await.unwrap_err();
        let refusal = client.refusal_of_whom(&status).await;
        let expected = format!("a web server answers at {server}, and it is no Stepwell server");
        assert!(refusal.message.starts_with(&expected), "{refusal}");
        assert!(!refusal.is_broken);
    }

    #[test]
    fn the_words_of_the_server_are_passed_on() {
        let refusal = refusal("http://h", &Status::not_found("no session begins with 01X"));
        assert_eq!(refusal.message, "no session begins with 01X");
        assert!(!refusal.may_pass());
    }

    #[test]
    fn a_call_that_the_server_does_not_know_means_another_release() {
        let refusal = refusal("http://h", &Status::unimplemented(""));
        assert!(refusal.message.contains("another release"), "{refusal}");
    }
}
