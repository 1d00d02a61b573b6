//! Watchers learn of every head.

use stepwell_core::{Seq, Status};
use stepwell_ports::memory::FaultTime;
use stepwell_runtime::LiveChunkKind;
use stepwell_sim::World;
use stepwell_sim::agents::{LOOK, PAY, agent};
use stepwell_sim::model::call;

use crate::help::steps;

/// A watcher that is told reads the store, and stops when the session is final or told nothing.
async fn seen_heads(world: &World, node: &stepwell_sim::Node, id: stepwell_core::SessionId) -> Seq {
    let mut subscription = node.engine.subscribe(id);
    loop {
        let row = world.info(id).await.row;
        let waits = matches!(row.status, Status::WaitingApproval) || row.status.is_final();
        let told = tokio::time::timeout(
            std::time::Duration::from_secs(if waits { 1 } else { 120 }),
            subscription.head.changed(),
        );
        if told.await.is_err() {
            return row.head_seq;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_the_last_head_also_when_an_append_seemed_to_fail() {
    for nth in 1..6 {
        for time in [FaultTime::BeforeEffect, FaultTime::AfterEffect] {
            let world = World::new(nth);
            world.model.play(steps(vec![call(&[(LOOK, "{}")]), call(&[(PAY, "{}")])]));
            let node = world.start("n1");
            let session_id = node.create(&agent()).await.unwrap();
            node.store.fail_append(nth, time);
            let seen = seen_heads(&world, &node, session_id).await;
            assert_eq!(world.status(session_id).await, Status::WaitingApproval);
            assert_eq!(seen, world.info(session_id).await.row.head_seq, "{nth} {time:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_gets_the_pieces_of_answers_and_outputs() {
    let world = World::new(1);
    world.model.play(steps(vec![call(&[(LOOK, "{}")])]));
    let node = world.start("n1");
    let session_id = node.create(&agent()).await.unwrap();
    let mut subscription = node.engine.subscribe(session_id);
    world.until_status(session_id, Status::Completed).await;
    let mut pieces = Vec::new();
    while let Ok(piece) = subscription.chunks.try_recv() {
        pieces.push((piece.kind, piece.text));
    }
    assert!(pieces.contains(&(LiveChunkKind::Output, "…".to_string())), "{pieces:?}");
    assert!(pieces.contains(&(LiveChunkKind::Content, "done".to_string())), "{pieces:?}");
}
