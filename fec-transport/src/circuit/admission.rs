//! Which circuits may be set up here: the checks that every node on a route makes for itself.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::overlay::{Adjacency, LinkId, MemberId, Overlay, Route};
use crate::shares::has_place;
use crate::wire::PROTOCOL_VERSION;
use crate::wire::circuit::{SetUp, SetUpBody};

/// A set-up that passed.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) body: SetUpBody,
    pub(crate) originator: MemberId,
    pub(crate) route: Route,
    /// The next member of the route and the link to it; none at its end.
    pub(crate) next: Option<(MemberId, LinkId)>,
}

/// Why a set-up is refused; the words go back to the originator.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Rejection {
    #[error("{0}")]
    Malformed(#[from] crate::wire::Malformed),
    #[error("the set-up is of version {0} of the protocol, and I speak version {PROTOCOL_VERSION} only")]
    Version(u8),
    #[error("the route names \"{0}\", whom my overlay file does not list")]
    UnknownMember(String),
    #[error("the route goes from \"{0}\" to \"{1}\" over {2}, and my overlay file lists no such link")]
    UnknownLink(String, String, String),
    #[error("the route visits \"{0}\" twice")]
    Loop(String),
    #[error("the route has {0} members, and {1} are allowed")]
    TooLong(usize, usize),
    #[error("the route does not lead from \"{0}\" to me")]
    NotOnRoute(String),
    #[error("the route leads to me over link \"{0}\", and it came over another one")]
    OtherLink(String),
    #[error("the signature is not that of \"{0}\"")]
    Signature(String),
    #[error("it was made at {made} s and my clock shows {now} s; set the clocks of both members")]
    Clock { made: u64, now: u64 },
    #[error("I do not relay for \"{0}\"")]
    NotRelaying(String),
    #[error("\"{0}\" has {1} circuits here already")]
    Quota(String, usize),
    #[error("\"{0}\" sends more than {1} set-ups per second")]
    TooFast(String, f64),
    #[error("my table of circuits is full")]
    Full,
    #[error("this circuit was set up before")]
    Replayed,
}

/// Checks a set-up that came from the neighbour `previous` to `me`, whose clock shows `clock_s` seconds since the UNIX
/// epoch.
///
/// # Errors
/// The first rule that it breaks.
pub(crate) fn admit(
    overlay: &Overlay,
    me: MemberId,
    config: &Config,
    previous: Adjacency,
    set_up: &SetUp,
    clock_s: u64,
) -> Result<Admitted, Rejection> {
    if let Some(version) = SetUpBody::version_of(&set_up.signed).filter(|it| *it != PROTOCOL_VERSION) {
        return Err(Rejection::Version(version));
    }
    let body = SetUpBody::parse(&set_up.signed)?;
    let route = resolve(overlay, &body, config.limits.max_route)?;
    let (members, links) = (route.members(), route.links());
    let originator = members[0];
    if !overlay.member(originator).keys.verifies(&set_up.signed, &set_up.signature) {
        return Err(Rejection::Signature(body.route[0].clone()));
    }
    if clock_s.abs_diff(body.time_s) > config.routing.clock_skew.as_secs() {
        return Err(Rejection::Clock { made: body.time_s, now: clock_s });
    }
    let place = members.iter().position(|member| *member == me);
    let Some(place) = place.filter(|place| *place > 0 && members[*place - 1] == previous.peer.member) else {
        return Err(Rejection::NotOnRoute(overlay.name(previous.peer.member)));
    };
    if links[place - 1] != previous.link {
        return Err(Rejection::OtherLink(body.links[place - 1].clone()));
    }
    let next = members.get(place + 1).copied().zip(links.get(place).copied());
    if next.is_some() && !overlay.relays_for(me, originator) {
        return Err(Rejection::NotRelaying(body.route[0].clone()));
    }
    Ok(Admitted { body, originator, route, next })
}

fn resolve(overlay: &Overlay, body: &SetUpBody, max_route: usize) -> Result<Route, Rejection> {
    let names = &body.route;
    if names.len() > max_route {
        return Err(Rejection::TooLong(names.len(), max_route));
    }
    let mut members = Vec::with_capacity(names.len());
    for name in names {
        let member = overlay.find(name).ok_or_else(|| Rejection::UnknownMember(name.clone()))?;
        if members.contains(&member) {
            return Err(Rejection::Loop(name.clone()));
        }
        members.push(member);
    }
    let mut links = Vec::with_capacity(body.links.len());
    for (pair, name) in members.windows(2).zip(&body.links) {
        let unknown = || {
            let title =
                if name.is_empty() { "a link without a name".to_owned() } else { format!("link \"{name}\"") };
            Rejection::UnknownLink(overlay.name(pair[0]), overlay.name(pair[1]), title)
        };
        links.push(overlay.link_named(pair[0], pair[1], name).ok_or_else(unknown)?);
    }
    Ok(Route::new(members, links))
}

/// How many circuits each originator has here, and how many came from each neighbour.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    total: usize,
    by_originator: BTreeMap<MemberId, usize>,
    by_neighbour: BTreeMap<MemberId, usize>,
}

impl Quotas {
    /// Charges one circuit to `originator` and to the `neighbour` from whom its set-up came.
    pub(crate) fn charge(
        &mut self,
        overlay: &Overlay,
        config: &Config,
        originator: MemberId,
        neighbour: MemberId,
    ) -> Result<(), Rejection> {
        let limits = &config.limits;
        refuse_full(&self.by_originator, overlay, originator, limits.circuits_per_originator)?;
        refuse_full(&self.by_neighbour, overlay, neighbour, limits.circuits_per_neighbour)?;
        let of_originator = self.by_originator.get(&originator).copied().unwrap_or(0);
        if !has_place(limits.circuits, self.total, of_originator) {
            return Err(Rejection::Full);
        }
        *self.by_originator.entry(originator).or_default() += 1;
        *self.by_neighbour.entry(neighbour).or_default() += 1;
        self.total += 1;
        Ok(())
    }

    /// Gives one circuit back.
    pub(crate) fn release(&mut self, originator: MemberId, neighbour: MemberId) {
        give_back(&mut self.by_originator, originator);
        give_back(&mut self.by_neighbour, neighbour);
        self.total = self.total.saturating_sub(1);
    }
}

fn refuse_full(
    counts: &BTreeMap<MemberId, usize>,
    overlay: &Overlay,
    member: MemberId,
    limit: usize,
) -> Result<(), Rejection> {
    match counts.get(&member) {
        Some(held) if *held >= limit => Err(Rejection::Quota(overlay.name(member), *held)),
        None if limit == 0 => Err(Rejection::Quota(overlay.name(member), 0)),
        _ => Ok(()),
    }
}

fn give_back(counts: &mut BTreeMap<MemberId, usize>, member: MemberId) {
    if let Some(held) = counts.get_mut(&member) {
        *held = held.saturating_sub(1);
        if *held == 0 {
            counts.remove(&member);
        }
    }
}
