//! Two stores, the same random calls: every answer and every read must be equal.

use std::fmt::Debug;

use stepwell_core::summary::{ApprovalRow, ApprovalStatus};
use stepwell_core::{Fence, Seq, SessionId, Status, TimestampMs};

use super::fixtures::{
    Draw, Shared, append, append_all, approval, id, label, message, new_session, swept,
};
use crate::retention::{DeleteOnly, Deleted};
use crate::store::{Append, ApprovalFilter, Claim, NewSession, SessionFilter, ToolRecord};

/// Seeds that are always tried. A seed that once failed is added here.
pub const SEEDS: &[u64] = &[1, 2, 3, 4, 5, 6, 7, 8];

/// Environment variable that adds seeds: `7` tries one, `7..99` a range.
const SEEDS_VARIABLE: &str = "STEPWELL_SEEDS";

const OWNERS: &[&str] = &["node-a", "node-b", "node-c"];
const SESSIONS: u64 = 12;
const KEYS: &[&str] = &["order-1", "order-2", "order-3"];
const AGENTS: &[&str] = &["mover", "baker"];

/// [`SEEDS`], and what the environment asks for.
pub fn seeds() -> Vec<u64> {
    let mut seeds = SEEDS.to_vec();
    if let Ok(asked) = std::env::var(SEEDS_VARIABLE) {
        let (from, to) = asked.split_once("..").unwrap_or((&asked, ""));
        let from: u64 = from.parse().expect("STEPWELL_SEEDS is a number or a range");
        seeds.extend(from..to.parse().unwrap_or(from + 1));
    }
    seeds
}

/// Plays `steps` random calls of `seed` on both. Panics, with the seed, at the first difference.
pub async fn differential(seed: u64, steps: usize, left: Shared, right: Shared) {
    let mut pair = Pair {
        seed,
        step: 0,
        draw: Draw::new(seed),
        left,
        right,
        heads: [0; SESSIONS as usize],
        claims: Vec::new(),
    };
    for step in 0..steps {
        pair.step = step;
        pair.write().await;
        pair.read().await;
    }
    pair.compare_all().await;
}

struct Pair {
    seed: u64,
    step: usize,
    draw: Draw,
    left: Shared,
    right: Shared,
    /// Where the sessions are, as far as the appends of this test know.
    heads: [u64; SESSIONS as usize],
    /// Claims that were given out, stale ones too.
    claims: Vec<Claim>,
}

/// Asks both and compares.
macro_rules! both {
    ($pair:ident, |$store:ident| $call:expr) => {{
        let $store = &$pair.left;
        let left = $call.await;
        let $store = &$pair.right;
        let right = $call.await;
        $pair.same(stringify!($call), &left, &right);
        left
    }};
}

impl Pair {
    fn same(&self, call: &str, left: &impl Debug, right: &impl Debug) {
        let (left, right) = (format!("{left:?}"), format!("{right:?}"));
        assert!(
            left == right,
            "seed {}, step {}, {call}\n left: {left:.2000}\nright: {right:.2000}",
            self.seed,
            self.step,
        );
    }

    fn session(&mut self) -> u64 {
        self.draw.below(SESSIONS)
    }

    fn owner(&mut self) -> &'static str {
        self.draw.of(OWNERS)
    }

    fn time(&mut self) -> TimestampMs {
        TimestampMs(self.draw.below(200))
    }

    async fn write(&mut self) {
        match self.draw.below(100) {
            0..15 => self.create().await,
            15..65 => self.append().await,
            65..75 => self.claim().await,
            75..82 => self.claim_due().await,
            82..84 => self.delete().await,
            84..86 => {
                let session_id = id(self.session());
                let _ = both!(self, |it| it.quarantine(session_id, "damaged"));
            }
            86..92 => self.snapshot().await,
            92..95 => {
                let (name, now) = (self.draw.of(AGENTS), self.time());
                let definition = format!("v = {}", self.draw.below(2));
                let _ = both!(self, |it| it.put_agent(name, &definition, now));
            }
            95..97 => {
                let tool = ToolRecord {
                    name: format!("tool-{}", self.draw.below(3)),
                    spec: "{}".into(),
                    worker: self.owner().into(),
                    seen_at: self.time(),
                };
                let _ = both!(self, |it| it.put_tools(vec![tool.clone()]));
            }
            _ => {
                let (node, now) = (self.owner(), self.time());
                let _ = both!(self, |it| it.beat(node, now));
            }
        }
    }

    async fn create(&mut self) {
        let n = self.session();
        let first = self.an_append(n, 0);
        let key = self.draw.one_in(3).then(|| self.draw.of(KEYS).to_owned());
        let new = NewSession {
            beginning: None,
            client_key: key,
            request_digest: format!("request {}", self.draw.below(2)),
            owner: self.owner().into(),
            append: first,
            ..new_session(id(n))
        };
        let head = new.append.row.head_seq.0;
        let created = both!(self, |it| it.create(new.clone()));
        if let Ok(crate::store::Created::New(claim)) = created {
            self.heads[n as usize] = head;
            self.claims.push(claim);
        }
    }

    async fn append(&mut self) {
        let n = self.session();
        let mut head = self.heads[n as usize];
        if self.draw.one_in(8) {
            head = self.draw.below(head + 2);
        }
        let given: Vec<Claim> =
            self.claims.iter().filter(|it| it.session_id == id(n)).copied().collect();
        let latest = given.last().copied();
        let unknown = Claim { session_id: id(n), fence: Fence(1) };
        let claim = if self.draw.one_in(6) && !given.is_empty() {
            self.draw.of(&given)
        } else {
            latest.unwrap_or(unknown)
        };
        let write = self.an_append(n, head);
        if let Ok(head) = both!(self, |it| it.append(claim, write.clone())) {
            self.heads[n as usize] = head.0;
        }
    }

    fn an_append(&mut self, n: u64, expected: u64) -> Append {
        let session_id = id(n);
        let mut bodies = Vec::new();
        for _ in 0..=self.draw.below(3) {
            let length = if self.draw.one_in(10) { 20_000 } else { self.draw.below(60) };
            let text = format!("{} ", self.draw.below(9)).repeat(length as usize);
            bodies.push(message(&text).into());
        }
        if self.draw.one_in(40) {
            bodies.clear();
        }
        let mut write = append_all(session_id, expected, bodies);
        write.row.status = self.draw.of(&Status::ALL);
        write.row.updated_at = self.time();
        write.row.agent = self.draw.of(AGENTS).into();
        write.row.title = format!("box {}", self.draw.below(4));
        if self.draw.one_in(3) {
            write.row.labels = vec![label("team", OWNERS[self.draw.below(2) as usize])];
        }
        write.wake_at = match self.draw.below(4) {
            0 => None,
            1 => Some(TimestampMs(0)),
            _ => Some(self.time()),
        };
        for _ in 0..self.draw.below(2) {
            let asked = approval(session_id, 1 + self.draw.below(4), self.draw.below(50));
            let status = self.draw.of(&ApprovalStatus::ALL);
            write.approvals.push(ApprovalRow { status, ..asked });
        }
        write
    }

    async fn claim(&mut self) {
        let (session_id, owner) = (id(self.session()), self.owner());
        if let Ok(claim) = both!(self, |it| it.claim(session_id, owner)) {
            self.claims.push(claim);
        }
    }

    async fn claim_due(&mut self) {
        let (owner, now) = (self.owner(), self.time());
        let alive = [owner.to_owned(), self.owner().to_owned()];
        let limit = 1 + self.draw.below(4) as usize;
        let claimed = both!(self, |it| it.claim_due(owner, &alive, now, limit));
        self.claims.extend(claimed.unwrap_or_default());
    }

    /// Deletes a session if it is as drawn; half of the time what it left is removed at once.
    async fn delete(&mut self) {
        let n = self.session();
        let only = DeleteOnly {
            statuses: (0..self.draw.below(6)).map(|_| self.draw.of(&Status::ALL)).collect(),
            updated_before: self.draw.one_in(2).then(|| self.time()),
        };
        if let Ok(Deleted::Yes) = both!(self, |it| it.delete(id(n), &only)) {
            self.heads[n as usize] = 0;
        }
        if self.draw.one_in(2) {
            swept(&self.left).await;
            swept(&self.right).await;
        }
    }

    async fn snapshot(&mut self) {
        let n = self.session();
        let seq = Seq(self.draw.below(self.heads[n as usize] + 2));
        let version = 1 + self.draw.below(2) as u32;
        let state = vec![self.draw.below(9) as u8; 1 + self.draw.below(500) as usize];
        let _ = both!(self, |it| it.put_snapshot(id(n), seq, version, state.clone()));
        // Cached at the latest with the next write.
        let _ = both!(self, |it| it.beat("node-a", TimestampMs(1)));
    }

    async fn read(&mut self) {
        match self.draw.below(7) {
            0 => {
                let (n, after) = (self.session(), Seq(self.draw.below(9)));
                let limit = 1 + self.draw.below(9) as usize;
                let _ = both!(self, |it| it.read(id(n), after, limit));
            }
            1 => {
                let n = self.session();
                let _ = both!(self, |it| it.session(id(n)));
            }
            2 => self.list_sessions().await,
            3 => self.list_approvals().await,
            4 => {
                let (owner, now) = (self.owner(), self.time());
                let limit = 1 + self.draw.below(9) as usize;
                let _ = both!(self, |it| it.due(owner, now, limit));
            }
            5 => {
                let after = self.time();
                let _ = both!(self, |it| it.next_wake(after));
            }
            _ => {
                let (n, version) = (self.session(), 1 + self.draw.below(2) as u32);
                let _ = both!(self, |it| it.snapshot(id(n), version));
            }
        }
    }

    /// All pages of a random list, token by token.
    async fn list_sessions(&mut self) {
        let filter = SessionFilter {
            statuses: (0..self.draw.below(4)).map(|_| self.draw.of(&Status::ALL)).collect(),
            agent: self.draw.one_in(3).then(|| self.draw.of(AGENTS).to_owned()),
            labels: if self.draw.one_in(4) {
                vec![("team".to_owned(), OWNERS[0].to_owned())]
            } else {
                Vec::new()
            },
            id_prefix: self
                .draw
                .one_in(5)
                .then(|| id(self.session()).to_string()[..self.draw.below(3) as usize].to_owned()),
            text: self.draw.one_in(4).then(|| format!("BOX {}", self.draw.below(4))),
            parent: self.draw.one_in(5).then(|| id(self.session())),
            updated_before: self.draw.one_in(4).then(|| self.time()),
        };
        let limit = 1 + self.draw.below(6) as usize;
        let mut page: Option<String> = None;
        loop {
            let next = both!(self, |it| it.sessions(&filter, page.as_deref(), limit));
            page = next.ok().and_then(|it| it.next_page);
            if page.is_none() {
                break;
            }
        }
    }

    async fn list_approvals(&mut self) {
        let statuses = &ApprovalStatus::ALL;
        let filter = ApprovalFilter {
            statuses: (0..self.draw.below(3)).map(|_| self.draw.of(statuses)).collect(),
            session_id: self.draw.one_in(3).then(|| id(self.session())),
        };
        let limit = 1 + self.draw.below(6) as usize;
        let mut page: Option<String> = None;
        loop {
            let next = both!(self, |it| it.approvals(&filter, page.as_deref(), limit));
            page = next.ok().and_then(|it| it.next_page);
            if page.is_none() {
                break;
            }
        }
    }

    async fn compare_all(&mut self) {
        swept(&self.left).await;
        swept(&self.right).await;
        for key in KEYS {
            let _ = both!(self, |it| it.keyed(key));
        }
        for n in 0..SESSIONS {
            let session_id: SessionId = id(n);
            let _ = both!(self, |it| it.session(session_id));
            let events = both!(self, |it| it.read(session_id, Seq(0), 1_000));
            for stored in events.expect("events can be read").events {
                let left = super::fixtures::whole(&self.left, &stored).await;
                let right = super::fixtures::whole(&self.right, &stored).await;
                self.same("payloads", &left, &right);
            }
        }
        for name in AGENTS {
            let _ = both!(self, |it| it.agent(name, None));
            let _ = both!(self, |it| it.agent(name, Some(1)));
        }
        let _ = both!(self, |it| it.agents());
        let _ = both!(self, |it| it.tools());
        let _ = both!(self, |it| it.nodes());
        // The stores are still alive and agree on one more append.
        let last = append(id(0), self.heads[0], "last");
        if let Some(claim) = self.claims.iter().rev().find(|it| it.session_id == id(0)) {
            let claim = *claim;
            let _ = both!(self, |it| it.append(claim, last.clone()));
        }
    }
}
