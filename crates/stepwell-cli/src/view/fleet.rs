//! Agents, tools and workers in lists.

use stepwell_proto::v1::{Agent, Tool, Worker};

use super::table::{Cell, Column, Fit, render};
use super::visible::brief;
use super::when;
use crate::out::{Paint, Tone};

/// Longest time that is worth showing: beyond it, "no limit".
const TIMEOUT_SHOWN_MS_MAX: u64 = 365 * 24 * 60 * 60 * 1_000;

/// The table of `agents`.
pub(crate) fn agents(
    agents: &[Agent],
    now_ms: i64,
    width: Option<usize>,
    paint: Paint,
) -> Vec<String> {
    const COLUMNS: [Column; 3] = [
        Column::new("AGENT", Fit::Whole),
        Column::right("VERSION", Fit::Whole),
        Column::new("STORED", Fit::Drop(1)),
    ];
    let row = |agent: &Agent| {
        [
            Cell::new(brief(&agent.name), Tone::Strong),
            agent.version.to_string().into(),
            Cell::new(when::relative(agent.created_at_ms, now_ms), Tone::Faint),
        ]
    };
    let rows: Vec<_> = agents.iter().map(row).collect();
    render(&COLUMNS, &rows, width, paint)
}

/// The table of `tools`. A tool that no connected worker offers is marked.
pub(crate) fn tools(tools: &[Tool], width: Option<usize>, paint: Paint) -> Vec<String> {
    const COLUMNS: [Column; 5] = [
        Column::new("TOOL", Fit::Whole),
        Column::new("EFFECT", Fit::Whole),
        Column::right("TIMEOUT", Fit::Drop(2)),
        Column::new("WORKERS", Fit::CutEnd(10)),
        Column::new("DESCRIPTION", Fit::CutEnd(16)),
    ];
    let row = |tool: &Tool| {
        let workers = match tool.workers.as_slice() {
            [] => Cell::new("none connected", Tone::Attention),
            workers => brief(&workers.join(", ")).into(),
        };
        let effect_tone = if tool.effect == "write" { Tone::Attention } else { Tone::Plain };
        let timeout = match tool.timeout_ms {
            0 => "-".to_owned(),
            ms if ms > TIMEOUT_SHOWN_MS_MAX => "none".to_owned(),
            ms => when::duration(ms),
        };
        [
            Cell::new(brief(&tool.name), Tone::Strong),
            Cell::new(brief(&tool.effect), effect_tone),
            timeout.into(),
            workers,
            brief(&tool.description).into(),
        ]
    };
    let rows: Vec<_> = tools.iter().map(row).collect();
    render(&COLUMNS, &rows, width, paint)
}

/// The table of `workers`.
pub(crate) fn workers(
    workers: &[Worker],
    now_ms: i64,
    width: Option<usize>,
    paint: Paint,
) -> Vec<String> {
    const COLUMNS: [Column; 5] = [
        Column::new("WORKER", Fit::Whole),
        Column::right("RUNNING", Fit::Whole),
        Column::new("CONNECTED", Fit::Drop(2)),
        Column::new("SEEN", Fit::Drop(1)),
        Column::new("TOOLS", Fit::CutEnd(16)),
    ];
    let row = |worker: &Worker| {
        let draining = if worker.draining { " (leaving)" } else { "" };
        [
            Cell::new(brief(&worker.name), Tone::Strong),
            format!("{}/{}{draining}", worker.running_calls, worker.capacity).into(),
            Cell::new(when::relative(worker.connected_at_ms, now_ms), Tone::Faint),
            Cell::new(when::relative(worker.seen_at_ms, now_ms), Tone::Faint),
            brief(&worker.tools.join(", ")).into(),
        ]
    };
    let rows: Vec<_> = workers.iter().map(row).collect();
    render(&COLUMNS, &rows, width, paint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_without_a_worker_are_marked() {
        let tool = |name: &str, effect: &str, timeout_ms, workers: &[&str]| Tool {
            name: name.into(),
            description: "Does\nthings.".into(),
            effect: effect.into(),
            timeout_ms,
            workers: workers.iter().map(|it| (*it).to_owned()).collect(),
            ..Tool::default()
        };
        let list = [
            tool("shell", "write", 120_000, &["local", "b"]),
            tool("ask_user", "read", u64::MAX, &[]),
        ];
        assert_eq!(
            tools(&list, None, Paint::NONE),
            [
                "TOOL      EFFECT  TIMEOUT  WORKERS         DESCRIPTION",
                "shell     write     2 min  local, b        Does things.",
                "ask_user  read       none  none connected  Does things.",
            ]
        );
    }

    #[test]
    fn workers_show_their_load() {
        let worker = Worker {
            name: "local".into(),
            tools: vec!["shell".into()],
            running_calls: 1,
            capacity: 4,
            connected_at_ms: 1_000,
            seen_at_ms: 60_000,
            draining: true,
        };
        assert_eq!(
            workers(&[worker], 61_000, None, Paint::NONE),
            [
                "WORKER        RUNNING  CONNECTED  SEEN     TOOLS",
                "local   1/4 (leaving)  1 min ago  1 s ago  shell",
            ]
        );
    }

    #[test]
    fn agents_show_their_version() {
        let agent =
            Agent { name: "coder".into(), version: 3, created_at_ms: 1_000, ..Agent::default() };
        assert_eq!(
            agents(&[agent], 61_000, None, Paint::NONE),
            ["AGENT  VERSION  STORED", "coder        3  1 min ago"]
        );
    }
}
