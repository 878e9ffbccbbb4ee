//! Ranks that end in the middle, ranks in other calls, disks that fail: nobody waits for ever.

use std::sync::Arc;

use bytes::Bytes;

use super::super::*;
use super::seeds;
use super::world::{File, Outcome, Pace, World};
use crate::distribution::StripeUnit;
use crate::request::{ReadList, WriteList};
use crate::sim::Dice;

const SIZE: usize = 5;

fn shape(name: &str) -> Arc<FileShape> {
    let unit = StripeUnit::new(64).expect("in range");
    Arc::new(FileShape::new(&name.parse().expect("a right name"), unit).expect("few subfiles"))
}

fn file(shape: &FileShape) -> File {
    File::new(*shape.distribution(), &[7; 3_000])
}

fn config(dice: &mut Dice) -> CollectiveConfig {
    CollectiveConfig {
        domains: dice.pick(&[Domains::BySubfile, Domains::ByRange, Domains::ByOwner]),
        when: dice.pick(&[When::Always, When::Interleaved, When::Never]),
        buffer_bytes: 1 + dice.below(900) as u64,
        double_buffering: dice.one_in(2),
        ..CollectiveConfig::default()
    }
}

/// The records of one rank among those of all, with a byte that says whose they are.
fn records(rank: usize) -> Vec<(u64, u64)> {
    (0..40).map(|i| ((i * SIZE as u64 + rank as u64) * 17, 17)).collect()
}

/// A few calls of each rank: writes, reads, and such that move no data.
fn program(shape: &Arc<FileShape>, rank: usize) -> Vec<Job> {
    let write = || {
        let pieces = records(rank)
            .into_iter()
            .map(|(at, length)| (at, Bytes::from(vec![100 + rank as u8; length as usize])));
        Job::Write(Arc::clone(shape), WriteList::new(pieces).expect("possible"))
    };
    let read = || Job::Read(Arc::clone(shape), ReadList::new(records(rank)).expect("possible"));
    let barrier = || Job::Perform { words: "a barrier".to_owned() };
    vec![barrier(), write(), read(), write(), barrier(), read()]
}

fn world(seed: u64, dice: &mut Dice) -> World {
    let shape = shape("io1,a;io2,a;io3,a;");
    let jobs = (0..SIZE).map(|rank| program(&shape, rank)).collect();
    World::new(seed, Pace::default(), config(dice), file(&shape), jobs)
}

#[test]
fn whatever_the_delays_are_every_call_of_every_rank_ends() {
    for seed in seeds(200) {
        let mut dice = Dice::new(seed);
        for (rank, results) in world(seed, &mut dice).run().into_iter().enumerate() {
            assert_eq!(results.len(), 6, "seed {seed}: rank {rank} waits for ever");
            for result in results {
                let (answer, _) = result.unwrap_or_else(|error| panic!("seed {seed}: rank {rank}: {error}"));
                match answer {
                    Answer::Performed(told) => {
                        assert_eq!(told, (1..=SIZE as u8).map(|b| vec![b]).collect::<Vec<_>>());
                    }
                    Answer::Read(read) => {
                        assert!(
                            read.iter().all(|bytes| bytes == [100 + rank as u8; 17]),
                            "seed {seed}: rank {rank}"
                        );
                    }
                    Answer::Written => {}
                }
            }
        }
    }
}

#[test]
fn when_a_rank_ends_at_any_moment_the_others_say_so_or_are_done() {
    for seed in seeds(400) {
        let mut dice = Dice::new(seed);
        let mut world = world(seed, &mut dice);
        // How much there is to happen differs by the configuration: a few hundred to a few thousand events.
        let (victim, moment) = (Rank(dice.below(SIZE) as u32), [60, 600, 3_000][dice.below(3)]);
        let moment = dice.below(moment);
        for _ in 0..moment {
            world.step();
        }
        let ended = world.ended(victim);
        world.kill(victim);
        let results = world.run();
        for (rank, results) in results.iter().enumerate().filter(|(rank, _)| *rank != victim.index()) {
            assert_eq!(results.len(), 6, "seed {seed}: rank {rank} waits for ever");
            let lost = results.iter().position(Result::is_err).unwrap_or(6);
            // Of its last call the others may lack the word that it has ended; of the next one they may have it.
            let possible = ended.saturating_sub(1)..=ended + 1;
            assert!(
                possible.contains(&lost),
                "seed {seed}: rank {rank} fails in call {lost}, {victim} ended {ended}"
            );
            let is_lost = |result: &Outcome| *result == Err(CollectiveError::RankLost { rank: victim });
            assert!(results[lost..].iter().all(is_lost), "seed {seed}: rank {rank}: {:?}", results[lost]);
        }
        // Every byte is an old one or the one that its owner has written.
        for offset in 0..3_000_u64 {
            let owner = (offset / 17) as usize % SIZE;
            let found = world.file.get(offset).expect("nothing is cut");
            assert!(found == 7 || found == 100 + owner as u8, "seed {seed}: byte {offset} is {found}");
        }
    }
}

#[test]
fn a_rank_in_another_call_is_an_error_that_names_both_calls_and_the_group_goes_on() {
    let (one, other) = (shape("io1,a;io2,a;"), shape("io1,b;io2,b;"));
    let jobs = (0..3).map(|rank| {
        let first = match rank {
            2 => Job::Read(Arc::clone(&other), ReadList::new([(0, 5)]).expect("possible")),
            _ => Job::Write(
                Arc::clone(&one),
                WriteList::new([(0, Bytes::from_static(b"hello"))]).expect("possible"),
            ),
        };
        vec![first, Job::Perform { words: "a barrier".to_owned() }]
    });
    let config = CollectiveConfig::default();
    let mut world = World::new(1, Pace::default(), config, file(&one), jobs.collect());
    for (rank, results) in world.run().into_iter().enumerate() {
        let error = results[0].as_ref().expect_err("they differ");
        let words = error.to_string();
        assert!(matches!(error, CollectiveError::OtherCall { .. }), "{words}");
        for named in ["write \"io1,a;io2,a;\"", "read \"io1,b;io2,b;\"", "call 1"] {
            assert!(words.contains(named), "rank {rank}: {words}");
        }
        assert!(results[1].is_ok(), "the group goes on: {results:?}");
    }
    assert_eq!((world.reads, world.writes), (0, 0), "nothing was done");
}

#[test]
fn a_disk_that_fails_is_an_error_on_all_ranks_and_the_group_goes_on() {
    for seed in seeds(60) {
        let mut dice = Dice::new(seed);
        let mut world = world(seed, &mut dice);
        world.faults = 1;
        for (rank, results) in world.run().into_iter().enumerate() {
            assert_eq!(results.len(), 6, "seed {seed}: rank {rank} waits for ever");
            let failed: Vec<bool> = results.iter().map(Result::is_err).collect();
            assert_eq!(failed, [true, false, false, false, false, false], "seed {seed}: rank {rank}");
            let error = results[0].as_ref().expect_err("the disk fails").to_string();
            assert!(error.contains("the disk of rank"), "{error}");
        }
    }
}

#[test]
fn a_disk_that_fails_in_any_round_leaves_nobody_waiting() {
    for seed in seeds(100) {
        let mut dice = Dice::new(seed);
        let mut world = world(seed, &mut dice);
        let moment = dice.below(900);
        (0..moment).for_each(|_| {
            world.step();
        });
        world.faults = 1 + dice.below(3);
        let results = world.run();
        let failed = |call: usize| results.iter().filter(|of| of[call].is_err()).count();
        for call in 0..6 {
            assert!(results.iter().all(|of| of.len() == 6), "seed {seed}");
            assert!(
                matches!(failed(call), 0 | SIZE),
                "seed {seed}: call {call} failed on {} ranks",
                failed(call)
            );
        }
    }
}
