//! The overlay of the demo: emulated links, the overlay file, and an endpoint for each relay and I/O node.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fec_transport::Config;
use fec_transport::io::Sockets;
use fec_transport::keys::{Identity, encode_key};
use fec_transport::overlay::Overlay;
use netsim::emulator::{EmulatedLink, Emulator, Endpoint as LinkEnd, LinkHandle, LinkPorts};

use super::scene::{Scene, SceneLink};
use crate::exit::{Exit, Failure, OrFail as _};

/// What the demo's processes share, and what a client needs to know.
pub(super) struct Network {
    emulator: Emulator,
    /// The overlay file, which is all that a client is given besides its key.
    pub(super) overlay_file: PathBuf,
    pub(super) overlay: Arc<Overlay>,
    identities: BTreeMap<String, Identity>,
    /// Sockets of the members with fixed addresses, until their endpoints take them.
    sockets: BTreeMap<String, Sockets>,
}

impl Network {
    /// Binds the members' sockets and the links' ports, and writes the overlay file into `folder`.
    ///
    /// To be called within the runtime that is to run the emulator.
    pub(super) fn start(scene: &Scene, folder: &Path, seed: u64) -> Result<Network, Failure> {
        let identities = scene.members().map(|name| (name.clone(), identity(name, seed))).collect();
        let mut sockets = BTreeMap::new();
        for name in scene.relays.iter().chain(&scene.io_nodes) {
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let bound = Sockets::bind(any, any).or_fail(Exit::Network, format!("member {name}"))?;
            sockets.insert(name.clone(), bound);
        }
        let ends = addresses(&sockets)?;
        let links: Result<Vec<_>, Failure> = scene.links.iter().map(|link| emulated(link, &ends)).collect();
        let emulator = Emulator::start(links?, seed).or_fail(Exit::Network, "emulated links")?;
        let text = overlay_text(scene, &identities, &ends, emulator.links());
        let overlay_file = folder.join("overlay.toml");
        std::fs::write(&overlay_file, &text).or_fail(Exit::Failed, overlay_file.display())?;
        let overlay = Arc::new(Overlay::parse(&text).or_fail(Exit::Input, "the scene")?);
        let network = Network { emulator, overlay_file, overlay, identities, sockets };
        network.refuse_unreachable(scene)?;
        Ok(network)
    }

    /// The secret of a member.
    pub(super) fn identity(&self, member: &str) -> Identity {
        self.identities[member].clone()
    }

    /// The sockets of a member; only once.
    pub(super) fn take_sockets(&mut self, member: &str) -> Option<Sockets> {
        self.sockets.remove(member)
    }

    /// The emulated link of that name.
    pub(super) fn link(&self, name: &str) -> Option<LinkHandle> {
        self.emulator.link(name).cloned()
    }

    fn refuse_unreachable(&self, scene: &Scene) -> Result<(), Failure> {
        let member = |name: &str| self.overlay.find(name).expect("the scene's members are in its overlay");
        for io_node in &scene.io_nodes {
            let routes = fec_transport::plan::plan(
                &self.overlay,
                member(&scene.client),
                member(io_node),
                &Config::default(),
            );
            routes.or_fail(Exit::Network, format!("I/O node {io_node}"))?;
        }
        Ok(())
    }
}

/// A secret that follows from the seed: the demo's members live as long as the demo.
fn identity(name: &str, seed: u64) -> Identity {
    Identity::from_seed(blake3::derive_key("sfio demo 2026 identity", format!("{seed} {name}").as_bytes()))
}

fn addresses(sockets: &BTreeMap<String, Sockets>) -> Result<BTreeMap<String, LinkEnd>, Failure> {
    let address = |socket: &std::net::UdpSocket| socket.local_addr().or_fail(Exit::Network, "a bound socket");
    sockets
        .iter()
        .map(|(name, sockets)| {
            let end =
                LinkEnd { control: Some(address(&sockets.control)?), data: Some(address(&sockets.data)?) };
            Ok((name.clone(), end))
        })
        .collect()
}

fn emulated(link: &SceneLink, ends: &BTreeMap<String, LinkEnd>) -> Result<EmulatedLink, Failure> {
    let end = |name: &str, from: Option<IpAddr>| {
        let LinkEnd { control, data } = ends.get(name).copied().unwrap_or_default();
        // An uplink has the ports that the member has.
        let over = |own: SocketAddr| from.map_or(own, |from| SocketAddr::new(from, own.port()));
        LinkEnd { control: control.map(over), data: data.map(over) }
    };
    let model = link.model()?;
    let ends = [end(&link.a, link.a_from), end(&link.b, link.b_from)];
    Ok(EmulatedLink::new(link.title(), ends[0], ends[1], model.clone(), model))
}

/// The overlay file: members with their keys and addresses, links with the ports of the emulator.
fn overlay_text(
    scene: &Scene,
    identities: &BTreeMap<String, Identity>,
    ends: &BTreeMap<String, LinkEnd>,
    handles: &[LinkHandle],
) -> String {
    let mut text = String::from("serial = 1\n");
    for name in scene.members() {
        let keys = identities[name].public();
        text += &format!(
            "\n[[member]]\nname = {name:?}\ned25519 = \"{}\"\nx25519 = \"{}\"\n",
            encode_key(&keys.ed25519),
            encode_key(&keys.x25519)
        );
        if let Some(LinkEnd { control: Some(control), data: Some(data) }) = ends.get(name) {
            text += &format!("control = \"{control}\"\ndata = \"{data}\"\n");
        }
        if scene.relays.contains(name) {
            text += "relay_for = [\"*\"]\n";
        }
    }
    for (link, handle) in scene.links.iter().zip(handles) {
        text += &link_text(link, *handle.ports());
    }
    text
}

fn link_text(link: &SceneLink, ports: LinkPorts) -> String {
    let mut text = format!(
        "\n[[link]]\na = {:?}\nb = {:?}\ncapacity_mbit = {:?}\ndelay_ms = {:?}\nloss = {:?}\n",
        link.a, link.b, link.rate_mbit, link.delay_ms, link.loss
    );
    if !link.name.is_empty() {
        text += &format!("name = {:?}\n", link.name);
    }
    for (key, from) in [("a_from", link.a_from), ("b_from", link.b_from)] {
        text += &from.map(|address| format!("{key} = \"{address}\"\n")).unwrap_or_default();
    }
    for (key, way) in [("b_at", ports.a_to_b), ("a_at", ports.b_to_a)] {
        if let LinkEnd { control: Some(control), data: Some(data) } = way {
            text += &format!("{key} = {{ control = \"{control}\", data = \"{data}\" }}\n");
        }
    }
    text
}
