//! Every decoder of the transport takes any bytes: none makes it panic, or take more memory than their length allows.
//!
//! By default each gets some thousand inputs. `DECODER_SECONDS=600 cargo test --release --workspace --test decoders --
//! --nocapture` gives each ten minutes of them, `DECODER=body` chooses one. The fuzz targets of fec-transport/fuzz do
//! the same with a compiler's help.

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::*;
use fec_transport::fuzzing::{self, Mutator};
use fec_transport::overlay::{InstanceId, Peer};
use fec_transport::sim::LinkSpec;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// What an input of so many bytes may take at once; the largest factor is that of text, whose values are small.
fn bound(length: usize) -> usize {
    (64 << 10) + 200 * length
}

/// Inputs of each decoder where nobody asks for a time.
const ROUNDS: u64 = 3_000;
/// What may be left in the end, for all inputs together.
const LEFT: usize = 64 << 10;

/// For how long each decoder is to be tried, if somebody says so: `DECODER_SECONDS=600`.
fn asked_time() -> Option<Duration> {
    let seconds = std::env::var("DECODER_SECONDS").ok()?;
    let seconds =
        seconds.parse().unwrap_or_else(|_| panic!("DECODER_SECONDS is {seconds}; expected a number"));
    Some(Duration::from_secs(seconds))
}

/// Whether that decoder is asked for: all are, unless `DECODER` names one.
fn is_asked(name: &str) -> bool {
    std::env::var("DECODER").map_or(true, |asked| asked == name)
}

/// Gives a decoder inputs; it must not panic, nor take or keep more memory than an input of that length may.
#[expect(clippy::disallowed_methods, reason = "whoever asks for a time gets it")]
fn try_decoder(name: &str, seeds: Vec<Vec<u8>>, mut decode: impl FnMut(&[u8])) {
    if !is_asked(name) {
        return;
    }
    let (began, mut rounds, mut peak) = (Instant::now(), 0_u64, 0);
    let mut mutator = Mutator::new(seeds, asked_time().map_or(1, |_| u64::from(std::process::id())));
    mutator.next_input();
    let at_start = ALLOCATED.current_usage();
    let is_over = |rounds: u64| match asked_time() {
        Some(time) => rounds.is_multiple_of(64) && began.elapsed() >= time,
        None => rounds >= ROUNDS,
    };
    while !is_over(rounds) {
        let input = mutator.next_input();
        let before = ALLOCATED.current_usage();
        ALLOCATED.reset_peak_usage();
        decode(input);
        let taken = ALLOCATED.peak_usage().saturating_sub(before);
        assert!(taken <= bound(input.len()), "{name}: {taken} bytes for {input:02x?}");
        peak = peak.max(taken);
        rounds += 1;
    }
    let left = ALLOCATED.current_usage().saturating_sub(at_start);
    println!("{name}: {rounds} inputs in {:?}, at most {peak} bytes at once, {left} left", began.elapsed());
    assert!(left <= LEFT, "{name} kept {left} bytes");
}

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
    let decoders: [(&str, Decoder); 7] = [
        ("control_message", fuzzing::control_message),
        ("set_up", fuzzing::set_up),
        ("payload", fuzzing::payload),
        ("hop_header", fuzzing::hop_header),
        ("body", fuzzing::body),
        ("stream_control", fuzzing::stream_control),
        ("overlay", fuzzing::overlay),
    ];
    for (name, decode) in decoders {
        try_decoder(name, seeds(name), decode);
    }
    try_node();
}
