//! Looking for a text in the events of a session.

use std::sync::Arc;

use async_stream::stream;
use futures_util::Stream;
use stepwell_core::{Seq, SessionId};
use stepwell_ports::StoredEvent;
use stepwell_proto::v1;
use tonic::Status;

use super::Api;
use crate::convert::BadField;
use crate::search::Needle;
use crate::watch::expect_seq;
use crate::{payload, status};

/// Longest text that is looked for, in characters.
const TEXT_CHARS_MAX: usize = 200;

/// Events of one call.
const FOUND_MAX: usize = 1_000;

/// Events that are read at once, and after which an answer is sent.
const PART: usize = 1_000;

/// `FindEvents`.
pub(super) async fn find(
    api: Arc<Api>,
    request: v1::FindEventsRequest,
) -> Result<impl Stream<Item = Result<v1::FindEventsResponse, Status>> + Send + 'static, Status> {
    let length = request.text.chars().count();
    if !(1..=TEXT_CHARS_MAX).contains(&length) {
        let problem = format!("has {length} characters: give 1 to {TEXT_CHARS_MAX}");
        return Err(BadField::new("text", problem).into());
    }
    let session_id = api.find(&request.session_id).await?;
    let after = Seq(request.after_seq);
    expect_seq(&api.session_info(session_id).await?, after)?;
    let limit = match request.limit as usize {
        0 => FOUND_MAX,
        some => some.min(FOUND_MAX),
    };
    let search = Search { api, session_id, needle: Needle::new(&request.text), after, left: limit };
    Ok(search.run())
}

struct Search {
    api: Arc<Api>,
    session_id: SessionId,
    needle: Needle,
    after: Seq,
    left: usize,
}

impl Search {
    fn run(mut self) -> impl Stream<Item = Result<v1::FindEventsResponse, Status>> + Send {
        stream! {
            loop {
                let part = self.part().await;
                let is_over = part.as_ref().map_or(true, |it| it.seq >= it.head_seq);
                yield part;
                if is_over || self.left == 0 {
                    return;
                }
            }
        }
    }

    /// What is found in the next events.
    async fn part(&mut self) -> Result<v1::FindEventsResponse, Status> {
        // Given back in between, so that one who waits gets a turn.
        let _turn = self.api.walks.acquire().await;
        let store = self.api.engine.store().clone();
        let page = store.read(self.session_id, self.after, PART).await;
        let page = page.map_err(|error| status::store(&error))?;
        let mut answer = v1::FindEventsResponse { head_seq: page.head.0, ..Default::default() };
        if page.events.is_empty() {
            self.after = page.head;
        }
        for event in page.events {
            self.after = event.seq;
            let (seq, kind) = (event.seq, event.kind.clone());
            // An output that was shortened for the model is looked at as the model saw it.
            let whole = if event.body.contains("\"blob\":") {
                payload::whole(&*store, event).await.map_err(|error| status::store(&error))?
            } else {
                event
            };
            let StoredEvent { body, .. } = whole;
            let Some(place) = self.needle.find(&body) else { continue };
            answer.found.push(v1::FoundEvent {
                seq: seq.0,
                r#type: kind,
                before: one_line(&place.before),
                r#match: one_line(&place.text),
                after: one_line(&place.after),
            });
            self.left -= 1;
            if self.left == 0 {
                break;
            }
        }
        answer.seq = self.after.0;
        Ok(answer)
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r', '\t'], " ")
}
