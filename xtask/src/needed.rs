//! What the tests need from the system, and how it gets there.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::process;

/// A program that some test starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needed {
    /// The name that is looked up in `PATH`.
    command: &'static str,
    /// The Debian package that brings it.
    package: &'static str,
    /// Who needs it.
    purpose: &'static str,
}

/// Programs that the tests start. A test that starts another one adds its row here.
pub(crate) const NEEDED: &[Needed] = &[
    Needed { command: "git", package: "git", purpose: "the house checks list files with it" },
    Needed {
        command: "node",
        package: "nodejs",
        purpose: "the web viewer's build, the demo project",
    },
    Needed { command: "npm", package: "npm", purpose: "the web viewer's build and tests" },
    Needed { command: "chromium", package: "chromium", purpose: "the web viewer's browser tests" },
    Needed { command: "bash", package: "bash", purpose: "shell tool calls and completion" },
    Needed { command: "prlimit", package: "util-linux", purpose: "a disk that takes no writes" },
    Needed { command: "mount", package: "mount", purpose: "a disk that is full (as root)" },
];

/// Installs what is missing when that is possible (root on a machine with apt), else says what to
/// install.
pub(crate) fn install_missing() -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = missing_in(NEEDED, &path);
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|it| it.package).collect();
    if !is_on_path("apt-get", &path) || !is_root() {
        bail!("{}", advice(&missing));
    }
    eprintln!("installing {} with apt-get", packages.join(", "));
    apt_get(&["update"])?;
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(packages);
    apt_get(&install)?;
    let still = missing_in(NEEDED, &path);
    if !still.is_empty() {
        bail!("apt-get succeeded, and yet {}", advice(&still));
    }
    Ok(())
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut apt = process::command("apt-get", arguments);
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    if !process::passes(apt)? {
        let words = arguments.join(" ");
        bail!("`apt-get {words}` failed: see its message above, install by hand, and run again");
    }
    Ok(())
}

fn missing_in(needed: &[Needed], path: &OsStr) -> Vec<Needed> {
    needed.iter().filter(|it| !is_on_path(it.command, path)).copied().collect()
}

fn is_on_path(command: &str, path: &OsStr) -> bool {
    std::env::split_paths(path).any(|folder| is_executable(&folder.join(command)))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

fn is_root() -> bool {
    let id = process::stdout(process::command("id", &["-u"])).context("cannot tell who we are");
    id.is_ok_and(|it| it.trim_ascii() == b"0")
}

fn advice(missing: &[Needed]) -> String {
    let mut lines = vec!["the tests need programs that are not in PATH:".to_owned()];
    lines.extend(missing.iter().map(|it| format!("  {}: {}", it.command, it.purpose)));
    let packages: Vec<&str> = missing.iter().map(|it| it.package).collect();
    lines.push("on Debian or Ubuntu, run this and start again:".to_owned());
    lines.push(format!("  sudo apt-get install --yes {}", packages.join(" ")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Needed =
        Needed { command: "no-such-program", package: "no-such-package", purpose: "this test" };
    const SHELL: Needed = Needed { command: "sh", package: "dash", purpose: "this test" };

    #[test]
    fn only_what_is_absent_is_missing() {
        let path = std::env::var_os("PATH").unwrap();
        assert_eq!(missing_in(&[SHELL, ABSENT], &path), [ABSENT]);
    }

    #[test]
    fn an_empty_path_has_nothing() {
        assert_eq!(missing_in(&[SHELL], OsStr::new("")), [SHELL]);
    }

    /// Each program that a test or the demo starts by its name has a row.
    #[test]
    fn what_the_tests_start_is_listed() {
        for (file, program) in [
            (include_str!("../../crates/stepwell-cli/src/demo/project.rs"), "node"),
            (include_str!("../../crates/stepwell-cli/src/demo/project.rs"), "git"),
            (include_str!("../../crates/stepwell-server/build.rs"), "npm"),
            (include_str!("../../web-ui/playwright.config.ts"), "chromium"),
            (include_str!("../../tests/tests/it/cli/completion.rs"), "bash"),
            (include_str!("../../tests/tests/it/disk.rs"), "prlimit"),
            (include_str!("../../tests/tests/it/disk.rs"), "mount"),
        ] {
            assert!(file.contains(&format!("\"{program}\"")), "{program} is started no more");
            assert!(NEEDED.iter().any(|it| it.command == program), "{program} is not listed");
        }
    }

    #[test]
    fn the_advice_names_program_purpose_and_package() {
        let advice = advice(&[ABSENT]);
        for word in ["no-such-program", "this test", "apt-get install --yes no-such-package"] {
            assert!(advice.contains(word), "{advice}");
        }
    }
}
