//! Several replicas behind one model: which one is asked, and what is learnt from how it went.
//!
//! What is known of a replica is kept by its address, in memory, for the whole process: all sessions
//! learn from each other. Where a session's prefix lies is not kept here: the session's own events say
//! which address answered last, so that a restart or another node forgets nothing.
//!
//! Invariant: a request that began ends, however it is left.

pub mod choice;
pub mod health;
pub mod load;
mod poll;

pub(crate) use poll::{beside, in_api};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::Url;
use stepwell_core::event::{ModelErrorKind, TimeLimit};
use stepwell_ports::{Affinity, ModelFailure};
use tokio::time::Instant;
use tracing::debug;

use self::choice::{Candidate, choose};
use self::health::{Ending, Health};
use crate::target::Target;

/// Replicas that are remembered, at most. Whoever was not asked for longest is forgotten first.
const REPLICAS_MAX: usize = 4_096;

/// How long a replica without quota is left alone when it does not say how long.
const QUOTA_MS: u64 = 60_000;

/// What is known of all replicas.
#[derive(Debug)]
pub(crate) struct Endpoints {
    started: Instant,
    replicas: Mutex<BTreeMap<String, Replica>>,
}

#[derive(Debug)]
struct Replica {
    health: Health,
    url: Url,
    used_at_ms: u64,
    /// It has others beside it, so there is something to choose.
    has_peers: bool,
}

impl Endpoints {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), replicas: Mutex::default() }
    }

    /// Chooses one of `targets` and begins a request to it. `None` when there are none.
    pub(crate) fn place(
        self: &Arc<Self>,
        mut targets: Vec<Target>,
        affinity: &Affinity,
    ) -> Option<(Target, Lease)> {
        let now_ms = self.now_ms();
        let mut replicas = self.lock();
        for target in &targets {
            let replica = replicas.entry(target.endpoint.clone()).or_insert_with(|| Replica {
                health: Health::default(),
                url: target.url.clone(),
                used_at_ms: now_ms,
                has_peers: false,
            });
            replica.used_at_ms = now_ms;
            replica.has_peers |= targets.len() > 1;
        }
        let known = targets.iter().filter_map(|it| replicas.get_key_value(&it.endpoint));
        let candidates: Vec<_> = known
            .map(|(endpoint, it)| Candidate {
                endpoint,
                standing: it.health.standing(now_ms),
                load: it.health.load(now_ms),
                failures: affinity.failures_at(endpoint),
            })
            .collect();
        let (at, why) = choose(&candidates, &affinity.key, affinity.holder.as_deref())?;
        let target = targets.swap_remove(at);
        if let Some(replica) = replicas.get_mut(&target.endpoint) {
            replica.health.begin(now_ms);
        }
        forget_the_oldest(&mut replicas);
        drop(replicas);
        debug!(endpoint = %target.endpoint, key = affinity.key, why = why.as_str(), "placed");
        let endpoint = Some(target.endpoint.clone());
        let peers = targets.into_iter().map(|it| it.endpoint).collect();
        Some((target, Lease { endpoints: self.clone(), endpoint, peers }))
    }

    /// How long it takes until one of these can be asked; `None` for none of them.
    fn free_in_ms(&self, endpoints: &[String]) -> Option<u64> {
        let now_ms = self.now_ms();
        let replicas = self.lock();
        let known = endpoints.iter().map(|it| replicas.get(it));
        known.map(|it| it.map_or(0, |it| it.health.free_in_ms(now_ms))).min()
    }

    /// Whether one of these is not known to refuse what comes from here.
    fn any_serves(&self, endpoints: &[String]) -> bool {
        let now_ms = self.now_ms();
        let replicas = self.lock();
        endpoints.iter().any(|it| replicas.get(it).is_none_or(|it| !it.health.refuses(now_ms)))
    }

    fn end(&self, endpoint: &str, ending: Ending) {
        let now_ms = self.now_ms();
        if let Some(replica) = self.lock().get_mut(endpoint) {
            replica.health.end(ending, now_ms);
        }
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Replica>> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_the_oldest(replicas: &mut BTreeMap<String, Replica>) {
    while replicas.len() > REPLICAS_MAX {
        let idle = replicas.iter().filter(|(_, it)| it.health.in_flight() == 0);
        let oldest = idle.min_by_key(|(_, it)| it.used_at_ms).map(|(endpoint, _)| endpoint.clone());
        let Some(oldest) = oldest else { return };
        replicas.remove(&oldest);
    }
}

/// A request under way. Dropped without an end, it is one that nobody wanted any more.
pub(crate) struct Lease {
    endpoints: Arc<Endpoints>,
    endpoint: Option<String>,
    /// The other replicas of its model.
    peers: Vec<String>,
}

impl Lease {
    /// The request ended so. A wait that its server asks for is shortened to that for another replica.
    pub(crate) fn end<T>(mut self, outcome: Result<T, ModelFailure>) -> Result<T, ModelFailure> {
        let ending = match &outcome {
            Ok(_) => Ending::Good,
            Err(failure) => ending_of(failure),
        };
        if let Some(endpoint) = self.endpoint.take() {
            self.endpoints.end(&endpoint, ending);
        }
        outcome.map_err(|failure| match self.endpoints.free_in_ms(&self.peers) {
            Some(free_in_ms) => {
                let shorter = failure.retry_after_ms.map(|asked_ms| asked_ms.min(free_in_ms));
                ModelFailure {
                    retry_after_ms: shorter.filter(|wait_ms| *wait_ms > 0),
                    elsewhere: if failure.kind == ModelErrorKind::QuotaExhausted {
                        free_in_ms == 0
                    } else {
                        is_own(&failure) && self.endpoints.any_serves(&self.peers)
                    },
                    ..failure
                }
            }
            None => failure,
        })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(endpoint) = self.endpoint.take() {
            self.endpoints.end(&endpoint, Ending::Dropped);
        }
    }
}

/// What a failure says about the replica, not about the request.
fn ending_of(failure: &ModelFailure) -> Ending {
    match failure.kind {
        ModelErrorKind::Transport => Ending::Unreachable,
        ModelErrorKind::QuotaExhausted => {
            Ending::Busy { retry_after_ms: failure.retry_after_ms.or(Some(QUOTA_MS)) }
        }
        ModelErrorKind::Overloaded | ModelErrorKind::RateLimited => {
            Ending::Busy { retry_after_ms: failure.retry_after_ms }
        }
        ModelErrorKind::Timeout => match failure.time_limit {
            Some(TimeLimit::Connect) => Ending::Unreachable,
            Some(TimeLimit::FirstToken | TimeLimit::BetweenTokens) => Ending::Silent,
            Some(TimeLimit::Total) | None => Ending::Failed,
        },
        ModelErrorKind::ServerError
        | ModelErrorKind::StreamBroken
        | ModelErrorKind::BadResponse => Ending::Failed,
        ModelErrorKind::BadRequest | ModelErrorKind::Unauthorized if is_own(failure) => {
            Ending::Refused
        }
        ModelErrorKind::ContextTooLong
        | ModelErrorKind::BadRequest
        | ModelErrorKind::ContentFilter
        | ModelErrorKind::Unauthorized => Ending::Good,
    }
}

/// Whether a refusal is about the replica: it knows another key, another path, another model. What is
/// wrong with a request itself is refused by all.
fn is_own(failure: &ModelFailure) -> bool {
    match failure.kind {
        ModelErrorKind::Unauthorized => failure.http_status.is_some(),
        ModelErrorKind::BadRequest => {
            matches!(failure.http_status, Some(300..=399 | 404 | 405 | 410 | 421))
        }
        ModelErrorKind::Transport
        | ModelErrorKind::Overloaded
        | ModelErrorKind::RateLimited
        | ModelErrorKind::QuotaExhausted
        | ModelErrorKind::ContextTooLong
        | ModelErrorKind::ContentFilter
        | ModelErrorKind::ServerError
        | ModelErrorKind::StreamBroken
        | ModelErrorKind::Timeout
        | ModelErrorKind::BadResponse => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(hosts: &[&str]) -> Vec<Target> {
        let target =
            |host: &&str| Target::new(&format!("http://{host}/v1"), None, |_| None).unwrap();
        hosts.iter().map(target).collect()
    }

    fn affinity(key: &str, holder: Option<&str>) -> Affinity {
        let holder = holder.map(|host| format!("http://{host}/v1/chat/completions"));
        Affinity { key: key.into(), holder, ..Affinity::default() }
    }

    fn affinity_of(endpoint: &str) -> Affinity {
        Affinity { holder: Some(endpoint.into()), ..affinity("k", None) }
    }

    fn failure(kind: ModelErrorKind) -> Result<(), ModelFailure> {
        Err(targets(&["a"]).remove(0).failure(kind, "no".into()))
    }

    #[test]
    fn a_failed_connection_moves_the_session_and_an_answer_keeps_it() {
        let endpoints = Arc::new(Endpoints::new());
        let hosts = ["a", "b", "c"];
        let (first, lease) = endpoints.place(targets(&hosts), &affinity("k", None)).unwrap();
        let _ = lease.end(failure(ModelErrorKind::Transport));
        let (second, lease) = endpoints.place(targets(&hosts), &affinity("k", None)).unwrap();
        assert_ne!(first.endpoint, second.endpoint);
        lease.end(Ok(())).unwrap();
        let held = affinity_of(&second.endpoint);
        let (third, _lease) = endpoints.place(targets(&hosts), &held).unwrap();
        assert_eq!(third.endpoint, second.endpoint);
    }

    #[test]
    fn a_replica_that_hangs_is_not_asked_again_by_the_next_attempt() {
        let endpoints = Arc::new(Endpoints::new());
        let hosts = ["a", "b"];
        let holder = affinity("k", Some("a"));
        let (_, lease) = endpoints.place(targets(&hosts), &holder).unwrap();
        let hung = failure(ModelErrorKind::Timeout).unwrap_err();
        let hung = ModelFailure { time_limit: Some(TimeLimit::FirstToken), ..hung };
        let _ = lease.end::<()>(Err(hung));
        let (next, _lease) = endpoints.place(targets(&hosts), &holder).unwrap();
        assert!(next.endpoint.contains("//b"), "{}", next.endpoint);
    }

    /// Whoever is asked fails, as one request sees it that is repeated whenever all may be asked again.
    #[test]
    fn a_request_goes_round_among_replicas_that_fail_it() {
        for kind in [ModelErrorKind::ServerError, ModelErrorKind::BadResponse] {
            let endpoints = Arc::new(Endpoints::new());
            let hosts = ["a", "b", "c", "d"];
            let mut affinity = affinity("k", None);
            let mut asked = Vec::new();
            for _ in 0..hosts.len() {
                let (target, lease) = endpoints.place(targets(&hosts), &affinity).unwrap();
                let _ = lease.end(failure(kind));
                *affinity.failed.entry(target.endpoint.clone()).or_default() += 1;
                asked.push(target.endpoint);
            }
            asked.sort();
            asked.dedup();
            assert_eq!(asked.len(), hosts.len(), "each once: {asked:?}");
        }
    }

    #[test]
    fn a_used_up_quota_sends_the_request_to_a_replica_that_is_free() {
        let endpoints = Arc::new(Endpoints::new());
        let hosts = ["a", "b"];
        let ask = || {
            let (target, lease) = endpoints.place(targets(&hosts), &affinity("k", None)).unwrap();
            let outcome = lease.end(failure(ModelErrorKind::QuotaExhausted));
            (target.endpoint, outcome.unwrap_err().elsewhere)
        };
        let (first, elsewhere) = ask();
        assert!(elsewhere, "the other is free");
        let (second, elsewhere) = ask();
        assert_ne!(first, second);
        assert!(!elsewhere, "both have none left: that is waited for");
    }

    /// The wait that `host`, which is asked first, ends with when it asks for an hour.
    #[track_caller]
    fn wait_of(endpoints: &Arc<Endpoints>, hosts: &[&str], host: &str) -> Option<u64> {
        let (target, lease) = endpoints.place(targets(hosts), &affinity("k", Some(host))).unwrap();
        assert!(target.endpoint.contains(host), "{}", target.endpoint);
        let busy = failure(ModelErrorKind::RateLimited).unwrap_err();
        let busy = ModelFailure { retry_after_ms: Some(3_600_000), ..busy };
        lease.end::<()>(Err(busy)).unwrap_err().retry_after_ms
    }

    #[test]
    fn a_wait_that_one_replica_asks_for_does_not_bind_the_others() {
        let endpoints = Arc::new(Endpoints::new());
        assert_eq!(wait_of(&endpoints, &["a"], "a"), Some(3_600_000));
        let endpoints = Arc::new(Endpoints::new());
        assert_eq!(wait_of(&endpoints, &["a", "b"], "a"), None);
        let wait = wait_of(&endpoints, &["a", "b"], "b").unwrap();
        assert!((3_500_000..=3_600_000).contains(&wait), "both ask for an hour: {wait}");
    }

    /// Whether the refusal of `host`, which is asked first, is one that another replica may not share.
    #[track_caller]
    fn refused_by(endpoints: &Arc<Endpoints>, hosts: &[&str], host: &str, status: u16) -> bool {
        let (target, lease) = endpoints.place(targets(hosts), &affinity("k", Some(host))).unwrap();
        assert!(target.endpoint.contains(host), "{}", target.endpoint);
        let kind = match status {
            401 | 403 => ModelErrorKind::Unauthorized,
            _ => ModelErrorKind::BadRequest,
        };
        let refusal = failure(kind).unwrap_err();
        let refusal = ModelFailure { http_status: Some(status), ..refusal };
        lease.end::<()>(Err(refusal)).unwrap_err().elsewhere
    }

    #[test]
    fn a_replica_that_refuses_ends_nothing_that_another_may_answer() {
        for status in [401, 403, 404, 405, 301] {
            let endpoints = Arc::new(Endpoints::new());
            let hosts = ["a", "b"];
            assert!(refused_by(&endpoints, &hosts, "a", status), "{status}");
            for key in 0..20 {
                let affinity = affinity(&format!("session-{key}"), None);
                let (target, lease) = endpoints.place(targets(&hosts), &affinity).unwrap();
                assert!(target.endpoint.contains("//b"), "it draws no others: {status}");
                lease.end(Ok(())).unwrap();
            }
            assert!(!refused_by(&endpoints, &hosts, "b", status), "all refuse: {status}");
        }
        // What is wrong with the request is wrong for all.
        assert!(!refused_by(&Arc::new(Endpoints::new()), &["a", "b"], "a", 400));
        assert!(!refused_by(&Arc::new(Endpoints::new()), &["a"], "a", 401));
    }

    #[test]
    fn a_lone_server_is_always_asked() {
        let endpoints = Arc::new(Endpoints::new());
        for _ in 0..10 {
            let (_, lease) = endpoints.place(targets(&["a"]), &affinity("k", None)).unwrap();
            let _ = lease.end(failure(ModelErrorKind::Transport));
        }
        assert!(endpoints.place(Vec::new(), &affinity("k", None)).is_none());
    }

    #[test]
    fn requests_of_this_process_are_load() {
        let endpoints = Arc::new(Endpoints::new());
        let mut leases = Vec::new();
        let mut counts = BTreeMap::<String, u32>::new();
        for number in 0..100 {
            let affinity = affinity(&format!("session-{number}"), None);
            let (target, lease) = endpoints.place(targets(&["a", "b"]), &affinity).unwrap();
            *counts.entry(target.endpoint).or_default() += 1;
            leases.push(lease);
        }
        assert!(counts.values().all(|count| (48..=52).contains(count)), "{counts:?}");
        // Dropping them gives every place back.
        drop(leases);
        assert!(endpoints.lock().values().all(|it| it.health.in_flight() == 0));
    }

    #[test]
    fn what_is_remembered_is_bound() {
        let endpoints = Arc::new(Endpoints::new());
        for number in 0..REPLICAS_MAX + 10 {
            let host = format!("host-{number}");
            let (_, lease) = endpoints.place(targets(&[&host]), &affinity("k", None)).unwrap();
            lease.end(Ok(())).unwrap();
        }
        assert_eq!(endpoints.lock().len(), REPLICAS_MAX);
    }
}
