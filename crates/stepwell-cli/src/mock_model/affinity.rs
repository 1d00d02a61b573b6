//! Two servers with prefix caches, fifty sessions: with affinity and in turn.
//!
//! `docs/prefix-cache.md` holds the numbers; run it with `--nocapture` to see them.

use std::sync::Arc;

use futures_util::future::join_all;
use stepwell_core::SessionId;
use stepwell_core::agent::{Agent, ModelSpec};
use stepwell_core::event::Usage;
use stepwell_core::prompt::Prompt;
use stepwell_core::tokens::Tokens;
use stepwell_llm::OpenAiClient;
use stepwell_ports::{Affinity, ModelChunk, ModelPort as _, ModelRequest, ModelSink};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Script, serve};

const SESSIONS: u32 = 50;
const STEPS: u32 = 12;
/// About 400 tokens, as the mock counts them.
const OBSERVATION_BYTES: usize = 1_600;

/// How a replica is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Affinity,
    InTurn,
}

struct Nobody;

impl ModelSink for Nobody {
    fn chunk(&self, _: ModelChunk) {}
}

fn agent(base_url: String) -> Agent {
    Agent {
        version: 1,
        ..Agent::new("a", &"You work. ".repeat(80), ModelSpec::new("mock", base_url))
    }
}

/// One session; its tokens, and how often it changed the replica.
async fn session(client: &OpenAiClient, urls: &[String; 2], number: u32, way: Way) -> (Usage, u32) {
    let (mut usage, mut moves) = (Usage::default(), 0);
    let mut agent = agent(urls[0].clone());
    let mut prompt = Prompt::new(&agent, &format!("task {number}"));
    let mut affinity = Affinity { key: format!("session-{number}"), ..Affinity::default() };
    for step in 1..=STEPS {
        match way {
            Way::Affinity => agent.model.replicas = vec![urls[1].clone()],
            Way::InTurn => agent.model.base_url = urls[((number + step) % 2) as usize].clone(),
        }
        let request = ModelRequest {
            session_id: SessionId::from_random([number as u8; 16]),
            step,
            attempt: 1,
            tokens: Tokens::default(),
            model: agent.model.clone(),
            measured: None,
            affinity: affinity.clone(),
            prompt: prompt.clone(),
        };
        let answer = client.ask(request, Arc::new(Nobody), CancellationToken::new()).await.unwrap();
        usage.add(&answer.usage);
        moves += u32::from(affinity.holder.is_some_and(|it| it != answer.endpoint));
        affinity.holder = Some(answer.endpoint);
        prompt.push_assistant(&answer.content, &[]);
        let observation = format!("{number} {step} ").repeat(OBSERVATION_BYTES / 8);
        prompt.push_user(&observation);
    }
    (usage, moves)
}

/// Sums over all sessions with caches of `cache_tokens` each.
async fn measure(cache_tokens: u64, way: Way) -> (Usage, u32) {
    let script = format!(
        "cache_tokens = {cache_tokens}\n[[step]]\ncontent = 'a step is done'\nrepeat = 'forever'\n"
    );
    let script = Script::parse(&script).unwrap();
    let stop = CancellationToken::new();
    let listeners = [
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    ];
    let urls = [0, 1].map(|at| format!("http://{}/v1", listeners[at].local_addr().unwrap()));
    let servers = join_all(listeners.map(|it| serve(it, script.clone(), stop.clone())));
    let client = OpenAiClient::new();
    let sessions = async {
        let all = join_all((0..SESSIONS).map(|it| session(&client, &urls, it, way))).await;
        stop.cancel();
        let (mut usage, mut moves) = (Usage::default(), 0);
        for (one, moved) in all {
            usage.add(&one);
            moves += moved;
        }
        (usage, moves)
    };
    tokio::join!(servers, sessions).1
}

/// The share of prompt tokens out of the cache, in percent with one decimal.
fn share(usage: &Usage) -> f64 {
    usage.cached_tokens as f64 * 100.0 / usage.prompt_tokens as f64
}

/// All sessions' prompts are about 145,000 tokens at their end: more than the smaller caches hold, less
/// than two of them.
#[tokio::test]
async fn sessions_that_stay_find_their_prefix() {
    let mut shares = Vec::new();
    for cache_tokens in [10_000_000, 100_000] {
        let (in_turn, _) = measure(cache_tokens, Way::InTurn).await;
        let (affinity, moves) = measure(cache_tokens, Way::Affinity).await;
        println!(
            "caches of {cache_tokens} tokens: in turn {:.1}% of {} cached, with affinity {:.1}% of \
             {}, {moves} moves",
            share(&in_turn),
            in_turn.prompt_tokens,
            share(&affinity),
            affinity.prompt_tokens
        );
        assert_eq!(moves, 0, "about equal load moves nobody");
        assert!(share(&affinity) > share(&in_turn), "{affinity:?} {in_turn:?}");
        shares.push(share(&affinity));
    }
    // What a session has at one replica only fits into caches of that size.
    assert!(shares[0] - shares[1] < 1.0, "{shares:?}");
}
