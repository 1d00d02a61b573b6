//! Sessions that are brought in from elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use stepwell_core::{Fence, Seq, SessionId};

use super::prepare::{check_import_page, import_refs, prepare_imported};
use super::{Inner, Session, check_addresses};
use crate::import::{Import, ImportPage, Imported};
use crate::store::{AppendError, StoredEvent};

/// A session that nobody sees yet.
#[derive(Debug)]
pub(super) struct BroughtIn {
    session_id: SessionId,
    events: Vec<StoredEvent>,
    refs: BTreeSet<String>,
    checkpoints: BTreeMap<Seq, (u32, Vec<u8>)>,
}

impl BroughtIn {
    fn head(&self) -> Seq {
        self.events.last().map_or(Seq(0), |event| event.seq)
    }
}

impl Inner {
    pub(super) fn import_begin(&mut self, session_id: SessionId) -> Result<Import, AppendError> {
        self.expect_free(session_id)?;
        let key = self.next_place();
        let brought = BroughtIn {
            session_id,
            events: Vec::new(),
            refs: BTreeSet::new(),
            checkpoints: BTreeMap::new(),
        };
        self.imports.insert(key, brought);
        Ok(Import { session_id, key })
    }

    pub(super) fn import_events(
        &mut self,
        import: Import,
        page: ImportPage,
    ) -> Result<Seq, AppendError> {
        let session_id = import.session_id;
        let head = check_import_page(session_id, &page)?;
        check_addresses(session_id, &page.blobs)?;
        let refs = import_refs(session_id, &page)?;
        let brought = self.brought_in(import)?;
        let (expected, actual) = (page.after, brought.head());
        if expected != actual {
            return Err(AppendError::Conflict { session_id, expected, actual });
        }
        brought.events.extend(page.events);
        brought.refs.extend(refs);
        let checkpoints = page.checkpoints.into_iter();
        brought.checkpoints.extend(checkpoints.map(|it| (it.seq, (it.version, it.state))));
        self.blobs.extend(page.blobs);
        Ok(head)
    }

    pub(super) fn import_finish(
        &mut self,
        import: Import,
        imported: Imported,
    ) -> Result<(), AppendError> {
        let session_id = import.session_id;
        let Imported { row, wake_at, approvals, redaction } =
            prepare_imported(session_id, imported)?;
        let (expected, actual) = (row.head_seq, self.brought_in(import)?.head());
        self.expect_free(session_id)?;
        if expected != actual || actual == Seq(0) {
            return Err(AppendError::Conflict { session_id, expected, actual });
        }
        let brought =
            self.imports.remove(&import.key).ok_or(AppendError::NotFound { session_id })?;
        let approvals: BTreeMap<_, _> =
            approvals.into_iter().map(|it| (it.approval_id, it)).collect();
        let session = Session {
            place: import.key,
            row,
            owner: String::new(),
            fence: Fence(1),
            wake_at,
            events: brought.events,
            refs: brought.refs,
            approvals,
            snapshot: None,
            checkpoints: brought.checkpoints,
            redaction,
        };
        self.sessions.insert(session_id, session);
        Ok(())
    }

    fn brought_in(&mut self, import: Import) -> Result<&mut BroughtIn, AppendError> {
        let session_id = import.session_id;
        let found = self.imports.get_mut(&import.key);
        found.filter(|it| it.session_id == session_id).ok_or(AppendError::NotFound { session_id })
    }

    fn expect_free(&self, session_id: SessionId) -> Result<(), AppendError> {
        match self.sessions.get(&session_id) {
            Some(session) => {
                let actual = session.head();
                Err(AppendError::Conflict { session_id, expected: Seq(0), actual })
            }
            None => Ok(()),
        }
    }
}
