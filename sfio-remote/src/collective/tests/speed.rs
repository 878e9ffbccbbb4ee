//! What the rounds are for, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::*;
use super::world::{File, Pace, World};
use crate::distribution::StripeUnit;
use crate::request::WriteList;

/// How long four ranks take that write 8 MiB in all, record by record in turns, where the file takes as long as the
/// exchange.
fn elapsed(double_buffering: bool) -> (Duration, Report) {
    const RANKS: u64 = 4;
    const RECORD: u64 = 8_192;
    let name = "io1,a;io2,a;io3,a;io4,a;".parse().expect("a right name");
    let shape = Arc::new(FileShape::new(&name, StripeUnit::DEFAULT).expect("few subfiles"));
    let job = |rank: u64| {
        let pieces =
            (0..256).map(|i| ((i * RANKS + rank) * RECORD, Bytes::from(vec![rank as u8; RECORD as usize])));
        vec![Job::Write(Arc::clone(&shape), WriteList::new(pieces).expect("possible"))]
    };
    let file = File::new(*shape.distribution(), &[]);
    // Three quarters of what an aggregator writes come from others.
    let pace = Pace { latency: 10..20, message_rate: 7.5, file_rate: 10.0, file_latency: 10..20 };
    let config = CollectiveConfig {
        buffer_bytes: 256 << 10,
        double_buffering,
        when: When::Always,
        ..CollectiveConfig::default()
    };
    let mut world = World::new(5, pace, config, file, (0..RANKS).map(job).collect());
    let mut results = world.run();
    let (_, report) = results.remove(0).remove(0).expect("it succeeds");
    (world.ended_at(Rank(0)), report)
}

#[test]
fn two_buffers_save_a_quarter_at_least_where_file_and_exchange_take_as_long() {
    let ((one, serial), (two, overlapped)) = (elapsed(false), elapsed(true));
    let [exchange, file] =
        [Stage::Exchange, Stage::File].map(|stage| serial.stages[stage as usize].as_secs_f64());
    assert!((0.7..1.4).contains(&(exchange / file)), "they take as long: {exchange} s and {file} s");
    let saved = 1.0 - two.as_secs_f64() / one.as_secs_f64();
    println!("one buffer {one:?}, two {two:?}: {:.1} % saved; {serial:?}; {overlapped:?}", 100.0 * saved);
    assert!(saved >= 0.25, "{saved}");
    assert_eq!((serial.rounds, overlapped.rounds), (8, 8));
}
