//! Exit codes, and the two errors that choose one.

use std::fmt;
use std::process::ExitCode;

use stepwell_proto::v1::SessionStatus;

/// What `--help` says about exit codes. `docs/cli.md` says the same at more length.
pub(crate) const HELP: &str = "\
Exit codes:
  0    ok; with --wait: the session completed
  1    error: the message says what, where and what to do next
  2    the command line is wrong
  3    --wait: the session failed; replay: it diverged, or with --against ended worse
  4    --wait: the session was cancelled
  5    --wait: a limit of the agent ended the session
  6    --wait: the session needs a person (quarantined, or --wait=person and it waits for one)
  130  Ctrl-C; a session that was waited for goes on";

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it was asked; a session that was waited for completed.
    Ok,
    /// It could not.
    Error,
    /// The command line is wrong.
    Usage,
    /// The session failed.
    Failed,
    /// A replay came to something else.
    Diverged,
    /// The session was cancelled.
    Cancelled,
    /// A limit of its agent ended the session.
    LimitReached,
    /// Only a person can move the session.
    NeedsPerson,
    /// Ctrl-C.
    Interrupted,
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::Failed | Self::Diverged => 3,
            Self::Cancelled => 4,
            Self::LimitReached => 5,
            Self::NeedsPerson => 6,
            Self::Interrupted => 130,
        }
    }

    /// The exit of one who waited for a session that is now here; `None` while it goes on by itself.
    pub(crate) fn of_finished(status: SessionStatus) -> Option<Self> {
        match status {
            SessionStatus::Completed => Some(Self::Ok),
            SessionStatus::Failed => Some(Self::Failed),
            SessionStatus::Cancelled => Some(Self::Cancelled),
            SessionStatus::LimitReached => Some(Self::LimitReached),
            SessionStatus::Quarantined => Some(Self::NeedsPerson),
            SessionStatus::Unspecified
            | SessionStatus::Pending
            | SessionStatus::Thinking
            | SessionStatus::ExecutingTools
            | SessionStatus::WaitingApproval
            | SessionStatus::WaitingInput
            | SessionStatus::Sleeping
            | SessionStatus::Paused => None,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The command line asks for something that makes no sense: exit code 2.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Whoever read our output went away (`| head`). Not an error: there is nobody left to tell.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader of the output is gone")
    }
}

impl std::error::Error for ReaderGone {}

/// The exit for an error that reached `main`.
pub(crate) fn of_error(error: &anyhow::Error) -> Exit {
    if error.is::<ReaderGone>() {
        Exit::Ok
    } else if error.is::<UsageError>() {
        Exit::Usage
    } else {
        Exit::Error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_its_code_and_open_sessions_have_none() {
        for (status, code) in [
            (SessionStatus::Completed, Some(0)),
            (SessionStatus::Failed, Some(3)),
            (SessionStatus::Cancelled, Some(4)),
            (SessionStatus::LimitReached, Some(5)),
            (SessionStatus::Quarantined, Some(6)),
            (SessionStatus::Thinking, None),
            (SessionStatus::WaitingApproval, None),
            (SessionStatus::Paused, None),
        ] {
            assert_eq!(Exit::of_finished(status).map(Exit::code), code, "{status:?}");
        }
    }

    #[test]
    fn every_code_is_in_the_help() {
        for exit in [
            Exit::Ok,
            Exit::Error,
            Exit::Usage,
            Exit::Failed,
            Exit::Diverged,
            Exit::Cancelled,
            Exit::LimitReached,
            Exit::NeedsPerson,
            Exit::Interrupted,
        ] {
            assert!(HELP.contains(&format!("\n  {}  ", exit.code())), "{exit:?}");
        }
    }

    #[test]
    fn an_error_chooses_its_code() {
        assert_eq!(of_error(&anyhow::anyhow!("x")), Exit::Error);
        assert_eq!(of_error(&UsageError("x".into()).into()), Exit::Usage);
        assert_eq!(of_error(&ReaderGone.into()), Exit::Ok);
        let wrapped = anyhow::Error::from(UsageError("x".into())).context("while reading");
        assert_eq!(of_error(&wrapped), Exit::Usage);
    }
}
