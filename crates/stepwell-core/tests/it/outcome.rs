//! Calls whose worker was lost: what may be repeated is, what must not be becomes a question.

use stepwell_core::decide::Verdict;
use stepwell_core::event::{
    ApprovalDecision, EventBody, Question, RefusalReason, Timer, ToolOutcome,
};
use stepwell_core::state::CallStatus;
use stepwell_core::{CallId, Command, Input, Reject, Status, Text};

use crate::world::{
    World, ada, agent, bob, cancel, id, lost, never_started, pause, report, resume, verdict,
};

const PAY: CallId = CallId { step: 1, index: 1 };

/// A payment that was started, and nobody knows what became of it.
fn unknown_payment() -> World {
    let mut world = World::acting(&[("pay", r#"{"order":771}"#)]);
    world.reserve(PAY);
    assert_eq!(world.lose(PAY), ["tool_lost", "approval_requested"]);
    world
}

/// du03
#[test]
fn a_write_whose_outcome_is_unknown_becomes_a_question() {
    let mut world = unknown_payment();
    assert_eq!(world.pending(), [], "never started again by itself");
    assert_eq!(world.restart(), []);
    assert_eq!(world.status(), Status::WaitingApproval);
    let EventBody::ApprovalRequested(asked) = world.last() else { panic!() };
    assert_eq!(asked.question, Question::WhatHappened);
    assert_eq!(asked.expires_at, None);
    assert!(asked.rule.ends_with("its outcome is unknown: its lease ran out"), "{}", asked.rule);
}

#[test]
fn it_happened_with_this_result() {
    let mut world = unknown_payment();
    let happened = Verdict {
        output: Some(Text::from("receipt 4")),
        reason: "saw it at the bank".into(),
        ..verdict(world.approval(), ApprovalDecision::Happened)
    };
    let events = world.when(Input::Decide(happened));
    assert_eq!(events, ["approval_decided", "model_requested"]);
    assert_eq!(world.observations(), ["receipt 4"]);
}

/// A client asks again when the answer was lost on its way; another result is another decision.
#[test]
fn the_same_result_again_changes_nothing_and_another_is_refused() {
    let mut world = unknown_payment();
    let approval_id = world.approval();
    let happened = |output: &str, by| {
        let output = Some(Text::from(output));
        let verdict = verdict(approval_id, ApprovalDecision::Happened);
        Input::Decide(Verdict { output, by, ..verdict })
    };
    world.when(happened("receipt 4", ada()));
    assert!(world.when(happened("receipt 4", ada())).is_empty());
    assert!(world.when(happened("receipt 4", bob())).is_empty());
    assert_eq!(
        world.refused(happened("receipt 5", ada())).to_string(),
        format!("approval {approval_id} is decided already: happened by person:ada")
    );
    world.restart();
    assert!(world.when(happened("receipt 4", ada())).is_empty());
    world.answer("paid");
    assert!(world.when(happened("receipt 4", ada())).is_empty(), "nor once it is over");
}

#[test]
fn a_result_after_the_workers_own_report_is_refused() {
    let mut world = unknown_payment();
    let approval_id = world.approval();
    world.done(PAY, "receipt 4");
    let mut happened = verdict(approval_id, ApprovalDecision::Happened);
    assert!(world.when(Input::Decide(happened.clone())).is_empty());
    happened.output = Some(Text::from("receipt 5"));
    let refusal = world.refused(Input::Decide(happened));
    assert!(matches!(refusal, Reject::AlreadyDecided { .. }), "{refusal}");
}

#[test]
fn it_did_not_happen_so_it_runs() {
    let mut world = unknown_payment();
    let approval = world.approval();
    let events = world.decided(ApprovalDecision::DidNotHappen);
    assert_eq!(events, ["approval_decided", "tool_scheduled"]);
    assert_eq!(world.pending(), [Command::RunTool { call_id: PAY, attempt: 2 }]);
    world.reserve(PAY);
    let EventBody::ToolDispatched(dispatched) = world.last() else { panic!() };
    assert_eq!(dispatched.approval_id, Some(approval), "the person's word allows this one start");
    assert_eq!(world.lose(PAY), ["tool_lost", "approval_requested"], "and asks again when lost");
}

#[test]
fn it_failed() {
    let mut world = unknown_payment();
    let failed = Verdict {
        reason: "card refused".into(),
        ..verdict(world.approval(), ApprovalDecision::Failed)
    };
    world.when(Input::Decide(failed));
    assert_eq!(world.observations(), ["Error: card refused"]);
    let mut world = unknown_payment();
    world.decided(ApprovalDecision::Failed);
    assert!(world.observations()[0].contains("a person looked and says that it failed"));
}

#[test]
fn whether_it_may_run_does_not_answer_what_happened() {
    let mut world = unknown_payment();
    let approval_id = world.approval();
    for decision in
        [ApprovalDecision::Approve, ApprovalDecision::ApproveForSession, ApprovalDecision::Deny]
    {
        assert_eq!(
            world.refused(Input::Decide(verdict(approval_id, decision))),
            Reject::WrongAnswer { approval_id, question: Question::WhatHappened, decision }
        );
    }
}

/// The worker was thought dead and was not: its own report is better than anybody's word.
#[test]
fn the_workers_own_report_answers_the_question() {
    let mut world = unknown_payment();
    let approval_id = world.approval();
    assert_eq!(world.done(PAY, "receipt 4"), ["tool_finished", "model_requested"]);
    assert_eq!(world.observations(), ["receipt 4"]);
    assert!(world.state.approvals.is_empty());
    let late = Verdict { by: bob(), ..verdict(approval_id, ApprovalDecision::DidNotHappen) };
    let refusal = world.refused(Input::Decide(late));
    assert_eq!(
        refusal.to_string(),
        format!("approval {approval_id} is decided already: happened by worker:w1")
    );
    let same = verdict(approval_id, ApprovalDecision::Happened);
    assert!(world.when(Input::Decide(same)).is_empty());
}

/// A report after the person's word is kept as late, so that nobody loses the truth.
#[test]
fn a_report_after_the_persons_word_is_recorded_as_late() {
    for decision in
        [ApprovalDecision::Happened, ApprovalDecision::Failed, ApprovalDecision::DidNotHappen]
    {
        let mut world = unknown_payment();
        world.decided(decision);
        let before = world.state.prompt.clone();
        assert_eq!(world.when(report(PAY, 1, ToolOutcome::Ok, "receipt 4")), ["tool_finished"]);
        let EventBody::ToolFinished(late) = world.last() else { panic!() };
        assert!(late.late);
        assert_eq!(world.state.prompt, before, "it changes nothing");
        let refusal = world.refused(report(PAY, 1, ToolOutcome::Ok, "receipt 4"));
        assert_eq!(refusal, Reject::NotRunning { call_id: PAY, attempt: 1 }, "once");
    }
}

#[test]
fn a_lost_read_is_started_again_after_a_while() {
    for tool in ["find", "put"] {
        let mut world = World::acting(&[(tool, "{}")]);
        assert_eq!(world.lose(PAY), ["tool_lost", "timer_started"]);
        assert_eq!(world.status(), Status::Sleeping);
        let wait = world.state.timers[&Timer::ToolRetry(PAY)].0 - world.now;
        assert!((1_000..=1_250).contains(&wait), "{wait}");
        assert_eq!(world.wake(), ["timer_fired", "tool_scheduled"]);
        assert_eq!(world.pending(), [Command::RunTool { call_id: PAY, attempt: 2 }]);
        assert_eq!(
            world.refused(report(PAY, 1, ToolOutcome::Ok, "x")),
            Reject::NotRunning { call_id: PAY, attempt: 1 }
        );
        world.done(PAY, "found");
        assert_eq!(world.observations(), ["found"]);
    }
}

#[test]
fn a_lost_read_that_reports_before_its_retry_is_taken() {
    let mut world = World::acting(&[("find", "{}")]);
    world.lose(PAY);
    assert_eq!(world.done(PAY, "found"), ["tool_finished", "model_requested"]);
    assert!(world.state.timers.is_empty(), "no retry is left");
    assert_eq!(world.observations(), ["found"]);
}

/// EXE-01: repeated with a limit, each attempt recorded.
#[test]
fn a_read_that_is_lost_as_often_as_allowed_is_given_up() {
    let mut world = World::acting(&[("find", "{}")]);
    for _ in 0..2 {
        world.lose(PAY);
        world.wake();
    }
    let events = world.lose(PAY);
    assert_eq!(events, ["tool_lost", "tool_refused", "model_requested"]);
    assert_eq!(
        world.observations(),
        ["Not run: its worker was lost 3 times, the last: its lease ran out"]
    );
    let refused = world.events.iter().find_map(|event| match &event.body {
        EventBody::ToolRefused(it) => Some(it.reason),
        _ => None,
    });
    assert_eq!(refused, Some(RefusalReason::WorkerLost));
}

#[test]
fn a_call_that_never_started_runs_again_whatever_it_does() {
    let mut world = World::acting(&[("pay", "{}")]);
    world.reserve(PAY);
    assert_eq!(world.when(never_started(PAY, 1)), ["tool_lost", "tool_scheduled"]);
    assert_eq!(world.pending(), [Command::RunTool { call_id: PAY, attempt: 2 }]);
    world.reserve(PAY);
    world.done(PAY, "receipt 4");
}

/// It was not dispatched, so it did not begin, and nobody needs to be asked.
#[test]
fn a_write_that_is_lost_before_its_dispatch_runs_again() {
    let mut world = World::acting(&[("pay", "{}")]);
    assert_eq!(world.lose(PAY), ["tool_lost", "tool_scheduled"]);
    let EventBody::ToolLost(lost) = &world.events[world.events.len() - 2].body else { panic!() };
    assert!(lost.never_started);
}

/// A worker that takes calls and drops them must not fill the log.
#[test]
fn a_call_that_never_starts_waits_longer_each_time() {
    let mut world = World::acting(&[("pay", "{}")]);
    let mut waits = Vec::new();
    for attempt in 1..=8 {
        world.reserve(PAY);
        world.when(never_started(PAY, attempt));
        if world.state.calls[&PAY].status == CallStatus::AwaitingRetry {
            waits.push(world.state.timers[&Timer::ToolRetry(PAY)].0 - world.now);
            world.wake();
        }
    }
    assert_eq!(waits.len(), 6, "twice at once, then with a wait");
    assert!(waits.windows(2).all(|it| it[1] > it[0]), "{waits:?}");
    world.reserve(PAY);
    world.done(PAY, "receipt 4");
}

#[test]
fn a_loss_in_a_paused_session_starts_nothing() {
    let mut world = World::acting(&[("find", "{}"), ("pay", "{}"), ("pay", r#"{"a":1}"#)]);
    world.reserve(id(1, 2));
    world.reserve(id(1, 3));
    world.when(pause());
    assert_eq!(world.lose(id(1, 1)), ["tool_lost", "timer_started"]);
    assert_eq!(world.lose(id(1, 2)), ["tool_lost", "approval_requested"]);
    assert_eq!(world.when(never_started(id(1, 3), 1)), ["tool_lost"]);
    assert_eq!(world.wake(), ["timer_fired"]);
    assert_eq!(world.decided(ApprovalDecision::DidNotHappen), ["approval_decided"]);
    assert_eq!(world.pending(), []);
    let events = world.when(resume());
    assert_eq!(events, ["resume_requested", "tool_scheduled", "tool_scheduled", "tool_scheduled"]);
}

#[test]
fn a_loss_of_what_does_not_run_is_refused() {
    let mut world = unknown_payment();
    let refusal = Reject::NotRunning { call_id: PAY, attempt: 1 };
    assert_eq!(world.refused(lost(PAY, 1)), refusal, "lost already");
    world.decided(ApprovalDecision::DidNotHappen);
    assert_eq!(world.refused(lost(PAY, 1)), refusal, "an older attempt");
    let unknown = Reject::NotRunning { call_id: id(7, 7), attempt: 1 };
    assert_eq!(world.refused(lost(id(7, 7), 1)), unknown);
}

#[test]
fn an_unknown_outcome_is_kept_open_for_a_late_report_after_a_cancel() {
    let mut world = unknown_payment();
    let approval = world.approval();
    assert_eq!(world.when(cancel()), ["cancel_requested", "session_finished"]);
    let refusal = world.refused(Input::Decide(verdict(approval, ApprovalDecision::Happened)));
    assert_eq!(refusal, Reject::Finished { status: Status::Cancelled });
    assert_eq!(world.when(report(PAY, 1, ToolOutcome::Ok, "receipt 4")), ["tool_finished"]);
}

#[test]
fn a_write_that_was_approved_and_lost_asks_what_happened() {
    let mut world = World::of(agent());
    world.calls(&[("ship", r#"{"order":771}"#)]);
    world.decided(ApprovalDecision::Approve);
    world.reserve(PAY);
    world.lose(PAY);
    let approval = world.approval();
    assert_eq!(world.state.approvals[&approval].question, Question::WhatHappened);
}
