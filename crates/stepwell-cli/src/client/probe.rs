//! What answers at an address where no gRPC does: a question that every HTTP server understands.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::transport::Uri;

use super::RELEASE_HEADER;

/// How long whatever answers may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Of its answer so much is looked at.
const ANSWER_BYTES_MAX: u64 = 4 * 1024;

/// Who answers there, when it is surely not a Stepwell server.
pub(super) async fn stranger(server: &str) -> Option<&'static str> {
    let heard = tokio::time::timeout(TIMEOUT, ask(server)).await.ok()??;
    who(&heard)
}

/// What is heard at an address; `None` when nothing is.
async fn ask(server: &str) -> Option<Vec<u8>> {
    let uri: Uri = server.parse().ok()?;
    let (host, port) = (uri.host()?, uri.port_u16().unwrap_or(80));
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let mut stream = TcpStream::connect((bare, port)).await.ok()?;
    let question = format!("HEAD / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(question.as_bytes()).await.ok()?;
    let mut heard = Vec::new();
    // What came before it broke off says enough.
    let _ = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut heard).await;
    Some(heard)
}

fn who(heard: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(heard).to_ascii_lowercase();
    if heard.is_empty() || text.contains(RELEASE_HEADER) {
        return None;
    }
    Some(if text.starts_with("http/") { "a web server" } else { "another kind of server" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_without_our_release_is_a_strangers() {
        for (heard, stranger) in [
            ("", None),
            ("HTTP/1.1 403 Forbidden\r\nStepwell-Version: 0.1.0\r\n\r\n", None),
            ("HTTP/1.0 200 OK\r\nServer: x\r\n\r\n", Some("a web server")),
            ("SSH-2.0-x\r\n", Some("another kind of server")),
        ] {
            assert_eq!(who(heard.as_bytes()), stranger, "{heard}");
        }
    }
}
