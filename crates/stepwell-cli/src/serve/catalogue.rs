//! The tools of the worker in this process are known before the port opens, so that the first request
//! can name them.

use std::sync::Arc;

use anyhow::Context as _;
use stepwell_core::{Effect, JsonText, TimestampMs, ToolKind, ToolSpec};
use stepwell_ports::{Store, ToolRecord};
use stepwell_server::gateway::EMBEDDED_NAME;
use stepwell_worker::{ToolDescription, Toolbox};

use super::start::not_started;

/// Remembers the tools of `toolbox` in the store, as their worker will do again when it connects.
pub(crate) async fn remember(
    store: &Arc<dyn Store>,
    toolbox: &Toolbox,
    now: TimestampMs,
) -> anyhow::Result<()> {
    let mut records = Vec::with_capacity(toolbox.len());
    for description in toolbox.descriptions() {
        let spec = spec(description).with_context(|| format!("tool `{}`", description.name))?;
        records.push(ToolRecord {
            name: spec.name.clone(),
            spec: serde_json::to_string(&spec)?,
            worker: EMBEDDED_NAME.to_owned(),
            seen_at: now,
        });
    }
    store.put_tools(records).await.map_err(not_started)
}

fn spec(description: &ToolDescription) -> anyhow::Result<ToolSpec> {
    let output_schema = description.output_schema.as_deref().map(JsonText::parse).transpose()?;
    Ok(ToolSpec {
        name: description.name.clone(),
        description: description.description.clone(),
        parameters: JsonText::parse(&description.parameters)?,
        output_schema,
        effect: match description.effect {
            stepwell_worker::Effect::Read => Effect::Read,
            stepwell_worker::Effect::Idempotent => Effect::Idempotent,
            stepwell_worker::Effect::Write => Effect::Write,
        },
        timeout_ms: u64::try_from(description.timeout.as_millis()).unwrap_or(u64::MAX),
        kind: ToolKind::Worker,
    })
}
