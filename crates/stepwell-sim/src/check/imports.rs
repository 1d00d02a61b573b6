//! A history that is brought in elsewhere gives the rows that it has here.

use stepwell_core::summary::ApprovalRow;
use stepwell_core::{SessionId, Status, TimestampMs};
use stepwell_ports::{ApprovalFilter, Store as _};
use stepwell_runtime::import::{ImportFold, WHEN_EXPORTED};

use super::{Violation, broken};
use crate::World;

/// Looks at every session that can be read.
///
/// # Errors
/// The first session whose rows differ, or that cannot be held.
pub async fn brought_in(world: &World) -> Result<(), Violation> {
    for row in world.rows().await {
        if row.status == Status::Quarantined {
            continue;
        }
        let session_id = row.session_id;
        let mut fold = ImportFold::new(session_id);
        for event in world.log(session_id).await {
            fold.take(&event).map_err(|error| broken(session_id, error.to_string()))?;
        }
        held(world, session_id).await?;
        let mut found = fold.finish(None).ok_or_else(|| broken(session_id, "no events"))?;
        if let Some(sentence) = found.row.explain.strip_prefix(WHEN_EXPORTED) {
            found.row.explain = sentence.to_owned();
        }
        if found.row != row {
            let what = format!("brought in, its row is {:?} and not {row:?}", found.row);
            return Err(broken(session_id, what));
        }
        let mut here = approvals(world, session_id).await;
        here.sort_by_key(|it| it.approval_id);
        if found.approvals != here {
            let what =
                format!("brought in, its approvals are {:?} and not {here:?}", found.approvals);
            return Err(broken(session_id, what));
        }
    }
    Ok(())
}

/// Whatever a session is doing, it can be held where it is brought to, and the log goes on.
async fn held(world: &World, session_id: SessionId) -> Result<(), Violation> {
    let mut fold = ImportFold::new(session_id);
    for event in world.log(session_id).await {
        fold.take(&event).map_err(|error| broken(session_id, error.to_string()))?;
    }
    let before = fold.state().clone();
    let now = TimestampMs(before.updated_at.0 + 1);
    let events = fold.hold("imported", now);
    let events = events.map_err(|error| broken(session_id, format!("not held: {error}")))?;
    let state = fold.state();
    let is_right = state.head.0 == before.head.0 + events.len() as u64
        && (before.status().is_final() || state.paused.is_some());
    if is_right {
        Ok(())
    } else {
        Err(broken(session_id, format!("held, it is {:?} after {events:?}", state.status())))
    }
}

async fn approvals(world: &World, session_id: SessionId) -> Vec<ApprovalRow> {
    let filter = ApprovalFilter { statuses: Vec::new(), session_id: Some(session_id) };
    let page = world.store.approvals(&filter, None, 1_000).await;
    page.map(|it| it.rows).unwrap_or_default()
}
