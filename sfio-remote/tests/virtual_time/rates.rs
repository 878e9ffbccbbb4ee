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
    let limit = RATE_MBIT as f64 * 1e6 / 8.0 * (1.0 - loss) * 1_408.0 / 1_496.0;
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
