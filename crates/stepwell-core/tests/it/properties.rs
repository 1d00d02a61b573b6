//! Random sessions: whatever comes, in whatever order, at whatever time, the laws hold. `World` checks
//! them at every step; here is the chance, and what holds for a whole history.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use stepwell_core::codec::encode;
use stepwell_core::decide::Verdict;
use stepwell_core::event::{
    ApprovalDecision, Edit, Event, EventBody, EventKind, Family, FinishReason, ModelErrorKind,
    ToolCall, ToolOutcome,
};
use stepwell_core::replay::replay;
use stepwell_core::spans::{SpanIndex, spans};
use stepwell_core::state::Phase;
use stepwell_core::{
    Agent, ApprovalId, CallId, Input, JsonText, Reject, SessionState, Status, Text, TimestampMs,
    decide, fold,
};

use crate::world::{
    START, World, ada, agent, bob, cancel, create, failure, fork, has_cause, id, kinds, lost,
    never_started, pause, reply, report, reserved, wants,
};

/// What comes next, before it is known what the session looks like then.
#[derive(Debug, Clone)]
struct Chance {
    what: u8,
    which: u8,
    detail: u8,
    /// Time that passes before.
    ms: u64,
    text: String,
}

fn chance() -> impl Strategy<Value = Chance> {
    let ms = prop_oneof![
        4 => Just(0),
        4 => 1..2_000_u64,
        2 => 2_000..200_000_u64,
        1 => 1_000_000..10_000_000_u64,
    ];
    (any::<u8>(), any::<u8>(), any::<u8>(), ms, "[ -~äß€😀\"\\\\\n\u{0}]{0,12}")
        .prop_map(|(what, which, detail, ms, text)| Chance { what, which, detail, ms, text })
}

fn some_agent() -> impl Strategy<Value = Agent> {
    let limits = (1..40_u32, proptest::option::of(1..5_000_000_u64), 0..9_u32, 1..4_u32, 1..4_u32);
    (limits, any::<bool>(), proptest::option::of(1..300_000_u64), 20..2_000_u32).prop_map(
        |((steps, deadline, window, count, attempts), interactive, expiry, observation)| {
            let mut agent = agent();
            agent.limits.steps_max = steps;
            agent.limits.deadline_ms = deadline;
            agent.limits.repeat_window = window;
            agent.limits.repeat_count = count + 1;
            agent.limits.tool_attempts_max = attempts;
            agent.limits.observation_bytes_max = observation;
            agent.interactive = interactive;
            agent.approval_expires_after_ms = expiry;
            agent
        },
    )
}

/// Turns chance into an input that often fits and sometimes does not.
fn input(world: &World, chance: &Chance) -> Input {
    let (step, attempt) = match world.state.phase {
        Phase::Thinking { attempt } => (world.state.step, attempt),
        _ => (world.state.step + u32::from(chance.detail % 2), 1),
    };
    let (call_id, call_attempt) = some_call(world, chance);
    match chance.what % 16 {
        0..=3 => Input::ModelReplied(some_reply(step, attempt, chance)),
        4 => Input::ModelFailed(failure(step, attempt, some_error(chance.detail))),
        5 | 6 => reserved(call_id, call_attempt),
        7 | 8 => {
            let outcome =
                if chance.detail.is_multiple_of(4) { ToolOutcome::Error } else { ToolOutcome::Ok };
            report(call_id, call_attempt, outcome, &chance.text)
        }
        9 if chance.detail.is_multiple_of(3) => never_started(call_id, call_attempt),
        9 => lost(call_id, call_attempt),
        10 | 11 => Input::Decide(some_verdict(world, chance)),
        12 => Input::Message {
            content: Text::from(chance.text.as_str()),
            answers: (chance.detail.is_multiple_of(5)).then_some(call_id),
            client_key: (chance.detail.is_multiple_of(3))
                .then(|| format!("key {}", chance.which % 4)),
            by: bob(),
        },
        13 => Input::Wake,
        14 if chance.detail.is_multiple_of(8) => cancel(),
        14 => pause(),
        _ if chance.detail.is_multiple_of(32) => create(agent()),
        _ if chance.detail % 16 == 1 => fork(&world.state, some_edits(call_id, chance)),
        _ => Input::Resume { once: chance.which.is_multiple_of(3), by: bob() },
    }
}

fn some_call(world: &World, chance: &Chance) -> (CallId, u32) {
    let count = world.state.calls.len();
    let known = world.state.calls.iter().nth(usize::from(chance.which) % count.max(1));
    let given_up = world.state.given_up.iter().next();
    match (known, given_up) {
        (Some((call_id, call)), _) if !chance.detail.is_multiple_of(8) => (*call_id, call.attempt),
        (_, Some((call_id, attempt))) => (*call_id, *attempt),
        (Some((call_id, call)), None) => (*call_id, call.attempt + 1),
        (None, None) => (id(1, 1), 1),
    }
}

fn some_reply(step: u32, attempt: u32, chance: &Chance) -> stepwell_core::event::ModelReplied {
    let count = chance.which % 4;
    let calls: Vec<ToolCall> = (0..count).map(|n| some_wish(chance, n)).collect();
    let mut reply = reply(step, attempt, &chance.text, calls);
    match chance.detail % 16 {
        0 => reply.finish_reason = FinishReason::Length,
        1 => reply.finish_reason = FinishReason::ContentFilter,
        2 => reply.finish_reason = FinishReason::Stop,
        _ => {}
    }
    reply
}

fn some_wish(chance: &Chance, n: u8) -> ToolCall {
    let number = chance.detail.wrapping_mul(7).wrapping_add(n.wrapping_mul(31));
    let text = serde_json::Value::from(chance.text.as_str());
    let (tool, arguments) = match number % 12 {
        0 | 1 => ("find", format!("{{\"box\": {number}, \"note\":{text}}}")),
        2 => ("put", format!("{{\"box\":{number}}}")),
        3 | 4 => ("pay", format!("{{\"order\":{number}}}")),
        5 => ("ship", format!("{{\"order\":{number}}}")),
        6 => ("shell", format!("{{\"command\":{text}}}")),
        7 => ("erase", "{}".to_string()),
        8 => ("ask_user", format!("{{\"question\":{text}}}")),
        9 => ("sleep", format!("{{\"seconds\":{}}}", i64::from(number) - 20)),
        10 => ("fly", "{}".to_string()),
        _ => ("find", chance.text.clone()),
    };
    let mut call = wants(tool, &arguments);
    if number.is_multiple_of(5) {
        call.wire_id = format!("call_{}", number % 3);
    }
    if number % 12 == 11 {
        call.problem = Some("no JSON".into());
    }
    call
}

fn some_error(detail: u8) -> ModelErrorKind {
    match detail % 12 {
        0 => ModelErrorKind::ContextTooLong,
        1 => ModelErrorKind::BadRequest,
        2..=5 => ModelErrorKind::RateLimited,
        _ => ModelErrorKind::Timeout,
    }
}

fn some_verdict(world: &World, chance: &Chance) -> Verdict {
    let count = world.state.approvals.len();
    let open = world.state.approvals.iter().nth(usize::from(chance.which) % count.max(1));
    let closed = world.state.closed_approvals.keys().next().copied();
    let approval_id =
        open.map(|(id, _)| *id).or(closed).unwrap_or(ApprovalId(u64::from(chance.which)));
    let happened =
        open.is_some_and(|(_, it)| it.question == stepwell_core::event::Question::WhatHappened);
    let decision = match (happened, chance.detail % 7) {
        (false, 0 | 1) => ApprovalDecision::Deny,
        (false, 2) => ApprovalDecision::ApproveForSession,
        (false, 3) | (true, 4) => ApprovalDecision::Happened,
        (true, 0 | 1) => ApprovalDecision::DidNotHappen,
        (true, 2 | 3) => ApprovalDecision::Failed,
        (true | false, _) => ApprovalDecision::Approve,
    };
    let edited =
        (chance.detail.is_multiple_of(11)).then(|| JsonText::parse(r#"{"edited":true}"#).unwrap());
    Verdict {
        approval_id,
        decision,
        reason: chance.text.clone(),
        arguments: edited,
        output: (decision == ApprovalDecision::Happened).then(|| Text::from(chance.text.as_str())),
        action_digest: None,
        tool: (chance.detail % 9 == 1).then(|| "refund".to_string()),
        by: if chance.which.is_multiple_of(2) { ada() } else { bob() },
    }
}

/// Often none, and not always one that fits.
fn some_edits(call_id: CallId, chance: &Chance) -> Vec<Edit> {
    let text = Text::from(chance.text.as_str());
    match chance.which % 6 {
        0 => vec![Edit::ToolResult { call_id, outcome: ToolOutcome::Ok, output: text }],
        1 => vec![Edit::Arguments { call_id, arguments: JsonText::empty_object() }],
        2 => vec![Edit::Message { content: text }],
        3 => vec![Edit::ModelReply(Box::new(some_reply(call_id.step, 1, chance)))],
        _ => Vec::new(),
    }
}

/// An input with its time, as a replay needs it.
type Taken = (Input, u64);

/// Plays chance on a session; returns it with the inputs that were taken.
fn play(agent: Agent, chances: &[Chance]) -> (World, Vec<Taken>) {
    let mut world = World::empty();
    let first = create(agent);
    let mut taken = vec![(first.clone(), START)];
    world.when(first);
    for chance in chances {
        world.now += chance.ms;
        let input = input(&world, chance);
        match world.try_when(input.clone()) {
            Ok(decision) if decision.events.is_empty() => {}
            Ok(_) => taken.push((input, world.now)),
            Err(reject) => assert!(
                !matches!(reject, Reject::Internal(_) | Reject::Endless),
                "a legal state and an input led to a bug: {reject}"
            ),
        }
    }
    (world, taken)
}

proptest! {
    #[test]
    fn the_laws_hold_in_every_session(
        agent in some_agent(),
        chances in proptest::collection::vec(chance(), 1..60),
    ) {
        let (world, taken) = play(agent, &chances);
        let folded = fold(SessionState::default(), &world.events).unwrap();
        prop_assert_eq!(&folded, &world.state);
        prop_assert!(has_cause(&world.state));
        check_cache(&world);
        check_replay(&world, &taken);
        check_size(&world);
        check_starts(&world);
        check_spans(&world);
    }
}

/// The chance above is of no use when it never gets anywhere: together a few hundred random sessions
/// see every kind of event, every status and every refusal that is not a bug.
#[test]
fn chance_gets_everywhere() {
    let mut runner = TestRunner::deterministic();
    let sessions = (some_agent(), proptest::collection::vec(chance(), 1..60));
    let mut seen = BTreeSet::new();
    for _ in 0..400 {
        let (agent, chances) = sessions.new_tree(&mut runner).unwrap().current();
        let mut world = World::of(agent);
        for chance in &chances {
            world.now += chance.ms;
            match world.try_when(input(&world, chance)) {
                Ok(_) => seen.insert(world.status().as_str().to_string()),
                Err(reject) => seen.insert(crate::table::name(&reject)),
            };
        }
        seen.extend(kinds(&world.events).into_iter().map(String::from));
    }
    let statuses = Status::ALL.map(Status::as_str).into_iter();
    let kinds = EventKind::ALL.iter().map(|kind| kind.as_str());
    let refusals = [
        "AlreadyExists",
        "Finished",
        "NotAsked",
        "NotRunning",
        "MayNotStart",
        "UnknownApproval",
        "AlreadyDecided",
        "ApprovalExpired",
        "WrongAnswer",
        "ActionChanged",
        "NoQuestion",
    ];
    // No session is created and then waits to be asked; a store quarantines, not a decision.
    let never = ["pending", "quarantined"];
    for wanted in statuses.chain(kinds).chain(refusals).filter(|it| !never.contains(it)) {
        assert!(seen.contains(wanted), "never seen: {wanted}");
    }
}

/// A cached state is the state, down to the bytes of the next request.
fn check_cache(world: &World) {
    let json = serde_json::to_string(&world.state).unwrap();
    let cached: SessionState = serde_json::from_str(&json).unwrap();
    assert_eq!(cached, world.state);
    assert_eq!(serde_json::to_string(&cached).unwrap(), json);
    assert_eq!(cached.prompt.body(), world.state.prompt.body());
    assert_eq!(cached.prompt.digest(), world.state.prompt.digest());
    assert_eq!(cached.prompt.messages(), world.state.prompt.messages());
}

/// The same inputs at the same times make the same history, byte for byte.
fn check_replay(world: &World, taken: &[Taken]) {
    let mut state = SessionState::default();
    let mut events = Vec::new();
    for (input, at) in taken {
        let decision = decide(&state, input.clone(), TimestampMs(*at)).unwrap();
        state = decision.state;
        events.extend(decision.events);
    }
    assert_eq!(events, world.events);
    let replayed = replay(events).unwrap();
    assert_eq!(replayed, world.state);
}

/// What the engine adds to what came from outside is bounded for each event, so history grows with
/// what is new and not with what was before.
fn check_size(world: &World) {
    const DECISION_BYTES_MAX: usize = 512;
    for event in &world.events {
        let bytes = encode(&event.body).unwrap().len();
        if event.body.kind().family() == Family::Decision {
            assert!(bytes <= DECISION_BYTES_MAX, "{bytes} bytes: {event:?}");
        }
    }
    let calls = wished(&world.events);
    let count = |family| world.events.iter().filter(|it| it.body.kind().family() == family).count();
    let bound = 2 * count(Family::Input) + 3 * calls;
    assert!(count(Family::Decision) <= bound, "{} decisions", count(Family::Decision));
}

/// How many calls were asked for. A fork asks for what its edits have the model say, and anew for the
/// calls that were open, which are of the last step.
fn wished(events: &[Event]) -> usize {
    let (mut total, mut last_step) = (0, 0);
    for event in events {
        match &event.body {
            EventBody::ModelReplied(it) => {
                last_step = it.tool_calls.len();
                total += last_step;
            }
            EventBody::OverrideApplied(it) => {
                for edit in &it.edits {
                    if let Edit::ModelReply(reply) = edit {
                        last_step = reply.tool_calls.len();
                    }
                }
                total += last_step;
            }
            _ => {}
        }
    }
    total
}

/// A write is started again only after a person said that it did not happen, or its worker that it
/// never began; and nothing starts after a cancel or the end.
fn check_starts(world: &World) {
    let agent = world.state.agent().unwrap();
    let mut started: Vec<CallId> = Vec::new();
    let mut writes: Vec<CallId> = Vec::new();
    let mut is_cancelled = false;
    for event in &world.events {
        match &event.body {
            EventBody::ModelReplied(it) => {
                let may_not_repeat = |call: &&ToolCall| {
                    agent.tool(&call.name).is_some_and(|tool| !tool.effect.may_repeat())
                };
                writes.extend(it.tool_calls.iter().filter(may_not_repeat).map(|it| it.call_id));
            }
            EventBody::ToolDispatched(it) => {
                let is_again = started.contains(&it.call_id) && writes.contains(&it.call_id);
                assert!(!is_again, "started twice: {}", it.call_id);
                assert!(!is_cancelled, "started after a cancel: {}", it.call_id);
                started.push(it.call_id);
            }
            EventBody::ToolLost(it) if it.never_started => {
                started.retain(|call_id| *call_id != it.call_id);
            }
            EventBody::ApprovalDecided(it) if it.decision == ApprovalDecision::DidNotHappen => {
                started.retain(|call_id| *call_id != it.call_id);
            }
            EventBody::ModelRequested(_) | EventBody::ToolScheduled(_) => {
                assert!(!is_cancelled, "begun after a cancel");
            }
            EventBody::CancelRequested(_) => is_cancelled = true,
            // What began and what was cancelled was another session's.
            EventBody::OverrideApplied(_) => {
                started.clear();
                is_cancelled = false;
            }
            _ => {}
        }
    }
}

/// The span tree is whole for every history and for every part of one.
fn check_spans(world: &World) {
    let tree = spans(&world.events);
    crate::spans::check_tree(&tree);
    assert_eq!(tree[0].last_seq, world.state.head);
    assert_eq!(tree[0].end.is_some(), world.state.is_finished());
    let open = tree.iter().filter(|span| span.end.is_none()).count();
    assert_eq!(open > 0, !world.state.is_finished());
    let mut shuffled: Vec<_> = world.events.iter().rev().collect();
    crate::spans::check_tree(&spans(shuffled.iter().copied()));
    shuffled.rotate_left(world.events.len() / 3);
    crate::spans::check_tree(&spans(shuffled.into_iter().skip(1)));
    let index = SpanIndex::of(&world.events);
    crate::span_index::check_index(&index);
    crate::span_index::check_seqs(&index, &world.events);
    let mut one_by_one = SpanIndex::default();
    world.events.iter().for_each(|event| one_by_one.push(event));
    assert_eq!(one_by_one.rows(0, u32::MAX), index.rows(0, u32::MAX));
    crate::span_index::check_index(&one_by_one);
}
