//! A server that does what the test says, byte by byte, and a session that asks it.

use std::sync::{Arc, Mutex};

use stepwell_core::SessionId;
use stepwell_core::agent::{Agent, ModelSpec, ModelTimeouts};
use stepwell_core::prompt::Prompt;
use stepwell_core::tokens::Tokens;
use stepwell_llm::OpenAiClient;
use stepwell_ports::{
    Affinity, ModelAnswer, ModelChunk, ModelFailure, ModelPort, ModelRequest, ModelSink,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Long enough for every limit that a test does not want to pass.
const LONG_MS: u64 = 60_000;

/// Limits that no test reaches.
pub(crate) const PATIENT: ModelTimeouts = ModelTimeouts {
    connect_ms: LONG_MS,
    first_token_ms: LONG_MS,
    between_tokens_ms: LONG_MS,
    total_ms: LONG_MS,
};

/// A listening server.
pub(crate) struct Peer {
    listener: TcpListener,
}

/// A connection that the server accepted.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// A request as it came.
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Peer {
    pub(crate) async fn listen() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.listener.local_addr().unwrap())
    }

    pub(crate) async fn accept(&self) -> Connection {
        let (stream, _) = self.listener.accept().await.unwrap();
        Connection { stream, received: Vec::new() }
    }

    /// Accepts a connection, reads a request, answers with these bytes and closes.
    pub(crate) async fn answer_once(&self, bytes: &[u8]) -> Request {
        let mut connection = self.accept().await;
        let request = connection.request().await;
        connection.write(bytes).await;
        request
    }
}

impl Connection {
    pub(crate) async fn request(&mut self) -> Request {
        let request = self.next_request().await;
        request.expect("the client closed before its request was whole")
    }

    /// The next request; `None` when the client closes.
    pub(crate) async fn next_request(&mut self) -> Option<Request> {
        loop {
            let end = self.received.windows(4).position(|it| it == b"\r\n\r\n");
            if let Some(end) = end {
                let head = String::from_utf8(self.received[..end].to_vec()).unwrap();
                let mut request = Request { head, body: String::new() };
                let length = request.header("content-length").map_or(0, |it| it.parse().unwrap());
                let start = end + 4;
                if self.received.len() >= start + length {
                    let body = self.received[start..start + length].to_vec();
                    request.body = String::from_utf8(body).unwrap();
                    self.received.drain(..start + length);
                    return Some(request);
                }
            }
            if !self.read_more().await {
                return None;
            }
        }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Waits until the client closes the connection.
    pub(crate) async fn closed(&mut self) {
        while self.read_more().await {}
    }

    async fn read_more(&mut self) -> bool {
        let mut block = vec![0; 16 * 1024];
        // A reset is a close as well.
        let count = self.stream.read(&mut block).await.unwrap_or(0);
        self.received.extend_from_slice(&block[..count]);
        count > 0
    }
}

/// Keeps what a watcher sees.
#[derive(Default)]
pub(crate) struct Watcher {
    chunks: Mutex<Vec<ModelChunk>>,
}

impl Watcher {
    pub(crate) fn chunks(&self) -> Vec<ModelChunk> {
        self.chunks.lock().unwrap().clone()
    }
}

impl ModelSink for Watcher {
    fn chunk(&self, chunk: ModelChunk) {
        self.chunks.lock().unwrap().push(chunk);
    }
}

/// A request to `base_url` within `timeouts`.
pub(crate) fn request(base_url: String, timeouts: ModelTimeouts) -> ModelRequest {
    let agent = Agent {
        version: 1,
        ..Agent::new("a", "You are.", ModelSpec { timeouts, ..ModelSpec::new("m", base_url) })
    };
    ModelRequest {
        session_id: SessionId::from_random([7; 16]),
        step: 1,
        attempt: 1,
        measured: None,
        tokens: Tokens::default(),
        affinity: Affinity::default(),
        prompt: Prompt::new(&agent, "Say ok."),
        model: agent.model,
    }
}

/// Asks once.
pub(crate) async fn ask(
    client: &OpenAiClient,
    request: ModelRequest,
) -> Result<ModelAnswer, ModelFailure> {
    client.ask(request, Arc::new(Watcher::default()), CancellationToken::new()).await
}

/// A response with this status line, headers and body, and its length.
pub(crate) fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// The head of a stream in chunks.
pub(crate) const STREAM_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; \
    charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

/// One chunk of HTTP's transfer encoding. An empty one ends the body.
pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}
