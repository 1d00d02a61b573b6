//! Whose turn it is among the models of a step: the agent's own, then its fallbacks.
//!
//! Each step begins with the agent's own model. Under [`FallbackRule::ByNeed`] the turn moves on when
//! the model in turn refuses the request, asks for a long wait, or failed often enough; a model that
//! refused is not asked again in that step, and the step fails when all did.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::agent::{Agent, FallbackRule, ModelSpec, RetryPolicy};
use crate::event::{ModelErrorKind, ModelFailed};
use crate::ids::TimestampMs;

/// First and longest wait for a quota whose server does not say when it is filled again. A person may
/// fill it any time, so it is looked at now and then; the session waits as a row and costs nothing.
const QUOTA_WAIT_MS: (u64, u64) = (60_000, 30 * 60_000);

/// What the models of the current step did so far. Empty until one of them failed.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns {
    /// Place of the model in turn: 0 is the agent's own, then its fallbacks in their order.
    place: usize,
    /// By place.
    tried: Vec<Tried>,
    /// Failures by address.
    #[serde(default)]
    failed_at: BTreeMap<String, u32>,
}

/// What one model did in this step.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Tried {
    /// Failures that may pass, without those of a quota.
    failures: u32,
    /// Failures for a quota.
    #[serde(default)]
    quotas: u32,
    /// Not before that time it can be of use again.
    free_at: TimestampMs,
    /// Why it does not take this request at all; `None` while it may.
    refused: Option<Failure>,
    /// Its last failure.
    #[serde(default)]
    last: Option<Failure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) error: ModelErrorKind,
    pub(crate) told: String,
}

impl Turns {
    /// The place of the model in turn for the given attempt of the step.
    pub(crate) fn place(&self, model: &ModelSpec, attempt: u32) -> usize {
        match model.fallback_rule {
            FallbackRule::ByAttempt => model.place_at(attempt),
            FallbackRule::ByNeed => self.place,
        }
    }

    /// How often each address failed in this step.
    pub fn failed_at(&self) -> &BTreeMap<String, u32> {
        &self.failed_at
    }

    /// The model in turn failed at `at`.
    pub(crate) fn failed(&mut self, agent: &Agent, failure: &ModelFailed, at: TimestampMs) {
        let times = self.failed_at.entry(failure.endpoint.clone()).or_default();
        *times = times.saturating_add(1);
        if agent.model.fallback_rule == FallbackRule::ByAttempt {
            return;
        }
        self.tried.resize_with(agent.model.fallbacks.len() + 1, Tried::default);
        let Some(it) = self.tried.get_mut(self.place) else { return };
        let last = Failure { error: failure.error, told: told(failure) };
        it.last = Some(last.clone());
        if failure.is_refusal() {
            it.refused = Some(last);
        } else {
            let is_quota = failure.error == ModelErrorKind::QuotaExhausted;
            let before = if is_quota { &mut it.quotas } else { &mut it.failures };
            *before = before.saturating_add(1);
            let before = *before;
            it.free_at = at.plus_ms(wait_ms(&agent.retry, failure, before.saturating_sub(1)));
        }
        if self.gives_up(agent, failure) {
            self.move_on(at);
        }
    }

    /// Whether the model in turn is asked no more for now.
    fn gives_up(&self, agent: &Agent, failure: &ModelFailed) -> bool {
        let is_far = failure.retry_after_ms.is_some_and(|it| it > agent.retry.cap_ms);
        if failure.is_refusal() || is_far || failure.waits_for_quota() {
            return true;
        }
        let failures = self.tried.get(self.place).map_or(0, |it| it.failures);
        let fallbacks = agent.model.fallbacks.iter().zip(self.tried.iter().skip(1));
        let next = fallbacks.skip(self.place).find(|(_, it)| it.refused.is_none());
        next.is_some_and(|(fallback, _)| failures >= fallback.after_attempts)
    }

    /// To the next model that can be asked now, else to the one that can be asked first.
    fn move_on(&mut self, now: TimestampMs) {
        let count = self.tried.len();
        let ring = (1..=count).map(|steps| (self.place + steps) % count);
        let open: Vec<(usize, TimestampMs)> = ring
            .filter_map(|place| Some((place, self.tried.get(place)?)))
            .filter(|(_, it)| it.refused.is_none())
            .map(|(place, it)| (place, it.free_at.max(now)))
            .collect();
        // Of equals the first in the ring.
        if let Some((place, _)) = open.into_iter().min_by_key(|(_, free_at)| *free_at) {
            self.place = place;
        }
    }

    /// How long until the model in turn can be asked, without jitter.
    pub(crate) fn wait_ms(&self, now: TimestampMs) -> u64 {
        self.tried.get(self.place).map_or(0, |it| it.free_at.since_ms(now))
    }

    /// The last failure of the model at `place`.
    pub(crate) fn last_of(&self, place: usize) -> Option<&Failure> {
        self.tried.get(place)?.last.as_ref()
    }

    /// What each model said last, where more than one failed.
    pub(crate) fn said_by_several(&self, model: &ModelSpec) -> Option<String> {
        let failed = self.tried.iter().enumerate();
        let failed = failed.filter_map(|(place, it)| Some((place, it.last.as_ref()?)));
        let said: Vec<String> = failed.map(|(place, it)| said(model, place, it)).collect();
        (said.len() > 1).then(|| said.join("; "))
    }

    /// What ends a step that no model takes, and whether it is for the length of its prompt alone.
    /// `None` while one may take it.
    pub(crate) fn refused_by_all(&self, model: &ModelSpec) -> Option<(String, bool)> {
        let all: Option<Vec<&Failure>> = self.tried.iter().map(|it| it.refused.as_ref()).collect();
        let all = all.filter(|it| !it.is_empty())?;
        let said = all.iter().enumerate().map(|(place, it)| said(model, place, it));
        let said: Vec<String> = said.collect();
        let is_context = all.iter().all(|it| it.error == ModelErrorKind::ContextTooLong);
        Some((format!("no model takes the request: {}", said.join("; ")), is_context))
    }
}

/// What one model said, behind its name.
fn said(model: &ModelSpec, place: usize, failure: &Failure) -> String {
    format!("{}: {}", model.words_for(place), failure.told)
}

/// The wait after a failure, after so many others before it, without jitter.
pub(crate) fn wait_ms(policy: &RetryPolicy, failure: &ModelFailed, before: u32) -> u64 {
    match failure.retry_after_ms {
        Some(asked_ms) => policy.granted_ms(asked_ms),
        None if failure.waits_for_quota() => {
            let (base_ms, cap_ms) = QUOTA_WAIT_MS;
            RetryPolicy { base_ms, cap_ms, ..*policy }.wait_ms(before)
        }
        None => policy.wait_ms(before),
    }
}

/// A failure in words.
pub(crate) fn told(failure: &ModelFailed) -> String {
    format!("{}: {}", failure.endpoint, failure.message)
}
