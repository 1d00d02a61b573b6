//! Runs one command to its end, whatever that end is.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::capture::{Capture, Captured};
use super::group::{CommandLine, Group};

/// How long a command that is told to end may clean up.
const END_GRACE: Duration = Duration::from_secs(2);
/// How long output is still waited for after the command ended, while something it started holds
/// the pipe: a `tee` needs a moment to write its last line, a server in the background never ends.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// Bytes read at once: what a pipe holds.
const READ_BYTES: usize = 64 * 1024;
/// Read at most after all is killed: what a pipe can hold. A process that left the group could go
/// on writing for ever.
const LEFT_IN_PIPE_MAX: usize = 1024 * 1024;

/// When a command has to stop.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) deadline: Instant,
    pub(super) cancel: CancellationToken,
}

/// Why a command's run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It ended by itself.
    Ended,
    TimedOut,
    Cancelled,
    /// Something killed the process that would have ended it with us, so it was ended.
    Unguarded,
}

/// A command's run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) ending: Ending,
    /// None if the command could not be ended.
    pub(super) status: Option<ExitStatus>,
    /// Until the ending; cleaning up after it takes its own time.
    pub(super) took: Duration,
    pub(super) output: Captured,
}

/// Runs the command. An error means that it was not started.
pub(super) async fn run(
    line: &CommandLine<'_>,
    limits: &Limits,
    capture: Capture,
) -> io::Result<Run> {
    let started = Instant::now();
    let (mut group, pipe) = Group::start(line).await?;
    let mut output = Output { pipe: Some(pipe), buffer: vec![0; READ_BYTES], capture };
    let ending = watch(&mut group, &mut output, limits).await;
    let took = started.elapsed();
    let grace = match ending {
        Ending::Ended => LAST_WORDS,
        Ending::TimedOut | Ending::Cancelled => {
            group.ask_to_end().await;
            END_GRACE
        }
        Ending::Unguarded => Duration::ZERO,
    };
    // Ending with output still to come is as good: it is killed next.
    drop(timeout(grace, async { tokio::join!(output.read_to_end(), group.command_ended()) }).await);
    let status = group.finish().await;
    output.read_what_is_there();
    let output = output.capture.finish();
    Ok(Run { ending, status, took, output })
}

async fn watch(group: &mut Group, output: &mut Output, limits: &Limits) -> Ending {
    tokio::select! {
        biased;
        () = limits.cancel.cancelled() => Ending::Cancelled,
        () = sleep_until(limits.deadline) => Ending::TimedOut,
        is_command = group.ended() => if is_command { Ending::Ended } else { Ending::Unguarded },
        () = output.read_for_ever() => Ending::Ended,
    }
}

/// The reading end of a command's output.
struct Output {
    /// None once it has ended.
    pipe: Option<Receiver>,
    buffer: Vec<u8>,
    capture: Capture,
}

impl Output {
    async fn read_to_end(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            // Cancelled between reads, never in one: what was read is captured.
            match pipe.read(&mut self.buffer).await {
                Ok(length) if length > 0 => self.take(length),
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }

    async fn read_for_ever(&mut self) {
        self.read_to_end().await;
        // A command may close its output and go on.
        std::future::pending::<()>().await;
    }

    fn read_what_is_there(&mut self) {
        let mut total = 0;
        while let Some(pipe) = self.pipe.as_ref().filter(|_| total < LEFT_IN_PIPE_MAX) {
            match pipe.try_read(&mut self.buffer) {
                Ok(length) if length > 0 => {
                    self.take(length);
                    total += length;
                }
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }

    fn take(&mut self, length: usize) {
        if let Some(bytes) = self.buffer.get(..length) {
            self.capture.push(bytes);
        }
    }
}
