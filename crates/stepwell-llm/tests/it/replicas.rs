//! Several servers behind one model.

use stepwell_core::event::ModelErrorKind;
use stepwell_llm::OpenAiClient;
use stepwell_ports::Affinity;

use crate::answers::{end, stream_of};
use crate::peer::{PATIENT, Peer, STREAM_HEAD, ask, chunk, request};

fn answer() -> Vec<u8> {
    let stream = [&chunk(&stream_of(&[&end("stop")]))[..], &chunk(b"")].concat();
    [STREAM_HEAD, &stream].concat()
}

/// Whatever replica a session is given first: when it is gone, the session goes to the other one and
/// stays there.
#[tokio::test]
async fn a_session_leaves_a_dead_replica_and_stays_where_it_was_answered() {
    for key in ["a", "b", "c", "d", "e", "f"] {
        let (gone, there) = (Peer::listen().await, Peer::listen().await);
        let mut sent = request(gone.base_url(), PATIENT);
        sent.model.replicas.push(there.base_url());
        sent.affinity = Affinity { key: key.into(), ..Affinity::default() };
        drop(gone);
        let client = OpenAiClient::new();
        let bytes = answer();
        let live = async {
            let mut failures = 0;
            loop {
                match ask(&client, sent.clone()).await {
                    Ok(answer) => return (failures, answer.endpoint),
                    Err(failure) => assert_eq!(failure.kind, ModelErrorKind::Transport),
                }
                failures += 1;
            }
        };
        let (_, (failures, holder)) = tokio::join!(there.answer_once(&bytes), live);
        assert!(failures <= 1, "one failed connection is enough, not {failures}");
        assert_eq!(holder, format!("{}/chat/completions", there.base_url()));
        sent.affinity.holder = Some(holder.clone());
        let (_, again) = tokio::join!(there.answer_once(&bytes), ask(&client, sent));
        assert_eq!(again.unwrap().endpoint, holder);
    }
}
