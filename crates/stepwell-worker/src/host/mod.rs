//! The host: connects a toolbox to a server and runs its calls.
//!
//! Breaks are normal. While there is no connection the calls go on; after the reconnect the host says
//! which calls it still holds and repeats the reports that were not acknowledged. A call that it has
//! seen is never started a second time: it answers "running", or repeats the report.
//!
//! Who does what: `ledger` knows the calls, `job` runs one, `desk` holds the places, `connection` is
//! one stream, `wire` makes messages.
//!
//! Invariant: no detached task. What runs belongs to the desk and ends with it.

mod backoff;
mod connection;
mod desk;
mod job;
mod ledger;
mod options;
mod wire;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tracing::{debug, warn};

use self::backoff::Backoff;
use self::connection::{End, Tended, connect, tend};
use self::desk::Desk;
use crate::toolbox::Toolbox;

pub use self::options::HostOptions;

/// Why a host ended without being told to.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The server's address is none.
    #[error("{server:?} is no address of a server ({reason}): write it like http://127.0.0.1:7171")]
    Address {
        /// The address.
        server: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The server does not take this worker; trying again would change nothing.
    #[error("the server at {server} does not take this worker: {reason}")]
    Refused {
        /// The address.
        server: String,
        /// What the server said.
        reason: String,
    },
    /// Another worker has the name and keeps it.
    #[error("the server at {server} has another worker of this name: {reason}")]
    NameTaken {
        /// The address.
        server: String,
        /// What the server said.
        reason: String,
    },
    /// The system gives no random numbers, so the process cannot be told from others.
    #[error("the system gives no random numbers: {reason}")]
    NoRandomness {
        /// What the system said.
        reason: String,
    },
}

/// A worker process, or the worker inside one.
pub struct WorkerHost {
    options: HostOptions,
    toolbox: Toolbox,
}

impl WorkerHost {
    /// A host for these tools. It does nothing before [`WorkerHost::run`].
    pub fn new(options: HostOptions, toolbox: Toolbox) -> Self {
        Self { options, toolbox }
    }

    /// Connects to the server of the options and works until `shutdown`, then lets running calls end
    /// within [`HostOptions::drain`]. A server that is away is waited for.
    ///
    /// # Errors
    /// Every [`HostError`].
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), HostError> {
        let channel = endpoint(&self.options.server)?.connect_lazy();
        self.run_with_channel(channel, shutdown).await
    }

    /// As [`WorkerHost::run`], over a channel that the caller made: with TLS, through a proxy, or
    /// inside the process. It must connect again by itself.
    ///
    /// # Errors
    /// Every [`HostError`] but the address.
    pub async fn run_with_channel(
        self,
        channel: Channel,
        shutdown: CancellationToken,
    ) -> Result<(), HostError> {
        let instance = match &self.options.instance {
            Some(instance) => instance.clone(),
            None => random_instance()?,
        };
        let server = self.options.server.clone();
        let name_patience = self.options.name_patience;
        let mut desk = Desk::new(self.options, instance, self.toolbox);
        let mut backoff = Backoff::default();
        let mut is_quiet = false;
        let mut name_taken_since: Option<Instant> = None;
        loop {
            let mut was_welcomed = false;
            let end = connect(&mut desk, &channel, &shutdown, &mut was_welcomed).await;
            if was_welcomed {
                backoff.reset();
                (is_quiet, name_taken_since) = (false, None);
            }
            match end {
                End::Done => {
                    note_what_is_left(&desk);
                    return Ok(());
                }
                End::Refused(status) => {
                    stop(&mut desk).await;
                    let reason = status.message().to_owned();
                    return Err(HostError::Refused { server, reason });
                }
                End::NameTaken(status) => {
                    let since = *name_taken_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= name_patience {
                        stop(&mut desk).await;
                        let reason = status.message().to_owned();
                        return Err(HostError::NameTaken { server, reason });
                    }
                    note(&server, &status, &mut is_quiet);
                }
                End::Broken(status) => note(&server, &status, &mut is_quiet),
            }
            match tend(&mut desk, &shutdown, sleep(backoff.next())).await {
                Tended::Ready(()) => {}
                Tended::Done => {
                    note_what_is_left(&desk);
                    return Ok(());
                }
            }
        }
    }
}

/// A host that leaves takes what no server acknowledged with it.
fn note_what_is_left(desk: &Desk) {
    let reports = desk.ledger.unacknowledged_count();
    if reports > 0 {
        warn!(reports, "this worker leaves with reports that no server has acknowledged");
    }
}

/// Says once what is wrong, and then only to those who want to know everything.
fn note(server: &str, status: &Status, is_quiet: &mut bool) {
    if *is_quiet {
        debug!(server, %status, "still no connection to the server");
    } else {
        warn!(server, %status, "no connection to the server; trying again until there is one");
    }
    *is_quiet = true;
}

/// Nobody will take the reports: the calls are told to stop, and have their time to do it.
async fn stop(desk: &mut Desk) {
    desk.ledger.cancel_all();
    let all_ended = async {
        while desk.running() > 0 {
            if let desk::Local::News(news) = desk.local().await {
                drop(desk.take(news));
            }
        }
    };
    if timeout(options::CANCEL_GRACE, all_ended).await.is_err() {
        warn!("some calls did not stop; they are dropped");
    }
}

/// The way to a server, checked often enough that a server that vanished is noticed.
fn endpoint(server: &str) -> Result<Endpoint, HostError> {
    let wrong = |reason: String| HostError::Address { server: server.to_owned(), reason };
    let endpoint = Endpoint::from_shared(server.to_owned()).map_err(|it| wrong(it.to_string()))?;
    if endpoint.uri().scheme().is_none() || endpoint.uri().authority().is_none() {
        return Err(wrong("scheme or host is missing".to_owned()));
    }
    Ok(endpoint
        .connect_timeout(options::CONNECT_WITHIN)
        .http2_keep_alive_interval(options::KEEPALIVE)
        .keep_alive_timeout(options::KEEPALIVE)
        .keep_alive_while_idle(true))
}

fn random_instance() -> Result<String, HostError> {
    let random = getrandom::u64();
    random
        .map(|it| format!("{it:016x}"))
        .map_err(|error| HostError::NoRandomness { reason: error.to_string() })
}
