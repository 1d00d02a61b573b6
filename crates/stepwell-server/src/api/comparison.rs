//! What needs whole histories: replay, and the comparison of two sessions.

use stepwell_core::compare::{Difference, Outline, compare};
use stepwell_core::replay::{Divergence, Replay};
use stepwell_core::{Event, SessionId};
use stepwell_proto::v1;
use stepwell_proto::v1::compare_sessions_response as wire;
use tonic::Status;

use super::Api;
use crate::status;

/// Differences of one answer.
const DIFFERENCES_MAX: usize = 1_000;

/// Longest text of one side of a difference, in bytes.
const SIDE_BYTES_MAX: usize = 16 * 1024;

/// `ReplaySession`.
pub(super) async fn replay(
    api: &Api,
    request: v1::ReplaySessionRequest,
) -> Result<v1::ReplaySessionResponse, Status> {
    let session_id = api.find(&request.session_id).await?;
    let until = if request.until_seq == 0 { u64::MAX } else { request.until_seq };
    // Never closed, so there is always a turn.
    let _turn = api.walks.acquire().await.ok();
    let is_redacted = api.session_info(session_id).await?.redaction.is_some();
    let mut played = Some(Replay::of(is_redacted));
    let mut answer = v1::ReplaySessionResponse::default();
    let mut divergence = None;
    let mut push = |event: Event| {
        let Some(mut replay) = played.take().filter(|_| event.seq.0 <= until) else { return };
        let seq = event.seq.0;
        match replay.push(event) {
            Ok(()) => {
                (answer.events, answer.inputs) = (seq, replay.inputs());
                answer.unchecked = replay.unchecked();
                played = Some(replay);
            }
            Err(found) => divergence = Some(found),
        }
    };
    let walked = api.engine.walk(session_id, &mut push).await;
    walked.map_err(|error| status::engine(session_id, error))?;
    // Cut off in the middle, the record owes nothing more.
    if let Some(replay) = played {
        divergence = replay.end().err();
    }
    judge(&mut answer, divergence.as_deref());
    Ok(answer)
}

fn judge(answer: &mut v1::ReplaySessionResponse, divergence: Option<&Divergence>) {
    let verdict = if divergence.is_some() { "diverged" } else { "same" };
    verdict.clone_into(&mut answer.verdict);
    if let Some(divergence) = divergence {
        answer.seq = divergence.seq.0;
        answer.reason = divergence.in_words();
    }
}

/// `CompareSessions`.
pub(super) async fn sessions(
    api: &Api,
    request: v1::CompareSessionsRequest,
) -> Result<v1::CompareSessionsResponse, Status> {
    let a = find(api, "a_session_id", &request.a_session_id).await?;
    let b = find(api, "b_session_id", &request.b_session_id).await?;
    let _turn = api.walks.acquire().await.ok();
    let (ours, theirs) = (outline(api, a).await?, outline(api, b).await?);
    let differences = compare(&ours, &theirs);
    let shown = differences.iter().take(DIFFERENCES_MAX);
    Ok(v1::CompareSessionsResponse {
        differences_total: u32::try_from(differences.len()).unwrap_or(u32::MAX),
        differences: shown.map(difference).collect(),
        a: Some(side(api, a, &ours).await?),
        b: Some(side(api, b, &theirs).await?),
    })
}

/// The session of a field: the message names which of the two is meant.
async fn find(api: &Api, field: &str, text: &str) -> Result<SessionId, Status> {
    let named =
        |status: Status| Status::new(status.code(), format!("{field}: {}", status.message()));
    api.find(text).await.map_err(named)
}

async fn outline(api: &Api, session_id: SessionId) -> Result<Outline, Status> {
    let mut outline = Outline::default();
    let walked = api.engine.walk(session_id, &mut |event| outline.push(&event)).await;
    walked.map_err(|error| status::engine(session_id, error))?;
    Ok(outline)
}

async fn side(api: &Api, session_id: SessionId, it: &Outline) -> Result<wire::Side, Status> {
    Ok(wire::Side {
        session: Some(api.row_to_wire(api.session_info(session_id).await?.row)),
        steps: u32::try_from(it.steps.len()).unwrap_or(u32::MAX),
        events: it.head.0,
    })
}

fn difference(it: &Difference) -> wire::Difference {
    let bytes = |text: Option<&String>| text.map_or(0, String::len) as u64;
    wire::Difference {
        step: it.step,
        what: it.what.clone(),
        a: it.a.as_deref().map(clipped),
        b: it.b.as_deref().map(clipped),
        a_bytes: bytes(it.a.as_ref()),
        b_bytes: bytes(it.b.as_ref()),
        a_seq: it.a_seq.0,
        b_seq: it.b_seq.0,
        is_divergence: it.is_divergence(),
    }
}

fn clipped(text: &str) -> String {
    let mut end = SIDE_BYTES_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}
