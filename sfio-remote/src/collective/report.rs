//! What a collective call took.

use std::time::Duration;

use fec_transport::Time;
use serde::{Deserialize, Serialize};

/// The stages of a collective call. `[tpc §3]`
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// st1: the caller's list to run tables.
    Runs,
    /// st2: all ranks tell one another which call they are in, and where their bytes are; it ends when the last one has
    /// come.
    Announcement,
    /// st3: file domains.
    Domains,
    /// st4: what of the own list belongs to which domain.
    Split,
    /// st5: run tables to the aggregators.
    Tables,
    /// st6: data, round by round, between ranks and aggregators.
    Exchange,
    /// st7: list requests to the I/O nodes, as far as nothing else was to be done meanwhile; then waiting until the
    /// last rank has ended.
    File,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Stage; 7] = [
        Stage::Runs,
        Stage::Announcement,
        Stage::Domains,
        Stage::Split,
        Stage::Tables,
        Stage::Exchange,
        Stage::File,
    ];

    /// What happens in it, in a few words.
    pub fn words(self) -> &'static str {
        [
            "lists to run tables",
            "who is in which call",
            "file domains",
            "lists split by domain",
            "run tables to aggregators",
            "data between ranks",
            "writing to the file",
        ][self as usize]
    }

    /// The paper's name.
    pub fn name(self) -> &'static str {
        ["st1", "st2", "st3", "st4", "st5", "st6", "st7"][self as usize]
    }
}

/// What a collective call took: the times of this rank, the counts of all ranks together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Whether data went by way of aggregators; if not, each rank read or wrote its own.
    pub is_two_phase: bool,
    /// How long this rank was in each stage, in the order of [`Stage::ALL`]. At each moment it is in one of them: in
    /// st6 as long as data is awaited, so that of a write that the exchange hides nothing shows in st7.
    pub stages: [Duration; 7],
    /// From the call to its end.
    pub elapsed: Duration,
    /// Rounds of the exchange at the aggregator that had most.
    pub rounds: u64,
    /// Pairs of a rank and another one, its aggregator, between which data travelled.
    pub pairs: u64,
    /// Bytes whose owner was not their aggregator: what stage 6 moves.
    pub exchanged_bytes: u64,
    /// Bytes of all messages between ranks up to the end of stage 6, with their headers.
    pub wire_bytes: u64,
    /// List requests to I/O nodes: one for each round and each subfile that it touches. A large one travels as several
    /// transfers.
    pub requests: u64,
    /// Sessions with I/O nodes that data travelled over: pairs of a rank and an I/O node.
    pub sessions: u64,
}

/// What one rank has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) rounds: u64,
    pub(super) pairs: u64,
    pub(super) exchanged: u64,
    pub(super) wire: u64,
    pub(super) requests: u64,
    pub(super) sessions: u64,
}

/// Which stage a rank is in, and how long it was in each.
#[derive(Debug)]
pub(super) struct Stopwatch {
    began: Time,
    last: Time,
    stage: Stage,
    times: [Duration; 7],
}

impl Stopwatch {
    pub(super) fn new(now: Time) -> Stopwatch {
        Stopwatch { began: now, last: now, stage: Stage::Runs, times: [Duration::ZERO; 7] }
    }

    /// Time has passed, in the stage that was entered last.
    pub(super) fn tick(&mut self, now: Time) {
        self.times[self.stage as usize] += now.since(self.last);
        self.last = now;
    }

    /// What happens from now on belongs to this stage.
    pub(super) fn enter(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// The report of a call that ends now, of which the ranks have counted so much.
    pub(super) fn report(&self, is_two_phase: bool, tallies: impl Iterator<Item = Tally>) -> Report {
        let elapsed = self.last.since(self.began);
        let report = Report { is_two_phase, stages: self.times, elapsed, ..Report::default() };
        tallies.fold(report, |sum, tally| Report {
            rounds: sum.rounds.max(tally.rounds),
            pairs: sum.pairs + tally.pairs,
            exchanged_bytes: sum.exchanged_bytes + tally.exchanged,
            wire_bytes: sum.wire_bytes + tally.wire,
            requests: sum.requests + tally.requests,
            sessions: sum.sessions + tally.sessions,
            ..sum
        })
    }
}
