//! Several nodes on one store: one owner at a time, whatever their clocks say.

use std::time::Duration;

use stepwell_core::Status;
use stepwell_core::event::{ApprovalDecision, EventKind};
use stepwell_ports::Store;
use stepwell_runtime::EngineOptions;
use stepwell_sim::agents::{LOOK, NOTE, PAY, agent};
use stepwell_sim::fleet::CallPlan;
use stepwell_sim::model::{call, say};
use stepwell_sim::{World, people};

use crate::help::{C1, count, kinds, open_approval, steps};

fn shared(node: &str) -> EngineOptions {
    EngineOptions { sole_owner: false, ..EngineOptions::for_node(node) }
}

#[tokio::test(start_paused = true)]
async fn du14_two_nodes_that_resume_at_once_run_a_call_once() {
    for round in 0..12 {
        let world = World::new(round);
        world.model.play(steps(vec![call(&[(NOTE, "{}")])]));
        // Without a place for it, the call is ordered and not given away.
        world.fleet.set_connected("w1", false);
        let first = world.start("n0");
        let session_id = first.create(&agent()).await.unwrap();
        first.store.crash_at_append(1, stepwell_ports::memory::FaultTime::AfterEffect);
        first.gate.died().await;
        world.fleet.set_connected("w1", true);
        world.sky.weather().latency_ms_max = 5;
        let one = world.start_with(shared("n1"), 0);
        let two = world.start_with(shared("n2"), 0);
        world.until_status(session_id, Status::Completed).await;
        world.pass_ms(60_000).await;
        assert_eq!(world.fleet.starts_of(session_id, C1), 1);
        assert_eq!(count(&world, session_id, EventKind::ToolDispatched).await, 1);
        assert_eq!(one.engine.active_sessions() + two.engine.active_sessions(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_slept_past_its_lease_finds_itself_fenced_and_leaves() {
    for tool in [LOOK, NOTE] {
        let world = World::new(2);
        world.model.play(steps(vec![call(&[(tool, "{}")]), say("done").after_ms(60_000)]));
        world.fleet.play(|_, _| CallPlan::ok(40_000));
        let one = world.start_with(shared("n1"), 0);
        let two = world.start_with(shared("n2"), 0);
        let session_id = one.create(&agent()).await.unwrap();
        assert!(world.until_ms(1_000, async || world.fleet.running() == 1).await);
        one.gate.freeze();
        world.pass_ms(50_000).await;
        assert_eq!(world.info(session_id).await.owner, "n2");
        one.gate.thaw();
        world.pass_ms(40_000).await;
        assert_eq!(world.info(session_id).await.owner, "n2", "it is not taken back");
        assert_eq!(one.engine.active_sessions(), 0, "{tool}");
        world.until_status(session_id, Status::Completed).await;
        if tool == NOTE {
            assert_eq!(world.fleet.starts_of(session_id, C1), 1);
        }
        assert_eq!(two.engine.active_sessions(), 0);
        assert_eq!(count(&world, session_id, EventKind::ToolFinished).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_comes_back_to_a_node_which_lost_it_is_worked_on() {
    let world = World::new(3);
    world.model.play(|_| say("done").after_ms(200_000));
    let one = world.start_with(shared("n1"), 0);
    let two = world.start_with(shared("n2"), 0);
    let session_id = one.create(&agent()).await.unwrap();
    world.pass_ms(1_000).await;
    one.gate.freeze();
    world.pass_ms(60_000).await;
    assert_eq!(world.info(session_id).await.owner, "n2");
    one.gate.thaw();
    two.crash();
    // The first node still has an owner of old for it, which does not know that it lost it.
    world.pass_ms(60_000).await;
    assert_eq!(world.info(session_id).await.owner, "n1");
    world.until_status(session_id, Status::Completed).await;
}

#[tokio::test(start_paused = true)]
async fn a_living_node_keeps_its_sessions_and_a_dead_one_loses_them() {
    for skew_ms in [0, 5_000, -5_000] {
        let world = World::new(4);
        world.model.play(|_| say("done").after_ms(120_000));
        let one = world.start_with(shared("n1"), 0);
        world.start_with(shared("n2"), skew_ms);
        let session_id = one.create(&agent()).await.unwrap();
        world.pass_ms(100_000).await;
        assert_eq!(world.info(session_id).await.owner, "n1", "skew {skew_ms}");
        one.crash();
        world.pass_ms(45_000).await;
        assert_eq!(world.info(session_id).await.owner, "n2", "skew {skew_ms}");
        world.until_status(session_id, Status::Completed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_down_in_order_hands_its_sessions_over_at_once() {
    let world = World::new(5);
    world.fleet.kill_worker("w1");
    world.model.play(steps(vec![call(&[(NOTE, "{}")])]));
    let one = world.start_with(shared("n1"), 0);
    world.start_with(shared("n2"), 0);
    let session_id = one.create(&agent()).await.unwrap();
    world.pass_ms(1_000).await;
    one.shut_down().await;
    world.pass_ms(11_000).await;
    assert_eq!(world.info(session_id).await.owner, "n2");
    world.fleet.add_worker("w2", 1, None);
    world.until_status(session_id, Status::Completed).await;
}

#[tokio::test(start_paused = true)]
async fn an_input_at_another_node_moves_a_waiting_session_there() {
    let world = World::new(6);
    world.model.play(steps(vec![call(&[(PAY, "{}")])]));
    let one = world.start_with(shared("n1"), 0);
    let two = world.start_with(shared("n2"), 0);
    let session_id = one.create(&agent()).await.unwrap();
    world.until_status(session_id, Status::WaitingApproval).await;
    let approval_id = open_approval(&world, session_id).await;
    let input = people::decide(approval_id, ApprovalDecision::Approve);
    let answer = tokio::time::timeout(Duration::from_secs(5), two.submit(session_id, input)).await;
    answer.expect("an answer").unwrap();
    world.until_status(session_id, Status::Completed).await;
    assert_eq!(world.info(session_id).await.owner, "n2");
    assert_eq!(world.store.session(session_id).await.unwrap().unwrap().fence.0, 2);
    assert!(kinds(&world, session_id).await.ends_with(&["session_finished"]));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_back_does_not_keep_a_dead_node_alive() {
    let world = World::new(7);
    world.model.play(|_| say("done").after_ms(120_000));
    let one = world.start_with(shared("n1"), 0);
    world.start_with(shared("n2"), 0);
    let session_id = one.create(&agent()).await.unwrap();
    world.pass_ms(1_000).await;
    one.crash();
    world.time.jump(-7_200_000);
    world.pass_ms(60_000).await;
    assert_eq!(world.info(session_id).await.owner, "n2");
    world.until_status(session_id, Status::Completed).await;
}
