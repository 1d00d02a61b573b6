//! The clock of the command line: the one place that asks the machine what time it is.

use std::time::{Duration, SystemTime};

/// Milliseconds since 1970-01-01 UTC.
#[expect(
    clippy::disallowed_methods,
    reason = "the command line is the outermost edge: here the clock comes in"
)]
pub(crate) fn now_ms() -> i64 {
    let since_epoch =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}
