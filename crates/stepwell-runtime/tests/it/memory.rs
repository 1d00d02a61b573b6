//! A session that waits is a row: no memory, no polling.

use stepwell_core::Status;
use stepwell_core::event::{ApprovalDecision, EventKind};
use stepwell_runtime::EngineOptions;
use stepwell_sim::agents::{LOOK, PAY, agent};
use stepwell_sim::model::call;
use stepwell_sim::{World, people};

use crate::help::{count, open_approval, steps};

#[tokio::test(start_paused = true)]
async fn a_thousand_waiting_sessions_hold_no_memory_and_nobody_polls() {
    let world = World::new(1);
    world.model.play(steps(vec![call(&[(PAY, "{}")])]));
    let node = world.start("n1");
    let mut sessions = Vec::new();
    for _ in 0..1_000 {
        sessions.push(node.create(&agent()).await.unwrap());
    }
    assert!(world.until_ms(60_000, async || node.engine.active_sessions() == 0).await);
    world.pass_ms(20_000).await;
    let before = node.store.calls();
    world.pass_ms(100_000).await;
    let after = node.store.calls();
    // Signs of life come every ten seconds; with each the scheduler looks once.
    assert!((10..=11).contains(&(after["beat"] - before["beat"])));
    for (name, calls) in &after {
        let more = calls - before.get(name).copied().unwrap_or(0);
        assert!(more <= 11, "{name} was called {more} times");
    }
    assert_eq!(node.engine.active_sessions(), 0);
    let approval_id = open_approval(&world, sessions[500]).await;
    let input = people::decide(approval_id, ApprovalDecision::Approve);
    node.submit(sessions[500], input).await.unwrap();
    world.until_status(sessions[500], Status::Completed).await;
}

#[tokio::test(start_paused = true)]
async fn more_sessions_than_fit_wait_for_their_turn_and_all_end() {
    let world = World::new(2);
    world.model.play(steps(vec![call(&[(LOOK, "{}")])]));
    let options = EngineOptions { active_sessions_max: 10, ..EngineOptions::for_node("n1") };
    let node = world.start_with(options, 0);
    let mut sessions = Vec::new();
    for _ in 0..300 {
        sessions.push(node.create(&agent()).await.unwrap());
    }
    for session_id in sessions {
        world.until_status(session_id, Status::Completed).await;
    }
    assert!(world.model.in_flight_max() <= 10);
    assert_eq!(node.engine.active_sessions(), 0);
}

/// Sessions that wait for a worker stay in memory for a moment; they must not lock people out.
#[tokio::test(start_paused = true)]
async fn people_are_heard_when_memory_is_full() {
    let world = World::new(3);
    world.fleet.kill_worker("w1");
    world.model.play(|asked| match asked.step {
        1 if asked.session_id.to_bytes()[0] % 2 == 0 => call(&[(LOOK, "{}")]),
        1 => call(&[(PAY, "{}")]),
        _ => stepwell_sim::model::say("done"),
    });
    let options = EngineOptions { active_sessions_max: 5, ..EngineOptions::for_node("n1") };
    let node = world.start_with(options, 0);
    let mut sessions = Vec::new();
    for _ in 0..40 {
        sessions.push(node.create(&agent()).await.unwrap());
    }
    world.pass_ms(60_000).await;
    for session_id in &sessions {
        let submit = node.submit(*session_id, people::cancel());
        let answer = tokio::time::timeout(std::time::Duration::from_secs(5), submit).await;
        answer.expect("an answer in time").unwrap();
    }
    world.pass_ms(60_000).await;
    for session_id in sessions {
        assert_eq!(world.status(session_id).await, Status::Cancelled);
        assert_eq!(count(&world, session_id, EventKind::SessionFinished).await, 1);
    }
    assert_eq!(node.engine.active_sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn sessions_that_wait_for_a_worker_leave_memory_to_others() {
    let world = World::new(4);
    world.fleet.kill_worker("w1");
    world.model.play(steps(vec![call(&[(LOOK, "{}"), (PAY, "{}")])]));
    let options = EngineOptions { active_sessions_max: 5, ..EngineOptions::for_node("n1") };
    let node = world.start_with(options, 0);
    let mut waiting = Vec::new();
    for _ in 0..40 {
        waiting.push(node.create(&agent()).await.unwrap());
    }
    assert!(world.until_ms(60_000, async || node.engine.active_sessions() == 0).await);
    for session_id in &waiting {
        let approval_id = open_approval(&world, *session_id).await;
        node.submit(*session_id, people::decide(approval_id, ApprovalDecision::Approve))
            .await
            .unwrap();
    }
    assert!(world.until_ms(60_000, async || node.engine.active_sessions() == 0).await);
    let before = node.store.calls();
    world.pass_ms(100_000).await;
    let after = node.store.calls();
    for (name, calls) in &after {
        let more = calls - before.get(name).copied().unwrap_or(0);
        assert!(more <= 11, "{name} was called {more} times");
    }
    // Others have the room.
    world.model.play(steps(vec![]));
    let other = node.create(&agent()).await.unwrap();
    world.until_status(other, Status::Completed).await;
    world.fleet.add_worker("w2", 4, None);
    for session_id in waiting {
        world.until_status(session_id, Status::Completed).await;
    }
    assert_eq!(node.engine.active_sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_comes_though_no_worker_does() {
    let world = World::new(5);
    world.fleet.kill_worker("w1");
    world.model.play(steps(vec![call(&[(LOOK, "{}")])]));
    let node = world.start("n1");
    let mut agent = agent();
    agent.limits.deadline_ms = Some(3_600_000);
    let session_id = node.create(&agent).await.unwrap();
    assert!(world.until_ms(60_000, async || node.engine.active_sessions() == 0).await);
    world.pass_ms(3_500_000).await;
    assert_eq!(world.status(session_id).await, Status::ExecutingTools);
    world.pass_ms(150_000).await;
    assert_eq!(world.status(session_id).await, Status::LimitReached);
}
