//! Circuits of three members in a row, whose messages a test hands on.

use super::labels::DropReason;
use super::*;
use crate::crypto::hop_tag;
use crate::keys::encode_key;
use crate::overlay::{InstanceId, Peer};
use crate::wire::circuit::Hop;
use crate::wire::hop::{HOP_HEADER, HopHeader, PacketType};

const ORIGINATOR: usize = 0;
const RELAY: usize = 1;
const RESPONDER: usize = 2;

struct Row {
    now: Time,
    overlay: Arc<Overlay>,
    nodes: Vec<Circuits>,
}

fn identity(number: usize) -> Identity {
    Identity::from_seed([number as u8 + 1; 32])
}

fn peer(number: usize) -> Peer {
    Peer { member: MemberId(number as u16), instance: InstanceId(1) }
}

/// A neighbour as it is seen at a member: the links of the row have the numbers of their earlier ends.
fn over(at: usize, neighbour: usize) -> Adjacency {
    Adjacency { peer: peer(neighbour), link: LinkId(at.min(neighbour) as u32) }
}

fn row(config: Config) -> Row {
    let mut text = String::new();
    for (number, name) in ["client", "relay", "server"].iter().enumerate() {
        let keys = identity(number).public();
        text += &format!(
            "[[member]]\nname = \"{name}\"\ned25519 = \"{}\"\nx25519 = \"{}\"\nrelay_for = [\"*\"]\n\
             control = \"127.0.0.1:1\"\ndata = \"127.0.0.1:2\"\n",
            encode_key(&keys.ed25519),
            encode_key(&keys.x25519)
        );
    }
    text += "[[link]]\na = \"client\"\nb = \"relay\"\n[[link]]\na = \"relay\"\nb = \"server\"\n";
    let (overlay, config) = (Arc::new(Overlay::parse(&text).expect("a right file")), Arc::new(config));
    let node = |number: usize| {
        let random = Random::from_seed([number as u8; 32]);
        Circuits::new(Arc::clone(&overlay), Arc::clone(&config), MemberId(number as u16), random)
    };
    let nodes = (0..3).map(node).collect();
    Row { now: Time::from_epoch(Duration::from_secs(1_000)), overlay, nodes }
}

impl Row {
    /// Sends the set-up of a circuit from the originator to the responder.
    fn originate(&mut self) -> CircuitId {
        let circuit = self.nodes[ORIGINATOR].draw_id();
        let route = self.overlay.route_over(&[0, 1, 2].map(MemberId)).expect("they are in a row");
        let (now, identity) = (self.now, identity(ORIGINATOR));
        self.nodes[ORIGINATOR].originate(now, &identity, circuit, &route, over(ORIGINATOR, RELAY), vec![7]);
        circuit
    }

    /// Hands on what `from` has to say; gives how many messages there were.
    fn pass(&mut self, from: usize) -> usize {
        let messages: Vec<_> = std::iter::from_fn(|| self.nodes[from].poll_message()).collect();
        for (to, message) in &messages {
            let bytes = message.emit();
            let message = CircuitMessage::parse(bytes[0], &bytes[1..]).expect("its own message");
            self.hear(usize::from(to.peer.member.0), from, message);
        }
        messages.len()
    }

    fn hear(&mut self, at: usize, from: usize, message: CircuitMessage) {
        let next_hop = |link: LinkId| Some(over(at, if at == link.entry() { at + 1 } else { at - 1 }));
        self.nodes[at].handle(self.now, over(at, from), message, next_hop);
    }

    fn settle(&mut self) {
        while (0..3).map(|node| self.pass(node)).sum::<usize>() > 0 {}
    }

    fn wait(&mut self, span: Duration) {
        self.now += span;
        self.nodes.iter_mut().for_each(|node| node.handle_timeout(self.now));
    }

    fn event(&mut self, node: usize) -> CircuitEvent {
        self.nodes[node].poll_event().expect("something happened")
    }

    fn sizes(&self) -> [(usize, usize); 3] {
        [0, 1, 2].map(|node| (self.nodes[node].len(), self.nodes[node].labels.len()))
    }

    /// A circuit that was set up and answered.
    fn established(&mut self) -> CircuitId {
        let circuit = self.originate();
        self.settle();
        assert!(matches!(self.event(RESPONDER), CircuitEvent::Offered { .. }));
        self.nodes[RESPONDER].answer(self.now, circuit, vec![8]);
        self.settle();
        assert!(matches!(self.event(ORIGINATOR), CircuitEvent::Answered { .. }));
        circuit
    }
}

const EMPTY: [(usize, usize); 3] = [(0, 0); 3];

#[test]
fn a_circuit_leaves_nothing_behind_whoever_tears_it_down() {
    for end in [ORIGINATOR, RELAY, RESPONDER] {
        let mut row = row(Config::default());
        let circuit = row.established();
        assert_eq!(row.sizes(), [(1, 1), (1, 2), (1, 1)]);
        row.nodes[end].tear_down(circuit, "a test");
        row.settle();
        assert_eq!(row.sizes(), EMPTY);
        for other in [ORIGINATOR, RESPONDER].into_iter().filter(|other| *other != end) {
            let CircuitEvent::Ended { notice, .. } = row.event(other) else { panic!("it has ended") };
            assert_eq!(notice.expect("it was torn down").reason, "a test");
        }
    }
}

#[test]
fn hop_tags_cover_whole_bodies_at_relays_in_both_directions() {
    let mut row = row(Config::default());
    let circuit = row.originate();
    row.settle();
    let CircuitEvent::Offered { egress: back, .. } = row.event(RESPONDER) else { panic!("it was offered") };
    row.nodes[RESPONDER].answer(row.now, circuit, Vec::new());
    row.settle();
    let CircuitEvent::Answered { egress: forth, .. } = row.event(ORIGINATOR) else { panic!("answered") };
    for (egress, end) in [(forth, RESPONDER), (back, ORIGINATOR)] {
        let (now, mut packet) = (row.now, Vec::new());
        let packet_type = PacketType::Sealed;
        HopHeader { packet_type, epoch: 0, number: 5, label: egress.label }.emit(&mut packet);
        packet.extend_from_slice(&[7; 60]);
        hop_tag::sign(&mut packet, &egress.key);
        let mut copy = packet.clone();
        copy[HOP_HEADER] ^= 1;
        let labels = &mut row.nodes[RELAY].labels;
        assert_eq!(labels.decide(now, &mut copy), Verdict::Drop(DropReason::BadTag));
        let forward = Verdict::Forward { to: over(RELAY, end), originator: peer(ORIGINATOR).member };
        assert_eq!(labels.decide(now, &mut packet), forward);
        let verdict = row.nodes[end].labels.decide(now, &mut packet);
        assert!(matches!(verdict, Verdict::Deliver(..)), "{verdict:?}");
    }
}

#[test]
fn each_node_forgets_a_circuit_whose_lifetime_is_over_by_itself() {
    let mut row = row(Config::default());
    row.established();
    row.wait(Config::default().routing.circuit_lifetime);
    assert_eq!(row.sizes(), EMPTY);
    assert_eq!((0..3).map(|node| row.pass(node)).sum::<usize>(), 0, "nobody need be told");
    assert!(matches!(row.event(ORIGINATOR), CircuitEvent::Ended { notice: None, .. }));
    assert!(matches!(row.event(RESPONDER), CircuitEvent::Ended { notice: None, .. }));
}

#[test]
fn an_answer_that_comes_too_late_is_torn_down_again() {
    let mut row = row(Config::default());
    let circuit = row.originate();
    row.settle();
    row.nodes[RESPONDER].answer(row.now, circuit, Vec::new());
    // The answer is on its way while the originator loses patience and says so.
    row.pass(RESPONDER);
    row.wait(Config::default().routing.set_up_timeout);
    assert!(matches!(row.event(ORIGINATOR), CircuitEvent::Unanswered { .. }));
    let told: Vec<_> = std::iter::from_fn(|| row.nodes[ORIGINATOR].poll_message()).collect();
    assert_eq!(told.len(), 1, "the tear-down, which gets lost here");
    row.settle();
    assert_eq!(row.sizes(), EMPTY);
}

#[test]
fn a_neighbour_that_is_gone_is_told_to_the_other_side_with_the_link() {
    for (gone, told) in [(ORIGINATOR, RESPONDER), (RESPONDER, ORIGINATOR)] {
        let mut row = row(Config::default());
        row.established();
        row.nodes[RELAY].on_neighbour_gone(over(RELAY, gone));
        row.settle();
        let CircuitEvent::Ended { notice: Some(notice), .. } = row.event(told) else { panic!("torn down") };
        assert_eq!((notice.cause, notice.by.as_str()), (Cause::LinkDown, "relay"));
        assert_eq!((row.sizes()[RELAY], row.sizes()[told]), ((0, 0), (0, 0)));
    }
}

#[test]
fn a_set_up_of_another_version_is_refused_with_the_reason() {
    let mut row = row(Config::default());
    let circuit = row.originate();
    let (_, message) = row.nodes[ORIGINATOR].poll_message().expect("the set-up");
    let CircuitMessage::SetUp(mut set_up) = message else { panic!("a set-up") };
    set_up.signed[0] = 1;
    row.hear(RELAY, ORIGINATOR, CircuitMessage::SetUp(set_up));
    row.settle();
    let CircuitEvent::Refused { circuit: refused, notice } = row.event(ORIGINATOR) else { panic!("refused") };
    assert_eq!((refused, notice.by.as_str()), (circuit, "relay"));
    assert!(
        notice.reason.contains("of version 1 of the protocol, and I speak version 4"),
        "{}",
        notice.reason
    );
    assert_eq!(row.sizes(), EMPTY);
}

#[test]
fn notices_are_taken_from_the_neighbour_on_that_side_only() {
    let mut row = row(Config::default());
    let circuit = row.originate();
    row.settle();
    let notice = Notice { cause: Cause::Other, by: "client".into(), reason: String::new() };
    row.hear(RELAY, ORIGINATOR, CircuitMessage::Refusal { circuit, notice });
    assert_eq!(row.sizes()[RELAY].0, 1, "a refusal comes from the side of the responder");
    let forward = Hop { label: Label(1), key: [1; 16] };
    row.hear(RELAY, ORIGINATOR, CircuitMessage::Answer { circuit, payload: Vec::new(), forward });
    assert_eq!(row.sizes()[RELAY], (1, 1), "so does an answer");
}

fn refusal(row: &mut Row) -> String {
    row.originate();
    row.settle();
    match row.event(ORIGINATOR) {
        CircuitEvent::Refused { notice, .. } => notice.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn quotas_hold_per_originator_and_per_neighbour_and_are_given_back() {
    for per_neighbour in [false, true] {
        let mut config = Config::default();
        let quota = if per_neighbour {
            &mut config.limits.circuits_per_neighbour
        } else {
            &mut config.limits.circuits_per_originator
        };
        *quota = 2;
        let mut row = row(config);
        let circuits = [row.established(), row.established()];
        assert!(refusal(&mut row).contains("2 circuits here already"));
        row.nodes[ORIGINATOR].tear_down(circuits[0], "a test");
        row.settle();
        row.event(RESPONDER);
        row.established();
        assert_eq!(row.nodes[RELAY].counters().refused, 1);
    }
}

/// The system's clock was once asked when the process began, so that a member that was started before its clock was set
/// was refused until somebody restarted it.
#[test]
fn a_clock_that_is_set_right_counts_from_then_on() {
    let mut row = row(Config::default());
    let right = row.now.since_epoch();
    row.nodes[ORIGINATOR].set_calendar(row.now, Duration::ZERO);
    assert!(refusal(&mut row).contains("set the clocks of both members"));
    row.nodes[ORIGINATOR].set_calendar(row.now, right);
    row.established();
}

#[test]
fn set_ups_are_policed_when_the_config_says_so() {
    for per_neighbour in [false, true] {
        let mut config = Config::default();
        let rate = if per_neighbour {
            &mut config.policing.set_ups_per_neighbour
        } else {
            &mut config.policing.set_ups_per_originator
        };
        *rate = Some(3.0);
        let mut row = row(config);
        for _ in 0..3 {
            row.established();
        }
        assert!(refusal(&mut row).contains("set-ups per second"));
        row.wait(Duration::from_millis(400));
        row.established();
        assert_eq!(row.overlay.members().len(), 3);
    }
}

/// A set-up made by hand, with the member that signs it.
fn forged(route: &[&str], time_s: u64, signer: usize) -> (CircuitId, CircuitMessage) {
    let circuit = CircuitId([9; 16]);
    let route: Vec<String> = route.iter().map(|name| (*name).to_owned()).collect();
    let (links, payload) = (vec![String::new(); route.len() - 1], Vec::new());
    let signed =
        SetUpBody { circuit, body_key: [1; 16], time_s, lifetime_s: 60, route, links, payload }.emit();
    let signature = identity(signer).sign(&signed);
    let backward = Hop { label: Label(1), key: [1; 16] };
    (circuit, CircuitMessage::SetUp(SetUp { signed, signature, backward }))
}

#[test]
fn a_set_up_that_breaks_a_rule_is_refused_with_the_reason_and_leaves_nothing_behind() {
    let whole = ["client", "relay", "server"];
    let rules: [(&[&str], u64, usize, &str); 7] = [
        (&whole, 1_000, RELAY, "the signature is not that of \"client\""),
        (&whole, 1_000 - 121, ORIGINATOR, "set the clocks"),
        (&whole, 1_000 + 121, ORIGINATOR, "set the clocks"),
        (&["client", "stranger", "relay"], 1_000, ORIGINATOR, "names \"stranger\""),
        (&["client", "relay", "client"], 1_000, ORIGINATOR, "visits \"client\" twice"),
        (
            &["client", "server", "relay"],
            1_000,
            ORIGINATOR,
            "over a link without a name, and my overlay file lists no",
        ),
        (&["server", "relay"], 1_000, RESPONDER, "does not lead from \"client\" to me"),
    ];
    for (route, time_s, signer, words) in rules {
        let mut row = row(Config::default());
        let (circuit, message) = forged(route, time_s, signer);
        row.hear(RELAY, ORIGINATOR, message);
        let (to, answer) = row.nodes[RELAY].poll_message().expect("a refusal");
        let CircuitMessage::Refusal { circuit: refused, notice } = answer else { panic!("{answer:?}") };
        assert_eq!((to, refused), (over(RELAY, ORIGINATOR), circuit));
        assert!(notice.reason.contains(words), "{}", notice.reason);
        assert_eq!(row.sizes(), EMPTY);
    }
}

#[test]
fn a_relay_that_is_about_to_end_tells_both_sides_and_relays_nothing_more() {
    let mut row = row(Config::default());
    let circuit = row.established();
    row.nodes[RELAY].drain();
    row.settle();
    for end in [ORIGINATOR, RESPONDER] {
        let CircuitEvent::Ended { circuit: ended, notice: Some(notice) } = row.event(end) else {
            panic!("it is told")
        };
        assert_eq!((ended, notice.by.as_str(), notice.cause), (circuit, "relay", Cause::LinkDown));
    }
    assert!(refusal(&mut row).contains("shutting down"));
    assert_eq!(row.sizes(), EMPTY);
}

/// A neighbour could pass a set-up on again once its circuit was gone, for four minutes if the originator's clock was
/// two ahead: the circuit stood again, on the originator's account.
#[test]
fn a_set_up_that_was_captured_sets_up_nothing_again_however_its_circuit_ended() {
    let mut row = row(Config::default());
    let circuit = row.originate();
    let (_, captured) = row.nodes[ORIGINATOR].poll_message().expect("the set-up");
    row.hear(RELAY, ORIGINATOR, captured.clone());
    row.settle();
    assert!(matches!(row.event(RESPONDER), CircuitEvent::Offered { .. }));
    row.nodes[RESPONDER].refuse(circuit, Cause::Other, "a test");
    row.settle();
    assert_eq!(row.sizes(), EMPTY);
    for _ in 0..130 {
        row.hear(RELAY, ORIGINATOR, captured.clone());
        row.settle();
        assert_eq!(row.sizes(), EMPTY);
        row.wait(Duration::from_secs(1));
    }
    assert_eq!(row.nodes[RELAY].counters().admitted, 1);
    assert!(row.nodes[RESPONDER].poll_event().is_none(), "nothing was offered again");
}
