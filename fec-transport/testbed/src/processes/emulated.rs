//! client – r1, r2 … – server, where each path is one emulated link and a relay next to the server.

use anyhow::{Result, bail};
use netsim::LinkModel;
use netsim::emulator::{EmulatedLink, Emulator, Endpoint};

use super::child::Child;
use super::job::{Job, MemberJob};
use super::overlay::OverlayText;

/// Starts the members; the client sends to the server without end. For each path the models of its two directions, that
/// of the data first. Gives the processes: server, client, relays.
///
/// # Errors
/// Outside of a tokio runtime too: the emulator needs one.
pub fn start(models: Vec<[LinkModel; 2]>, config: &str, seed: u64) -> Result<(Emulator, Vec<Child>)> {
    let mut overlay = OverlayText::default();
    overlay.client("client");
    overlay.listener("server")?;
    let (mut relays, mut links) = (Vec::new(), Vec::new());
    for (number, [there, back]) in (1..).zip(models) {
        let relay = format!("r{number}");
        let end = overlay.listener(&relay)?;
        links.push(EmulatedLink::new(format!("path {number}"), Endpoint::default(), end, there, back));
        relays.push(relay);
    }
    let emulator = Emulator::start(links, seed)?;
    for (relay, link) in relays.iter().zip(emulator.links()) {
        let Endpoint { control: Some(control), data: Some(data) } = link.ports().a_to_b else {
            bail!("an emulated link without ports");
        };
        let way = format!("a_to_b = {{ control = \"{control}\", data = \"{data}\" }}\n");
        overlay.link("client", relay, &way);
        overlay.link(relay, "server", "");
    }
    let start = |name: &str, sends_to: &[String]| {
        let (overlay, name, config) = (overlay.0.clone(), name.to_owned(), config.to_owned());
        let sends_to = sends_to.to_vec();
        Child::start(&Job::Member(MemberJob {
            overlay,
            name,
            sends_to,
            config,
            gro: true,
            ..MemberJob::default()
        }))
    };
    let mut children = vec![start("server", &[])?];
    let relays = relays.iter().map(|name| start(name, &[])).collect::<Result<Vec<_>>>()?;
    children.push(start("client", &["server".to_owned()])?);
    children.extend(relays);
    Ok((emulator, children))
}
