//! Records from which texts were taken out: what hangs on them is taken from the record, and everything
//! else is still compared.

use std::sync::Arc;

use stepwell_core::agent::{ApprovalRule, Limits, Verdict as Rule};
use stepwell_core::decide::Verdict;
use stepwell_core::event::{ApprovalDecision, EventBody, RefusalReason, ToolCall};
use stepwell_core::marker::marker;
use stepwell_core::replay::{Divergence, Replay};
use stepwell_core::{Agent, Event, Input, JsonText, Seq, Text};

use crate::world::{World, agent, id, message, pause, reply, verdict, wants};

type Change = fn(&mut EventBody);

/// Replays; how many decisions could not be checked.
fn unchecked(events: &[Event]) -> u64 {
    let mut replay = Replay::of_redacted();
    for event in events {
        if let Err(divergence) = replay.push(event.clone()) {
            panic!("{}", divergence.in_words());
        }
    }
    let unchecked = replay.unchecked();
    if let Err(divergence) = replay.end() {
        panic!("{}", divergence.in_words());
    }
    unchecked
}

fn diverges(events: &[Event]) -> Divergence {
    let mut replay = Replay::of_redacted();
    for event in events {
        if let Err(divergence) = replay.push(event.clone()) {
            return *divergence;
        }
    }
    *replay.end().expect_err("it should diverge")
}

fn changed(events: &[Event], change: impl Fn(&mut EventBody)) -> Vec<Event> {
    let mut events = events.to_vec();
    for event in &mut events {
        change(&mut event.body);
    }
    events
}

/// As a rule for the whole field does it.
fn without_arguments(body: &mut EventBody) {
    let hide = |text: &str| format!(r#"{{"redacted":"{}"}}"#, marker("field", text.as_bytes()));
    match body {
        EventBody::ModelReplied(it) => {
            for ToolCall { arguments, .. } in &mut it.tool_calls {
                *arguments = Text::from(hide(arguments.preview()));
            }
        }
        EventBody::ApprovalDecided(it) => {
            if let Some(arguments) = &mut it.arguments {
                *arguments = JsonText::parse(&hide(arguments.as_str())).unwrap();
            }
        }
        _ => {}
    }
}

/// As a rule for a secret does it, everywhere. The rule has the name of a command that is forbidden.
fn without(secret: &'static str) -> impl Fn(&mut EventBody) {
    let hide = move |text: &str| text.replace(secret, &marker("rm", secret.as_bytes()));
    move |body| match body {
        EventBody::SessionCreated(it) => {
            for rule in &mut Arc::make_mut(&mut it.agent).approval_rules {
                for command in &mut rule.commands {
                    *command = hide(command);
                }
                for condition in &mut rule.arguments {
                    condition.pattern = hide(&condition.pattern);
                }
            }
        }
        EventBody::ModelReplied(it) => {
            for call in &mut it.tool_calls {
                call.arguments = Text::from(hide(call.arguments.preview()));
                call.problem = call.problem.as_deref().map(hide);
            }
        }
        EventBody::ToolRefused(it) => it.message = hide(&it.message),
        EventBody::ApprovalRequested(it) => it.rule = hide(&it.rule),
        EventBody::SessionFinished(it) => it.reason = hide(&it.reason),
        EventBody::ApprovalDecided(it) => it.reason = hide(&it.reason),
        EventBody::ToolLost(it) => it.reason = hide(&it.reason),
        _ => {}
    }
}

/// Calls of every kind that a rule, a schema or a clock looks at, to the end.
fn judged() -> World {
    let mut world = World::acting(&[
        ("sleep", r#"{"seconds":5}"#),
        ("shell", r#"{"command":"rm -r box"}"#),
        ("shell", r#"{"command":"git status"}"#),
        ("shell", r#"{"command":"make box"}"#),
        ("ship", r#"{"note":"forbidden box"}"#),
        ("ship", r#"{"note":"box"}"#),
        ("find", r#"{"box":9}"#),
    ]);
    world.reserve(id(1, 3));
    world.done(id(1, 3), "clean");
    world.done(id(1, 7), "found");
    let asked: Vec<_> = world.state.approvals.keys().copied().collect();
    assert_eq!(asked.len(), 2);
    for (approval_id, decision) in
        [(asked[0], ApprovalDecision::Deny), (asked[1], ApprovalDecision::Approve)]
    {
        let reason = "the box is not ours".into();
        world.when(Input::Decide(Verdict { reason, ..verdict(approval_id, decision) }));
    }
    world.reserve(id(1, 6));
    world.done(id(1, 6), "shipped");
    world.after(5_000).wake();
    world.answer("done");
    world
}

#[test]
fn what_hangs_on_hidden_arguments_is_taken_from_the_record() {
    let world = judged();
    let events = changed(&world.events, without_arguments);
    // Seven judgements, of which one says the same by chance; two digests, a timer, a request.
    assert!(unchecked(&events) >= 8, "{}", unchecked(&events));
    for secret in ["box", "rm", "git", "make", "forbidden", "5", "not ours", "r"] {
        let events = changed(&world.events, without(secret));
        assert!(unchecked(&events) > 0, "{secret}");
    }
}

/// What a person lets run may look forbidden once it was taken out.
#[test]
fn arguments_that_a_person_changed_are_no_refusal() {
    let mut world = World::acting(&[("shell", r#"{"command":"make all"}"#)]);
    let arguments = Some(JsonText::parse(r#"{"command":"make box"}"#).unwrap());
    let approval_id = world.approval();
    let approve = verdict(approval_id, ApprovalDecision::Approve);
    world.when(Input::Decide(Verdict { arguments, ..approve }));
    world.reserve(id(1, 1));
    world.done(id(1, 1), "made");
    world.answer("done");
    let mut events = changed(&world.events, without_arguments);
    assert!(unchecked(&events) > 0);
    let hidden = format!(r#"{{"command":"rm {}"}}"#, marker("rm", b"box"));
    let said = events.iter_mut().find_map(|it| match &mut it.body {
        EventBody::ApprovalDecided(it) => Some(it),
        _ => None,
    });
    said.unwrap().arguments = Some(JsonText::parse(&hidden).unwrap());
    assert!(unchecked(&events) > 0);
}

/// Whatever else is changed in such a record is found at its place.
#[test]
fn a_change_that_no_marker_reaches_is_found() {
    let changes: &[(&str, Change)] = &[
        ("attempt", |it| {
            if let EventBody::ToolScheduled(it) = it {
                it.attempt += 1;
            }
        }),
        ("call", |it| {
            if let EventBody::ToolScheduled(it) = it {
                it.call_id = id(1, 1);
            }
        }),
        ("a rule that there is not", |it| {
            if let EventBody::ToolRefused(it) = it {
                it.message = it.message.replace("rule", "rules");
            }
        }),
        ("who refused", |it| {
            if let EventBody::ToolRefused(it) = it {
                it.reason = RefusalReason::Expired;
            }
        }),
        ("the name of an approval", |it| {
            if let EventBody::ApprovalRequested(it) = it {
                it.approval_id.0 += 1;
            }
        }),
        ("how long it is open", |it| {
            if let EventBody::ApprovalRequested(it) = it {
                it.expires_at = Some(stepwell_core::TimestampMs(9));
            }
        }),
        ("a step", |it| {
            if let EventBody::ModelRequested(it) = it
                && it.step == 2
            {
                it.step = 3;
            }
        }),
        ("the first digest", |it| {
            if let EventBody::ModelRequested(it) = it
                && it.step == 1
            {
                it.prompt_digest = "0".repeat(64);
            }
        }),
        ("the end", |it| {
            if let EventBody::SessionFinished(it) = it {
                it.reason = "who knows".into();
            }
        }),
    ];
    let world = judged();
    for hide in [changed(&world.events, without_arguments), changed(&world.events, without("box"))]
    {
        unchecked(&hide);
        for (name, change) in changes {
            for at in 0..hide.len() {
                let mut events = hide.clone();
                change(&mut events[at].body);
                if events[at] != hide[at] {
                    assert_eq!(diverges(&events).seq, events[at].seq, "{name}");
                }
            }
        }
        for at in 1..hide.len() {
            let mut events = hide.clone();
            events.remove(at);
            diverges(&events);
        }
    }
}

/// Each judgement of a call with nothing hidden is still today's, beside one whose arguments are hidden.
#[test]
fn hidden_arguments_of_one_call_excuse_no_other() {
    let world = World::acting(&[
        ("shell", r#"{"command":"git status"}"#),
        ("shell", r#"{"command":"rm x"}"#),
        ("ship", r#"{"note":"x"}"#),
    ]);
    let hide = |body: &mut EventBody| {
        if let EventBody::ModelReplied(it) = body {
            it.tool_calls[0].arguments = Text::from(marker("field", b"x").as_str());
        }
    };
    let events = changed(&world.events, hide);
    assert_eq!(unchecked(&events), 1, "the digest of the first action");
    for at in 4..events.len() {
        let mut other = events.clone();
        let seq = events[at].seq;
        match &mut other[at].body {
            EventBody::ToolRefused(it) => it.message.push('!'),
            EventBody::ApprovalRequested(it) => it.action_digest = "0".repeat(64),
            EventBody::ToolScheduled(it) => it.attempt += 1,
            _ => continue,
        }
        assert_eq!(diverges(&other).seq, seq);
    }
}

/// The marker of a text tells which text it was, so a recorded word of ours is checked all the same.
#[test]
fn a_hidden_message_of_today_is_checked_by_its_hash() {
    let world = World::acting(&[("erase", "{}"), ("find", "{}")]);
    let hide = |reason: fn(&str) -> String| {
        changed(&world.events, |body| {
            if let EventBody::ToolRefused(it) = body {
                it.message = reason(&it.message);
            }
        })
    };
    assert_eq!(unchecked(&hide(|it| marker("field", it.as_bytes()))), 1);
    assert_eq!(diverges(&hide(|_| marker("field", b"other"))).seq, Seq(4));
    let rule = hide(|it| it.replace("erase", &marker("word", b"erase")));
    assert_eq!(unchecked(&rule), 1);
    let rule = hide(|it| it.replace("erase", &marker("word", b"delete")));
    assert_eq!(diverges(&rule).seq, Seq(4));
}

/// The rules of the definition are hidden, and the calls are not.
#[test]
fn hidden_rules_are_not_checked_and_the_others_are() {
    let world = judged();
    let hide = |body: &mut EventBody| {
        if let EventBody::SessionCreated(it) = body {
            let rules = &mut Arc::make_mut(&mut it.agent).approval_rules;
            for ApprovalRule { commands, .. } in rules {
                for command in commands {
                    *command = marker("field", command.as_bytes());
                }
            }
        }
    };
    let events = changed(&world.events, hide);
    assert!(unchecked(&events) > 0);
    // `ship` is judged by a pattern that everybody can read.
    let shipped = changed(&events, |body| {
        if let EventBody::ToolRefused(it) = body
            && it.call_id == id(1, 5)
        {
            it.message.push('!');
        }
    });
    let at = shipped.iter().zip(&events).find(|(a, b)| a != b).unwrap().0.seq;
    assert_eq!(diverges(&shipped).seq, at);
}

fn impatient() -> Agent {
    let limits = Limits { repeat_window: 4, repeat_count: 3, ..Limits::default() };
    Agent { limits, ..agent() }
}

/// What is the same action and what is not nobody can tell of hidden arguments.
#[test]
fn a_repetition_is_as_it_was_recorded() {
    // The same three times, written in three ways.
    let mut world = World::of(impatient());
    for (step, arguments) in
        [r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, r#"{"b":2, "a":1}"#].into_iter().enumerate()
    {
        world.calls(&[("find", arguments)]);
        if step < 2 {
            world.done(id(u32::try_from(step).unwrap() + 1, 1), "found");
        }
    }
    assert!(world.state.is_finished());
    let events = changed(&world.events, without_arguments);
    assert!(unchecked(&events) > 0);
    let other = changed(&events, |body| {
        if let EventBody::SessionFinished(it) = body {
            it.reason = it.reason.replace("3 times", "2 times");
        }
    });
    assert_eq!(diverges(&other).seq, other.last().unwrap().seq);

    // Other ones each time, which look the same; the session is held meanwhile.
    let mut world = World::of(impatient());
    for step in 1..=4 {
        world.calls(&[("find", &format!("{{\"box\":{step}}}"))]);
        world.done(id(step, 1), "found");
    }
    world.when(pause());
    world.calls(&[("find", r#"{"box":5}"#)]);
    world.when(message("and?"));
    let same = |body: &mut EventBody| {
        if let EventBody::ModelReplied(it) = body {
            for call in &mut it.tool_calls {
                call.arguments = Text::from(marker("field", b"same").as_str());
            }
        }
    };
    assert!(unchecked(&changed(&world.events, same)) > 0);

    // Without a marker it is a divergence.
    let plain = |body: &mut EventBody| {
        if let EventBody::ModelReplied(it) = body {
            for call in &mut it.tool_calls {
                call.arguments = Text::from("{}");
            }
        }
    };
    diverges(&changed(&world.events, plain));
}

/// The reason of the end holds the last problem, shortened, with or without a marker in it.
#[test]
fn a_problem_in_the_reason_of_the_end_is_compared_up_to_its_marker() {
    for padding in [10, 230, 480, 900] {
        let mut world = World::new();
        let unusable_replies_max = world.state.agent().unwrap().limits.unusable_replies_max;
        assert!(unusable_replies_max > 0);
        for at in 0..unusable_replies_max {
            let problem = format!("{} box {}", "x".repeat(padding), "y".repeat(padding));
            let call = ToolCall { problem: Some(problem), ..wants("find", &format!("[{at}")) };
            let (step, attempt) = (world.state.step, world.attempt());
            world.when(Input::ModelReplied(reply(step, attempt, "", vec![call])));
        }
        assert!(world.state.is_finished());
        let events = changed(&world.events, without("box"));
        assert!(unchecked(&events) > 0);
        let other = changed(&events, |body| {
            if let EventBody::SessionFinished(it) = body {
                it.reason = it.reason.replacen("in a row", "at all", 1);
            }
        });
        assert_eq!(diverges(&other).seq, other.last().unwrap().seq, "{padding}");
    }
}

/// Where the rules of today are others, a call that anybody can read shows it.
#[test]
fn another_rule_on_a_readable_call_is_found_beside_hidden_ones() {
    let world = judged();
    let events = changed(&world.events, without_arguments);
    let other = changed(&events, |body| {
        if let EventBody::SessionCreated(it) = body {
            let rules = &mut Arc::make_mut(&mut it.agent).approval_rules;
            rules.retain(|it| it.verdict != Rule::Deny);
        }
    });
    // No rule refuses any more, hidden or not.
    let refused = events.iter().find(|it| matches!(it.body, EventBody::ToolRefused(_))).unwrap();
    assert_eq!(diverges(&other).seq, refused.seq);
}

/// Of two texts that both lost something the length is still known, whatever the hash of the recorded
/// one is.
#[test]
fn a_marker_that_is_too_short_for_a_refusal_is_found() {
    let world = judged();
    let hide = |bytes: fn(&str) -> usize| {
        changed(&world.events, |body| {
            without("rm")(body);
            if let EventBody::ToolRefused(it) = body
                && it.call_id == id(1, 2)
            {
                let original = it.message.replace(&marker("rm", b"rm"), "rm");
                let hash = "0".repeat(64);
                it.message = format!("[redacted field bytes:{} blake3:{hash}]", bytes(&original));
            }
        })
    };
    assert!(unchecked(&hide(str::len)) > 0);
    let refused = hide(|_| 9);
    let at = refused.iter().find(|it| matches!(&it.body, EventBody::ToolRefused(_))).unwrap().seq;
    assert_eq!(diverges(&refused).seq, at);
}
