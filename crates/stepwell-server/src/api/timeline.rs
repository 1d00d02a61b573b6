//! The strip of a session: a few bytes for each event.

use stepwell_core::Seq;
use stepwell_core::event::EventKind;
use stepwell_proto::v1;
use tonic::Status;

use super::Api;
use crate::span_cache::Asked;
use crate::status;
use crate::watch::expect_seq;

/// Events of one answer.
const EVENTS_MAX: usize = 262_144;

/// `GetTimeline`.
pub(super) async fn get(
    api: &Api,
    request: v1::GetTimelineRequest,
) -> Result<v1::GetTimelineResponse, Status> {
    let session_id = api.find(&request.session_id).await?;
    let info = api.session_info(session_id).await?;
    expect_seq(&info, Seq(request.after_seq))?;
    let head = info.row.head_seq;
    let asked = Asked { session_id, head, at: None };
    let limit = match request.limit as usize {
        0 => EVENTS_MAX,
        some => some.min(EVENTS_MAX),
    };
    let after = usize::try_from(request.after_seq).unwrap_or(usize::MAX);
    let store = &**api.engine.store();
    let look = api.spans.look_at_all(store, asked, |_, marks, at| (marks.strip(after, limit), at));
    let (strip, last) = look.await.map_err(|error| status::store(&error))?;
    Ok(v1::GetTimelineResponse {
        marks: strip.marks.into(),
        types: EventKind::ALL.iter().map(|it| it.as_str().to_owned()).collect(),
        first_ms: i64::try_from(strip.first_ms).unwrap_or(i64::MAX),
        gaps_ms: strip.gaps_ms,
        steps_before: strip.steps_before,
        last_seq: last.0,
        head_seq: head.max(last).0,
    })
}
