//! Whole systems in virtual time: striped files over a lossy overlay of many paths, with links that die, relays that
//! crash and I/O nodes that go away. A run is a function of its seed.

mod cluster;
mod compression;
mod hostile;
mod neighbours;
mod rates;
mod scaling;

use bytes::Bytes;
use cluster::{Cluster, MS, SECOND, overlay, pattern};
use proptest::prelude::*;
use sfio_remote::client::operations::{Read, Sync, Write};
use sfio_remote::client::{OpenMode, OperationError};
use sfio_remote::distribution::Structure;
use sfio_remote::request::{ReadList, WriteList};

const TWO: &str = "io1,/tmp/a.dat;io2,/tmp/a.dat;";
const THREE: &str = "io1,a;io2,a;io3,a;";

#[test]
fn hello_world_lies_on_the_disks_as_in_the_paper() {
    let mut cluster = Cluster::new(&overlay(20), 1);
    let file = cluster.open("c1", TWO, 5, OpenMode::Create);
    cluster.write("c1", file, vec![(0, Bytes::from_static(b"Hello World"))]);
    assert_eq!(cluster.subfile("io1", "tmp/a.dat"), Some(b"Hellod".to_vec()));
    assert_eq!(cluster.subfile("io2", "tmp/a.dat"), Some(b" Worl".to_vec()));
    assert_eq!(cluster.read("c1", file, vec![(0, 100)]), ["Hello World"]);
}

#[test]
fn three_writers_at_once_lie_on_the_disks_as_in_the_paper() {
    let mut cluster = Cluster::new(&overlay(20), 2);
    let files = ["c1", "c2", "c3"].map(|client| (client, cluster.open(client, TWO, 5, OpenMode::Create)));
    let writes: Vec<_> = (0..)
        .zip(files)
        .map(|(index, (client, file))| {
            let list =
                WriteList::new([(13 * index, Bytes::from_static(b"Hello*World!*"))]).expect("possible");
            cluster.start(client, Write { file, list, durable: false })
        })
        .collect();
    writes.into_iter().for_each(|receipt| assert_eq!(cluster.result(&receipt, 10 * SECOND), Some(Ok(()))));
    assert_eq!(cluster.subfile("io1", "tmp/a.dat"), Some(b"Hellod!*Heorld!o*Wor".to_vec()));
    assert_eq!(cluster.subfile("io2", "tmp/a.dat"), Some(b"*Worlllo*W*Hellld!*".to_vec()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn random_lists_read_what_a_file_in_memory_has(
        seed: u64,
        unit in prop_oneof![1_u64..64, 1_u64..65_537],
        lists in prop::collection::vec(prop::collection::vec((0_u64..200_000, prop_oneof![1_u64..50, 1_u64..60_000]), 1..8), 1..5),
    ) {
        let mut cluster = Cluster::new(&overlay(50), seed);
        let file = cluster.open("c1", "io1,a;io2,a;io3,a;io1,b", unit, OpenMode::Create);
        let mut expected = Vec::new();
        for (number, list) in lists.iter().enumerate() {
            let mut pieces = Vec::new();
            for (index, (offset, length)) in list.iter().enumerate() {
                let data = pattern(*length, (number * 100 + index) as u64);
                let end = (offset + length) as usize;
                expected.resize(expected.len().max(end), 0);
                expected[*offset as usize..end].copy_from_slice(&data);
                pieces.push((*offset, Bytes::from(data)));
            }
            cluster.write("c1", file, pieces);
        }
        let length = expected.len() as u64;
        // Another process, which knows nothing but the name and the stripe unit.
        let file = cluster.open("c2", "io1,a;io2,a;io3,a;io1,b", unit, OpenMode::Existing);
        prop_assert_eq!(cluster.stat("c2", file).structure(), Structure::Intact { length });
        for list in lists.into_iter().chain([vec![(0, length + 5)]]) {
            let read = cluster.read("c2", file, list.clone());
            for ((offset, length), bytes) in list.into_iter().zip(read) {
                let end = expected.len().min((offset + length) as usize);
                prop_assert_eq!(&bytes, &expected[offset as usize..end]);
            }
        }
    }
}

/// Writes and reads back 4 MiB while a link dies and comes back and a relay crashes and restarts; gives the trace.
fn a_run_with_faults(seed: u64) -> String {
    let mut cluster = Cluster::new(&overlay(20), seed);
    let file = cluster.open("c1", THREE, 1_000, OpenMode::Create);
    let (client, relay, other) =
        (cluster.world().member("c1"), cluster.world().member("r2"), cluster.world().member("r3"));
    cluster.world_mut().cut(150 * MS, client, relay);
    cluster.world_mut().restore(2_500 * MS, client, relay);
    cluster.world_mut().crash(300 * MS, other);
    cluster.world_mut().restart(3_000 * MS, other);
    let data = Bytes::from(pattern(4 << 20, seed));
    cluster.write("c1", file, vec![(0, data.clone())]);
    cluster.call("c1", Sync { file });
    let file = cluster.open("c3", THREE, 1_000, OpenMode::Existing);
    assert_eq!(cluster.read("c3", file, vec![(0, 8 << 20)]), [data]);
    cluster.world().trace_hash()
}

#[test]
fn a_dying_link_and_a_crashing_relay_cost_no_byte_and_a_run_is_a_function_of_its_seed() {
    let first = a_run_with_faults(7);
    assert_eq!(first, a_run_with_faults(7));
    assert_ne!(first, a_run_with_faults(8));
}

/// The session waits, and no clock of a transfer runs: an outage once ended every operation after four seconds.
#[test]
fn a_write_and_a_read_go_on_by_themselves_after_outages_of_all_links() {
    for (outage, seed) in [(5, 11), (31, 12), (59, 13)] {
        let mut cluster = Cluster::new(&overlay(20), seed);
        let file = cluster.open("c1", THREE, 1_000, OpenMode::Create);
        let (data, client) = (Bytes::from(pattern(8 << 20, 3)), cluster.world().member("c1"));
        let cut = |cluster: &mut Cluster| {
            for relay in ["r2", "r3", "r4"].map(|name| cluster.world().member(name)) {
                cluster.world_mut().cut(SECOND, client, relay);
                cluster.world_mut().restore(SECOND * (1 + outage), client, relay);
            }
        };
        cut(&mut cluster);
        let began = cluster.world().now();
        let list = WriteList::new([(0, data.clone())]).expect("possible");
        let receipt = cluster.start("c1", Write { file, durable: false, list });
        assert_eq!(cluster.result(&receipt, SECOND * (outage + 10)), Some(Ok(())), "{outage} s");
        println!("{outage} s: written in {:?}", cluster.world().now().since(began));
        cut(&mut cluster);
        let list = ReadList::new([(0, 8 << 20)]).expect("possible");
        let receipt = cluster.start("c1", Read { file, list });
        // Paths whose outage begins before they have found their rates find them slowly afterwards.
        let read = cluster.result(&receipt, SECOND * (outage + 60)).expect("it ends").expect("it goes on");
        assert!(read.into_vec() == [data], "the bytes differ");
    }
}

#[test]
fn an_io_node_that_crashes_is_named_when_the_patience_ends_and_serves_again_after_its_restart() {
    let mut cluster = Cluster::new(&overlay(20), 3);
    let file = cluster.open("c1", THREE, 1_000, OpenMode::Create);
    let io2 = cluster.world().member("io2");
    cluster.world_mut().crash(300 * MS, io2);
    let data = Bytes::from(pattern(4 << 20, 3));
    let write =
        || Write { file, durable: false, list: WriteList::new([(0, data.clone())]).expect("possible") };
    let began = cluster.world().now();
    let receipt = cluster.start("c1", write());
    let error = cluster.result(&receipt, 80 * SECOND).expect("it ends").expect_err("io2 is gone");
    assert!(matches!(&error, OperationError::SessionClosed { member, .. } if member == "io2"), "{error}");
    assert!(cluster.world().now().since(began) < 66 * SECOND, "{error}");
    assert!(error.to_string().contains("nothing was heard from it for 60s; "), "{error}");
    cluster.world_mut().restart(MS, io2);
    cluster.world_mut().run_for(SECOND);
    assert!(matches!(cluster.stat("c1", file).structure(), Structure::Torn(_)), "it does not look whole");
    cluster.call("c1", write());
    assert_eq!(cluster.read("c1", file, vec![(0, 4 << 20)]), [data]);
}

#[test]
fn many_files_at_once_all_arrive() {
    let mut cluster = Cluster::new(&overlay(50), 4);
    let contents: Vec<Bytes> = (0..40_u64).map(|i| Bytes::from(pattern(i * i * 60, i))).collect();
    let names: Vec<String> = (0..contents.len()).map(|i| format!("io1,f{i};io2,f{i};io3,f{i};")).collect();
    let files: Vec<_> = names.iter().map(|name| cluster.open("c1", name, 777, OpenMode::Create)).collect();
    let write = |(file, data): (&_, &Bytes)| {
        let list = WriteList::new([(0, data.clone())]).expect("possible");
        cluster.start("c1", Write { file: *file, list, durable: false })
    };
    let receipts: Vec<_> = files.iter().zip(&contents).map(write).collect();
    receipts.into_iter().for_each(|receipt| assert_eq!(cluster.result(&receipt, 60 * SECOND), Some(Ok(()))));
    for (file, data) in files.into_iter().zip(contents) {
        assert_eq!(cluster.read("c1", file, vec![(0, 1 << 20)]), [data]);
    }
}

#[test]
fn a_slow_link_is_slow_and_nothing_times_out() {
    let mut cluster = Cluster::new(&overlay(1), 5);
    let file = cluster.open("c1", THREE, 65_536, OpenMode::Create);
    let list = WriteList::new([(0, Bytes::from(pattern(48 << 20, 5)))]).expect("possible");
    let receipt = cluster.start("c1", Write { file, list, durable: false });
    // More lies in the send buffers than the links carry in the half minute that a transfer may stand still.
    assert_eq!(cluster.result(&receipt, 400 * SECOND), Some(Ok(())));
}

/// A write whose reply has come is in the cache of the I/O node. When that is lost with the power, a sync over the next
/// session finds nothing to do there, and must not say that what was written is safe.
#[test]
fn a_sync_does_not_vouch_for_what_a_power_loss_has_taken_before_it() {
    let mut cluster = Cluster::new(&overlay(50), 7);
    let file = cluster.open("c1", THREE, 1_000, OpenMode::Create);
    cluster.call("c1", Sync { file });
    let data = pattern(30_000, 1);
    cluster.write("c1", file, vec![(0, Bytes::from(data.clone()))]);
    cluster.lose_power("io1", 0);
    let receipt = cluster.start("c1", Sync { file });
    let synced = cluster.result(&receipt, 60 * SECOND).expect("it ends in time");
    let read = cluster.read("c1", file, vec![(0, 30_000)]).remove(0);
    assert!(
        synced.is_err() || read == data,
        "it was told that all is safe, and {} bytes are there",
        read.len()
    );
}

/// What was synced is safe, and who wrote nothing since has nothing to lose. What is opened anew begins anew.
#[test]
fn a_restarted_io_node_is_no_matter_for_what_was_synced_before_and_for_a_file_that_is_opened_anew() {
    let mut cluster = Cluster::new(&overlay(50), 7);
    let file = cluster.open("c1", THREE, 1_000, OpenMode::Create);
    let write = |cluster: &mut Cluster, file, seed| {
        cluster.write("c1", file, vec![(0, Bytes::from(pattern(30_000, seed)))]);
    };
    write(&mut cluster, file, 1);
    cluster.call("c1", Sync { file });
    cluster.lose_power("io1", 0);
    write(&mut cluster, file, 2);
    cluster.call("c1", Sync { file });
    write(&mut cluster, file, 3);
    cluster.lose_power("io1", 0);
    for _ in 0..2 {
        let receipt = cluster.start("c1", Sync { file });
        let error =
            cluster.result(&receipt, 60 * SECOND).expect("it ends in time").expect_err("it may be lost");
        assert!(
            matches!(&error, OperationError::Restarted { subfile } if subfile.starts_with("io1,")),
            "{error}"
        );
        write(&mut cluster, file, 3);
    }
    let anew = cluster.open("c1", THREE, 1_000, OpenMode::Create);
    write(&mut cluster, anew, 3);
    cluster.call("c1", Sync { file: anew });
    assert_eq!(cluster.read("c1", anew, vec![(0, 30_000)]), [pattern(30_000, 3)]);
}

/// A write, whether a sync follows, and whether an I/O node loses its power after that: which one, and what survives of
/// its unsynced pages.
type Step = (u64, u64, bool, Option<(usize, u64)>);

fn any_step() -> impl Strategy<Value = Step> {
    (0_u64..100_000, 1_u64..30_000, any::<bool>(), prop::option::of((0_usize..3, any::<u64>())))
}

/// What must be in a file, byte by byte; none where it cannot be said, after a power loss.
#[derive(Default)]
struct Expectation {
    now: Vec<Option<u8>>,
    synced: Vec<Option<u8>>,
    /// Where another byte than the synced one was written since: a disk that loses its power may have it, also if what
    /// was written last happens to be the synced one again.
    unsure: Vec<bool>,
}

impl Expectation {
    fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset as usize + data.len();
        let length = self.now.len().max(end);
        self.now.resize(length, Some(0));
        self.unsure.resize(length, true);
        for (index, byte) in (offset as usize..end).zip(data) {
            self.now[index] = Some(*byte);
            self.unsure[index] |= self.synced.get(index) != Some(&Some(*byte));
        }
    }

    fn sync(&mut self) {
        self.synced.clone_from(&self.now);
        self.unsure.fill(false);
    }

    fn lose_power(&mut self) {
        for (byte, _) in self.now.iter_mut().zip(&self.unsure).filter(|(_, unsure)| **unsure) {
            *byte = None;
        }
    }

    fn wrong_bytes(&self, found: &[u8]) -> usize {
        let is_wrong =
            |(index, byte): &(usize, &Option<u8>)| byte.is_some() && **byte != found.get(*index).copied();
        self.now.iter().enumerate().filter(is_wrong).count()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_was_synced_survives_every_power_loss(seed: u64, unit in 1_u64..5_000, steps in prop::collection::vec(any_step(), 1..8)) {
        let mut cluster = Cluster::new(&overlay(50), seed);
        let mut file = cluster.open("c1", THREE, unit, OpenMode::Create);
        cluster.call("c1", Sync { file });
        // A file that was opened anew vouches for nothing that was written before.
        let (mut expectation, mut written, mut is_anew) = (Expectation::default(), Vec::new(), false);
        for (number, (offset, length, sync, power_loss)) in steps.into_iter().enumerate() {
            let data = pattern(length, number as u64);
            cluster.write("c1", file, vec![(offset, Bytes::from(data.clone()))]);
            expectation.write(offset, &data);
            written.resize(written.len().max(offset as usize + data.len()), 0);
            written[offset as usize..][..data.len()].copy_from_slice(&data);
            if sync {
                let receipt = cluster.start("c1", Sync { file });
                match cluster.result(&receipt, 60 * SECOND).expect("it ends in time") {
                    Ok(()) => {
                        let read = cluster.read("c1", file, vec![(0, 1 << 20)]).remove(0);
                        prop_assert!(is_anew || read == written, "a sync vouched for what was lost");
                        expectation.sync();
                    }
                    Err(OperationError::Restarted { .. }) => {
                        file = cluster.open("c1", THREE, unit, OpenMode::Create);
                        is_anew = true;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            if let Some((which, survives)) = power_loss {
                cluster.lose_power(["io1", "io2", "io3"][which], survives);
                expectation.lose_power();
            }
        }
        let read = cluster.read("c1", file, vec![(0, 1 << 20)]).remove(0);
        prop_assert_eq!(expectation.wrong_bytes(&read), 0);
    }
}
