//! What other servers send, `tests/data/dialects`: answers in any chunking, refusals over a socket.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use stepwell_llm::OpenAiClient;
use stepwell_llm::assemble::Problem;

use crate::answers::read_in_all_chunkings;
use crate::peer::{PATIENT, Peer, ask, request};
use crate::transcripts::body_of;

/// Servers of which there are transcripts; a test that finds none would pass.
const SERVERS: [&str; 5] = ["litellm", "llamacpp", "ollama", "openai", "sglang"];

fn transcripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dialects");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap().trim_end_matches(".response.txt")
}

#[test]
fn every_server_has_an_answer_and_a_refusal() {
    for server in SERVERS {
        let of_server = || transcripts().into_iter().filter(|it| name_of(it).starts_with(server));
        let is_answer = |path: &PathBuf| fs::read(path).unwrap().starts_with(b"HTTP/1.1 200");
        assert!(of_server().any(|it| is_answer(&it)), "{server}");
        assert!(of_server().any(|it| !is_answer(&it)), "{server}");
    }
}

#[test]
fn every_answer_is_understood_in_any_chunking() {
    let mut report = String::new();
    for path in transcripts() {
        let response = fs::read(&path).unwrap();
        if !response.starts_with(b"HTTP/1.1 200") {
            continue;
        }
        let outcome = read_in_all_chunkings(body_of(&response), &[]);
        let _ = write!(report, "{}: ", name_of(&path));
        match outcome.answer {
            Ok(answer) => {
                let _ = write!(report, "{:?} {:?}", answer.finish_reason, answer.usage);
                for text in [&answer.reasoning, &answer.content] {
                    if !text.is_empty() {
                        let _ = write!(report, "\n  {text:?}");
                    }
                }
                for call in answer.tool_calls {
                    let _ = write!(report, "\n  {} {} {}", call.id, call.name, call.arguments);
                }
            }
            Err(Problem::ServerSaid { message, kind, code }) => {
                let _ = write!(report, "the server said {kind} {code:?} {message:?}");
            }
            Err(problem) => {
                let _ = write!(report, "{problem}");
            }
        }
        report.push('\n');
    }
    insta::assert_snapshot!("answers", report);
}

/// Refusals, and streams that end in an error: kind, wait and numbers as the engine gets them.
#[tokio::test]
async fn every_failure_has_its_kind() {
    let mut report = String::new();
    for path in transcripts() {
        let bytes = fs::read(&path).unwrap();
        let peer = Peer::listen().await;
        let client = OpenAiClient::new();
        let sent = request(peer.base_url(), PATIENT);
        let (_, outcome) = tokio::join!(peer.answer_once(&bytes), ask(&client, sent));
        let Err(failure) = outcome else { continue };
        let _ = write!(report, "{}: {}", name_of(&path), failure.kind.as_str());
        if let Some(wait_ms) = failure.retry_after_ms {
            let _ = write!(report, " after {wait_ms} ms");
        }
        if let Some(context) = failure.context {
            let _ = write!(report, " {:?} of {:?} tokens", context.prompt, context.limit);
        }
        report.push('\n');
    }
    insta::assert_snapshot!("failures", report);
}
