//! One seed from its beginning to its end.
//!
//! In the first phase everything may go wrong, and no promise may break. In the second phase
//! everything is healed, people are helpful, and every session must come to its end in bounded time.

mod trouble;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use stepwell_core::SessionId;
use stepwell_core::event::Event;
use tokio::runtime::Builder;

use crate::agents::random_agent;
use crate::chance::{Chance, Mood};
use crate::check::{Checker, Coverage, Violation};
use crate::world::World;
use trouble::Play;

/// Turns of the first phase.
const TURNS: u64 = 90;

/// How long sessions may take to end once everything is healed, in simulated milliseconds.
const HEALED_MS_MAX: u64 = 30 * 60 * 1_000;

/// What a seed led to.
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What was seen.
    pub coverage: Coverage,
    /// Sessions that were created.
    pub sessions: usize,
    /// Events that were written.
    pub events: u64,
    /// A number that differs when anything in any log differs.
    pub fingerprint: u64,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A promise is broken.
    Safety,
    /// A session does not come to its end.
    Liveness,
}

/// A seed that fails, with all that is needed to understand it.
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Which of the two.
    pub kind: FailureKind,
    /// What is wrong.
    pub what: String,
    /// The log of the session, and what its row says.
    pub story: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, kind, what, story } = self;
        write!(
            f,
            "seed {seed}: {kind:?}: {what}\n{story}\nrun it again with\n  STEPWELL_SEED={seed} cargo \
             test -p stepwell-sim --test it one_seed -- --nocapture\nand once it is mended keep it in \
             crates/stepwell-sim/seeds.txt"
        )
    }
}

/// Plays one seed.
///
/// # Errors
/// The first failure.
///
/// # Panics
/// When the world itself is broken.
pub fn play(seed: u64) -> Result<Report, Box<Failure>> {
    let runtime =
        Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(Box::pin(play_in_runtime(seed)))
}

async fn play_in_runtime(seed: u64) -> Result<Report, Box<Failure>> {
    let world = World::new(seed);
    let dice = world.dice.fork("swarm");
    let chance = Chance::new(world.dice.fork("chance"), random_mood(&dice));
    let reply = chance.clone();
    world.model.play(move |asked| reply.reply(asked));
    let run = chance.clone();
    world.fleet.play(move |request, _| run.run(request));
    let mut play = Play::new(world, chance);
    let mut checker = Checker::default();
    if let Err((kind, violation)) = both_phases(&mut play, &mut checker).await {
        let story = tell(&play, violation.session_id).await;
        return Err(Box::new(Failure { seed, kind, what: violation.to_string(), story }));
    }
    let mut coverage = checker.coverage.clone();
    coverage.add(&play.marks);
    let events = play.world.rows().await.iter().map(|row| row.head_seq.0).sum();
    let sessions = play.sessions.len();
    Ok(Report { seed, coverage, sessions, events, fingerprint: checker.fingerprint() })
}

async fn both_phases(
    play: &mut Play,
    checker: &mut Checker,
) -> Result<(), (FailureKind, Violation)> {
    let safety = |violation| (FailureKind::Safety, violation);
    for _ in 0..TURNS {
        play.turn().await;
        checker.look(&play.world).await.map_err(safety)?;
    }
    checker.look_back(&play.world, &play.told).await.map_err(safety)?;
    crate::check::brought_in(&play.world).await.map_err(safety)?;
    play.heal().await;
    let end = play.world.time.elapsed_ms() + HEALED_MS_MAX;
    loop {
        play.help(checker).await;
        checker.look(&play.world).await.map_err(safety)?;
        if let Some((session_id, late_ms)) = play.late_timer(checker) {
            let what = format!("a timer was due {late_ms} ms ago");
            return Err((FailureKind::Liveness, crate::check::broken(session_id, what)));
        }
        let open: Vec<SessionId> = play.open_sessions().await;
        let Some(stuck) = open.first() else { break };
        if play.world.time.elapsed_ms() > end {
            let what = format!("{} sessions are stuck", open.len());
            return Err((FailureKind::Liveness, crate::check::broken(*stuck, what)));
        }
    }
    checker.look_back(&play.world, &play.told).await.map_err(safety)?;
    crate::check::brought_in(&play.world).await.map_err(safety)?;
    play.rest().await.map_err(|what| (FailureKind::Liveness, Violation { session_id: None, what }))
}

/// Each seed has its own kinds of trouble: one that has all of them at once hides most.
fn random_mood(dice: &crate::Dice) -> Mood {
    let often = |per_mille: u64| if dice.chance(400) { dice.below(per_mille) } else { 0 };
    Mood {
        model_fails: often(400),
        model_calls: dice.between(600, 990),
        tools_fail: often(300),
        slow_ms_max: *dice.pick(&[10, 500, 5_000, 30_000]).unwrap_or(&500),
    }
}

/// Everything that can be said about a session.
async fn tell(play: &Play, session_id: Option<SessionId>) -> String {
    let Some(session_id) = session_id else { return String::new() };
    let world = &play.world;
    let info = world.info(session_id).await;
    let log: Vec<Event> = world.log(session_id).await;
    let mut story = format!(
        "{:?}: {}\nowner {} fence {} wake_at {:?}\n",
        info.row.status, info.row.explain, info.owner, info.fence, info.wake_at
    );
    story.push_str(&play.tell_nodes(session_id));
    for event in log {
        let body: String = format!("{:?}", event.body).chars().take(300).collect();
        let _ = writeln!(story, "{} {} {} {body}", event.seq, event.time, event.actor);
    }
    let starts = world.fleet.starts().into_iter().filter(|it| it.attempt.0 == session_id);
    for start in starts {
        let _ = writeln!(story, "{start:?}");
    }
    story
}

/// Seeds with what they led to, added up.
#[derive(Default)]
pub struct Sum {
    /// What was seen.
    pub coverage: Coverage,
    /// Seeds.
    pub seeds: usize,
    /// Sessions.
    pub sessions: usize,
    /// Events.
    pub events: u64,
}

impl Sum {
    /// Adds a seed.
    pub fn add(&mut self, report: &Report) {
        self.coverage.add(&report.coverage);
        self.seeds += 1;
        self.sessions += report.sessions;
        self.events += report.events;
    }
}

/// How long a pause of the world is.
fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Nodes by name.
type Nodes = BTreeMap<String, crate::Node>;

/// An agent for a new session.
fn agent_for(dice: &crate::Dice) -> stepwell_core::Agent {
    random_agent(dice)
}
