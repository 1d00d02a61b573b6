//! A past moment is the same by every path: events, snapshot, checkpoint, fork.

use stepwell_core::event::{EventBody, FinishReason, ModelErrorKind};
use stepwell_core::replay::replay;
use stepwell_core::{Actor, CallId, Seq, SessionId, SessionState, Status, Text, fold};
use stepwell_runtime::{Change, Engine, EngineError, ForkSession};
use stepwell_sim::World;
use stepwell_sim::agents::{LOOK, NOTE, agent};
use stepwell_sim::model::{Act, call, fail, say};

use crate::help::{count, steps};

fn fork_of(parent: SessionId, at: Option<Seq>, changes: Vec<Change>) -> ForkSession {
    ForkSession {
        parent,
        at,
        changes,
        agent: None,
        title: None,
        workspace: String::new(),
        paused: false,
        client_key: None,
        request_digest: String::new(),
        by: Actor::Person("ann".to_string()),
    }
}

#[tokio::test(start_paused = true)]
async fn the_state_after_every_event_is_the_fold_of_the_events_until_then() {
    let world = World::new(3);
    let mut replies: Vec<_> =
        (0..400).map(|n| call(&[(LOOK, &format!("{{\"n\":{n}}}"))])).collect();
    replies.push(say("done"));
    world.model.play(steps(replies));
    let node = world.start("n1");
    let mut agent = agent();
    agent.limits.steps_max = 1_000;
    agent.limits.repeat_window = 0;
    let session_id = node.create(&agent).await.unwrap();
    world.until_status(session_id, Status::Completed).await;
    let log = world.log(session_id).await;
    assert!(log.len() > 1_500, "{} events, so there is a checkpoint", log.len());
    let mut state = SessionState::default();
    for (event, n) in log.iter().zip(1..) {
        state = fold(state, [event]).unwrap();
        if n % 97 != 0
            && ![510..516, 1_020..1_030].iter().any(|near| near.contains(&n))
            && n != log.len() as u64
        {
            continue;
        }
        assert_eq!(node.engine.state_at(session_id, Seq(n)).await.unwrap(), state);
        let outline = node.engine.outline_at(session_id, Seq(n)).await.unwrap();
        assert_eq!(outline, state.outline());
        assert_eq!(outline.prompt.body_bytes(), state.prompt.body_bytes());
        same_messages(&node.engine, session_id, &state).await;
    }
    let beyond = node.engine.outline_at(session_id, Seq(99_999)).await.unwrap_err();
    assert!(matches!(beyond, EngineError::NoSuchEvent { .. }), "{beyond}");
    let beyond = node.engine.messages_at(session_id, Seq(99_999), -1, 1).await.unwrap_err();
    assert!(matches!(beyond, EngineError::NoSuchEvent { seq: Seq(99_999), .. }), "{beyond}");
    assert_eq!(replay(log).unwrap(), state);
}

/// Windows of the messages are those of the whole request, and each names the event it came with.
async fn same_messages(engine: &Engine, session_id: SessionId, state: &SessionState) {
    let whole: Vec<&str> = state.prompt.message_texts().collect();
    let total = whole.len() as i64;
    for (from, limit) in [(0, 3), (-5, 5), (total / 2, 40), (total - 1, 9), (total + 4, 2), (7, 0)]
    {
        let window = engine.messages_at(session_id, state.head, from, limit).await.unwrap();
        let first = if from < 0 { (total + from).max(0) } else { from.min(total) };
        assert_eq!(i64::from(window.from), first);
        let texts: Vec<&str> = window.messages.iter().map(|it| it.json.as_str()).collect();
        let expected = whole.iter().skip(first as usize).take(limit as usize);
        assert_eq!(texts, expected.copied().collect::<Vec<_>>(), "{limit} from {from} of {total}");
        assert_eq!(window.state, state.outline());
        for (message, number) in window.messages.iter().zip(first as u32 + 1..) {
            let then = engine.outline_at(session_id, message.seq).await.unwrap();
            assert!(then.prompt.messages() >= number && then.step == message.step);
            let observes = message.json.contains("\"tool_call_id\"");
            assert_eq!(
                message.call_id,
                observes.then_some(CallId { step: message.step, index: 1 })
            );
            let before = Seq(message.seq.0 - 1);
            let Ok(before) = engine.outline_at(session_id, before).await else { continue };
            assert!(before.prompt.messages() < number, "message {number} is older");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fork_with_another_result_runs_to_its_own_end_and_leaves_its_parent_alone() {
    let world = World::new(4);
    world.model.play(steps(vec![
        call(&[(NOTE, "{\"n\":1}")]),
        call(&[(NOTE, "{\"n\":2}")]),
        say("done"),
    ]));
    let node = world.start("n1");
    let parent = node.create(&agent()).await.unwrap();
    world.until_status(parent, Status::Completed).await;
    let before = world.log(parent).await;
    let call_id = CallId { step: 1, index: 1 };
    let outcome = stepwell_core::event::ToolOutcome::Ok;
    let change = Change::Result { call_id, outcome, output: Text::from("otherwise") };
    let twice = fork_of(parent, None, vec![change.clone(), change.clone()]);
    let error = node.engine.plan_fork(&twice).await.unwrap_err().to_string();
    assert!(error.contains("the result of call 1.1 is given twice"), "{error}");
    let fork = fork_of(parent, None, vec![change]);
    let plan = node.engine.plan_fork(&fork).await.unwrap();
    let told: Vec<_> = plan.hazards.iter().map(|it| (it.call_id.step, it.result_given)).collect();
    assert_eq!(told, [(1, true), (2, false)], "the note of step 2 is written again");
    assert!(plan.shares_workspace);
    let child = node.engine.fork(fork, plan).await.unwrap().session_id;
    world.until_status(child, Status::Completed).await;
    assert_eq!(world.log(parent).await, before);
    let log = world.log(child).await;
    let own = log.iter().position(|it| matches!(it.body, EventBody::OverrideApplied(_))).unwrap();
    assert_eq!(log[..own], before[..own]);
    let dispatched = stepwell_core::event::EventKind::ToolDispatched;
    assert_eq!(count(&world, child, dispatched).await, 2, "one of the parent, one of its own");
    assert_eq!(world.fleet.starts_of(child, call_id), 0);
    assert!(world.state(child).await.prompt.body().contains("otherwise"));
    replay(log).unwrap();
    let info = world.info(child).await;
    assert_eq!(info.row.parent.unwrap().session_id, parent);
}

#[tokio::test(start_paused = true)]
async fn a_fork_works_where_its_source_works_also_from_before_the_source_began() {
    let world = World::new(4);
    world.model.play(steps(vec![call(&[(NOTE, "{\"n\":1}")]), say("done")]));
    let node = world.start("n1");
    let parent = node.create(&agent()).await.unwrap();
    world.until_status(parent, Status::Completed).await;
    let fork = ForkSession { workspace: "mended".to_string(), ..fork_of(parent, None, vec![]) };
    let plan = node.engine.plan_fork(&fork).await.unwrap();
    let (at, shares) = (plan.at, plan.shares_workspace);
    let child = node.engine.fork(fork, plan).await.unwrap().session_id;
    world.until_status(child, Status::Completed).await;
    assert!(!shares);
    for at in [Seq(2), at, Seq(at.0 + 1)] {
        let again = node.engine.plan_fork(&fork_of(child, Some(at), vec![])).await.unwrap();
        assert_eq!((again.workspace.as_str(), again.shares_workspace), ("mended", true), "{at}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_agent_alone_is_asked_for_the_answer() {
    let world = World::new(4);
    world.model.play(steps(vec![call(&[(NOTE, "{\"n\":1}")]), say("done")]));
    let node = world.start("n1");
    let parent = node.create(&agent()).await.unwrap();
    world.until_status(parent, Status::Completed).await;
    let fork = ForkSession { agent: Some(agent()), ..fork_of(parent, None, vec![]) };
    let plan = node.engine.plan_fork(&fork).await.unwrap();
    let child = node.engine.fork(fork, plan).await.unwrap().session_id;
    world.until_status(child, Status::Completed).await;
    assert_eq!(world.model.asks_of(child).len(), 1, "the other one gives the answer");
}

/// A session that its model failed goes on with another one, or with a message: what was tried in vain
/// is left behind, and so is an answer that was cut.
#[tokio::test(start_paused = true)]
async fn a_session_that_its_model_failed_is_asked_again_in_a_fork() {
    let mut cut = say("half of what");
    if let Act::Answer(answer) = &mut cut.act {
        answer.finish_reason = FinishReason::Length;
    }
    let message = Change::Message { content: Text::from("Go on.") };
    // The request that was open is answered first, then the message.
    for (bad, ends_with, changes, asks) in [
        (fail(ModelErrorKind::Unauthorized), Status::Failed, vec![], 1),
        (fail(ModelErrorKind::Overloaded), Status::Failed, vec![], 1),
        (fail(ModelErrorKind::Overloaded), Status::Failed, vec![message], 2),
        (cut, Status::LimitReached, vec![], 1),
    ] {
        let world = World::new(4);
        let first = std::sync::OnceLock::<SessionId>::new();
        world.model.play(move |asked| {
            let parent = *first.get_or_init(|| asked.session_id);
            match (asked.step, asked.session_id == parent) {
                (1, _) => call(&[(NOTE, "{\"n\":1}")]),
                (_, true) => bad.clone(),
                (_, false) => say("done"),
            }
        });
        let node = world.start("n1");
        let parent = node.create(&agent()).await.unwrap();
        world.until_status(parent, ends_with).await;
        let agent = changes.is_empty().then(agent);
        let fork = ForkSession { agent, ..fork_of(parent, None, changes) };
        let plan = node.engine.plan_fork(&fork).await.unwrap();
        assert!(plan.hazards.is_empty(), "the note is written once");
        let child = node.engine.fork(fork, plan).await.unwrap().session_id;
        world.until_status(child, Status::Completed).await;
        assert_eq!(world.model.asks_of(child).len(), asks);
    }
}
