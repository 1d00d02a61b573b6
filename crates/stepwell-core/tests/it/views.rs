//! What people see of a state: the sentence that explains it, rows of lists, text that is cut.

use std::fmt::Write;

use stepwell_core::event::ApprovalDecision;
use stepwell_core::explain::explain;
use stepwell_core::pending::needs_owner;
use stepwell_core::summary::{ApprovalStatus, approval_rows, session_row};
use stepwell_core::{CallId, Input, SessionId, SessionState, Status};

use crate::table::states;
use crate::world::{World, agent, cancel, id, verdict};

fn session() -> SessionId {
    SessionId::from_random([7; 16])
}

#[test]
fn every_state_says_why_it_is_where_it_is() {
    let mut text = String::new();
    for (name, world) in states() {
        writeln!(text, "{name:<46}{:<18}{}", world.status().as_str(), explain(&world.state))
            .unwrap();
    }
    insta::assert_snapshot!("explain", text);
}

/// What waits for a person, a message or a timer needs no memory.
#[test]
fn only_work_needs_an_owner() {
    for (name, world) in states() {
        let works = matches!(world.status(), Status::Thinking | Status::ExecutingTools);
        assert_eq!(needs_owner(&world.state), works, "{name}");
    }
}

#[test]
fn the_row_of_a_session() {
    assert_eq!(session_row(session(), &SessionState::default()), None);
    let mut world = World::acting(&[("find", "{}")]);
    world.after(500).done(id(1, 1), "x");
    let row = session_row(session(), &world.state).unwrap();
    assert_eq!(
        (row.title.as_str(), row.agent.as_str(), row.agent_version),
        ("move box 9", "tester", 3)
    );
    assert_eq!((row.head_seq, row.step), (world.state.head, 2));
    assert_eq!(row.updated_at.0 - row.created_at.0, 500);
    assert_eq!(row.explain, "waits for the model small, step 2");
}

#[test]
fn the_rows_of_approvals_open_and_close() {
    let before = World::new();
    let mut world = before.clone();
    world.calls(&[("ship", r#"{"order":771}"#)]);
    let opened = approval_rows(session(), &before.state, &world.state);
    assert_eq!(opened.len(), 1);
    assert_eq!(opened[0].status, ApprovalStatus::Open);
    assert_eq!(
        (opened[0].tool.as_str(), opened[0].arguments.as_str()),
        ("ship", r#"{"order":771}"#)
    );
    for (decision, status) in [
        (ApprovalDecision::Approve, ApprovalStatus::Approved),
        (ApprovalDecision::ApproveForSession, ApprovalStatus::Approved),
        (ApprovalDecision::Deny, ApprovalStatus::Denied),
    ] {
        let mut after = world.clone();
        after.decided(decision);
        let closed = approval_rows(session(), &world.state, &after.state);
        assert_eq!(closed.len(), 1);
        assert_eq!(closed[0].status, status);
        assert_eq!(closed[0].decided_by, "person:ada");
    }
    let mut after = world.clone();
    after.when(cancel());
    let closed = approval_rows(session(), &world.state, &after.state);
    assert_eq!(closed[0].status, ApprovalStatus::Void);
}

#[test]
fn an_approval_that_lapses_and_one_that_its_worker_answers_are_closed_so() {
    let mut agent = agent();
    agent.approval_expires_after_ms = Some(1_000);
    let mut world = World::of(agent);
    world.calls(&[("ship", "{}")]);
    let mut after = world.clone();
    after.wake();
    let closed = approval_rows(session(), &world.state, &after.state);
    assert_eq!(
        (closed[0].status, closed[0].decided_by.as_str()),
        (ApprovalStatus::Expired, "engine")
    );
    let mut world = World::acting(&[("pay", "{}")]);
    world.reserve(id(1, 1));
    world.lose(id(1, 1));
    let mut after = world.clone();
    after.done(id(1, 1), "paid");
    let closed = approval_rows(session(), &world.state, &after.state);
    assert_eq!(closed[0].status, ApprovalStatus::Approved);
    assert_eq!(closed[0].decided_by, "worker:w1");
}

/// One append may close a question and open another.
#[test]
fn one_decision_may_close_and_open() {
    let mut world = World::acting(&[("ship", "{}")]);
    world.decided(ApprovalDecision::Approve);
    world.reserve(id(1, 1));
    let before = world.clone();
    world.lose(id(1, 1));
    let first = world.clone();
    assert_eq!(approval_rows(session(), &before.state, &first.state).len(), 1);
    let approval = world.approval();
    world.when(Input::Decide(verdict(approval, ApprovalDecision::DidNotHappen)));
    assert_eq!(approval_rows(session(), &first.state, &world.state).len(), 1);
}

#[test]
fn names_of_statuses_are_one_to_one() {
    for status in Status::ALL {
        assert_eq!(Status::from_name(status.as_str()), Some(status));
    }
    for status in ApprovalStatus::ALL {
        assert_eq!(ApprovalStatus::from_name(status.as_str()), Some(status));
    }
    assert_eq!(Status::from_name("asleep"), None);
}

#[test]
fn ids_are_read_as_they_are_written() {
    let session = session();
    assert_eq!(session.to_string().parse(), Ok(session));
    assert_eq!(session.to_string().len(), 26);
    assert_eq!("3.1".parse::<CallId>(), Ok(id(3, 1)));
    for wrong in ["", "3", "3.", ".1", "3.x", "-3.1", "99999999999.1"] {
        assert!(wrong.parse::<CallId>().is_err(), "{wrong}");
    }
    let error = "abc".parse::<SessionId>().unwrap_err();
    assert_eq!(error.to_string(), "\"abc\" is no session id: it has 26 letters and digits");
}

/// A wrong character must never mean another session: it may be the one that is deleted.
#[test]
fn no_two_texts_name_one_session_but_for_the_case_of_letters() {
    let id = "0B163WKGZZZZZZZZZZZZZZZZZ7";
    let session: SessionId = id.parse().unwrap();
    assert_eq!(session.to_string(), id);
    assert_eq!(id.to_lowercase().parse(), Ok(session));
    for place in 0..id.len() {
        for other in (0..=127).map(char::from) {
            let mut text = id.to_owned();
            text.replace_range(place..=place, &other.to_string());
            let Ok(named) = text.parse::<SessionId>() else { continue };
            assert_eq!(named.to_string(), text.to_uppercase(), "{text} means {named}");
        }
    }
    for first in ['8', '9', 'A', 'G', 'R', 'Z', 'g', 'z'] {
        let text = format!("{first}{}", id.get(1..).unwrap());
        let error = text.parse::<SessionId>().unwrap_err().to_string();
        let wanted =
            format!("{text:?} is no session id: its first character is a digit from 0 to 7");
        assert_eq!(error, wanted);
        assert!(serde_json::from_value::<SessionId>(text.into()).is_err());
    }
}
