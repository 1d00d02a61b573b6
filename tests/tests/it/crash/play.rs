//! Plays a story on a stage of its own, with a kill or without.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use stepwell_proto::v1::{CreateSessionRequest, ForkSessionRequest};
use stepwell_tests::{Ev, POLL, Stage, Started, Watched, look, until_within};
use tokio::time::{sleep, timeout};

use super::person::{Act, View};
use super::stories::Story;

/// How long a whole play may take.
const PLAY_WITHIN: Duration = Duration::from_secs(90);

/// How long after its session's end a call may still be at work.
const STOP_WITHIN: Duration = Duration::from_secs(15);

const TASK: &str = "Live a whole life.";

/// When the server is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kill {
    /// As soon as this event is durable.
    pub(super) after: u64,
    /// The worker is killed, too.
    pub(super) with_worker: bool,
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.with_worker { "server and worker" } else { "server" };
        write!(f, "{what} killed after event {}", self.after)
    }
}

/// A story that was played to its end.
pub(super) struct Played {
    pub(super) session_id: String,
    pub(super) events: Vec<Ev>,
    pub(super) starts: Vec<Started>,
    /// Head of the log when the server was dead.
    pub(super) head_at_kill: Option<u64>,
}

impl Played {
    /// Whether nothing more was durable at the kill than what became durable with that event.
    pub(super) fn was_exact(&self, kill: Kill) -> bool {
        let cause_of = |seq: u64| self.events.iter().find(|it| it.seq == seq).map(|it| it.cause);
        self.head_at_kill.and_then(cause_of) == cause_of(kill.after)
    }

    /// The log, for a failure.
    pub(super) fn told(&self) -> String {
        let line = |it: &Ev| format!("  #{} {} {} {}", it.seq, it.kind, it.actor, it.body);
        let mut lines: Vec<String> = self.events.iter().map(line).collect();
        lines.extend(self.starts.iter().map(|it| format!("  {it:?}")));
        lines.push(format!("  head at the kill: {:?}", self.head_at_kill));
        lines.join("\n")
    }
}

/// A play under way.
struct Play<'a> {
    story: &'a Story,
    stage: Stage,
    session_id: String,
    /// What was seen of the log.
    events: Vec<Ev>,
    /// What the server said yes to, and was not seen in the log yet.
    told: Option<Act>,
}

enum Stop {
    After(u64),
    AtEnd,
}

/// Plays `story`.
///
/// # Errors
/// When it does not come to its end, or the log loses something.
pub(super) async fn play(story: &Story, kill: Option<Kill>) -> Result<Played> {
    let playing = Box::pin(play_all(story, kill));
    timeout(PLAY_WITHIN, playing).await.context("it does not come to its end")?
}

/// A fork of a session that is held before its first step.
async fn forked(stage: &Stage, agent: &str) -> Result<String> {
    let parent = CreateSessionRequest {
        task: TASK.to_owned(),
        agent_definition: agent.to_owned(),
        paused: true,
        ..CreateSessionRequest::default()
    };
    let parent = stage.api.sessions().create_session(parent).await?.into_inner();
    let request = ForkSessionRequest {
        session_id: parent.session.context("no session")?.session_id,
        at_seq: 1,
        ..ForkSessionRequest::default()
    };
    let fork = stage.api.history().fork_session(request).await?.into_inner();
    Ok(fork.session.context("no fork")?.session_id)
}

async fn play_all(story: &Story, kill: Option<Kill>) -> Result<Played> {
    let stage = Stage::counting(story.script).await?;
    let session_id = if story.is_fork {
        forked(&stage, &story.agent).await?
    } else {
        stage.api.create(TASK, &story.agent).await?
    };
    let events = Vec::new();
    let mut play = Play { story, stage, session_id, events, told: None };
    let mut head_at_kill = None;
    if let Some(kill) = kill {
        play.drive(&Stop::After(kill.after)).await?;
        play.stage.server.kill().await?;
        let left = look(play.stage.server.data())?;
        head_at_kill = Some(left.head(&play.session_id)?);
        if kill.with_worker {
            play.stage.worker()?.kill().await?;
            play.stage.worker()?.start_again()?;
        }
        play.stage.api = play.stage.server.start().await?;
        play.check_nothing_is_lost().await?;
    }
    let mut driven = play.drive(&Stop::AtEnd).await;
    if driven.is_ok() {
        driven = play.nothing_runs_on().await;
    }
    let starts = play.stage.ledger()?.starts()?;
    let Play { session_id, events, .. } = play;
    let played = Played { session_id, events, starts, head_at_kill };
    driven.with_context(|| played.told())?;
    Ok(played)
}

impl Play<'_> {
    /// What was seen before the kill is there after it, unchanged.
    async fn check_nothing_is_lost(&mut self) -> Result<()> {
        let stored = self.stage.api.events(&self.session_id).await?;
        for (seen, stored) in self.events.iter().zip(&stored) {
            ensure!(seen == stored, "this was seen: {seen:?}\nand this is stored: {stored:?}");
        }
        ensure!(stored.len() >= self.events.len(), "the log became shorter");
        if let Some(act) = self.told.take() {
            // The server said yes, so it must be in the log, seen or not.
            self.events = stored;
            let next = (self.story.next)(&self.view(&self.stage.ledger()?.starts()?)?);
            ensure!(next.as_ref() != Some(&act), "{act:?} was acknowledged and is lost");
        }
        Ok(())
    }

    /// After the end of a session nothing of it runs: what ran was told to stop, or ended.
    async fn nothing_runs_on(&mut self) -> Result<()> {
        let (ledger, pid) = (self.stage.ledger()?, self.stage.worker()?.pid());
        until_within(STOP_WITHIN, "that nothing runs after the end", async || {
            Ok(ledger.running(pid)?.is_empty().then_some(()))
        })
        .await
    }

    fn view<'a>(&'a self, starts: &'a [Started]) -> Result<View<'a>> {
        let worker_pid = self.stage.worker.as_ref().context("no worker")?.pid();
        Ok(View { events: &self.events, starts, worker_pid })
    }

    fn is_over(&self) -> bool {
        let is_finished = self.events.iter().any(|it| it.kind == "session_finished");
        let is_late = self.events.last().is_some_and(|it| it.body["late"] == true);
        is_finished && (is_late || !self.story.ends_late)
    }

    /// Follows the log and does what the person does.
    async fn drive(&mut self, stop: &Stop) -> Result<()> {
        let last = self.events.last().map_or(0, |it| it.seq);
        let mut watch = self.stage.api.watch(&self.session_id, last).await?;
        let mut is_caught_up = false;
        loop {
            let news = tokio::select! {
                biased;
                news = watch.next() => Some(news?),
                () = sleep(POLL), if is_caught_up => None,
            };
            match news {
                Some(Watched::Event(event)) => {
                    let seq = event.seq;
                    self.told.take_if(|told| told.kind() == event.kind);
                    self.events.push(event);
                    if matches!(stop, Stop::After(after) if seq >= *after) {
                        return Ok(());
                    }
                    continue;
                }
                Some(Watched::CaughtUp) => is_caught_up = true,
                Some(Watched::End) if self.is_over() => return Ok(()),
                // A watch ends with its session; what comes late is there for the next one.
                Some(Watched::End) => {
                    sleep(POLL).await;
                    let last = self.events.last().map_or(0, |it| it.seq);
                    watch = self.stage.api.watch(&self.session_id, last).await?;
                }
                None => {}
            }
            if is_caught_up {
                self.act().await?;
            }
        }
    }

    async fn act(&mut self) -> Result<()> {
        if self.told.is_some() {
            return Ok(());
        }
        let starts = self.stage.ledger()?.starts()?;
        let Some(act) = (self.story.next)(&self.view(&starts)?) else { return Ok(()) };
        if let Act::KillWorker { call } = act {
            let worker = self.stage.worker()?;
            worker.kill().await?;
            worker.start_again()?;
            println!("the worker was killed in call {call}");
            return Ok(());
        }
        if let Err(error) = act.tell(&self.stage.api, &self.session_id).await {
            bail!("{act:?} was refused: {error:#}");
        }
        self.told = Some(act);
        Ok(())
    }
}
