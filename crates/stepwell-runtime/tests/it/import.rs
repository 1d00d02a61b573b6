//! A session that was brought in does nothing before a person says so.

use stepwell_core::{Seq, SessionId, Status};
use stepwell_ports::{ImportPage, Store as _};
use stepwell_runtime::import::ImportFold;
use stepwell_sim::agents::agent;
use stepwell_sim::model::say;
use stepwell_sim::{World, people};

use crate::help::steps;

const DAY_MS: u64 = 86_400_000;

/// Brings the session of one world into another, as an import does.
async fn bring(from: &World, to: &World, session_id: SessionId) {
    let page = from.store.read(session_id, Seq(0), 100).await.unwrap();
    let mut fold = ImportFold::new(session_id);
    for event in from.log(session_id).await {
        fold.take(&event).unwrap();
    }
    let after = fold.state().head;
    let held = fold.hold("imported from a file", fold.state().updated_at).unwrap();
    let import = to.store.import_begin(session_id).await.unwrap();
    let page = ImportPage { events: page.events, ..ImportPage::default() };
    to.store.import_events(import, page).await.unwrap();
    let page = ImportPage { after, events: held, ..ImportPage::default() };
    to.store.import_events(import, page).await.unwrap();
    to.store.import_finish(import, fold.finish(None).unwrap()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_model_was_asked_is_not_asked_again_by_itself() {
    let first = World::new(1);
    first.model.play(steps(vec![say("never heard").after_ms(DAY_MS)]));
    let session_id = first.start("n1").create(&agent()).await.unwrap();
    first.until_status(session_id, Status::Thinking).await;

    let second = World::new(2);
    second.model.play(steps(vec![say("done")]));
    bring(&first, &second, session_id).await;
    let node = second.start("n2");
    second.pass_ms(30 * DAY_MS).await;
    assert_eq!(second.model.asks_of(session_id).len(), 0, "it ran by itself");
    let row = second.info(session_id).await.row;
    assert!(
        row.explain.starts_with("held, not to run here by itself: imported"),
        "{}",
        row.explain
    );

    node.submit(session_id, people::resume()).await.unwrap();
    second.until_status(session_id, Status::Completed).await;
    assert_eq!(second.model.asks_of(session_id).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn of_a_history_that_is_only_looked_at_nothing_is_said_to_go_on() {
    let world = World::new(1);
    world.model.play(steps(vec![say("never heard").after_ms(DAY_MS)]));
    let session_id = world.start("n1").create(&agent()).await.unwrap();
    world.until_status(session_id, Status::Thinking).await;

    let mut fold = ImportFold::new(session_id);
    for event in world.log(session_id).await {
        fold.take(&event).unwrap();
    }
    let row = fold.finish(None).unwrap().row;
    assert!(
        row.explain.starts_with("when it was exported: waits for the model"),
        "{}",
        row.explain
    );
}
