//! Everything goes on by itself after a restart, and nothing is done twice.

use stepwell_core::event::{ApprovalDecision, EventBody, EventKind};
use stepwell_core::tokens::Tokens;
use stepwell_core::{Agent, SessionId, Status};
use stepwell_ports::memory::FaultTime;
use stepwell_sim::agents::{LOOK, NOTE, PAY, PUT, agent};
use stepwell_sim::fleet::CallPlan;
use stepwell_sim::model::{Act, Say, call};
use stepwell_sim::{World, people};

use crate::help::{C1, count, kinds, open_approval, steps, tool_outputs};

/// One call of `tool`, then the answer.
fn one_call(tool: &str) -> Vec<Say> {
    vec![call(&[(tool, "{\"n\":1}")])]
}

/// Runs a session on a node that dies at its `nth` append, then on another node.
async fn crash_and_go_on(world: &World, agent: &Agent, nth: u64, time: FaultTime) -> SessionId {
    let first = world.start("n1");
    let session_id = first.create(agent).await.unwrap();
    // Creating was the first append.
    first.store.crash_at_append(nth - 1, time);
    first.gate.died().await;
    world.start("n2");
    session_id
}

#[tokio::test(start_paused = true)]
async fn du01_a_finished_call_is_not_run_again() {
    let world = World::new(1);
    world.model.play(steps(one_call(LOOK)));
    let session_id = crash_and_go_on(&world, &agent(), 3, FaultTime::AfterEffect).await;
    world.until_status(session_id, Status::Completed).await;
    assert_eq!(world.fleet.starts_of(session_id, C1), 1);
    let asks = world.model.asks_of(session_id);
    let steps: Vec<u32> = asks.iter().map(|ask| ask.asked.step).collect();
    assert_eq!(steps, [1, 2], "the recorded reply is not asked for again");
    assert!(asks[1].body.contains("\"content\":\"ok\""), "the request has the result");
}

/// The tokens of a session are in its events: whoever goes on with it knows where its prefix ends.
#[tokio::test(start_paused = true)]
async fn the_tokens_of_the_last_reply_are_known_after_a_restart() {
    let world = World::new(2);
    let mut first = call(&[(LOOK, "{\"n\":1}")]);
    let Act::Answer(answer) = &mut first.act else { panic!("the model answers") };
    answer.tokens = Some(Box::new(Tokens::default().reply(&[1, 2], &[3])));
    world.model.play(steps(vec![first]));
    let mut agent = agent();
    agent.model.token_ids = true;
    let session_id = crash_and_go_on(&world, &agent, 3, FaultTime::AfterEffect).await;
    world.until_status(session_id, Status::Completed).await;
    let asks = world.model.asks_of(session_id);
    let known: Vec<&[u32]> = asks.iter().map(|ask| ask.tokens.as_slice()).collect();
    assert_eq!(known, [&[][..], &[1, 2, 3]]);
    assert!(asks[1].body.contains("\"return_token_ids\":true"), "{}", asks[1].body);
}

#[tokio::test(start_paused = true)]
async fn du03_a_started_call_whose_outcome_is_unknown_becomes_a_question() {
    for (decision, starts) in [
        (ApprovalDecision::Happened, 1),
        (ApprovalDecision::Failed, 1),
        (ApprovalDecision::DidNotHappen, 2),
    ] {
        let world = World::new(3);
        world.model.play(steps(one_call(NOTE)));
        world.fleet.play(|_, before| CallPlan::ok(if before == 0 { 60_000 } else { 10 }));
        let first = world.start("n1");
        let session_id = first.create(&agent()).await.unwrap();
        assert!(world.until_ms(1_000, async || world.fleet.running() == 1).await);
        first.crash();
        world.fleet.kill_worker("w1");
        world.fleet.add_worker("w2", 1, None);
        let second = world.start("n2");
        world.until_status(session_id, Status::WaitingApproval).await;
        world.pass_ms(3_600_000).await;
        assert_eq!(world.fleet.starts_of(session_id, C1), 1, "no second payment by itself");
        let approval_id = open_approval(&world, session_id).await;
        second.submit(session_id, people::decide(approval_id, decision)).await.unwrap();
        world.until_status(session_id, Status::Completed).await;
        assert_eq!(world.fleet.starts_of(session_id, C1), starts, "{decision:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn du05_a_decided_call_that_was_not_started_runs_once() {
    for tool in [LOOK, PUT, NOTE] {
        let world = World::new(5);
        world.model.play(steps(one_call(tool)));
        let session_id = crash_and_go_on(&world, &agent(), 2, FaultTime::AfterEffect).await;
        world.until_status(session_id, Status::Completed).await;
        assert_eq!(world.fleet.starts_of(session_id, C1), 1, "{tool}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dispatched_call_that_its_worker_never_saw_runs_once() {
    let world = World::new(5);
    world.model.play(steps(one_call(NOTE)));
    let session_id = crash_and_go_on(&world, &agent(), 2, FaultTime::AfterEffect).await;
    world.until_status(session_id, Status::Completed).await;
    assert_eq!(count(&world, session_id, EventKind::ToolDispatched).await, 2);
    assert_eq!(world.fleet.starts_of(session_id, C1), 1);
}

#[tokio::test(start_paused = true)]
async fn du06_an_unrecorded_reply_is_asked_for_again_byte_for_byte() {
    let world = World::new(6);
    world.model.play(steps(one_call(LOOK)));
    let session_id = crash_and_go_on(&world, &agent(), 2, FaultTime::BeforeEffect).await;
    world.until_status(session_id, Status::Completed).await;
    let asks = world.model.asks_of(session_id);
    assert_eq!(asks.iter().map(|it| it.asked.step).collect::<Vec<_>>(), [1, 1, 2]);
    assert_eq!(asks[0].body, asks[1].body);
    let log = world.log(session_id).await;
    let digests = log.iter().filter_map(|event| match &event.body {
        EventBody::ModelRequested(it) => Some(it.prompt_digest.clone()),
        _ => None,
    });
    assert_eq!(digests.collect::<Vec<_>>(), [asks[0].digest.clone(), asks[2].digest.clone()]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_runs_on_or_ended_meanwhile_is_followed_and_not_started_again() {
    for down_ms in [100, 60_000] {
        let world = World::new(7);
        world.model.play(steps(one_call(NOTE)));
        world.fleet.play(|_, _| CallPlan::ok(30_000));
        let first = world.start("n1");
        let session_id = first.create(&agent()).await.unwrap();
        assert!(world.until_ms(1_000, async || world.fleet.running() == 1).await);
        first.crash();
        world.pass_ms(down_ms).await;
        world.start("n2");
        world.until_status(session_id, Status::Completed).await;
        assert_eq!(world.fleet.starts_of(session_id, C1), 1);
        assert_eq!(tool_outputs(&world, session_id).await, ["ok"]);
    }
}

#[tokio::test(start_paused = true)]
async fn du17_a_kill_while_loading_changes_nothing() {
    let world = World::new(17);
    world.model.play(steps(one_call(LOOK)));
    let first = world.start("n1");
    let session_id = first.create(&agent()).await.unwrap();
    first.store.crash_at_append(2, FaultTime::AfterEffect);
    first.gate.died().await;
    let before = world.log(session_id).await;
    world.sky.weather().latency_ms_max = 50;
    for round in 0..20 {
        let node = world.start(&format!("short{round}"));
        world.pass_ms(round * 7).await;
        node.crash();
        assert_eq!(world.log(session_id).await, before);
    }
    world.start("last");
    world.until_status(session_id, Status::Completed).await;
    assert_eq!(world.fleet.starts_of(session_id, C1), 1);
}

/// Everything that a session can meet, for the matrix.
fn rich() -> Vec<Say> {
    vec![
        call(&[(LOOK, "{\"n\":1}"), (NOTE, "{\"n\":2}"), ("nosuch", "{}"), (PUT, "{\"n\":true}")]),
        call(&[(PAY, "{\"n\":3}"), ("sleep", "{\"seconds\":3}")]),
        call(&[(PUT, "{\"n\":4}"), ("ask_user", "{\"question\":\"why?\"}")]),
    ]
}

/// Plays the person of the rich session until it is done.
async fn attend(world: &World, node: &stepwell_sim::Node, session_id: SessionId) -> bool {
    let state = world.state(session_id).await;
    if let Some((approval_id, approval)) = state.approvals.iter().next() {
        let decision = match approval.question {
            stepwell_core::event::Question::MayRun => ApprovalDecision::Approve,
            stepwell_core::event::Question::WhatHappened => ApprovalDecision::Happened,
        };
        // The node may die in the middle: then the next one is told again.
        let input = people::decide(*approval_id, decision);
        world.until_ms(500, async || node.submit(session_id, input.clone()).await.is_ok()).await;
    } else if state.status() == Status::WaitingInput {
        world
            .until_ms(500, async || {
                node.submit(session_id, people::message("because")).await.is_ok()
            })
            .await;
    }
    state.is_finished()
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_append_changes_nothing_but_attempts() {
    let mut expected: Option<Vec<&str>> = None;
    for nth in 0..60 {
        for time in [FaultTime::BeforeEffect, FaultTime::AfterEffect] {
            let world = World::new(nth);
            world.model.play(steps(rich()));
            let mut node = world.start("n0");
            let session_id = node.create(&agent()).await.unwrap();
            if nth > 0 {
                node.store.crash_at_append(nth, time);
            }
            let mut rounds = 0;
            while !attend_or_die(&world, &node, session_id).await {
                rounds += 1;
                assert!(rounds < 1_000, "{nth} {time:?}: {:#?}", world.log(session_id).await);
                world.pass_ms(100).await;
                if node.gate.life() == stepwell_sim::gate::Life::Dead {
                    node = world.start(&format!("n{rounds}"));
                }
            }
            let mut found = kinds(&world, session_id).await;
            // What a crash may add: another attempt of a call that never began.
            if count(&world, session_id, EventKind::ToolLost).await > 0 {
                for kind in ["tool_lost", "tool_scheduled", "tool_dispatched"] {
                    let at = found.iter().position(|it| *it == kind).unwrap();
                    found.remove(at);
                }
            }
            found.sort_unstable();
            assert_eq!(*expected.get_or_insert_with(|| found.clone()), found, "{nth} {time:?}");
            for start in world.fleet.starts() {
                let (_, call_id, _) = start.attempt;
                let starts = world.fleet.starts_of(session_id, call_id);
                assert!(starts == 1 || start.effect.may_repeat(), "{start:?} at {nth} {time:?}");
            }
        }
    }
}

async fn attend_or_die(world: &World, node: &stepwell_sim::Node, session_id: SessionId) -> bool {
    tokio::select! {
        biased;
        () = node.gate.died() => false,
        is_done = attend(world, node, session_id) => is_done,
    }
}
