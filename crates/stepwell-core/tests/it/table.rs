//! Every phase against every input: what follows, as a table that is compared to a committed one.
//!
//! A change of this table is a change of behaviour. Look at each line before you accept it.

use std::fmt::Write;

use stepwell_core::event::{ApprovalDecision, Edit, ModelErrorKind, ToolOutcome};
use stepwell_core::{ApprovalId, Input, Reject, Text, decide};

use crate::world::{
    World, ada, agent, cancel, create, failure, fork, id, kinds, lost, message, never_started,
    pause, reply, report, reserved, resume, verdict, wants,
};

/// A session in every phase, and in every state that a call can rest in.
pub(crate) fn states() -> Vec<(&'static str, World)> {
    let mut states = vec![("absent", World::empty())];
    states.extend(model_states());
    states.extend(call_states());
    states.extend(held_states());
    states.extend(ended_states());
    states
}

fn interactive() -> World {
    let mut agent = agent();
    agent.interactive = true;
    let mut world = World::of(agent);
    world.answer("hello");
    world
}

fn model_states() -> Vec<(&'static str, World)> {
    let mut backoff = World::new();
    backoff.fail(ModelErrorKind::Timeout);
    vec![("thinking", World::new()), ("backoff", backoff), ("listening", interactive())]
}

fn call_states() -> Vec<(&'static str, World)> {
    let mut dispatched = World::acting(&[("pay", "{}")]);
    dispatched.reserve(id(1, 1));
    let mut retry = World::acting(&[("find", "{}")]);
    retry.lose(id(1, 1));
    let mut unknown = dispatched.clone();
    unknown.lose(id(1, 1));
    let mut expiring = agent();
    expiring.approval_expires_after_ms = Some(1_000);
    let mut asked = World::of(expiring);
    asked.calls(&[("ship", "{}")]);
    vec![
        ("acting: a read is scheduled", World::acting(&[("find", "{}")])),
        ("acting: a write is scheduled", World::acting(&[("pay", "{}")])),
        ("acting: a write is dispatched", dispatched),
        ("acting: a read waits for its retry", retry),
        ("acting: a person is asked whether it may run", asked),
        ("acting: a person is asked what happened", unknown),
        ("acting: the model asks a person", World::acting(&[("ask_user", "{}")])),
        ("acting: asleep", World::acting(&[("sleep", r#"{"seconds":60}"#)])),
    ]
}

fn held_states() -> Vec<(&'static str, World)> {
    let held = |mut world: World| {
        world.when(pause());
        world
    };
    let mut ready = held(World::acting(&[("find", "{}")]));
    ready.done(id(1, 1), "x");
    let mut proposed = held(World::new());
    proposed.calls(&[("pay", "{}")]);
    let mut approved = held(World::acting(&[("ship", "{}")]));
    approved.decided(ApprovalDecision::Approve);
    let mut unstarted = World::acting(&[("pay", "{}")]);
    unstarted.reserve(id(1, 1));
    let mut unstarted = held(unstarted);
    unstarted.when(never_started(id(1, 1), 1));
    let mut backoff = held(World::new());
    backoff.fail(ModelErrorKind::Timeout);
    let mut answered = held(World::new());
    answered.answer("done");
    vec![
        ("paused: ready", ready),
        ("paused: thinking", held(World::new())),
        ("paused: backoff", backoff),
        ("paused: a call is proposed", proposed),
        ("paused: a write is scheduled", held(World::acting(&[("pay", "{}")]))),
        ("paused: a call is approved", approved),
        ("paused: a call never started", unstarted),
        ("paused: answered", answered),
        ("paused: listening", held(interactive())),
    ]
}

fn ended_states() -> Vec<(&'static str, World)> {
    let mut cancelling = World::acting(&[("find", "{}"), ("ship", "{}")]);
    cancelling.when(cancel());
    let mut completed = World::new();
    completed.answer("done");
    let mut failed = World::new();
    failed.fail(ModelErrorKind::Unauthorized);
    let mut cancelled = World::acting(&[("find", "{}")]);
    cancelled.when(cancel());
    cancelled.wake();
    let mut limited = World::new();
    limited.fail(ModelErrorKind::ContextTooLong);
    vec![
        ("being cancelled", cancelling),
        ("completed", completed),
        ("failed", failed),
        ("cancelled, a call may still run", cancelled),
        ("limit reached", limited),
    ]
}

/// Every input, as it fits the session when it can.
fn inputs(world: &World) -> Vec<(&'static str, Input)> {
    let state = &world.state;
    let attempt = match state.phase {
        stepwell_core::state::Phase::Thinking { attempt } => attempt,
        _ => 1,
    };
    let call = state.calls.get(&id(1, 1)).map_or(1, |call| call.attempt.max(1));
    let approval = state.approvals.keys().next().copied().unwrap_or(ApprovalId(99));
    let approve = |decision| Input::Decide(verdict(approval, decision));
    let answer = Input::Message {
        content: Text::from("yes"),
        answers: Some(id(1, 1)),
        client_key: None,
        by: ada(),
    };
    vec![
        ("create", create(agent())),
        ("reply: an answer", Input::ModelReplied(reply(state.step, attempt, "x", Vec::new()))),
        (
            "reply: a call",
            Input::ModelReplied(reply(state.step, attempt, "", vec![wants("find", r#"{"z":1}"#)])),
        ),
        ("reply: an older one", Input::ModelReplied(reply(0, 1, "x", Vec::new()))),
        (
            "failure: may pass",
            Input::ModelFailed(failure(state.step, attempt, ModelErrorKind::Timeout)),
        ),
        (
            "failure: for good",
            Input::ModelFailed(failure(state.step, attempt, ModelErrorKind::Unauthorized)),
        ),
        ("worker reserved", reserved(id(1, 1), call)),
        ("tool finished", report(id(1, 1), call, ToolOutcome::Ok, "x")),
        ("tool finished: another attempt", report(id(1, 1), call + 7, ToolOutcome::Ok, "x")),
        ("tool lost", lost(id(1, 1), call)),
        ("tool lost: never started", never_started(id(1, 1), call)),
        ("approve", approve(ApprovalDecision::Approve)),
        ("deny", approve(ApprovalDecision::Deny)),
        ("it happened", approve(ApprovalDecision::Happened)),
        ("it did not happen", approve(ApprovalDecision::DidNotHappen)),
        ("it failed", approve(ApprovalDecision::Failed)),
        ("message", message("hi")),
        ("message: an answer to 1.1", answer),
        ("wake: nothing due", Input::Wake),
        ("wake: all due", Input::Wake),
        ("cancel", cancel()),
        ("pause", pause()),
        ("resume", resume()),
        ("resume: once", Input::Resume { once: true, by: ada() }),
        ("fork", fork(state, Vec::new())),
        ("fork: with a message", fork(state, vec![Edit::Message { content: Text::from("hi") }])),
    ]
}

/// The compiler says here when an input is added, and then the table above needs it.
fn variant(input: &Input) -> &'static str {
    match input {
        Input::Create { .. } => "Create",
        Input::ModelReplied(_) => "ModelReplied",
        Input::ModelFailed(_) => "ModelFailed",
        Input::WorkerReserved { .. } => "WorkerReserved",
        Input::ToolFinished { .. } => "ToolFinished",
        Input::ToolLost(_) => "ToolLost",
        Input::Decide(_) => "Decide",
        Input::Message { .. } => "Message",
        Input::Wake => "Wake",
        Input::Cancel { .. } => "Cancel",
        Input::Pause { .. } => "Pause",
        Input::Resume { .. } => "Resume",
        Input::Fork { .. } => "Fork",
    }
}

/// The name of a refusal, without what is in it.
pub(crate) fn name(reject: &Reject) -> String {
    let text = format!("{reject:?}");
    text.split([' ', '(', '{']).next().unwrap_or_default().to_string()
}

#[test]
fn the_table_of_phases_and_inputs() {
    let mut table = String::new();
    for (state, world) in states() {
        let pending: Vec<String> = world.pending().iter().map(|it| format!("{it:?}")).collect();
        let status = world.status().as_str();
        writeln!(table, "\n## {state}\nstatus {status}; pending: {}", pending.join(", ")).unwrap();
        for (input_name, input) in inputs(&world) {
            let mut then = world.clone();
            if input_name == "wake: all due" {
                then.after(1_000_000_000);
            }
            let what = match then.try_when(input) {
                Ok(decision) if decision.events.is_empty() => "nothing".to_string(),
                Ok(decision) => {
                    let status = decision.state.status().as_str();
                    format!("{} -> {status}", kinds(&decision.events).join(", "))
                }
                Err(reject) => format!("refused: {}", name(&reject)),
            };
            writeln!(table, "{input_name:<32}{what}").unwrap();
        }
    }
    insta::assert_snapshot!("phases_and_inputs", table);
}

#[test]
fn the_table_has_every_input() {
    let world = World::new();
    let seen: std::collections::BTreeSet<_> =
        inputs(&world).iter().map(|(_, input)| variant(input)).collect();
    assert_eq!(seen.len(), 13);
}

/// An input that is refused leaves no trace, and one that is refused once is refused again.
#[test]
fn a_refusal_changes_nothing() {
    for (state, world) in states() {
        for (input_name, input) in inputs(&world) {
            let now = stepwell_core::TimestampMs(world.now);
            let before = world.state.clone();
            if let Err(reject) = decide(&world.state, input.clone(), now) {
                assert_eq!(world.state, before, "{state}: {input_name}");
                assert_eq!(decide(&world.state, input, now), Err(reject.clone()));
                assert!(
                    !matches!(reject, Reject::Internal(_) | Reject::Endless),
                    "{state}: {input_name}: {reject}"
                );
            }
        }
    }
}
