//! One attempt over HTTP: send, read, watch the time.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Client, Response};
use stepwell_core::agent::History;
use stepwell_ports::{ModelAnswer, ModelChunk, ModelFailure, ModelPort, ModelRequest, ModelSink};
use tokio::time::{Duration, Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::alarm::Alarm;
use crate::assemble::{ANSWER_BYTES_MAX, Answer, Assembler, Problem, Progress};
use crate::body::body;
use crate::budget::Budgets;
use crate::connect::Clients;
use crate::continuation;
use crate::deadlines::{Deadlines, Limit};
use crate::endpoints::Endpoints;
use crate::exchange::Server;
use crate::failure::Refusal;
use crate::prefix;
use crate::retry_after::{retry_after_ms, retry_after_ms_exact};
use crate::sse::SseDecoder;
use crate::target::Target;
use crate::token_ids::TokenIds;

/// Bytes of a stream, at most: envelopes, comments and all. One token costs about 250 bytes on the
/// wire, with log probabilities ten times that; the answer in it has its own, smaller bound.
const STREAM_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Bytes of an answer that comes as one JSON text, at most. Escaping can double a text's length.
pub(crate) const JSON_BYTES_MAX: usize = 2 * ANSWER_BYTES_MAX;

/// Bytes of an error's body that are read, at most; the rest closes the connection.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// How long an error's body may take. What was read until then must do.
const ERROR_BODY_MS_MAX: u64 = 5_000;

/// How long to read on after the end mark, so that the connection can be used again. The end of the
/// body comes with the end mark or right after it; a server that dawdles costs a new connection.
const DRAIN_MS_MAX: u64 = 20;

/// A client for any number of OpenAI-compatible servers. Cheap to share, keeps connections.
#[derive(Debug)]
pub struct OpenAiClient {
    clients: Clients,
    pub(crate) endpoints: Arc<Endpoints>,
    budgets: Budgets,
}

impl Default for OpenAiClient {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenAiClient {
    /// A client without connections. Must be used inside a tokio runtime.
    pub fn new() -> Self {
        Self {
            clients: Clients::default(),
            endpoints: Arc::new(Endpoints::new()),
            budgets: Budgets::default(),
        }
    }

    /// Asks replicas how they are, again and again until `stop`. Without it they are judged by what
    /// comes of requests alone.
    pub async fn tend(&self, stop: &CancellationToken) {
        self.endpoints.clone().tend(&self.clients, stop).await;
    }

    /// Whether the request may fit.
    async fn check(&self, request: &ModelRequest, target: &Target) -> Result<(), ModelFailure> {
        let client = self.client(target, request.model.timeouts.connect_ms)?;
        self.budgets.check(&client, target, request).await
    }

    async fn attempt(
        &self,
        request: ModelRequest,
        target: &Target,
        sink: &dyn ModelSink,
    ) -> Result<ModelAnswer, ModelFailure> {
        let limits = request.model.timeouts;
        let deadlines = Deadlines::new(limits, Instant::now());
        let connect_ms = limits.connect_ms;
        let server = Server { client: self.client(target, connect_ms)?, target, connect_ms };
        let (mut answer, ids) = match request.model.history {
            History::Tokens => continuation::ask(&server, &request, deadlines, sink).await?,
            History::Calls | History::Text => {
                let sent = (body(request.prompt.clone()), request.prompt.body_bytes());
                let response = server.post(target.url.clone(), sent, deadlines.next()).await?;
                Reading::new(response, target, deadlines).run(sink).await?
            }
        };
        if request.model.asks_token_ids() {
            let recorded = prefix::recorded(&server, &request, &answer, &ids).await;
            answer.tokens = recorded.map(Box::new);
        }
        Ok(answer)
    }

    pub(crate) fn client(&self, target: &Target, connect_ms: u64) -> Result<Client, ModelFailure> {
        let client = self.clients.get(&target.url, connect_ms);
        client.map_err(|error| target.unreachable(&error, connect_ms))
    }
}

#[async_trait]
impl ModelPort for OpenAiClient {
    async fn ask(
        &self,
        request: ModelRequest,
        sink: Arc<dyn ModelSink>,
        cancel: CancellationToken,
    ) -> Result<ModelAnswer, ModelFailure> {
        let targets = Target::all(&request.model)?;
        let placed = self.endpoints.place(targets, &request.affinity);
        let (target, lease) = placed.ok_or_else(Target::nowhere)?;
        let (session_id, step, attempt) = (request.session_id, request.step, request.attempt);
        // A server that is not asked is not judged: on a refusal here its lease is only dropped.
        let checked = cancel.run_until_cancelled(self.check(&request, &target)).await;
        checked.ok_or_else(|| target.cancelled())??;
        let outcome = tokio::select! {
            biased;
            // Dropping the attempt closes its connection, which makes the server stop.
            () = cancel.cancelled() => return Err(target.cancelled()),
            outcome = self.attempt(request, &target, &*sink) => outcome,
        };
        let outcome = lease.end(outcome);
        match &outcome {
            Ok(answer) => debug!(
                %session_id, step, attempt, endpoint = %answer.endpoint,
                first_token_ms = answer.first_token_ms, duration_ms = answer.duration_ms,
                "the model answered"
            ),
            Err(failure) => debug!(
                %session_id, step, attempt, endpoint = %failure.endpoint,
                kind = failure.kind.as_str(), message = %failure.message,
                "the model did not answer"
            ),
        }
        outcome
    }
}

/// A success whose body is being read.
pub(crate) struct Reading<'a> {
    response: Response,
    target: &'a Target,
    deadlines: Deadlines,
    alarm: Alarm,
    status: u16,
    bytes: usize,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(response: Response, target: &'a Target, deadlines: Deadlines) -> Self {
        let status = response.status().as_u16();
        let alarm = Alarm::new(deadlines.next().0);
        Self { response, target, deadlines, alarm, status, bytes: 0 }
    }

    /// Reads it to its end: the answer, and its token ids as far as there are any.
    pub(crate) async fn run(
        mut self,
        sink: &dyn ModelSink,
    ) -> Result<(ModelAnswer, TokenIds), ModelFailure> {
        let mut on_piece = |chunk: ModelChunk| sink.chunk(chunk);
        let answer = loop {
            let Some(block) = self.next_block(false).await? else {
                return Err(self.unusable(&Problem::Incomplete));
            };
            // Told apart by the bytes, because servers name the wrong content type: a stream of
            // events never begins with a brace, JSON and pages never with a field name.
            match block.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => {}
                Some(b'{') => break self.read_json(block.to_vec(), &mut on_piece).await?,
                Some(b'<') => return Err(self.unusable(&self.not_an_answer())),
                Some(_) => break self.read_stream(&block, &mut on_piece).await?,
            }
        };
        let now = Instant::now();
        let whole = ModelAnswer {
            content: answer.content,
            reasoning: answer.reasoning,
            tool_calls: answer.tool_calls,
            finish_reason: answer.finish_reason,
            finish_word: answer.finish_word,
            usage: answer.usage,
            endpoint: self.target.endpoint.clone(),
            first_token_ms: self.deadlines.first_token_ms(now),
            duration_ms: self.deadlines.elapsed_ms(now),
            tokens: None,
        };
        Ok((whole, answer.token_ids))
    }

    async fn read_stream(
        &mut self,
        first_block: &[u8],
        on_piece: &mut (dyn FnMut(ModelChunk) + Send),
    ) -> Result<Answer, ModelFailure> {
        let mut decoder = SseDecoder::new();
        let mut assembler = Assembler::new();
        self.take_block(first_block, &mut decoder, &mut assembler, on_piece)?;
        while !assembler.is_done() {
            match self.next_block(assembler.is_whole()).await? {
                Some(block) => self.take_block(&block, &mut decoder, &mut assembler, on_piece)?,
                None => break,
            }
        }
        if assembler.is_done() {
            self.drain().await;
        }
        assembler.finish().map_err(|problem| self.unusable(&problem))
    }

    fn take_block(
        &mut self,
        block: &[u8],
        decoder: &mut SseDecoder,
        assembler: &mut Assembler,
        on_piece: &mut (dyn FnMut(ModelChunk) + Send),
    ) -> Result<(), ModelFailure> {
        let mut progress = Progress::Nothing;
        let outcome = decoder.decode(block, |event| {
            if assembler.push(event, on_piece)? == Progress::Token {
                progress = Progress::Token;
            }
            Ok::<(), Problem>(())
        });
        outcome.map_err(|problem| self.unusable(&problem))?;
        let now = Instant::now();
        if assembler.is_whole() {
            self.deadlines.whole(now);
        } else if progress == Progress::Token {
            self.deadlines.token(now);
        } else {
            // Comments that keep the connection alive must not keep it alive for ever.
            let (deadline, limit) = self.deadlines.next();
            if now >= deadline {
                return Err(self.target.timed_out(limit, Some(self.status)));
            }
        }
        Ok(())
    }

    async fn read_json(
        &mut self,
        mut json: Vec<u8>,
        on_piece: &mut (dyn FnMut(ModelChunk) + Send),
    ) -> Result<Answer, ModelFailure> {
        self.deadlines.token(Instant::now());
        while let Some(block) = self.next_block(false).await? {
            self.deadlines.token(Instant::now());
            json.extend_from_slice(&block);
            if json.len() > JSON_BYTES_MAX {
                let problem = Problem::TooLarge { what: "JSON bytes", limit: JSON_BYTES_MAX };
                return Err(self.unusable(&problem));
            }
        }
        let answer = match std::str::from_utf8(&json) {
            Ok(json) => Assembler::whole(json, on_piece),
            Err(_) => Err(Problem::Damaged { reason: "the answer is not UTF-8".into() }),
        };
        answer.map_err(|problem| self.unusable(&problem))
    }

    /// The next bytes; `None` at the end, which for a whole answer comes in more ways than one.
    async fn next_block(&mut self, is_whole: bool) -> Result<Option<bytes::Bytes>, ModelFailure> {
        let (deadline, limit) = self.deadlines.next();
        match self.alarm.within(deadline, self.response.chunk()).await {
            Some(Ok(Some(block))) => {
                self.bytes += block.len();
                if self.bytes > STREAM_BYTES_MAX {
                    let problem = Problem::TooLarge { what: "bytes", limit: STREAM_BYTES_MAX };
                    return Err(self.unusable(&problem));
                }
                Ok(Some(block))
            }
            Some(Ok(None)) => Ok(None),
            Some(Err(_)) if is_whole => Ok(None),
            None if is_whole && limit == Limit::Tail => Ok(None),
            Some(Err(error)) => Err(self.target.broken(&error, self.bytes, self.status)),
            None => Err(self.target.timed_out(limit, Some(self.status))),
        }
    }

    /// Reads to the end of the body, for a short time and whatever comes.
    async fn drain(&mut self) {
        let end = async { while let Ok(Some(_)) = self.response.chunk().await {} };
        // Too late or not: the answer is there.
        let _ = timeout(Duration::from_millis(DRAIN_MS_MAX), end).await;
    }

    fn not_an_answer(&self) -> Problem {
        let content_type = self.response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|it| it.to_str().ok()).unwrap_or("unknown");
        let reason = format!(
            "the server answered with a page (content type {content_type}): does base_url lead to \
             an API?"
        );
        Problem::Damaged { reason }
    }

    fn unusable(&self, problem: &Problem) -> ModelFailure {
        self.target.unusable(problem, self.status)
    }
}

pub(crate) async fn read_refusal(mut response: Response) -> Refusal {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(block)) = response.chunk().await {
            let room = ERROR_BYTES_MAX.saturating_sub(body.len());
            body.extend_from_slice(block.get(..room).unwrap_or(&block));
            if body.len() >= ERROR_BYTES_MAX {
                break;
            }
        }
    };
    // Whatever was read until then must do: the status says the most.
    let _ = timeout(Duration::from_millis(ERROR_BODY_MS_MAX), read).await;
    let headers = response.headers();
    Refusal {
        status: response.status().as_u16(),
        retry_after_ms: wait_ms(headers, wall_time()),
        location: text_of(headers, LOCATION.as_str()),
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

/// What `LiteLLM` puts in front of the names of the headers that came from the server behind it. Its
/// own `Retry-After` stands for itself.
const PASSED_ON: &str = "llm_provider-";

fn wait_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    ["", PASSED_ON].into_iter().find_map(|before| {
        let exact = text_of(headers, &format!("{before}retry-after-ms"));
        exact.and_then(|text| retry_after_ms_exact(&text)).or_else(|| {
            let text = text_of(headers, &format!("{before}{RETRY_AFTER}"));
            text.and_then(|text| retry_after_ms(&text, now))
        })
    })
}

fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a Retry-After date is made relative where it arrives; nothing is decided by it here"
)]
fn wall_time() -> SystemTime {
    SystemTime::now()
}
