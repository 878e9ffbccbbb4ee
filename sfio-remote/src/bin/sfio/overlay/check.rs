//! `sfio overlay check`: what is wrong with an overlay file, and how much may fail in it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use fec_transport::Config;
use fec_transport::overlay::{LinkId, MemberId, Overlay};
use fec_transport::plan::{minimum_cut, plan};
use sfio_remote::distribution::StripeUnit;

use program::output::{self, Telling};
use serde::Serialize;
use serde_json::json;

use crate::exit::{Exit, Failure, OrFail as _};
use fec_transport::io::files::read_overlay;

/// Check an overlay file
///
/// Finds unknown names, duplicate names, keys and addresses, links listed twice, values out of range, and I/O nodes
/// that cannot be reached. For each I/O node it prints the fewest links that must fail before it is lost, the capacity
/// of the narrowest cut, and the number of paths that a session would use. I/O nodes are those of the sites; without
/// sites, all members with an address that relay for nobody.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio overlay check try/overlay.toml --json")]
pub(crate) struct Options {
    /// The overlay file
    file: PathBuf,

    /// The member from which the I/O nodes are to be reached; without it, every member without an address
    #[arg(long, value_name = "MEMBER")]
    from: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let overlay = read_overlay(&options.file).or_exit(Exit::Input)?;
    let file = options.file.display();
    let fail = |what: String| Failure::new(Exit::Input, format!("overlay file {file}: {what}"));
    if overlay.members().is_empty() {
        return Err(fail("it lists no members".to_owned()));
    }
    check_addresses(&overlay).and_then(|()| check_sites(&overlay)).map_err(fail)?;
    let clients = clients(&overlay, options.from.as_deref()).map_err(fail)?;
    let (members, links) = (overlay.members().len(), overlay.links().len());
    let pairs = clients.iter().flat_map(|client| io_nodes(&overlay).into_iter().map(|node| (*client, node)));
    let (mut reaches, mut lost) = (Vec::new(), Vec::new());
    for (client, node) in pairs.filter(|(client, node)| client != node) {
        match Reach::of(&overlay, client, node) {
            Some(reach) => reaches.push(reach),
            None => lost.push(format!("{} from {}", overlay.name(node), overlay.name(client))),
        }
    }
    let serial = overlay.serial;
    let said = if options.json {
        output::json(
            &json!({ "serial": serial, "members": members, "links": links, "reaches": reaches, "lost": lost }),
        )
    } else {
        let telling = Telling::default();
        telling.line(format_args!("{file}: serial {serial}, {members} members, {links} links"));
        reaches.iter().for_each(|reach| telling.line(reach));
        telling.finish()
    };
    if lost.is_empty() { said } else { Err(fail(format!("out of reach: {}", lost.join(", ")))) }
}

/// Refuses that two sockets have one address.
fn check_addresses(overlay: &Overlay) -> Result<(), String> {
    let mut taken = BTreeMap::new();
    for (id, member) in overlay.listed_members() {
        for (plane, address) in [("control", member.control), ("data", member.data)] {
            let Some(address) = address.filter(|address| is_one_place(overlay, id, *address)) else {
                continue;
            };
            if let Some((first, its_plane)) = taken.insert(address, (&member.name, plane)) {
                return Err(format!(
                    "the {its_plane} address of member \"{first}\" is the {plane} address of member \"{}\", too: \
                     {address}; expected another host or port",
                    member.name
                ));
            }
        }
    }
    Ok(())
}

/// Whether a member's address means the same to everybody. One in a private network does not if all links say where
/// else the member is reached, and neither does one that the system fills in.
fn is_one_place(overlay: &Overlay, id: MemberId, address: SocketAddr) -> bool {
    let used = |(link, neighbour): (LinkId, MemberId)| {
        let (control, data) = overlay.reach(link, neighbour);
        [control, data].contains(&Some(address))
    };
    let is_whole = address.port() != 0 && !address.ip().is_unspecified();
    is_whole && (address.ip().is_loopback() || overlay.links_of(id).any(used))
}

fn check_sites(overlay: &Overlay) -> Result<(), String> {
    for site in overlay.sites() {
        let place = format!("site \"{}\"", site.name);
        if let Some(unit) = &site.stripe_unit {
            unit.parse::<StripeUnit>().map_err(|error| format!("{place}: {error}"))?;
        }
        if let Some(client) = site.io_nodes.iter().find(|node| overlay.member(**node).data.is_none()) {
            let name = overlay.name(*client);
            return Err(format!(
                "{place}: I/O node \"{name}\" has no data address, so nobody can begin to talk to it"
            ));
        }
    }
    Ok(())
}

/// The members from which the I/O nodes are to be reached.
fn clients(overlay: &Overlay, from: Option<&str>) -> Result<Vec<MemberId>, String> {
    match from {
        Some(name) => Ok(vec![overlay.find(name).ok_or_else(|| format!("there is no member \"{name}\""))?]),
        None => Ok(ids(overlay).filter(|id| overlay.member(*id).control.is_none()).collect()),
    }
}

fn io_nodes(overlay: &Overlay) -> Vec<MemberId> {
    if overlay.sites().is_empty() {
        let relays = |id: MemberId| ids(overlay).any(|for_whom| overlay.relays_for(id, for_whom));
        return ids(overlay).filter(|id| overlay.member(*id).data.is_some() && !relays(*id)).collect();
    }
    let mut nodes: Vec<MemberId> = overlay.sites().iter().flat_map(|site| site.io_nodes.clone()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn ids(overlay: &Overlay) -> impl Iterator<Item = MemberId> {
    (0..overlay.members().len()).map(|index| MemberId(index as u16))
}

/// How well an I/O node can be reached.
#[derive(Debug, Serialize)]
struct Reach {
    from: String,
    to: String,
    /// The fewest links that must fail before it is lost.
    fewest_links: Vec<String>,
    /// Whether each of these has a name, so that people know which one is meant.
    #[serde(skip)]
    are_named: bool,
    /// None if a link's capacity is not known.
    minimum_cut_mbit: Option<f64>,
    /// Those that a session would use.
    paths: usize,
}

impl Reach {
    /// None if there is no way.
    fn of(overlay: &Overlay, from: MemberId, to: MemberId) -> Option<Reach> {
        let paths = plan(overlay, from, to, &Config::default()).ok()?.len();
        let (links, _) = minimum_cut(overlay, from, to, |_| 1.0).ok()?;
        let is_known = overlay.links().iter().all(|link| link.capacity_mbit.is_some());
        let cut = || minimum_cut(overlay, from, to, |link| link.capacity_mbit.unwrap_or(0.0)).ok();
        Some(Reach {
            from: overlay.name(from),
            to: overlay.name(to),
            fewest_links: links.iter().map(|link| overlay.link_title(*link)).collect(),
            are_named: links.iter().all(|link| !overlay.link(*link).name.is_empty()),
            minimum_cut_mbit: if is_known { Some(cut()?.1) } else { None },
            paths,
        })
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}: ", self.from, self.to)?;
        match self.fewest_links.as_slice() {
            [only] => write!(f, "lost when one link fails ({only})")?,
            several if self.are_named => {
                write!(f, "lost when {} links fail: {}", several.len(), several.join(", "))?;
            }
            several => write!(f, "lost when {} links fail", several.len())?,
        }
        if let Some(capacity) = self.minimum_cut_mbit {
            write!(f, ", minimum cut {capacity} Mbit/s")?;
        }
        write!(f, ", paths of a session: {}", self.paths)
    }
}

#[cfg(test)]
mod tests {
    use fec_transport::keys::encode_key;

    use super::*;

    /// Two relays between a client and two I/O nodes, one of which hangs on one link.
    fn overlay(more: &str) -> Overlay {
        let mut text = String::new();
        for (number, name) in ["client", "r1", "r2", "io1", "io2", "io3"].iter().enumerate() {
            let [ed25519, x25519] = [1, 101].map(|first| encode_key(&[first + number as u8; 32]));
            text +=
                &format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n");
            if *name != "client" {
                text += "control = \"127.0.0.1:1\"\ndata = \"127.0.0.1:2\"\n";
            }
            if name.starts_with('r') {
                text += "relay_for = [\"client\"]\n";
            }
        }
        for (a, b) in [("client", "r1"), ("client", "r2"), ("r1", "io1"), ("r2", "io1"), ("r2", "io2")] {
            text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ncapacity_mbit = 10\n");
        }
        Overlay::parse(&(text + more)).expect("a right file")
    }

    fn between(overlay: &Overlay, from: &str, to: &str) -> Option<String> {
        let [from, to] = [from, to].map(|name| overlay.find(name).expect("listed"));
        Reach::of(overlay, from, to).map(|reach| reach.to_string())
    }

    #[test]
    fn each_io_node_is_described_by_what_must_fail_before_it_is_lost() {
        let overlay = overlay("");
        let expected = "client to io1: lost when 2 links fail, minimum cut 20 Mbit/s, paths of a session: 2";
        assert_eq!(between(&overlay, "client", "io1").as_deref(), Some(expected));
        let single = between(&overlay, "client", "io2").expect("it can be reached");
        assert!(single.starts_with("client to io2: lost when one link fails (r2 – io2)"), "{single}");
        assert_eq!(between(&overlay, "client", "io3"), None);
    }

    #[test]
    fn without_sites_whoever_listens_and_relays_for_nobody_is_an_io_node() {
        let overlay = overlay("");
        let names: Vec<String> = io_nodes(&overlay).into_iter().map(|id| overlay.name(id)).collect();
        assert_eq!(names, ["io1", "io2", "io3"]);
        let clients = clients(&overlay, None).expect("no name is unknown");
        assert_eq!(clients, [overlay.find("client").expect("listed")]);
    }

    #[test]
    fn an_address_that_two_members_have_is_named() {
        let checked = |addresses: [&str; 2], link: &str| {
            let mut text = "[[link]]\na = \"io1\"\nb = \"io2\"\n".to_owned() + link;
            for (name, number, [control, data]) in [("io1", 1, ["1", "2"]), ("io2", 2, addresses)] {
                let [ed25519, x25519] = [number, 100 + number].map(|byte| encode_key(&[byte; 32]));
                text += &format!(
                    "[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n"
                );
                text += &format!("control = \"10.0.0.7:{control}\"\ndata = \"10.0.0.7:{data}\"\n");
            }
            check_addresses(&Overlay::parse(&text).expect("a right file"))
        };
        let told = "the data address of member \"io1\" is the control address of member \"io2\", too: 10.0.0.7:2; \
                    expected another host or port";
        assert_eq!(checked(["2", "3"], ""), Err(told.to_owned()));
        assert_eq!(checked(["3", "4"], ""), Ok(()));
        let elsewhere = "a_at = \"192.0.2.1\"\nb_at = \"192.0.2.2\"\n";
        assert_eq!(checked(["1", "2"], elsewhere), Ok(()), "they are in two private networks");
    }

    #[test]
    fn a_site_that_cannot_work_is_named() {
        let fault =
            |site: &str| check_sites(&overlay(&format!("[[site]]\nname = \"s\"\n{site}\n"))).unwrap_err();
        assert!(fault("io_nodes = [\"io1\"]\nstripe_unit = \"64kb\"").contains("64kb"));
        assert!(fault("io_nodes = [\"client\"]").contains("I/O node \"client\" has no data address"));
    }
}
