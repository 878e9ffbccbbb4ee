//! Members and links, written down in a few lines.

use netsim::LinkModel;

use crate::keys::{Identity, encode_key};
use crate::overlay::{LinkId, Overlay, OverlayError};

/// The members and links of a simulated overlay.
///
/// ```
/// use std::time::Duration;
/// use fec_transport::sim::{LinkSpec, Scene};
///
/// let link = LinkSpec::new(20, Duration::from_millis(10)).with_loss(0.01);
/// let scene = Scene::new()
///     .client("client").relay("r1").relay("r2").server("io1")
///     .link("client", "r1", &link).link("client", "r2", &link)
///     .link("r1", "io1", &link).link("r2", "io1", &link);
/// assert_eq!(scene.overlay().0.links().len(), 4);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Scene {
    members: Vec<(String, Kind)>,
    links: Vec<SceneLink>,
    switches: Vec<String>,
    cables: Vec<(String, String, LinkSpec)>,
    known_capacities: bool,
    /// How many overlay files there were before this one.
    earlier: u64,
}

#[derive(Debug, Clone)]
struct SceneLink {
    a: String,
    b: String,
    /// Empty for a link that needs none.
    name: String,
    spec: LinkSpec,
    /// The switches between the two, if it goes over cables.
    over: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Client,
    Relay,
    Server,
}

/// What a link is like in both directions.
#[derive(Debug, Clone)]
pub struct LinkSpec {
    /// From the first member to the second.
    pub a_to_b: LinkModel,
    /// From the second member to the first.
    pub b_to_a: LinkModel,
}

impl LinkSpec {
    /// A link with that rate and one-way delay, and a queue of 50 ms.
    pub fn new(rate_mbit: u64, delay: std::time::Duration) -> LinkSpec {
        let model = LinkModel::new(netsim::Rate::from_mbit(rate_mbit), delay);
        LinkSpec { a_to_b: model.clone(), b_to_a: model }
    }

    /// The same with a rate in bit/s.
    ///
    /// # Errors
    /// If that is no rate of a link.
    pub fn from_bits(
        bits_per_second: f64,
        delay: std::time::Duration,
    ) -> Result<LinkSpec, netsim::UnitError> {
        let model = LinkModel::new(netsim::Rate::try_from_bits(bits_per_second)?, delay);
        Ok(LinkSpec { a_to_b: model.clone(), b_to_a: model })
    }

    /// The same link, losing that share of its packets in both directions.
    ///
    /// # Panics
    /// If `loss` is no probability.
    pub fn with_loss(self, loss: f64) -> LinkSpec {
        let loss = netsim::Probability::new(loss).expect("a probability");
        LinkSpec { a_to_b: self.a_to_b.with_loss(loss), b_to_a: self.b_to_a.with_loss(loss) }
    }
}

impl Scene {
    /// A scene without members.
    pub fn new() -> Scene {
        Scene::default()
    }

    /// Adds a member that only opens sessions.
    pub fn client(self, name: &str) -> Scene {
        self.member(name, Kind::Client)
    }

    /// Adds a member that relays for everyone.
    pub fn relay(self, name: &str) -> Scene {
        self.member(name, Kind::Relay)
    }

    /// Adds a member that accepts sessions and does not relay.
    pub fn server(self, name: &str) -> Scene {
        self.member(name, Kind::Server)
    }

    /// Joins two members.
    pub fn link(self, a: &str, b: &str, spec: &LinkSpec) -> Scene {
        self.parallel_link(a, b, "", spec)
    }

    /// Joins two members by a link with a name, beside others that have one.
    pub fn parallel_link(mut self, a: &str, b: &str, name: &str, spec: &LinkSpec) -> Scene {
        let [a, b, name] = [a, b, name].map(str::to_owned);
        self.links.push(SceneLink { a, b, name, spec: spec.clone(), over: Vec::new() });
        self
    }

    /// Adds a switch: no member, but a place where cables meet.
    pub fn switch(mut self, name: &str) -> Scene {
        self.switches.push(name.to_owned());
        self
    }

    /// Lays a cable between a member and a switch, or between two switches. Only links [over](Self::link_over) it use
    /// it.
    pub fn cable(mut self, a: &str, b: &str, spec: &LinkSpec) -> Scene {
        self.cables.push((a.to_owned(), b.to_owned(), spec.clone()));
        self
    }

    /// Joins two members by a link whose packets go over the cables between `a`, these switches and `b`, which they
    /// share with those of other links, in both directions. What the two say to each other as neighbours goes by
    /// itself, with the delay of the cables.
    ///
    /// # Panics
    /// If there is no switch, or one of the cables is not there.
    pub fn link_over(mut self, a: &str, b: &str, switches: &[&str]) -> Scene {
        assert!(!switches.is_empty(), "between {a} and {b} is no switch");
        let way: Vec<&str> = [&[a], switches, &[b]].concat();
        let cables: Vec<&LinkSpec> =
            way.windows(2).map(|pair| self.cable_between(pair[0], pair[1])).collect();
        let mut spec = cables[0].clone();
        let delay = cables.iter().map(|cable| cable.a_to_b.delay).sum();
        (spec.a_to_b.delay, spec.b_to_a.delay) = (delay, delay);
        let over = switches.iter().map(|name| (*name).to_owned()).collect();
        let (a, b, name) = (a.to_owned(), b.to_owned(), String::new());
        self.links.push(SceneLink { a, b, name, spec, over });
        self
    }

    fn cable_between(&self, one: &str, other: &str) -> &LinkSpec {
        let is_it = |a: &String, b: &String| (a == one && b == other) || (a == other && b == one);
        let cable = self.cables.iter().find(|(a, b, _)| is_it(a, b));
        &cable.unwrap_or_else(|| panic!("there is no cable between {one} and {other}")).2
    }

    /// The overlay file tells the rates of the links, in their first direction, as capacities.
    pub fn with_known_capacities(self) -> Scene {
        Scene { known_capacities: true, ..self }
    }

    /// The next overlay file: with a larger serial, and without some members and their links.
    #[must_use]
    pub fn next_without(&self, gone: &[&str]) -> Scene {
        let mut next = Scene { earlier: self.earlier + 1, ..self.clone() };
        let stays = |name: &String| !gone.contains(&name.as_str());
        next.members.retain(|(name, _)| stays(name));
        next.links.retain(|link| stays(&link.a) && stays(&link.b));
        next.cables.retain(|(a, b, _)| stays(a) && stays(b));
        next
    }

    fn member(mut self, name: &str, kind: Kind) -> Scene {
        self.members.push((name.to_owned(), kind));
        self
    }

    /// The overlay, and the members' secrets in its order.
    ///
    /// # Panics
    /// If the scene is no right overlay; see [`check`](Self::check).
    pub fn overlay(&self) -> (Overlay, Vec<Identity>) {
        (self.parse().expect("a scene is a right overlay"), self.identities())
    }

    /// Whether the scene is a right overlay.
    ///
    /// # Errors
    /// What [`Overlay::parse`] says.
    pub fn check(&self) -> Result<(), OverlayError> {
        self.parse().map(drop)
    }

    fn identities(&self) -> Vec<Identity> {
        let seed =
            |name: &str| blake3::derive_key("fec-transport 2026 seed of a simulated member", name.as_bytes());
        self.members.iter().map(|(name, _)| Identity::from_seed(seed(name))).collect()
    }

    fn parse(&self) -> Result<Overlay, OverlayError> {
        let mut text = format!("serial = {}\n", self.earlier + 1);
        for (number, ((name, kind), identity)) in self.members.iter().zip(self.identities()).enumerate() {
            text += &member_text(name, *kind, number, &identity);
        }
        for SceneLink { a, b, name, spec, .. } in &self.links {
            text += &format!("[[link]]\na = {}\nb = {}\n", quoted(a), quoted(b));
            if !name.is_empty() {
                text += &format!("name = {}\n", quoted(name));
            }
            if self.known_capacities {
                text += &format!("capacity_mbit = {:?}\n", spec.a_to_b.rate.bits_per_second() as f64 / 1e6);
            }
        }
        Overlay::parse(&text)
    }

    /// What the links are like, in the order of the overlay.
    pub(super) fn link_specs(&self) -> impl Iterator<Item = &LinkSpec> {
        self.links.iter().map(|link| &link.spec)
    }

    pub(super) fn switches(&self) -> impl Iterator<Item = &str> {
        self.switches.iter().map(String::as_str)
    }

    pub(super) fn cables(&self) -> impl Iterator<Item = (&str, &str, &LinkSpec)> {
        self.cables.iter().map(|(a, b, spec)| (a.as_str(), b.as_str(), spec))
    }

    /// Of each link over cables its two ends, and the switches between them.
    pub(super) fn ways(&self) -> impl Iterator<Item = (LinkId, Vec<&str>)> {
        let over_cables = self.links.iter().zip(0..).filter(|(link, _)| !link.over.is_empty());
        over_cables.map(|(link, number)| {
            let names = [&link.a].into_iter().chain(&link.over).chain([&link.b]);
            (LinkId(number), names.map(String::as_str).collect())
        })
    }

    /// The names of the members that accept sessions and do not relay.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        let servers = self.members.iter().filter(|(_, kind)| *kind == Kind::Server);
        servers.map(|(name, _)| name.as_str())
    }
}

/// A name as TOML has it.
fn quoted(name: &str) -> toml::Value {
    toml::Value::from(name)
}

fn member_text(name: &str, kind: Kind, number: usize, identity: &Identity) -> String {
    let keys = identity.public();
    let mut text = format!(
        "[[member]]\nname = {}\ned25519 = \"{}\"\nx25519 = \"{}\"\n",
        quoted(name),
        encode_key(&keys.ed25519),
        encode_key(&keys.x25519)
    );
    if kind != Kind::Client {
        // Nobody uses these addresses; they only say that the member has some (RFC 5737).
        let address = format!("192.0.2.{}", number % 250 + 1);
        text += &format!("control = \"{address}:7000\"\ndata = \"{address}:7001\"\n");
    }
    if kind == Kind::Relay {
        text += "relay_for = [\"*\"]\n";
    }
    text
}
