//! How fast failed model calls may be repeated, all sessions together: a budget for each server.
//!
//! Each session backs off by itself, but a thousand of them that meet the same outage would still
//! come back within the same minute, and a server that has just recovered would fall over again. So
//! a repetition needs a place in its server's budget, and waits in line for one.
//!
//! The budget is small, fills slowly by time and by two places with each answer: while a server is
//! down it is only probed; once it answers, the repetitions double until the line is gone.
//!
//! First attempts need none: what runs at the same time is bounded elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_core::TimestampMs;
use stepwell_ports::Clock;
use tokio::sync::Notify;

/// Places of a server that has not been repeated to for a while, and at most.
const PLACES_MAX: u64 = 32;

/// A place comes back after this time.
const PLACE_MS: u64 = 500;

/// Places that an answer gives.
const PLACES_FOR_ANSWER: u64 = 2;

/// Servers that are remembered, at most; above it those that nobody waits for are forgotten.
const SERVERS_MAX: usize = 256;

/// The budgets of all servers.
#[derive(Debug, Default)]
pub(crate) struct RetryBudgets {
    servers: Mutex<BTreeMap<String, Arc<Server>>>,
}

#[derive(Debug, Default)]
struct Server {
    /// Held by the one who is next. The lock is fair, so the others stand in line for it.
    turn: tokio::sync::Mutex<()>,
    places: Mutex<Places>,
    answered: Notify,
}

impl RetryBudgets {
    /// Waits for a place to repeat a call to `server`. Cancel-safe: who leaves takes no place.
    pub(crate) async fn take(&self, server: &str, clock: &dyn Clock) {
        let server = self.server(server);
        let _turn = server.turn.lock().await;
        loop {
            let taken = lock(&server.places).take(clock.now());
            let Err(next) = taken else { return };
            tokio::select! {
                () = clock.wait_until(next) => {}
                () = server.answered.notified() => {}
            }
        }
    }

    /// The server answered.
    pub(crate) fn answered(&self, server: &str) {
        // Of a server that was never repeated to nothing is known, and nothing need be.
        let known = lock(&self.servers).get(server).cloned();
        if let Some(server) = known {
            lock(&server.places).give();
            server.answered.notify_one();
        }
    }

    fn server(&self, name: &str) -> Arc<Server> {
        let mut servers = lock(&self.servers);
        if !servers.contains_key(name) && servers.len() >= SERVERS_MAX {
            servers.retain(|_, server| Arc::strong_count(server) > 1);
        }
        servers.entry(name.to_owned()).or_default().clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The free places of one server.
#[derive(Debug)]
struct Places {
    free: u64,
    /// Since when the next one is on its way; `None` while all are free.
    since: Option<TimestampMs>,
}

impl Default for Places {
    fn default() -> Self {
        Self { free: PLACES_MAX, since: None }
    }
}

impl Places {
    /// Takes a place, or says when to look again.
    fn take(&mut self, now: TimestampMs) -> Result<(), TimestampMs> {
        let since = *self.since.get_or_insert(now);
        // A clock that was set back brings none and costs at most one wait.
        let come = now.0.saturating_sub(since.0) / PLACE_MS;
        self.free = self.free.saturating_add(come).min(PLACES_MAX);
        let mut since = if since > now { now } else { since.plus_ms(come * PLACE_MS) };
        if self.free == PLACES_MAX {
            since = now;
        }
        self.since = Some(since);
        match self.free.checked_sub(1) {
            Some(free) => {
                self.free = free;
                Ok(())
            }
            None => Err(since.plus_ms(PLACE_MS)),
        }
    }

    fn give(&mut self) {
        self.free = self.free.saturating_add(PLACES_FOR_ANSWER).min(PLACES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> TimestampMs {
        TimestampMs(1_000_000 + ms)
    }

    /// Takes places until there is none; how many, and when to look again.
    fn drain(places: &mut Places, now: TimestampMs) -> (u64, TimestampMs) {
        let mut count = 0;
        loop {
            match places.take(now) {
                Ok(()) => count += 1,
                Err(next) => return (count, next),
            }
        }
    }

    #[test]
    fn places_come_back_slowly_up_to_their_bound() {
        let mut places = Places::default();
        assert_eq!(drain(&mut places, at(0)), (PLACES_MAX, at(500)));
        assert_eq!(drain(&mut places, at(499)), (0, at(500)));
        assert_eq!(drain(&mut places, at(1_700)), (3, at(2_000)));
        assert_eq!(drain(&mut places, at(10_000_000)).0, PLACES_MAX);
    }

    #[test]
    fn an_answer_gives_more_than_it_took() {
        let mut places = Places::default();
        drain(&mut places, at(0));
        let mut repeated = 1;
        for round in 0..5 {
            (0..repeated).for_each(|_| places.give());
            let (count, _) = drain(&mut places, at(round));
            assert_eq!(count, (repeated * 2).min(PLACES_MAX), "round {round}");
            repeated = count;
        }
    }

    #[test]
    fn a_clock_that_is_set_back_stops_nothing() {
        let mut places = Places::default();
        drain(&mut places, at(900_000));
        assert_eq!(drain(&mut places, at(0)), (0, at(500)));
        assert_eq!(drain(&mut places, at(500)).0, 1);
    }

    #[test]
    fn servers_are_forgotten_when_there_are_too_many() {
        let budgets = RetryBudgets::default();
        let held = budgets.server("held");
        for n in 0..SERVERS_MAX * 2 {
            budgets.server(&n.to_string());
            assert!(lock(&budgets.servers).len() <= SERVERS_MAX);
        }
        assert!(Arc::ptr_eq(&held, &budgets.server("held")));
    }
}
