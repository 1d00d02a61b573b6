//! Places on workers that are found before what is decided is durable.
//!
//! A tool that must not run twice is started only after its `tool_dispatched` is durable. Where a place
//! is free at once, that goes into the same append as the decision to run it, so that such a call
//! costs no commit more than any other. Where none is free, the call's own task waits for one and says
//! so later (`tool_call`).
//!
//! Invariant: nothing is started here. A draft that does not become durable gives its places back.

use stepwell_core::event::EventBody;
use stepwell_core::{Input, TimestampMs};
use stepwell_ports::{ToolGateway, ToolRequest, ToolSlot};

use crate::draft::{Draft, decide_safely};
use crate::effects::Effects;

/// A call that has its place and starts once that is durable.
pub(crate) struct Reserved {
    pub(crate) request: ToolRequest,
    pub(crate) slot: ToolSlot,
}

/// Takes the places that are free now for the calls that the draft orders.
pub(crate) async fn reserve(
    drafted: &mut Draft,
    effects: &Effects,
    tools: &dyn ToolGateway,
    now: TimestampMs,
) {
    let orders = |it: &EventBody| matches!(it, EventBody::ToolScheduled(_));
    if !drafted.events.iter().any(|event| orders(&event.body)) {
        return;
    }
    for request in effects.wanted_places(&drafted.after) {
        let slot = tokio::select! {
            biased;
            slot = tools.reserve(&request) => slot,
            () = std::future::ready(()) => continue,
        };
        let input = Input::WorkerReserved {
            call_id: request.call_id,
            attempt: request.attempt,
            worker: slot.worker.clone(),
        };
        // Refused, the place is given back and the call's own task finds out why.
        if let Ok(decision) = decide_safely(&drafted.after, input, now) {
            drafted.events.extend(decision.events);
            *drafted.after = decision.state;
            drafted.reserved.push(Reserved { request, slot });
        }
    }
}
