//! Inputs of people: taken once, never lost, whatever the owner does meanwhile.

use stepwell_core::event::{ApprovalDecision, EventKind};
use stepwell_core::{Input, Reject, Status, Text};
use stepwell_runtime::EngineError;
use stepwell_sim::agents::{LOOK, PAY, agent};
use stepwell_sim::model::call;
use stepwell_sim::{World, people, person};

use crate::help::{C1, count, open_approval, steps};

#[tokio::test(start_paused = true)]
async fn the_same_decision_twice_at_once_is_one_decision() {
    for other in [ApprovalDecision::Approve, ApprovalDecision::Deny] {
        let world = World::new(1);
        world.sky.weather().latency_ms_max = 3;
        world.model.play(steps(vec![call(&[(PAY, "{}")])]));
        let node = world.start("n1");
        let session_id = node.create(&agent()).await.unwrap();
        world.until_status(session_id, Status::WaitingApproval).await;
        let approval_id = open_approval(&world, session_id).await;
        let (one, two) = tokio::join!(
            node.submit(session_id, people::decide(approval_id, ApprovalDecision::Approve)),
            node.submit(session_id, people::decide(approval_id, other)),
        );
        assert!(one.unwrap().changed);
        match two {
            Ok(submitted) => assert!(other == ApprovalDecision::Approve && !submitted.changed),
            Err(error) => {
                assert!(other == ApprovalDecision::Deny, "{error}");
                assert!(
                    matches!(error, EngineError::Rejected(Reject::AlreadyDecided { .. })),
                    "{error}"
                );
            }
        }
        world.until_status(session_id, Status::Completed).await;
        assert_eq!(count(&world, session_id, EventKind::ApprovalDecided).await, 1);
        assert_eq!(world.fleet.starts_of(session_id, C1), 1);
    }
}

/// The second word is judged by the first one, which never became a fact.
#[tokio::test(start_paused = true)]
async fn nobody_is_refused_for_the_sake_of_a_decision_that_was_not_recorded() {
    let world = World::new(1);
    world.model.play(steps(vec![call(&[(PAY, "{}")])]));
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    world.until_status(session_id, Status::WaitingApproval).await;
    let approval_id = open_approval(&world, session_id).await;
    // The way to the store is long enough for both to be decided together.
    node.store.fail_append(1, stepwell_ports::memory::FaultTime::BeforeEffect);
    world.sky.weather().latency_ms_max = 50;
    let (one, two) = tokio::join!(
        node.submit(session_id, people::decide(approval_id, ApprovalDecision::Approve)),
        node.submit(session_id, people::decide(approval_id, ApprovalDecision::Deny)),
    );
    for result in [one, two] {
        assert!(matches!(result, Err(EngineError::Store(_)) | Ok(_)), "{result:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_meets_a_parking_owner_is_taken() {
    for round in 0..300 {
        let world = World::new(round);
        world.sky.weather().latency_ms_max = 3;
        world.model.play(steps(vec![call(&[(PAY, "{}")])]));
        let node = world.start("n1");
        let session_id = node.create(&agent()).await.unwrap();
        world.until_status(session_id, Status::WaitingApproval).await;
        let approval_id = open_approval(&world, session_id).await;
        for _ in 0..round % 10 {
            tokio::task::yield_now().await;
        }
        world.pass_ms(round / 30).await;
        let input = people::decide(approval_id, ApprovalDecision::Approve);
        assert!(node.submit(session_id, input).await.unwrap().changed);
        world.until_status(session_id, Status::Completed).await;
        assert_eq!(world.fleet.starts_of(session_id, C1), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn many_messages_at_once_are_all_taken_in_order() {
    let world = World::new(4);
    world.sky.weather().latency_ms_max = 2;
    world.model.play(steps(vec![call(&[(PAY, "{}")])]));
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    world.until_status(session_id, Status::WaitingApproval).await;
    let mut sent = tokio::task::JoinSet::new();
    for i in 0..900 {
        let engine = node.engine.clone();
        let input = Input::Message {
            content: Text::from(format!("m{i:03}")),
            answers: None,
            client_key: Some(format!("k{}", i % 800)),
            by: person("ann"),
        };
        sent.spawn(async move { engine.submit(session_id, input).await.unwrap().changed });
    }
    let changed = sent.join_all().await.into_iter().filter(|it| *it).count();
    assert_eq!(changed, 800, "the same key is taken once");
    assert_eq!(count(&world, session_id, EventKind::MessageReceived).await, 800);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_not_there_is_not_found() {
    let world = World::new(5);
    let node = world.start("n1");
    let session_id = stepwell_core::SessionId::from_random([9; 16]);
    for input in [people::cancel(), Input::Wake] {
        let error = node.submit(session_id, input).await.unwrap_err();
        assert!(matches!(error, EngineError::NotFound { .. }), "{error}");
    }
    assert_eq!(node.engine.active_sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_same_client_key_gives_the_same_session() {
    let world = World::new(6);
    let node = world.start("n1");
    let create = |digest: &str| stepwell_runtime::CreateSession {
        paused: false,
        client_key: Some("key".to_string()),
        request_digest: digest.to_string(),
        ..stepwell_sim::world::create(&agent())
    };
    let (one, two) = tokio::join!(node.engine.create(create("a")), node.engine.create(create("a")));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.session_id, two.session_id);
    assert!(one.is_new != two.is_new);
    let error = node.engine.create(create("b")).await.unwrap_err();
    assert!(matches!(error, EngineError::KeyTaken { session_id } if session_id == one.session_id));
}

#[tokio::test(start_paused = true)]
async fn a_held_session_starts_nothing_and_goes_on_when_it_may() {
    for tool in [LOOK, stepwell_sim::agents::NOTE] {
        let world = World::new(7);
        world.fleet.kill_worker("w1");
        world.model.play(steps(vec![call(&[(tool, "{}")])]));
        let node = world.start("n1");
        let session_id = node.create(&agent()).await.unwrap();
        world.until_status(session_id, Status::ExecutingTools).await;
        // Again and again, so that the waiting call is stopped and started at every moment.
        for round in 0..20 {
            let held = node.submit(session_id, people::pause()).await;
            if round % 3 == 0 {
                world.pass_ms(round).await;
            }
            let released = node.submit(session_id, people::resume()).await;
            // Once there is a worker it may be done before it is held again.
            assert!(round > 10 || (held.is_ok() && released.is_ok()));
            if round == 10 {
                world.fleet.add_worker("w2", 1, None);
            }
        }
        world.until_status(session_id, Status::Completed).await;
        assert_eq!(world.fleet.starts_of(session_id, C1), 1, "{tool}");
    }
}
