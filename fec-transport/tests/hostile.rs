//! What strangers, neighbours on the wire, and relays can do: nothing but lose packets.

mod common;

use common::*;
use fec_transport::sim::LinkSpec;
use fec_transport::{DatagramCounters, Ingress};

const MIB: u64 = 1 << 20;

/// A world in which a transfer is under way, and the datagrams that the client has just sent to the relay.
fn captured() -> (fec_transport::sim::World<Transfer>, Vec<Vec<u8>>) {
    let link = LinkSpec::new(20, 10 * MS);
    let mut world = world(&parallel_paths(1, &link), 1);
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r1"));
    world.command(client, Send { to: server, length: 20 * MIB });
    world.run_for(SECOND);
    world.tap(client, relay);
    world.run_for(100 * MS);
    let datagrams = world.take_tapped();
    assert!(datagrams.len() > 50);
    world.run_for(50 * MS);
    (world, datagrams)
}

fn relay_counters(world: &fec_transport::sim::World<Transfer>) -> DatagramCounters {
    world.node(world.member("r1")).datagram_counters()
}

#[test]
fn a_stranger_on_the_data_plane_meets_silence() {
    let (mut world, _) = captured();
    let relay = world.member("r1");
    let before = relay_counters(&world);
    for length in [0, 1, 23, 24, 25, 40, 41, 100, 1468, 9000] {
        world.act(relay, |now, node, _| {
            let mut buffer = Vec::new();
            while node.poll_transmit(now, &mut buffer).is_some() {
                buffer.clear();
            }
            for first in 0..4 {
                let mut datagram: Vec<u8> = (0..length).map(byte_at).collect();
                if let Some(kind) = datagram.first_mut() {
                    *kind = first;
                }
                assert_eq!(node.handle_datagram(now, &mut datagram), Ingress::Consumed);
            }
            assert_eq!(node.poll_transmit(now, &mut buffer), None, "nothing is answered or forwarded");
            assert_eq!(node.poll_control(), None);
        });
    }
    let after = relay_counters(&world);
    assert_eq!(after.malformed + after.unknown_label - before.malformed - before.unknown_label, 40);
    assert_eq!(after.forwarded, before.forwarded);
}

#[test]
fn replays_and_captured_labels_with_other_bodies_are_not_forwarded() {
    let (mut world, datagrams) = captured();
    let (relay, before) = (world.member("r1"), relay_counters(&world));
    world.act(relay, |now, node, _| {
        for datagram in &datagrams {
            node.handle_datagram(now, &mut datagram.clone());
            let mut other_body = datagram.clone();
            let end = other_body.len();
            other_body[end - 1] ^= 1;
            node.handle_datagram(now, &mut other_body);
            let mut other_number = datagram.clone();
            other_number[7] ^= 0x40;
            node.handle_datagram(now, &mut other_number);
        }
    });
    let after = relay_counters(&world);
    assert_eq!(after.forwarded, before.forwarded);
    assert_eq!(after.replayed - before.replayed, datagrams.len() as u64);
    assert_eq!(after.bad_tag - before.bad_tag, 2 * datagrams.len() as u64);
}

#[test]
fn damaged_packets_never_become_wrong_bytes() {
    let link = LinkSpec::new(20, 10 * MS);
    let mut world = world(&parallel_paths(2, &link), 2);
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r1"));
    world.command(client, Send { to: server, length: 8 * MIB });
    for round in 0..200usize {
        world.tap(relay, server);
        world.run_for(20 * MS);
        for (index, mut datagram) in world.take_tapped().into_iter().enumerate() {
            let place = (round * 31 + index * 7) % datagram.len();
            datagram[place] ^= 1 << (index % 8);
            world.inject(relay, server, datagram);
        }
    }
    assert!(world.run_until(60 * SECOND, |world| !world.application(client).confirmed.is_empty()));
    assert_eq!(world.application(server).wrong_bytes, 0);
    assert_eq!(world.application(client).closed, [], "damage on the way does not end a session");
}

#[test]
fn garbage_on_the_control_plane_is_dropped() {
    let (mut world, _) = captured();
    let (client, relay) = (world.member("client"), world.member("r1"));
    let sizes = world.node(relay).table_sizes();
    world.act(relay, |now, node, _| {
        let from =
            fec_transport::overlay::Peer { member: client, instance: fec_transport::overlay::InstanceId(1) };
        for length in 0..300u64 {
            for kind in 0..9 {
                let mut message: Vec<u8> = (length..2 * length).map(byte_at).collect();
                message.insert(0, kind);
                node.handle_control(now, from, &message);
            }
        }
    });
    assert_eq!(world.node(relay).table_sizes(), sizes);
    world.run_for(SECOND);
    assert_eq!(world.application(client).closed, []);
}

/// All 1,024 places for connected processes could once be taken under one key, and nobody else connected.
#[test]
fn a_member_that_connects_as_many_processes_as_it_can_leaves_places_to_others() {
    use fec_transport::overlay::{InstanceId, Peer};
    let (mut world, _) = captured();
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r1"));
    let connected = |node: &fec_transport::Node, member| {
        node.neighbours().filter(|neighbour| neighbour.is_up && neighbour.peer.member == member).count()
    };
    world.act(relay, |now, node, _| {
        for instance in 1_000..5_000 {
            node.neighbour_up(now, Peer { member: client, instance: InstanceId(instance) });
        }
        assert!((1_000..=1_024).contains(&connected(node, client)), "{}", connected(node, client));
        node.neighbour_up(now, Peer { member: server, instance: InstanceId(9_999) });
        assert!(node.neighbours().any(|one| one.is_up && one.peer.instance == InstanceId(9_999)));
    });
}
