//! One request to a server and its answer, within a limit of time.

use bytes::Bytes;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue,
};
use reqwest::{Body, Client, Response, Url};
use serde::de::DeserializeOwned;
use stepwell_ports::ModelFailure;
use tokio::time::{Instant, timeout_at};

use crate::assemble::Problem;
use crate::client::{JSON_BYTES_MAX, read_refusal};
use crate::deadlines::Limit;
use crate::read::read_whole;
use crate::target::Target;

/// Whom to ask.
pub(crate) struct Server<'a> {
    pub(crate) client: Client,
    pub(crate) target: &'a Target,
    /// How long a connection may take, for words.
    pub(crate) connect_ms: u64,
}

impl Server<'_> {
    /// Posts a body of that many bytes; the head of a success.
    ///
    /// # Errors
    /// Whatever else comes of it.
    pub(crate) async fn post(
        &self,
        url: Url,
        (body, bytes): (Body, u64),
        (deadline, limit): (Instant, Limit),
    ) -> Result<Response, ModelFailure> {
        let target = self.target;
        let mut post = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream, application/json")
            .header(CONTENT_LENGTH, bytes);
        if let Some(authorization) = target.authorization()? {
            post = post.header(AUTHORIZATION, authorization);
        }
        let response = timeout_at(deadline, post.body(body).send())
            .await
            .map_err(|_| target.timed_out(limit, None))?
            .map_err(|error| target.unreachable(&error, self.connect_ms))?;
        if response.status().as_u16() != 200 {
            return Err(target.refused(read_refusal(response).await));
        }
        let encoding = response.headers().get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
        if let Some(encoding) = encoding.filter(|it| !it.eq_ignore_ascii_case(b"identity")) {
            return Err(target.encoded(&String::from_utf8_lossy(encoding)));
        }
        Ok(response)
    }

    /// Posts JSON; the bytes of the answer.
    ///
    /// # Errors
    /// Whatever else comes of it.
    pub(crate) async fn post_json(
        &self,
        url: Url,
        json: String,
        until: (Instant, Limit),
    ) -> Result<Vec<u8>, ModelFailure> {
        let bytes = json.len() as u64;
        let body = Body::from(Bytes::from_owner(json));
        let mut response = self.post(url, (body, bytes), until).await?;
        let status = response.status().as_u16();
        let read = timeout_at(until.0, read_whole(&mut response, JSON_BYTES_MAX))
            .await
            .map_err(|_| self.target.timed_out(until.1, Some(status)))?
            .map_err(|error| self.target.broken(&error, 0, status))?;
        read.ok_or_else(|| {
            let problem = Problem::TooLarge { what: "JSON bytes", limit: JSON_BYTES_MAX };
            self.target.unusable(&problem, status)
        })
    }

    /// Reads such an answer.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn parsed<T: DeserializeOwned>(&self, json: &[u8]) -> Result<T, ModelFailure> {
        serde_json::from_slice(json).map_err(|error| {
            let reason = format!("the answer cannot be read: {error}");
            self.target.unusable(&Problem::Damaged { reason }, 200)
        })
    }
}
