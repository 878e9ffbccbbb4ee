//! `sfio overlay check`: what is wrong with an overlay file, and how much may fail in it.

use std::path::PathBuf;

use fec_transport::Config;
use fec_transport::overlay::{LinkId, MemberId, Overlay};
use fec_transport::plan::{minimum_cut, plan};
use sfio_remote::distribution::StripeUnit;

use crate::exit::{Exit, Failure};
use sfio_remote::io::membership::read_overlay;

/// Check an overlay file
///
/// Finds unknown names, duplicate names and keys, links listed twice, values out of range, and I/O nodes that cannot be
/// reached. For each I/O node it prints the fewest links that must fail before it is lost, the capacity of the
/// narrowest cut, and the number of paths that a session would use. I/O nodes are those of the sites; without sites,
/// all members with an address that relay for nobody.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The overlay file
    file: PathBuf,

    /// The member from which the I/O nodes are to be reached; without it, every member without an address
    #[arg(long, value_name = "MEMBER")]
    from: Option<String>,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let overlay = read_overlay(&options.file).or_exit(Exit::Input)?;
    let file = options.file.display();
    let fail = |what: String| Failure::new(Exit::Input, format!("overlay file {file}: {what}"));
    check_sites(&overlay).map_err(fail)?;
    let clients = clients(&overlay, options.from.as_deref()).map_err(fail)?;
    let (members, links) = (overlay.members().len(), overlay.links().len());
    program::line!("{file}: serial {}, {members} members, {links} links", overlay.serial)?;
    let mut lost = Vec::new();
    for client in &clients {
        for io_node in io_nodes(&overlay).into_iter().filter(|io_node| io_node != client) {
            let (from, to) = (overlay.name(*client), overlay.name(io_node));
            match describe(&overlay, *client, io_node) {
                Some(line) => program::line!("{from} to {to}: {line}")?,
                None => lost.push(format!("{to} from {from}")),
            }
        }
    }
    if lost.is_empty() { Ok(()) } else { Err(fail(format!("out of reach: {}", lost.join(", ")))) }
}

fn check_sites(overlay: &Overlay) -> Result<(), String> {
    for site in overlay.sites() {
        let place = format!("site \"{}\"", site.name);
        if site.io_nodes.is_empty() {
            return Err(format!("{place} has no I/O nodes"));
        }
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

/// How well `to` can be reached; none if not at all.
fn describe(overlay: &Overlay, from: MemberId, to: MemberId) -> Option<String> {
    let paths = plan(overlay, from, to, &Config::default()).ok()?.len();
    let (links, _) = minimum_cut(overlay, from, to, |_| 1.0).ok()?;
    let mut line = match links.as_slice() {
        [only] => format!("lost when one link fails ({})", link_name(overlay, *only)),
        several => format!("lost when {} links fail", several.len()),
    };
    if overlay.links().iter().all(|link| link.capacity_mbit.is_some()) {
        let capacity = minimum_cut(overlay, from, to, |link| link.capacity_mbit.unwrap_or(0.0)).ok()?.1;
        line += &format!(", minimum cut {capacity} Mbit/s");
    }
    Some(line + &format!(", paths of a session: {paths}"))
}

fn link_name(overlay: &Overlay, link: LinkId) -> String {
    let link = &overlay.links()[usize::from(link.0)];
    format!("{} – {}", overlay.name(link.a), overlay.name(link.b))
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
        describe(overlay, from, to)
    }

    #[test]
    fn each_io_node_is_described_by_what_must_fail_before_it_is_lost() {
        let overlay = overlay("");
        let expected = "lost when 2 links fail, minimum cut 20 Mbit/s, paths of a session: 2";
        assert_eq!(between(&overlay, "client", "io1").as_deref(), Some(expected));
        let single = between(&overlay, "client", "io2").expect("it can be reached");
        assert!(single.starts_with("lost when one link fails (r2 – io2)"), "{single}");
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
    fn a_site_that_cannot_work_is_named() {
        let fault =
            |site: &str| check_sites(&overlay(&format!("[[site]]\nname = \"s\"\n{site}\n"))).unwrap_err();
        assert_eq!(fault("io_nodes = []"), "site \"s\" has no I/O nodes");
        assert!(fault("io_nodes = [\"io1\"]\nstripe_unit = \"64kb\"").contains("64kb"));
        assert!(fault("io_nodes = [\"client\"]").contains("I/O node \"client\" has no data address"));
    }
}
