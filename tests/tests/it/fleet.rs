//! Many sessions at once, and a server that is killed again and again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use stepwell_proto::v1::{
    ApprovalDecision, CreateSessionRequest, DecideApprovalRequest, ListApprovalsRequest,
    ListSessionsRequest, SessionStatus,
};
use stepwell_tests::{Api, CountingWorker, Ledger, POLL, Server, Stage, agent_with, look};
use stepwell_tests::{Started, until_within};
use tokio::time::sleep;

const SESSIONS: usize = 200;
const KILLS: usize = 20;
/// Events of one session that meets no trouble.
const EVENTS_EACH: u64 = 28;
/// Write calls of one session.
const PAYMENTS_EACH: usize = 2;
/// How long all of it may take.
const ALL_WITHIN: Duration = Duration::from_secs(180);
/// Creates under way at the same time.
const CREATES: usize = 32;

const SCRIPT: &str = r#"
delay_ms = 5

[[step]]
[[step.tool_calls]]
name = "look"
arguments = { what = "here", delay_ms = 10 }
[[step.tool_calls]]
name = "put"
arguments = { what = "this", delay_ms = 20 }

[[step]]
[[step.tool_calls]]
name = "pay"
arguments = { what = "one", delay_ms = 20 }

[[step]]
[[step.tool_calls]]
name = "pay"
arguments = { what = "two", delay_ms = 10 }
[[step.tool_calls]]
name = "look"
arguments = { what = "there" }
[[step.tool_calls]]
name = "put"
arguments = { what = "that", delay_ms = 10 }

[[step]]
[[step.tool_calls]]
name = "put"
arguments = { what = "the rest" }

[[step]]
content = "Done, {{session}}."
"#;

const RULES: &str = r#"
[limits]
tool_attempts = 50

[[approval.rules]]
tool = "pay"
verdict = "allow"
"#;

/// A seed that is printed, so that a failure can be played again with `STEPWELL_TEST_SEED`.
fn dice() -> Result<StdRng> {
    let seed = match std::env::var("STEPWELL_TEST_SEED") {
        Ok(text) => text.parse().context("STEPWELL_TEST_SEED is no number")?,
        Err(_) => getrandom::u64().unwrap(),
    };
    println!("STEPWELL_TEST_SEED={seed}");
    Ok(StdRng::seed_from_u64(seed))
}

/// Kills the server at random moments, each fourth time with its worker.
async fn kill_often(
    server: &mut Server,
    worker: &mut CountingWorker,
    dice: &mut StdRng,
) -> Result<()> {
    let most = SESSIONS as u64 * EVENTS_EACH;
    let mut moments: Vec<u64> = (0..KILLS).map(|_| dice.random_range(10..most - 200)).collect();
    moments.sort_unstable();
    for moment in moments {
        until_within(ALL_WITHIN, "enough events for the next kill", async || {
            let events = look(server.data())?.events()?;
            Ok((events >= moment).then_some(()))
        })
        .await?;
        server.kill().await?;
        if dice.random_range(0..4) == 0 {
            worker.kill().await?;
            worker.start_again()?;
        }
        server.start().await?;
    }
    Ok(())
}

/// Creates a session, again and again until the server says yes. The key makes it one session.
async fn create(url: &str, number: usize, agent: &str) -> Result<String> {
    let request = CreateSessionRequest {
        task: format!("Task number {number}."),
        agent_definition: agent.to_owned(),
        client_key: format!("key-{number}"),
        ..CreateSessionRequest::default()
    };
    until_within(ALL_WITHIN, "a session", async || {
        let Ok(api) = Api::connect(url).await else { return Ok(None) };
        let Ok(response) = api.sessions().create_session(request.clone()).await else {
            return Ok(None);
        };
        Ok(response.into_inner().session.map(|it| it.session_id))
    })
    .await
}

/// Answers what became of lost calls, after a look into the ledger. A server that is away is asked
/// again later.
async fn answer_questions(
    url: &str,
    ledger: &Ledger,
    answered: &RefCell<BTreeSet<String>>,
) -> Result<()> {
    let Ok(api) = Api::connect(url).await else { return Ok(()) };
    let request = ListApprovalsRequest { page_size: 1_000, ..ListApprovalsRequest::default() };
    let Ok(response) = api.approvals().list_approvals(request).await else { return Ok(()) };
    for approval in response.into_inner().approvals {
        ensure!(approval.question == "what_happened", "nothing else is asked: {approval:?}");
        let starts = ledger.starts_of(&approval.session_id, &approval.call_id)?;
        let (decision, output) = match starts.first() {
            Some(_) => (ApprovalDecision::Happened, "paid it"),
            None => (ApprovalDecision::DidNotHappen, ""),
        };
        let request = DecideApprovalRequest {
            approval_id: approval.approval_id.clone(),
            decision: decision.into(),
            output: output.to_owned(),
            decided_by: "petra".to_owned(),
            ..DecideApprovalRequest::default()
        };
        if api.approvals().decide_approval(request).await.is_ok() {
            answered.borrow_mut().insert(approval.approval_id);
        }
    }
    Ok(())
}

async fn completed(api: &Api) -> Result<usize> {
    let request = ListSessionsRequest {
        statuses: vec![SessionStatus::Completed.into()],
        page_size: 1_000,
        ..ListSessionsRequest::default()
    };
    Ok(api.sessions().list_sessions(request).await?.into_inner().sessions.len())
}

/// Where those are that did not complete.
async fn stuck(api: &Api) -> Result<String> {
    let request = ListSessionsRequest { page_size: 1_000, ..ListSessionsRequest::default() };
    let sessions = api.sessions().list_sessions(request).await?.into_inner().sessions;
    let open = sessions.iter().filter(|it| it.status() != SessionStatus::Completed);
    let lines = open.map(|it| format!("{} {:?} {}", it.session_id, it.status(), it.explain));
    Ok(lines.take(20).collect::<Vec<_>>().join("\n"))
}

#[tokio::test]
async fn two_hundred_sessions_on_a_server_that_is_killed_twenty_times_all_finish_and_pay_once()
-> Result<()> {
    let mut dice = dice()?;
    let mut stage = Stage::counting(SCRIPT).await?;
    let (url, ledger) = (stage.server.url(), stage.ledger()?);
    let agent = agent_with(&["look", "put", "pay"], RULES);
    let mut worker = stage.worker.take().context("no worker")?;
    let answered = RefCell::default();
    let is_over = Cell::new(false);

    let creating = async {
        let creates = (0..SESSIONS).map(|number| create(&url, number, &agent));
        stream::iter(creates).buffer_unordered(CREATES).try_collect::<BTreeSet<String>>().await
    };
    let killing = kill_often(&mut stage.server, &mut worker, &mut dice);
    let working = async {
        let (ids, ()) = tokio::try_join!(creating, killing)?;
        let api = Api::connect(&url).await?;
        let finishing = until_within(ALL_WITHIN, "the end of all sessions", async || {
            Ok((completed(&api).await? == SESSIONS).then_some(()))
        });
        let finished = finishing.await;
        is_over.set(true);
        if finished.is_err() {
            println!("not completed:\n{}", stuck(&api).await?);
        }
        finished?;
        anyhow::Ok(ids)
    };
    let answering = async {
        while !is_over.get() {
            answer_questions(&url, &ledger, &answered).await?;
            sleep(POLL).await;
        }
        anyhow::Ok(())
    };
    let (ids, ()) = tokio::try_join!(working, answering)?;
    ensure!(ids.len() == SESSIONS, "{} sessions were created", ids.len());
    println!("{} lost calls were settled by the person", answered.borrow().len());
    check_ledger(&ids, &ledger.starts()?)
}

/// Every payment of every session was started once, and every start has the key of its call.
fn check_ledger(ids: &BTreeSet<String>, starts: &[Started]) -> Result<()> {
    let mut payments: BTreeMap<&str, usize> = BTreeMap::new();
    for start in starts {
        let session_id = start.key.split('/').next().unwrap();
        ensure!(ids.contains(session_id), "{start:?} belongs to no session");
        if start.tool == "pay" {
            *payments.entry(&start.key).or_default() += 1;
        }
    }
    let twice: Vec<_> = payments.iter().filter(|(_, count)| **count > 1).collect();
    ensure!(twice.is_empty(), "these write calls ran more than once: {twice:?}");
    let wanted = SESSIONS * PAYMENTS_EACH;
    ensure!(payments.len() == wanted, "{} of {wanted} payments ran", payments.len());
    Ok(())
}
