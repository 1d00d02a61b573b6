//! What is known of one replica: its circuit breaker, its slow start, its load. Pure: time comes in.
//!
//! The breaker:
//!
//! ```text
//!            failures in a row, no         the time is over,
//!            connection, a refusal,        or /health says yes
//!            or silence
//!  Closed ──────────────────────► Open ──────────────────────► Trial ──► Closed, slow start
//!                                  ▲                             │ success
//!                                  └─────────────────────────────┘ failure: twice the time
//! ```

use super::choice::{ONE_REQUEST, Standing};

/// Failures in a row that open the breaker. A failure to connect opens it at once.
const FAILURES_MAX: u32 = 3;

/// How long the breaker stays open: at first, and at most.
const OPEN_MS: (u64, u64) = (1_000, 60_000);

/// How long the breaker stays open at first for a replica that was silent: whoever asks it again
/// loses as much time as it took to find out.
const SILENT_OPEN_MS: u64 = 30_000;

/// How long a replica that has too much to do is left alone when it does not say how long.
const BUSY_MS: u64 = 1_000;

/// How long a replica may be left alone because it said so; a longer wait is found out anew.
const BUSY_MS_MAX: u64 = 60_000;

/// After this time a replica that came back is loaded like the others.
const SLOW_START_MS: u64 = 30_000;

/// Share of the load that it is given at the beginning, in percent.
const SLOW_START_PERCENT: u64 = 10;

/// A load that the server reported counts for this long.
const REPORT_MS_MAX: u64 = 10_000;

/// How a request to a replica ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With an answer, or with a refusal that is about the request.
    Good,
    /// There was no connection.
    Unreachable,
    /// The server failed, the stream broke, the answer as a whole took too long.
    Failed,
    /// It took the request and did not say its first token, or its next, in time.
    Silent,
    /// The server has too much to do.
    Busy {
        /// How long it asks to be left alone.
        retry_after_ms: Option<u64>,
    },
    /// The server does not serve this client: the key, the path or the model is not its own.
    Refused,
    /// Nobody wanted the answer any more: nothing is learnt.
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaker {
    Closed { failures: u32 },
    Open { until_ms: u64, times: u32 },
    Trial { times: u32, is_under_way: bool },
}

/// What is known of one replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    breaker: Breaker,
    busy_until_ms: u64,
    /// It asked to be left alone until then, however long that is.
    asked_until_ms: u64,
    /// Its last answer was that it does not serve this client.
    refuses: bool,
    /// It was silent when it was asked last. An engine that hangs may look well from outside.
    is_silent: bool,
    /// When it came back.
    up_since_ms: Option<u64>,
    /// Requests of this process.
    in_flight: u64,
    report: Option<Report>,
}

/// A load as the server gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Report {
    requests: u64,
    at_ms: u64,
    /// Requests of this process at that time: they are among the server's.
    in_flight: u64,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            breaker: Breaker::Closed { failures: 0 },
            busy_until_ms: 0,
            asked_until_ms: 0,
            refuses: false,
            is_silent: false,
            up_since_ms: None,
            in_flight: 0,
            report: None,
        }
    }
}

impl Health {
    /// Whether it can be asked at `now_ms`.
    pub fn standing(&self, now_ms: u64) -> Standing {
        let busy = Standing::Down { until_ms: self.busy_until_ms };
        match self.breaker {
            Breaker::Closed { .. } if now_ms < self.busy_until_ms => busy,
            Breaker::Closed { .. } => Standing::Ready,
            Breaker::Open { until_ms, .. } if now_ms < until_ms => Standing::Down { until_ms },
            // The next request waits for the outcome of the one that tries.
            Breaker::Trial { is_under_way: true, .. } => {
                Standing::Down { until_ms: now_ms.saturating_add(OPEN_MS.0) }
            }
            Breaker::Open { .. } | Breaker::Trial { is_under_way: false, .. } => Standing::Trial,
        }
    }

    /// Whether it is known not to serve this client. When its time is over, that is asked anew.
    pub fn refuses(&self, now_ms: u64) -> bool {
        self.refuses && self.standing(now_ms) != Standing::Trial
    }

    /// How long it is known to be of no use.
    pub fn free_in_ms(&self, now_ms: u64) -> u64 {
        match self.breaker {
            Breaker::Closed { .. } => self.asked_until_ms.saturating_sub(now_ms),
            Breaker::Open { until_ms, .. } => until_ms.saturating_sub(now_ms),
            Breaker::Trial { is_under_way: true, .. } => OPEN_MS.0,
            Breaker::Trial { is_under_way: false, .. } => 0,
        }
    }

    /// What it has to do: what the server reported, and what this process sent since. Weighed up
    /// while it starts slowly.
    pub fn load(&self, now_ms: u64) -> u64 {
        let fresh = self.report.filter(|it| now_ms.saturating_sub(it.at_ms) <= REPORT_MS_MAX);
        let requests = match fresh {
            Some(it) => (it.requests + self.in_flight).saturating_sub(it.in_flight),
            None => self.in_flight,
        };
        let Some(up_since_ms) = self.up_since_ms else { return requests * ONE_REQUEST };
        let up_ms = now_ms.saturating_sub(up_since_ms).min(SLOW_START_MS);
        let percent = (up_ms * 100 / SLOW_START_MS).max(SLOW_START_PERCENT);
        // One more than there are: no load at all would weigh nothing.
        let weighed = (requests + 1) * ONE_REQUEST * 100 / percent;
        weighed - ONE_REQUEST
    }

    /// A request begins.
    pub fn begin(&mut self, now_ms: u64) {
        self.in_flight += 1;
        match self.breaker {
            Breaker::Closed { .. } | Breaker::Trial { is_under_way: true, .. } => {}
            // While all are down, one is asked before its time: that is no trial.
            Breaker::Open { until_ms, .. } if now_ms < until_ms => {}
            Breaker::Open { times, .. } | Breaker::Trial { times, is_under_way: false } => {
                self.breaker = Breaker::Trial { times, is_under_way: true };
            }
        }
    }

    /// A request ended.
    pub fn end(&mut self, ending: Ending, now_ms: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if ending != Ending::Dropped {
            self.refuses = ending == Ending::Refused;
            self.is_silent = ending == Ending::Silent;
        }
        match ending {
            Ending::Good => {
                self.close(now_ms);
                self.asked_until_ms = 0;
            }
            Ending::Busy { retry_after_ms } => {
                // It answers, so it is there.
                self.close(now_ms);
                let wait_ms = retry_after_ms.unwrap_or(BUSY_MS);
                self.busy_until_ms = now_ms.saturating_add(wait_ms.min(BUSY_MS_MAX));
                self.asked_until_ms = now_ms.saturating_add(wait_ms);
            }
            Ending::Unreachable | Ending::Refused => self.open(OPEN_MS.0, now_ms),
            Ending::Silent => self.open(SILENT_OPEN_MS, now_ms),
            Ending::Failed => match self.breaker {
                Breaker::Closed { failures } if failures + 1 < FAILURES_MAX => {
                    self.breaker = Breaker::Closed { failures: failures + 1 };
                }
                Breaker::Closed { .. } | Breaker::Open { .. } | Breaker::Trial { .. } => {
                    self.open(OPEN_MS.0, now_ms);
                }
            },
            Ending::Dropped => {
                if let Breaker::Trial { times, is_under_way: true } = self.breaker {
                    self.breaker = Breaker::Trial { times, is_under_way: false };
                }
            }
        }
    }

    /// `/health` was asked. A server without it is not judged by it, and a good one says nothing of
    /// whether the server takes what is asked of it.
    pub fn probed(&mut self, is_well: bool, now_ms: u64) {
        match (self.breaker, is_well) {
            (Breaker::Open { times, .. }, true) if !self.refuses && !self.is_silent => {
                self.breaker = Breaker::Trial { times, is_under_way: false };
            }
            (Breaker::Closed { .. } | Breaker::Trial { is_under_way: false, .. }, false) => {
                self.open(OPEN_MS.0, now_ms);
            }
            (Breaker::Closed { .. } | Breaker::Trial { .. } | Breaker::Open { .. }, _) => {}
        }
    }

    /// The server reported how many requests it has.
    pub fn reported(&mut self, requests: u64, now_ms: u64) {
        self.report = Some(Report { requests, at_ms: now_ms, in_flight: self.in_flight });
    }

    /// Requests of this process that are under way.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    fn close(&mut self, now_ms: u64) {
        if !matches!(self.breaker, Breaker::Closed { .. }) {
            self.up_since_ms = Some(now_ms);
        }
        self.breaker = Breaker::Closed { failures: 0 };
    }

    fn open(&mut self, first_ms: u64, now_ms: u64) {
        let times = match self.breaker {
            Breaker::Closed { .. } => 0,
            // Requests that were under way when it opened tell nothing new.
            Breaker::Open { .. } => return,
            Breaker::Trial { times, .. } => times + 1,
        };
        let wait_ms = first_ms.saturating_mul(1 << times.min(16)).min(OPEN_MS.1);
        self.breaker = Breaker::Open { until_ms: now_ms.saturating_add(wait_ms), times };
        self.report = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(endings: &[Ending], now_ms: u64) -> Health {
        let mut health = Health::default();
        for ending in endings {
            health.begin(now_ms);
            health.end(*ending, now_ms);
        }
        health
    }

    #[test]
    fn the_breaker_opens_after_failures_in_a_row() {
        use Ending::{Dropped, Failed, Good, Silent, Unreachable};
        let open = Standing::Down { until_ms: 1_100 };
        for (endings, standing) in [
            (&[Failed, Failed][..], Standing::Ready),
            (&[Failed, Failed, Dropped, Failed], open),
            (&[Failed, Failed, Good, Failed, Failed], Standing::Ready),
            (&[Unreachable], open),
            (&[Silent], Standing::Down { until_ms: 30_100 }),
        ] {
            assert_eq!(after(endings, 100).standing(100), standing, "{endings:?}");
        }
    }

    #[test]
    fn one_request_tries_and_a_failure_doubles_the_time() {
        let mut health = after(&[Ending::Unreachable], 0);
        let mut now_ms = 0;
        for wait_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
            let until_ms = now_ms + wait_ms;
            assert_eq!(health.standing(until_ms - 1), Standing::Down { until_ms });
            assert_eq!(health.standing(until_ms), Standing::Trial);
            now_ms = until_ms;
            health.begin(now_ms);
            assert!(matches!(health.standing(now_ms), Standing::Down { .. }), "one tries");
            health.end(Ending::Failed, now_ms);
        }
        health.probed(true, now_ms);
        assert_eq!(health.standing(now_ms), Standing::Trial);
        health.begin(now_ms);
        health.end(Ending::Dropped, now_ms);
        assert_eq!(health.standing(now_ms), Standing::Trial, "a trial that nobody waited for");
        health.begin(now_ms);
        health.end(Ending::Good, now_ms);
        assert_eq!(health.standing(now_ms), Standing::Ready);
    }

    #[test]
    fn a_replica_that_came_back_starts_slowly() {
        let mut health = after(&[Ending::Unreachable], 0);
        health.begin(1_000);
        health.end(Ending::Good, 1_000);
        for (at_ms, load) in [(1_000, 9_000), (16_000, 1_000), (31_000, 0), (900_000, 0)] {
            assert_eq!(health.load(at_ms), load, "at {at_ms}");
        }
    }

    #[test]
    fn a_busy_replica_is_left_alone_as_long_as_it_asks() {
        for (retry_after_ms, until_ms) in
            [(None, 1_100), (Some(3_000), 3_100), (Some(1 << 40), 60_100)]
        {
            let health = after(&[Ending::Busy { retry_after_ms }], 100);
            assert_eq!(health.standing(100), Standing::Down { until_ms });
            assert_eq!(health.standing(until_ms), Standing::Ready);
        }
    }

    #[test]
    fn a_replica_that_refuses_is_left_alone_whatever_its_health_says() {
        let mut health = after(&[Ending::Refused], 0);
        health.probed(true, 10);
        assert_eq!(health.standing(10), Standing::Down { until_ms: 1_000 });
        assert!(health.refuses(10));
        assert!(!health.refuses(1_000), "its time is over: it is asked anew");
        health.begin(1_000);
        health.end(Ending::Good, 1_000);
        assert!(!health.refuses(1_000));
    }

    #[test]
    fn a_replica_that_hangs_is_left_alone_whatever_its_health_says() {
        let mut health = after(&[Ending::Silent], 0);
        health.probed(true, 10);
        assert_eq!(health.standing(29_999), Standing::Down { until_ms: 30_000 });
        assert_eq!(health.standing(30_000), Standing::Trial);
        health.begin(30_000);
        health.end(Ending::Good, 30_000);
        assert_eq!(health.standing(30_000), Standing::Ready);
    }

    #[test]
    fn health_that_says_no_opens_the_breaker() {
        let mut health = Health::default();
        health.probed(true, 0);
        assert_eq!(health.standing(0), Standing::Ready);
        health.probed(false, 0);
        assert_eq!(health.standing(0), Standing::Down { until_ms: 1_000 });
    }

    #[test]
    fn the_load_is_what_the_server_reported_and_what_was_sent_since() {
        let mut health = Health::default();
        health.begin(0);
        health.reported(5, 0);
        assert_eq!(health.load(0), 5_000);
        health.begin(1);
        assert_eq!(health.load(1), 6_000);
        health.end(Ending::Good, 2);
        health.end(Ending::Good, 2);
        assert_eq!(health.load(2), 4_000);
        assert_eq!(health.load(REPORT_MS_MAX + 1), 0, "an old report says nothing");
        assert_eq!(health.in_flight(), 0);
    }
}
