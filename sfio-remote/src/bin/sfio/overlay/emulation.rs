//! The emulated links between the members of a local overlay.

use std::time::Duration;

use fec_transport::overlay::{MemberId, Overlay, Reach};
use netsim::emulator::{EmulatedLink, Emulator, Endpoint, LinkPorts};
use netsim::{LinkModel, Probability, Rate};
use tokio::runtime::{Builder, Runtime};

use super::links::{Link, Links};
use crate::exit::{Exit, Failure, OrFail as _};

/// Links that are emulated for as long as this lives.
pub(super) struct Emulation {
    links: usize,
    // Its tasks end before their runtime.
    _emulator: Emulator,
    _runtime: Runtime,
}

impl Emulation {
    /// Binds the ports at which the overlay file says the ends of the links reach each other.
    pub(super) fn start(overlay: &Overlay, links: &Links) -> Result<Emulation, Failure> {
        let emulated =
            links.link.iter().map(|link| emulated_link(overlay, link)).collect::<Result<_, _>>()?;
        // The emulator has a runtime of its own, because its tasks must come to their turns every millisecond.
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("emulator").enable_all().build();
        let runtime = runtime.or_fail(Exit::Failed, "cannot start the emulator")?;
        let guard = runtime.enter();
        let emulator = Emulator::start(emulated, links.seed)
            .map_err(|error| Failure::new(Exit::Input, format!("{:#}", anyhow::Error::new(error))))?;
        drop(guard);
        Ok(Emulation { links: links.link.len(), _emulator: emulator, _runtime: runtime })
    }

    /// How many links are emulated.
    pub(super) fn links(&self) -> usize {
        self.links
    }
}

fn emulated_link(overlay: &Overlay, link: &Link) -> Result<EmulatedLink, Failure> {
    let name = link.title();
    let fail = |what: String| Failure::new(Exit::Input, format!("links.toml: link {name}: {what}"));
    let find =
        |end: &str| overlay.find(end).ok_or_else(|| fail(format!("overlay.toml has no member \"{end}\"")));
    let (a, b) = (find(&link.a)?, find(&link.b)?);
    let listed = overlay.link_named(a, b, &link.name);
    let listed = listed.ok_or_else(|| fail("overlay.toml has no such link".to_owned()))?;
    let model = model(link).map_err(fail)?;
    let listed = overlay.link(listed);
    let (b_at, a_at) = if listed.a == a { (listed.b_at, listed.a_at) } else { (listed.a_at, listed.b_at) };
    let ports = LinkPorts { a_to_b: endpoint(b_at), b_to_a: endpoint(a_at) };
    let ends = [a, b].map(|end| own_addresses(overlay, end));
    let mut emulated = EmulatedLink::new(name, ends[0], ends[1], model.clone(), model);
    emulated.bind = ports;
    Ok(emulated)
}

fn model(link: &Link) -> Result<LinkModel, String> {
    link.check()?;
    let rate = Rate::try_from_bits(link.rate_mbit * 1e6).map_err(|error| error.to_string())?;
    let loss = Probability::new(link.loss).map_err(|error| error.to_string())?;
    Ok(LinkModel::new(rate, Duration::from_secs_f64(link.delay_ms / 1e3)).with_loss(loss))
}

fn endpoint(reach: Option<Reach>) -> Endpoint {
    Endpoint { control: reach.map(|reach| reach.control), data: reach.map(|reach| reach.data) }
}

fn own_addresses(overlay: &Overlay, member: MemberId) -> Endpoint {
    let member = overlay.member(member);
    Endpoint { control: member.control, data: member.data }
}
