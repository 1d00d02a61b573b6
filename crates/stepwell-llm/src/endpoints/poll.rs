//! Asks replicas how they are, while there is something to choose.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use reqwest::{Client, StatusCode, Url};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::{Endpoints, load};
use crate::connect::Clients;
use crate::read::read_whole;

/// How often a replica is asked.
const POLL_MS: u64 = 1_000;

/// How long it may take to say how it is. A server too busy for that is not down: nothing is learnt.
const ANSWER_MS_MAX: u64 = 2_000;

/// Replicas that no session used for this long are not asked.
const UNUSED_MS_MAX: u64 = 60_000;

/// Replicas asked at the same time, at most.
const AT_ONCE_MAX: usize = 32;

/// Bytes of `/metrics`, at most: vLLM's has about 100 KB.
const METRICS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a replica said about itself.
struct Said {
    /// `None` when it has no `/health` or was too slow.
    is_well: Option<bool>,
    requests: Option<u64>,
}

impl Endpoints {
    /// Asks again and again until `stop`.
    pub(crate) async fn tend(self: Arc<Self>, clients: &Clients, stop: &CancellationToken) {
        let mut ticks = interval(Duration::from_millis(POLL_MS));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.poll(clients) => {}
            }
        }
    }

    /// Asks all replicas in use that have others beside them, once.
    pub(crate) async fn poll(&self, clients: &Clients) {
        let now_ms = self.now_ms();
        let used: Vec<(String, Url)> = self
            .lock()
            .iter()
            .filter(|(_, it)| it.has_peers && now_ms.saturating_sub(it.used_at_ms) <= UNUSED_MS_MAX)
            .map(|(endpoint, it)| (endpoint.clone(), it.url.clone()))
            .collect();
        let asking =
            stream::iter(used).for_each_concurrent(AT_ONCE_MAX, |(endpoint, url)| async move {
                // Without a client nothing is learnt; the next request says why.
                if let Ok(client) = clients.get(&url, ANSWER_MS_MAX) {
                    let said = ask(&client, &url).await;
                    self.learn(&endpoint, &said);
                }
            });
        asking.await;
    }

    fn learn(&self, endpoint: &str, said: &Said) {
        let now_ms = self.now_ms();
        let mut replicas = self.lock();
        let Some(replica) = replicas.get_mut(endpoint) else { return };
        if let Some(is_well) = said.is_well {
            replica.health.probed(is_well, now_ms);
        }
        if let Some(requests) = said.requests {
            replica.health.reported(requests, now_ms);
        }
    }
}

async fn ask(client: &Client, completions: &Url) -> Said {
    let limit = Duration::from_millis(ANSWER_MS_MAX);
    let health = client.get(beside(completions, "health")).timeout(limit).send().await;
    let is_well = match health {
        Ok(response) if response.status().is_success() => Some(true),
        // vLLM answers 503 when its engine is dead.
        Ok(response) if response.status() == StatusCode::SERVICE_UNAVAILABLE => Some(false),
        Err(error) if error.is_connect() && !error.is_timeout() => Some(false),
        Ok(_) | Err(_) => None,
    };
    let requests = match is_well {
        Some(true) => timeout(limit, requests(client, beside(completions, "metrics"))).await,
        Some(false) | None => Ok(None),
    };
    Said { is_well, requests: requests.unwrap_or(None) }
}

async fn requests(client: &Client, url: Url) -> Option<u64> {
    let mut response = client.get(url).send().await.ok()?.error_for_status().ok()?;
    let text = read_whole(&mut response, METRICS_BYTES_MAX).await.ok()??;
    load::requests(&String::from_utf8_lossy(&text))
}

/// A path at the root of the server: vLLM serves these beside `/v1`, not in it.
pub(crate) fn beside(completions: &Url, name: &str) -> Url {
    let mut url = completions.clone();
    let path = completions.path();
    let root = path.strip_suffix("/chat/completions").unwrap_or(path);
    let root = root.strip_suffix("/v1").unwrap_or(root);
    let path = format!("{root}/{name}");
    url.set_path(&path);
    url
}

/// A path of the API, beside `/chat/completions`.
pub(crate) fn in_api(completions: &Url, name: &str) -> Url {
    let mut url = completions.clone();
    let path = url.path();
    let base = path.strip_suffix("/chat/completions").unwrap_or(path);
    let path = format!("{base}/{name}");
    url.set_path(&path);
    url
}

#[cfg(test)]
mod tests {
    use stepwell_ports::Affinity;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::target::Target;

    /// Answers `/metrics` with `requests` and all else with `health`, one connection a request.
    async fn replica(listener: &TcpListener, health: &str, requests: u64) {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4096];
            let count = stream.read(&mut head).await.unwrap();
            let answer = if head[..count].starts_with(b"GET /metrics ") {
                let text = format!("vllm:num_requests_running {requests}\n");
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{text}")
            } else {
                format!("HTTP/1.1 {health}\r\nconnection: close\r\n\r\n")
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    fn target(listener: &TcpListener) -> Target {
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        Target::new(&base_url, None, |_| None).unwrap()
    }

    /// Where a session without a prefix goes after two replicas told how they are.
    async fn placed(first: (&str, u64), second: (&str, u64)) -> usize {
        let endpoints = Arc::new(Endpoints::new());
        let listeners = [
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        ];
        let targets = || listeners.iter().map(target).collect::<Vec<_>>();
        let affinity = Affinity { key: "k".into(), ..Affinity::default() };
        // They are asked only once a session used them.
        drop(endpoints.place(targets(), &affinity));
        let clients = Clients::default();
        tokio::select! {
            () = replica(&listeners[0], first.0, first.1) => {}
            () = replica(&listeners[1], second.0, second.1) => {}
            () = endpoints.poll(&clients) => {}
        }
        let (chosen, _lease) = endpoints.place(targets(), &affinity).unwrap();
        targets().iter().position(|it| it.endpoint == chosen.endpoint).unwrap()
    }

    #[tokio::test]
    async fn the_least_loaded_and_healthy_replica_is_chosen() {
        let (ok, dead, none) = ("200 OK", "503 Service Unavailable", "404 Not Found");
        assert_eq!(placed((ok, 40), (ok, 3)).await, 1);
        assert_eq!(placed((ok, 3), (ok, 40)).await, 0);
        assert_eq!(placed((dead, 0), (ok, 40)).await, 1);
        assert_eq!(placed((ok, 40), (dead, 0)).await, 0);
        // Without /health nothing is known, not even the load.
        assert_eq!(placed((ok, 40), (none, 0)).await, 1);
    }

    #[test]
    fn health_stands_beside_the_api() {
        for (completions, health) in [
            ("http://h:1/v1/chat/completions", "http://h:1/health"),
            ("http://h/chat/completions?k=v", "http://h/health?k=v"),
            ("https://h/gpu-1/v1/chat/completions", "https://h/gpu-1/health"),
        ] {
            assert_eq!(beside(&Url::parse(completions).unwrap(), "health").as_str(), health);
        }
    }
}
