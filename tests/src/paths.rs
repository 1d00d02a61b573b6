//! Where the programs are that the tests start.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

/// The binary under test: `$STEPWELL_BIN`, or the one beside this test program.
///
/// # Errors
/// When it is not there, with how to build it.
pub fn stepwell() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("STEPWELL_BIN") {
        let path = PathBuf::from(path);
        if !path.is_file() {
            bail!("STEPWELL_BIN is {}, which is no file", path.display());
        }
        return Ok(path);
    }
    beside("stepwell", "cargo build -p stepwell-cli (cargo xtask test does it by itself)")
}

/// The worker whose tools count their starts.
///
/// # Errors
/// When it is not there, with how to build it.
pub fn counting_worker() -> Result<PathBuf> {
    beside("counting-worker", "cargo build -p stepwell-tests")
}

/// Programs lie in the folder of the profile, test programs in `deps` below it.
fn beside(name: &str, how_to_build: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("the path of this test program")?;
    let folders = own.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.with_context(|| {
        format!("there is no program {name} beside {}: build it with {how_to_build}", own.display())
    })
}
