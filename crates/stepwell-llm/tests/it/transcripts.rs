//! What vLLM 0.32 truly sends, `tests/data/vllm`: every stream and every whole answer.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use stepwell_llm::assemble::{Answer, Assembler, Problem};
use stepwell_ports::ModelChunk;

use crate::answers::{Outcome, read_in_all_chunkings};

pub(crate) fn transcripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vllm");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The body of a response that was recorded as curl got it.
pub(crate) fn body_of(response: &[u8]) -> &[u8] {
    let end = response.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
    &response[end + 4..]
}

/// Undoes HTTP's chunks, for the two transcripts that kept them. Notes between brackets, which
/// stand in for a part that was left out, are skipped.
fn without_chunks(body: &[u8]) -> Vec<u8> {
    let mut text = String::from_utf8(body.to_vec()).unwrap();
    if let (Some(start), Some(end)) = (text.find("[..."), text.find("EOF:]")) {
        text.replace_range(start..end + "EOF:]".len(), "");
    }
    let is_size = |line: &str| {
        !line.is_empty() && line.len() < 5 && line.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let lines = text.split('\n').map(|line| line.trim_end_matches('\r'));
    lines.filter(|line| !is_size(line)).fold(String::new(), |text, line| text + line + "\n").into()
}

fn summary(answer: &Result<Answer, Problem>) -> String {
    let mut text = String::new();
    match answer {
        Ok(answer) => {
            let usage = answer.usage;
            let _ = write!(
                text,
                "{:?} {}/{}/{}",
                answer.finish_reason,
                usage.prompt_tokens,
                usage.cached_tokens,
                usage.completion_tokens
            );
            for (name, value) in [("content", &answer.content), ("reasoning", &answer.reasoning)] {
                if !value.is_empty() {
                    let _ = write!(text, "\n  {name} {value:?}");
                }
            }
            for call in &answer.tool_calls {
                assert!(call.id.starts_with("chatcmpl-tool-"), "{call:?}");
                let _ = write!(text, "\n  call {} {}", call.name, call.arguments);
            }
        }
        Err(problem) => {
            let _ = write!(text, "{problem:?}");
        }
    }
    text
}

#[test]
fn every_stream_of_vllm_is_understood() {
    let mut report = String::new();
    for path in transcripts() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let response = fs::read(&path).unwrap();
        let is_chunked = name.contains("raw-chunked") || name.starts_with("61-");
        let body = body_of(&response).to_vec();
        let body = if is_chunked { without_chunks(&body) } else { body };
        if !body.starts_with(b"data:") && !body.starts_with(b": ") {
            continue;
        }
        let Outcome { answer, content_seen, reasoning_seen } = read_in_all_chunkings(&body, &[]);
        if let Ok(answer) = &answer {
            assert_eq!((&content_seen, &reasoning_seen), (&answer.content, &answer.reasoning));
        }
        let _ =
            writeln!(report, "{}: {}", name.trim_end_matches(".response.txt"), summary(&answer));
    }
    insta::assert_snapshot!("streams", report);
}

#[test]
fn every_whole_answer_of_vllm_is_understood() {
    let mut report = String::new();
    for path in transcripts() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let response = fs::read(&path).unwrap();
        let body = body_of(&response);
        if !body.starts_with(b"{") || !response.starts_with(b"HTTP/1.1 2") {
            continue;
        }
        let body = std::str::from_utf8(body).unwrap();
        let answer = Assembler::whole(body, &mut |_: ModelChunk| {});
        let _ =
            writeln!(report, "{}: {}", name.trim_end_matches(".response.txt"), summary(&answer));
    }
    insta::assert_snapshot!("whole", report);
}
