//! Clients and I/O nodes together, over a transport in memory, against a file in memory.

mod crashes;
mod hostile;

use std::time::Duration;

use bytes::Bytes;
use fec_transport::overlay::MemberId;
use proptest::prelude::*;

use super::operations::*;
use super::*;
use crate::application::{Command, Outcome as Told, SfioApplication};
use crate::compression::{Codec, CodecJob, Coder, Compression, Explanation, Level};
use crate::distribution::{StripeUnit, Structure};
use crate::io_node::{AccessRules, ErrorCounters, IoNodeConfig, Right};
use crate::name::FileName;
use crate::remote_error::ErrorKind;
use crate::request::{ListError, ReadList, WriteList};
use crate::sim::{Dice, Network};
use crate::store::{Errand, Fault, FaultyStore, MemoryStore, SystemCall};

const NAMES: [&str; 5] = ["client", "other", "io1", "io2", "io3"];
const CLIENT: MemberId = MemberId(0);
const OTHER: MemberId = MemberId(1);

/// Two clients and three I/O nodes with their disks.
struct Cluster {
    network: Network,
    members: Vec<SfioApplication>,
    stores: Vec<FaultyStore<MemoryStore>>,
    /// Disk operations under way; any may end next.
    running: Vec<(usize, Errand)>,
    /// Codec jobs under way; any may end next.
    coding: Vec<(usize, CodecJob)>,
    /// How many were carried out.
    disk_operations: u64,
    frozen: Option<usize>,
    next_operation: u64,
    dice: Dice,
    now: Time,
}

impl Cluster {
    fn new(seed: u64) -> Cluster {
        Cluster::with_config(
            ClientConfig { window_bytes: 9_000, transfer_bytes: 3_000, ..ClientConfig::default() },
            seed,
        )
    }

    fn with_config(config: ClientConfig, seed: u64) -> Cluster {
        let member = |name: &&str| match name.starts_with("io") {
            true => {
                SfioApplication::serving(config.clone(), IoNodeConfig { piece_bytes: 1_500, ..open_to_all() })
            }
            false => SfioApplication::client(config.clone()),
        };
        Cluster {
            network: Network::new(&NAMES, seed),
            members: NAMES.iter().map(member).collect(),
            stores: NAMES.iter().map(|_| FaultyStore::new(MemoryStore::default())).collect(),
            running: Vec::new(),
            coding: Vec::new(),
            disk_operations: 0,
            frozen: None,
            next_operation: 1,
            dice: Dice::new(seed),
            now: Time::ZERO,
        }
    }

    fn command(&mut self, member: MemberId, command: Command) {
        let port = &mut self.network.port(member);
        self.members[usize::from(member.0)].obey(self.now, port, command);
    }

    /// Begins an operation; gives the place where its result will lie.
    fn start<O: Operation>(&mut self, member: MemberId, operation: O) -> Receipt<O::Answer> {
        let id = OperationId(self.next_operation);
        self.next_operation += 1;
        let (action, receipt) = Action::with_receipt(operation);
        self.command(member, Command::Start(id, action));
        receipt
    }

    /// The operation that was begun last.
    fn last_operation(&self) -> OperationId {
        OperationId(self.next_operation - 1)
    }

    /// One event of one member, and one disk operation; says whether anything happened.
    fn step(&mut self) -> bool {
        let mut busy = false;
        let first = self.dice.below(NAMES.len());
        for index in (0..NAMES.len()).map(|i| (first + i) % NAMES.len()) {
            let member = MemberId(index as u16);
            if self.frozen != Some(index)
                && let Some(event) = self.network.poll_event(member)
            {
                self.members[index].handle(self.now, &mut self.network.port(member), &event);
                busy = true;
            }
            self.collect(index);
        }
        if !self.coding.is_empty() {
            let (index, job) = self.coding.swap_remove(self.dice.below(self.coding.len()));
            let result = job.perform(&mut Coder::default());
            self.command(MemberId(index as u16), Command::Codec(result));
            self.collect(index);
            busy = true;
        }
        if !self.running.is_empty() {
            let (index, errand) = self.running.swap_remove(self.dice.below(self.running.len()));
            let results = errand.perform(|operation| operation.perform_on(&mut self.stores[index]));
            for result in results {
                self.disk_operations += 1;
                self.command(MemberId(index as u16), Command::Disk(result));
            }
            self.collect(index);
            busy = true;
        }
        busy
    }

    fn collect(&mut self, index: usize) {
        use fec_transport::Application as _;
        while let Some(outcome) = self.members[index].poll_outcome() {
            match outcome {
                Told::Disk(errand) => self.running.push((index, errand)),
                Told::Completion(completion) => completion.deliver(),
                Told::Codec(job) => self.coding.push((index, job)),
            }
        }
    }

    fn run(&mut self) {
        while self.step() {}
    }

    fn result<A>(&mut self, receipt: Receipt<A>) -> Result<A, OperationError> {
        self.run();
        receipt.take().expect("the operation has ended")
    }

    fn call<O: Operation>(&mut self, operation: O) -> Result<O::Answer, OperationError> {
        let receipt = self.start(CLIENT, operation);
        self.result(receipt)
    }

    /// A new file whose bytes are compressed so on their way.
    fn compressed(&mut self, name: &str, unit: u64, compression: Compression) -> FileId {
        let receipt = self.start(CLIENT, Open { compression, ..open(name, unit, OpenMode::Create) });
        self.result(receipt).expect("it opens").file
    }

    fn open(&mut self, member: MemberId, name: &str, unit: u64, mode: OpenMode) -> FileId {
        let receipt = self.start(member, open(name, unit, mode));
        self.result(receipt).expect("it opens").file
    }

    fn write(&mut self, file: FileId, pieces: &[(u64, Vec<u8>)]) {
        let pieces = pieces.iter().map(|(offset, data)| (*offset, Bytes::from(data.clone())));
        let list = WriteList::new(pieces).expect("possible");
        assert_eq!(self.call(Write { file, list, durable: false }), Ok(()));
    }

    fn read(&mut self, file: FileId, regions: &[(u64, u64)]) -> Vec<Bytes> {
        let list = ReadList::new(regions.iter().copied()).expect("possible");
        self.call(Read { file, list }).expect("it reads").into_vec()
    }

    fn stat(&mut self, file: FileId) -> FileStat {
        self.call(Stat { file }).expect("it has sizes")
    }

    fn subfile(&self, member: &str, path: &str) -> String {
        let index = NAMES.iter().position(|name| *name == member).expect("a member");
        let content = self.stores[index].inner().content(path).expect("the subfile exists");
        String::from_utf8(content).expect("text")
    }

    fn store(&mut self, member: &str) -> &mut FaultyStore<MemoryStore> {
        let index = NAMES.iter().position(|name| *name == member).expect("a member");
        &mut self.stores[index]
    }

    /// What must hold whenever all is done.
    fn assert_quiet(&self) {
        assert_eq!(self.network.stream_count(), 0);
        for member in &self.members {
            assert!(
                member.io_node().is_none_or(|node| node.memory_used() == 0 && node.transfer_count() == 0)
            );
        }
    }
}

fn open_to_all() -> IoNodeConfig {
    IoNodeConfig { access: AccessRules::everyone(Right::ReadWrite), ..IoNodeConfig::default() }
}

fn name(text: &str) -> FileName {
    text.parse().expect("a right name")
}

fn open(text: &str, unit: u64, mode: OpenMode) -> Open {
    let stripe_unit = StripeUnit::new(unit).expect("in range");
    Open {
        name: name(text),
        stripe_unit,
        mode,
        durability: Durability::OnFlush,
        compression: Compression::Auto,
    }
}

const TWO: &str = "io1,/tmp/a.dat;io2,/tmp/a.dat;";
const THREE: &str = "io1,a;io2,a;io3,a";

fn list(pieces: &[(u64, &'static [u8])]) -> WriteList {
    WriteList::new(pieces.iter().map(|(offset, data)| (*offset, Bytes::from_static(data)))).expect("possible")
}

fn pattern(length: u64, seed: u64) -> Vec<u8> {
    (0..length).map(|i| ((i + seed * 7) * 131 % 251) as u8).collect()
}

#[test]
fn hello_world_lies_on_the_disks_as_in_the_paper() {
    let mut cluster = Cluster::new(1);
    let file = cluster.open(CLIENT, TWO, 5, OpenMode::Create);
    cluster.write(file, &[(0, b"Hello World".to_vec())]);
    assert_eq!(cluster.subfile("io1", "tmp/a.dat"), "Hellod");
    assert_eq!(cluster.subfile("io2", "tmp/a.dat"), " Worl");
    assert_eq!(cluster.read(file, &[(0, 100)]), ["Hello World"]);
    cluster.assert_quiet();
}

/// Something that shrinks, something that does not, and zeros, in turn.
fn mixture(length: usize) -> Vec<u8> {
    let mut noise = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    let kind = |(index, noise): (usize, u8)| match (index / 50_000) % 3 {
        0 => b"all work and no play makes Jack a dull boy, "[index % 44],
        1 => noise,
        _ => 0,
    };
    noise.into_iter().enumerate().map(kind).collect()
}

#[test]
fn however_files_are_compressed_on_their_way_they_are_raw_on_the_disks_and_come_back_as_they_were() {
    let levels = [Level::new(-5), Level::new(1), Level::new(9)].map(|level| level.expect("in range"));
    let always = [Codec::Lz4].into_iter().chain(levels.map(Codec::Zstd)).map(Compression::Always);
    let data = mixture(700_000);
    for (seed, compression) in always.chain([Compression::Auto, Compression::Never]).enumerate() {
        // Transfers of several frames each; the stripes of the second file are pieces of a few bytes.
        let config = ClientConfig { transfer_bytes: 600_000, ..ClientConfig::default() };
        let mut cluster = Cluster::with_config(config, seed as u64);
        cluster.network.stream_capacity = 100_000;
        for (name, unit) in [("io1,a", 65_536), ("io1,b;io2,b", 300)] {
            let file = cluster.compressed(name, unit, compression);
            cluster.write(file, &[(0, data.clone())]);
            assert_eq!(cluster.read(file, &[(0, 800_000)]), [&data[..]], "{compression}");
            assert_eq!(cluster.read(file, &[(5, 70_000), (400_000, 90_000)])[1], data[400_000..490_000]);
        }
        assert_eq!(cluster.stores[2].inner().content("a").as_ref(), Some(&data), "{compression}");
        let sent: Vec<Explanation> =
            cluster.members[0].as_client().compression().map(|(_, why)| why).collect();
        let shrank = sent.iter().all(|sent| sent.packed_bytes < sent.plain_bytes * 9 / 10);
        assert!(compression == Compression::Never || (!sent.is_empty() && shrank), "{compression}: {sent:?}");
        cluster.assert_quiet();
    }
}

#[test]
fn an_operation_that_is_given_up_while_codecs_work_leaves_nothing_behind() {
    for steps in 0..60 {
        let mut cluster = Cluster::with_config(ClientConfig::default(), steps);
        let file = cluster.compressed("io1,a", 65_536, Compression::Always(Codec::Lz4));
        let list = WriteList::new([(0, Bytes::from(mixture(900_000)))]).expect("possible");
        let receipt = cluster.start(CLIENT, Write { file, list, durable: false });
        for _ in 0..steps {
            cluster.step();
        }
        cluster.command(CLIENT, Command::Cancel(cluster.last_operation()));
        cluster.collect(0);
        assert!(cluster.result(receipt).is_ok_and(|()| steps > 10) || steps < 60);
        cluster.assert_quiet();
    }
}

#[test]
fn three_writers_at_once_lie_on_the_disks_as_in_the_paper() {
    for seed in 0..20 {
        let mut cluster = Cluster::new(seed);
        let files =
            [CLIENT, OTHER, CLIENT].map(|member| (member, cluster.open(member, TWO, 5, OpenMode::Create)));
        let write = |(index, (member, file)): (u64, (MemberId, FileId))| {
            cluster
                .start(member, Write { file, durable: false, list: list(&[(13 * index, b"Hello*World!*")]) })
        };
        let receipts: Vec<_> = (0..).zip(files).map(write).collect();
        receipts.into_iter().for_each(|receipt| assert_eq!(cluster.result(receipt), Ok(())));
        assert_eq!(cluster.subfile("io1", "tmp/a.dat"), "Hellod!*Heorld!o*Wor");
        assert_eq!(cluster.subfile("io2", "tmp/a.dat"), "*Worlllo*W*Hellld!*");
    }
}

/// What happens to a file, by any of its two clients.
#[derive(Debug, Clone)]
enum Step {
    Write(Vec<(u64, u64)>),
    Read(Vec<(u64, u64)>),
    SetLength(u64),
}

fn any_steps() -> impl Strategy<Value = Vec<(bool, Step)>> {
    let regions = || prop::collection::vec((0_u64..30_000, prop_oneof![0_u64..20, 0_u64..9_000]), 0..8);
    let step = prop_oneof![
        3 => regions().prop_map(Step::Write),
        2 => regions().prop_map(Step::Read),
        1 => (0_u64..30_000).prop_map(Step::SetLength),
    ];
    prop::collection::vec((any::<bool>(), step), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_striped_file_is_a_file(seed: u64, unit in prop_oneof![1_u64..20, 1_u64..70_000, 1_u64..=1_000_000], width in 1_usize..=40,
                                base in prop_oneof![3 => Just(0), 1 => Just((1_u64 << 32) - 15_000), 1 => Just(i64::MAX as u64 - 40_000)],
                                steps in any_steps()) {
        let mut cluster = Cluster::new(seed);
        let name: String = (0..width).map(|i| format!("{},f{i};", NAMES[2 + i % 3])).collect();
        let files = [CLIENT, OTHER].map(|member| cluster.open(member, &name, unit, OpenMode::Create));
        // What is in the file from `base` on; before it are zeros, once it has a length.
        let (mut expected, mut length): (Vec<u8>, u64) = (Vec::new(), 0);
        let at = |regions: &[(u64, u64)]| regions.iter().map(|(offset, bytes)| (base + offset, *bytes)).collect::<Vec<_>>();
        for (number, (other, step)) in steps.into_iter().enumerate() {
            let (member, file) = ([CLIENT, OTHER][usize::from(other)], files[usize::from(other)]);
            match step {
                Step::Write(regions) => {
                    let mut pieces = Vec::new();
                    for (index, (offset, bytes)) in regions.iter().enumerate() {
                        let data = pattern(*bytes, number as u64 * 100 + index as u64);
                        let end = (offset + bytes) as usize;
                        if *bytes > 0 {
                            expected.resize(expected.len().max(end), 0);
                            expected[*offset as usize..end].copy_from_slice(&data);
                            length = base + expected.len() as u64;
                        }
                        pieces.push((base + offset, Bytes::from(data)));
                    }
                    let receipt = cluster.start(member, Write { file, durable: false, list: WriteList::new(pieces)? });
                    prop_assert_eq!(cluster.result(receipt), Ok(()));
                }
                Step::Read(regions) => {
                    let receipt = cluster.start(member, Read { file, list: ReadList::new(at(&regions))? });
                    let read = cluster.result(receipt)?.into_vec();
                    for ((offset, length), bytes) in regions.into_iter().zip(read) {
                        let end = expected.len().min((offset + length) as usize);
                        prop_assert_eq!(&bytes, &expected[(offset as usize).min(end)..end]);
                    }
                }
                Step::SetLength(beyond) => {
                    expected.resize(beyond as usize, 0);
                    length = base + beyond;
                    let receipt = cluster.start(member, SetLength { file, length });
                    prop_assert_eq!(cluster.result(receipt), Ok(()));
                }
            }
            prop_assert_eq!(cluster.stat(files[0]).structure(), Structure::Intact { length });
        }
        prop_assert_eq!(cluster.read(files[0], &[(base, 30_000 + 9_000)]), vec![Bytes::from(expected)]);
        cluster.assert_quiet();
    }

    #[test]
    fn far_offsets_are_ordinary(seed: u64, unit in 1_u64..100_000, center in prop_oneof![Just(1_u64 << 32), Just(1 << 45), Just(i64::MAX as u64 - 10_000)],
                                before in 0_u64..5_000, length in 1_u64..5_000) {
        let mut cluster = Cluster::new(seed);
        let file = cluster.open(CLIENT, THREE, unit, OpenMode::Create);
        let (offset, data) = (center - before, pattern(length, seed % 100));
        cluster.write(file, &[(offset, data.clone())]);
        let read = cluster.read(file, &[(offset - 5, length + 100), (7, 3)]);
        prop_assert_eq!(&read[0][..5], &[0; 5]);
        prop_assert_eq!(&read[0][5..], &data);
        prop_assert_eq!(&read[1][..], &[0; 3]);
        prop_assert_eq!(cluster.stat(file).structure(), Structure::Intact { length: offset + length });
    }

    #[test]
    fn disjoint_writers_never_disturb_each_other(seed: u64, unit in 1_u64..50, pieces in prop::collection::vec(1_u64..4_000, 2..12)) {
        let mut cluster = Cluster::new(seed);
        let files = [CLIENT, OTHER].map(|member| (member, cluster.open(member, THREE, unit, OpenMode::Create)));
        let (mut expected, mut receipts) = (Vec::new(), Vec::new());
        for (index, length) in pieces.into_iter().enumerate() {
            let (member, file) = files[index % 2];
            let data = pattern(length, index as u64);
            let list = WriteList::new([(expected.len() as u64, Bytes::from(data.clone()))])?;
            receipts.push(cluster.start(member, Write { file, list, durable: false }));
            expected.extend(data);
        }
        for receipt in receipts {
            prop_assert_eq!(cluster.result(receipt), Ok(()));
        }
        let length = expected.len() as u64;
        prop_assert_eq!(cluster.stat(files[0].1).structure(), Structure::Intact { length });
        prop_assert_eq!(cluster.read(files[0].1, &[(0, length)]), vec![Bytes::from(expected)]);
    }
}

#[test]
fn an_empty_file_has_all_its_subfiles() {
    let mut cluster = Cluster::new(1);
    assert!(matches!(cluster.call(open(THREE, 5, OpenMode::Existing)), Err(OperationError::NotFound { .. })));
    cluster.open(CLIENT, THREE, 5, OpenMode::Create);
    let file = cluster.open(OTHER, THREE, 5, OpenMode::Existing);
    let receipt = cluster.start(OTHER, Stat { file });
    let stat = cluster.result(receipt).expect("it has sizes");
    assert_eq!(stat.subfile_sizes(), [Some(0); 3]);
}

#[test]
fn opening_to_truncate_leaves_an_empty_file() {
    let mut cluster = Cluster::new(1);
    let file = cluster.open(CLIENT, THREE, 5, OpenMode::Create);
    cluster.write(file, &[(0, pattern(100, 1))]);
    let file = cluster.open(CLIENT, THREE, 5, OpenMode::Truncate);
    assert_eq!(cluster.stat(file).length(), 0);
}

#[test]
fn missing_subfiles_are_named() {
    let mut cluster = Cluster::new(1);
    cluster.open(CLIENT, THREE, 5, OpenMode::Create);
    assert_eq!(cluster.call(remove("io2,a")), Ok(()));
    let error = cluster.call(open(THREE, 5, OpenMode::Existing)).expect_err("incomplete");
    assert_eq!(error.to_string(), "the file is incomplete; missing: io2,a");
    assert_eq!(cluster.call(remove(THREE)), Ok(()));
    assert!(matches!(cluster.call(remove(THREE)), Err(OperationError::NotFound { .. })));
}

fn remove(text: &str) -> Remove {
    Remove { name: name(text), durability: Durability::OnEveryCall }
}

#[test]
fn a_file_gets_another_name_on_the_same_members_only() {
    let mut cluster = Cluster::new(1);
    let file = cluster.open(CLIENT, THREE, 5, OpenMode::Create);
    cluster.write(file, &[(0, pattern(100, 1))]);
    let rename = |target: &str, replace| {
        let durability = Durability::OnFlush;
        Rename { name: name(THREE), target: name(target), replace, durability }
    };
    let error = cluster.call(rename("io1,b;io3,b;io2,b", false)).expect_err("moves");
    assert!(error.to_string().contains("a subfile stays on its member"), "{error}");
    assert_eq!(cluster.call(rename("io1,b;io2,b;io3,b", false)), Ok(()));
    let file = cluster.open(CLIENT, "io1,b;io2,b;io3,b", 5, OpenMode::Existing);
    assert_eq!(cluster.read(file, &[(0, 100)]), [pattern(100, 1)]);
    cluster.open(CLIENT, THREE, 5, OpenMode::Create);
    let error = cluster.call(rename("io1,b;io2,b;io3,b", false)).expect_err("occupied");
    assert!(matches!(error, OperationError::IoNode { error, .. } if error.kind == ErrorKind::AlreadyExists));
}

#[test]
fn a_failing_disk_ends_the_operation_with_the_name_of_the_subfile() {
    let mut cluster = Cluster::new(1);
    let file = cluster.open(CLIENT, THREE, 100, OpenMode::Create);
    cluster.store("io2").inner_mut().set_capacity(0);
    let data = Bytes::from(pattern(100_000, 1));
    let write = Write { file, durable: false, list: WriteList::new([(0, data)]).expect("possible") };
    assert_eq!(cluster.call(write).expect_err("full").to_string(), "io2,a: no space left: a");
    cluster.assert_quiet();
    assert!(
        matches!(cluster.stat(file).structure(), Structure::Torn(_)),
        "an interrupted write does not look whole"
    );
    let query = |reset| QueryErrorCounters { member: "io2".into(), reset };
    let counters = cluster.call(query(true)).expect("counters");
    assert!(counters.get(SystemCall::Write) > 0);
    assert_eq!(cluster.call(query(false)), Ok(ErrorCounters::default()));
}

#[test]
fn a_sync_that_failed_stays_failed() {
    let mut cluster = Cluster::new(1);
    let file = cluster.open(CLIENT, THREE, 100, OpenMode::Create);
    cluster.write(file, &[(0, pattern(1_000, 1))]);
    assert_eq!(cluster.call(Sync { file }), Ok(()));
    cluster.store("io3").inject(Fault::FailedSync);
    for kind in [ErrorKind::Disk, ErrorKind::SyncLost] {
        let error = cluster.call(Sync { file }).expect_err("lost");
        assert!(
            matches!(error, OperationError::IoNode { subfile, error } if subfile == "io3,a" && error.kind == kind)
        );
    }
}

#[test]
fn an_io_node_that_dies_is_named_and_the_next_operation_finds_it_again() {
    let mut cluster = Cluster::new(1);
    let file = cluster.open(CLIENT, THREE, 100, OpenMode::Create);
    let data = Bytes::from(pattern(200_000, 1));
    let write =
        || Write { file, durable: false, list: WriteList::new([(0, data.clone())]).expect("possible") };
    let receipt = cluster.start(CLIENT, write());
    for _ in 0..40 {
        cluster.step();
    }
    cluster.network.kill(MemberId(3));
    let error = cluster.result(receipt).expect_err("io2 is gone");
    assert!(matches!(error, OperationError::SessionClosed { member, .. } if member == "io2"));
    cluster.members[3] = SfioApplication::serving(ClientConfig::default(), open_to_all());
    assert_eq!(cluster.call(write()), Ok(()));
    assert_eq!(cluster.read(file, &[(0, 200_000)]), [data]);
}

#[test]
fn an_io_node_that_does_not_go_on_is_named_when_time_is_up() {
    let mut cluster = Cluster::new(1);
    let file = cluster.open(CLIENT, THREE, 100, OpenMode::Create);
    cluster.frozen = Some(4);
    let data = Bytes::from(pattern(200_000, 1));
    let receipt = cluster
        .start(CLIENT, Write { file, durable: false, list: WriteList::new([(0, data)]).expect("possible") });
    cluster.run();
    let error = loop {
        if let Some(result) = receipt.take() {
            break result.expect_err("time is up");
        }
        cluster.now = fec_transport::Application::next_timeout(&cluster.members[0]).expect("it waits");
        cluster.members[0].wake(cluster.now, &mut cluster.network.port(CLIENT));
        cluster.collect(0);
    };
    let (member, after) = ("io3".to_owned(), ClientConfig::default().progress_timeout);
    assert_eq!(error, OperationError::TimedOut { member, after });
    assert!(cluster.now.since(Time::ZERO) < after + Duration::from_secs(5));
}

#[test]
fn a_cancelled_operation_frees_what_the_io_nodes_held_for_it() {
    let mut cluster = Cluster::new(1);
    let file = cluster.open(CLIENT, THREE, 100, OpenMode::Create);
    let data = Bytes::from(pattern(200_000, 1));
    let receipt = cluster
        .start(CLIENT, Write { file, durable: false, list: WriteList::new([(0, data)]).expect("possible") });
    for _ in 0..30 {
        cluster.step();
    }
    cluster.command(CLIENT, Command::Cancel(cluster.last_operation()));
    cluster.collect(0);
    assert_eq!(cluster.result(receipt), Err(OperationError::Cancelled));
    cluster.assert_quiet();
}

#[test]
fn many_operations_share_few_streams_and_all_end() {
    let mut cluster = Cluster::new(1);
    cluster.network.max_streams = 3;
    let file = cluster.open(CLIENT, THREE, 10, OpenMode::Create);
    cluster.write(file, &[(0, pattern(10_000, 1))]);
    let read = |i: u64| Read { file, list: ReadList::new([(i * 50, 500)]).expect("possible") };
    let receipts: Vec<_> = (0..150).map(|i| cluster.start(CLIENT, read(i))).collect();
    for (i, receipt) in receipts.into_iter().enumerate() {
        let expected = &pattern(10_000, 1)[i * 50..i * 50 + 500];
        assert_eq!(cluster.result(receipt).expect("data").into_vec(), [expected]);
    }
    cluster.assert_quiet();
}

#[test]
fn what_cannot_be_is_refused_at_once() {
    let mut cluster = Cluster::new(1);
    let error = cluster.call(open("io1,a;io9,a", 5, OpenMode::Create)).expect_err("unknown");
    assert_eq!(error.to_string(), "the overlay has no member \"io9\"");
    let error = cluster.call(open("client,a", 5, OpenMode::Create)).expect_err("itself");
    assert!(matches!(error, OperationError::Connect { .. }), "{error}");
    let error = cluster.call(open("other,a", 5, OpenMode::Create)).expect_err("serves nothing");
    assert_eq!(error.to_string(), "other,a: this member is no I/O node");
    let file = cluster.open(CLIENT, THREE, 5, OpenMode::Create);
    let much = ReadList::new([(0, 1 << 60)]).expect("possible");
    let error = cluster.call(Read { file, list: much }).expect_err("no memory");
    assert!(matches!(error, OperationError::List(ListError::TooLarge { .. })));
    assert!(matches!(cluster.call(SetLength { file, length: 1 << 63 }), Err(OperationError::Range(_))));
    assert_eq!(cluster.call(Close { file }), Ok(()));
    assert_eq!(cluster.call(Stat { file }), Err(OperationError::NotOpen));
}

#[test]
fn a_write_to_a_file_that_somebody_else_has_cut_leaves_no_short_subfile() {
    for (offset, length) in [(500, 503), (1_000, 1_003), (1_010, 1_013), (3_000, 3_003)] {
        let mut cluster = Cluster::new(1);
        let file = cluster.open(CLIENT, THREE, 10, OpenMode::Create);
        cluster.write(file, &[(0, pattern(1_000, 1))]);
        let others = cluster.open(OTHER, THREE, 10, OpenMode::Existing);
        let receipt = cluster.start(OTHER, SetLength { file: others, length: 15 });
        assert_eq!(cluster.result(receipt), Ok(()));
        cluster.write(file, &[(offset, pattern(3, 2))]);
        assert_eq!(cluster.stat(file).structure(), Structure::Intact { length });
    }
}
