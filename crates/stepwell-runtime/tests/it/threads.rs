//! The same engine on real threads: what holds by luck in one thread breaks here.

use std::sync::Arc;

use stepwell_core::event::{ApprovalDecision, EventKind};
use stepwell_core::{CallId, SessionId, Status};
use stepwell_sim::agents::{LOOK, NOTE, PAY, agent};
use stepwell_sim::fleet::CallPlan;
use stepwell_sim::model::{call, say};
use stepwell_sim::{Node, World, people};
use tokio::task::JoinSet;

use crate::help::{count, steps};

const SESSIONS: usize = 100;

/// Holds, releases and talks while the session works, approves twice at once, until it is done.
async fn attend(world: Arc<World>, node: Arc<Node>, session_id: SessionId) {
    let mut rounds = 0;
    while !world.status(session_id).await.is_final() {
        rounds += 1;
        assert!(rounds < 10_000, "{}", world.info(session_id).await.row.explain);
        if rounds < 4 {
            // Refused once the session is done, which is fine.
            let _ = tokio::join!(
                node.submit(session_id, people::pause()),
                node.submit(session_id, people::message("go on")),
                node.submit(session_id, people::resume()),
            );
        }
        let _ = node.submit(session_id, people::resume()).await;
        let state = world.state(session_id).await;
        if let Some(approval_id) = state.approvals.keys().next() {
            let approve = people::decide(*approval_id, ApprovalDecision::Approve);
            let (one, two) = tokio::join!(
                node.submit(session_id, approve.clone()),
                node.submit(session_id, approve),
            );
            let changed = [one, two].into_iter().flatten().filter(|it| it.changed).count();
            assert!(changed <= 1);
        }
        world.pass_ms(2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_sessions_and_people_at_once_on_real_threads() {
    let world = Arc::new(World::new(1));
    world.fleet.add_worker("w0", 3, None);
    world.fleet.play(|_, _| CallPlan::ok(1));
    world.model.play(steps(vec![
        call(&[(LOOK, "{\"n\":1}"), (NOTE, "{\"n\":2}"), (NOTE, "{\"n\":3}")]).after_ms(1),
        call(&[(PAY, "{\"n\":4}"), (PAY, "{\"n\":5}")]).after_ms(1),
        say("done").after_ms(1),
    ]));
    let node = Arc::new(world.start("n1"));
    let mut people = JoinSet::new();
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let session_id = node.create(&agent()).await.unwrap();
        sessions.push(session_id);
        people.spawn(attend(world.clone(), node.clone(), session_id));
    }
    people.join_all().await;
    for session_id in sessions {
        assert_eq!(world.status(session_id).await, Status::Completed);
        assert_eq!(count(&world, session_id, EventKind::ApprovalDecided).await, 2);
        for (step, index) in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)] {
            assert_eq!(world.fleet.starts_of(session_id, CallId { step, index }), 1);
        }
    }
    node.shut_down().await;
    assert_eq!(node.engine.active_sessions(), 0);
}
