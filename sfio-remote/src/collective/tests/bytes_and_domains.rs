//! Which bytes arrive where, and how many travel.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::super::*;
use super::seeds;
use super::world::{File, Outcome, Pace, World, written};
use crate::compression::{Codec, Compression, Level};
use crate::distribution::{Distribution, StripeUnit, Structure};
use crate::request::{FileView, Pattern, ReadList, WriteList};
use crate::sim::Dice;

/// What one seed has drawn.
struct Case {
    size: usize,
    subfiles: usize,
    io_nodes: usize,
    unit: u64,
    config: CollectiveConfig,
    content: Vec<u8>,
    span: u64,
}

impl Case {
    fn draw(dice: &mut Dice) -> Case {
        let unit = match dice.below(4) {
            0 => 1 + dice.below(20) as u64,
            1 => 1 + dice.below(5_000) as u64,
            2 => 1 + dice.below(1_000_000) as u64,
            _ => 1 << dice.below(17),
        };
        let span = [50, 3_000, 40_000][dice.below(3)] + dice.below(1_000) as u64;
        let config = CollectiveConfig {
            domains: dice.pick(&[Domains::BySubfile, Domains::ByRange, Domains::ByOwner]),
            when: dice.pick(&[When::Always, When::Always, When::Interleaved, When::Never]),
            buffer_bytes: [1 + dice.below(40) as u64, 1 + dice.below(9_000) as u64, 16 << 20][dice.below(3)],
            double_buffering: dice.one_in(2),
            compression: dice.pick(&[
                Compression::Auto,
                Compression::Never,
                Compression::Always(Codec::Lz4),
                Compression::Always(Codec::Zstd(Level::DEFAULT)),
            ]),
            ..CollectiveConfig::default()
        };
        let (subfiles, io_nodes) = (1 + dice.below(6), 1 + dice.below(4));
        let content = bytes(dice.below(span as usize + 1), 0);
        Case { size: 1 + dice.below(8), subfiles, io_nodes, unit, config, content, span }
    }

    fn distribution(&self) -> Distribution {
        Distribution::new(StripeUnit::new(self.unit).expect("in range"), self.subfiles).expect("in range")
    }

    fn shape(&self) -> Arc<FileShape> {
        let name: String = (0..self.subfiles).map(|i| format!("io{},f{i};", i % self.io_nodes)).collect();
        let unit = StripeUnit::new(self.unit).expect("in range");
        Arc::new(FileShape::new(&name.parse().expect("a right name"), unit).expect("in range"))
    }

    /// Regions of one rank: anywhere, or in its turn among all ranks.
    fn regions(&self, dice: &mut Dice, rank: usize) -> Vec<(u64, u64)> {
        let span = self.span as usize;
        match dice.below(5) {
            0 => Vec::new(),
            1 | 2 => (0..1 + dice.below(12))
                .map(|_| {
                    let offset = dice.below(span);
                    (offset as u64, dice.below((span - offset).min(700) + 1) as u64)
                })
                .collect(),
            _ => {
                let record = 1 + dice.below(60) as u64;
                let stride = record * self.size as u64 + dice.below(3) as u64 * 5;
                let first = record * rank as u64;
                (0..)
                    .map(|i| (first + i * stride, record))
                    .take_while(|(at, _)| *at < self.span)
                    .take(300)
                    .collect()
            }
        }
    }
}

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|i| ((i + 31 * seed).wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
}

/// A list that writes `regions`: from pieces, packed memory, or through a view.
fn list(dice: &mut Dice, regions: &[(u64, u64)], seed: usize) -> WriteList {
    let total: u64 = regions.iter().map(|(_, length)| length).sum();
    let memory = Bytes::from(bytes(total as usize, seed));
    if dice.one_in(3) {
        return view(dice, regions.first().map_or(0, |first| first.0), seed);
    }
    if dice.one_in(2) {
        return WriteList::packed(regions.iter().copied(), memory).expect("possible");
    }
    let mut rest = memory;
    let pieces = regions.iter().map(|(offset, length)| (*offset, rest.split_to(*length as usize)));
    WriteList::new(pieces.collect::<Vec<_>>()).expect("possible")
}

/// A vector of blocks in the file, from memory with gaps.
fn view(dice: &mut Dice, origin: u64, seed: usize) -> WriteList {
    let small = |dice: &mut Dice| 1 + dice.below(9) as u64;
    let (block, gap, count) = (small(dice), small(dice), small(dice));
    let byte = Pattern::bytes(1).expect("possible");
    let pattern = Pattern::vector(count, block, block + gap, &byte).expect("possible");
    let of_memory = Pattern::vector(small(dice), 3, 4, &byte).expect("possible");
    let times = small(dice);
    let memory = Bytes::from(bytes((times * of_memory.extent()) as usize, seed));
    let view = FileView { origin, pattern: &pattern, skipped: dice.below(5) as u64 };
    WriteList::patterned(&view, &of_memory, times, memory).expect("possible")
}

/// Which bytes a rank writes, the last of its own list counting.
fn owned(list: &WriteList) -> BTreeMap<u64, u8> {
    let pieces = written(list.clone()).into_iter();
    pieces
        .flat_map(|(offset, bytes)| {
            bytes.into_iter().enumerate().map(move |(i, byte)| (offset + i as u64, byte))
        })
        .collect()
}

/// The bytes whose owner is not their aggregator; of domains by owner: the fewest that any assignment has.
fn expected_exchange(case: &Case, owned: &[BTreeMap<u64, u8>]) -> u64 {
    let offsets = || owned.iter().flat_map(|bytes| bytes.keys().copied());
    let (start, end) = (offsets().min().unwrap_or(0), offsets().max().map_or(0, |last| last + 1));
    let width = (end - start).div_ceil(case.size as u64).max(1);
    let nodes = case.io_nodes.min(case.subfiles);
    let aggregator = |offset: u64| match case.config.domains {
        Domains::BySubfile => {
            let io_node = (offset / case.unit) as usize % case.subfiles % case.io_nodes;
            if case.size >= nodes { io_node * case.size / nodes } else { io_node % case.size }
        }
        Domains::ByRange | Domains::ByOwner => ((offset - start) / width) as usize,
    };
    let mut shares = vec![vec![0_u64; case.size]; case.size];
    for (rank, bytes) in owned.iter().enumerate() {
        bytes.keys().for_each(|offset| shares[rank][aggregator(*offset)] += 1);
    }
    let total: u64 = shares.iter().flatten().sum();
    let kept: u64 = match case.config.domains {
        Domains::ByOwner => most_kept(&shares, 0, 0, &mut BTreeMap::new()),
        _ => (0..case.size).map(|rank| shares[rank][rank]).sum(),
    };
    total - kept
}

/// The most bytes that stay with any assignment of ranks to the domains from one on; `taken` has a bit for each rank.
fn most_kept(shares: &[Vec<u64>], domain: usize, taken: u32, known: &mut BTreeMap<u32, u64>) -> u64 {
    if domain == shares.len() {
        return 0;
    }
    if let Some(best) = known.get(&taken) {
        return *best;
    }
    let free = (0..shares.len()).filter(|rank| taken & 1 << rank == 0);
    let best = free
        .map(|rank| shares[rank][domain] + most_kept(shares, domain + 1, taken | 1 << rank, known))
        .max()
        .unwrap_or(0);
    known.insert(taken, best);
    best
}

fn succeeded(seed: u64, mut results: Vec<Vec<Outcome>>) -> Vec<(Answer, Report)> {
    let one = |(rank, results): (usize, &mut Vec<Outcome>)| {
        assert_eq!(results.len(), 1, "seed {seed}: rank {rank} ends, and once");
        results.remove(0).unwrap_or_else(|error| panic!("seed {seed}: rank {rank}: {error}"))
    };
    results.iter_mut().enumerate().map(one).collect()
}

/// A collective write, checked byte by byte; gives the file.
fn write(seed: u64, case: &Case, dice: &mut Dice) -> File {
    let shape = case.shape();
    let lists: Vec<WriteList> = (0..case.size)
        .map(|rank| {
            let regions = case.regions(dice, rank);
            list(dice, &regions, 1 + rank)
        })
        .collect();
    let owned: Vec<BTreeMap<u64, u8>> = lists.iter().map(owned).collect();
    let jobs = lists.into_iter().map(|list| vec![Job::Write(Arc::clone(&shape), list)]).collect();
    let before = File::new(case.distribution(), &case.content);
    let mut world = World::new(seed, Pace::default(), case.config.clone(), before, jobs);
    let results = succeeded(seed, world.run());
    assert_eq!(world.reads, 0, "seed {seed}: nothing is read back");
    let report = results[0].1;
    let end = owned.iter().filter_map(|bytes| bytes.keys().last()).max().map_or(0, |last| last + 1);
    let length = end.max(case.content.len() as u64);
    let structure = case.distribution().structure(&world.file.sizes());
    assert_eq!(structure, Structure::Intact { length }, "seed {seed}");
    for offset in 0..length {
        let found = world.file.get(offset).expect("it is intact");
        let writers = || owned.iter().filter_map(|bytes| bytes.get(&offset).copied());
        let is_right = match writers().next_back() {
            None => found == case.content.get(offset as usize).copied().unwrap_or(0),
            Some(last) if report.is_two_phase => found == last,
            // Without aggregators nobody says whose byte is the last.
            Some(_) => writers().any(|byte| byte == found),
        };
        assert!(is_right, "seed {seed}: byte {offset} is {found}, {report:?}");
    }
    let expected = if report.is_two_phase { expected_exchange(case, &owned) } else { 0 };
    for (rank, (answer, report)) in results.iter().enumerate() {
        assert_eq!(*answer, Answer::Written);
        assert_eq!(report.exchanged_bytes, expected, "seed {seed}: rank {rank}, {:?}", case.config);
        assert!(report.pairs <= (case.size * (case.size - 1)) as u64, "seed {seed}");
        assert_eq!(
            report.stages.iter().sum::<std::time::Duration>(),
            report.elapsed,
            "seed {seed}: rank {rank}"
        );
    }
    world.file
}

/// A collective read of any regions, overlapping ones and ones behind the end among them.
fn read(seed: u64, case: &Case, dice: &mut Dice, file: File) {
    let shape = case.shape();
    let lists: Vec<Vec<(u64, u64)>> = (0..case.size).map(|rank| case.regions(dice, rank)).collect();
    let jobs = lists.iter().map(|regions| {
        let list = ReadList::new(regions.iter().copied()).expect("possible");
        vec![Job::Read(Arc::clone(&shape), list)]
    });
    let jobs = jobs.collect();
    let mut world = World::new(seed ^ 0xdead, Pace::default(), case.config.clone(), file, jobs);
    let results = succeeded(seed, world.run());
    assert_eq!(world.writes, 0, "seed {seed}");
    let wanted: Vec<BTreeMap<u64, u8>> = lists
        .iter()
        .map(|regions| regions.iter().flat_map(|(at, length)| *at..at + length).map(|at| (at, 0)).collect())
        .collect();
    let expected = if results[0].1.is_two_phase { expected_exchange(case, &wanted) } else { 0 };
    for (rank, ((answer, report), regions)) in results.into_iter().zip(&lists).enumerate() {
        let Answer::Read(found) = answer else { panic!("seed {seed}: it was a read") };
        assert_eq!(found.len(), regions.len());
        for ((offset, length), bytes) in regions.iter().zip(found.iter()) {
            let there: Vec<u8> = (*offset..offset + length).map_while(|at| world.file.get(at)).collect();
            assert_eq!(bytes, there, "seed {seed}: rank {rank}, {length} bytes at {offset}");
        }
        assert_eq!(report.exchanged_bytes, expected, "seed {seed}: rank {rank}, {:?}", case.config);
    }
}

#[test]
fn every_byte_of_any_lists_arrives_and_those_travel_that_must() {
    for seed in seeds(400) {
        let mut dice = Dice::new(seed);
        let case = Case::draw(&mut dice);
        let file = write(seed, &case, &mut dice);
        read(seed, &case, &mut dice, file);
    }
}

/// Mesh nodes whose owner is not their aggregator, by the number of processes: `[tpc, Table 3]` has these times the
/// load.
const OFF_AGGREGATOR: [(usize, u64); 4] = [(4, 35_998), (8, 44_561), (16, 45_866), (32, 46_372)];

const MESH_NODES: u64 = 47_200;

/// A partition of a mesh in which so many nodes belong to another process than the one that aggregates them. Which
/// nodes these are in the paper nobody can know: neither the mesh nor what METIS made of it was published.
fn partition(size: usize, away: u64) -> Vec<Vec<u64>> {
    let mut nodes = vec![Vec::new(); size];
    for node in 0..MESH_NODES {
        let aggregator = (node * size as u64 / MESH_NODES) as usize;
        // The first `away` nodes in an order that jumps over the mesh.
        let is_away = node * 7_919 % MESH_NODES < away;
        let owner = (aggregator + usize::from(is_away) * (1 + node as usize % (size - 1))) % size;
        nodes[owner].push(node);
    }
    nodes
}

#[test]
fn what_travels_of_a_mesh_is_the_papers_constant_times_the_load_at_every_load() {
    for (size, constant) in OFF_AGGREGATOR {
        let nodes = partition(size, constant);
        for load in [100, 200, 500, 1_000] {
            let bytes = 4 * load;
            // The bytes themselves are never looked at: stages 1 to 5 alone decide what travels.
            let domains = domains::FileDomains::by_range(0, MESH_NODES * bytes, size);
            let exchanged: u64 = nodes
                .iter()
                .enumerate()
                .map(|(rank, nodes)| {
                    let mut builder = pieces::PiecesBuilder::default();
                    nodes.iter().for_each(|node| builder.push(extent(node * bytes, bytes)));
                    let shares = domains.shares(&builder.finish());
                    shares.iter().sum::<u64>() - shares[rank]
                })
                .sum();
            assert_eq!(exchanged, constant * bytes, "{size} processes, load {load}");
        }
    }
}

fn extent(offset: u64, length: u64) -> crate::distribution::Extent {
    crate::distribution::Extent::new(offset, length).expect("small")
}
