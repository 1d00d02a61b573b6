//! The model client beside a bare reader of the same bytes: processor time for each chunk of a stream
//! and for each request.
//!
//! A server in another thread gives the same recorded bytes to both, as fast as they are read, so that
//! neither waits and nothing else runs in the thread that is measured.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use nix::time::{ClockId, clock_gettime};
use stepwell_core::prompt::Prompt;
use stepwell_core::tokens::Tokens;
use stepwell_core::{Effect, SessionId};
use stepwell_llm::OpenAiClient;
use stepwell_ports::model::Affinity;
use stepwell_ports::{ModelChunk, ModelPort, ModelRequest, ModelSink};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::Bench;
use crate::report::{Goal, Measure};
use crate::time::median;
use crate::workload::{agent, result_text};

/// Chunks of a long answer; one is a token.
const CHUNKS: usize = 2_000;
/// Long answers that are read in one round.
const LONG_REQUESTS: usize = 10;
/// Answers of one chunk that are read in one round.
const SHORT_REQUESTS: usize = 1_000;
/// Rounds, of which the middle one counts.
const ROUNDS: usize = 5;
/// Tool results in the prompt.
const RESULTS: usize = 8;

/// `client`.
pub(crate) fn against_bare_reader(bench: &Bench, _: &Runtime) -> anyhow::Result<Vec<Measure>> {
    // One thread does all of it, so that its processor time is the client's and nobody else's.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let long = Sides::measure(&runtime, CHUNKS, (LONG_REQUESTS / bench.scale).max(1))?;
    let short = Sides::measure(&runtime, 1, SHORT_REQUESTS / bench.scale)?;
    // What a request costs besides its chunks is the same in both, so their difference is the chunks'.
    let per_chunk = |long: f64, short: f64| (long - short) / (CHUNKS - 1) as f64;
    let client = per_chunk(long.client_us, short.client_us);
    let bare = per_chunk(long.bare_us, short.bare_us);
    let named = |name: &str, value: f64, limit: f64| Measure {
        name: name.to_owned(),
        value,
        unit: "us",
        limit: Some(limit),
        ratio: Some(value / limit),
        goal: Goal::None,
    };
    Ok(vec![
        named("model client, CPU per streamed chunk (limit: bare reader)", client, bare),
        named("model client, CPU per request (limit: bare reader)", short.client_us, short.bare_us),
    ])
}

/// Processor time of one request, in microseconds.
struct Sides {
    client_us: f64,
    bare_us: f64,
}

impl Sides {
    fn measure(runtime: &Runtime, chunks: usize, requests: usize) -> anyhow::Result<Self> {
        let address = serve(stream_of(chunks))?;
        let request = request(address);
        let client = OpenAiClient::new();
        let (mut of_client, mut of_bare) = (Vec::new(), Vec::new());
        // The first round warms up and does not count.
        for round in 0..=ROUNDS {
            let ours = runtime.block_on(async {
                let started = cpu_time()?;
                for _ in 0..requests {
                    let cancel = CancellationToken::new();
                    let answer = client.ask(request.clone(), Arc::new(Unseen), cancel).await?;
                    anyhow::ensure!(answer.usage.completion_tokens == chunks as u64, "not all");
                }
                anyhow::Ok(micros(cpu_time()?.saturating_sub(started)) / requests as f64)
            })?;
            let bare = runtime.block_on(read_bare(&request, requests))?;
            if round > 0 {
                of_client.push(ours);
                of_bare.push(bare);
            }
        }
        Ok(Self { client_us: median(of_client), bare_us: median(of_bare) })
    }
}

/// Sends the same bytes and reads the same bytes, and looks at none.
async fn read_bare(request: &ModelRequest, requests: usize) -> anyhow::Result<f64> {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
    let url = format!("{}/chat/completions", request.model.base_url);
    let body = request.prompt.body();
    let started = cpu_time()?;
    for _ in 0..requests {
        let mut response = client.post(&url).body(body.clone()).send().await?;
        while response.chunk().await?.is_some() {}
    }
    Ok(micros(cpu_time()?.saturating_sub(started)) / requests as f64)
}

fn cpu_time() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Nobody watches.
struct Unseen;

impl ModelSink for Unseen {
    fn chunk(&self, _: ModelChunk) {}
}

fn request(address: SocketAddr) -> ModelRequest {
    let mut agent = agent(Effect::Read, 1);
    agent.model.base_url = format!("http://{address}/v1");
    let mut prompt = Prompt::new(&agent, "Look all items up.");
    for _ in 0..RESULTS {
        prompt.push_user(&result_text());
    }
    ModelRequest {
        session_id: SessionId::from_random([7; 16]),
        step: 1,
        attempt: 1,
        tokens: Tokens::default(),
        model: agent.model,
        measured: None,
        affinity: Affinity::default(),
        prompt,
    }
}

/// A response as vLLM streams it: each event in a chunk of its own.
fn stream_of(chunks: usize) -> Vec<u8> {
    let event = |choices: &str, usage: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-9c079d49d0fd9613\",\"object\":\"chat.completion.chunk\",\
             \"created\":1795983398,\"model\":\"stub\",\"choices\":[{choices}]{usage}}}\n\n"
        )
    };
    let delta = |delta: &str, finish: &str| {
        let choice = format!(
            "{{\"index\":0,\"delta\":{{{delta}}},\"logprobs\":null,\"finish_reason\":{finish},\
             \"token_ids\":null}}"
        );
        event(&choice, "")
    };
    let mut events = vec![delta("\"role\":\"assistant\",\"content\":\"\"", "null")];
    events.extend((0..chunks).map(|n| delta(&format!("\"content\":\" w{n}\""), "null")));
    events.push(delta("", "\"stop\""));
    let usage = format!(
        ",\"usage\":{{\"prompt_tokens\":900,\"total_tokens\":{},\"completion_tokens\":{chunks}}}",
        900 + chunks
    );
    events.push(event("", &usage));
    events.push("data: [DONE]\n\n".to_owned());
    let mut bytes = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
        transfer-encoding: chunked\r\n\r\n"
        .to_vec();
    for event in events {
        bytes.extend_from_slice(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes());
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

/// Answers every request with these bytes, until the process ends.
fn serve(answer: Vec<u8>) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let answer: Arc<[u8]> = answer.into();
    thread::Builder::new().name("bench-server".into()).spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            // A client that leaves ends its connection, and nobody asks how.
            thread::spawn(move || answer_all(&connection, &answer).ok());
        }
    })?;
    Ok(address)
}

fn answer_all(connection: &TcpStream, answer: &[u8]) -> anyhow::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            anyhow::ensure!(reader.read_line(&mut line)? > 0, "the client left");
            if line == "\r\n" {
                break;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(digits) = lower.strip_prefix("content-length:") {
                length = digits.trim().parse().context("a length")?;
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
        (&*connection).write_all(answer)?;
    }
}
