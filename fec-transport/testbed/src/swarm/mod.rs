//! The swarm: from one seed a whole overlay with its limits, traffic and faults; first with the faults (safety), then
//! healed (liveness).
//!
//! What must hold while the faults last: nothing that is delivered is wrong, tables and memory are within their bounds,
//! and whoever has an open session has a timer armed. After them everything is delivered.
//!
//! `cargo run --release -p fec-testbed -- swarm --from SEED --seeds 1` replays a seed.

mod courier;
mod draw;

use std::fmt;
use std::time::Duration;

use courier::{Courier, Parcel};
use draw::{Draw, FaultKind, Plan};
use fec_transport::config::Config;
use fec_transport::overlay::{MemberId, Overlay};
use fec_transport::sim::World;

/// How often it is looked whether all is well.
const LOOK: Duration = Duration::from_millis(20);
/// How long after the healing everything must have been delivered: the slowest link carries the largest parcels in a
/// quarter of it.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a seed has shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// How long it took in virtual time.
    pub virtual_time: Duration,
    /// How many streams were delivered, and their bytes.
    pub parcels: usize,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Sessions that ended with a parcel on the way.
    pub sessions_lost: u32,
    /// The hash of everything that happened on the network.
    pub trace_hash: String,
}

/// A seed that breaks a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// When, in virtual time.
    pub at: Duration,
    /// What was wrong.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} at {:?}: {}\n  {}", self.seed, self.at, self.what, replay_command(self.seed))
    }
}

impl std::error::Error for Failure {}

/// The command that replays a seed.
pub fn replay_command(seed: u64) -> String {
    format!("cargo run --release -p fec-testbed -- swarm --from {seed} --seeds 1")
}

/// Runs one seed: safety under faults, then liveness.
///
/// # Errors
/// The first promise that does not hold. A panic in the core is a failure, too; it is left to the caller.
pub fn run(seed: u64) -> Result<Report, Failure> {
    let mut draw = Draw::new(seed);
    let plan = Plan::draw(&mut draw);
    let by_blocks = plan.by_blocks;
    let make = move |_: &Overlay, _| Courier::new(by_blocks);
    let mut swarm = Swarm {
        world: World::new(&plan.scene, plan.config.clone(), seed, make),
        seed,
        clients: Vec::new(),
        sent: (0, 0),
    };
    swarm.schedule(&plan);
    swarm.play(&plan)?;
    swarm.settle()?;
    let lost = swarm.clients.iter().map(|client| swarm.world.application(*client).sessions_lost).sum();
    Ok(Report {
        virtual_time: swarm.world.now().since_epoch(),
        parcels: swarm.sent.0,
        bytes: swarm.sent.1,
        sessions_lost: lost,
        trace_hash: swarm.world.trace_hash(),
    })
}

struct Swarm {
    world: World<Courier>,
    seed: u64,
    clients: Vec<MemberId>,
    /// Parcels and their bytes.
    sent: (usize, u64),
}

impl Swarm {
    fn schedule(&mut self, plan: &Plan) {
        for fault in &plan.faults {
            let ends = |index: usize| {
                let (a, b, spec) = &plan.links[index];
                (self.world.member(a), self.world.member(b), spec)
            };
            match &fault.kind {
                FaultKind::Cut(index) => {
                    let (a, b, _) = ends(*index);
                    self.world.cut(fault.from, a, b);
                    self.world.restore(fault.to, a, b);
                }
                FaultKind::Crash(name) => {
                    let member = self.world.member(name);
                    self.world.crash(fault.from, member);
                    self.world.restart(fault.to, member);
                }
                FaultKind::Reshape(index, other) => {
                    let (a, b, spec) = ends(*index);
                    for (at, spec) in [(fault.from, &**other), (fault.to, spec)] {
                        self.world.reshape(at, a, b, spec.a_to_b.clone());
                        self.world.reshape(at, b, a, spec.b_to_a.clone());
                    }
                }
            }
        }
        // Faults of one place overlap: in the end all is as it was.
        for (a, b, spec) in &plan.links {
            let (a, b) = (self.world.member(a), self.world.member(b));
            self.world.restore(plan.healed_at, a, b);
            self.world.reshape(plan.healed_at, a, b, spec.a_to_b.clone());
            self.world.reshape(plan.healed_at, b, a, spec.b_to_a.clone());
        }
        for name in plan.relays.iter().map(String::as_str).chain(["server"]) {
            self.world.restart(plan.healed_at, self.world.member(name));
        }
    }

    fn play(&mut self, plan: &Plan) -> Result<(), Failure> {
        let to = self.world.member("server");
        for (at, client, length, class) in &plan.parcels {
            self.run_until(*at)?;
            let client = self.world.member(client);
            self.clients.push(client);
            self.world.command(client, Parcel { to, length: *length, class: *class });
            self.sent = (self.sent.0 + 1, self.sent.1 + length);
        }
        self.clients.sort_unstable();
        self.clients.dedup();
        self.run_until(plan.healed_at)
    }

    fn run_until(&mut self, at: Duration) -> Result<(), Failure> {
        while self.world.now().since_epoch() < at {
            let left = at - self.world.now().since_epoch();
            self.world.run_for(LOOK.min(left));
            self.check()?;
        }
        Ok(())
    }

    /// Everything is healed: all parcels arrive.
    fn settle(&mut self) -> Result<(), Failure> {
        let deadline = self.world.now().since_epoch() + PATIENCE;
        while !self.clients.iter().all(|client| self.world.application(*client).is_done()) {
            if self.world.now().since_epoch() >= deadline {
                let waiting = self.clients.iter().map(|client| self.world.application(*client).waiting());
                let waiting = waiting.collect::<Vec<_>>().join("; ");
                return Err(
                    self.failure(format!("not delivered {PATIENCE:?} after the last fault: {waiting}"))
                );
            }
            self.world.run_for(LOOK);
            self.check()?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), Failure> {
        for index in 0..self.world.overlay().members().len() {
            let member = MemberId(index as u16);
            if self.world.is_up(member) {
                self.check_member(member)?;
            }
        }
        Ok(())
    }

    fn check_member(&mut self, member: MemberId) -> Result<(), Failure> {
        let has_timer = self.world.node_timeout(member).is_some();
        let (node, courier) = (self.world.node(member), self.world.application(member));
        let name = self.world.overlay().name(member);
        let limits = &node.config().limits;
        let wrong = courier.wrong_bytes;
        if wrong > 0 {
            return Err(self.failure(format!("{wrong} wrong bytes were delivered at {name}")));
        }
        let sessions = node.sessions().count();
        if sessions > limits.sessions {
            return Err(self.failure(format!("{name} has {sessions} sessions")));
        }
        let (circuits, labels) = node.table_sizes();
        if circuits > limits.circuits || labels > 2 * limits.circuits + 2 * limits.neighbours {
            return Err(self.failure(format!("{name} has {circuits} circuits and {labels} labels")));
        }
        for status in node.sessions().filter_map(|session| node.session_status(session)) {
            let bound = memory_bound(node.config());
            if status.memory > bound {
                let memory = status.memory;
                return Err(self.failure(format!(
                    "a session of {name} holds {memory} bytes, at most {bound} are allowed"
                )));
            }
        }
        // A session always waits for something: a packet to send, a probe, its silence.
        if sessions > 0 && !has_timer {
            return Err(self.failure(format!("{name} has an open session and no timer armed")));
        }
        Ok(())
    }

    fn failure(&self, what: String) -> Failure {
        Failure { seed: self.seed, at: self.world.now().since_epoch(), what }
    }
}

/// What the data of one session may take: what was received, what was written, and the blocks on the way.
fn memory_bound(config: &Config) -> usize {
    let limits = &config.limits;
    let block = config.coding.symbol_size * *config.coding.bulk_symbols.end();
    limits.receive_memory + limits.streams as usize * limits.send_buffer + limits.open_blocks * block
}
