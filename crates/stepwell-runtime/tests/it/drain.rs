//! Going down: what runs is recorded, what waits is left, nothing new starts, nothing hangs.

use std::time::Duration;

use stepwell_core::Status;
use stepwell_core::event::EventKind;
use stepwell_runtime::EngineError;
use stepwell_sim::agents::{LOOK, NOTE, PAY, agent};
use stepwell_sim::fleet::CallPlan;
use stepwell_sim::model::{call, say};
use stepwell_sim::{World, people};

use crate::help::{C1, count, steps};

#[tokio::test(start_paused = true)]
async fn running_calls_are_recorded_and_nothing_new_starts() {
    let world = World::new(1);
    world.model.play(steps(vec![call(&[(NOTE, "{}")]), say("done").after_ms(100)]));
    world.fleet.play(|_, _| CallPlan::ok(5_000));
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    assert!(world.until_ms(1_000, async || world.fleet.running() == 1).await);
    let begin = world.time.elapsed_ms();
    node.shut_down().await;
    let took = world.time.elapsed_ms() - begin;
    assert!((4_900..5_200).contains(&took), "it waits for the tool and for nothing else: {took}");
    assert_eq!(count(&world, session_id, EventKind::ToolFinished).await, 1);
    assert_eq!(world.model.asks().len(), 1, "the next step is left for the next start");
    world.start("n2");
    world.until_status(session_id, Status::Completed).await;
    assert_eq!(world.fleet.starts_of(session_id, C1), 1);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_left_at_once() {
    let world = World::new(2);
    world.fleet.kill_worker("w1");
    world.model.play(|asked| match asked.session_id.to_bytes()[0] % 3 {
        0 => call(&[(NOTE, "{}")]),
        1 => call(&[(PAY, "{}")]),
        _ => call(&[("sleep", "{\"seconds\":3600}")]),
    });
    let node = world.start("n1");
    for _ in 0..20 {
        node.create(&agent()).await.unwrap();
    }
    world.pass_ms(5_000).await;
    let begin = world.time.elapsed_ms();
    node.shut_down().await;
    assert!(world.time.elapsed_ms() - begin < 100, "{}", world.time.elapsed_ms() - begin);
    assert_eq!(node.engine.active_sessions(), 0);
    assert!(world.fleet.starts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn calls_that_do_not_end_in_time_are_left_to_the_next_start() {
    let world = World::new(3);
    world.model.play(steps(vec![call(&[(LOOK, "{}"), (NOTE, "{}")])]));
    world.fleet.play(|_, _| CallPlan::ok(60_000));
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    assert!(world.until_ms(1_000, async || world.fleet.running() == 2).await);
    let begin = world.time.elapsed_ms();
    node.shut_down().await;
    let took = world.time.elapsed_ms() - begin;
    assert!((10_000..10_200).contains(&took), "{took}");
    assert_eq!(count(&world, session_id, EventKind::ToolFinished).await, 0);
    world.start("n2");
    world.until_status(session_id, Status::Completed).await;
    let second = stepwell_core::CallId { step: 1, index: 2 };
    assert_eq!(world.fleet.starts_of(session_id, second), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_about_to_start_when_the_server_goes_down_starts_once() {
    for round in 0..40 {
        let world = World::new(round);
        world.sky.weather().latency_ms_max = 3;
        world.model.play(steps(vec![call(&[(NOTE, "{}")])]));
        let node = world.start("n1");
        let session_id = node.create(&agent()).await.unwrap();
        world.pass_ms(10 + round / 2).await;
        node.shut_down().await;
        world.start("n2");
        world.until_status(session_id, Status::Completed).await;
        assert_eq!(world.fleet.starts_of(session_id, C1), 1, "{round}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_refused_once_it_is_down_and_taken_until_then() {
    let world = World::new(4);
    world.model.play(steps(vec![call(&[(PAY, "{}"), (LOOK, "{}")])]));
    world.fleet.play(|_, _| CallPlan::ok(5_000));
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    assert!(world.until_ms(1_000, async || world.fleet.running() == 1).await);
    node.begin_to_shut_down();
    world.pass_ms(100).await;
    let refused = node.create(&agent()).await.unwrap_err();
    assert!(matches!(refused, EngineError::ShuttingDown), "{refused}");
    node.submit(session_id, people::message("late word")).await.unwrap();
    assert!(world.until_ms(20_000, async || node.has_ended()).await);
    let submit = node.submit(session_id, people::cancel());
    let answer = tokio::time::timeout(Duration::from_secs(1), submit).await.expect("an answer");
    assert!(matches!(answer.unwrap_err(), EngineError::ShuttingDown));
    assert_eq!(node.engine.active_sessions(), 0);
    assert_eq!(count(&world, session_id, EventKind::MessageReceived).await, 1);
}
