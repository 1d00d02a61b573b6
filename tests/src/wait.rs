//! Waiting for a condition, with a deadline.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{sleep, timeout};

/// How often a condition is looked at.
pub const POLL: Duration = Duration::from_millis(10);

/// How long anything may take that should come soon. Long, for the machine may be busy; a test that
/// passes never waits that long.
pub const SOON: Duration = Duration::from_secs(60);

/// Looks until `look` gives something, at most [`SOON`].
///
/// # Errors
/// When it does not come in time, with `what`; and the errors of `look`.
pub async fn until<T>(what: &str, look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    until_within(SOON, what, look).await
}

/// As [`until`], with a deadline of one's own.
///
/// # Errors
/// As [`until`].
pub async fn until_within<T>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let looking = async {
        loop {
            if let Some(found) = look().await? {
                return Ok(found);
            }
            sleep(POLL).await;
        }
    };
    match timeout(limit, looking).await {
        Ok(result) => result,
        Err(_) => bail!("this did not come within {limit:?}: {what}"),
    }
}
