//! Whole transfers in virtual time.

mod common;

use common::*;
use fec_transport::sim::LinkSpec;

#[test]
fn a_stream_arrives_over_one_clean_path() {
    let link = LinkSpec::new(50, 10 * MS);
    let mut world = world(&parallel_paths(1, &link), 1);
    let took = transfer(&mut world, 10 << 20, 60 * SECOND).expect("it ends");
    println!("took {took:?}: {:.1} Mbit/s", (10 << 20) as f64 * 8e-6 / took.as_secs_f64());
}

#[test]
fn a_stream_arrives_over_three_lossy_paths() {
    let link = LinkSpec::new(50, 10 * MS).with_loss(0.02);
    let mut world = world(&parallel_paths(3, &link), 2);
    let took = transfer(&mut world, 30 << 20, 60 * SECOND).expect("it ends");
    println!("took {took:?}: {:.1} Mbit/s", (30 << 20) as f64 * 8e-6 / took.as_secs_f64());
    let client = world.member("client");
    let session = world.node(client).sessions().next().unwrap();
    for path in world.node(client).session_status(session).unwrap().paths {
        println!("{path:?}");
    }
}
