//! Bounds of the host, each with its reason.

use std::path::PathBuf;
use std::time::Duration;

/// Calls side by side where nothing else is said.
const CONCURRENCY_DEFAULT: u32 = 8;
/// How long running calls may take to end after the host was told to leave: most do within it.
const DRAIN_DEFAULT: Duration = Duration::from_secs(30);
/// How long a name may be taken before the host gives up: twice a lease, because the server holds
/// the name of a worker that vanished until its lease ends.
const NAME_PATIENCE_DEFAULT: Duration = Duration::from_secs(60);

/// How long a tool may take to stop after it was told to, before it is dropped. Shorter than the
/// server's patience of 10 s, so that the report still counts.
pub(super) const CANCEL_GRACE: Duration = Duration::from_secs(8);
/// How long after its deadline a tool that has not ended by itself is told to stop.
pub(super) const DEADLINE_NUDGE: Duration = Duration::from_secs(1);
/// How long a dropped tool may take to be gone. Longer means that it sits in blocking code.
pub(super) const ABORT_WAIT: Duration = Duration::from_secs(1);
/// The longest time limit of a call: 30 days. Keeps sums of times far from overflow.
pub(super) const TIMEOUT_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Pieces of output that wait in one call. More are dropped; the result holds the output anyway.
pub(super) const CHUNKS_WAITING: usize = 64;
/// The largest piece of output.
pub(super) const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// Pieces and ends of all calls that wait for the stream. An end waits for room, a piece is dropped.
pub(super) const NEWS_WAITING: usize = 256;
/// Messages on their way to the server.
pub(super) const OUTBOUND_WAITING: usize = 32;
/// Answers that wait for room on the stream. A server that asks faster than it reads is cut off.
pub(super) const ANSWERS_MAX: usize = 4_096;
/// How long the server may take to answer a hello.
pub(super) const ATTACH_WITHIN: Duration = Duration::from_secs(20);
/// How long a connection to the server may take to be made.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How often the connection is checked, so that a server that vanished is noticed.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long the stream's end is waited for after everything was said.
pub(super) const GOODBYE: Duration = Duration::from_secs(1);
/// The first wait before a reconnect; it doubles up to [`RECONNECT_CAP`].
pub(super) const RECONNECT_BASE: Duration = Duration::from_millis(100);
/// The longest wait before a reconnect, well within the server's patience of 30 s.
pub(super) const RECONNECT_CAP: Duration = Duration::from_secs(5);
/// Bounds of the interval that the server may ask heartbeats for.
pub(super) const HEARTBEAT_MIN: Duration = Duration::from_millis(10);
/// See [`HEARTBEAT_MIN`].
pub(super) const HEARTBEAT_MAX: Duration = Duration::from_secs(60);
/// The largest message where the server says nothing: what gRPC takes by default.
pub(super) const MESSAGE_BYTES_DEFAULT: usize = 4 * 1024 * 1024;
/// Room in a message for everything beside the two outputs of a report.
pub(super) const MESSAGE_OVERHEAD_BYTES: usize = 4 * 1024;

/// How a worker works.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The server's address, for example `http://127.0.0.1:7171`.
    pub server: String,
    /// The worker's name, unique at the server: letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Names this process among those that had the same name; random when `None`.
    pub instance: Option<String>,
    /// The folder in which each session has its workspace folder. Made when it is not there.
    pub workspace_root: PathBuf,
    /// Calls side by side over all tools; at least 1.
    pub concurrency: u32,
    /// How long running calls may take to end after the host was told to leave; then they are
    /// cancelled.
    pub drain: Duration,
    /// How long the worker's name may be taken by another one before the host gives up.
    pub name_patience: Duration,
}

impl HostOptions {
    /// The defaults.
    pub fn new(
        server: impl Into<String>,
        name: impl Into<String>,
        workspace_root: impl Into<PathBuf>,
    ) -> Self {
        Self {
            server: server.into(),
            name: name.into(),
            instance: None,
            workspace_root: workspace_root.into(),
            concurrency: CONCURRENCY_DEFAULT,
            drain: DRAIN_DEFAULT,
            name_patience: NAME_PATIENCE_DEFAULT,
        }
    }
}
