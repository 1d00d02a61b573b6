//! What the operating system says about this process.

use anyhow::Context as _;

/// Resident memory in MB.
pub(crate) fn resident_mb() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kb: f64 = line.split_whitespace().nth(1).context("no VmRSS")?.parse()?;
    Ok(kb / 1_000.0)
}

/// Processor time of this process so far, in clock ticks of 10 ms.
pub(crate) fn cpu_ticks() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').context("no stat")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let tick = |index: usize| -> anyhow::Result<f64> {
        Ok(fields.get(index).context("no stat")?.parse()?)
    };
    Ok(tick(11)? + tick(12)?)
}
