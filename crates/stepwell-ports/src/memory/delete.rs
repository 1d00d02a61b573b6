//! Deleting sessions of the store in memory.

use stepwell_core::SessionId;

use super::{Inner, Session};
use crate::retention::{DeleteOnly, Deleted, SessionSize};

impl Inner {
    /// Removes a session and everything that only it had.
    pub(super) fn delete(&mut self, session_id: SessionId, only: &DeleteOnly) -> Deleted {
        let Some(found) = self.sessions.get(&session_id) else { return Deleted::NotFound };
        if !only.fits_row(&found.row) {
            let (status, updated_at) = (found.row.status, found.row.updated_at);
            return Deleted::Kept { status, updated_at };
        }
        for keyed in self.keys.values_mut().filter(|it| it.session_id == session_id) {
            keyed.is_deleted = true;
        }
        if let Some(session) = self.sessions.remove(&session_id) {
            for address in &session.refs {
                if !self.is_referred_to(address) {
                    self.blobs.remove(address);
                }
            }
        }
        Deleted::Yes
    }

    fn is_referred_to(&self, address: &str) -> bool {
        self.sessions.values().any(|it| it.refs.contains(address))
    }

    pub(super) fn size(&self, session_id: SessionId) -> Option<SessionSize> {
        let session = self.sessions.get(&session_id)?;
        let bodies: usize = session.events.iter().map(|it| it.body.len()).sum();
        let payloads = session.refs.iter().filter(|it| self.is_only_of(session, it));
        let payloads: usize = payloads.filter_map(|it| self.blobs.get(it)).map(Vec::len).sum();
        let bytes = (bodies + payloads) as u64;
        Some(SessionSize { events: session.events.len() as u64, bytes })
    }

    fn is_only_of(&self, session: &Session, address: &str) -> bool {
        let mut others = self.sessions.values().filter(|it| it.place != session.place);
        !others.any(|it| it.refs.contains(address))
    }
}
