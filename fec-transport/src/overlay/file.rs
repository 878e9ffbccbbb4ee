//! Reading an overlay file: what stands in it, and what can be wrong with it.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::{Link, MAX_ENTRIES, Member, MemberId, Overlay, Reach, RelayFor, Site, ends, link_id, member_id};
use crate::keys::{PublicKeys, decode_key};
use crate::limits::MAX_NAME;

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
    control: Option<SocketAddr>,
    data: Option<SocketAddr>,
    #[serde(default)]
    relay_for: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    a: String,
    b: String,
    capacity_mbit: Option<f64>,
    delay_ms: Option<f64>,
    loss: Option<f64>,
    a_to_b: Option<Reach>,
    b_to_a: Option<Reach>,
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
    /// A link is listed twice.
    #[error("link {a} – {b} is listed twice; one entry serves both directions")]
    DuplicateLink {
        /// One end.
        a: String,
        /// The other end.
        b: String,
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
    #[error("link {a} – {b}: neither end has a control address, so neither can reach the other")]
    Unreachable {
        /// One end.
        a: String,
        /// The other end.
        b: String,
    },
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
            overlay.by_ends.insert(ends(link.a, link.b), link_id(overlay.links.len()));
            overlay.links.push(link);
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
        let key = |what: &'static str, text: &str| {
            decode_key(text).map_err(|error| OverlayError::OutOfRange {
                place: format!("member \"{}\"", entry.name),
                what,
                value: format!("\"{text}\" ({error})"),
                expected: "32 bytes in base64, as `sfio keygen` prints them",
            })
        };
        let keys =
            PublicKeys { ed25519: key("ed25519", &entry.ed25519)?, x25519: key("x25519", &entry.x25519)? };
        let relay_for = if entry.relay_for.iter().any(|name| name == "*") {
            RelayFor::Everyone
        } else {
            let place = format!("relay_for of member \"{}\"", entry.name);
            let members = entry.relay_for.iter().map(|name| self.resolve(&place, name));
            RelayFor::Members(members.collect::<Result<_, _>>()?)
        };
        Ok(Member { name: entry.name, keys, control: entry.control, data: entry.data, relay_for })
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
        let place = format!("link {} – {}", entry.a, entry.b);
        let (a, b) = (self.resolve(&place, &entry.a)?, self.resolve(&place, &entry.b)?);
        if a == b {
            return Err(OverlayError::SelfLink(entry.a));
        }
        if self.link_between(a, b).is_some() {
            return Err(OverlayError::DuplicateLink { a: entry.a, b: entry.b });
        }
        let positive = |value: f64| value > 0.0 && value.is_finite();
        check(&place, "capacity_mbit", entry.capacity_mbit, positive, "a number above 0")?;
        check(&place, "delay_ms", entry.delay_ms, |v| v >= 0.0 && v.is_finite(), "a number of at least 0")?;
        check(&place, "loss", entry.loss, |v| (0.0..1.0).contains(&v), "a share of at least 0 and below 1")?;
        let reachable = |to: MemberId, way: Option<Reach>| way.is_some() || self.member(to).control.is_some();
        if !reachable(b, entry.a_to_b) && !reachable(a, entry.b_to_a) {
            return Err(OverlayError::Unreachable { a: entry.a, b: entry.b });
        }
        Ok(Link {
            a,
            b,
            capacity_mbit: entry.capacity_mbit,
            delay_ms: entry.delay_ms,
            loss: entry.loss,
            a_to_b: entry.a_to_b,
            b_to_a: entry.b_to_a,
        })
    }

    fn site_from(&self, entry: SiteEntry) -> Result<Site, OverlayError> {
        let place = format!("site \"{}\"", entry.name);
        let io_nodes =
            entry.io_nodes.iter().map(|name| self.resolve(&place, name)).collect::<Result<_, _>>()?;
        Ok(Site { name: entry.name, io_nodes, stripe_unit: entry.stripe_unit })
    }
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
