//! `completions`: the script that makes a shell ask this program for candidates.

use anyhow::Context as _;
use clap_complete::env::Shells;

use super::Context;
use crate::exit::Exit;

/// Prints the script. The shell then runs `stepwell` with this variable set: see [`crate::complete`].
pub(super) fn run(context: &Context, shell: &str) -> anyhow::Result<Exit> {
    context.out.write(&script(shell)?)?;
    Ok(Exit::Ok)
}

fn script(shell: &str) -> anyhow::Result<String> {
    let shells = Shells::builtins();
    let completer = shells.completer(shell).with_context(|| format!("unknown shell {shell}"))?;
    let mut script = Vec::new();
    completer.write_registration("COMPLETE", "stepwell", "stepwell", "stepwell", &mut script)?;
    Ok(String::from_utf8(script)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_has_a_script() {
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let script = script(shell).unwrap();
            assert!(script.contains("COMPLETE") && script.contains("stepwell"), "{shell}");
        }
    }
}
