//! What the demo tells, in order.

use std::io::BufRead as _;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use jiff::tz::TimeZone;
use stepwell_proto::v1::watch_session_response::Item;
use stepwell_proto::v1::{
    Approval, ApprovalDecision, CreateSessionRequest, DecideApprovalRequest, Event,
    ListApprovalsRequest, SessionStatus, WatchSessionRequest,
};
use stepwell_proto::v1::{GetSessionRequest, Session};

use super::process::ServerProcess;
use super::project::{Project, WORKSPACE};
use super::{Voice, is_heard};
use crate::args::ColorWhen;
use crate::client::Client;
use crate::out::Out;
use crate::view::event::Narrator;

const AGENT: &str = include_str!("agent.toml");
const TASK: &str = "The test of this project fails. Find out why, mend it, and commit the change.";

/// The step whose model call is cut by the kill.
const KILLED_STEP: &str = "\"step\":3";

/// See the module.
pub(crate) struct Story {
    pub(crate) server: ServerProcess,
    pub(crate) project: Project,
    pub(crate) folder: PathBuf,
    pub(crate) voice: Voice,
}

impl Story {
    /// Tells it, and checks that it came out right.
    pub(crate) async fn tell(&mut self) -> anyhow::Result<()> {
        self.voice.say(
            "Stepwell demo: an agent mends a real project, and its server is killed half-way.",
        );
        self.voice.say(
            "The model is a script (`stepwell mock-model`). Tools, files, approval and log are real.",
        );
        self.voice.say("");
        ensure!(!self.project.tests_pass().await?, "the project's test should fail at first");
        self.voice.say(&format!("project   {} (one test fails)", self.project.folder().display()));
        let (pid, client) = self.server.start().await?;
        self.voice.say(&format!("server    {}, process {pid}", self.server.url()));
        let session = submit(&client).await?;
        let session_id = session.session_id.clone();
        self.voice.say(&format!("session   {session_id}"));
        self.voice.say("");

        let out = Out::new(false, ColorWhen::Auto);
        let mut narrator = Narrator::new(TimeZone::system(), out.paint, out.width);
        let is_killing = |event: &Event| {
            event.r#type == "model_requested" && event.body_json.contains(KILLED_STEP)
        };
        let seq = watch(&client, &session_id, 0, (self.voice, &mut narrator), &is_killing).await?;
        let (pid, client) = self
            .kill_and_restart(
                pid,
                "the model's answer was on its way",
                "the log has everything; the model is asked again, with the same bytes",
            )
            .await?;
        let asks = |event: &Event| event.r#type == "approval_requested";
        let seq = watch(&client, &session_id, seq, (self.voice, &mut narrator), &asks).await?;
        let (_, client) = self
            .kill_and_restart(
                pid,
                "the session waited for a person",
                "a session that waits is a row in the store, so there was nothing to lose",
            )
            .await?;
        let approval = open_approval(&client, &session_id).await?;
        decide(self.voice, &client, &approval).await?;
        let seq = watch(&client, &session_id, seq, (self.voice, &mut narrator), &|_| false).await?;
        self.check(&client, &session_id, seq).await
    }

    async fn kill_and_restart(
        &mut self,
        pid: u32,
        when: &str,
        then: &str,
    ) -> anyhow::Result<(u32, Client)> {
        self.server.kill().await?;
        self.voice.say("");
        self.voice.say(&format!("   *** kill -9 {pid}: {when} ***"));
        let (pid, client) = self.server.start().await?;
        self.voice.say(&format!("   *** started again as process {pid}: {then} ***"));
        self.voice.say("");
        Ok((pid, client))
    }

    /// Says what came out, after looking for oneself.
    async fn check(&self, client: &Client, session_id: &str, seq: u64) -> anyhow::Result<()> {
        let request = GetSessionRequest { session_id: session_id.to_owned() };
        let response = client.sessions().get_session(request).await;
        let response = response.map_err(|status| client.refusal(&status))?.into_inner();
        let session = response.session.context("no session in the answer")?;
        let completed = session.status() == SessionStatus::Completed;
        ensure!(completed, "the session is {}: {}", session.status, session.explain);
        ensure!(self.project.tests_pass().await?, "the tests of the project still fail");
        let commits = self.project.commits().await?;
        ensure!(commits.len() == 2, "the project has these commits: {commits:?}");
        self.voice.say("");
        self.voice.say(&format!("answer    {}", response.answer));
        self.voice.say(&format!("log       {seq} events, two kills, every call ran once"));
        self.voice.say("project   all tests pass, and the change is committed once");
        self.voice.result(&serde_json::json!({
            "session_id": session_id, "status": "completed", "answer": response.answer,
            "events": seq, "kills": 2, "tests_pass": true, "commits": commits.len(),
        }))
    }

    /// Keeps serving, so that a newcomer can look around.
    pub(crate) async fn stay(&self) -> anyhow::Result<()> {
        let server = self.server.url();
        self.voice.say("");
        self.voice.say("The demo's server goes on until Ctrl-C. In another terminal:");
        self.voice.say("");
        self.voice.say(&format!("  export STEPWELL_SERVER={server}"));
        for command in ["stepwell ls", "stepwell show ID", "stepwell tree ID", "stepwell events ID"]
        {
            self.voice.say(&format!("  {command}"));
        }
        self.voice.say(&format!(
            "  sqlite3 {}/stepwell.db 'select * from events_readable'",
            self.folder.display()
        ));
        self.voice.say("");
        self.voice.say("Without an installed binary: cargo run --release -- ls");
        tokio::signal::ctrl_c().await?;
        Ok(())
    }
}

async fn submit(client: &Client) -> anyhow::Result<Session> {
    let request = CreateSessionRequest {
        task: TASK.to_owned(),
        agent_definition: AGENT.to_owned(),
        title: "mend the dates project".to_owned(),
        submitted_by: "demo".to_owned(),
        workspace: WORKSPACE.to_owned(),
        ..CreateSessionRequest::default()
    };
    let response = client.sessions().create_session(request).await;
    let response = response.map_err(|status| client.refusal(&status))?.into_inner();
    response.session.context("no session in the answer")
}

/// Tells each event after `after_seq` until `stop` says so or the session is over; returns the last.
async fn watch(
    client: &Client,
    session_id: &str,
    after_seq: u64,
    (voice, narrator): (Voice, &mut Narrator),
    stop: &(dyn Fn(&Event) -> bool + Sync),
) -> anyhow::Result<u64> {
    let request = WatchSessionRequest {
        session_id: session_id.to_owned(),
        after_seq,
        events_only: true,
        whole_payloads: false,
    };
    let stream = client.sessions().watch_session(request).await;
    let mut stream = stream.map_err(|status| client.refusal(&status))?.into_inner();
    let mut seq = after_seq;
    while let Some(item) = stream.message().await.map_err(|status| client.refusal(&status))? {
        if let Some(Item::Event(event)) = item.item {
            voice.say(&narrator.line(&event));
            seq = event.seq;
            if stop(&event) {
                break;
            }
        }
    }
    Ok(seq)
}

async fn open_approval(client: &Client, session_id: &str) -> anyhow::Result<Approval> {
    let request = ListApprovalsRequest {
        session_id: session_id.to_owned(),
        ..ListApprovalsRequest::default()
    };
    let response = client.approvals().list_approvals(request).await;
    let response = response.map_err(|status| client.refusal(&status))?.into_inner();
    response.approvals.into_iter().next().context("no approval is open")
}

/// Asks the person at the terminal, or decides itself and says so.
async fn decide(voice: Voice, client: &Client, approval: &Approval) -> anyhow::Result<()> {
    voice.say("The agent asks before it writes:");
    voice.say("");
    voice.say(&format!("  tool       {}", approval.tool));
    voice.say(&format!("  arguments  {}", crate::view::visible::brief(&approval.arguments)));
    voice.say(&format!("  asked by   {}", approval.rule));
    voice.say("");
    let by = if is_heard() {
        wait_for_yes(voice).await?;
        "you"
    } else {
        voice.say("There is no terminal to ask at, so the demo approves by itself.");
        "demo"
    };
    let request = DecideApprovalRequest {
        approval_id: approval.approval_id.clone(),
        decision: ApprovalDecision::Approve.into(),
        action_digest: approval.action_digest.clone(),
        decided_by: by.to_owned(),
        ..DecideApprovalRequest::default()
    };
    let response = client.approvals().decide_approval(request).await;
    response.map_err(|status| client.refusal(&status))?;
    voice.say("");
    Ok(())
}

/// Waits until the person at the terminal says yes. The session waits, too, for as long as it takes.
#[expect(clippy::print_stdout, reason = "a question at a terminal")]
async fn wait_for_yes(voice: Voice) -> anyhow::Result<()> {
    loop {
        print!("May it run? Type yes: ");
        std::io::stdout().flush()?;
        let read = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).map(|count| (count, line))
        });
        let (count, line) = read.await??;
        ensure!(count > 0, "the terminal was closed; the session still waits");
        if line.trim().eq_ignore_ascii_case("yes") {
            return Ok(());
        }
        voice.say("It waits: for days, if need be.");
    }
}
