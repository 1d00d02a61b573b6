//! Requests, good and bad; the bad ones with the field's path.

use std::collections::HashMap;

use stepwell_core::event::ApprovalDecision;
use stepwell_core::summary::ApprovalStatus;
use stepwell_core::{Actor, CallId, Status};
use stepwell_proto::v1;

use super::{
    AgentChoice, ApprovalQuery, BadField, Creation, Forking, Message, Ruling, SessionQuery, Stop,
    TEXT_BYTES_MAX, blob_address,
};

fn create() -> v1::CreateSessionRequest {
    v1::CreateSessionRequest {
        task: "Mend it.".into(),
        agent: "fixer".into(),
        ..v1::CreateSessionRequest::default()
    }
}

fn labels(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[track_caller]
fn refused(request: v1::CreateSessionRequest) -> BadField {
    Creation::try_from(request).expect_err("the request must be refused")
}

#[test]
fn a_create_keeps_every_byte_of_its_task() {
    let mut request = create();
    request.task = "a\0b\u{202e}\r\n".into();
    request.labels = labels(&[("team", "core"), ("area", "x")]);
    request.agent_version = 3;
    request.submitted_by = " ann ".into();
    request.client_key = "k1".into();
    let creation = Creation::try_from(request).unwrap();
    assert_eq!(creation.task.whole(), Some("a\0b\u{202e}\r\n"));
    let keys: Vec<_> = creation.labels.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(keys, ["area", "team"]);
    assert_eq!(creation.agent, AgentChoice::Stored { name: "fixer".into(), version: Some(3) });
    assert_eq!(creation.by, Actor::Person("ann".into()));
    assert_eq!(creation.client_key.as_deref(), Some("k1"));
}

#[test]
fn a_create_that_cannot_be_meant_names_the_field() {
    let change = |it: &dyn Fn(&mut v1::CreateSessionRequest)| {
        let mut request = create();
        it(&mut request);
        refused(request).to_string()
    };
    assert_eq!(change(&|it| it.task = "  ".into()), "task: is empty: say what is to be done");
    let importer = change(&|it| it.submitted_by = "import".into());
    assert_eq!(importer, "submitted_by: stands for what imports do: take another name");
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    assert_eq!(change(&|it| it.task.clone_from(&long)), "task: has 4194305 bytes, at most 4194304");
    assert!(change(&|it| it.agent.clear()).starts_with("agent: is empty: name a stored agent"));
    assert!(change(&|it| it.agent_definition = "x".into()).contains("give one of them"));
    assert!(
        change(&|it| it.title = "a\nb".into()).starts_with("title: holds the control character")
    );
    assert!(change(&|it| it.client_key = "k".repeat(257)).starts_with("client_key: has 257 bytes"));
    assert!(
        change(&|it| it.labels = labels(&[("", "x")])).starts_with("labels[\"\"]: has an empty")
    );
    assert!(
        change(&|it| it.labels = labels(&[("team", &"x".repeat(1025))]))
            .starts_with("labels[\"team\"]: has 1025 bytes, at most 1024")
    );
    let many: HashMap<_, _> = (0..65).map(|i| (i.to_string(), String::new())).collect();
    assert_eq!(change(&|it| it.labels.clone_from(&many)), "labels: are 65, at most 64");
}

#[test]
fn the_digest_is_that_of_the_request_without_its_key() {
    let digest = |change: &dyn Fn(&mut v1::CreateSessionRequest)| {
        let mut request = create();
        request.labels = labels(&[("a", "1"), ("b", "2"), ("c", "3")]);
        change(&mut request);
        Creation::try_from(request).unwrap().request_digest
    };
    let same = digest(&|_| {});
    assert_eq!(same.len(), 64);
    for _ in 0..8 {
        // A new map each time, with another order.
        assert_eq!(digest(&|it| it.client_key = "other".into()), same);
    }
    assert_ne!(digest(&|it| it.task = "Mend it!".into()), same);
    assert_ne!(digest(&|it| it.agent_version = 1), same);
    assert_ne!(
        digest(&|it| it.labels =
            labels(&[("a", "1b"), ("", "2")]).into_iter().filter(|(k, _)| !k.is_empty()).collect()),
        same
    );
    // The border between two fields counts.
    let moved = |agent: &str, title: &str| {
        digest(&|it| {
            it.agent = agent.into();
            it.title = title.into();
        })
    };
    assert_ne!(moved("ab", "c"), moved("a", "bc"));
}

#[test]
fn a_list_query_is_read() {
    let request = v1::ListSessionsRequest {
        statuses: vec![v1::SessionStatus::Paused.into(), v1::SessionStatus::Failed.into()],
        id_prefix: "01ab".into(),
        page_size: 5_000,
        ..v1::ListSessionsRequest::default()
    };
    let query = SessionQuery::try_from(request).unwrap();
    assert_eq!(query.filter.statuses, [Status::Paused, Status::Failed]);
    assert_eq!(query.filter.id_prefix.as_deref(), Some("01AB"));
    assert_eq!((query.rows, query.page), (1_000, None));
    for statuses in [vec![0], vec![99]] {
        let request = v1::ListSessionsRequest { statuses, ..v1::ListSessionsRequest::default() };
        let error = SessionQuery::try_from(request).unwrap_err();
        assert!(error.field.starts_with("statuses"), "{error}");
    }
}

fn decide(decision: v1::ApprovalDecision) -> v1::DecideApprovalRequest {
    v1::DecideApprovalRequest {
        approval_id: "S.7".into(),
        decision: decision.into(),
        decided_by: "ann".into(),
        ..v1::DecideApprovalRequest::default()
    }
}

#[test]
fn a_decision_is_read() {
    let mut request = decide(v1::ApprovalDecision::Approve);
    request.arguments = r#"{"qty":2}"#.into();
    let ruling = Ruling::try_from(request).unwrap();
    assert_eq!(ruling.decision, ApprovalDecision::Approve);
    assert_eq!(ruling.arguments.as_deref(), Some(r#"{"qty":2}"#));
    assert_eq!((ruling.output, ruling.tool, ruling.action_digest), (None, None, None));
    assert_eq!(ruling.by, Actor::Person("ann".into()));
}

#[test]
fn a_decision_that_cannot_be_meant_names_the_field() {
    use v1::ApprovalDecision::{Approve, Deny, Failed, Unspecified};
    let with = |decision, change: &dyn Fn(&mut v1::DecideApprovalRequest)| {
        let mut request = decide(decision);
        change(&mut request);
        Ruling::try_from(request).unwrap_err().to_string()
    };
    assert!(with(Unspecified, &|_| {}).starts_with("decision: is missing or unknown"));
    assert!(with(Approve, &|it| it.decision = 77).starts_with("decision: is missing or unknown"));
    assert!(with(Approve, &|it| it.decided_by = " ".into()).starts_with("decided_by: is empty"));
    assert!(
        with(Approve, &|it| it.decided_by = "a\u{1b}[8m".into()).starts_with("decided_by: holds")
    );
    assert!(
        with(Deny, &|it| it.arguments = "{}".into()).starts_with("arguments: do not go with deny")
    );
    assert!(
        with(Failed, &|it| it.output = "x".into()).starts_with("output: does not go with failed")
    );
}

#[test]
fn an_approval_query_asks_for_open_ones_by_default() {
    let query = ApprovalQuery::try_from(v1::ListApprovalsRequest::default()).unwrap();
    assert_eq!(query.statuses, [ApprovalStatus::Open]);
    let request = v1::ListApprovalsRequest {
        statuses: vec!["open".into(), "opn".into()],
        ..v1::ListApprovalsRequest::default()
    };
    let error = ApprovalQuery::try_from(request).unwrap_err();
    assert_eq!(
        error.to_string(),
        "statuses[1]: \"opn\" is not one of open, approved, denied, expired, void"
    );
}

#[test]
fn messages_and_stops_are_read() {
    let request = v1::SendMessageRequest {
        session_id: "01AB".into(),
        content: "yes".into(),
        answers_call_id: "3.1".into(),
        ..v1::SendMessageRequest::default()
    };
    let message = Message::try_from(request.clone()).unwrap();
    assert_eq!(message.answers, Some(CallId { step: 3, index: 1 }));
    assert_eq!(message.by, Actor::Person("unknown".into()));
    let bad = v1::SendMessageRequest { answers_call_id: "3".into(), ..request };
    let error = Message::try_from(bad).unwrap_err().to_string();
    assert!(error.starts_with("answers_call_id: \"3\" is no call id"), "{error}");
    let empty = v1::SendMessageRequest::default();
    assert!(Message::try_from(empty).unwrap_err().to_string().starts_with("content: is empty"));
    let cancel = v1::CancelSessionRequest {
        session_id: "01AB".into(),
        reason: "r".repeat(16 * 1024 + 1),
        requested_by: String::new(),
    };
    assert!(Stop::try_from(cancel).unwrap_err().to_string().starts_with("reason: has 16385 bytes"));
}

#[test]
fn a_blob_address_has_64_hex_digits() {
    let address = "AB".repeat(32);
    assert_eq!(blob_address(&format!(" {address} ")), Ok(address.to_lowercase()));
    assert!(blob_address("abc").is_err());
    assert!(blob_address(&"g".repeat(64)).is_err());
}

/// What an agent file may not say, a fork may not say either.
#[test]
fn another_model_of_a_fork_is_checked_as_in_an_agent_file() {
    let fork = |base_url: &str, model: &str, instructions: &str| {
        Forking::try_from(v1::ForkSessionRequest {
            session_id: "01J".into(),
            base_url: base_url.into(),
            model: model.into(),
            instructions: instructions.into(),
            ..v1::ForkSessionRequest::default()
        })
    };
    for (base_url, model, instructions, field, problem) in [
        ("notaurl", "", "", "base_url", "must begin with http"),
        ("ftp://host/v1", "", "", "base_url", "must begin with http"),
        ("http://", "", "", "base_url", "is no address"),
        ("http:///v1", "", "", "base_url", "is no address"),
        ("http://127.0.0.1:99999/v1", "", "", "base_url", "no port from 1 to 65535"),
        ("http://[::1]:x/v1", "", "", "base_url", "no port from 1 to 65535"),
        ("https://host/v1?api-version=1&key=sk-1", "", "", "base_url", "holds a key in its query"),
        ("https://host/v1?Access_Token=1", "", "", "base_url", "holds a key in its query"),
        ("http://a b/v1", "", "", "base_url", "is no address"),
        ("http://user:secret@127.0.0.1:1/v1", "", "", "base_url", "holds a user or password"),
        (" https://key@host", "", "", "base_url", "holds a user or password"),
        ("", "  ", "", "model", "is empty"),
        ("", "a\nb", "", "model", "control character"),
        ("", "", " \n", "instructions", "is empty"),
    ] {
        let error = fork(base_url, model, instructions).expect_err("it must be refused");
        assert!(error.field == field && error.problem.contains(problem), "{error:?}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let taken = fork(" http://127.0.0.1:8001/v1 ", "large", "").unwrap();
    assert_eq!(taken.base_url.as_deref(), Some("http://127.0.0.1:8001/v1"));
    assert_eq!((taken.model.as_deref(), taken.instructions), (Some("large"), None));
}
