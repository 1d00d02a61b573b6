//! Approvals: ap01 … ap17, each way a decision can go wrong has one clear outcome.

use stepwell_core::decide::Verdict;
use stepwell_core::event::{ApprovalDecision, EventBody, Question, RefusalReason};
use stepwell_core::json::{action_digest, read_strict};
use stepwell_core::{ApprovalId, Command, Input, JsonText, Reject, Status, TimestampMs};

use crate::world::{World, ada, agent, bob, cancel, id, verdict};

const ARGUMENTS: &str = r#"{"order": 771, "qty": 1}"#;

fn asked() -> World {
    World::acting(&[("ship", ARGUMENTS)])
}

#[test]
fn a_write_tool_that_no_rule_covers_asks() {
    let world = asked();
    assert_eq!(world.status(), Status::WaitingApproval);
    assert_eq!(world.pending(), [], "a session that waits for a person costs nothing");
    let EventBody::ApprovalRequested(asked) = world.last() else { panic!() };
    assert_eq!(asked.approval_id.0, world.state.head.0, "it is named after its event");
    assert_eq!(asked.question, Question::MayRun);
    assert_eq!(asked.rule, "no rule covers the write tool `ship`, so a person is asked");
    let same = read_strict(r#"{"qty":1.0,"order":771}"#).unwrap();
    assert_eq!(asked.action_digest, action_digest("ship", &same), "of the canonical arguments");
}

/// ap01
#[test]
fn approving_twice_runs_once() {
    let mut world = asked();
    let approval = world.approval();
    let approve = || Input::Decide(verdict(approval, ApprovalDecision::Approve));
    assert_eq!(world.when(approve()), ["approval_decided", "tool_scheduled"]);
    assert!(world.when(approve()).is_empty(), "the same word again changes nothing");
    assert_eq!(world.pending(), [Command::RunTool { call_id: id(1, 1), attempt: 1 }]);
    world.reserve(id(1, 1));
    let EventBody::ToolDispatched(dispatched) = world.last() else { panic!() };
    assert_eq!(dispatched.approval_id, Some(approval), "consumed with the dispatch it allows");
    assert!(world.when(approve()).is_empty());
    world.done(id(1, 1), "shipped");
    assert!(world.when(approve()).is_empty());
}

/// ap02
#[test]
fn a_second_decision_that_differs_is_refused_with_the_first() {
    let mut world = asked();
    let approval_id = world.approval();
    world.when(Input::Decide(verdict(approval_id, ApprovalDecision::Approve)));
    let second = Verdict { by: bob(), ..verdict(approval_id, ApprovalDecision::Deny) };
    assert_eq!(
        world.refused(Input::Decide(second)),
        Reject::AlreadyDecided { approval_id, decision: ApprovalDecision::Approve, by: ada() }
    );
    let edited = Verdict {
        arguments: Some(JsonText::parse("{}").unwrap()),
        ..verdict(approval_id, ApprovalDecision::Approve)
    };
    assert!(
        matches!(world.refused(Input::Decide(edited)), Reject::AlreadyDecided { .. }),
        "the same word with other arguments is another decision"
    );
}

#[test]
fn the_same_edited_arguments_again_change_nothing() {
    let mut world = asked();
    let approval_id = world.approval();
    let edited = |text: &str| {
        Input::Decide(Verdict {
            arguments: Some(JsonText::parse(text).unwrap()),
            ..verdict(approval_id, ApprovalDecision::Approve)
        })
    };
    world.when(edited(r#"{"order":771,"qty":2}"#));
    assert!(
        world.when(edited(r#"{"qty": 2, "order": 771}"#)).is_empty(),
        "white space says nothing"
    );
    let other = world.refused(edited(r#"{"order":771,"qty":3}"#));
    assert!(matches!(other, Reject::AlreadyDecided { .. }), "{other}");
}

/// ap04
#[test]
fn an_approval_after_a_cancel_is_refused() {
    let mut world = asked();
    let approval = world.approval();
    assert_eq!(world.when(cancel()), ["cancel_requested", "session_finished"]);
    let refusal = world.refused(Input::Decide(verdict(approval, ApprovalDecision::Approve)));
    assert_eq!(refusal, Reject::Finished { status: Status::Cancelled });
    assert_eq!(world.pending(), []);
}

#[test]
fn an_approval_while_tools_stop_after_a_cancel_is_refused() {
    let mut world = World::acting(&[("find", "{}"), ("ship", ARGUMENTS)]);
    let approval = world.approval();
    assert_eq!(world.when(cancel()), ["cancel_requested", "timer_started"]);
    let refusal = world.refused(Input::Decide(verdict(approval, ApprovalDecision::Approve)));
    assert_eq!(refusal, Reject::Finished { status: Status::Cancelled });
}

/// ap06
#[test]
fn an_approval_expires() {
    let mut agent = agent();
    agent.approval_expires_after_ms = Some(60_000);
    let mut world = World::of(agent);
    world.calls(&[("ship", ARGUMENTS)]);
    let approval_id = world.approval();
    assert!(world.after(59_999).when(Input::Wake).is_empty(), "not yet");
    let approve = || Input::Decide(verdict(approval_id, ApprovalDecision::Approve));
    world.after(1);
    assert_eq!(
        world.refused(approve()),
        Reject::ApprovalExpired { approval_id },
        "the time counts, not whether somebody noticed"
    );
    assert_eq!(world.when(Input::Wake), ["timer_fired", "tool_refused", "model_requested"]);
    assert_eq!(world.refused(approve()), Reject::ApprovalExpired { approval_id });
    assert_eq!(world.observations(), ["Not run: nobody decided in time whether it may run"]);
}

#[test]
fn a_decision_in_time_stops_the_expiry() {
    let mut agent = agent();
    agent.approval_expires_after_ms = Some(60_000);
    let mut world = World::of(agent);
    world.calls(&[("ship", ARGUMENTS)]);
    world.after(59_999).decided(ApprovalDecision::Approve);
    assert!(world.after(10_000).when(Input::Wake).is_empty());
}

/// ap07, ap08: nothing but the log is needed between question, word and run.
#[test]
fn a_restart_changes_nothing_about_an_approval() {
    let mut world = asked();
    assert_eq!(world.restart(), [], "asks nothing again");
    let state = serde_json::to_string(&world.state).unwrap();
    world.state = serde_json::from_str(&state).unwrap();
    world.decided(ApprovalDecision::Approve);
    assert_eq!(world.restart(), [Command::RunTool { call_id: id(1, 1), attempt: 1 }]);
    assert_eq!(world.state.calls[&id(1, 1)].effective_arguments(), ARGUMENTS);
    world.reserve(id(1, 1));
    world.done(id(1, 1), "shipped");
    assert!(world.state.approvals.is_empty());
}

/// ap10
#[test]
fn edited_arguments_run_and_the_model_is_told() {
    let mut world = asked();
    let edited = r#"{"order":771,"qty":2}"#;
    let verdict = Verdict {
        arguments: Some(JsonText::parse(edited).unwrap()),
        ..verdict(world.approval(), ApprovalDecision::Approve)
    };
    assert_eq!(world.when(Input::Decide(verdict)), ["approval_decided", "tool_scheduled"]);
    assert_eq!(world.state.calls[&id(1, 1)].effective_arguments(), edited);
    world.reserve(id(1, 1));
    world.done(id(1, 1), "shipped");
    let shown = &world.observations()[0];
    assert_eq!(shown, &format!("(A reviewer changed the arguments to {edited}.)\nshipped"));
    let calls = &world.messages()[2]["tool_calls"];
    assert_eq!(calls[0]["function"]["arguments"], ARGUMENTS, "the past is not rewritten");
}

/// ap11 is the edge's: it checks edited arguments against the schema before they come here. What the
/// core can refuse is arguments that a rule forbids.
#[test]
fn edited_arguments_that_are_forbidden_are_refused_and_the_question_stays() {
    let mut world = asked();
    let approval = world.approval();
    let edited = Verdict {
        arguments: Some(JsonText::parse(r#"{"note":"forbidden"}"#).unwrap()),
        ..verdict(approval, ApprovalDecision::Approve)
    };
    let rule = "rule 3: deny `ship` with note = `forbidden*`".to_string();
    assert_eq!(world.refused(Input::Decide(edited)), Reject::Forbidden { rule });
    assert_eq!(world.approval(), approval, "still open");
}

/// ap12
#[test]
fn a_decision_about_something_else_is_refused_and_the_question_stays() {
    let mut world = asked();
    let approval_id = world.approval();
    let other_tool =
        Verdict { tool: Some("refund".into()), ..verdict(approval_id, ApprovalDecision::Approve) };
    assert_eq!(
        world.refused(Input::Decide(other_tool)),
        Reject::ActionChanged { approval_id, what: "the tool" }
    );
    let other_digest = Verdict {
        action_digest: Some("00".into()),
        ..verdict(approval_id, ApprovalDecision::Approve)
    };
    assert_eq!(
        world.refused(Input::Decide(other_digest)),
        Reject::ActionChanged { approval_id, what: "the digest" }
    );
    let unknown = ApprovalId(99);
    assert_eq!(
        world.refused(Input::Decide(verdict(unknown, ApprovalDecision::Approve))),
        Reject::UnknownApproval { approval_id: unknown }
    );
    assert_eq!(world.approval(), approval_id);
    let digest = world.state.approvals[&approval_id].action_digest.clone();
    let right = Verdict {
        action_digest: Some(digest),
        tool: Some("ship".into()),
        ..verdict(approval_id, ApprovalDecision::Approve)
    };
    assert_eq!(world.when(Input::Decide(right)), ["approval_decided", "tool_scheduled"]);
}

/// ap13
#[test]
fn an_approval_is_for_one_call() {
    let mut world = asked();
    world.decided(ApprovalDecision::Approve);
    world.reserve(id(1, 1));
    world.done(id(1, 1), "shipped");
    world.calls(&[("ship", r#"{"order":772}"#)]);
    assert_eq!(world.status(), Status::WaitingApproval);
    world.decided(ApprovalDecision::Approve);
    world.reserve(id(2, 1));
    world.done(id(2, 1), "shipped");
    world.calls(&[("ship", ARGUMENTS)]);
    assert_eq!(world.status(), Status::WaitingApproval, "not even for the same arguments");
}

/// ap16
#[test]
fn a_chained_command_is_not_covered_by_the_rule_for_its_first_part() {
    let calls = [
        ("shell", r#"{"command":"git status"}"#),
        ("shell", r#"{"command":"git status && git push --force"}"#),
    ];
    let mut world = World::new();
    let events = world.calls(&calls);
    assert_eq!(events, ["model_replied", "tool_scheduled", "approval_requested"]);
}

/// ap17: the whole command is in the log and in what is asked; making it visible is the edge's.
#[test]
fn the_end_of_a_long_command_is_kept() {
    let command = format!("echo ok{}; mv data gone\u{202e}\r\u{1b}[8m", " ".repeat(4_000));
    let arguments = serde_json::json!({ "command": command }).to_string();
    let world = World::acting(&[("shell", &arguments)]);
    assert_eq!(world.status(), Status::WaitingApproval);
    let rows = stepwell_core::summary::approval_rows(
        stepwell_core::SessionId::from_random([1; 16]),
        &stepwell_core::SessionState::default(),
        &world.state,
    );
    assert_eq!(rows[0].arguments, arguments);
}

#[test]
fn a_denial_is_an_observation_with_name_and_reason() {
    let mut world = asked();
    let deny = Verdict {
        reason: "order 771 was refunded".into(),
        ..verdict(world.approval(), ApprovalDecision::Deny)
    };
    let events = world.when(Input::Decide(deny));
    assert_eq!(events, ["approval_decided", "tool_refused", "model_requested"]);
    assert_eq!(world.observations(), ["Not run: ada denied this call: order 771 was refunded"]);
    let refused = world.events.iter().find_map(|event| match &event.body {
        EventBody::ToolRefused(it) => Some(it.reason),
        _ => None,
    });
    assert_eq!(refused, Some(RefusalReason::Denied));
}

#[test]
fn an_approval_for_the_session_covers_later_calls_of_the_tool_only() {
    let mut world = asked();
    world.decided(ApprovalDecision::ApproveForSession);
    world.reserve(id(1, 1));
    world.done(id(1, 1), "shipped");
    let events = world.calls(&[("ship", r#"{"order":772}"#), ("shell", r#"{"command":"make"}"#)]);
    assert_eq!(events, ["model_replied", "tool_scheduled", "approval_requested"]);
    let forbidden = [("ship", r#"{"note":"forbidden"}"#)];
    world.decided(ApprovalDecision::Deny);
    world.reserve(id(2, 1));
    world.done(id(2, 1), "shipped");
    let events = world.calls(&forbidden);
    assert_eq!(events[1], "tool_refused", "a rule that forbids still does");
}

/// Each question showed one exact action, and a decision is bound to what was shown.
#[test]
fn an_approval_for_the_session_leaves_open_questions_of_the_same_tool_open() {
    let mut world = World::acting(&[("ship", r#"{"order":1}"#), ("ship", r#"{"order":2}"#)]);
    let ids: Vec<ApprovalId> = world.state.approvals.keys().copied().collect();
    let events = world.when(Input::Decide(verdict(ids[0], ApprovalDecision::ApproveForSession)));
    assert_eq!(events, ["approval_decided", "tool_scheduled"]);
    assert_eq!(world.approval(), ids[1], "still open");
    world.reserve(id(1, 1));
    world.done(id(1, 1), "shipped");
    assert_eq!(world.status(), Status::WaitingApproval);
    world.when(Input::Decide(verdict(ids[1], ApprovalDecision::Deny)));
    let events = world.calls(&[("ship", r#"{"order":3}"#)]);
    assert_eq!(events, ["model_replied", "tool_scheduled"], "a later call runs");
}

#[test]
fn an_answer_to_the_other_question_is_refused() {
    let mut world = asked();
    let approval_id = world.approval();
    for decision in
        [ApprovalDecision::Happened, ApprovalDecision::DidNotHappen, ApprovalDecision::Failed]
    {
        let question = Question::MayRun;
        assert_eq!(
            world.refused(Input::Decide(verdict(approval_id, decision))),
            Reject::WrongAnswer { approval_id, question, decision }
        );
    }
}

#[test]
fn each_of_several_questions_is_answered_by_itself() {
    let mut world =
        World::acting(&[("ship", r#"{"order":1}"#), ("ship", r#"{"order":2}"#), ("find", "{}")]);
    let ids: Vec<ApprovalId> = world.state.approvals.keys().copied().collect();
    assert_eq!(world.status(), Status::ExecutingTools, "a running tool is what moves first");
    world.done(id(1, 3), "found");
    assert_eq!(world.status(), Status::WaitingApproval);
    world.when(Input::Decide(verdict(ids[1], ApprovalDecision::Deny)));
    world.when(Input::Decide(verdict(ids[0], ApprovalDecision::Approve)));
    world.reserve(id(1, 1));
    world.done(id(1, 1), "shipped");
    assert_eq!(world.observations(), ["shipped", "Not run: ada denied this call", "found"]);
}

#[test]
fn a_huge_expiry_never_comes() {
    let mut agent = agent();
    agent.approval_expires_after_ms = Some(u64::MAX);
    let mut world = World::of(agent);
    world.calls(&[("ship", ARGUMENTS)]);
    let approval = world.approval();
    assert_eq!(world.state.approvals[&approval].expires_at, Some(TimestampMs(u64::MAX)));
    assert!(world.after(1 << 50).when(Input::Wake).is_empty());
    world.decided(ApprovalDecision::Approve);
}
