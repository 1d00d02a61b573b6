//! `DeleteSessions`.

use futures_util::{StreamExt as _, stream};
use stepwell_core::SessionId;
use stepwell_ports::{Deleted, SessionSize};
use stepwell_proto::v1;
use tonic::{Code, Status};

use super::Api;
use crate::convert::{self, Deletion, Outcome};
use crate::status;

/// Sessions of one request that are deleted at the same time: they share the store's transactions.
const AT_A_TIME: usize = 32;

impl Api {
    /// Deletes what a client wants to be gone, each session on its own.
    pub(crate) async fn delete(
        &self,
        deletion: Deletion,
    ) -> Result<Vec<v1::DeletedSession>, Status> {
        let asked = &deletion;
        let answers = asked.sessions.clone().into_iter().map(|text| async move {
            match self.find(&text).await {
                Ok(session_id) => {
                    let outcome = self.delete_one(session_id, asked).await?;
                    Ok(convert::deleted(outcome, asked))
                }
                Err(status) if status.code() == Code::NotFound => Ok(not_found(&text)),
                Err(status) => Err(status),
            }
        });
        let answers: Vec<Result<_, Status>> =
            stream::iter(answers).buffered(AT_A_TIME).collect().await;
        // After a failure the others were carried out all the same; asking again says so.
        answers.into_iter().collect()
    }

    async fn delete_one(&self, session_id: SessionId, asked: &Deletion) -> Result<Outcome, Status> {
        let Deletion { only, is_dry_run, .. } = asked;
        let store = self.engine.store();
        let nothing = SessionSize::default();
        let found = store.session(session_id).await.map_err(|error| status::store(&error))?;
        let Some(row) = found.map(|it| it.row) else {
            return Ok(Outcome { session_id, deleted: Deleted::NotFound, size: nothing });
        };
        if !only.fits_row(&row) {
            let deleted = Deleted::Kept { status: row.status, updated_at: row.updated_at };
            return Ok(Outcome { session_id, deleted, size: nothing });
        }
        let size = store.size(session_id).await.map_err(|error| status::store(&error))?;
        let size = size.unwrap_or_default();
        if *is_dry_run {
            return Ok(Outcome { session_id, deleted: Deleted::Yes, size });
        }
        // Checked again there: it may have changed since.
        let deleted = self.engine.delete(session_id, only).await;
        let deleted = deleted.map_err(|error| status::store(&error))?;
        if deleted == Deleted::Yes {
            tracing::info!(session = %session_id, events = size.events, "session deleted");
        }
        Ok(Outcome { session_id, deleted, size })
    }
}

fn not_found(text: &str) -> v1::DeletedSession {
    v1::DeletedSession {
        reason: format!("there is no session {text}"),
        session_id: text.to_owned(),
        outcome: "not_found".to_owned(),
        ..v1::DeletedSession::default()
    }
}
