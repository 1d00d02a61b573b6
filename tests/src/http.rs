//! A small HTTP client, so that a test decides when it reads.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::wait::SOON;

/// What stands behind each server-sent event.
const BLOCK_END: &str = "\n\n";

/// An answer whose head was read.
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    head: String,
    stream: BufReader<TcpStream>,
    /// Of the body, what was read and not given out.
    rest: String,
    is_chunked: bool,
    length_left: usize,
    is_over: bool,
}

/// A server-sent event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// `id:`
    pub id: String,
    /// `event:`
    pub kind: String,
    /// `data:`
    pub data: String,
}

/// `GET path` with more headers (lines without their end).
///
/// # Errors
/// When no head comes.
pub async fn get(server: SocketAddr, path: &str, headers: &[&str]) -> Result<HttpResponse> {
    let mut stream = BufReader::new(TcpStream::connect(server).await?);
    let mut request = format!("GET {path} HTTP/1.1\r\nhost: {server}\r\n");
    for header in headers {
        request.push_str(header);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let reading = async {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                bail!("the connection ended in the head: {head:?}");
            }
        }
        Ok(head)
    };
    let head = timeout(SOON, reading).await.context("no answer came")??;
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).context("no status")?;
    let lower = head.to_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length_left = length.and_then(|it| it.trim().parse().ok()).unwrap_or(0);
    let is_chunked = lower.contains("transfer-encoding: chunked");
    let is_over = !is_chunked && length_left == 0;
    Ok(HttpResponse { status, head, stream, rest: String::new(), is_chunked, length_left, is_over })
}

impl HttpResponse {
    /// The head, as it came.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// Reads a piece of the body; false at its end.
    async fn fill(&mut self) -> Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        let mut length = self.length_left;
        if self.is_chunked {
            let mut line = String::new();
            self.stream.read_line(&mut line).await?;
            let digits = line.trim_end();
            length = usize::from_str_radix(digits, 16)
                .with_context(|| format!("the body broke off: {line:?}"))?;
        }
        let mut piece = vec![0; length];
        self.stream.read_exact(&mut piece).await?;
        if self.is_chunked {
            let mut end = String::new();
            self.stream.read_line(&mut end).await?;
        }
        self.is_over = length == 0 || !self.is_chunked;
        self.rest.push_str(std::str::from_utf8(&piece)?);
        Ok(length > 0)
    }

    /// The whole body.
    ///
    /// # Errors
    /// When it does not end well.
    pub async fn text(&mut self) -> Result<String> {
        let reading = async {
            while self.fill().await? {}
            Ok(std::mem::take(&mut self.rest))
        };
        timeout(SOON, reading).await.context("the body does not end")?
    }

    /// The next server-sent event; `None` at the end. Comments are passed over.
    ///
    /// # Errors
    /// When none comes in time, or the connection breaks.
    pub async fn event(&mut self) -> Result<Option<SseEvent>> {
        let reading = async {
            loop {
                while let Some(end) = self.rest.find(BLOCK_END) {
                    let block: String = self.rest.drain(..end + BLOCK_END.len()).collect();
                    if let Some(event) = parse(&block) {
                        return Ok(Some(event));
                    }
                }
                if !self.fill().await? {
                    return Ok(None);
                }
            }
        };
        timeout(SOON, reading).await.context("no event comes")?
    }

    /// All events to the end.
    ///
    /// # Errors
    /// As [`HttpResponse::event`].
    pub async fn events(&mut self) -> Result<Vec<SseEvent>> {
        let mut events = Vec::new();
        while let Some(event) = self.event().await? {
            events.push(event);
        }
        Ok(events)
    }
}

fn parse(block: &str) -> Option<SseEvent> {
    let mut event = SseEvent::default();
    for line in block.lines() {
        match line.split_once(':') {
            Some(("id", value)) => value.trim_start().clone_into(&mut event.id),
            Some(("event", value)) => value.trim_start().clone_into(&mut event.kind),
            Some(("data", value)) => event.data.push_str(value.trim_start()),
            _ => {}
        }
    }
    (event != SseEvent::default()).then_some(event)
}
