//! Time travel: past moments, exact prompts, replay, forks, comparison.

mod against;
mod diff;
mod explain;
mod fork;
mod prompt;
mod replay;
mod state;
mod step;

use stepwell_core::codec::decode;
use stepwell_core::{Event, Seq, TimestampMs};
use stepwell_proto::v1;

pub(super) use diff::run as diff;
pub(super) use explain::run as explain;
pub(super) use fork::run as fork;
pub(super) use prompt::run as prompt;
pub(super) use replay::run as replay;
pub(super) use state::run as show_at;
pub(super) use step::run as step;

/// An event as the core knows it.
fn core_event(event: &v1::Event) -> anyhow::Result<Event> {
    let schema = u16::try_from(event.schema).unwrap_or(u16::MAX);
    let named = |problem: String| anyhow::anyhow!("event {}: {problem}", event.seq);
    let body = decode(&event.r#type, schema, &event.body_json);
    Ok(Event {
        seq: Seq(event.seq),
        time: TimestampMs(u64::try_from(event.time_ms).unwrap_or_default()),
        cause: Seq(event.cause),
        actor: event.actor.parse().map_err(|error| named(format!("{error}")))?,
        body: body.map_err(|error| named(error.to_string()))?,
    })
}
