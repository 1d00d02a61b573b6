//! Which replica is asked. Pure: what is known of the replicas, the session's key, and a choice.
//!
//! A session stays with the replica that holds its prefix: reading a prompt anew costs far more than a
//! place in a queue. It moves only when that replica cannot be asked, failed the same request more than
//! once, or is much more loaded than the best. A request goes to none that failed it more often than
//! another that can be asked. Who holds nothing yet is spread by load, and among those about equally loaded by rendezvous
//! hashing: every process comes to the same choice without telling another, and a replica that is
//! gone moves only the sessions that were its own.

/// Load counts requests in thousandths, so that a slow start can weigh them.
pub const ONE_REQUEST: u64 = 1_000;

/// A replica is much more loaded with more than this many times the load of the best …
const MUCH_MORE_TIMES: u64 = 2;

/// … and this much on top, so that a handful of requests moves nobody.
const MUCH_MORE_ON_TOP: u64 = 8 * ONE_REQUEST;

/// Loads that differ by no more are equal: figures of the servers are a moment old.
const ABOUT_EQUAL: u64 = 2 * ONE_REQUEST;

/// Whether a replica can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As always.
    Ready,
    /// It was down; one request may find out whether it still is.
    Trial,
    /// Not before that time, in the caller's milliseconds.
    Down {
        /// When it may be asked again.
        until_ms: u64,
    },
}

/// What is known of one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Its address, which is what it is hashed by.
    pub endpoint: &'a str,
    /// Whether it can be asked.
    pub standing: Standing,
    /// Requests that it works on or that wait there, weighed ([`ONE_REQUEST`] each).
    pub load: u64,
    /// How often it failed this request before.
    pub failures: u32,
}

/// Why a replica was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It holds the prefix.
    Held,
    /// Nobody holds the prefix: by load, then by hash.
    Placed,
    /// The one that holds the prefix cannot be asked, or failed this request more than once.
    HolderDown,
    /// The one that holds the prefix is much more loaded.
    HolderLoaded,
    /// None can be asked: the one that comes back first.
    AllDown,
}

impl Why {
    /// The name in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Placed => "placed",
            Self::HolderDown => "holder_down",
            Self::HolderLoaded => "holder_loaded",
            Self::AllDown => "all_down",
        }
    }
}

/// Chooses one of `candidates` for the session with `key`, whose prefix `holder` has. The result is
/// the place in the list; `None` only for an empty one.
pub fn choose(
    candidates: &[Candidate<'_>],
    key: &str,
    holder: Option<&str>,
) -> Option<(usize, Why)> {
    let held = holder.and_then(|it| candidates.iter().position(|one| one.endpoint == it));
    // One failure may be chance, and reading a prompt anew is dear.
    let failures =
        |one: &Candidate<'_>| one.failures.saturating_sub(u32::from(holder == Some(one.endpoint)));
    let open = || candidates.iter().filter(|one| !matches!(one.standing, Standing::Down { .. }));
    let fewest = open().map(failures).min().unwrap_or_default();
    let is_out = |one: &Candidate<'_>| failures(one) > fewest;
    let ready = |one: &&Candidate<'_>| matches!(one.standing, Standing::Ready) && !is_out(one);
    let least = candidates.iter().filter(ready).map(|one| one.load).min();
    let why = match (held, held.and_then(|at| candidates.get(at))) {
        (Some(_), Some(holder)) if is_out(holder) => Why::HolderDown,
        (Some(at), Some(holder)) => match holder.standing {
            Standing::Ready if !is_much_more(holder.load, least) => return Some((at, Why::Held)),
            Standing::Ready => Why::HolderLoaded,
            Standing::Trial => return Some((at, Why::Held)),
            Standing::Down { .. } => Why::HolderDown,
        },
        (Some(_) | None, _) => Why::Placed,
    };
    let fits = |one: &Candidate<'_>| match one.standing {
        Standing::Ready | Standing::Trial if is_out(one) => false,
        Standing::Ready => least.is_some_and(|least| one.load <= least + ABOUT_EQUAL),
        // Somebody must find out, and who holds nothing loses the least.
        Standing::Trial => why == Why::Placed || least.is_none(),
        Standing::Down { .. } => false,
    };
    let places = || candidates.iter().enumerate();
    let trial = places().find(|(_, one)| one.standing == Standing::Trial && fits(one));
    let best = trial.or_else(|| {
        places().filter(|(_, one)| fits(one)).max_by_key(|(_, one)| rank(key, one.endpoint))
    });
    match best {
        Some((at, _)) => Some((at, why)),
        None => places().min_by_key(|(_, one)| until_ms(one)).map(|(at, _)| (at, Why::AllDown)),
    }
}

fn is_much_more(load: u64, least: Option<u64>) -> bool {
    least.is_some_and(|least| load > least.saturating_mul(MUCH_MORE_TIMES) + MUCH_MORE_ON_TOP)
}

fn until_ms(one: &Candidate<'_>) -> u64 {
    match one.standing {
        Standing::Ready | Standing::Trial => 0,
        Standing::Down { until_ms } => until_ms,
    }
}

/// The rank of an endpoint for a key: the highest wins (rendezvous hashing). FNV-1a, then a finalizer,
/// because FNV alone leaves the first bits of short texts alike. Stable between releases and machines.
fn rank(key: &str, endpoint: &str) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in endpoint.bytes().chain([0]).chain(key.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["http://a/v1", "http://b/v1", "http://c/v1", "http://d/v1"];

    fn replicas(standings: &[(Standing, u64)]) -> Vec<Candidate<'static>> {
        let with = |(endpoint, (standing, requests)): (&&'static str, &(Standing, u64))| {
            let load = requests * ONE_REQUEST;
            Candidate { endpoint, standing: *standing, load, failures: 0 }
        };
        NAMES.iter().zip(standings).map(with).collect()
    }

    fn ready(requests: &[u64]) -> Vec<Candidate<'static>> {
        let standings: Vec<_> = requests.iter().map(|it| (Standing::Ready, *it)).collect();
        replicas(&standings)
    }

    #[test]
    fn a_session_stays_unless_its_replica_is_much_more_loaded() {
        for (loads, chosen) in [
            ([0, 0], (1, Why::Held)),
            ([0, 8], (1, Why::Held)),
            ([0, 9], (0, Why::HolderLoaded)),
            ([10, 28], (1, Why::Held)),
            ([10, 29], (0, Why::HolderLoaded)),
            ([100, 0], (1, Why::Held)),
        ] {
            assert_eq!(choose(&ready(&loads), "k", Some(NAMES[1])), Some(chosen), "{loads:?}");
        }
    }

    #[test]
    fn a_session_moves_when_its_replica_is_down() {
        use Standing::{Down, Ready, Trial};
        let down = Down { until_ms: 5 };
        for (standings, chosen) in [
            ([(down, 0), (Ready, 90)], (1, Why::HolderDown)),
            ([(down, 0), (Trial, 0)], (1, Why::HolderDown)),
            ([(Trial, 0), (Ready, 0)], (0, Why::Held)),
            ([(down, 0), (Down { until_ms: 4 }, 9)], (1, Why::AllDown)),
            ([(down, 9), (Down { until_ms: 6 }, 0)], (0, Why::AllDown)),
        ] {
            let found = choose(&replicas(&standings), "k", Some(NAMES[0]));
            assert_eq!(found, Some(chosen), "{standings:?}");
        }
    }

    #[test]
    fn a_request_goes_to_none_that_failed_it_more_often() {
        use Standing::{Down, Ready, Trial};
        let down = Down { until_ms: 5 };
        let cases = [
            // Who holds nothing leaves the one that failed, even if somebody must find out.
            ([(Trial, 1), (Ready, 0)], None, 1),
            ([(Ready, 1), (Trial, 0)], None, 1),
            ([(Ready, 1), (Ready, 2)], None, 0),
            ([(Ready, 0), (down, 0)], None, 0),
            ([(Ready, 3), (down, 0)], None, 0),
            // One failure is forgiven to the holder of the prefix.
            ([(Ready, 1), (Ready, 0)], Some(0), 0),
            ([(Trial, 1), (Ready, 0)], Some(0), 0),
            ([(Ready, 2), (Ready, 0)], Some(0), 1),
            ([(Ready, 2), (Ready, 1)], Some(0), 0),
            ([(Trial, 2), (Trial, 0)], Some(0), 1),
        ];
        for (each, holder, chosen) in cases {
            let standings = each.map(|(standing, _)| (standing, 0));
            let mut replicas = replicas(&standings);
            for (one, (_, failures)) in replicas.iter_mut().zip(each) {
                one.failures = failures;
            }
            let holder = holder.map(|at: usize| NAMES[at]);
            let found = ["k", "l", "m", "n"].map(|key| choose(&replicas, key, holder).unwrap().0);
            assert_eq!(found, [chosen; 4], "{each:?} {holder:?}");
        }
    }

    #[test]
    fn who_holds_nothing_goes_where_least_is_to_do() {
        assert_eq!(choose(&ready(&[9, 9, 0, 9]), "k", None), Some((2, Why::Placed)));
        assert_eq!(choose(&ready(&[9, 9, 0, 9]), "k", Some("http://gone/v1")).unwrap().0, 2);
        assert_eq!(choose(&[], "k", None), None);
    }

    #[test]
    fn who_holds_nothing_tries_the_one_that_was_down() {
        let standings = [(Standing::Ready, 0), (Standing::Trial, 5)];
        assert_eq!(choose(&replicas(&standings), "k", None), Some((1, Why::Placed)));
        // A session that is well served does not.
        assert_eq!(choose(&replicas(&standings), "k", Some(NAMES[0])), Some((0, Why::Held)));
    }

    #[test]
    fn keys_are_spread_evenly_and_a_lost_replica_moves_only_its_own() {
        let all = ready(&[0, 0, 0, 0]);
        let mut counts = [0; 4];
        for number in 0..4_000 {
            let key = format!("session-{number}");
            let (at, _) = choose(&all, &key, None).unwrap();
            counts[at] += 1;
            let (after, _) = choose(&all[..3], &key, None).unwrap();
            assert!(at == 3 || after == at, "{key} moved from {at} to {after}");
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
