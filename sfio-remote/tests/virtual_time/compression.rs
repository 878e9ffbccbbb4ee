//! Compression on the wire, where the network is slow and processors have nothing else to do.

use bytes::Bytes;
use fec_transport::sim::{LinkSpec, Scene};
use sfio_remote::client::OpenMode;
use sfio_remote::client::operations::{Read, Write};
use sfio_remote::compression::Compression;
use sfio_remote::request::{ReadList, WriteList};

use crate::cluster::{Cluster, MS, SECOND};

const BYTES: u64 = 20_000_000;

/// Lines of which each is new, and whose words are not.
fn text() -> Bytes {
    let line = |number: u64| {
        format!("{number}: the block {} is on the disk of io{}\n", number * 7_919 % 10_007, number % 3)
    };
    let mut text: Vec<u8> = (0..BYTES / 30).flat_map(|number| line(number).into_bytes()).collect();
    text.truncate(BYTES as usize);
    text.into()
}

/// How many seconds it takes to write `data` over 100 Mbit/s, and to read it again.
fn seconds(data: &Bytes, compression: Compression) -> [f64; 2] {
    let link = LinkSpec::new(100, 5 * MS);
    let scene = Scene::new().client("c1").server("io1").link("c1", "io1", &link);
    let mut cluster = Cluster::new(&scene, 1);
    let file = cluster.open_compressing("c1", ("io1,a", 65_536), OpenMode::Create, compression);
    let list = WriteList::new([(0, data.clone())]).expect("possible");
    let began = cluster.world().now();
    let receipt = cluster.start("c1", Write { file, list, durable: false });
    cluster.result(&receipt, 120 * SECOND).expect("it ends").expect("it succeeds");
    let written = cluster.world().now();
    assert_eq!(cluster.subfile("io1", "a").as_deref(), Some(&data[..]), "it is raw on the disk");
    let list = ReadList::new([(0, data.len() as u64)]).expect("possible");
    let receipt = cluster.start("c1", Read { file, list });
    let read = cluster.result(&receipt, 120 * SECOND).expect("it ends").expect("it succeeds");
    assert_eq!(read.into_vec(), std::slice::from_ref(data));
    [written.since(began), cluster.world().now().since(written)].map(|time| time.as_secs_f64())
}

#[test]
fn text_arrives_sooner_and_what_does_not_shrink_as_soon_as_ever() {
    let never = seconds(&text(), Compression::Never);
    let auto = seconds(&text(), Compression::Auto);
    assert!(auto.iter().zip(&never).all(|(auto, never)| *auto < 0.5 * never), "{auto:.2?} {never:.2?}");
    let noise = noise();
    let never = seconds(&noise, Compression::Never);
    let auto = seconds(&noise, Compression::Auto);
    assert!(auto.iter().zip(&never).all(|(auto, never)| *auto < 1.05 * never), "{auto:.2?} {never:.2?}");
}

/// Bytes that do not shrink.
fn noise() -> Bytes {
    let mut state = 1_u64;
    let byte = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..BYTES).map(byte).collect()
}
