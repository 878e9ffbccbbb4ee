//! What strangers, neighbours on the wire, and relays can do: nothing but lose packets.

mod common;

use std::time::Duration;

use common::*;
use fec_transport::overlay::{InstanceId, MemberId, Peer};
use fec_transport::sim::{LinkSpec, World};
use fec_transport::{DatagramCounters, Ingress};

const MIB: u64 = 1 << 20;
/// Bytes of the hop header; the sealed body begins behind it.
const HEADER: usize = 24;

/// A world in which a transfer is under way, and the datagrams that the client has just sent to the relay.
fn captured() -> (World<Transfer>, Vec<Vec<u8>>) {
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

fn relay_counters(world: &World<Transfer>) -> DatagramCounters {
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

/// A copy of a datagram with another body and the same AEAD tag: where hop tags once did not look.
fn with_another_body(datagram: &[u8]) -> Vec<u8> {
    let mut copy = datagram.to_vec();
    copy[HEADER] ^= 1;
    copy
}

/// Packets that `from` has sent to its neighbour `to` and that have not arrived there.
fn held_up(world: &mut World<Transfer>, from: MemberId, to: MemberId) -> Vec<Vec<u8>> {
    world.cut(Duration::ZERO, from, to);
    world.run_for(MS);
    world.tap(from, to);
    world.run_for(50 * MS);
    let packets = world.take_tapped();
    assert!(packets.len() > 20, "{} packets were on the way", packets.len());
    packets
}

/// Gives a member copies of all packets, each with another body, before the packets themselves.
fn copies_come_first(world: &mut World<Transfer>, to: MemberId, packets: &[Vec<u8>]) {
    world.act(to, |now, node, _| {
        let copies = packets.iter().map(|packet| with_another_body(packet));
        for mut datagram in copies.chain(packets.iter().cloned()) {
            node.handle_datagram(now, &mut datagram);
        }
    });
}

#[test]
fn copies_with_another_body_that_come_first_displace_no_packet_at_a_relay() {
    // The relay's window once moved for the copies, so that the packets themselves counted as repeated: of 84 copies 84
    // were forwarded, and of 84 packets none.
    let (mut world, _) = captured();
    let (client, relay) = (world.member("client"), world.member("r1"));
    let packets = held_up(&mut world, client, relay);
    let (before, sent) = (relay_counters(&world), packets.len() as u64);
    copies_come_first(&mut world, relay, &packets);
    let after = relay_counters(&world);
    assert_eq!((after.forwarded - before.forwarded, after.replayed - before.replayed), (sent, 0));
    assert_eq!(after.bad_tag - before.bad_tag, sent);
}

#[test]
fn copies_with_another_body_that_come_first_displace_no_packet_at_the_end() {
    let (mut world, _) = captured();
    let (relay, server) = (world.member("r1"), world.member("server"));
    let packets = held_up(&mut world, relay, server);
    let dropped = |world: &World<Transfer>| {
        let node = world.node(server);
        let session = node.sessions().next().expect("one is open");
        node.session_status(session).expect("it is open").dropped
    };
    let before = dropped(&world);
    copies_come_first(&mut world, server, &packets);
    // The copies do not open, and every packet itself does, which it would not if they had moved the window.
    assert_eq!(dropped(&world) - before, packets.len() as u64);
}

#[test]
fn a_bystander_who_is_first_on_every_link_does_not_end_a_session() {
    let link = LinkSpec::new(20, 10 * MS);
    let mut world = world(&parallel_paths(1, &link), 3);
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r1"));
    world.command(client, Send { to: server, length: 4 * MIB });
    world.run_for(SECOND);
    for end in [client, server] {
        world.precede(end, relay, with_another_body);
        world.precede(relay, end, with_another_body);
    }
    world.run_until(60 * SECOND, |world| !world.application(client).confirmed.is_empty());
    assert_eq!(world.application(client).closed, []);
    assert_eq!(world.application(client).confirmed, [4 * MIB]);
    let relay = relay_counters(&world);
    assert!(relay.bad_tag > 1_000, "the bystander was there: {relay:?}");
    assert_eq!(relay.replayed, 0);
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
        let from = Peer { member: client, instance: InstanceId(1) };
        let from = node.overlay().adjacency(relay, from).expect("they are neighbours");
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
    let (mut world, _) = captured();
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r1"));
    let connected = |node: &fec_transport::Node, member| {
        node.neighbours().filter(|neighbour| neighbour.is_up && neighbour.peer.member == member).count()
    };
    world.act(relay, |now, node, _| {
        let over_link = |node: &fec_transport::Node, member, instance| {
            let peer = Peer { member, instance: InstanceId(instance) };
            node.overlay().adjacency(relay, peer).expect("they are neighbours")
        };
        for instance in 1_000..5_000 {
            node.neighbour_up(now, over_link(node, client, instance));
        }
        assert!((1_000..=1_024).contains(&connected(node, client)), "{}", connected(node, client));
        node.neighbour_up(now, over_link(node, server, 9_999));
        assert!(node.neighbours().any(|one| one.is_up && one.peer.instance == InstanceId(9_999)));
    });
}
