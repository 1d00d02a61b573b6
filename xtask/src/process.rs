//! Starting other programs, always from the repository root and never with a terminal's input.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};

/// The repository root: the folder above this package when cargo started us, else the current one.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    package.as_deref().and_then(|it| it.parent()).map_or_else(|| PathBuf::from("."), PathBuf::from)
}

/// A command that runs in the repository root with no standard input.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// The cargo that started us, freed of the variables that `cargo run` set for this package.
///
/// Build scripts that watch them (ring does) would otherwise see other values than under a plain
/// `cargo test`, and everything above would be built again at each change between the two.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = command(&program, arguments);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name.as_ref());
        }
    }
    command
}

/// Runs a cargo command with its output passed through; true when it succeeded.
pub(crate) fn cargo_passes(arguments: &[&str]) -> Result<bool> {
    passes(cargo(arguments))
}

/// Runs a command with its output passed through; true when it succeeded.
pub(crate) fn passes(mut command: Command) -> Result<bool> {
    let status = command.status().with_context(|| format!("cannot start {}", name(&command)))?;
    Ok(status.success())
}

/// Runs a command and returns its standard output; an exit status other than 0 is an error that
/// carries what the command wrote to standard error.
pub(crate) fn stdout(mut command: Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot start {}", name(&command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}): {}", name(&command), output.status, stderr.trim());
    }
    Ok(output.stdout)
}

/// Runs a command with its output passed through, and shows each line of its standard output to
/// `also` (bytes that are not UTF-8 are replaced there, and passed through as they are).
pub(crate) fn watch(mut command: Command, also: impl FnMut(&str)) -> Result<ExitStatus> {
    let name = name(&command);
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {name}"))?;
    if let Some(stdout) = child.stdout.take() {
        pass_through(BufReader::new(stdout), std::io::stdout(), also)
            .with_context(|| format!("cannot pass on the output of {name}"))?;
    }
    child.wait().with_context(|| format!("cannot wait for {name}"))
}

fn pass_through(
    mut from: impl BufRead,
    mut to: impl Write,
    mut also: impl FnMut(&str),
) -> std::io::Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        also(&String::from_utf8_lossy(&line));
        line.clear();
    }
    to.flush()
}

/// What git says is changed or new in the checkout, one file a line.
pub(crate) fn git_status() -> Result<String> {
    let output = stdout(command("git", &["status", "--porcelain", "--untracked-files=all"]))?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

fn name(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|it| it.to_string_lossy().into_owned()));
    format!("`{}`", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_exist_is_named_in_the_error() {
        let error = passes(command("no-such-program", &["-x"])).unwrap_err().to_string();
        assert!(error.contains("`no-such-program -x`"), "{error}");
    }

    #[test]
    fn a_failed_command_reports_its_standard_error() {
        let failing = command("sh", &["-c", "echo broken >&2; exit 3"]);
        let error = stdout(failing).unwrap_err().to_string();
        assert!(error.contains("broken") && error.contains('3'), "{error}");
    }

    #[test]
    fn every_line_is_watched_even_one_that_is_not_utf8() {
        let (mut passed, mut lines) = (Vec::new(), Vec::new());
        let text = b"\xff\nsecond";
        pass_through(&text[..], &mut passed, |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(lines, ["\u{fffd}\n", "second"]);
        assert_eq!(passed, text);
    }

    #[test]
    fn an_exit_status_is_a_result_not_an_error() {
        assert!(passes(command("true", &[])).unwrap());
        assert!(!passes(command("false", &[])).unwrap());
    }
}
