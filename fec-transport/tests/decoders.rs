//! Every decoder of the transport takes any bytes: none makes it panic, or take more memory than their length allows.
//!
//! By default each gets some thousand inputs. `DECODER_SECONDS=600 cargo test --release --workspace --test decoders --
//! --nocapture` gives each ten minutes of them, `DECODER=body` chooses one. The fuzz targets of fec-transport/fuzz do
//! the same with a compiler's help.

mod common;
#[path = "decoders/trial.rs"]
mod trial;

use std::path::Path;

use common::*;
use fec_transport::fuzzing;
use fec_transport::overlay::{InstanceId, Peer};
use fec_transport::sim::LinkSpec;
use trial::try_decoder;

type Decoder = fn(&[u8]);

/// The seeds of a fuzz target.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    files.map(|file| std::fs::read(file.expect("listed").path()).expect("readable")).collect()
}

/// What comes to a node: datagrams from anybody, and control messages from a neighbour, which it may answer.
fn try_node() {
    let mut world = world(&parallel_paths(1, &LinkSpec::new(20, 5 * MS)), 1);
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r1"));
    world.command(client, Send { to: server, length: 1 << 20 });
    world.tap(client, relay);
    world.run_for(SECOND);
    let mut datagrams = world.take_tapped();
    datagrams.truncate(64);
    let from = Peer { member: client, instance: InstanceId(1) };
    let from = world.overlay().adjacency(relay, from).expect("they are neighbours");
    let mut buffer = Vec::new();
    world.act(relay, |now, node, _| {
        let mut own = Vec::with_capacity(8_192);
        try_decoder("datagrams", datagrams, |input| {
            own.clear();
            own.extend_from_slice(input);
            node.handle_datagram(now, &mut own);
            while node.poll_transmit(now, &mut buffer).is_some() {
                buffer.clear();
            }
        });
        try_decoder("control", seeds("control_message"), |input| {
            node.handle_control(now, from, input);
            while node.poll_control().is_some() {}
            // As a driver does: answers to challenges wait for it, 4,096 at most.
            while node.poll_challenge_answer().is_some() {}
        });
    });
}

#[test]
fn no_bytes_make_a_decoder_panic_or_take_more_memory_than_their_length_allows() {
    let decoders: [(&str, Decoder); 8] = [
        ("control_message", fuzzing::control_message),
        ("set_up", fuzzing::set_up),
        ("payload", fuzzing::payload),
        ("hop_header", fuzzing::hop_header),
        ("body", fuzzing::body),
        ("stream_control", fuzzing::stream_control),
        ("message_frames", fuzzing::message_frames),
        ("overlay", fuzzing::overlay),
    ];
    for (name, decode) in decoders {
        try_decoder(name, seeds(name), decode);
    }
    try_node();
}
