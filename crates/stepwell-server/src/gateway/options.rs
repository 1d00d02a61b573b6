//! Bounds of the gateway, each with its reason.

use std::time::Duration;

use stepwell_core::CANCEL_GRACE_MS;

/// How long a worker may take to stop a call after it was told to; then the call counts as lost.
/// The same time that a cancelled session waits for its tools.
pub const CANCEL_GRACE: Duration = Duration::from_millis(CANCEL_GRACE_MS);

/// How long the server waits beyond a call's own time limit. A worker ends an overdue call by
/// itself within 8 s and reports what there is; this leaves room for that and for the way.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(10);

/// How long a call may be on a worker without a follower before the log is asked whether its session
/// still waits for it. Whoever follows it after a restart has come by then, mostly; who comes later
/// finds it all the same, because the log says that it is waited for.
pub const ORPHAN_GRACE: Duration = Duration::from_secs(2);

/// The name of the worker inside the server's own process. No other worker may have it.
pub const EMBEDDED_NAME: &str = "embedded";

/// The first message must come this soon after the stream was opened: whoever opens a stream and
/// says nothing must not hold it.
pub(super) const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// Workers of one server. Each has a stream, its schemas in memory and a place in every search.
pub(super) const WORKERS_MAX: usize = 1_024;
/// Calls of one worker at the same time.
pub(super) const CONCURRENCY_MAX: u32 = 1_024;
/// Tools of one worker: more than a model can choose from.
pub(super) const TOOLS_MAX: usize = 256;
/// Calls that a worker brings back after a break: what runs and what was not acknowledged.
pub(super) const HELD_MAX: usize = 4_096;
/// Letters of a worker's name.
pub(super) const NAME_BYTES_MAX: usize = 128;
/// Letters of an instance. It is part of the worker's name in the log.
pub(super) const INSTANCE_BYTES_MAX: usize = 64;
/// Letters of a tool's name that every OpenAI-compatible endpoint takes.
pub(super) const TOOL_NAME_BYTES_MAX: usize = 64;
/// A tool's description stands in every prompt.
pub(super) const DESCRIPTION_BYTES_MAX: usize = 16 * 1024;
/// A schema stands in every prompt.
pub(super) const SCHEMA_BYTES_MAX: usize = 256 * 1024;
/// The longest time limit of a call: 30 days. Longer ones are typing errors, and sums of times stay
/// far from overflow.
pub(super) const TIMEOUT_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Messages on their way to one worker: a call, a cancel, a probe and an acknowledgement for each
/// of its places. A worker that lets more pile up does not read.
pub(super) const OUTBOUND_MAX: usize = 4 * CONCURRENCY_MAX as usize;
/// Reports on calls that the worker does not hold, on one connection. One can be an accident of
/// timing; a worker with this many has lost count of its calls.
pub(super) const LIES_MAX: u32 = 16;
/// Fences of ended calls that are remembered per worker, so that a repeated report is no lie.
pub(super) const SETTLED_KEPT: usize = 1_024;
/// Calls of one worker without a follower whose end is still awaited.
pub(super) const UNFOLLOWED_KEPT: usize = 1_024;
/// Live output of one call per second that is handed on: more than anybody can read. The rest is
/// dropped, for the result holds the output anyway.
pub(super) const LIVE_BYTES_PER_SECOND_MAX: usize = 256 * 1024;
/// Reports that came after their call was given up and wait for the engine. When it is full the
/// worker keeps the report and is asked for it again.
pub(super) const LATE_MAX: usize = 256;
/// Late reports that are told to their sessions at the same time, so that they share appends.
pub(super) const LATE_AT_A_TIME: usize = 16;
/// The wait between two looks at a call without a follower doubles so often: from 2 s to 8 s.
pub(super) const LOOK_DOUBLINGS_MAX: u32 = 2;
/// The same for a report that could not be written down, which may be large: from 2 s to 64 s.
pub(super) const REOFFER_DOUBLINGS_MAX: u32 = 5;
/// Calls without a follower that are looked at in one round, and how many of them at a time.
pub(super) const LOOKS_MAX: usize = 256;
/// See [`LOOKS_MAX`].
pub(super) const LOOKS_AT_A_TIME: usize = 16;
/// Bounds of the time between two rounds, which is half the grace.
pub(super) const ROUND: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// How the gateway treats its workers.
#[derive(Debug, Clone)]
pub struct GatewayOptions {
    /// Heartbeats must come at least this often.
    pub heartbeat: Duration,
    /// A worker that gave no sign of life for this long is gone, and its calls are lost.
    pub lease: Duration,
    /// How long a worker may take to come back after its stream broke, or after the server was
    /// started again.
    pub reconnect_grace: Duration,
    /// See [`TIMEOUT_GRACE`].
    pub timeout_grace: Duration,
    /// See [`CANCEL_GRACE`].
    pub cancel_grace: Duration,
    /// See [`ORPHAN_GRACE`].
    pub orphan_grace: Duration,
    /// Largest message that a worker may send.
    pub message_bytes_max: usize,
    /// The instance of the worker inside this process; it must be the name of the node, which is
    /// new for each process. `None` when there is no such worker.
    pub embedded_instance: Option<String>,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(5),
            lease: Duration::from_secs(30),
            reconnect_grace: Duration::from_secs(30),
            timeout_grace: TIMEOUT_GRACE,
            cancel_grace: CANCEL_GRACE,
            orphan_grace: ORPHAN_GRACE,
            // A shell keeps 4 MiB of output; this leaves room for tools that give more.
            message_bytes_max: 16 * 1024 * 1024,
            embedded_instance: None,
        }
    }
}
