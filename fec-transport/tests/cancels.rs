//! Messages that are given up leave no memory, wherever they are when it happens.
//!
//! By default a few hundred rounds; `CANCEL_SECONDS=600 cargo test --release --workspace --test cancels -- --nocapture`
//! goes on for ten minutes.

#[path = "messages/party.rs"]
mod party;

use std::time::{Duration, Instant};

use fec_transport::message::{OperationId, Posted, Room};
use fec_transport::sim::LinkSpec;
use netsim::random_stream;
use party::{Party, content, two_servers};
use peak_alloc::PeakAlloc;
use rand_core::RngCore;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const MS: Duration = Duration::from_millis(1);
const NAMES: [&str; 2] = ["a", "b"];
/// Rounds where nobody asks for a time.
const ROUNDS: u64 = 300;
/// After so many, tables and buffers are as large as they become.
const WARM: u64 = 100;
/// What may be left in the end for all rounds together.
const LEFT: usize = 256 << 10;

/// What two members post at each other in one round and give up in the middle of it.
struct Cancels {
    party: Party,
    random: Box<dyn RngCore>,
    cancelled: u64,
}

impl Cancels {
    fn new() -> Cancels {
        let link = LinkSpec::new(50, 5 * MS).with_loss(0.01);
        let party = Party::new(&two_servers(2, &link), 7);
        Cancels { party, random: Box::new(random_stream(7, &["cancels"])), cancelled: 0 }
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random.next_u32() % bound
    }

    /// Posts something; gives who has posted it, if it is pending.
    fn post(&mut self) -> Option<(&'static str, OperationId)> {
        let own = self.below(2) as usize;
        let (from, to) = (NAMES[own], NAMES[1 - own]);
        let length = [8, 400, 16_000, 60_000, 300_000][self.below(5) as usize];
        let tag = self.below(3);
        let posted = match self.below(5) {
            0 | 1 => self.party.send(from, to, tag, content(length, 1)),
            2 | 3 => self.party.receive(from, to, tag, Room::of([length, 100])),
            _ => self.party.send_unexpected(from, to, tag, content(length.min(16_000), 1)),
        };
        match posted {
            Posted::Pending(operation) => Some((from, operation)),
            Posted::Done(_) => None,
        }
    }

    fn round(&mut self) {
        let count = 20 + self.below(80);
        let pending: Vec<_> = (0..count).filter_map(|_| self.post()).collect();
        let pause = self.below(60);
        self.party.run_for(pause * MS);
        for (name, operation) in pending {
            // Its completion has not been taken, whether it has one or not.
            self.party.with(name, |messenger| messenger.cancel(operation)).expect("it is known");
            self.cancelled += 1;
        }
        self.party.run_for(200 * MS);
        self.take_the_rest();
    }

    /// Takes messages whose receives were cancelled, and all completions; then nothing is left.
    fn take_the_rest(&mut self) {
        for (own, other) in [("a", "b"), ("b", "a")] {
            for tag in 0..3 {
                let receive = loop {
                    if let Posted::Pending(receive) = self.party.receive(own, other, tag, Room::of([16_000]))
                    {
                        break receive;
                    }
                };
                self.party.with(own, |messenger| messenger.cancel(receive)).expect("it is known");
            }
            self.party.completions(own);
            let left = self.party.with(own, |messenger| {
                messenger.test_unexpected(usize::MAX);
                (messenger.operation_count(), messenger.waiting_count())
            });
            assert_eq!(left, (0, 0), "{own}");
        }
        self.party.world.take_outcomes();
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whoever asks for a time gets it")]
fn what_is_cancelled_leaves_no_memory() {
    let asked = std::env::var("CANCEL_SECONDS").ok();
    let asked = asked.map(|seconds| Duration::from_secs(seconds.parse().expect("a number")));
    let (began, mut rounds, mut warm) = (Instant::now(), 0, 0);
    let mut cancels = Cancels::new();
    while asked.map_or(rounds < ROUNDS, |time| began.elapsed() < time) {
        cancels.round();
        rounds += 1;
        if rounds == WARM {
            warm = ALLOCATED.current_usage();
        }
    }
    let left = ALLOCATED.current_usage().saturating_sub(warm);
    println!("{rounds} rounds, {} operations cancelled, {left} bytes left", cancels.cancelled);
    assert!(rounds > WARM && left <= LEFT, "{left} bytes are left after {rounds} rounds");
}
