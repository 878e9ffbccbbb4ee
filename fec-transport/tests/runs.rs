//! Datagrams that come together go on together, without a copy, and as if they had come one by one.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::*;
use fec_transport::overlay::MemberId;
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{DatagramCounters, Ecn, Event, Node, Read, Time, Transmit};

const MIB: u64 = 1 << 20;
/// Of datagrams, as many as the kernel joins.
const TOGETHER: usize = 44;
/// Of a datagram's header: where it goes.
const LABEL: std::ops::Range<usize> = 8..16;

/// What a relay sent, by neighbour, and what became of the datagrams.
type Sent = (BTreeMap<MemberId, Vec<Vec<u8>>>, DatagramCounters);

/// Cuts a link after a second, and gives the datagrams of full size that were sent over it in the time after that.
fn full_datagrams(world: &mut World<Transfer>, from: MemberId, to: MemberId) -> Vec<Vec<u8>> {
    world.run_for(SECOND);
    world.cut(Duration::ZERO, from, to);
    world.run_for(MS);
    world.tap(from, to);
    world.run_for(100 * MS);
    let mut datagrams = world.take_tapped();
    let full = datagrams.iter().map(Vec::len).max().expect("there are some");
    datagrams.retain(|datagram| datagram.len() == full);
    datagrams
}

/// A relay between a client and two servers, and full datagrams that are on their way to it: first some runs to one
/// server each, then some to both of them. One in each of the runs is damaged.
fn before_the_relay() -> (World<Transfer>, Vec<Vec<u8>>) {
    let link = LinkSpec::new(100, 10 * MS);
    let scene = Scene::new().client("client").relay("r1").server("one").server("other");
    let scene = scene.link("client", "r1", &link).link("r1", "one", &link).link("r1", "other", &link);
    let mut world = world(&scene, 1);
    let [client, relay, one, other] = ["client", "r1", "one", "other"].map(|name| world.member(name));
    for to in [one, other] {
        world.command(client, Send { to, length: 20 * MIB });
    }
    let mut datagrams = full_datagrams(&mut world, client, relay);
    datagrams.truncate(datagrams.len() / TOGETHER * TOGETHER);
    assert!(datagrams.len() >= 6 * TOGETHER, "{}", datagrams.len());
    let sorted = datagrams.len() / 2;
    datagrams[..sorted].sort_by_key(|datagram| datagram[LABEL].to_vec());
    datagrams.iter_mut().skip(TOGETHER - 4).step_by(TOGETHER).for_each(|datagram| datagram[100] ^= 1);
    (world, datagrams)
}

/// What the relay sends if `handle` gives it each run; `handle` puts down what is sent at once.
fn relayed(mut handle: impl FnMut(Time, &mut Node, Vec<u8>, usize, &mut dyn FnMut(Transmit, &[u8]))) -> Sent {
    let (mut world, datagrams) = before_the_relay();
    let relay = world.member("r1");
    world.act(relay, |now, node, _| {
        let mut sent: BTreeMap<MemberId, Vec<Vec<u8>>> = BTreeMap::new();
        let mut put = |transmit: Transmit, bytes: &[u8]| {
            let to = sent.entry(transmit.to.peer.member).or_default();
            to.extend(bytes.chunks(transmit.segment_size).map(<[u8]>::to_vec));
        };
        let mut buffer = Vec::new();
        for run in datagrams.chunks(TOGETHER) {
            handle(now, node, run.concat(), run[0].len(), &mut put);
            while let Some(transmit) = node.poll_transmit(now, &mut buffer) {
                put(transmit, &buffer);
                buffer.clear();
            }
        }
        (sent, node.datagram_counters())
    })
}

fn one_by_one() -> Sent {
    relayed(|now, node, mut run, size, _| {
        for datagram in run.chunks_mut(size) {
            node.handle_datagram(now, datagram);
        }
    })
}

/// What the relay sends if `takes` hears the number of datagrams of each run and says whether it is sent at once; and
/// the number of datagrams that were.
fn together(mut takes: impl FnMut(usize) -> bool) -> (Sent, usize) {
    let mut passed = 0;
    let sent = relayed(|now, node, mut run, size, put| {
        node.handle_run(now, Ecn::default(), size, &mut run, |transmit, bytes| {
            let datagrams = bytes.len() / size;
            let is_gone = takes(datagrams);
            if is_gone {
                passed += datagrams;
                put(transmit, bytes);
            }
            is_gone
        });
    });
    (sent, passed)
}

#[test]
fn what_comes_together_goes_on_in_its_order_whether_it_is_sent_at_once_or_waits() {
    let expected = one_by_one();
    let count: usize = expected.0.values().map(Vec::len).sum();
    assert!(expected.0.len() >= 2 && count > 5 * (TOGETHER - 1), "{count}");
    let mut turn = 0;
    let mut every_second = |_: usize| {
        turn += 1;
        turn % 2 == 0
    };
    let (all, none, some) = (together(|_| true), together(|_| false), together(&mut every_second));
    for (sent, passed) in [&all, &none, &some] {
        assert_eq!(sent, &expected, "{passed} of {count} were sent at once");
    }
    assert!(none.1 == 0 && 0 < some.1 && some.1 < all.1 && all.1 < count, "{} {} {count}", some.1, all.1);
}

#[test]
fn a_few_datagrams_wait_for_others_rather_than_for_a_call_of_the_socket_each() {
    let mut shortest = usize::MAX;
    together(|datagrams| {
        shortest = shortest.min(datagrams);
        true
    });
    assert!((TOGETHER / 2..TOGETHER).contains(&shortest), "{shortest}");
}

/// What a server tells and sends that gets datagrams of two clients in turns, in runs; `handle` gives it each run.
fn received(handle: impl Fn(Time, &mut Node, Vec<u8>, usize)) -> (Vec<Event>, Vec<Vec<u8>>) {
    let link = LinkSpec::new(100, 10 * MS);
    let scene = Scene::new().client("one").client("other").relay("r1").server("server");
    let scene = scene.link("one", "r1", &link).link("other", "r1", &link).link("r1", "server", &link);
    let mut world = world(&scene, 1);
    let [one, other, relay, server] = ["one", "other", "r1", "server"].map(|name| world.member(name));
    for client in [one, other] {
        world.command(client, Send { to: server, length: 20 * MIB });
    }
    let datagrams = full_datagrams(&mut world, relay, server);
    let labels: BTreeSet<&[u8]> = datagrams.iter().map(|datagram| &datagram[LABEL]).collect();
    assert!(labels.len() == 2 && datagrams.len() >= 6 * TOGETHER, "{} of {}", labels.len(), datagrams.len());
    world.act(server, |now, node, _| {
        let (mut events, mut sent, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
        for run in datagrams.chunks(TOGETHER) {
            handle(now, node, run.concat(), run[0].len());
            events.extend(std::iter::from_fn(|| node.poll_event()));
            while let Some(transmit) = node.poll_transmit(now, &mut buffer) {
                sent.extend(buffer.chunks(transmit.segment_size).map(<[u8]>::to_vec));
                buffer.clear();
            }
        }
        (events, sent)
    })
}

#[test]
fn what_comes_together_is_received_as_if_it_had_come_one_by_one() {
    let one_by_one = received(|now, node, mut run, size| {
        for datagram in run.chunks_mut(size) {
            node.handle_datagram(now, datagram);
        }
    });
    let together = received(|now, node, mut run, size| {
        node.handle_run(now, Ecn::default(), size, &mut run, |_, _| false);
    });
    let readable = |event: &&Event| matches!(event, Event::Readable { .. });
    assert!(one_by_one.0.iter().filter(readable).count() > 0 && !one_by_one.1.is_empty());
    assert_eq!(together, one_by_one);
}

/// A session that ended while the application had not yet heard of what had come before, as under load, took that with
/// it, although its sender had been told that it had arrived.
#[test]
fn what_came_before_the_goodbye_can_be_read_until_the_end_is_told() {
    let link = LinkSpec::new(100, 10 * MS);
    let mut world = world(&Scene::new().client("client").server("server").link("client", "server", &link), 1);
    let [client, server] = ["client", "server"].map(|name| world.member(name));
    world.command(client, Send { to: server, length: MIB });
    world.run_for(SECOND);
    world.cut(Duration::ZERO, client, server);
    world.run_for(MS);
    world.tap(client, server);
    let message: Vec<u8> = (0..3_000).map(byte_at).collect();
    let session = world.application(client).opened[0];
    world.act(client, |now, node, _| {
        let stream = node.open_stream(session).expect("the session is open");
        assert_eq!(node.write(now, stream, &message), Ok(message.len()));
        node.finish(now, stream).expect("the stream is open");
    });
    world.run_for(5 * MS);
    world.act(client, |now, node, _| node.close(now, session, "that was all"));
    world.run_for(5 * MS);
    let datagrams = world.take_tapped();
    world.act(server, |now, node, _| {
        for mut datagram in datagrams {
            node.handle_datagram(now, &mut datagram);
        }
        let (mut read, mut last) = (Vec::new(), None);
        while let Some(event) = node.poll_event() {
            if let Event::Readable { stream } = event {
                while let Ok(Read::Data { bytes, .. }) = node.read(now, stream, usize::MAX) {
                    read.extend_from_slice(&bytes);
                }
            }
            last = Some(event);
        }
        assert!(matches!(last, Some(Event::SessionClosed { .. })), "{last:?}");
        assert!(read == message, "{} bytes of {}", read.len(), message.len());
        assert_eq!((node.sessions().count(), node.table_sizes().0), (0, 0));
    });
}
