//! The control messages that set up and tear down circuits.
//!
//! ```text
//! set-up     1 | length (16) of what is signed | version (8), circuit (128), body key (128), time (64, s),
//!                  lifetime (32, s), members of the route (see below), payload (16 + n)
//!              | signature of the originator (512) | backward hop: label (64), hop key (128)
//! answer     2 | circuit (128) | payload (16 + n) | forward hop: label (64), hop key (128)
//! refusal    3 | circuit (128) | cause (8) | by whom (16 + n) | reason (16 + n)
//! tear-down  4 | circuit (128) | cause (8) | by whom (16 + n) | reason (16 + n)
//! ```
//! The members of a route are their number (8) and the name of each (16 + n). If any link of the route has a name, 128
//! is added to the number, and the name of the link to it (16 + n) comes before the name of each member but the first.
//! So there is one way to write each route; any other is malformed.
//!
//! The version and the circuit stand at the same place in every version, so that a set-up of another one can be
//! refused.
//!
//! A hop is handed out by the node that will receive packets with its label, and each node on the way replaces it by
//! one of its own: downstream assignment, as in MPLS.

use super::hop::Label;
use super::{Malformed, PROTOCOL_VERSION, Reader, Writer, control_type};
use crate::limits::{MAX_NAME, MAX_ROUTE};

/// The longest payload of a set-up or an answer, in bytes.
pub(crate) const MAX_PAYLOAD: usize = 512;
const MAX_TEXT: usize = 256;
const MAX_SIGNED: usize = 64 + 2 * MAX_ROUTE * (2 + MAX_NAME) + MAX_PAYLOAD;
/// Added to the number of members where links have names.
const WITH_LINKS: u8 = 128;

/// A circuit's number, drawn at random by its originator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CircuitId(pub(crate) [u8; 16]);

impl std::fmt::Debug for CircuitId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "circuit {:02x}{:02x}{:02x}{:02x}", self.0[0], self.0[1], self.0[2], self.0[3])
    }
}

/// A label and the key of its hop tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) label: Label,
    pub(crate) key: [u8; 16],
}

/// The part of a set-up that the originator signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetUpBody {
    pub(crate) circuit: CircuitId,
    /// From which the hash of bodies follows that hop tags cover; known to the circuit's members.
    pub(crate) body_key: [u8; 16],
    /// When it was made, in seconds since the epoch of [`Time`](crate::Time).
    pub(crate) time_s: u64,
    pub(crate) lifetime_s: u32,
    /// The members' names from the originator to the responder.
    pub(crate) route: Vec<String>,
    /// The names of the links between them, one less; empty for a link without a name.
    pub(crate) links: Vec<String>,
    /// For the responder: a handshake or a request to join.
    pub(crate) payload: Vec<u8>,
}

/// A set-up as it travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetUp {
    /// [`SetUpBody`] as it was signed.
    pub(crate) signed: Vec<u8>,
    pub(crate) signature: [u8; 64],
    /// How the next member sends packets back to the one before it.
    pub(crate) backward: Hop,
}

/// Why a circuit is refused or torn down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) cause: Cause,
    /// The name of the member that says so.
    pub(crate) by: String,
    /// Its words, for people.
    pub(crate) reason: String,
}

/// What a program makes of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Nothing that another route would mend.
    Other,
    /// Its link to the next member of the route, seen from the originator, is down.
    LinkDown,
    /// The session that the circuit was to join is not there, says its responder.
    NoSession,
}

/// A control message about a circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CircuitMessage {
    SetUp(SetUp),
    Answer { circuit: CircuitId, payload: Vec<u8>, forward: Hop },
    Refusal { circuit: CircuitId, notice: Notice },
    TearDown { circuit: CircuitId, notice: Notice },
}

impl SetUpBody {
    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut out = vec![PROTOCOL_VERSION];
        out.put_bytes(&self.circuit.0);
        out.put_bytes(&self.body_key);
        out.put_u64(self.time_s);
        out.put_u32(self.lifetime_s);
        let count = u8::try_from(self.route.len()).expect("a route has at most MAX_ROUTE members");
        if self.links.iter().all(String::is_empty) {
            out.put_u8(count);
            self.route.iter().for_each(|name| out.put_string(name.as_bytes()));
        } else {
            out.put_u8(count + WITH_LINKS);
            for (place, name) in self.route.iter().enumerate() {
                let link = place.checked_sub(1).and_then(|before| self.links.get(before));
                link.iter().for_each(|link| out.put_string(link.as_bytes()));
                out.put_string(name.as_bytes());
            }
        }
        out.put_string(&self.payload);
        out
    }

    /// The circuit of a set-up of any version.
    pub(crate) fn circuit_of(signed: &[u8]) -> Option<CircuitId> {
        let mut reader = Reader::new(signed);
        reader.u8("version").ok()?;
        reader.array("circuit").ok().map(CircuitId)
    }

    /// The version of the protocol that a set-up is of.
    pub(crate) fn version_of(signed: &[u8]) -> Option<u8> {
        signed.first().copied()
    }

    pub(crate) fn parse(signed: &[u8]) -> Result<SetUpBody, Malformed> {
        let mut reader = Reader::new(signed);
        if reader.u8("version")? != PROTOCOL_VERSION {
            return Err(Malformed::new("version of the set-up"));
        }
        let circuit = CircuitId(reader.array("circuit")?);
        let body_key = reader.array("body key")?;
        let time_s = reader.u64("time")?;
        let lifetime_s = reader.u32("lifetime")?;
        let (route, links) = parse_route(&mut reader)?;
        let payload = reader.string(MAX_PAYLOAD, "payload")?.to_vec();
        reader.finish("set-up")?;
        Ok(SetUpBody { circuit, body_key, time_s, lifetime_s, route, links, payload })
    }
}

/// The names of a route's members and links.
fn parse_route(reader: &mut Reader<'_>) -> Result<(Vec<String>, Vec<String>), Malformed> {
    let count = reader.u8("length of the route")?;
    let members = usize::from(count % WITH_LINKS);
    if !(2..=MAX_ROUTE).contains(&members) {
        return Err(Malformed::new("length of the route"));
    }
    let has_names = count >= WITH_LINKS;
    let (mut route, mut links) = (Vec::with_capacity(members), Vec::with_capacity(members - 1));
    for place in 0..members {
        if place > 0 {
            let name = if has_names { reader.text(MAX_NAME, "link of the route")? } else { "" };
            links.push(name.to_owned());
        }
        route.push(reader.text(MAX_NAME, "member of the route")?.to_owned());
    }
    if has_names && links.iter().all(String::is_empty) {
        return Err(Malformed::new("links of the route, none of which has a name"));
    }
    Ok((route, links))
}

impl Notice {
    fn emit(&self, out: &mut Vec<u8>) {
        out.put_u8(match self.cause {
            Cause::Other => 0,
            Cause::LinkDown => 1,
            Cause::NoSession => 2,
        });
        out.put_string(cut(&self.by, MAX_NAME));
        out.put_string(cut(&self.reason, MAX_TEXT));
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Notice, Malformed> {
        let cause = match reader.u8("cause")? {
            1 => Cause::LinkDown,
            2 => Cause::NoSession,
            _ => Cause::Other,
        };
        let by = reader.text(MAX_NAME, "member that gives notice")?.to_owned();
        Ok(Notice { cause, by, reason: reader.text(MAX_TEXT, "reason")?.to_owned() })
    }
}

impl CircuitMessage {
    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            CircuitMessage::SetUp(set_up) => {
                out.put_u8(control_type::SET_UP);
                out.put_string(&set_up.signed);
                out.put_bytes(&set_up.signature);
                put_hop(&mut out, &set_up.backward);
            }
            CircuitMessage::Answer { circuit, payload, forward } => {
                out.put_u8(control_type::ANSWER);
                out.put_bytes(&circuit.0);
                out.put_string(payload);
                put_hop(&mut out, forward);
            }
            CircuitMessage::Refusal { circuit, notice } => {
                out.put_u8(control_type::REFUSAL);
                out.put_bytes(&circuit.0);
                notice.emit(&mut out);
            }
            CircuitMessage::TearDown { circuit, notice } => {
                out.put_u8(control_type::TEAR_DOWN);
                out.put_bytes(&circuit.0);
                notice.emit(&mut out);
            }
        }
        out
    }

    /// Reads a message whose type byte was `message_type`; `body` is what follows it.
    pub(crate) fn parse(message_type: u8, body: &[u8]) -> Result<CircuitMessage, Malformed> {
        let mut reader = Reader::new(body);
        let message = match message_type {
            control_type::SET_UP => CircuitMessage::SetUp(SetUp {
                signed: reader.string(MAX_SIGNED, "signed part")?.to_vec(),
                signature: reader.array("signature")?,
                backward: hop(&mut reader)?,
            }),
            control_type::ANSWER => CircuitMessage::Answer {
                circuit: CircuitId(reader.array("circuit")?),
                payload: reader.string(MAX_PAYLOAD, "payload")?.to_vec(),
                forward: hop(&mut reader)?,
            },
            control_type::REFUSAL => CircuitMessage::Refusal {
                circuit: CircuitId(reader.array("circuit")?),
                notice: Notice::parse(&mut reader)?,
            },
            control_type::TEAR_DOWN => CircuitMessage::TearDown {
                circuit: CircuitId(reader.array("circuit")?),
                notice: Notice::parse(&mut reader)?,
            },
            _ => return Err(Malformed::new("type of control message")),
        };
        reader.finish("control message")?;
        Ok(message)
    }
}

fn put_hop(out: &mut Vec<u8>, hop: &Hop) {
    out.put_u64(hop.label.0);
    out.put_bytes(&hop.key);
}

fn hop(reader: &mut Reader<'_>) -> Result<Hop, Malformed> {
    Ok(Hop { label: Label(reader.u64("label")?), key: reader.array("hop key")? })
}

fn cut(text: &str, limit: usize) -> &[u8] {
    let end = (0..=limit.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text.as_bytes()[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn hops() -> impl Strategy<Value = Hop> {
        (any::<u64>(), any::<[u8; 16]>()).prop_map(|(label, key)| Hop { label: Label(label), key })
    }

    fn circuits() -> impl Strategy<Value = CircuitId> {
        any::<[u8; 16]>().prop_map(CircuitId)
    }

    fn messages() -> impl Strategy<Value = CircuitMessage> {
        let set_up =
            (vec(any::<u8>(), 0..200), any::<[u8; 32]>(), hops()).prop_map(|(signed, half, backward)| {
                let signature = [half, half].concat().try_into().expect("64 bytes");
                CircuitMessage::SetUp(SetUp { signed, signature, backward })
            });
        let answer = (circuits(), vec(any::<u8>(), 0..MAX_PAYLOAD), hops())
            .prop_map(|(circuit, payload, forward)| CircuitMessage::Answer { circuit, payload, forward });
        let notices = || {
            let causes = prop_oneof![Just(Cause::Other), Just(Cause::LinkDown), Just(Cause::NoSession)];
            (causes, "[a-z]{0,64}", "[ -~]{0,200}").prop_map(|(cause, by, reason)| Notice {
                cause,
                by,
                reason,
            })
        };
        let refusal =
            (circuits(), notices()).prop_map(|(circuit, notice)| CircuitMessage::Refusal { circuit, notice });
        let tear_down = (circuits(), notices())
            .prop_map(|(circuit, notice)| CircuitMessage::TearDown { circuit, notice });
        prop_oneof![set_up, answer, refusal, tear_down]
    }

    proptest! {
        #[test]
        fn parse_of_emit_is_identity(message in messages()) {
            let bytes = message.emit();
            prop_assert_eq!(CircuitMessage::parse(bytes[0], &bytes[1..]), Ok(message));
        }

        #[test]
        fn the_signed_part_comes_back(
            circuit in circuits(), body_key: [u8; 16], time_s: u64, lifetime_s: u32, route in vec("[a-z0-9]{1,64}", 2..=MAX_ROUTE),
            names in vec("[a-z]{0,64}", MAX_ROUTE), named: bool, payload in vec(any::<u8>(), 0..MAX_PAYLOAD),
        ) {
            let links = names[1..route.len()].iter().map(|name| if named { name.clone() } else { String::new() }).collect();
            let body = SetUpBody { circuit, body_key, time_s, lifetime_s, route, links, payload };
            let signed = body.emit();
            prop_assert!(signed.len() <= MAX_SIGNED);
            prop_assert_eq!(SetUpBody::circuit_of(&signed), Some(circuit));
            prop_assert_eq!(SetUpBody::parse(&signed), Ok(body));
        }

        #[test]
        fn a_set_up_can_be_written_in_one_way_only(
            circuit in circuits(), route in vec("[a-z]{1,4}", 2..5), place: usize, byte: u8,
        ) {
            let links = vec![String::new(); route.len() - 1];
            let body = SetUpBody { circuit, body_key: [0; 16], time_s: 0, lifetime_s: 0, route, links, payload: vec![] };
            let mut signed = body.emit();
            let place = place % signed.len();
            signed[place] = byte;
            if let Ok(body) = SetUpBody::parse(&signed) {
                prop_assert_eq!(body.emit(), signed);
            }
        }

        #[test]
        fn garbage_never_panics(bytes in vec(any::<u8>(), 1..300)) {
            let _ = (CircuitMessage::parse(bytes[0] % 8, &bytes[1..]), SetUpBody::parse(&bytes));
        }
    }

    #[test]
    fn a_route_that_claims_names_of_links_has_one() {
        let circuit = CircuitId([7; 16]);
        let (route, links) = (vec!["a".to_owned(), "b".to_owned()], vec!["dsl".to_owned()]);
        let body =
            SetUpBody { circuit, body_key: [0; 16], time_s: 0, lifetime_s: 0, route, links, payload: vec![] };
        let mut signed = body.emit();
        assert_eq!(SetUpBody::parse(&signed), Ok(body));
        let link = signed.windows(5).position(|bytes| bytes == b"\x00\x03dsl").expect("the name of the link");
        signed.splice(link..link + 5, [0, 0]);
        let error = SetUpBody::parse(&signed).unwrap_err();
        assert_eq!(error, Malformed::new("links of the route, none of which has a name"));
    }
}
