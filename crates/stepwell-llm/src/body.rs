//! The request body: the segments of the prompt, sent one after the other without copying them.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use stepwell_core::prompt::Prompt;

/// One segment of a prompt that several of them keep alive.
struct Segment {
    prompt: Arc<Prompt>,
    at: usize,
}

impl AsRef<[u8]> for Segment {
    fn as_ref(&self) -> &[u8] {
        self.prompt.body_segments().nth(self.at).unwrap_or_default().as_bytes()
    }
}

/// The body of the request. Its length is [`Prompt::body_bytes`], which must be sent as
/// `Content-Length`: a stream of segments alone would be sent in chunks, which some servers and
/// proxies refuse.
pub(crate) fn body(prompt: Prompt) -> reqwest::Body {
    let count = prompt.body_segments().count();
    let prompt = Arc::new(prompt);
    let segments = (0..count).map(move |at| {
        let prompt = Arc::clone(&prompt);
        Ok::<_, Infallible>(Bytes::from_owner(Segment { prompt, at }))
    });
    reqwest::Body::wrap_stream(stream::iter(segments))
}
