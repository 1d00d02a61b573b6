//! Words that the stories share.

use stepwell_core::event::{EventBody, EventKind};
use stepwell_core::{ApprovalId, CallId, SessionId};
use stepwell_sim::World;
use stepwell_sim::model::{Asked, Say, say};

/// The first call of the first step.
pub(crate) const C1: CallId = CallId { step: 1, index: 1 };

/// The model follows a list, one entry a step, and is done after it.
pub(crate) fn steps(steps: Vec<Say>) -> impl Fn(Asked) -> Say + Send + Sync + 'static {
    move |asked| steps.get(asked.step as usize - 1).cloned().unwrap_or_else(|| say("done"))
}

/// The types of a session's events, in order.
pub(crate) async fn kinds(world: &World, session_id: SessionId) -> Vec<&'static str> {
    world.log(session_id).await.iter().map(|event| event.body.kind().as_str()).collect()
}

/// How many events of a type a session has.
pub(crate) async fn count(world: &World, session_id: SessionId, kind: EventKind) -> usize {
    world.log(session_id).await.iter().filter(|event| event.body.kind() == kind).count()
}

/// The first open approval of a session.
pub(crate) async fn open_approval(world: &World, session_id: SessionId) -> ApprovalId {
    let state = world.state(session_id).await;
    *state.approvals.keys().next().expect("an approval is open")
}

/// What the model was shown of a session's first call.
pub(crate) async fn tool_outputs(world: &World, session_id: SessionId) -> Vec<String> {
    let log = world.log(session_id).await;
    let outputs = log.iter().filter_map(|event| match &event.body {
        EventBody::ToolFinished(it) if !it.late => Some(it.output.preview().to_string()),
        _ => None,
    });
    outputs.collect()
}
