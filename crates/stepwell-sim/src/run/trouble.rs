//! What happens to the world: trouble in the first phase, help in the second.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use stepwell_core::{Input, Seq, SessionId, SessionState};
use stepwell_ports::memory::FaultTime;
use stepwell_ports::{StoreError, ToolReport};
use stepwell_runtime::{Engine, EngineError, EngineOptions};

use super::{Nodes, agent_for, ms};
use crate::chance::{Chance, Mood};
use crate::check::{Asked, Checker, Coverage, Told, ToldBook};
use crate::dice::Dice;
use crate::gate::Life;
use crate::people::Person;
use crate::store::{Damage, StoreWeather};
use crate::world::{Node, World};

/// Sessions of one seed, at most.
const SESSIONS_MAX: u64 = 6;

/// How long a request of a person may take before they give up, in milliseconds.
const PATIENCE_MS: u64 = 60_000;

/// A kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    Crashes,
    StoreFaults,
    LateAppends,
    ClockJumps,
    WorkersComeAndGo,
    Damage,
}

/// Which kinds of trouble this seed has.
#[derive(Debug, Clone)]
struct Swarm {
    /// Nodes at the same time: one, or two that share the store by leases.
    nodes: u64,
    troubles: BTreeSet<Trouble>,
    sessions_in_memory_max: usize,
}

impl Swarm {
    fn draw(dice: &Dice) -> Self {
        let likely = [
            (Trouble::Crashes, 750),
            (Trouble::StoreFaults, 500),
            (Trouble::LateAppends, 200),
            (Trouble::ClockJumps, 300),
            (Trouble::WorkersComeAndGo, 500),
            (Trouble::Damage, 80),
        ];
        let drawn = likely.into_iter().filter(|(_, per_mille)| dice.chance(*per_mille));
        Self {
            troubles: drawn.map(|(trouble, _)| trouble).collect(),
            nodes: if dice.chance(350) { 2 } else { 1 },
            sessions_in_memory_max: if dice.chance(150) { 2 } else { 100 },
        }
    }

    fn has(&self, trouble: Trouble) -> bool {
        self.troubles.contains(&trouble)
    }
}

/// Whether the same was said twice at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    Yes,
    No,
}

/// How late a timer of a healthy world may be, in milliseconds. Less than the time between two signs
/// of life, with which everything due is found at the latest.
const TIMER_LATE_MS_MAX: u64 = 3_000;

/// See the module.
pub(super) struct Play {
    pub(super) world: World,
    pub(super) sessions: Vec<SessionId>,
    pub(super) told: ToldBook,
    pub(super) marks: Coverage,
    chance: Arc<Chance>,
    dice: Dice,
    swarm: Swarm,
    nodes: Nodes,
    person: Person,
    named: u64,
    created: Arc<std::sync::Mutex<Vec<SessionId>>>,
}

impl Play {
    pub(super) fn new(world: World, chance: Arc<Chance>) -> Self {
        let dice = world.dice.fork("play");
        let swarm = Swarm::draw(&dice);
        world.sky.weather().latency_ms_max = *dice.pick(&[0, 0, 3, 40]).unwrap_or(&0);
        world.fleet.set_way_ms_max(*dice.pick(&[1, 1, 5, 50]).unwrap_or(&1));
        world.fleet.set_remembers_denials(swarm.nodes > 1);
        if dice.chance(500) {
            // Places are few, so calls wait for them.
            world.fleet.kill_worker("w1");
            world.fleet.add_worker("w2", dice.between(1, 2) as usize, None);
        }
        let person = Person { dice: world.dice.fork("people"), spoken: 0 };
        let mut play = Self {
            sessions: Vec::new(),
            told: ToldBook::default(),
            marks: Coverage::default(),
            chance,
            dice,
            swarm,
            nodes: Nodes::new(),
            person,
            named: 0,
            created: Arc::default(),
            world,
        };
        play.fill_nodes();
        play.create();
        play
    }

    /// One turn of the first phase.
    pub(super) async fn turn(&mut self) {
        self.sessions.append(&mut self.created.lock().expect("no panic in there"));
        match self.dice.below(100) {
            0..=24 => self.speak().await,
            25..=29 => self.flicker().await,
            30..=36 => self.create(),
            37..=46 if self.swarm.has(Trouble::Crashes) => self.crash(),
            47..=52 => self.fill_nodes(),
            53..=58 if self.swarm.has(Trouble::StoreFaults) => self.change_weather(),
            59..=63 if self.swarm.has(Trouble::WorkersComeAndGo) => self.change_workers(),
            64..=66 if self.swarm.has(Trouble::ClockJumps) => self.jump(),
            67..=71 => self.report_late(),
            72 | 73 => self.change_mood(),
            74 if self.swarm.has(Trouble::Damage) => self.damage(),
            75..=77 if self.swarm.nodes == 2 => self.freeze(),
            78..=81 => self.thaw(),
            _ => {}
        }
        let pause = match self.dice.below(20) {
            0..=9 => self.dice.below(50),
            10..=15 => self.dice.below(2_000),
            16..=18 => self.dice.below(15_000),
            _ => self.dice.below(90_000),
        };
        tokio::time::sleep(ms(pause)).await;
    }

    fn living(&self) -> Vec<&Node> {
        self.nodes.values().filter(|it| it.gate.life() != Life::Dead && !it.has_ended()).collect()
    }

    /// What the nodes say of themselves and of a session.
    pub(super) fn tell_nodes(&self, session_id: SessionId) -> String {
        let mut story = format!("{:?}\n", self.swarm);
        for node in self.nodes.values() {
            let (phase, has_ended) = (node.gate.life(), node.has_ended());
            let (active, live) = (node.engine.active_sessions(), node.engine.live(session_id));
            let name = &node.name;
            let _ =
                writeln!(story, "{name}: {phase:?}, ended {has_ended}, {active} active, {live:?}");
        }
        story
    }

    /// Starts nodes until there are as many as this seed has.
    fn fill_nodes(&mut self) {
        self.nodes.retain(|_, node| node.gate.life() != Life::Dead && !node.has_ended());
        while (self.nodes.len() as u64) < self.swarm.nodes {
            self.named += 1;
            let name = format!("n{}", self.named);
            let options = EngineOptions {
                sole_owner: self.swarm.nodes == 1,
                active_sessions_max: self.swarm.sessions_in_memory_max,
                model_calls_max: 4,
                ..EngineOptions::for_node(name.clone())
            };
            let skew_ms =
                if self.swarm.nodes == 2 { self.dice.below(8_000) as i64 - 4_000 } else { 0 };
            let node = self.world.start_with(options, skew_ms);
            if self.dice.chance(300) {
                self.world.fleet.add_worker(&format!("inside-{name}"), 4, Some(&name));
            }
            self.nodes.insert(name, node);
            self.marks.mark("node started");
        }
    }

    fn crash(&mut self) {
        let living = self.living();
        let Some(node) = self.dice.pick(&living) else { return };
        let nth = self.dice.between(1, 6);
        let what = match self.dice.below(10) {
            0..=2 => {
                node.crash();
                "killed"
            }
            3..=5 => {
                node.store.crash_at_append(nth, FaultTime::BeforeEffect);
                "killed before an append"
            }
            6..=8 => {
                node.store.crash_at_append(nth, FaultTime::AfterEffect);
                "killed after an append"
            }
            _ => {
                node.begin_to_shut_down();
                "went down in order"
            }
        };
        self.marks.mark(what);
    }

    fn freeze(&mut self) {
        if let Some(node) = self.dice.pick(&self.living()) {
            node.gate.freeze();
        }
        self.marks.mark("node frozen");
    }

    fn thaw(&self) {
        self.nodes.values().for_each(|node| node.gate.thaw());
    }

    fn change_weather(&mut self) {
        let dice = &self.dice;
        let disk_full = StoreError::DiskFull { place: "/data".to_string() };
        let latency_ms_max = self.world.sky.weather().latency_ms_max;
        let clear = StoreWeather { latency_ms_max, ..StoreWeather::default() };
        let late = if self.swarm.has(Trouble::LateAppends) { dice.below(150) } else { 0 };
        let weather = match dice.below(6) {
            0 | 1 => clear,
            2 | 3 => StoreWeather {
                writes_fail: dice.below(200),
                reads_fail: dice.below(200),
                appends_late: late,
                ..clear
            },
            4 => StoreWeather { no_writes: Some(disk_full), ..clear },
            _ => StoreWeather {
                no_writes: Some(disk_full.clone()),
                no_reads: Some(disk_full),
                ..clear
            },
        };
        *self.world.sky.weather() = weather;
        self.marks.mark("store weather changed");
    }

    fn change_workers(&mut self) {
        let fleet = &self.world.fleet;
        let free = fleet.free_workers();
        match (self.dice.pick(&free), self.dice.below(4)) {
            (Some(name), 0) => fleet.kill_worker(name),
            (Some(name), 1) => fleet.set_connected(name, false),
            _ => {
                for name in &free {
                    fleet.set_connected(name, true);
                }
                if free.len() < 3 {
                    self.named += 1;
                    fleet.add_worker(
                        &format!("w-{}", self.named),
                        self.dice.between(1, 4) as usize,
                        None,
                    );
                }
            }
        }
        self.marks.mark("workers changed");
    }

    fn jump(&mut self) {
        let ms = self.dice.below(2 * 600_000) as i64 - 600_000;
        self.world.time.jump(ms);
        self.marks.mark("clock jumped");
    }

    fn change_mood(&mut self) {
        let mood = super::random_mood(&self.dice);
        *self.chance.mood() = mood;
    }

    fn damage(&mut self) {
        let Some(session_id) = self.dice.pick(&self.sessions) else { return };
        let seq = Seq(self.dice.between(1, 8));
        let damage = match self.dice.below(3) {
            0 => Damage::UnknownKind(seq),
            1 => Damage::Gap(seq),
            _ => Damage::TailLost(seq),
        };
        self.world.sky.damage(*session_id, damage);
        self.marks.mark("log damaged");
    }

    fn create(&mut self) {
        if self.sessions.len() as u64 >= SESSIONS_MAX {
            return;
        }
        let living = self.living();
        let Some(node) = self.dice.pick(&living) else { return };
        let (engine, told) = (node.engine.clone(), self.told.clone());
        let (agent, created) = (agent_for(&self.dice), self.created.clone());
        self.world.tasks.spawn(async move {
            let create = crate::world::create(&agent);
            if let Ok(new) = engine.create(create).await {
                told.note(new.session_id, Asked::Create, Told::Done);
                created.lock().expect("no panic in there").push(new.session_id);
            }
        });
    }

    async fn speak(&mut self) {
        let Some(session_id) = self.dice.pick(&self.sessions).copied() else { return };
        let state = self.world.state(session_id).await;
        let (input, asked) = self.person.speak(&state);
        // Now and then the same word twice at once, perhaps at two nodes.
        if self.dice.chance(150) {
            self.send(session_id, input.clone(), asked.clone(), Twin::Yes);
            self.send(session_id, input, asked, Twin::Yes);
            self.marks.mark("said twice at once");
        } else {
            self.send(session_id, input, asked, Twin::No);
        }
    }

    /// Somebody holds a session and lets it go, again and again.
    async fn flicker(&mut self) {
        let Some(session_id) = self.dice.pick(&self.sessions).copied() else { return };
        for _ in 0..self.dice.between(1, 4) {
            self.send(session_id, crate::people::pause(), None, Twin::No);
            tokio::time::sleep(ms(self.dice.below(6))).await;
            self.send(session_id, crate::people::resume(), None, Twin::No);
            tokio::time::sleep(ms(self.dice.below(6))).await;
        }
        self.marks.mark("held and released");
    }

    fn send(&self, session_id: SessionId, input: Input, asked: Option<Asked>, twin: Twin) {
        let living = self.living();
        let Some(node) = self.dice.pick(&living) else { return };
        let (engine, told): (Engine, ToldBook) = (node.engine.clone(), self.told.clone());
        self.world.tasks.spawn(async move {
            let submit = engine.submit(session_id, input);
            let answer = tokio::time::timeout(ms(PATIENCE_MS), submit).await;
            let (Some(asked), Ok(answer)) = (asked, answer) else { return };
            match answer {
                Ok(it) if it.changed => told.note(session_id, asked, Told::Done),
                Ok(_) => told.note(session_id, asked, Told::WasSo),
                // Of two that look the same in the log one may be taken and the other refused.
                Err(EngineError::Rejected(_)) if twin == Twin::Yes => {}
                Err(EngineError::Rejected(_)) => told.note(session_id, asked, Told::Refused),
                // Nobody knows.
                Err(_) => {}
            }
        });
    }

    /// Workers come back with results that nobody waited for.
    fn report_late(&mut self) {
        for late in self.world.fleet.take_late() {
            let ToolReport::Finished { outcome, output, duration_ms, .. } = late.report else {
                continue;
            };
            let (session_id, call_id, attempt) = late.attempt;
            let report = stepwell_core::event::ToolFinished {
                call_id,
                attempt,
                outcome,
                output: output.as_str().into(),
                full_output: None,
                late: false,
                duration_ms,
            };
            self.send(
                session_id,
                Input::ToolFinished { report, worker: late.worker },
                None,
                Twin::No,
            );
            self.marks.mark("worker reported late");
        }
    }

    /// Everything is well again.
    pub(super) async fn heal(&mut self) {
        let latency_ms_max = self.world.sky.weather().latency_ms_max;
        *self.world.sky.weather() = StoreWeather { latency_ms_max, ..StoreWeather::default() };
        *self.chance.mood() = Mood::HEALED;
        self.world.time.heal();
        self.thaw();
        for node in self.nodes.values() {
            node.store.plan_nothing();
        }
        for name in self.world.fleet.free_workers() {
            self.world.fleet.set_connected(&name, true);
        }
        self.world.fleet.add_worker("healthy", 64, None);
        tokio::time::sleep(ms(PATIENCE_MS)).await;
    }

    /// A turn of the second phase.
    pub(super) async fn help(&mut self, checker: &Checker) {
        self.fill_nodes();
        self.report_late();
        for row in self.world.rows().await {
            let state: Option<&SessionState> = checker.state(row.session_id);
            if let Some(input) = state.and_then(|state| self.person.help(state)) {
                self.send(row.session_id, input, None, Twin::No);
            }
        }
        tokio::time::sleep(ms(1_000)).await;
    }

    /// Sessions that are not at their end, those with a damaged log left out: they may end or be put
    /// away, or nobody has looked at them since.
    pub(super) async fn open_sessions(&self) -> Vec<SessionId> {
        let rows = self.world.rows().await;
        let open = rows
            .iter()
            .filter(|row| !row.status.is_final() && !self.world.sky.is_damaged(row.session_id));
        open.map(|row| row.session_id).collect()
    }

    /// A timer that should have fired. Only where nothing delays it: one node, which has the clock of
    /// the world and room for all sessions.
    pub(super) fn late_timer(&self, checker: &Checker) -> Option<(SessionId, u64)> {
        if self.swarm.nodes > 1 || self.swarm.sessions_in_memory_max < 100 {
            return None;
        }
        let now = self.world.time.now();
        self.sessions.iter().find_map(|session_id| {
            let due_at = checker.state(*session_id)?.next_due()?;
            let late_ms = now.since_ms(due_at);
            let is_late = late_ms > TIMER_LATE_MS_MAX && !self.world.sky.is_damaged(*session_id);
            is_late.then_some((*session_id, late_ms))
        })
    }

    /// Nothing is left in memory, and nobody does anything any more.
    pub(super) async fn rest(&mut self) -> Result<(), String> {
        self.nodes.retain(|_, node| node.gate.life() != Life::Dead && !node.has_ended());
        tokio::time::sleep(ms(300_000)).await;
        for node in self.living() {
            let active = node.engine.active_sessions();
            if active > 0 {
                return Err(format!("{active} sessions stay in the memory of {}", node.name));
            }
        }
        if self.world.model.in_flight() > 0 {
            return Err("a request to the model is still open".to_string());
        }
        let calls = |node: &&Node| node.store.calls().values().sum::<u64>();
        let before: u64 = self.living().iter().map(calls).sum();
        tokio::time::sleep(ms(100_000)).await;
        let more = self.living().iter().map(calls).sum::<u64>() - before;
        // A sign of life every ten seconds, each with one look at what is due.
        let allowed = 11 * 5 * self.living().len() as u64;
        if more > allowed {
            return Err(format!("{more} calls of the store while nothing happens"));
        }
        Ok(())
    }
}
