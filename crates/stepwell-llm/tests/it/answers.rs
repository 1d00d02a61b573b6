//! Reads a stream the way the client does, without a network.

use stepwell_llm::assemble::{Answer, Assembler, Problem};
use stepwell_llm::sse::SseDecoder;
use stepwell_ports::ModelChunk;

/// What became of a stream, and the pieces that a watcher saw on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) answer: Result<Answer, Problem>,
    pub(crate) content_seen: String,
    pub(crate) reasoning_seen: String,
}

/// The outcome of a stream that comes in `blocks`.
pub(crate) fn read(blocks: &[&[u8]]) -> Outcome {
    let (mut content_seen, mut reasoning_seen) = (String::new(), String::new());
    let mut on_piece = |chunk: ModelChunk| match chunk {
        ModelChunk::Content(text) => content_seen.push_str(&text),
        ModelChunk::Reasoning(text) => reasoning_seen.push_str(&text),
    };
    let mut decoder = SseDecoder::new();
    let mut assembler = Assembler::new();
    let problem = blocks.iter().find_map(|block| {
        let outcome =
            decoder.decode(block, |event| assembler.push(event, &mut on_piece).map(|_| ()));
        outcome.err()
    });
    let answer = match problem {
        Some(problem) => Err(problem),
        None => assembler.finish(),
    };
    Outcome { answer, content_seen, reasoning_seen }
}

/// The outcome of a stream, which must be the same in one block, byte by byte, in blocks of 7 bytes
/// and cut at every one of `offsets`.
#[track_caller]
pub(crate) fn read_in_all_chunkings(stream: &[u8], offsets: &[usize]) -> Outcome {
    let outcome = read(&[stream]);
    for size in [1, 2, 7, 64] {
        let blocks: Vec<&[u8]> = stream.chunks(size).collect();
        assert_eq!(read(&blocks), outcome, "in blocks of {size} bytes");
    }
    let mut blocks = Vec::new();
    let mut start = 0;
    for end in offsets.iter().copied().chain([stream.len()]) {
        blocks.push(&stream[start..end]);
        start = end;
    }
    assert_eq!(read(&blocks), outcome, "cut at {offsets:?}");
    outcome
}

/// A stream of the given JSON texts and the end mark.
pub(crate) fn stream_of(chunks: &[&str]) -> Vec<u8> {
    let mut stream = String::new();
    for chunk in chunks.iter().copied().chain(["[DONE]"]) {
        stream.push_str("data: ");
        stream.push_str(chunk);
        stream.push_str("\n\n");
    }
    stream.into_bytes()
}

/// The chunk of a stream with this delta.
pub(crate) fn delta(delta: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)
}

/// The chunk of a stream with this finish reason.
pub(crate) fn end(reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}
