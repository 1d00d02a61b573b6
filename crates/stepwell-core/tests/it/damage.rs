//! Histories that no release writes: they are refused, and the state is as it was.

use stepwell_core::event::{
    Actor, ApprovalDecided, ApprovalDecision, ApprovalRequested, EventBody, MessageReceived,
    ModelRequested, Question, RefusalReason, Timer, TimerFired, TimerStarted, ToolDispatched,
    ToolFinished, ToolLost, ToolOutcome, ToolRefused, ToolScheduled,
};
use stepwell_core::text::BlobRef;
use stepwell_core::{ApprovalId, Event, Seq, SessionState, Text, TimestampMs, apply};

use crate::golden::samples;
use crate::world::{World, cancel, id, pause, reply, session_created, wants};

/// Applies an event that does not fit and returns why not.
#[track_caller]
fn damaged(world: &World, body: impl Into<EventBody>) -> String {
    let seq = world.state.head.next();
    let event = Event {
        seq,
        time: TimestampMs(world.now),
        cause: seq,
        actor: Actor::Engine,
        body: body.into(),
    };
    let mut state = world.state.clone();
    let refusal = apply(&mut state, &event).expect_err("the event does not fit");
    assert_eq!(state, world.state, "a refused event changes nothing");
    assert_eq!(refusal.seq, seq);
    assert_eq!(refusal.kind, event.body.kind().as_str());
    refusal.reason
}

#[test]
fn a_session_begins_once_and_ends_once() {
    let absent = World::empty();
    let reason = damaged(&absent, reply(1, 1, "", Vec::new()));
    assert_eq!(reason, "the session does not begin with session_created");
    let world = World::new();
    let reason = damaged(&world, session_created(crate::world::agent()));
    assert_eq!(reason, "the session exists already");
    let mut done = World::new();
    done.answer("done");
    assert_eq!(damaged(&done, reply(2, 1, "", Vec::new())), "the session is finished");
    let late = ToolFinished { late: true, ..finished(1, 1) };
    assert_eq!(damaged(&done, late), "call 1.1 attempt 1 is not late");
}

fn finished(index: u32, attempt: u32) -> ToolFinished {
    ToolFinished {
        call_id: id(1, index),
        attempt,
        outcome: ToolOutcome::Ok,
        output: Text::from("x"),
        full_output: None,
        late: false,
        duration_ms: 0,
    }
}

#[test]
fn the_seq_must_be_the_next() {
    let world = World::new();
    let mut event = world.events[1].clone();
    for seq in [0, 1, 2, 4, u64::MAX] {
        event.seq = Seq(seq);
        let mut state = world.state.clone();
        let refusal = apply(&mut state, &event).unwrap_err();
        assert_eq!(refusal.reason, "it follows event 2");
        assert_eq!(state, world.state);
    }
}

#[test]
fn model_events_fit_the_open_request() {
    let world = World::new();
    for (step, attempt) in [(1, 2), (2, 1)] {
        let reason = damaged(&world, reply(step, attempt, "", Vec::new()));
        assert_eq!(reason, format!("step {step} attempt {attempt} was not asked"));
    }
    let request = |step, attempt| ModelRequested {
        step,
        attempt,
        prompt_digest: String::new(),
        prompt_bytes: 0,
        fallback: None,
    };
    assert_eq!(damaged(&world, request(2, 1)), "step 2 attempt 1 is not due");
    let mut backoff = World::new();
    backoff.fail(stepwell_core::event::ModelErrorKind::Timeout);
    for (step, attempt) in [(1, 1), (1, 3), (2, 1), (2, 2)] {
        damaged(&backoff, request(step, attempt));
    }
    let mut ready = World::acting(&[("find", "{}")]);
    ready.when(pause());
    ready.done(id(1, 1), "x");
    for (step, attempt) in [(1, 1), (1, 2), (2, 2), (3, 1)] {
        damaged(&ready, request(step, attempt));
    }
}

#[test]
fn call_ids_are_those_of_the_reply() {
    let world = World::new();
    for ids in [vec![id(1, 2)], vec![id(2, 1)], vec![id(1, 1), id(1, 1)], vec![id(1, 1), id(1, 3)]]
    {
        let calls = ids
            .into_iter()
            .map(|call_id| {
                let mut call = wants("find", "{}");
                call.call_id = call_id;
                call
            })
            .collect();
        let reason = damaged(&world, reply(1, 1, "", calls));
        assert!(reason.ends_with("is not of this reply"), "{reason}");
    }
}

#[test]
fn tool_events_fit_the_call() {
    let world = World::acting(&[("find", "{}"), ("ship", "{}")]);
    let scheduled =
        |index, attempt| ToolScheduled { call_id: id(1, index), attempt, approval_id: None };
    damaged(&world, scheduled(1, 2));
    damaged(&world, scheduled(2, 1));
    damaged(&world, scheduled(3, 1));
    let dispatched = |index, attempt| ToolDispatched {
        call_id: id(1, index),
        attempt,
        worker: "w1".into(),
        approval_id: None,
    };
    damaged(&world, dispatched(1, 2));
    damaged(&world, dispatched(2, 1));
    damaged(&world, finished(1, 2));
    damaged(&world, finished(2, 0));
    damaged(&world, finished(9, 1));
    damaged(&world, ToolFinished { late: true, ..finished(1, 1) });
    let lost =
        ToolLost { call_id: id(1, 2), attempt: 0, reason: String::new(), never_started: false };
    damaged(&world, lost);
    let refused =
        ToolRefused { call_id: id(1, 1), reason: RefusalReason::Denied, message: String::new() };
    damaged(&world, refused);
}

#[test]
fn a_late_report_is_of_the_attempt_that_was_given_up() {
    let mut world = World::acting(&[("find", "{}")]);
    world.when(cancel());
    world.after(20_000).when(stepwell_core::Input::Wake);
    damaged(&world, ToolFinished { late: true, ..finished(1, 2) });
    damaged(&world, ToolFinished { late: true, ..finished(2, 1) });
    damaged(&world, finished(1, 1));
}

#[test]
fn approval_events_fit_the_question() {
    let world = World::acting(&[("ship", "{}")]);
    let decided = |approval_id, index, decision| ApprovalDecided {
        approval_id,
        call_id: id(1, index),
        decision,
        reason: String::new(),
        arguments: None,
        output: None,
    };
    let open = world.approval();
    damaged(&world, decided(ApprovalId(99), 1, ApprovalDecision::Approve));
    damaged(&world, decided(open, 2, ApprovalDecision::Approve));
    damaged(&world, decided(open, 1, ApprovalDecision::Happened));
    let asked = ApprovalRequested {
        approval_id: ApprovalId(world.state.head.0 + 1),
        call_id: id(1, 1),
        question: Question::MayRun,
        action_digest: String::new(),
        rule: String::new(),
        expires_at: None,
    };
    damaged(&world, asked.clone());
    damaged(&world, ApprovalRequested { approval_id: ApprovalId(1), ..asked.clone() });
    damaged(&world, ApprovalRequested { call_id: id(1, 9), ..asked });
}

#[test]
fn timer_and_message_events_fit_the_state() {
    let world = World::acting(&[("find", "{}")]);
    for timer in [
        Timer::ModelRetry,
        Timer::ToolRetry(id(1, 1)),
        Timer::Sleep(id(1, 1)),
        Timer::Sleep(id(9, 9)),
    ] {
        damaged(&world, TimerStarted { timer, due_at: TimestampMs(0) });
        damaged(&world, TimerFired { timer, due_at: TimestampMs(0) });
    }
    damaged(&world, TimerFired { timer: Timer::Deadline, due_at: TimestampMs(0) });
    let answer = MessageReceived {
        content: Text::from("x"),
        answers: Some(id(1, 1)),
        client_key: Some("k".into()),
    };
    damaged(&world, answer);
}

/// A payload that was left in the blob table: the reader forgot to attach it.
#[test]
fn detached_payloads_are_refused() {
    let detached = || Text::Detached(BlobRef { blob: "ab".into(), bytes: 9, preview: "x".into() });
    let reason = "a payload was left in the blob table";
    let mut created = session_created(crate::world::agent());
    created.task = detached();
    assert_eq!(damaged(&World::empty(), created), reason);
    let world = World::new();
    let mut content = reply(1, 1, "", Vec::new());
    content.content = detached();
    assert_eq!(damaged(&world, content), reason);
    let mut call = wants("find", "{}");
    call.call_id = id(1, 1);
    call.arguments = detached();
    assert_eq!(damaged(&world, reply(1, 1, "", vec![call])), reason);
    let message =
        MessageReceived { content: detached(), answers: None, client_key: Some("k".into()) };
    assert_eq!(damaged(&world, message), reason);
    let acting = World::acting(&[("find", "{}")]);
    assert_eq!(damaged(&acting, ToolFinished { output: detached(), ..finished(1, 1) }), reason);
    let mut unknown = World::acting(&[("pay", "{}")]);
    unknown.reserve(id(1, 1));
    unknown.lose(id(1, 1));
    let decided = ApprovalDecided {
        approval_id: unknown.approval(),
        call_id: id(1, 1),
        decision: ApprovalDecision::Happened,
        reason: String::new(),
        arguments: None,
        output: Some(detached()),
    };
    assert_eq!(damaged(&unknown, decided), reason);
    let mut reasoning = reply(1, 1, "", Vec::new());
    reasoning.reasoning = detached();
    let seq = world.state.head.next();
    let event = Event {
        seq,
        time: TimestampMs(0),
        cause: seq,
        actor: Actor::Engine,
        body: reasoning.into(),
    };
    let state: &mut SessionState = &mut world.state.clone();
    assert!(apply(state, &event).is_ok(), "what the model thought is never shown to it again");
}

/// Whatever is read from a damaged store: an event fits, or nothing changes. Never a panic.
#[test]
fn any_event_in_any_state_fits_or_changes_nothing() {
    let mut states = vec![World::empty(), World::new()];
    for world in crate::table::states() {
        states.push(world.1);
    }
    let bodies: Vec<EventBody> = samples().into_iter().map(|(_, body)| body).collect();
    for world in &states {
        for body in &bodies {
            let seq = world.state.head.next();
            let event = Event {
                seq,
                time: TimestampMs(world.now),
                cause: seq,
                actor: Actor::Engine,
                body: body.clone(),
            };
            let mut state = world.state.clone();
            if apply(&mut state, &event).is_err() {
                assert_eq!(state, world.state, "{event:?}");
            } else {
                assert_eq!(state.head, seq);
            }
        }
    }
}
