//! A client without an address in the overlay file: until its neighbour knows where it is, nothing reaches it.

#[path = "common/two_members.rs"]
mod two_members;

use std::time::Duration;

use fec_transport::overlay::{Adjacency, InstanceId, LinkId, MemberId, Peer};
use fec_transport::{Config, Event, Ingress, Node, Randomness, Time};
use two_members::{identity, overlay};

const CLIENT: Peer = Peer { member: MemberId(0), instance: InstanceId(1) };
const SERVER: Peer = Peer { member: MemberId(1), instance: InstanceId(0) };
/// What one way takes.
const STEP: Duration = Duration::from_millis(5);

/// One of the two ends, with what is on its way to it.
struct End {
    node: Node,
    other: Adjacency,
    control: Vec<Vec<u8>>,
    datagrams: Vec<Vec<u8>>,
}

impl End {
    fn new(name: &str, own: Peer, other: Peer, now: Time) -> End {
        let seed = *blake3::hash(name.as_bytes()).as_bytes();
        let (config, random) = (Config::default(), Randomness::Seed(seed));
        let mut node = Node::new(overlay(), identity(name), own.member, own.instance, config, random, now)
            .expect("right");
        let other = Adjacency { link: LinkId(0), peer: other };
        node.neighbour_up(now, other);
        End { node, other, control: Vec::new(), datagrams: Vec::new() }
    }

    /// Takes what has arrived; says whether there was a greeting.
    fn take(&mut self, now: Time) -> bool {
        for message in std::mem::take(&mut self.control) {
            self.node.handle_control(now, self.other, &message);
        }
        let datagrams = std::mem::take(&mut self.datagrams);
        let greets = |mut datagram: Vec<u8>| {
            matches!(self.node.handle_datagram(now, &mut datagram), Ingress::Greeted(_))
        };
        datagrams.into_iter().map(greets).fold(false, |any, greeted| any | greeted)
    }

    /// Everything that it has to say: control messages, and datagrams.
    fn put_out(&mut self, now: Time) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        if self.node.next_timeout().is_some_and(|due| due <= now) {
            self.node.handle_timeout(now);
        }
        while let Some(job) = self.node.poll_plan() {
            self.node.handle_plan(now, job.run());
        }
        let control = std::iter::from_fn(|| self.node.poll_control()).map(|(_, message)| message).collect();
        let (mut datagrams, mut buffer) = (Vec::new(), Vec::new());
        while let Some(transmit) = self.node.poll_transmit(now, &mut buffer) {
            datagrams.extend(buffer.chunks(transmit.segment_size).map(<[u8]>::to_vec));
            buffer.clear();
        }
        (control, datagrams)
    }
}

/// How long after its neighbour has said that it knows where the client is the client's session is open; that neighbour
/// takes the first greeting after `known_after`.
fn opens_after(known_after: Duration) -> Duration {
    let start = Time::from_epoch(Duration::from_secs(1_000));
    let (mut client, mut server) =
        (End::new("client", CLIENT, SERVER, start), End::new("server", SERVER, CLIENT, start));
    client.node.connect(start, SERVER.member).expect("there is a path");
    let (mut now, mut known) = (start, None);
    loop {
        client.take(now);
        let is_greeted = server.take(now);
        if is_greeted && known.is_none() && now.since(start) >= known_after {
            known = Some(now);
            server.node.confirm_greeting(server.other);
        }
        let (control, datagrams) = client.put_out(now);
        server.control.extend(control);
        server.datagrams.extend(datagrams);
        let (control, datagrams) = server.put_out(now);
        client.control.extend(control);
        client.datagrams.extend(datagrams.into_iter().filter(|_| known.is_some()));
        while let Some(event) = client.node.poll_event() {
            if matches!(event, Event::SessionOpened { .. }) {
                return now.since(known.expect("nothing reached it before"));
            }
        }
        now += STEP;
        assert!(now.since(start) < Duration::from_secs(10), "it does not open");
    }
}

/// The echo of a client's first probe was often lost, because its neighbour did not know yet where it was, and the next
/// probe left a quarter of a second later: every second connection on loopback took 255 ms.
#[test]
fn a_new_path_is_probed_again_as_soon_as_the_neighbour_knows_where_we_are() {
    for known_after in [0, 20, 250, 450].map(Duration::from_millis) {
        let opened = opens_after(known_after);
        println!("not known for {known_after:?}: open {opened:?} after it was");
        // The news comes, a probe leaves, and its echo comes back.
        assert!(opened <= 3 * STEP + STEP, "{known_after:?}: {opened:?}");
    }
}
