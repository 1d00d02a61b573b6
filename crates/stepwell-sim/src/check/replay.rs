//! Recorded inputs through the rules again: the same decisions must come out, and both laws must hold.

use stepwell_core::decide::Verdict;
use stepwell_core::event::{Event, EventBody};
use stepwell_core::{Actor, Input, SessionState, apply, decide, pending};

/// Replays `events`, which follow `state` and end with a whole append.
///
/// # Errors
/// The first difference.
pub(super) fn check(state: &SessionState, events: &[Event]) -> Result<(), String> {
    let mut state = state.clone();
    let mut rest = events;
    while let Some(first) = rest.first() {
        let input =
            input_of(first).ok_or_else(|| format!("event {} follows from no input", first.seq))?;
        let decision = decide(&state, input, first.time)
            .map_err(|reject| format!("event {} is refused when replayed: {reject}", first.seq))?;
        let recorded = rest.get(..decision.events.len()).unwrap_or(rest);
        if let Some((seq, decided)) = difference(recorded, &decision.events) {
            return Err(format!("event {seq} is recorded otherwise; replayed it is {decided:?}"));
        }
        let owed = pending(&decision.state);
        if let Some(lost) = decision.commands.iter().find(|command| !owed.contains(command)) {
            return Err(format!("{lost:?} is ordered by event {} and not pending", first.seq));
        }
        for event in recorded {
            apply(&mut state, event).map_err(|error| format!("a law is broken: {error}"))?;
        }
        if state != decision.state {
            return Err(format!("event {} folds to another state than was decided", first.seq));
        }
        rest = rest.get(decision.events.len()..).unwrap_or_default();
    }
    Ok(())
}

fn difference<'a>(recorded: &[Event], decided: &'a [Event]) -> Option<(u64, &'a Event)> {
    let recorded = recorded.iter().map(Some).chain(std::iter::repeat(None));
    let mut pairs = decided.iter().zip(recorded);
    pairs.find(|(decided, recorded)| Some(*decided) != *recorded).map(|(it, _)| (it.seq.0, it))
}

/// The input that an event records; `None` for a decision.
fn input_of(event: &Event) -> Option<Input> {
    let by = event.actor.clone();
    Some(match event.body.clone() {
        EventBody::SessionCreated(session) => Input::Create { session, by },
        EventBody::ModelReplied(it) => Input::ModelReplied(it),
        EventBody::ModelFailed(it) => Input::ModelFailed(it),
        EventBody::ToolDispatched(it) => {
            Input::WorkerReserved { call_id: it.call_id, attempt: it.attempt, worker: it.worker }
        }
        EventBody::ToolFinished(report) => Input::ToolFinished { report, worker: worker_name(&by) },
        EventBody::ToolLost(it) => Input::ToolLost(it),
        EventBody::ApprovalDecided(it) => Input::Decide(Verdict {
            approval_id: it.approval_id,
            decision: it.decision,
            reason: it.reason,
            arguments: it.arguments,
            output: it.output,
            action_digest: None,
            tool: None,
            by,
        }),
        EventBody::MessageReceived(it) => Input::Message {
            content: it.content,
            answers: it.answers,
            client_key: it.client_key,
            by,
        },
        EventBody::TimerFired(_) => Input::Wake,
        EventBody::CancelRequested(it) => Input::Cancel { reason: it.reason, by },
        EventBody::PauseRequested(it) => Input::Pause { reason: it.reason, by },
        EventBody::ResumeRequested(_) => Input::Resume { by },
        EventBody::ModelRequested(_)
        | EventBody::ToolScheduled(_)
        | EventBody::ToolRefused(_)
        | EventBody::ApprovalRequested(_)
        | EventBody::TimerStarted(_)
        | EventBody::SessionFinished(_) => return None,
    })
}

fn worker_name(by: &Actor) -> String {
    match by {
        Actor::Worker(name) => name.clone(),
        Actor::Engine | Actor::Person(_) | Actor::Model(_) => by.to_string(),
    }
}
