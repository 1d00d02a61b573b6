//! `ImportSession` over a store that fails.

use std::sync::Arc;

use stepwell_archive::{Form, Header, Writer};
use stepwell_core::{Seq, SessionId};
use stepwell_ports::Store as _;
use stepwell_ports::memory::{FaultTime, FaultyStore, MemoryStore};
use stepwell_proto::v1;
use stepwell_proto::v1::SessionStatus;
use stepwell_server::ServerOptions;
use tonic::Status;

use crate::world::{PLAIN, Turn, World};

/// A finished session as a file, and its id.
pub(crate) async fn exported() -> (Vec<u8>, SessionId) {
    exported_of(PLAIN).await
}

/// The same, of a session with that definition.
async fn exported_of(definition: &str) -> (Vec<u8>, SessionId) {
    let world = World::new(&[Turn::Say(&["It is done."])]).await;
    let id = world.create(definition).await;
    world.until_status(&id, SessionStatus::Completed).await;
    let session_id: SessionId = id.parse().unwrap();
    let page = world.store.read(session_id, Seq(0), 100).await.unwrap();
    let header = Header::new(session_id, "0.1.0", 1);
    let mut writer = Writer::new(Vec::new(), Form::Packed, &header).unwrap();
    for event in &page.events {
        writer.event(event, &[], &[]).unwrap();
    }
    world.stop().await;
    (writer.finish(None).unwrap().0, session_id)
}

/// Sends a file in small pieces.
async fn import(world: &World, file: &[u8]) -> Result<v1::ImportSessionResponse, Status> {
    import_trusting(world, file, false).await
}

async fn import_trusting(
    world: &World,
    file: &[u8],
    trust_keys: bool,
) -> Result<v1::ImportSessionResponse, Status> {
    let piece = |it: &[u8]| v1::ImportSessionRequest {
        name: "a.stepwell".into(),
        data: it.to_vec().into(),
        trust_keys,
    };
    let pieces: Vec<_> = file.chunks(100).map(piece).collect();
    let sent = tokio_stream::iter(pieces);
    Ok(world.sessions().await.import_session(sent).await?.into_inner())
}

#[tokio::test]
async fn a_store_that_fails_leaves_all_or_nothing_and_the_file_can_be_sent_again() {
    let (file, session_id) = exported().await;
    for time in [FaultTime::BeforeEffect, FaultTime::AfterEffect] {
        // Calls of the engine count too, so not every number meets the import.
        for nth in 1..=12 {
            let store = Arc::new(FaultyStore::new(MemoryStore::new(), nth, time));
            let world = World::over(store.clone(), &[], ServerOptions::default()).await;
            let first = import(&world, &file).await;
            let head = store.inner().read(session_id, Seq(0), 100).await.unwrap().head;
            match &first {
                Ok(response) => assert!(response.created && head == Seq(4), "{nth} {time:?}"),
                Err(_) => assert!(head == Seq(0) || head == Seq(4), "{nth} {time:?}: {head}"),
            }
            // The fault is over, or meets this call: then the next one.
            let mut again = import(&world, &file).await;
            if again.is_err() {
                again = import(&world, &file).await;
            }
            assert_eq!(again.unwrap().events, 4, "{nth} {time:?}");
            world.stop().await;
        }
    }
}

#[tokio::test]
async fn an_empty_stream_and_a_long_name_are_refused() {
    let world = World::new(&[]).await;
    let error = import(&world, &[]).await.unwrap_err();
    assert!(error.message().contains("it is empty"), "{error}");
    let piece = v1::ImportSessionRequest {
        name: "n".repeat(10_000),
        data: "{".into(),
        ..v1::ImportSessionRequest::default()
    };
    let sent = tokio_stream::iter([piece]);
    let error = world.sessions().await.import_session(sent).await.unwrap_err();
    assert!(error.message().starts_with("name: more than"), "{error}");
    world.stop().await;
}

/// A file must not choose which key of this server goes where: what somebody here chose may.
#[tokio::test]
async fn a_file_says_where_a_key_is_sent_only_when_it_is_trusted_or_known_here() {
    let keyed = |key: &str, url: &str| {
        let model = format!("name = \"m\"\nbase_url = \"{url}\"\napi_key_env = \"{key}\"\n");
        format!("{PLAIN}\n[model]\n{model}")
    };
    let url = "http://127.0.0.1:18320/v1";
    let (file, session_id) = exported_of(&keyed("HOME", url)).await;
    for (stored, is_known) in [
        (keyed("HOME", "http://127.0.0.1:18320/v1/"), true),
        (keyed("HOME", "http://127.0.0.1:18321/v1"), false),
        (keyed("OTHER", url), false),
    ] {
        let world = World::new(&[]).await;
        world.agents().await.put_agent(v1::PutAgentRequest { definition: stored }).await.unwrap();
        let imported = import(&world, &file).await;
        let is_here = world.store.session(session_id).await.unwrap().is_some();
        assert_eq!((imported.is_ok(), is_here), (is_known, is_known));
        if let Err(error) = imported {
            assert_eq!(error.code(), tonic::Code::FailedPrecondition);
            let told = error.message();
            assert!(told.contains("\"HOME\" to \"http://127.0.0.1:18320/v1\""), "{told}");
            assert!(told.contains("event 1") && told.contains("--trust-keys"), "{told}");
            let trusted = import_trusting(&world, &file, true).await.unwrap();
            assert!(trusted.created);
        }
        world.stop().await;
    }
}
