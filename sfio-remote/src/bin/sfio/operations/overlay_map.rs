//! Who is in an overlay, and which links join them: what a picture of it is drawn from.

use fec_transport::overlay::{Link, Member, MemberId, Overlay, RelayFor};
use serde::{Deserialize, Serialize};

/// An overlay file as far as everybody may know it. It changes with its serial only, so it is asked for apart from what
/// changes every second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OverlayMap {
    pub(crate) serial: u64,
    pub(crate) members: Vec<MappedMember>,
    pub(crate) links: Vec<MappedLink>,
}

/// A member of an overlay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MappedMember {
    pub(crate) name: String,
    /// Whether it has an address; one without is a client.
    pub(crate) listens: bool,
    /// Whether it relays for anybody.
    pub(crate) relays: bool,
    /// Whether it is an I/O node of a site.
    pub(crate) serves: bool,
}

/// A link of an overlay, with what the file says of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MappedLink {
    pub(crate) a: String,
    pub(crate) b: String,
    /// Tells parallel links apart; empty for a link without a name.
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) capacity_mbit: Option<f64>,
    pub(crate) delay_ms: Option<f64>,
    /// In [0, 1].
    pub(crate) loss: Option<f64>,
}

impl OverlayMap {
    pub(crate) fn of(overlay: &Overlay) -> OverlayMap {
        let serves = |id| overlay.sites().iter().any(|site| site.io_nodes.contains(&id));
        let members = overlay.listed_members().map(|(id, member)| mapped_member(member, serves(id)));
        let links = overlay.listed_links().map(|(_, link)| mapped_link(overlay, link));
        OverlayMap { serial: overlay.serial, members: members.collect(), links: links.collect() }
    }
}

fn mapped_member(member: &Member, serves: bool) -> MappedMember {
    let relays = match &member.relay_for {
        RelayFor::Everyone => true,
        RelayFor::Members(originators) => !originators.is_empty(),
    };
    MappedMember { name: member.name.clone(), listens: member.control.is_some(), relays, serves }
}

fn mapped_link(overlay: &Overlay, link: &Link) -> MappedLink {
    let name_of = |member: MemberId| overlay.name(member);
    let Link { a, b, capacity_mbit, delay_ms, loss, .. } = *link;
    MappedLink { a: name_of(a), b: name_of(b), name: link.label.clone(), capacity_mbit, delay_ms, loss }
}
