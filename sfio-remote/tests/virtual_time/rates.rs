//! The network is the limit: what one client writes and reads fills its links, however long they are.

use std::time::Duration;

use bytes::Bytes;
use fec_transport::sim::{LinkSpec, Scene};
use sfio_remote::client::operations::{Read, Write};
use sfio_remote::client::{OpenMode, Operation};
use sfio_remote::request::{ReadList, WriteList};

use crate::cluster::{Cluster, MS, SECOND, pattern};

const RATE_MBIT: u64 = 200;

/// What a file is written and read at after the paths have found their rates, as shares of what the link carries.
fn shares(delay: Duration, loss: f64) -> [f64; 2] {
    let link = LinkSpec::new(RATE_MBIT, delay).with_loss(loss);
    let scene = Scene::new().client("c1").server("io1").link("c1", "io1", &link);
    let mut cluster = Cluster::new(&scene, 1);
    let file = cluster.open("c1", "io1,a", 65_536, OpenMode::Create);
    let data = Bytes::from(pattern(100_000_000, 1));
    let length = data.len() as u64;
    let payload = fec_transport::payload_share(fec_transport::Config::default().coding.symbol_size);
    let limit = RATE_MBIT as f64 * 1e6 / 8.0 * (1.0 - loss) * payload;
    let list = || WriteList::new([(0, data.clone())]).expect("possible");
    let write = second_rate(&mut cluster, length, || Write { file, durable: false, list: list() });
    let list = || ReadList::new([(0, length)]).expect("possible");
    let read = second_rate(&mut cluster, length, || Read { file, list: list() });
    [write / limit, read / limit]
}

/// The rate of the second of two operations that move `length` bytes each, in bytes per second.
fn second_rate<O: Operation>(cluster: &mut Cluster, length: u64, operation: impl Fn() -> O) -> f64 {
    let mut last = 0.0;
    for _ in 0..2 {
        let began = cluster.world().now();
        let receipt = cluster.start("c1", operation());
        cluster.result(&receipt, 120 * SECOND).expect("it ends").expect("it succeeds");
        last = length as f64 / cluster.world().now().since(began).as_secs_f64();
    }
    last
}

/// With windows of twice what the paths hold, the long way once got two fifths.
#[test]
fn short_and_long_ways_are_filled_in_both_directions() {
    for (delay, loss, least) in [(5, 0.02, 0.95), (20, 0.0, 0.9), (50, 0.0, 0.75), (100, 0.0, 0.6)] {
        let shares = shares(delay * MS, loss);
        println!("{delay} ms, loss {loss}: written and read at {shares:.2?} of what the link carries");
        assert!(shares.iter().all(|share| *share >= least), "{delay} ms, {loss}: {shares:.2?}");
    }
}

/// Each session pauses while the others are written to. None of them ever found out what its link carries: they went on
/// at 4 Mbit/s, 157 ms for each write.
#[test]
fn small_writes_one_after_the_other_find_the_rate_of_their_links() {
    let link = LinkSpec::new(100, 10 * MS);
    for io_nodes in [1, 3] {
        let names = ["io1", "io2", "io3"];
        let scene = names
            .iter()
            .fold(Scene::new().client("c1"), |scene, name| scene.server(name).link("c1", name, &link));
        let mut cluster = Cluster::new(&scene, 1);
        let name: Vec<String> = names[..io_nodes].iter().map(|name| format!("{name},a")).collect();
        let file = cluster.open("c1", &name.join(";"), 65_536, OpenMode::Create);
        let mut write = |number: u64| {
            let began = cluster.world().now();
            cluster.write("c1", file, vec![(number * 65_536, Bytes::from(pattern(65_536, number)))]);
            cluster.world().now().since(began)
        };
        let warm: Duration = (0..60).map(&mut write).sum();
        let later: Duration = (60..70).map(&mut write).sum();
        println!("{io_nodes} I/O nodes: {:?} a write, then {:?}", warm / 60, later / 10);
        // A round trip of 20 ms, and 5 ms for the bytes.
        assert!(later / 10 < 32 * MS, "{io_nodes} I/O nodes: {:?} a write", later / 10);
    }
}
