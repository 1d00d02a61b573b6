//! Starts the test against a real vLLM, which lives in the package of the benchmarks.

use anyhow::Result;

use crate::{Verdict, process};

/// The server's key for the test, and one that it must refuse.
const KEYS: [(&str, &str); 2] =
    [("STEPWELL_VLLM_KEY", "a-key-for-the-test"), ("STEPWELL_VLLM_WRONG_KEY", "not-the-key")];

/// Runs it with these arguments (`--serve COMMAND …`), unread.
pub(crate) fn run(arguments: &[String]) -> Result<Verdict> {
    // One part of it runs the program itself, which is looked for beside it.
    if !process::passes(process::cargo(&["build", "--package", "stepwell-cli"]))? {
        return Ok(Verdict::from(false));
    }
    let mut words = vec!["run", "--package", "stepwell-bench", "--bin", "vllm-test", "--"];
    words.extend(arguments.iter().map(String::as_str));
    let mut command = process::cargo(&words);
    command.envs(KEYS);
    process::passes(command).map(Verdict::from)
}
