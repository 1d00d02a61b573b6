//! The store itself: the port's methods, each one write or one read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Transaction;
use stepwell_core::summary::{ApprovalRow, SessionRow};
use stepwell_core::{Seq, SessionId, TimestampMs};
use stepwell_ports::memory::{
    check_import_page, import_refs, prepare, prepare_imported, prepare_new,
};
use stepwell_ports::retention::{CopyWatcher, DeleteOnly, Deleted, SessionSize, StoreCopy, Swept};
use stepwell_ports::store::{Created, Keyed, PageWork};
use stepwell_ports::{
    AgentRecord, Append, AppendError, ApprovalFilter, Checkpoint, Claim, EventPage, Import,
    ImportPage, Imported, ListPage, NewSession, NodeInfo, SessionFilter, SessionInfo, Store,
    StoreError, ToolRecord,
};

use crate::blob::{compress, decompress, off_thread, pack_all, pack_blobs};
use crate::check::{self, SessionsCheck};
use crate::error::About;
use crate::folder::{self, FolderLock};
use crate::names::Names;
use crate::open;
use crate::options::{OpenError, SqliteOptions};
use crate::read::{self, Readers, Target};
use crate::write::{
    self, ClaimDue, PackedCheckpoint, PackedPage, Snapshot, SnapshotKey, Write, WriterHandle,
};

/// The event store in one `SQLite` file. Its methods need a tokio runtime.
///
/// Dropping it finishes the writes that wait, closes the file and gives the folder's lock back; that
/// takes about as long as one commit.
#[derive(Debug)]
pub struct SqliteStore {
    folder: PathBuf,
    readers: Arc<Readers>,
    /// `None` when it was opened for reading only.
    writer: Option<WriterHandle>,
    names: Names,
    /// Last, so that it is given back when all else is closed.
    _lock: Option<FolderLock>,
}

impl SqliteStore {
    /// Opens the store in `folder` for writing; makes it if there is none. Blocks for some
    /// milliseconds, longer when a long log of a killed process must be read back.
    ///
    /// # Errors
    /// See [`OpenError`]. Nothing was changed.
    pub fn open(folder: &Path, options: &SqliteOptions) -> Result<Self, OpenError> {
        let opened = open::for_writing(folder, options)?;
        let writer = WriterHandle::start(folder, opened.conn)
            .map_err(|error| OpenError::folder(folder, &error))?;
        let target = Target::Shared(folder::database(folder));
        Ok(Self {
            folder: folder.to_owned(),
            readers: Arc::new(Readers::new(folder, target)),
            writer: Some(writer),
            names: Names::default(),
            _lock: Some(opened.lock),
        })
    }

    /// Opens the store in `folder` for reading, beside a server that writes to it or without one.
    /// Never makes one. Every write fails with [`StoreError::ReadOnly`].
    ///
    /// # Errors
    /// [`OpenError::NoStore`], [`OpenError::Newer`], [`OpenError::Older`], [`OpenError::Foreign`],
    /// [`OpenError::Store`].
    pub fn open_read_only(folder: &Path) -> Result<Self, OpenError> {
        let target = open::for_reading(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            readers: Arc::new(Readers::new(folder, target)),
            writer: None,
            names: Names::default(),
            _lock: None,
        })
    }

    /// What is damaged in the file, in SQLite's words; `None` when nothing is. Reads the whole file.
    ///
    /// # Errors
    /// As [`SqliteStore::open_read_only`].
    pub fn find_damage(folder: &Path) -> Result<Option<String>, OpenError> {
        let target = open::for_reading(folder)?;
        let looked = read::connection(&target).and_then(|conn| check::contradiction(&conn));
        looked.map_err(|error| About::all("check").error(folder, &error).into())
    }

    /// Reads every event of every session and finds the sessions that cannot be read again. `see` is
    /// told how far it is. Blocks for as long as it takes.
    ///
    /// # Errors
    /// As [`SqliteStore::open_read_only`]; a damaged session is no error.
    pub fn check_sessions(
        folder: &Path,
        see: &mut dyn FnMut(&SessionsCheck),
    ) -> Result<SessionsCheck, OpenError> {
        let target = open::for_reading(folder)?;
        let conn =
            read::connection(&target).map_err(|error| About::all("check").error(folder, &error))?;
        Ok(check::sessions(folder, &conn, see)?)
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn writer(&self) -> Result<&WriterHandle, StoreError> {
        self.writer.as_ref().ok_or_else(|| StoreError::ReadOnly {
            place: self.folder.display().to_string(),
            reason: "it was opened for reading only".to_owned(),
        })
    }

    /// Keeps a folded state: it may be lost, and is written when there is time for it.
    async fn cache(
        &self,
        about: About,
        key: SnapshotKey,
        state: Vec<u8>,
        is_checkpoint: bool,
    ) -> Result<(), StoreError> {
        let (bytes, data) = packed(about, state).await?;
        self.writer()?.cache(Snapshot { key, bytes, data, is_checkpoint });
        Ok(())
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The last connection to be closed empties the log; a reader could not.
        self.readers.close();
        drop(self.writer.take());
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn create(&self, new: NewSession) -> Result<Created, AppendError> {
        let writer = self.writer()?;
        let mut new = prepare_new(new)?;
        let session_id = new.session_id;
        let blobs = pack_all(session_id, &mut new.first).await?;
        let about = About::session("create", session_id);
        writer.submit(about, move |conn| write::create(conn, &new, &blobs)).await
    }

    async fn keyed(&self, client_key: &str) -> Result<Option<Keyed>, StoreError> {
        let client_key = client_key.to_owned();
        let work = move |it: &rusqlite::Transaction<'_>| Ok(read::keyed(it, &client_key)?);
        self.readers.run(About::all("keyed"), work).await
    }

    async fn append(&self, claim: Claim, append: Append) -> Result<Seq, AppendError> {
        let writer = self.writer()?;
        let mut prepared = prepare(claim.session_id, append)?;
        let blobs = pack_all(claim.session_id, &mut prepared).await?;
        let write = Write { prepared, blobs };
        let about = About::session("append", claim.session_id);
        let hint = self.names.get(claim.session_id);
        let work = move |conn: &_| write::append(conn, claim, &write, hint);
        let (head, key) = writer.submit(about, work).await?;
        if hint != Some(key) {
            self.names.keep(claim.session_id, key);
        }
        Ok(head)
    }

    async fn claim(&self, session_id: SessionId, owner: &str) -> Result<Claim, AppendError> {
        let owner = owner.to_owned();
        let about = About::session("claim", session_id);
        self.writer()?.submit(about, move |conn| write::claim(conn, session_id, &owner)).await
    }

    async fn claim_due(
        &self,
        owner: &str,
        live_owners: &[String],
        now: TimestampMs,
        limit: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        let (owner, live_owners) = (owner.to_owned(), live_owners.to_vec());
        let asked = ClaimDue { owner, live_owners, now, limit };
        let work = move |conn: &_| write::claim_due(conn, &asked).map(Ok);
        self.writer()?.submit(About::all("claim_due"), work).await
    }

    async fn due(
        &self,
        owner: &str,
        now: TimestampMs,
        limit: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        let owner = owner.to_owned();
        self.readers.run(About::all("due"), move |it| read::due(it, &owner, now, limit)).await
    }

    async fn next_wake(&self, after: TimestampMs) -> Result<Option<TimestampMs>, StoreError> {
        self.readers.run(About::all("next_wake"), move |it| read::next_wake(it, after)).await
    }

    async fn read(
        &self,
        session_id: SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        let about = About::session("read", session_id);
        self.readers.run(about, move |it| read::events(it, session_id, after, limit)).await
    }

    async fn read_for(
        &self,
        session_id: SessionId,
        after: Seq,
        limit: usize,
        work: PageWork,
    ) -> Result<(), StoreError> {
        let about = About::session("read", session_id);
        let read = move |it: &Transaction<'_>| read::events(it, session_id, after, limit);
        self.readers.run_then(about, read, work).await
    }

    async fn blob(&self, address: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let address = address.to_owned();
        self.readers.run(About::all("blob"), move |it| read::blob(it, &address)).await
    }

    async fn session(&self, session_id: SessionId) -> Result<Option<SessionInfo>, StoreError> {
        let about = About::session("session", session_id);
        self.readers.run(about, move |it| read::session(it, session_id)).await
    }

    async fn sessions(
        &self,
        filter: &SessionFilter,
        page: Option<&str>,
        limit: usize,
    ) -> Result<ListPage<SessionRow>, StoreError> {
        let (filter, page) = (filter.clone(), page.map(str::to_owned));
        let work = move |it: &rusqlite::Transaction<'_>| {
            read::sessions(it, &filter, page.as_deref(), limit)
        };
        self.readers.run(About::all("sessions"), work).await
    }

    async fn approvals(
        &self,
        filter: &ApprovalFilter,
        page: Option<&str>,
        limit: usize,
    ) -> Result<ListPage<ApprovalRow>, StoreError> {
        let (filter, page) = (filter.clone(), page.map(str::to_owned));
        let work = move |it: &rusqlite::Transaction<'_>| {
            read::approvals(it, &filter, page.as_deref(), limit)
        };
        self.readers.run(About::all("approvals"), work).await
    }

    async fn quarantine(&self, session_id: SessionId, reason: &str) -> Result<(), StoreError> {
        let reason = reason.to_owned();
        let about = About::session("quarantine", session_id);
        let work = move |conn: &_| write::quarantine(conn, session_id, &reason);
        self.writer()?.submit(about, work).await
    }

    async fn snapshot(
        &self,
        session_id: SessionId,
        version: u32,
    ) -> Result<Option<(Seq, Vec<u8>)>, StoreError> {
        let about = About::session("snapshot", session_id);
        let read = move |it: &rusqlite::Transaction<'_>| read::snapshot(it, session_id, version);
        unpacked(about, self.readers.run(about, read).await?).await
    }

    async fn checkpoint(
        &self,
        session_id: SessionId,
        at: Seq,
        version: u32,
    ) -> Result<Option<(Seq, Vec<u8>)>, StoreError> {
        let about = About::session("checkpoint", session_id);
        let read =
            move |it: &rusqlite::Transaction<'_>| read::checkpoint(it, session_id, (at, version));
        unpacked(about, self.readers.run(about, read).await?).await
    }

    async fn put_checkpoint(
        &self,
        session_id: SessionId,
        seq: Seq,
        version: u32,
        state: Vec<u8>,
    ) -> Result<(), StoreError> {
        let about = About::session("put_checkpoint", session_id);
        self.cache(about, (session_id, seq, version), state, true).await
    }

    async fn put_snapshot(
        &self,
        session_id: SessionId,
        seq: Seq,
        version: u32,
        state: Vec<u8>,
    ) -> Result<(), StoreError> {
        let about = About::session("put_snapshot", session_id);
        self.cache(about, (session_id, seq, version), state, false).await
    }

    async fn import_begin(&self, session_id: SessionId) -> Result<Import, AppendError> {
        let about = About::session("import_begin", session_id);
        self.writer()?.submit(about, move |conn| write::import_begin(conn, session_id)).await
    }

    async fn import_events(&self, import: Import, page: ImportPage) -> Result<Seq, AppendError> {
        let writer = self.writer()?;
        let head = check_import_page(import.session_id, &page)?;
        let refs = import_refs(import.session_id, &page)?;
        let ImportPage { after, events, blobs, checkpoints } = page;
        let blobs = pack_blobs(import.session_id, blobs).await?;
        let checkpoints = pack_checkpoints(import.session_id, checkpoints).await?;
        let page = PackedPage { after, head, events, blobs, refs, checkpoints };
        let about = About::session("import_events", import.session_id);
        writer.submit(about, move |conn| write::import_events(conn, import, &page)).await
    }

    async fn import_finish(&self, import: Import, imported: Imported) -> Result<(), AppendError> {
        let writer = self.writer()?;
        let imported = prepare_imported(import.session_id, imported)?;
        let about = About::session("import_finish", import.session_id);
        writer.submit(about, move |conn| write::import_finish(conn, import, &imported)).await
    }

    async fn import_drop(&self, import: Import) -> Result<(), StoreError> {
        let (writer, about) = (self.writer()?, About::session("import_drop", import.session_id));
        writer.submit(about, move |conn| write::import_drop(conn, import).map(Ok)).await
    }

    async fn put_agent(
        &self,
        name: &str,
        definition: &str,
        now: TimestampMs,
    ) -> Result<AgentRecord, StoreError> {
        let (name, definition) = (name.to_owned(), definition.to_owned());
        let work = move |conn: &_| write::put_agent(conn, &name, &definition, now).map(Ok);
        self.writer()?.submit(About::all("put_agent"), work).await
    }

    async fn agent(
        &self,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<AgentRecord>, StoreError> {
        let name = name.to_owned();
        self.readers.run(About::all("agent"), move |it| read::agent(it, &name, version)).await
    }

    async fn agents(&self) -> Result<Vec<AgentRecord>, StoreError> {
        self.readers.run(About::all("agents"), read::agents).await
    }

    async fn put_tools(&self, tools: Vec<ToolRecord>) -> Result<(), StoreError> {
        let work = move |conn: &_| write::put_tools(conn, &tools).map(Ok);
        self.writer()?.submit(About::all("put_tools"), work).await
    }

    async fn tools(&self) -> Result<Vec<ToolRecord>, StoreError> {
        self.readers.run(About::all("tools"), read::tools).await
    }

    async fn beat(&self, node: &str, now: TimestampMs) -> Result<(), StoreError> {
        let node = node.to_owned();
        let work = move |conn: &_| write::beat(conn, &node, now).map(Ok);
        self.writer()?.submit(About::all("beat"), work).await
    }

    async fn nodes(&self) -> Result<Vec<NodeInfo>, StoreError> {
        self.readers.run(About::all("nodes"), read::nodes).await
    }

    async fn delete(
        &self,
        session_id: SessionId,
        only: &DeleteOnly,
    ) -> Result<Deleted, StoreError> {
        self.writer()?.delete(session_id, only.clone()).await
    }

    async fn size(&self, session_id: SessionId) -> Result<Option<SessionSize>, StoreError> {
        let about = About::session("size", session_id);
        self.readers.run(about, move |it| read::size(it, session_id)).await
    }

    async fn sweep(&self) -> Result<Swept, StoreError> {
        let work = |conn: &_| write::sweep(conn).map(Ok);
        self.writer()?.submit(About::all("sweep"), work).await
    }

    async fn copy(&self, watcher: CopyWatcher) -> Result<Option<StoreCopy>, StoreError> {
        self.readers.copy(About::all("backup"), watcher).await
    }
}

/// A state for the cache, compressed, and its size before.
async fn packed(about: About, state: Vec<u8>) -> Result<(usize, Vec<u8>), StoreError> {
    let bytes = state.len();
    let data = off_thread(bytes, about, move || compress(&state)).await?;
    Ok((bytes, data.map_err(|error| about.failed(&error))?))
}

async fn pack_checkpoints(
    session_id: SessionId,
    checkpoints: Vec<Checkpoint>,
) -> Result<Vec<PackedCheckpoint>, StoreError> {
    let mut all = Vec::with_capacity(checkpoints.len());
    for Checkpoint { seq, version, state } in checkpoints {
        let (bytes, data) = packed(About::session("import_events", session_id), state).await?;
        all.push(PackedCheckpoint { seq, version, bytes, data });
    }
    Ok(all)
}

/// A state of the cache. What cannot be read is computed again.
async fn unpacked(
    about: About,
    found: Option<(Seq, usize, Vec<u8>)>,
) -> Result<Option<(Seq, Vec<u8>)>, StoreError> {
    let Some((seq, bytes, data)) = found else { return Ok(None) };
    match off_thread(bytes, about, move || decompress(&data, bytes)).await? {
        Ok(state) => Ok(Some((seq, state))),
        Err(reason) => {
            tracing::warn!("a cached state is dropped: {reason}");
            Ok(None)
        }
    }
}
