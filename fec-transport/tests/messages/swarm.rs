//! One seed draws links, faults, and what two members send, receive and give up.
//!
//! What must hold: a message that arrives is whole, arrives once, and in the order of its sender and tag; one that does
//! not arrive was given up, or its loss was told; a long send that is complete has arrived; and in the end nothing is
//! pending.

use std::collections::BTreeMap;
use std::time::Duration;

use fec_transport::message::{
    Caller, Completion, Messenger, OperationError, OperationId, PostError, Posted, Room, Tag, Unexpected,
};
use fec_transport::sim::LinkSpec;
use netsim::random_stream;
use rand_core::RngCore;

use crate::party::{Party, SECOND, content, two_servers};

const NAMES: [&str; 2] = ["a", "b"];
/// Of each message: who has sent it, in which life, under which tag, and the how manieth it is there.
const HEAD: usize = 16;
const LONGEST: usize = 200_000;
/// Every operation has so much time, which is longer than any outage here and shorter than the last wait.
const TIME: Duration = Duration::from_secs(40);

/// Messages of one sender, life and tag, in order, unexpected ones under a lane of their own.
type Lane = (usize, u32, bool, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Pending,
    /// Complete at the sender, and long enough that the receiver has it.
    Arrived,
    /// Complete at the sender, on its way.
    Left,
    Failed,
}

#[derive(Default)]
struct Book {
    /// What became of each message of a lane at its sender.
    sent: BTreeMap<Lane, Vec<Fate>>,
    /// The numbers that have arrived, in the order in which they were asked for: by the receiver's life and receive.
    arrived: BTreeMap<Lane, BTreeMap<(u32, u64), u32>>,
    /// Stands for the receive of an unexpected message.
    taken: u64,
    /// Which message an operation sends.
    sends: BTreeMap<(usize, u32, OperationId), (Lane, usize, bool)>,
    receives: BTreeMap<(usize, u32, OperationId), ()>,
    counts: [u32; 4],
}

struct Swarm {
    party: Party,
    random: Box<dyn RngCore>,
    book: Book,
    lives: [u32; 2],
    is_up: [bool; 2],
    /// Whether a member may still send to a process that has crashed: until something passes between it and the next
    /// one. Messages to a process that is gone are lost without a word once another one has come in its place.
    is_stale: [bool; 2],
    seed: u64,
}

impl Swarm {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn life(&self, who: usize) -> (usize, u32) {
        (who, self.lives[who])
    }

    fn act(&mut self) {
        let who = self.below(2) as usize;
        if !self.is_up[who] {
            return;
        }
        match self.below(10) {
            0..4 => self.send(who, false),
            4 => self.send(who, true),
            5..9 => self.receive(who),
            _ => self.cancel(who),
        }
    }

    fn send(&mut self, who: usize, unexpected: bool) {
        let tag = self.below(3) as u32;
        let longest = if unexpected { 10_000 } else { LONGEST };
        let magnitude = self.below(18);
        let length = HEAD + (self.below(2 << magnitude) as usize).min(longest - HEAD);
        let lane = (who, self.lives[who], unexpected, tag);
        let fates = self.book.sent.entry(lane).or_default();
        let number = fates.len();
        let head = [who as u32, self.lives[who], tag, number as u32].map(u32::to_be_bytes).concat();
        let message = [head, content(length - HEAD, number as u8)].concat();
        let pieces = vec![message[..length / 2].to_vec().into(), message[length / 2..].to_vec().into()];
        let posted = self.post(who, |messenger, now, to, caller| match unexpected {
            false => messenger.post_send(now, to, Tag(tag), pieces, caller),
            true => messenger.post_send_unexpected(now, to, Tag(tag), pieces, caller),
        });
        let Some(posted) = posted else { return };
        self.book.sent.entry(lane).or_default().push(Fate::Pending);
        let life = self.life(who);
        self.book.sends.insert((life.0, life.1, posted.operation()), (lane, number, length > 16 << 10));
        if let Posted::Done(completion) = posted {
            self.completed(who, completion);
        }
    }

    fn receive(&mut self, who: usize) {
        let tag = self.below(3) as u32;
        let first = self.below(LONGEST as u64) as usize;
        let posted = self.post(who, |messenger, now, from, caller| {
            messenger.post_receive(now, from, Tag(tag), Room::of([first, LONGEST - first]), caller)
        });
        let Some(posted) = posted else { return };
        let life = self.life(who);
        self.book.receives.insert((life.0, life.1, posted.operation()), ());
        if let Posted::Done(completion) = posted {
            self.completed(who, completion);
        }
    }

    /// Posts with the other one; nothing if it was told of a loss.
    fn post(
        &mut self,
        who: usize,
        act: impl FnOnce(
            &mut Messenger,
            fec_transport::Time,
            fec_transport::message::AddressId,
            Caller,
        ) -> Result<Posted, PostError>,
    ) -> Option<Posted> {
        let (now, name) = (self.party.now(), NAMES[who]);
        let (peer, caller) = (self.party.address(name, NAMES[1 - who]), self.party.caller(name).within(TIME));
        match self.party.with(name, |messenger| act(messenger, now, peer, caller)) {
            Ok(posted) => Some(posted),
            Err(PostError::Lost { .. }) => {
                self.told(who);
                None
            }
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
    }

    /// A member was told that its peer was lost: what had left may not have arrived.
    fn told(&mut self, who: usize) {
        let life = self.life(who);
        for (_, fates) in self.book.sent.iter_mut().filter(|(lane, _)| (lane.0, lane.1) == life) {
            fates.iter_mut().filter(|fate| **fate == Fate::Left).for_each(|fate| *fate = Fate::Failed);
        }
    }

    fn cancel(&mut self, who: usize) {
        let life = self.life(who);
        let keys = (life.0, life.1, OperationId(0))..=(life.0, life.1, OperationId(u64::MAX));
        let sends = self.book.sends.range(keys.clone()).map(|(key, _)| key.2);
        let all: Vec<OperationId> =
            sends.chain(self.book.receives.range(keys).map(|(key, ())| key.2)).collect();
        if all.is_empty() {
            return;
        }
        let chosen = all[self.below(all.len() as u64) as usize];
        self.party.with(NAMES[who], |messenger| messenger.cancel(chosen)).expect("it is not taken yet");
    }

    fn completed(&mut self, who: usize, completion: Completion) {
        let life = self.life(who);
        let key = (life.0, life.1, completion.operation);
        if let Some((lane, number, is_long)) = self.book.sends.remove(&key) {
            let fate = match (&completion.result, is_long) {
                (Ok(_), true) => Fate::Arrived,
                (Ok(_), false) if self.is_stale[who] => Fate::Failed,
                (Ok(_), false) => Fate::Left,
                (Err(_), _) => Fate::Failed,
            };
            self.book.counts[usize::from(fate == Fate::Failed)] += 1;
            self.book.sent.get_mut(&lane).expect("it was sent")[number] = fate;
        } else {
            assert!(self.book.receives.remove(&key).is_some(), "seed {}: an unknown operation", self.seed);
            self.book.counts[2 + usize::from(completion.result.is_err())] += 1;
            if let Ok(length) = completion.result {
                let bytes = completion.room.expect("a receive has room").into_pieces().concat();
                self.arrived(who, Some(completion.operation), &bytes[..length as usize]);
            }
        }
        if matches!(completion.result, Err(OperationError::PeerLost { .. })) {
            self.told(who);
        }
    }

    fn arrived(&mut self, who: usize, receive: Option<OperationId>, bytes: &[u8]) {
        let field = |index: usize| {
            u32::from_be_bytes(bytes[4 * index..4 * index + 4].try_into().expect("four bytes"))
        };
        let (from, life, tag, number) = (field(0) as usize, field(1), field(2), field(3));
        assert_eq!(from, 1 - who, "seed {}", self.seed);
        if life == self.lives[from] {
            self.is_stale[who] = false;
        }
        assert!(bytes[HEAD..] == content(bytes.len() - HEAD, number as u8), "seed {}: not whole", self.seed);
        self.book.taken += 1;
        let place = receive.map_or(self.book.taken, |receive| receive.0);
        let lane = (from, life, receive.is_none(), tag);
        self.book.arrived.entry(lane).or_default().insert((self.lives[who], place), number);
    }

    fn take(&mut self) {
        for (who, name) in
            NAMES.into_iter().enumerate().filter(|(who, _)| self.is_up[*who]).collect::<Vec<_>>()
        {
            for completion in self.party.completions(name) {
                self.completed(who, completion);
            }
            let unexpected: Vec<Unexpected> =
                self.party.with(name, |messenger| messenger.test_unexpected(usize::MAX));
            for message in unexpected {
                self.arrived(who, None, &message.bytes);
            }
        }
    }

    fn crash_or_restart(&mut self, who: usize) {
        if self.is_up[who] {
            self.take();
            self.party.crash(NAMES[who]);
            self.is_up[who] = false;
            self.is_stale[1 - who] = true;
            let life = self.life(who);
            // Nobody is left who could be told.
            self.book.sends.retain(|key, (lane, number, _)| {
                let is_its = (key.0, key.1) == life;
                if is_its {
                    self.book.sent.get_mut(lane).expect("it was sent")[*number] = Fate::Failed;
                }
                !is_its
            });
            self.book.receives.retain(|key, ()| (key.0, key.1) != life);
            self.told(who);
            // What the other one has sent it may be gone with it, even if it had arrived.
            for (_, fates) in self.book.sent.iter_mut().filter(|(lane, _)| lane.0 != who) {
                let gone = |fate: &&mut Fate| matches!(fate, Fate::Left | Fate::Arrived);
                fates.iter_mut().filter(gone).for_each(|fate| *fate = Fate::Failed);
            }
        } else {
            self.party.restart(NAMES[who]);
            self.lives[who] += 1;
            self.is_up[who] = true;
        }
        self.party.run_for(Duration::from_millis(1));
    }

    fn fault(&mut self, paths: u64) {
        let relay = format!("r{}", 1 + self.below(paths));
        let end = self.below(2) as usize;
        match self.below(8) {
            0 => self.crash_or_restart(end),
            _ => {
                let (a, b) = (self.party.world.member(NAMES[end]), self.party.world.member(&relay));
                let after = Duration::from_millis(20 + self.below(8_000));
                self.party.world.cut(Duration::ZERO, a, b);
                self.party.world.restore(after, a, b);
            }
        }
    }

    /// All that waits is received, and nothing is pending in the end.
    fn settle(&mut self) {
        for who in 0..2 {
            if !self.is_up[who] {
                self.crash_or_restart(who);
            }
        }
        self.party.run_for(10 * SECOND);
        for _ in 0..60 {
            self.take();
            for who in 0..2 {
                for _ in 0..10 {
                    self.receive(who);
                }
            }
            self.party.run_for(2 * SECOND);
        }
        self.party.run_for(3 * TIME);
        self.take();
        for name in NAMES {
            let left = self.party.with(name, |messenger| messenger.operation_count());
            assert_eq!(left, 0, "seed {}: operations of {name} are pending", self.seed);
        }
        for (lane, fates) in &self.book.sent {
            let arrived: Vec<u32> = self
                .book
                .arrived
                .get(lane)
                .into_iter()
                .flat_map(|arrived| arrived.values().copied())
                .collect();
            let in_order = arrived.windows(2).all(|two| two[0] < two[1]);
            assert!(in_order, "seed {}: {arrived:?} of {lane:?} have arrived", self.seed);
            for (number, fate) in fates.iter().enumerate() {
                let is_here = arrived.binary_search(&(number as u32)).is_ok();
                let is_right = is_here || *fate == Fate::Failed;
                assert!(is_right, "seed {}: {number} of {lane:?} is {fate:?} and has not arrived", self.seed);
            }
        }
    }
}

/// Runs one seed; gives how many sends and receives were right, and how many failed.
fn run(seed: u64) -> [u32; 4] {
    let mut random = random_stream(seed, &["swarm of messages"]);
    let paths = 1 + random.next_u64() % 3;
    let loss = [0.0, 0.02, 0.05][random.next_u64() as usize % 3];
    let rate = 5 + random.next_u64() % 50;
    let link = LinkSpec::new(rate, Duration::from_millis(1 + random.next_u64() % 30)).with_loss(loss);
    let mut config = fec_transport::Config::default();
    config.limits.streams = [8, 32, 128][random.next_u64() as usize % 3];
    config.liveness.patience = Duration::from_secs([5, 10, 60][random.next_u64() as usize % 3]);
    let party = Party::with_config(&two_servers(paths as usize, &link), seed, config);
    let mut swarm = Swarm {
        party,
        random: Box::new(random),
        book: Book::default(),
        lives: [0; 2],
        is_up: [true; 2],
        is_stale: [false; 2],
        seed,
    };
    for _ in 0..100 + swarm.below(200) {
        swarm.act();
        if swarm.below(4) == 0 {
            let pause = swarm.below(200);
            swarm.party.run_for(Duration::from_millis(pause));
            swarm.take();
        }
        if swarm.below(40) == 0 {
            swarm.fault(paths);
        }
    }
    swarm.settle();
    swarm.book.counts
}

/// The seeds that the environment asks for: one, a number of them, or a range such as `3000..6000`.
fn seeds() -> std::ops::Range<u64> {
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("\"{text}\" is no number"));
    if let Ok(seed) = std::env::var("MESSAGE_SEED") {
        return number(&seed)..number(&seed) + 1;
    }
    let text = std::env::var("MESSAGE_SEEDS").unwrap_or_else(|_| "200".to_owned());
    let (from, to) = text.split_once("..").unwrap_or(("0", &text));
    number(from)..number(to)
}

#[test]
fn each_message_arrives_once_whole_and_in_order_or_its_loss_is_told() {
    let (mut sum, seeds) = ([0_u64; 4], seeds());
    for seed in seeds.clone() {
        let counts = std::panic::catch_unwind(|| run(seed))
            .unwrap_or_else(|_| panic!("seed {seed}; MESSAGE_SEED={seed} runs it alone"));
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u64::from(count));
    }
    let [sent, failed, received, unfilled] = sum;
    println!(
        "seeds {seeds:?}: {sent} sends and {failed} that failed, {received} receives and {unfilled} that failed"
    );
    let is_busy = sent > 0 && received > 0 && (failed > 0 || seeds.end - seeds.start < 20);
    assert!(is_busy, "the swarm does something");
}

/// Once a link was opened over a session that had ended and still said goodbye: sends over it were complete, and nobody
/// was told that they had gone nowhere.
#[test]
fn a_peer_that_is_lost_is_dialled_again_by_a_session_of_its_own() {
    run(9_753);
}
