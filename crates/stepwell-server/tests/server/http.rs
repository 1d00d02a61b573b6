//! A client for plain HTTP that sees every byte, and tests of what is no stream.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::world::{PLAIN, Turn, World, within};

/// An answer whose body is read as it comes. HTTP/1.0, so that the body is not cut into chunks and
/// ends with the connection.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    body: BufReader<TcpStream>,
}

impl Answer {
    /// The whole body.
    pub(crate) async fn text(mut self) -> String {
        let mut text = String::new();
        within(self.body.read_to_string(&mut text)).await.unwrap();
        text
    }

    /// The whole body as JSON.
    pub(crate) async fn json(self) -> Value {
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// The next line, without its end; `None` at the end of the body or a broken connection.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match within(self.body.read_line(&mut line)).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end_matches('\n').to_owned()),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

/// Sends a GET and reads the head of the answer.
pub(crate) async fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    get_on(stream, path, headers).await
}

/// The same on a connection that is there.
pub(crate) async fn get_on(mut stream: TcpStream, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut lines = vec![format!("GET {path} HTTP/1.0"), "host: localhost".to_owned()];
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    let request = format!("{}\r\n\r\n", lines.join("\r\n"));
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut body = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        within(body.read_line(&mut line)).await.unwrap();
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &String| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_lowercase(), value.trim().to_owned())
    };
    Answer { status, headers: lines[1..].iter().map(header).collect(), body }
}

#[tokio::test]
async fn health_says_ok_and_a_page_says_what_this_is() {
    let world = World::new(&[]).await;
    let answer = get(world.address, "/health", &[]).await;
    assert_eq!((answer.status, answer.text().await.as_str()), (200, "ok\n"));
    let about = get(world.address, "/about", &[]).await.text().await;
    assert!(about.contains("Stepwell") && about.contains("/v1/sessions/{id}/events"), "{about}");
    world.stop().await;
}

#[tokio::test]
async fn unknown_things_are_refused_with_words() {
    let world = World::new(&[]).await;
    for (path, status, code, says) in [
        ("/v1/nothing", 404, "NOT_FOUND", "there is nothing at /v1/nothing"),
        ("/v1/sessions/01J/events", 400, "INVALID_ARGUMENT", "too short"),
        ("/v1/sessions/01JZZZ/events", 404, "NOT_FOUND", "there is no session"),
        ("/v1/sessions/01J-ZZ", 400, "INVALID_ARGUMENT", "is no session id"),
        ("/v1/sessions/8B163WKGZZZZZZZZZZZZZZZZZ7", 400, "INVALID_ARGUMENT", "is no session id"),
        ("/v1/sessions?status=happy", 400, "INVALID_ARGUMENT", "status: \"happy\""),
        ("/v1/sessions?page_size=x", 400, "INVALID_ARGUMENT", "the address: "),
        ("/v1/sessions/01JZZZ/events?after=3", 400, "INVALID_ARGUMENT", "unknown field `after`"),
        ("/v1/sessions?page_token=zzz", 400, "INVALID_ARGUMENT", "page_token"),
    ] {
        let answer = get(world.address, path, &[]).await;
        assert_eq!(answer.status, status, "{path}");
        let body = answer.json().await;
        assert_eq!(body["error"]["code"], code, "{path}: {body}");
        assert!(body["error"]["message"].as_str().unwrap().contains(says), "{path}: {body}");
    }
    world.stop().await;
}

#[tokio::test]
async fn sessions_are_listed_as_json_with_the_names_of_the_proto() {
    let world = World::new(&[Turn::Say(&["Done."])]).await;
    let id = world.create(PLAIN).await;
    world.until_status(&id, stepwell_proto::v1::SessionStatus::Completed).await;
    let body = get(world.address, "/v1/sessions?status=completed,failed", &[]).await.json().await;
    let row = &body["sessions"][0];
    assert_eq!(row["session_id"], id.as_str());
    assert_eq!(row["status"], "completed");
    assert_eq!(row["usage"]["cached_tokens"], 4);
    assert!(row["head_seq"].as_u64().unwrap() >= 4, "{row}");
    assert_eq!(body["next_page_token"], "");
    let one = get(world.address, &format!("/v1/sessions/{}", &id[..8]), &[]).await.json().await;
    assert_eq!(one["session_id"], id.as_str());
    assert!(one["explain"].as_str().unwrap().starts_with("completed in 1 step"), "{one}");
    world.stop().await;
}
