//! Model calls and tool calls: started, stopped, and brought to their end whatever they do.

use stepwell_core::event::{EventBody, EventKind, ModelErrorKind};
use stepwell_core::output::AnswerForm;
use stepwell_core::{CallId, Status};
use stepwell_ports::memory::FaultTime;
use stepwell_runtime::EngineOptions;
use stepwell_sim::agents::{LOOK, NOTE, agent};
use stepwell_sim::fleet::{CallFault, CallPlan};
use stepwell_sim::model::{Act, Say, call, fail, say};
use stepwell_sim::{World, people};

use crate::help::{C1, count, kinds, steps, tool_outputs};

#[tokio::test(start_paused = true)]
async fn cancelling_a_session_closes_its_request_to_the_model() {
    let world = World::new(1);
    world.model.play(|_| say("done").after_ms(600_000));
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    world.pass_ms(1_000).await;
    assert_eq!(world.model.in_flight(), 1);
    node.submit(session_id, people::cancel()).await.unwrap();
    world.pass_ms(10).await;
    assert_eq!(world.model.in_flight(), 0);
    assert_eq!(world.status(session_id).await, Status::Cancelled);
    world.pass_ms(700_000).await;
    assert_eq!(count(&world, session_id, EventKind::ModelReplied).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_running_tool_is_told_to_stop_and_its_last_word_is_recorded() {
    let world = World::new(2);
    world.model.play(steps(vec![call(&[(NOTE, "{}")])]));
    world.fleet.play(|_, _| CallPlan::ok(600_000));
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    assert!(world.until_ms(1_000, async || world.fleet.running() == 1).await);
    node.submit(session_id, people::cancel()).await.unwrap();
    world.pass_ms(100).await;
    assert_eq!(world.status(session_id).await, Status::Cancelled);
    assert_eq!(tool_outputs(&world, session_id).await, ["told to stop"]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_outlived_its_server_is_told_to_stop_by_the_next_one() {
    let world = World::new(2);
    world.model.play(steps(vec![call(&[(NOTE, "{}")])]));
    world.fleet.play(|_, _| CallPlan::ok(600_000));
    let first = world.start("n1");
    let session_id = first.create(&agent()).await.unwrap();
    assert!(world.until_ms(1_000, async || world.fleet.running() == 1).await);
    first.store.crash_at_append(1, stepwell_ports::memory::FaultTime::AfterEffect);
    let cancel = first.submit(session_id, people::cancel());
    assert!(tokio::time::timeout(std::time::Duration::from_secs(1), cancel).await.is_err());
    world.start("n2");
    world.pass_ms(1_000).await;
    assert_eq!(world.fleet.running(), 0, "it was told");
    assert_eq!(world.status(session_id).await, Status::Cancelled);
    assert_eq!(tool_outputs(&world, session_id).await, ["told to stop"]);
}

#[tokio::test(start_paused = true)]
async fn a_bug_in_an_adapter_is_a_failure_of_the_outside() {
    let world = World::new(3);
    world.model.play(|asked| match (asked.step, asked.nth) {
        (1, 1) => Say { after_ms: 5, act: Act::Panic },
        (1, _) => call(&[(LOOK, "{}")]),
        _ => say("done"),
    });
    let panics = std::sync::atomic::AtomicUsize::new(0);
    world.fleet.play(move |_, _| {
        let nth = panics.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        CallPlan::ok(5).with(if nth == 0 { CallFault::Panic } else { CallFault::None })
    });
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    world.until_status(session_id, Status::Completed).await;
    assert_eq!(count(&world, session_id, EventKind::ModelFailed).await, 1);
    assert_eq!(count(&world, session_id, EventKind::ToolLost).await, 1);
    assert_eq!(world.fleet.starts_of(session_id, C1), 1);
}

#[tokio::test(start_paused = true)]
async fn failures_that_pass_are_waited_out_and_others_end_the_session() {
    for (kind, ends) in [
        (ModelErrorKind::Transport, Status::Completed),
        (ModelErrorKind::RateLimited, Status::Completed),
        (ModelErrorKind::StreamBroken, Status::Completed),
        (ModelErrorKind::BadRequest, Status::Failed),
        (ModelErrorKind::Unauthorized, Status::Failed),
        (ModelErrorKind::ContextTooLong, Status::LimitReached),
    ] {
        let world = World::new(4);
        world.model.play(move |asked| if asked.nth <= 3 { fail(kind) } else { say("done") });
        let node = world.start("n1");
        let session_id = node.create(&agent()).await.unwrap();
        world.until_status(session_id, ends).await;
        let failures = count(&world, session_id, EventKind::ModelFailed).await;
        assert_eq!(failures, if ends == Status::Completed { 3 } else { 1 });
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_kept() {
    let world = World::new(5);
    world.model.play(|asked| match asked.nth {
        1 => fail(ModelErrorKind::RateLimited).retry_after_ms(45_000),
        _ => say("done"),
    });
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    world.pass_ms(44_000).await;
    assert_eq!(world.status(session_id).await, Status::Sleeping);
    assert_eq!(node.engine.active_sessions(), 0, "it holds no memory meanwhile");
    world.pass_ms(3_000).await;
    assert_eq!(world.status(session_id).await, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_read_tool_whose_worker_is_lost_runs_again_with_the_same_key() {
    let world = World::new(6);
    world.model.play(steps(vec![call(&[(LOOK, "{}")])]));
    world.fleet.add_worker("w2", 4, None);
    world.fleet.play(|_, before| {
        CallPlan::ok(1_000).with(if before == 0 { CallFault::WorkerDies } else { CallFault::None })
    });
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    world.until_status(session_id, Status::Completed).await;
    let starts = world.fleet.starts();
    assert_eq!(starts.len(), 2);
    assert_eq!(starts[0].idempotency_key, starts[1].idempotency_key);
}

/// An order to start that comes from an effect that was stopped meanwhile must not count.
#[tokio::test(start_paused = true)]
async fn a_write_tool_starts_once_however_often_the_session_is_held_around_its_start() {
    for round in 0..400 {
        let world = World::new(round);
        world.sky.weather().latency_ms_max = 3;
        world.model.play(steps(vec![call(&[(NOTE, "{}"), (NOTE, "{\"n\":2}")])]));
        // One place: the second call waits for it, and gets it at any moment.
        world.fleet.kill_worker("w1");
        world.fleet.add_worker("w0", 1, None);
        world.fleet.set_way_ms_max(4);
        world.fleet.set_remembers_denials(false);
        let node = world.start("n1");
        let session_id = node.create(&agent()).await.unwrap();
        let dice = world.dice.fork("holds");
        world.pass_ms(10 + dice.below(12)).await;
        for _ in 0..dice.between(1, 8) {
            let (one, two) = tokio::join!(node.submit(session_id, people::pause()), async {
                world.pass_ms(dice.below(4)).await;
                node.submit(session_id, people::resume()).await
            });
            if one.is_err() || two.is_err() {
                break;
            }
            world.pass_ms(dice.below(3)).await;
        }
        world.pass_ms(1_000).await;
        // The last word may have been to hold it; or it is done by now.
        let _ = node.submit(session_id, people::resume()).await;
        let done = world.until_ms(60_000, async || world.status(session_id).await.is_final()).await;
        assert!(done, "{round}: {:?}", kinds(&world, session_id).await);
        for index in [1, 2] {
            assert_eq!(world.fleet.starts_of(session_id, CallId { step: 1, index }), 1, "{round}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_with_absurdly_many_calls_is_a_bad_response() {
    let world = World::new(8);
    let many = vec![(LOOK, "{}"); 5_000];
    world.model.play(move |asked| if asked.nth == 1 { call(&many) } else { say("done") });
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    world.until_status(session_id, Status::Completed).await;
    let log = world.log(session_id).await;
    let failure = log.iter().find_map(|event| match &event.body {
        EventBody::ModelFailed(it) => Some(it.message.clone()),
        _ => None,
    });
    assert!(failure.unwrap().contains("5000"));
}

/// While the hold is written, the call gets its place and asks to start; the release is decided before
/// that. By then the call's effect was told to stop, and another one asks the worker about it.
#[tokio::test(start_paused = true)]
async fn an_effect_that_was_told_to_stop_starts_nothing() {
    for round in 0..20 {
        let world = World::new(round);
        world.model.play(steps(vec![call(&[(NOTE, "{}")])]));
        world.fleet.kill_worker("w1");
        world.fleet.set_remembers_denials(false);
        world.fleet.set_heeds_stops(false);
        world.fleet.set_way_ms_max(10);
        let node = world.start("n1");
        let session_id = node.create(&agent()).await.unwrap();
        world.until_status(session_id, Status::ExecutingTools).await;
        {
            let mut weather = world.sky.weather();
            (weather.latency_ms_min, weather.latency_ms_max) = (25, 25);
        }
        let (held, released, ()) = tokio::join!(
            node.submit(session_id, people::pause()),
            async {
                world.pass_ms(10).await;
                node.submit(session_id, people::resume()).await
            },
            async {
                world.pass_ms(20).await;
                world.fleet.add_worker("w2", 4, None);
            },
        );
        held.unwrap();
        released.unwrap();
        world.until_status(session_id, Status::Completed).await;
        assert_eq!(world.fleet.starts_of(session_id, C1), 1, "{round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_session_does_not_wait_for_a_call_that_never_began() {
    for tool in [LOOK, NOTE] {
        let world = World::new(1);
        world.model.play(steps(vec![call(&[(tool, "{}")])]));
        world.fleet.kill_worker("w1");
        let node = world.start("n1");
        let session_id = node.create(&agent()).await.unwrap();
        world.until_status(session_id, Status::ExecutingTools).await;
        node.submit(session_id, people::cancel()).await.unwrap();
        world.pass_ms(100).await;
        assert_eq!(world.status(session_id).await, Status::Cancelled);
        assert_eq!(node.engine.active_sessions(), 0);
    }
}

/// A hundred sessions meet the same outage: while it lasts the server is probed and not stormed, and
/// when it is over all of them come through soon.
#[tokio::test(start_paused = true)]
async fn a_fleet_does_not_storm_a_server_that_is_down() {
    const SESSIONS: usize = 100;
    let world = World::new(3);
    world.model.play(|_| fail(ModelErrorKind::Overloaded));
    let node = world.start("n1");
    let mut agent = agent();
    agent.retry.attempts_max = 1_000;
    agent.retry.cap_ms = 1_000;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(node.create(&agent).await.unwrap());
    }
    world.pass_ms(60_000).await;
    let before = world.model.asks().len();
    world.pass_ms(60_000).await;
    let repeated = world.model.asks().len() - before;
    assert!((100..=130).contains(&repeated), "two in a second, not {repeated} in a minute");

    world.model.play(|_| say("done"));
    world.pass_ms(10_000).await;
    for session_id in sessions {
        assert_eq!(world.status(session_id).await, Status::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_waits_for_its_turn_can_be_cancelled() {
    let world = World::new(4);
    world.model.play(|_| fail(ModelErrorKind::Overloaded));
    let node = world.start("n1");
    let mut agent = agent();
    agent.retry.attempts_max = 1_000;
    agent.retry.cap_ms = 1_000;
    let mut sessions = Vec::new();
    for _ in 0..60 {
        sessions.push(node.create(&agent).await.unwrap());
    }
    world.pass_ms(30_000).await;
    for session_id in &sessions {
        node.submit(*session_id, people::cancel()).await.unwrap();
    }
    world.pass_ms(10).await;
    for session_id in sessions {
        assert_eq!(world.status(session_id).await, Status::Cancelled);
    }
}

/// A code fence and a comma too many: the call runs, and the log keeps what the model wrote.
#[tokio::test(start_paused = true)]
async fn arguments_whose_meaning_is_certain_are_repaired_and_recorded() {
    const RAW: &str = "```json\n{\"n\": 7,}\n```";
    let world = World::new(5);
    world.model.play(steps(vec![call(&[(LOOK, RAW)])]));
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    world.pass_ms(60_000).await;
    assert_eq!(world.status(session_id).await, Status::Completed);
    let log = world.log(session_id).await;
    let replied = log.iter().find_map(|event| match &event.body {
        EventBody::ModelReplied(reply) => reply.tool_calls.first(),
        _ => None,
    });
    let replied = replied.expect("a call");
    assert_eq!(replied.arguments.preview(), "{\"n\": 7}");
    let repaired = replied.repaired.as_ref().expect("it was repaired");
    assert_eq!(repaired.raw.preview(), RAW);
    assert_eq!(count(&world, session_id, EventKind::ToolFinished).await, 1, "it ran");
}

/// The answer must be one of two words; the model finds it at its second try.
#[tokio::test(start_paused = true)]
async fn an_answer_without_its_form_is_asked_for_again() {
    let world = World::new(6);
    world.model.play(steps(vec![say("Yes, of course."), say("yes")]));
    let node = world.start("n1");
    let mut agent = agent();
    agent.output.answer = Some(AnswerForm::Choice(vec!["yes".into(), "no".into()]));
    let session_id = node.create(&agent).await.unwrap();
    world.pass_ms(60_000).await;
    assert_eq!(world.status(session_id).await, Status::Completed);
    assert_eq!(
        kinds(&world, session_id).await[1..],
        [
            "model_requested",
            "model_replied",
            "model_requested",
            "model_replied",
            "session_finished"
        ]
    );
    let second = &world.model.asks_of(session_id)[1].body;
    assert!(second.contains("exactly one of these, and nothing else: yes | no"), "{second}");
    assert!(
        second.ends_with(r#"],"tool_choice":"none","structured_outputs":{"choice":["yes","no"]}}"#)
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_finds_its_place_at_once_costs_no_append_of_its_own() {
    let run = async |is_busy: bool| {
        let world = World::new(5);
        world.model.play(steps(vec![call(&[(NOTE, "{}")]), call(&[(NOTE, "{}")]), say("done")]));
        let node = world.start("n1");
        if is_busy {
            world.fleet.set_connected("w1", false);
        }
        let session_id = node.create(&agent()).await.unwrap();
        if is_busy {
            world.pass_ms(5_000).await;
            world.fleet.set_connected("w1", true);
        }
        world.until_status(session_id, Status::Completed).await;
        assert_eq!(world.fleet.starts_of(session_id, C1), 1);
        assert_eq!(count(&world, session_id, EventKind::ToolDispatched).await, 2);
        node.store.appends()
    };
    // The creation, reply and result of two steps, and the last reply.
    assert_eq!(run(false).await, 1 + 2 * 2 + 1);
    assert_eq!(run(true).await, 1 + 2 * 2 + 1 + 1, "the one that had to wait says so later");
}

#[tokio::test(start_paused = true)]
async fn a_place_is_given_back_when_what_needs_it_does_not_become_durable() {
    for time in [FaultTime::BeforeEffect, FaultTime::AfterEffect] {
        let world = World::new(6);
        world.model.play(steps(vec![call(&[(NOTE, "{}")]), call(&[(NOTE, "{}")]), say("done")]));
        world.fleet.kill_worker("w1");
        world.fleet.add_worker("w2", 1, None);
        let node = world.start("n1");
        // The first is the creation, the second the reply with the order of the call.
        node.store.fail_append(2, time);
        let session_id = node.create(&agent()).await.unwrap();
        // With the one place kept, no call would ever run.
        world.until_status(session_id, Status::Completed).await;
        assert_eq!(world.fleet.starts_of(session_id, C1), 1, "{time:?}");
        assert_eq!(world.fleet.starts().len(), 2, "{time:?}");
    }
}

/// Of two model calls only one may run: the session of the other does not say that its server is asked.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_sent_yet_says_so() {
    let world = World::new(1);
    world.model.play(|_| say("done").after_ms(60_000));
    let options = EngineOptions { model_calls_max: 1, ..EngineOptions::for_node("n1") };
    let node = world.start_with(options, 0);
    let first = node.create(&agent()).await.unwrap();
    assert!(world.until_ms(1_000, async || world.model.in_flight() == 1).await);
    let second = node.create(&agent()).await.unwrap();
    let waits = async || node.engine.live(second).blocked.is_some();
    assert!(world.until_ms(1_000, waits).await);
    let told = node.engine.live(second).blocked.unwrap();
    assert!(told.contains("not sent yet") && told.contains("--model-calls"), "{told}");
    assert_eq!(node.engine.live(first).blocked, None);
    world.until_status(second, Status::Completed).await;
    assert_eq!(node.engine.live(second).blocked, None);
}
