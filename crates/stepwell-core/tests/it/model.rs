//! Model calls that fail: waits, attempts, ends.

use std::sync::Arc;

use serde_json::Value;
use stepwell_core::agent::{FallbackModel, FallbackRule, RETRY_AFTER_MS_MAX, RetryPolicy};
use stepwell_core::event::{Edit, EventBody, FinishReason, ModelErrorKind, Outcome, Timer};
use stepwell_core::{Command, Input, Reject, Status, Text};

use crate::world::{World, agent, failure, fork, id, message, reply};

/// How long the session waits after this failure.
#[track_caller]
fn wait_after(world: &mut World, retry_after_ms: Option<u64>) -> u64 {
    let attempt = world.attempt();
    let mut failure = failure(world.state.step, attempt, ModelErrorKind::RateLimited);
    failure.retry_after_ms = retry_after_ms;
    failure.http_status = Some(429);
    assert_eq!(world.when(Input::ModelFailed(failure)), ["model_failed", "timer_started"]);
    world.state.timers[&Timer::ModelRetry].0 - world.now
}

#[test]
fn a_failure_that_may_pass_is_asked_again_after_a_while() {
    let mut world = World::new();
    assert_eq!(world.fail(ModelErrorKind::ServerError), ["model_failed", "timer_started"]);
    assert_eq!(world.status(), Status::Sleeping);
    assert_eq!(world.pending().len(), 1, "only the timer");
    assert!(world.when(Input::Wake).is_empty(), "not yet");
    assert_eq!(world.wake(), ["timer_fired", "model_requested"]);
    assert_eq!(world.pending(), [Command::AskModel { step: 1, attempt: 2 }]);
    assert_eq!(world.answer("done"), ["model_replied", "session_finished"]);
    assert_eq!(world.state.step, 1, "attempts are no steps");
}

#[test]
fn every_kind_of_failure_has_its_consequence() {
    for (error, kinds) in [
        (ModelErrorKind::Transport, ["model_failed", "timer_started"]),
        (ModelErrorKind::Overloaded, ["model_failed", "timer_started"]),
        (ModelErrorKind::RateLimited, ["model_failed", "timer_started"]),
        (ModelErrorKind::QuotaExhausted, ["model_failed", "timer_started"]),
        (ModelErrorKind::ServerError, ["model_failed", "timer_started"]),
        (ModelErrorKind::StreamBroken, ["model_failed", "timer_started"]),
        (ModelErrorKind::Timeout, ["model_failed", "timer_started"]),
        (ModelErrorKind::BadResponse, ["model_failed", "timer_started"]),
        (ModelErrorKind::ContextTooLong, ["model_failed", "session_finished"]),
        (ModelErrorKind::BadRequest, ["model_failed", "session_finished"]),
        (ModelErrorKind::Unauthorized, ["model_failed", "session_finished"]),
        (ModelErrorKind::ContentFilter, ["model_failed", "session_finished"]),
    ] {
        assert_eq!(World::new().fail(error), kinds, "{error:?}");
    }
}

#[test]
fn after_the_last_attempt_the_session_fails_with_the_address_and_the_cause() {
    let mut world = World::new();
    for _ in 0..2 {
        world.fail(ModelErrorKind::Timeout);
        world.wake();
    }
    assert_eq!(world.fail(ModelErrorKind::Timeout), ["model_failed", "session_finished"]);
    let EventBody::SessionFinished(end) = world.last() else { panic!() };
    assert_eq!(end.outcome, Outcome::Failed);
    assert_eq!(end.reason, "3 attempts failed, the last: http://127.0.0.1:8000: no luck");
    assert_eq!(
        stepwell_core::explain::explain(&world.state),
        "failed: 3 attempts failed, the last: http://127.0.0.1:8000: no luck"
    );
}

#[test]
fn a_new_step_begins_with_all_attempts() {
    let mut world = World::new();
    for step in 1..=3 {
        for _ in 0..2 {
            world.fail(ModelErrorKind::Timeout);
            world.wake();
        }
        assert_eq!(world.attempt(), 3);
        world.calls(&[("find", &format!("{{\"n\":{step}}}"))]);
        world.done(crate::world::id(step, 1), "x");
    }
}

#[test]
fn the_waits_double_up_to_the_cap_with_some_jitter() {
    let mut agent = agent();
    agent.retry = RetryPolicy { attempts_max: 100, base_ms: 500, cap_ms: 60_000 };
    let mut world = World::of(agent);
    for attempt in 0..80_u32 {
        let wait = wait_after(&mut world, None);
        let base = 500_u64.saturating_mul(1 << attempt.min(20)).min(60_000);
        assert!((base..=base + base / 4).contains(&wait), "attempt {attempt}: {wait}");
        world.wake();
    }
}

#[test]
fn sessions_do_not_all_come_back_in_the_same_moment() {
    let waits: std::collections::BTreeSet<u64> = (0..20)
        .map(|n| {
            let mut session = crate::world::session_created(agent());
            session.seed = format!("session {n}");
            let mut world = World::empty();
            world.when(Input::Create { session, by: crate::world::ada() });
            wait_after(&mut world, None)
        })
        .collect();
    assert!(waits.len() > 10, "{waits:?}");
}

/// ra01 … ra10: reading the header is the model client's; how long is waited is decided here.
#[test]
fn the_rows_of_retry_after() {
    for row in include_str!("../cases/retry_after.jsonl").lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let asked = match row["id"].as_str().unwrap() {
            "ra01" => Some(7_000),
            "ra02" => Some(20_000),
            "ra04" => Some(0),
            "ra05" | "ra10" => None,
            "ra07" => Some(99_999_999_999_000),
            "ra08" => Some(1_500),
            other => panic!("a new row: {other}"),
        };
        let wait = wait_after(&mut World::new(), asked);
        let expect = &row["expect"];
        if let Some(range) = expect["wait_s"].as_array() {
            let seconds = |at: usize| (range[at].as_f64().unwrap() * 1_000.0) as u64;
            assert!((seconds(0)..=seconds(1)).contains(&wait), "{row}: {wait}");
        } else if expect["fallback"] == true {
            assert!((1_000..=1_250).contains(&wait), "{row}: {wait}");
        } else {
            let cap = RETRY_AFTER_MS_MAX;
            assert!((cap..=cap + 1_000).contains(&wait), "{row}: {wait}");
        }
    }
}

/// What one server asks for does not bind the next one.
#[test]
fn another_model_is_asked_without_the_wait_of_the_first() {
    for error in [ModelErrorKind::RateLimited, ModelErrorKind::QuotaExhausted] {
        let mut agent = agent();
        agent.retry = RetryPolicy { attempts_max: 9, base_ms: 500, cap_ms: 60_000 };
        agent.model.fallbacks = vec![fallback("other", 2)];
        let mut world = World::of(agent);
        for is_last in [false, true] {
            let attempt = world.attempt();
            let mut failure = crate::world::failure(1, attempt, error);
            failure.retry_after_ms = Some(3_600_000);
            world.when(Input::ModelFailed(failure));
            let wait = world.state.timers[&Timer::ModelRetry].0 - world.now;
            assert_eq!(wait < 2_000, is_last, "attempt {attempt}: {wait} ms");
            world.wake();
        }
    }
}

fn fallback(name: &str, after_attempts: u32) -> FallbackModel {
    FallbackModel {
        after_attempts,
        name: name.into(),
        base_url: format!("http://{name}/v1"),
        replicas: Vec::new(),
        api_key_env: None,
    }
}

/// The model that the last request goes to, as its body and its event say.
fn asked(world: &World) -> String {
    let EventBody::ModelRequested(it) = world.last() else { panic!("{:?}", world.last()) };
    let body: Value = serde_json::from_str(&world.state.request(it.attempt).body()).unwrap();
    let model = body["model"].as_str().unwrap().to_owned();
    assert_eq!(it.fallback.as_deref().unwrap_or("small"), model);
    assert_eq!(body["messages"].as_array().unwrap().len(), world.messages().len());
    model
}

#[test]
fn a_fallback_is_asked_after_its_attempts_and_the_next_step_begins_with_the_first_model() {
    let mut agent = agent();
    agent.model.fallbacks = vec![fallback("other", 2), fallback("third", 1)];
    agent.retry.attempts_max = 6;
    let mut world = World::of(agent.clone());
    let mut models = vec![asked(&world)];
    for _ in 0..4 {
        world.fail(ModelErrorKind::ServerError);
        world.wake();
        models.push(asked(&world));
    }
    assert_eq!(models, ["small", "small", "other", "third", "third"]);
    assert_eq!(world.state.model(3).unwrap().base_url, "http://other/v1");
    assert_eq!(world.state.model(2).unwrap(), agent.model);
    world.calls(&[("find", "{}")]);
    world.done(crate::world::id(1, 1), "x");
    assert_eq!(asked(&world), "small");
    let outline = world.state.outline().request(3);
    assert_eq!(outline.body_bytes(), world.state.request(3).body_bytes());
}

/// What one attempt of [`the_turn_moves_on_by_need`] meets.
fn met(world: &World, error: ModelErrorKind, retry_after_ms: Option<u64>) -> Input {
    let mut failure = crate::world::failure(1, world.attempt(), error);
    failure.retry_after_ms = retry_after_ms;
    Input::ModelFailed(failure)
}

/// Each row: what the attempts meet, and which model is asked after each of them; at the end, where all
/// refuse, the end of the session. Waits are in seconds, the jitter left out.
#[test]
fn the_turn_moves_on_by_need() {
    use ModelErrorKind::{
        BadRequest, ContextTooLong, Overloaded, QuotaExhausted, RateLimited, ServerError,
        Unauthorized,
    };
    const HOUR: u64 = 3_600_000;
    type Met = (ModelErrorKind, Option<u64>, &'static str, u64);
    let rows: [&[Met]; 8] = [
        // A refused key is no reason to end while another model may answer.
        &[(Unauthorized, None, "other", 0), (Unauthorized, None, "third", 0)],
        // A wrong fallback does not end what the first model could have served.
        &[
            (ServerError, None, "small", 500),
            (ServerError, None, "other", 0),
            (BadRequest, None, "third", 0),
            (Unauthorized, None, "small", 1_000),
            (ServerError, None, "small", 2_000),
        ],
        // A quota, and a long wait, is not waited for while another model is free …
        &[
            (QuotaExhausted, Some(HOUR), "other", 0),
            (RateLimited, Some(HOUR / 2), "third", 0),
            // … and where none is, for the one that is free first.
            (QuotaExhausted, Some(HOUR), "other", HOUR / 2),
        ],
        // A short one is waited for.
        &[(RateLimited, Some(30_000), "small", 30_000), (RateLimited, Some(30_000), "other", 0)],
        // A quota without a time is looked at again after a minute.
        &[
            (QuotaExhausted, None, "other", 0),
            (QuotaExhausted, None, "third", 0),
            (QuotaExhausted, None, "small", 60_000),
        ],
        // Quotas do not count for `after`.
        &[
            (QuotaExhausted, Some(1_000), "other", 0),
            (Overloaded, None, "third", 0),
            (Overloaded, None, "third", 500),
            (Overloaded, None, "third", 1_000),
        ],
        // What is too long for one may fit another.
        &[(ContextTooLong, None, "other", 0), (ServerError, None, "third", 0)],
        &[(ContextTooLong, None, "other", 0), (Unauthorized, None, "third", 0)],
    ];
    for row in rows {
        let mut agent = agent();
        agent.retry = RetryPolicy { attempts_max: 9, base_ms: 500, cap_ms: 60_000 };
        agent.model.fallbacks = vec![fallback("other", 2), fallback("third", 1)];
        agent.model.fallback_rule = FallbackRule::ByNeed;
        let mut world = World::of(agent);
        for (i, (error, asked_ms, next, wait)) in row.iter().enumerate() {
            world.when(met(&world, *error, *asked_ms));
            let waited = world.state.timers[&Timer::ModelRetry].0 - world.now;
            assert!((*wait..=*wait + wait / 4).contains(&waited), "{row:?} {i}: {waited} ms");
            world.wake();
            assert_eq!(asked(&world), *next, "{row:?} {i}");
        }
    }
}

/// A world with one fallback, to which the turn moves by need.
fn with_fallback(attempts_max: u32) -> World {
    let mut agent = agent();
    agent.retry.attempts_max = attempts_max;
    agent.model.fallbacks = vec![fallback("other", 1)];
    agent.model.fallback_rule = FallbackRule::ByNeed;
    World::of(agent)
}

#[test]
fn attempts_that_several_models_failed_end_with_what_each_said_last() {
    let mut world = with_fallback(2);
    world.when(met(&world, ModelErrorKind::ServerError, None));
    world.wake();
    let mut refusal = crate::world::failure(1, 2, ModelErrorKind::Unauthorized);
    refusal.message = "wrong key".into();
    world.when(Input::ModelFailed(refusal));
    let EventBody::SessionFinished(end) = world.last() else { panic!("{:?}", world.last()) };
    let said = "2 attempts failed: `small`: http://127.0.0.1:8000: no luck; \
                fallback `other`: http://127.0.0.1:8000: wrong key";
    assert_eq!(end.reason, said);
}

#[test]
fn each_model_waits_for_its_own_quota_and_what_is_waited_for_is_told() {
    let mut world = with_fallback(4);
    for (waits, wait_ms) in [(1, 0), (2, 60_000), (3, 0), (4, 120_000)] {
        world.when(met(&world, ModelErrorKind::QuotaExhausted, None));
        let waited = world.state.timers[&Timer::ModelRetry].0 - world.now;
        assert!((wait_ms..=wait_ms + wait_ms / 4).contains(&waited), "{waits}: {waited} ms");
        world.wake();
    }
    let mut world = with_fallback(4);
    world.when(met(&world, ModelErrorKind::QuotaExhausted, None));
    world.wake();
    let mut refusal = crate::world::failure(1, 2, ModelErrorKind::Unauthorized);
    refusal.message = "wrong key".into();
    world.when(Input::ModelFailed(refusal));
    let told = stepwell_core::explain::explain(&world.state);
    assert!(told.contains("waits for the model server's quota"), "{told}");
    assert!(!told.contains("wrong key"), "{told}");
}

#[test]
fn a_step_that_no_model_takes_ends_with_what_each_of_them_said() {
    use ModelErrorKind::{ContentFilter, ContextTooLong, Unauthorized};
    for (errors, outcome) in [
        (&[Unauthorized, Unauthorized][..], Outcome::Failed),
        (&[ContextTooLong, Unauthorized], Outcome::Failed),
        (&[ContextTooLong, ContextTooLong], Outcome::LimitReached),
        // Nobody goes around a filter.
        (&[ContentFilter], Outcome::Failed),
    ] {
        let mut agent = agent();
        agent.model.fallbacks = vec![fallback("other", 2)];
        agent.model.fallback_rule = FallbackRule::ByNeed;
        let mut world = World::of(agent);
        for error in errors {
            world.when(met(&world, *error, None));
            if !world.state.is_finished() {
                world.wake();
            }
        }
        let EventBody::SessionFinished(end) = world.last() else { panic!("{:?}", world.last()) };
        assert_eq!(end.outcome, outcome, "{errors:?}");
        if errors.len() == 2 {
            let said = "no model takes the request: `small`: http://127.0.0.1:8000: no luck; \
                        fallback `other`: http://127.0.0.1:8000: no luck";
            assert_eq!(end.reason, said);
        }
    }
}

/// A replica that refuses says nothing about the others.
#[test]
fn what_one_replica_refuses_is_asked_of_another() {
    let mut world = World::new();
    let mut failure = crate::world::failure(1, 1, ModelErrorKind::Unauthorized);
    failure.elsewhere = true;
    assert_eq!(world.when(Input::ModelFailed(failure)), ["model_failed", "timer_started"]);
    world.wake();
    assert_eq!(
        world.fail(ModelErrorKind::Unauthorized),
        ["model_failed", "session_finished"],
        "no other is left"
    );
}

/// The quota of one replica is no reason to wait where another is free.
#[test]
fn a_quota_that_another_replica_has_left_is_not_waited_for() {
    for fallback_rule in [FallbackRule::ByAttempt, FallbackRule::ByNeed] {
        let mut agent = agent();
        agent.model.fallback_rule = fallback_rule;
        if fallback_rule == FallbackRule::ByNeed {
            agent.model.fallbacks = vec![fallback("other", 1)];
        }
        let mut world = World::of(agent);
        let mut failure = crate::world::failure(1, 1, ModelErrorKind::QuotaExhausted);
        failure.elsewhere = true;
        let endpoint = failure.endpoint.clone();
        world.when(Input::ModelFailed(failure));
        let waited = world.state.timers[&Timer::ModelRetry].0 - world.now;
        assert!(waited < 10_000, "{waited} ms");
        assert_eq!(world.state.turns.failed_at()[&endpoint], 1);
        world.wake();
        assert_eq!(asked(&world), "small", "the same model, of another replica");
        world.answer("done");
    }
}

/// An empty account is no fault of the request: the session waits as long as it takes, and the
/// attempts that met it do not count.
#[test]
fn an_exhausted_quota_is_waited_for() {
    let mut world = World::new();
    let mut waits = Vec::new();
    for _ in 0..20 {
        let quota = world.fail(ModelErrorKind::QuotaExhausted);
        assert_eq!(quota, ["model_failed", "timer_started"]);
        waits.push(world.state.timers[&Timer::ModelRetry].0 - world.now);
        assert_eq!(world.status(), Status::Sleeping);
        assert!(stepwell_core::explain::explain(&world.state).contains("quota"));
        world.wake();
    }
    assert!((60_000..=75_000).contains(&waits[0]), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= 30 * 60_000 * 5 / 4), "{waits:?}");
    for _ in 0..2 {
        assert_eq!(world.fail(ModelErrorKind::Timeout), ["model_failed", "timer_started"]);
        let wait = world.state.timers[&Timer::ModelRetry].0 - world.now;
        assert!(wait < 60_000, "the usual backoff: {wait}");
        world.wake();
    }
    assert_eq!(world.fail(ModelErrorKind::Timeout), ["model_failed", "session_finished"]);
    let EventBody::SessionFinished(end) = world.last() else { panic!() };
    assert!(end.reason.starts_with("3 attempts failed"), "{}", end.reason);
}

#[test]
fn the_wait_that_a_server_names_for_its_quota_is_kept() {
    let mut world = World::new();
    let mut failure = failure(1, 1, ModelErrorKind::QuotaExhausted);
    failure.retry_after_ms = Some(6 * 3_600_000);
    world.when(Input::ModelFailed(failure));
    let wait = world.state.timers[&Timer::ModelRetry].0 - world.now;
    assert!((6 * 3_600_000..=6 * 3_600_000 + 1_000).contains(&wait), "{wait}");
}

#[test]
fn a_failure_of_another_attempt_is_refused() {
    let mut world = World::new();
    let late = Input::ModelFailed(failure(1, 2, ModelErrorKind::Timeout));
    assert_eq!(world.refused(late), Reject::NotAsked { step: 1, attempt: 2 });
    world.fail(ModelErrorKind::Timeout);
    let twice = Input::ModelFailed(failure(1, 1, ModelErrorKind::Timeout));
    assert_eq!(world.refused(twice), Reject::NotAsked { step: 1, attempt: 1 });
}

#[test]
fn a_message_in_a_backoff_is_in_the_next_attempt() {
    let mut world = World::new();
    world.fail(ModelErrorKind::Timeout);
    assert_eq!(world.when(message("and box 10")), ["message_received"]);
    world.wake();
    assert_eq!(world.messages()[2]["content"], "and box 10");
}

#[test]
fn an_answer_that_a_filter_stopped_fails_the_session() {
    let mut world = World::new();
    let mut stopped = reply(1, 1, "", Vec::new());
    stopped.finish_reason = FinishReason::ContentFilter;
    assert_eq!(world.when(Input::ModelReplied(stopped)), ["model_replied", "session_finished"]);
    assert_eq!(
        stepwell_core::explain::explain(&world.state),
        "failed: the model server's content filter stopped the answer"
    );
}

#[test]
fn usage_is_summed() {
    let mut world = World::new();
    world.calls(&[("find", "{}")]);
    world.done(crate::world::id(1, 1), "x");
    world.answer("done");
    assert_eq!(world.state.usage.total(), 220);
}

#[test]
fn the_last_prompt_that_a_server_counted_is_known_until_another_definition_takes_over() {
    let mut world = World::new();
    let (bytes, messages) = (world.state.prompt.body_bytes(), world.state.prompt.messages());
    assert_eq!(world.state.measured, None);
    world.calls(&[("find", "{}")]);
    let measured = world.state.measured.clone().unwrap();
    assert_eq!((measured.bytes, measured.messages), (bytes, messages), "without the reply");
    assert_eq!((measured.tokens, measured.model.as_str()), (100, "small"));
    world.done(id(1, 1), "found");
    let mut uncounted = reply(2, 1, "done", Vec::new());
    uncounted.usage.prompt_tokens = 0;
    world.when(Input::ModelReplied(uncounted));
    assert_eq!(world.state.measured, Some(measured), "the last that was counted");
    let mut other = agent();
    other.instructions = "You carry boxes.".into();
    let Input::Fork { mut fork, by } = fork(&world.state, Vec::new()) else { panic!() };
    fork.agent = Some(Arc::new(other));
    fork.edits = vec![Edit::Message { content: Text::from("And more.") }];
    world.when(Input::Fork { fork, by });
    assert_eq!(world.state.measured, None, "its prompt begins otherwise");
}
