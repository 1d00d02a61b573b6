//! Timers follow the wall clock, survive everything, and fire once.

use stepwell_core::event::{EventBody, EventKind};
use stepwell_core::{CANCEL_GRACE_MS, Status};
use stepwell_runtime::EngineOptions;
use stepwell_sim::agents::{LOOK, NOTE, agent};
use stepwell_sim::fleet::CallPlan;
use stepwell_sim::model::{call, say};
use stepwell_sim::{Node, World, people};

use crate::help::{count, kinds, steps};

fn sleeps(seconds: u64) -> Vec<stepwell_sim::model::Say> {
    vec![call(&[("sleep", &format!("{{\"seconds\":{seconds}}}"))])]
}

#[tokio::test(start_paused = true)]
async fn ti01_a_timer_that_was_due_while_nobody_ran_fires_once_soon_after_the_start() {
    let world = World::new(1);
    world.model.play(steps(sleeps(60)));
    let first = world.start("n1");
    let session_id = first.create(&agent()).await.unwrap();
    world.pass_ms(10_000).await;
    first.crash();
    world.pass_ms(490_000).await;
    world.start("n2");
    world.pass_ms(1_000).await;
    assert_eq!(world.status(session_id).await, Status::Completed);
    let log = world.log(session_id).await;
    let fired: Vec<_> =
        log.iter().filter(|event| event.body.kind() == EventKind::TimerFired).collect();
    assert_eq!(fired.len(), 1);
    assert!(fired[0].time.since_ms(log[0].time) >= 60_000);
}

#[tokio::test(start_paused = true)]
async fn ti02_a_thousand_timers_due_at_once_fire_in_order_within_the_limits() {
    let world = World::new(2);
    world.model.play(|asked| match asked.step {
        1 => {
            let seconds = 1 + u64::from(asked.session_id.to_bytes()[0]) * 3;
            call(&[("sleep", &format!("{{\"seconds\":{seconds}}}"))])
        }
        _ => say("done").after_ms(100),
    });
    let options = |node: &str| EngineOptions {
        active_sessions_max: 600,
        model_calls_max: 5,
        ..EngineOptions::for_node(node)
    };
    let first = world.start_with(options("n1"), 0);
    let mut sessions = Vec::new();
    for _ in 0..1_000 {
        sessions.push(first.create(&agent()).await.unwrap());
    }
    let asleep = async || first.engine.active_sessions() == 0;
    assert!(world.until_ms(60_000, asleep).await);
    first.crash();
    world.pass_ms(5_000_000).await;
    let begin = world.time.elapsed_ms();
    let second = world.start_with(options("n2"), 0);
    let mut fired = Vec::new();
    for session_id in &sessions {
        world.until_status(*session_id, Status::Completed).await;
        let log = world.log(*session_id).await;
        let due = log.iter().filter_map(|event| match &event.body {
            EventBody::TimerFired(it) => Some((it.due_at, event.time)),
            _ => None,
        });
        let before = fired.len();
        fired.extend(due);
        assert_eq!(fired.len(), before + 1);
    }
    fired.sort_unstable();
    assert!(fired.is_sorted_by_key(|(_, at)| *at), "the earliest goes first");
    // 1,000 calls of 100 ms, five at a time, are 20 s.
    assert!(world.time.elapsed_ms() - begin < 25_000, "{}", world.time.elapsed_ms() - begin);
    assert_eq!(world.model.in_flight_max(), 5);
    assert_eq!(second.engine.active_sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn timers_of_a_living_owner_fire_in_time_however_many_there_are() {
    let world = World::new(2);
    world.model.play(steps(sleeps(100)));
    let node = world.start("n1");
    let mut sessions = Vec::new();
    for _ in 0..1_500 {
        sessions.push(node.create(&agent()).await.unwrap());
    }
    world.pass_ms(90_000).await;
    assert_eq!(node.engine.active_sessions(), 0);
    world.pass_ms(12_000).await;
    for session_id in sessions {
        assert_eq!(world.status(session_id).await, Status::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn timers_fire_in_time_while_hundreds_of_sessions_are_busy() {
    let world = World::new(2);
    world.model.play(|asked| match asked.session_id.to_bytes()[0] % 2 {
        0 => say("done").after_ms(1_000_000),
        _ if asked.step == 1 => call(&[("sleep", "{\"seconds\":30}")]),
        _ => say("done"),
    });
    let options = EngineOptions { model_calls_max: 1_000, ..EngineOptions::for_node("n1") };
    let node = world.start_with(options, 0);
    let mut sessions = Vec::new();
    for _ in 0..800 {
        sessions.push(node.create(&agent()).await.unwrap());
    }
    world.pass_ms(32_000).await;
    for session_id in sessions {
        let is_busy = session_id.to_bytes()[0] % 2 == 0;
        let status = if is_busy { Status::Thinking } else { Status::Completed };
        assert_eq!(world.status(session_id).await, status);
    }
}

#[tokio::test(start_paused = true)]
async fn ti03_a_timer_follows_the_wall_clock_when_it_jumps() {
    for (jump_ms, due_after_ms) in [(3_600_000, 0), (-100_000, 690_000), (60_000, 530_000)] {
        let world = World::new(3);
        world.model.play(steps(sleeps(600)));
        let node = world.start("n1");
        let session_id = node.create(&agent()).await.unwrap();
        world.pass_ms(10_000).await;
        world.time.jump(jump_ms);
        if due_after_ms > 0 {
            world.pass_ms(due_after_ms - 1_000).await;
            assert_eq!(world.status(session_id).await, Status::Sleeping, "{jump_ms}");
        }
        world.pass_ms(2_000).await;
        assert_eq!(world.status(session_id).await, Status::Completed, "{jump_ms}");
        assert_eq!(count(&world, session_id, EventKind::TimerFired).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_back_stops_neither_signs_of_life_nor_retries() {
    let world = World::new(3);
    world.model.play(steps(vec![call(&[(LOOK, "{}")])]));
    let node = world.start("n1");
    world.pass_ms(1_000).await;
    world.time.jump(-7_200_000);
    let beats = node.store.calls()["beat"];
    // The outcome of the tool is offered again while the store takes nothing.
    let session_id = node.create(&agent()).await.unwrap();
    assert!(world.until_ms(1_000, async || !world.fleet.starts().is_empty()).await);
    node.store.fail_append(1, stepwell_ports::memory::FaultTime::BeforeEffect);
    world.pass_ms(9).await;
    world.time.jump(-7_200_000);
    world.until_status(session_id, Status::Completed).await;
    world.pass_ms(60_000).await;
    assert!(node.store.calls()["beat"] >= beats + 5);
}

#[tokio::test(start_paused = true)]
async fn ti05_a_call_whose_machine_slept_past_its_limit_ends_once() {
    let world = World::new(5);
    world.model.play(steps(vec![call(&[(LOOK, "{}")])]));
    world.fleet.play(|_, before| CallPlan::ok(if before == 0 { 7_200_100 } else { 10 }));
    let mut agent = agent();
    agent.tools[0].timeout_ms = 60_000;
    let node = world.start("n1");
    let session_id = node.create(&agent).await.unwrap();
    world.pass_ms(1_000).await;
    node.gate.freeze();
    world.pass_ms(7_200_000).await;
    node.gate.thaw();
    world.until_status(session_id, Status::Completed).await;
    world.pass_ms(60_000).await;
    let ends = count(&world, session_id, EventKind::ToolFinished).await;
    assert_eq!(ends, 1, "{:?}", kinds(&world, session_id).await);
}

/// Cancels the session of a timer at every moment around its firing.
#[tokio::test(start_paused = true)]
async fn ti06_a_timer_that_is_cancelled_while_it_fires_ends_once() {
    for round in 0..200 {
        let world = World::new(round);
        world.sky.weather().latency_ms_max = 4;
        world.model.play(steps(sleeps(5)));
        let node = world.start("n1");
        let session_id = node.create(&agent()).await.unwrap();
        assert!(
            world
                .until_ms(5_000, async || {
                    count(&world, session_id, EventKind::TimerStarted).await == 1
                })
                .await
        );
        world.pass_ms(4_990 + round / 10).await;
        let result = node.submit(session_id, people::cancel()).await;
        world.pass_ms(20_000).await;
        let fired = count(&world, session_id, EventKind::TimerFired).await;
        let cancelled = count(&world, session_id, EventKind::CancelRequested).await;
        assert!(fired <= 1);
        assert_eq!(cancelled, usize::from(result.is_ok()), "{round} {result:?}");
        assert!(world.status(session_id).await.is_final());
        assert_eq!(node.engine.active_sessions(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn ti11_a_tool_that_ignores_the_cancel_is_left_behind_and_its_result_recorded_as_late() {
    for tool in [LOOK, NOTE] {
        let world = World::new(11);
        world.model.play(steps(vec![call(&[(tool, "{}")])]));
        world.fleet.play(|_, _| CallPlan::ok(30_000).deaf());
        let node = world.start("n1");
        let session_id = node.create(&agent()).await.unwrap();
        assert!(world.until_ms(1_000, async || world.fleet.running() == 1).await);
        node.submit(session_id, people::cancel()).await.unwrap();
        assert_eq!(world.status(session_id).await, Status::ExecutingTools);
        assert!(world.info(session_id).await.row.explain.contains("being cancelled"));
        world.pass_ms(CANCEL_GRACE_MS + 100).await;
        assert_eq!(world.status(session_id).await, Status::Cancelled);
        let asks = world.model.asks().len();
        world.pass_ms(30_000).await;
        let log = world.log(session_id).await;
        let last = &log.last().unwrap().body;
        assert!(matches!(last, EventBody::ToolFinished(it) if it.late), "{last:?}");
        assert_eq!(world.model.asks().len(), asks, "the model does not see it");
        assert_eq!(node.engine.active_sessions(), 0);
    }
}

/// Deadlines of a session hold whatever it does: waits for a tool, for a person, for the model.
#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_session_wherever_it_waits() {
    for reply in [
        call(&[(LOOK, "{}")]),
        call(&[(stepwell_sim::agents::PAY, "{}")]),
        call(&[("ask_user", "{\"question\":\"?\"}")]),
        say("late").after_ms(50_000),
    ] {
        let world = World::new(8);
        world.model.play(steps(vec![reply.clone()]));
        world.fleet.play(|_, _| CallPlan::ok(100_000));
        let mut agent = agent();
        agent.limits.deadline_ms = Some(20_000);
        let node: Node = world.start("n1");
        let session_id = node.create(&agent).await.unwrap();
        world.pass_ms(20_100).await;
        assert_eq!(world.status(session_id).await, Status::LimitReached, "{reply:?}");
    }
}
