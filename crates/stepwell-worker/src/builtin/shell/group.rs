//! A command and everything it starts, ending with us.
//!
//! Two children share a process group. The *guard* leads it: it waits for the end of a pipe whose
//! only writing end is ours, and then kills the group. So the group also dies when this process is
//! killed and can do nothing itself. Being the leader and not reaped until the end, the guard also
//! keeps the group's number from being used again.
//! The *command* joins the group, and waits for a word on its standard input before it starts: if we
//! are killed between the system's fork and its joining, no word comes and it ends by itself.
//!
//! Processes that left the group are found by their mark; see `marked.rs`.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{sleep, timeout};

use super::environment::PATH_DEFAULT;
use super::marked::{Mark, VARIABLE, is_group_alive};

/// Signals that end the command must not end its guard, which has to see the pipe's end. It looks
/// for marked processes until there was none five times: those not yet killed may start others, and
/// one that becomes another program has no environment for a moment. A process that is stuck in the
/// kernel ends the looking. Without `/proc` or `grep` only the group is killed. `$1` is the mark,
/// which is in no environment of the guard's own.
const GUARD: &str = "trap '' HUP INT QUIT TERM
read -r _
round=0; quiet=0
while [ $quiet -lt 5 ] && [ $round -lt 50 ]; do
  round=$((round + 1))
  files=$(grep -ls -e \"$1\" /proc/[0-9]*/environ)
  if [ -n \"$files\" ]; then
    quiet=0
    for file in $files; do pid=${file#/proc/}; kill -9 \"${pid%/environ}\"; done
  else
    quiet=$((quiet + 1)); sleep 0.02
  fi
done
kill -9 0";
/// Handles that this process got from its own parent and did not mark are closed, as far as a
/// portable shell can name them; see also `close_inherited_handles`. All that this process opens is
/// closed by the system.
const GATE: &str = "read -r _ || exit 125
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
exec \"$0\" -c -- \"$1\" sh </dev/null";
/// How long killed processes may take to be gone. Only one that is stuck in the kernel takes longer
/// than a moment, and nothing can be done about that.
const REAP_WAIT: Duration = Duration::from_secs(5);
/// First pause between looks at whether all is gone; doubled each time.
const GONE_PAUSE_FIRST: Duration = Duration::from_millis(1);
/// Looks at whether all is gone: a second in all.
const GONE_LOOKS: u32 = 10;

/// What to run.
#[derive(Debug)]
pub(super) struct CommandLine<'call> {
    /// The path of a POSIX shell.
    pub(super) shell: &'call str,
    pub(super) command: &'call str,
    pub(super) folder: &'call Path,
    pub(super) environment: &'call [(OsString, OsString)],
}

/// A running command with its guard. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Group {
    id: Pid,
    mark: Mark,
    guard: Child,
    command: Child,
    /// Never written to: its end is the signal.
    _guard_input: Option<ChildStdin>,
    is_killed: bool,
}

impl Group {
    /// Starts the command; its standard output and error come out of one pipe, in order.
    pub(super) async fn start(line: &CommandLine<'_>) -> io::Result<(Self, Receiver)> {
        let mark = Mark::new_value();
        let mut guard = Command::new(line.shell)
            .args(["-c", GUARD, "sh", &mark])
            .env_clear()
            .env("PATH", PATH_DEFAULT)
            // Not the workspace, which must stay free to be removed or unmounted.
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let guard_input = guard.stdin.take();
        let id = guard.id().and_then(|id| i32::try_from(id).ok());
        let id = id.ok_or_else(|| io::Error::other("the guard process ended at once"))?;
        let (output, writer) = io::pipe()?;
        let mut command = Command::new(line.shell)
            .args(["-c", GATE, line.shell, line.command])
            .env_clear()
            .envs(line.environment.iter().map(|(name, value)| (name, value)))
            .env(VARIABLE, &mark)
            .current_dir(line.folder)
            .stdin(Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(id)
            .spawn()?;
        let gate = command.stdin.take();
        let id = Pid::from_raw(id);
        let mark = Mark::new(mark, id);
        let group = Self { id, mark, guard, command, _guard_input: guard_input, is_killed: false };
        if let Some(mut gate) = gate {
            // If it is dead already, its exit status tells.
            drop(gate.write_all(b"\n").await);
        }
        Ok((group, Receiver::from_owned_fd(OwnedFd::from(output))?))
    }

    /// Waits until the command or its guard has ended; false means that the guard did.
    pub(super) async fn ended(&mut self) -> bool {
        tokio::select! {
            biased;
            _ = self.command.wait() => true,
            _ = self.guard.wait() => false,
        }
    }

    /// Waits until the command itself has ended.
    pub(super) async fn command_ended(&mut self) {
        // Waiting for a child of ours fails only if somebody else reaped it; then it has ended.
        drop(self.command.wait().await);
    }

    /// Asks the command and all it started to end. Stopped processes are woken to hear it.
    pub(super) async fn ask_to_end(&self) {
        for signal in [Signal::SIGTERM, Signal::SIGCONT] {
            self.signal(signal);
            self.signal_outside(signal).await;
        }
    }

    fn signal(&self, signal: Signal) {
        // The only error is that nobody is left, which is what a signal is sent for.
        let _ = killpg(self.id, signal);
    }

    async fn signal_outside(&self, signal: Signal) {
        let (mark, id) = (self.mark.clone(), self.id);
        let look = tokio::task::spawn_blocking(move || mark.signal_outside(id, signal));
        // It fails only while the runtime shuts down; the guard then does what is left.
        drop(look.await);
    }

    /// Kills what left the group; whether anything is still there, in the group or out of it.
    async fn kill_rest(&self) -> bool {
        let (mark, id) = (self.mark.clone(), self.id);
        let look = tokio::task::spawn_blocking(move || {
            let may_be_more = mark.signal_outside(id, Signal::SIGKILL);
            may_be_more || is_group_alive(id)
        });
        look.await.unwrap_or(false)
    }

    /// Kills what is left and waits until it is gone. None as the command's status means that it
    /// cannot be ended.
    pub(super) async fn finish(mut self) -> Option<ExitStatus> {
        self.is_killed = true;
        self.signal(Signal::SIGKILL);
        let command = timeout(REAP_WAIT, self.command.wait()).await;
        let guard = timeout(REAP_WAIT, self.guard.wait()).await;
        if guard.is_err() || !self.is_gone().await {
            tracing::warn!(
                group = self.id.as_raw(),
                "killed processes of a command are still there"
            );
        }
        command.ok()?.ok()
    }

    /// Kills what left the group, and looks until nothing is there. What a command leaves in the
    /// background belongs to init once the command has ended, so it cannot be waited for. Usually
    /// there is nothing, and the first look says so.
    async fn is_gone(&self) -> bool {
        let group = Pid::from_raw(-self.id.as_raw());
        let mut pause = GONE_PAUSE_FIRST;
        for _ in 0..GONE_LOOKS {
            let is_alive = self.kill_rest().await;
            // Where this process is init itself, as in many containers, they are its to reap.
            let reap = || waitpid(group, Some(WaitPidFlag::WNOHANG)).ok()?.pid();
            while reap().is_some() {}
            if !is_alive {
                return true;
            }
            sleep(pause).await;
            pause *= 2;
        }
        false
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A guard that lives sees the end of its input now, and does the work without keeping us.
        let is_guarded = matches!(self.guard.try_wait(), Ok(None));
        if !self.is_killed && !is_guarded {
            self.signal(Signal::SIGKILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// No test here takes this long unless it hangs.
    const PATIENCE: Duration = Duration::from_secs(30);
    const SHELLS: [&str; 2] = ["/bin/sh", "/bin/bash"];

    async fn start(shell: &str, command: &str) -> (Group, Receiver) {
        let environment = [("PATH".into(), PATH_DEFAULT.into())];
        let folder = Path::new("/");
        let line = CommandLine { shell, command, folder, environment: &environment };
        Group::start(&line).await.unwrap()
    }

    async fn read_line(output: &mut Receiver) -> String {
        let mut line = String::new();
        while !line.ends_with('\n') {
            let byte = timeout(PATIENCE, output.read_u8()).await.expect("no line came");
            line.push(char::from(byte.unwrap()));
        }
        line.trim_end().to_owned()
    }

    /// All processes that hold the output are gone when it ends.
    async fn read_to_end(output: &mut Receiver) -> String {
        let mut rest = String::new();
        timeout(PATIENCE, output.read_to_string(&mut rest)).await.expect("it did not end").unwrap();
        rest
    }

    #[tokio::test]
    async fn the_status_is_the_commands_own() {
        for shell in SHELLS {
            for (command, code, signal) in [
                ("true", Some(0), None),
                ("exit 7", Some(7), None),
                ("sleep 81.1 & exit 3", Some(3), None),
                ("kill -15 $$", None, Some(15)),
                ("kill -9 0", None, Some(9)),
                ("wait; exit 4", Some(4), None),
                ("exec 2>&-; exec >&-; exit 5", Some(5), None),
                ("-n; exit 6", Some(6), None),
            ] {
                use std::os::unix::process::ExitStatusExt;
                let (mut group, _output) = start(shell, command).await;
                timeout(PATIENCE, group.command_ended()).await.expect(command);
                let status = group.finish().await.unwrap();
                assert_eq!((status.code(), status.signal()), (code, signal), "{shell}: {command}");
            }
        }
    }

    #[tokio::test]
    async fn the_command_gets_no_input_and_no_other_handle() {
        for shell in SHELLS {
            let command = "cat; readlink /proc/$$/fd/0; ls /proc/$$/fd; :";
            let (mut group, mut output) = start(shell, command).await;
            let seen = read_to_end(&mut output).await;
            assert!(seen.starts_with("/dev/null\n"), "{shell}: {seen}");
            // Whoever runs the tests may hand on handles of higher numbers.
            let is_open = |number: i32| seen.lines().any(|line| line == number.to_string());
            assert_eq!(
                (0..10).filter(|n| is_open(*n)).collect::<Vec<_>>(),
                [0, 1, 2],
                "{shell}: {seen}"
            );
            group.command_ended().await;
            group.finish().await.unwrap();
        }
    }

    #[tokio::test]
    async fn dropping_the_group_ends_all_of_it_however_it_hides() {
        for shell in SHELLS {
            for hidden in [
                "sleep 82.1",
                "sleep 82.2 & sleep 82.3",
                "timeout 60 sleep 82.4",
                "setsid sleep 82.5 & sleep 82.6",
                "trap '' TERM HUP INT; nohup sleep 82.7",
                "(setsid sh -c 'sleep 82.8 & sleep 82.9' &) ; sleep 82.91",
            ] {
                let (group, mut output) = start(shell, &format!("echo up; {hidden}")).await;
                assert_eq!(read_line(&mut output).await, "up", "{shell}: {hidden}");
                drop(group);
                let end = timeout(PATIENCE, output.read_to_end(&mut Vec::new())).await;
                assert!(end.is_ok(), "{shell}: {hidden}");
            }
        }
    }

    #[tokio::test]
    async fn finishing_ends_what_left_the_group() {
        for shell in SHELLS {
            for command in [
                "setsid sleep 83.1 & exit",
                "(setsid sh -c 'sleep 83.2 & sleep 83.3' &)",
                "timeout 60 sleep 83.4 & nohup sleep 83.5 & exit",
            ] {
                let (mut group, mut output) = start(shell, command).await;
                timeout(PATIENCE, group.command_ended()).await.expect(command);
                group.finish().await.unwrap();
                let end = timeout(PATIENCE, output.read_to_end(&mut Vec::new())).await;
                assert!(end.is_ok(), "{shell}: {command}");
            }
        }
    }

    #[tokio::test]
    async fn the_guards_death_is_noticed_and_wedges_nothing() {
        for shell in SHELLS {
            let command = "echo up; kill -9 $(cut -d' ' -f5 /proc/$$/stat); sleep 84.1";
            let (mut group, mut output) = start(shell, command).await;
            assert_eq!(read_line(&mut output).await, "up");
            assert!(!timeout(PATIENCE, group.ended()).await.expect(shell), "{shell}");
            let status = group.finish().await;
            assert!(status.is_some_and(|status| !status.success()), "{shell}: {status:?}");
            read_to_end(&mut output).await;
        }
    }
}
