//! Reading an overlay file: what stands in it, and what can be wrong with it.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;

use super::uplinks::{MAX_LISTED_NAME, UPLINK_MARK};
use super::{
    Link, LinkId, MAX_ENTRIES, Member, MemberId, Overlay, Reach, RelayFor, Site, Uplink, link_title,
    member_id,
};
use crate::keys::{KeyError, PublicKeys, decode_ed25519, decode_x25519};
use crate::limits::MAX_NAME;

/// A site has as many I/O nodes as a file has subfiles at most (sfio-remote's name.rs).
const MAX_SITE: usize = 4_096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    serial: u64,
    #[serde(default)]
    member: Vec<MemberEntry>,
    #[serde(default)]
    link: Vec<LinkEntry>,
    #[serde(default)]
    site: Vec<SiteEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberEntry {
    name: String,
    ed25519: String,
    x25519: String,
    control: Option<String>,
    data: Option<String>,
    #[serde(default)]
    relay_for: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    a: String,
    b: String,
    #[serde(default)]
    name: String,
    capacity_mbit: Option<f64>,
    delay_ms: Option<f64>,
    loss: Option<f64>,
    a_from: Option<String>,
    b_from: Option<String>,
    a_at: Option<At>,
    b_at: Option<At>,
    /// What files said before links had uplinks: where `b` is reached.
    a_to_b: Option<Reach>,
    /// Where `a` is reached.
    b_to_a: Option<Reach>,
}

/// Where a member is reached over a link.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected an address, as \"192.0.2.7\", or one with a port for each plane, as { control = \"192.0.2.7:7000\", \
                 data = \"192.0.2.7:7001\" }"
)]
enum At {
    /// At the ports that the member has.
    Host(IpAddr),
    /// There.
    Ports(Reach),
}

/// One end of a link as its entry has it.
struct End<'a> {
    member: MemberId,
    /// The keys that speak of it.
    keys: [&'static str; 3],
    at: Option<At>,
    reach: Option<Reach>,
    from: Option<&'a str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteEntry {
    name: String,
    io_nodes: Vec<String>,
    stripe_unit: Option<String>,
}

/// What is wrong with an overlay file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OverlayError {
    /// The file is not TOML, or not of the expected form.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, counted from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A name is used that no member has.
    #[error("{place}: there is no member \"{name}\" (members: {known})")]
    UnknownMember {
        /// Where the name is used.
        place: String,
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// Two members share a name or a key.
    #[error("member \"{second}\" has the same {what} as member \"{first}\"; each member needs its own")]
    Duplicate {
        /// `name`, `ed25519` or `x25519`.
        what: &'static str,
        /// The member listed first.
        first: String,
        /// The member listed later.
        second: String,
    },
    /// A link is listed twice, or two links between the same members are not told apart.
    #[error(
        "link {0} is listed twice; one entry serves both directions, and parallel links have a `name` each"
    )]
    DuplicateLink(String),
    /// Two keys say the same thing of a link.
    #[error("{place}: {newer} and {older} both say where that member is reached; leave {older} out")]
    SaidTwice {
        /// Which link.
        place: String,
        /// One key.
        newer: &'static str,
        /// The other key, which earlier files had.
        older: &'static str,
    },
    /// A link leads from a member to itself.
    #[error("link {0} – {0} leads from a member to itself")]
    SelfLink(String),
    /// A value is out of its range.
    #[error("{place}: {what} is {value}; expected {expected}")]
    OutOfRange {
        /// Which member or link.
        place: String,
        /// The attribute.
        what: &'static str,
        /// What the file says.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
    /// Nobody can open the control connection of a link.
    #[error("link {0}: neither end has a control address, so neither can reach the other")]
    Unreachable(String),
}

impl Overlay {
    pub(super) fn from_file(file: File) -> Result<Overlay, OverlayError> {
        let by_name = index_names(&file.member)?;
        refuse_too_many("the number of links", file.link.len())?;
        let mut overlay = Overlay {
            serial: file.serial,
            members: Vec::new(),
            links: Vec::new(),
            sites: Vec::new(),
            by_name,
            by_ends: BTreeMap::new(),
        };
        for entry in file.member {
            let member = overlay.member_from(entry)?;
            overlay.members.push(member);
        }
        overlay.refuse_shared_keys()?;
        for entry in file.link {
            let link = overlay.link_from(entry)?;
            overlay = overlay.with_link(link);
        }
        for entry in file.site {
            let site = overlay.site_from(entry)?;
            overlay.sites.push(site);
        }
        Ok(overlay)
    }

    fn resolve(&self, place: impl fmt::Display, name: &str) -> Result<MemberId, OverlayError> {
        self.find(name).ok_or_else(|| OverlayError::UnknownMember {
            place: place.to_string(),
            name: name.to_owned(),
            known: self.by_name.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    fn member_from(&self, entry: MemberEntry) -> Result<Member, OverlayError> {
        if entry.name.is_empty() || entry.name.len() > MAX_NAME {
            return Err(OverlayError::OutOfRange {
                place: format!("member \"{}\"", entry.name),
                what: "the length of its name",
                value: format!("{} bytes", entry.name.len()),
                expected: "1 to 64 bytes",
            });
        }
        let wrong = |what: &'static str, text: &str, error: KeyError| OverlayError::OutOfRange {
            place: format!("member \"{}\"", entry.name),
            what,
            value: format!("\"{text}\" ({error})"),
            expected: "32 bytes in base64, as `sfio keygen` prints them",
        };
        let keys = PublicKeys {
            ed25519: decode_ed25519(&entry.ed25519)
                .map_err(|error| wrong("ed25519", &entry.ed25519, error))?,
            x25519: decode_x25519(&entry.x25519).map_err(|error| wrong("x25519", &entry.x25519, error))?,
        };
        let relay_for = if entry.relay_for.iter().any(|name| name == "*") {
            RelayFor::Everyone
        } else {
            let place = format!("relay_for of member \"{}\"", entry.name);
            let members = entry.relay_for.iter().map(|name| self.resolve(&place, name));
            RelayFor::Members(members.collect::<Result<_, _>>()?)
        };
        let address = |what: &'static str, text: &Option<String>| {
            let parsed = text.as_ref().map(|text| text.parse().map_err(|_| text)).transpose();
            parsed.map_err(|text| OverlayError::OutOfRange {
                place: format!("member \"{}\"", entry.name),
                what,
                value: format!("\"{text}\""),
                expected: "an IP address and a port, as \"192.0.2.7:7000\" or \"[2001:db8::7]:7000\"",
            })
        };
        let (control, data) = (address("control", &entry.control)?, address("data", &entry.data)?);
        Ok(Member { name: entry.name, keys, control, data, relay_for })
    }

    fn refuse_shared_keys(&self) -> Result<(), OverlayError> {
        let (mut signing, mut agreement) = (BTreeMap::new(), BTreeMap::new());
        for member in &self.members {
            let duplicate = |what, first: &Member| OverlayError::Duplicate {
                what,
                first: first.name.clone(),
                second: member.name.clone(),
            };
            if let Some(first) = signing.insert(member.keys.ed25519, member) {
                return Err(duplicate("ed25519", first));
            }
            if let Some(first) = agreement.insert(member.keys.x25519, member) {
                return Err(duplicate("x25519", first));
            }
        }
        Ok(())
    }

    fn link_from(&self, entry: LinkEntry) -> Result<Link, OverlayError> {
        let title = link_title(&entry.a, &entry.b, &entry.name);
        let place = format!("link {title}");
        let (a, b) = (self.resolve(&place, &entry.a)?, self.resolve(&place, &entry.b)?);
        if a == b {
            return Err(OverlayError::SelfLink(entry.a));
        }
        if entry.name.len() > MAX_LISTED_NAME || entry.name.contains(UPLINK_MARK) {
            let (what, value) = ("its name", format!("\"{}\"", entry.name));
            let expected = "at most 62 bytes without @, behind which members number their uplinks";
            return Err(OverlayError::OutOfRange { place, what, value, expected });
        }
        let is_told_apart = |other: &LinkId| !entry.name.is_empty() && !self.link(*other).name.is_empty();
        if self.link_named(a, b, &entry.name).is_some() || !self.links_between(a, b).iter().all(is_told_apart)
        {
            return Err(OverlayError::DuplicateLink(title));
        }
        let positive = |value: f64| value > 0.0 && value.is_finite();
        check(&place, "capacity_mbit", entry.capacity_mbit, positive, "a number above 0")?;
        check(&place, "delay_ms", entry.delay_ms, |v| v >= 0.0 && v.is_finite(), "a number of at least 0")?;
        check(&place, "loss", entry.loss, |v| (0.0..1.0).contains(&v), "a share of at least 0 and below 1")?;
        let (from, keys) = (entry.a_from.as_deref(), ["a_from", "a_at", "b_to_a"]);
        let (a_from, a_at) =
            self.end_from(&place, End { member: a, keys, at: entry.a_at, reach: entry.b_to_a, from })?;
        let (from, keys) = (entry.b_from.as_deref(), ["b_from", "b_at", "a_to_b"]);
        let (b_from, b_at) =
            self.end_from(&place, End { member: b, keys, at: entry.b_at, reach: entry.a_to_b, from })?;
        let reachable = |to: MemberId, at: Option<Reach>| at.is_some() || self.member(to).control.is_some();
        if !reachable(b, b_at) && !reachable(a, a_at) {
            return Err(OverlayError::Unreachable(title));
        }
        let LinkEntry { name, capacity_mbit, delay_ms, loss, .. } = entry;
        let label = name.clone();
        Ok(Link { a, b, name, label, capacity_mbit, delay_ms, loss, a_from, b_from, a_at, b_at })
    }

    /// Over which uplink one end of a link sends, and where it is reached.
    fn end_from(&self, place: &str, end: End<'_>) -> Result<(Option<Uplink>, Option<Reach>), OverlayError> {
        let [from_key, at_key, older_key] = end.keys;
        let fault = |what, value: String, expected| {
            Err(OverlayError::OutOfRange { place: place.to_owned(), what, value, expected })
        };
        let from = match end.from.map(|text| (text, Uplink::parse(text))) {
            Some((text, None)) => {
                return fault(from_key, format!("\"{text}\""), "an IP address or the name of an interface");
            }
            Some((_, from)) => from,
            None => None,
        };
        let member = self.member(end.member);
        let at = match (end.at, end.reach) {
            (Some(_), Some(_)) => {
                let place = place.to_owned();
                return Err(OverlayError::SaidTwice { place, newer: at_key, older: older_key });
            }
            (Some(At::Ports(reach)), None) => Some(reach),
            (None, reach) => reach,
            (Some(At::Host(ip)), None) => match (member.control, member.data) {
                (Some(control), Some(data)) => Some(Reach {
                    control: SocketAddr::new(ip, control.port()),
                    data: SocketAddr::new(ip, data.port()),
                }),
                _ => {
                    let expected =
                        "{ control, data } with a port each, because that member has none of its own";
                    return fault(at_key, format!("\"{ip}\""), expected);
                }
            },
        };
        Ok((from, at))
    }

    fn site_from(&self, entry: SiteEntry) -> Result<Site, OverlayError> {
        let place = format!("site \"{}\"", entry.name);
        let fault = |what, value: String, expected| {
            Err(OverlayError::OutOfRange { place: place.clone(), what, value, expected })
        };
        if !can_be_named(&entry.name) {
            let expected =
                "at least one character, and none of : / , ; which end it in SITE:NAME and SITE:PATH";
            return fault("its name", format!("\"{}\"", entry.name), expected);
        }
        if self.sites.iter().any(|site| site.name == entry.name) {
            return fault(
                "its name",
                "that of a site before it, too".to_owned(),
                "another one for each site",
            );
        }
        if !(1..=MAX_SITE).contains(&entry.io_nodes.len()) {
            return fault("the number of its I/O nodes", entry.io_nodes.len().to_string(), "1 to 4096");
        }
        let mut io_nodes = Vec::with_capacity(entry.io_nodes.len());
        let mut seen = BTreeSet::new();
        for name in &entry.io_nodes {
            let io_node = self.resolve(&place, name)?;
            if name.starts_with(|c: char| c.is_ascii_whitespace()) || !is_word(name, &[',', ';']) {
                let expected = "a member whose name begins with no blank and has no , and no ; in it";
                return fault("io_nodes", format!("\"{name}\""), expected);
            }
            if !seen.insert(io_node) {
                return fault("io_nodes", format!("\"{name}\" more than once"), "each member once");
            }
            io_nodes.push(io_node);
        }
        Ok(Site { name: entry.name, io_nodes, stripe_unit: entry.stripe_unit })
    }
}

/// Whether a command can name a site: what stands before the colon of a data set's address must be all of it.
fn can_be_named(site: &str) -> bool {
    !site.is_empty() && is_word(site, &[':', '/', ',', ';'])
}

/// Whether none of these characters is in it, and none that nobody can type.
fn is_word(text: &str, without: &[char]) -> bool {
    !text.contains(|c: char| c.is_control() || without.contains(&c))
}

fn refuse_too_many(what: &'static str, count: usize) -> Result<(), OverlayError> {
    if count <= MAX_ENTRIES {
        return Ok(());
    }
    let place = "the overlay".to_owned();
    Err(OverlayError::OutOfRange { place, what, value: count.to_string(), expected: "at most 65535" })
}

fn index_names(entries: &[MemberEntry]) -> Result<BTreeMap<String, MemberId>, OverlayError> {
    refuse_too_many("the number of members", entries.len())?;
    let mut by_name = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        if by_name.insert(entry.name.clone(), member_id(index)).is_some() {
            let name = entry.name.clone();
            return Err(OverlayError::Duplicate { what: "name", first: name.clone(), second: name });
        }
    }
    Ok(by_name)
}

fn check(
    place: &str,
    what: &'static str,
    value: Option<f64>,
    fits: impl Fn(f64) -> bool,
    expected: &'static str,
) -> Result<(), OverlayError> {
    match value {
        Some(value) if !fits(value) => Err(OverlayError::OutOfRange {
            place: place.to_owned(),
            what,
            value: value.to_string(),
            expected,
        }),
        _ => Ok(()),
    }
}

pub(super) fn syntax_error(text: &str, error: &toml::de::Error) -> OverlayError {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
    OverlayError::Syntax { line, message: error.message().replace('\n', ", ") }
}
