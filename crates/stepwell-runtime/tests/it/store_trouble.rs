//! A store that fails: callers learn it, nothing acknowledged and no outcome is lost, and everything
//! goes on by itself.

use std::collections::BTreeSet;

use stepwell_core::Status;
use stepwell_core::event::{ApprovalDecision, EventKind};
use stepwell_ports::memory::FaultTime;
use stepwell_ports::{Store, StoreError};
use stepwell_runtime::{EngineError, EngineOptions};
use stepwell_sim::agents::{LOOK, NOTE, PAY, PUT, agent};
use stepwell_sim::fleet::CallPlan;
use stepwell_sim::model::{Asked, Say, call, say};
use stepwell_sim::store::Damage;
use stepwell_sim::{World, people};

use crate::help::{C1, count, kinds, open_approval, steps};

fn disk_full() -> StoreError {
    StoreError::DiskFull { place: "/data".to_string() }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_makes_the_session_wait_and_say_so() {
    let world = World::new(1);
    world.model.play(steps(vec![call(&[(NOTE, "{}")]), say("done").after_ms(5_000)]));
    world.fleet.play(|_, _| CallPlan::ok(10_000));
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    assert!(world.until_ms(1_000, async || world.fleet.running() == 1).await);
    world.sky.weather().no_writes = Some(disk_full());
    let error = node.submit(session_id, people::message("hello")).await.unwrap_err();
    assert!(matches!(error, EngineError::Store(StoreError::DiskFull { .. })), "{error}");
    world.pass_ms(60_000).await;
    let blocked = node.engine.live(session_id).blocked.expect("it says so");
    assert!(blocked.contains("/data is full"), "{blocked}");
    world.sky.weather().no_writes = None;
    world.until_status(session_id, Status::Completed).await;
    assert_eq!(world.fleet.starts_of(session_id, C1), 1);
    assert_eq!(count(&world, session_id, EventKind::ToolFinished).await, 1);
    assert_eq!(count(&world, session_id, EventKind::MessageReceived).await, 0);
    assert_eq!(node.engine.live(session_id).blocked, None);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_not_said_to_be_blocked_by_a_request_that_failed_long_ago() {
    let world = World::new(1);
    world.model.play(steps(vec![call(&[(NOTE, "{}")])]));
    world.fleet.play(|_, _| CallPlan::ok(100_000));
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    assert!(world.until_ms(1_000, async || world.fleet.running() == 1).await);
    node.store.fail_append(1, FaultTime::BeforeEffect);
    node.submit(session_id, people::message("hello")).await.unwrap_err();
    world.pass_ms(10_000).await;
    assert_eq!(node.engine.live(session_id).blocked, None);
}

/// Two steps with a tool of each effect, and a sleep.
fn a_call_of_each_effect() -> impl Fn(Asked) -> Say + Send + Sync + 'static {
    steps(vec![
        call(&[(LOOK, "{}"), (NOTE, "{}")]),
        call(&[(PUT, "{}"), ("sleep", "{\"seconds\":2}")]),
    ])
}

/// The n-th append fails, for every n, before and after its effect.
#[tokio::test(start_paused = true)]
async fn any_append_may_fail_and_the_session_ends_the_same() {
    let mut expected: Option<Vec<&str>> = None;
    for nth in 0..20 {
        for time in [FaultTime::BeforeEffect, FaultTime::AfterEffect] {
            let world = World::new(nth);
            world.model.play(a_call_of_each_effect());
            let node = world.start("n1");
            let session_id = node.create(&agent()).await.unwrap();
            if nth > 0 {
                node.store.fail_append(nth, time);
            }
            let begin = world.time.elapsed_ms();
            world.until_status(session_id, Status::Completed).await;
            let took = world.time.elapsed_ms() - begin;
            assert!(took < 4_000, "{nth} {time:?}: a fault that passed delays little: {took}");
            let mut found = kinds(&world, session_id).await;
            found.sort_unstable();
            assert_eq!(*expected.get_or_insert_with(|| found.clone()), found, "{nth} {time:?}");
            assert_eq!(world.fleet.starts().len(), 3);
            assert_eq!(node.engine.active_sessions(), 0);
        }
    }
}

/// The owner of a session dies of a bug with an outcome in its hands, at the n-th append.
#[tokio::test(start_paused = true)]
async fn an_owner_that_panics_starts_no_write_twice_and_the_session_goes_on() {
    for nth in 1..16 {
        for time in [FaultTime::BeforeEffect, FaultTime::AfterEffect] {
            let world = World::new(nth);
            world.model.play(a_call_of_each_effect());
            let node = world.start("n1");
            let session_id = node.create(&agent()).await.unwrap();
            node.store.panic_at_append(nth, time);
            world.until_status(session_id, Status::Completed).await;
            let starts = world.fleet.starts();
            let notes = starts.iter().filter(|it| it.tool == NOTE).count();
            assert_eq!(notes, 1, "{nth} {time:?}: a write call ran twice");
            let keys: BTreeSet<&str> = starts.iter().map(|it| &*it.idempotency_key).collect();
            assert_eq!(keys.len(), 3, "{nth} {time:?}: a call ran again under another key");
            assert!(world.model.asks_of(session_id).len() <= 4, "{nth} {time:?}");
            assert_eq!(node.engine.active_sessions(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_creation_seemed_to_fail_is_worked_on() {
    let world = World::new(3);
    let node = world.start("n1");
    world.pass_ms(100).await;
    node.store.fail_append(1, FaultTime::AfterEffect);
    let error = node.create(&agent()).await.unwrap_err();
    assert!(matches!(error, EngineError::Store(_)), "{error}");
    world.pass_ms(30_000).await;
    let rows = world.rows().await;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn reads_that_fail_while_sessions_are_taken_over_lose_none() {
    for round in 0..20 {
        let world = World::new(round);
        world.model.play(steps(vec![call(&[(LOOK, "{}")]), call(&[("sleep", "{\"seconds\":5}")])]));
        let first = world.start("n1");
        let mut sessions = Vec::new();
        for _ in 0..20 {
            sessions.push(first.create(&agent()).await.unwrap());
        }
        world.pass_ms(round).await;
        first.crash();
        world.sky.weather().reads_fail = 400;
        world.sky.weather().writes_fail = 200;
        world.start("n2");
        world.pass_ms(20_000).await;
        world.sky.weather().reads_fail = 0;
        world.sky.weather().writes_fail = 0;
        world.pass_ms(40_000).await;
        for session_id in sessions {
            assert_eq!(world.status(session_id).await, Status::Completed, "{round}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_the_store_did_not_take_fires_later_and_runs_on() {
    // The deadline is due while the model is asked: the session is busy, not parked.
    for no_reads in [false, true] {
        let world = World::new(4);
        world.model.play(|_| say("done").after_ms(3_600_000));
        let mut agent = agent();
        agent.limits.deadline_ms = Some(20_000);
        let node = world.start("n1");
        let session_id = node.create(&agent).await.unwrap();
        world.pass_ms(19_000).await;
        world.sky.weather().no_writes = Some(disk_full());
        world.sky.weather().no_reads = no_reads.then(disk_full);
        world.pass_ms(20_000).await;
        assert!(node.engine.live(session_id).blocked.is_some());
        world.sky.weather().no_writes = None;
        world.sky.weather().no_reads = None;
        world.pass_ms(12_000).await;
        assert_eq!(world.status(session_id).await, Status::LimitReached);
    }
}

#[tokio::test(start_paused = true)]
async fn people_are_told_when_the_store_cannot_be_read() {
    let world = World::new(5);
    world.model.play(steps(vec![call(&[(LOOK, "{}")])]));
    world.fleet.play(|_, _| CallPlan::ok(10_000));
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    assert!(world.until_ms(1_000, async || world.fleet.running() == 1).await);
    world.sky.weather().no_writes = Some(disk_full());
    world.sky.weather().no_reads = Some(disk_full());
    for _ in 0..3 {
        let submit = node.submit(session_id, people::message("hello"));
        let answer = tokio::time::timeout(std::time::Duration::from_secs(20), submit).await;
        let error = answer.expect("an answer in time").unwrap_err();
        assert!(matches!(error, EngineError::Store(_)), "{error}");
    }
    world.sky.weather().no_writes = None;
    world.sky.weather().no_reads = None;
    world.until_status(session_id, Status::Completed).await;
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_became_durable_late_is_acted_on() {
    for round in 0..30 {
        let world = World::new(round);
        world.model.play(steps(vec![call(&[(PAY, "{}")])]));
        let node = world.start("n1");
        let session_id = node.create(&agent()).await.unwrap();
        world.until_status(session_id, Status::WaitingApproval).await;
        let approval_id = open_approval(&world, session_id).await;
        world.sky.weather().appends_late = 1_000;
        let input = people::decide(approval_id, ApprovalDecision::Approve);
        node.submit(session_id, input).await.unwrap_err();
        world.sky.weather().appends_late = 0;
        world.pass_ms(30_000).await;
        assert_eq!(world.status(session_id).await, Status::Completed, "{round}");
        assert_eq!(world.fleet.starts_of(session_id, C1), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_log_is_quarantined_and_the_others_go_on() {
    for damage in [
        Damage::UnknownKind(3.into_seq()),
        Damage::Gap(3.into_seq()),
        Damage::TailLost(4.into_seq()),
    ] {
        let world = World::new(6);
        world.model.play(steps(vec![call(&[(LOOK, "{}")]), say("done").after_ms(50)]));
        let first = world.start("n1");
        let bad = first.create(&agent()).await.unwrap();
        let good = first.create(&agent()).await.unwrap();
        assert!(world.until_ms(1_000, async || kinds(&world, bad).await.len() > 4).await);
        first.crash();
        world.sky.damage(bad, damage);
        let before = world.log(bad).await;
        let second = world.start("n2");
        world.until_status(bad, Status::Quarantined).await;
        world.until_status(good, Status::Completed).await;
        assert_eq!(world.log(bad).await, before, "nothing is dropped or rewritten");
        let error = second.submit(bad, people::cancel()).await.unwrap_err();
        assert!(matches!(error, EngineError::Quarantined { .. }), "{error}");
        assert!(world.rows().await.iter().any(|row| row.session_id == bad), "lists show it");
        world.pass_ms(60_000).await;
        assert_eq!(second.engine.active_sessions(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_payload_quarantines_its_session() {
    let world = World::new(6);
    world.model.play(steps(vec![say("done").after_ms(60_000)]));
    let first = world.start("n1");
    let bad = first.create(&agent()).await.unwrap();
    first.submit(bad, people::message(&"large ".repeat(5_000))).await.unwrap();
    first.crash();
    world.sky.weather().payloads_damaged = true;
    world.start("n2");
    world.until_status(bad, Status::Quarantined).await;
    let explain = world.info(bad).await.row.explain;
    assert!(explain.contains("payload") && explain.contains("not what was written"), "{explain}");
}

trait IntoSeq {
    fn into_seq(self) -> stepwell_core::Seq;
}

impl IntoSeq for u64 {
    fn into_seq(self) -> stepwell_core::Seq {
        stepwell_core::Seq(self)
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_session_is_loaded_from_its_cached_state() {
    let world = World::new(7);
    world.model.play(|asked| match asked.step {
        1..=200 => call(&[(LOOK, &format!("{{\"n\":{}}}", asked.step))]),
        201 => call(&[(PAY, "{}")]),
        202 => call(&[(LOOK, "{\"n\":202}")]),
        _ => say("done"),
    });
    let mut agent = agent();
    agent.limits.steps_max = 1_000;
    let node = world.start("n1");
    let session_id = node.create(&agent).await.unwrap();
    world.until_status(session_id, Status::WaitingApproval).await;
    world.pass_ms(1_000).await;
    let head = world.info(session_id).await.row.head_seq;
    let version = stepwell_core::state::STATE_VERSION;
    let cached = world.store.snapshot(session_id, version).await.unwrap();
    assert_eq!(cached.expect("the state is cached").0, head);
    assert_eq!(node.engine.state(session_id).await.unwrap(), world.state(session_id).await);
    let approval_id = open_approval(&world, session_id).await;
    let input = people::decide(approval_id, ApprovalDecision::Approve);
    node.submit(session_id, input).await.unwrap();
    world.until_status(session_id, Status::Completed).await;
    for (ask, next) in world.model.asks().iter().zip(world.model.asks().iter().skip(1)) {
        assert!(next.body.starts_with(ask.body.strip_suffix("]}").unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_outlives_a_store_that_is_away() {
    let world = World::new(8);
    world.model.play(steps(vec![call(&[("sleep", "{\"seconds\":30}")])]));
    let options = EngineOptions { sole_owner: false, ..EngineOptions::for_node("n1") };
    let node = world.start_with(options, 0);
    let session_id = node.create(&agent()).await.unwrap();
    world.pass_ms(1_000).await;
    world.sky.weather().no_writes = Some(disk_full());
    world.sky.weather().no_reads = Some(disk_full());
    world.pass_ms(600_000).await;
    world.sky.weather().no_writes = None;
    world.sky.weather().no_reads = None;
    let back = node.clock().now();
    world.pass_ms(12_000).await;
    assert_eq!(world.status(session_id).await, Status::Completed);
    let nodes = world.store.nodes().await.unwrap();
    assert!(nodes[0].seen_at >= back);
}
