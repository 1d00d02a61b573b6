//! What every store must do, done by this one; and what only a file can suffer, in the modules.

mod common;
mod copies;
mod corrupt;
mod crash;
mod groups;
mod imports;
mod lists;
mod log;
mod opening;
mod retention;
mod room;

use std::sync::Arc;

use stepwell_ports::conformance::{differential, seeds};
use stepwell_ports::memory::MemoryStore;
use stepwell_ports::{Store, store_conformance};

use common::open;

fn fresh() -> (tempfile::TempDir, Arc<dyn Store>) {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(open(folder.path()));
    (folder, store)
}

store_conformance!(fresh());

#[tokio::test]
async fn random_calls_have_the_answers_of_the_memory_store() {
    const STEPS: usize = 300;
    for seed in seeds() {
        let (_folder, store) = fresh();
        differential(seed, STEPS, Arc::new(MemoryStore::new()), store).await;
    }
}
