//! How the death of each link was felt, beside how much it may be felt (design §6).

use std::collections::BTreeSet;
use std::time::Duration;

use super::event::{Happening, NetworkChange};
use super::ledger::{Flow, Ledger, Traffic};
use super::load::Load;
use super::sampler::STRIDE;
use fec_transport::Class;
use fec_transport::Time;
use fec_transport::overlay::{LinkId, MemberId, Route};
use fec_transport::plan::PlannedRoute;
use fec_transport::sim::World;

/// A link that died, and how the bulk flows felt it.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkDeath {
    /// Its ends, and its name if it has one.
    pub link: String,
    /// When it died, in seconds since the start of the simulation.
    pub at_s: f64,
    /// The share of the flow that the plan lets cross it.
    pub planned_share: f64,
    /// Whether the bulk flows are masked at all.
    pub has_mask: bool,
    /// Whether the mask covered it when it died: then nobody should feel it.
    pub is_masked: bool,
    /// The longest pause in the delivery from then until the next death.
    pub gap_ms: f64,
    /// What it may be: the skew of the planned paths, a queue of 15 ms on one of them included, if the link is masked,
    /// else the round trip of the slowest one and 60 ms; and the time of a block.
    pub bound_ms: f64,
    /// Rounds of repair from then until the next death.
    pub repair_rounds: u64,
}

/// The time from the death of a path to its leaving the schedule, beyond its round trip (design §6).
const DETECTION: Duration = Duration::from_millis(60);

/// What a queue may hold (design §6): one path may have it and another not, so it is part of their skew.
const QUEUE: Duration = Duration::from_millis(15);

/// Follows the deaths of links.
pub(super) struct Deaths {
    deaths: Vec<Followed>,
    flows: Vec<BulkFlow>,
    block_time: Duration,
}

/// A bulk flow and what is known of its plan.
struct BulkFlow {
    index: usize,
    from: MemberId,
    routes: Vec<PlannedRoute>,
    /// Round trip of the slowest planned path, and how much later its packets arrive than those of the fastest.
    slowest: Duration,
    skew: Duration,
    is_masked: bool,
}

/// A death that is being followed.
struct Followed {
    link: LinkId,
    title: String,
    at: Time,
    is_masked: bool,
    /// Rounds of repair in all when it happened, and when the next one did.
    rounds: [u64; 2],
}

impl Deaths {
    pub(super) fn new(world: &World<Load>, flows: &[Flow], happenings: &[Happening]) -> Deaths {
        let overlay = world.overlay();
        let followed = |happening: &Happening| {
            let NetworkChange::LinkDown(link) = happening.change else { return None };
            let (title, at) = (overlay.link_title(link), Time::from_epoch(happening.at));
            Some(Followed { link, title, at, is_masked: false, rounds: [0; 2] })
        };
        let mut deaths: Vec<Followed> = happenings.iter().filter_map(followed).collect();
        deaths.sort_by_key(|death| death.at);
        let is_bulk = |flow: &Flow| matches!(flow.traffic, Traffic::Bulk { .. });
        let bulk = flows.iter().enumerate().filter(|(_, flow)| is_bulk(flow));
        let flows = bulk.map(|(index, flow)| BulkFlow::new(world, index, flow)).collect();
        Deaths { deaths, flows, block_time: world.config().coding.block_time }
    }

    /// Looks at what a mask covers just before a link dies, and how much is repaired; called every [`STRIDE`].
    pub(super) fn stride(&mut self, world: &World<Load>, repair_rounds: u64) {
        let now = world.now();
        let mut next = Time::ZERO + Duration::MAX;
        for death in self.deaths.iter_mut().rev() {
            if death.at >= now && death.at < now + STRIDE {
                let is_covered =
                    |flow: &BulkFlow| flow.is_masked && !flow.unmaskable(world).contains(&death.link);
                death.is_masked = self.flows.iter().all(is_covered);
            }
            if now <= death.at {
                death.rounds[0] = repair_rounds;
            }
            if now <= next {
                death.rounds[1] = repair_rounds;
            }
            next = death.at;
        }
    }

    /// What came of them, by time.
    pub(super) fn outcome(&self, ledger: &Ledger) -> Vec<LinkDeath> {
        let next = self.deaths.iter().skip(1).map(|death| death.at).chain([ledger.window.1]);
        let of = |(death, until): (&Followed, Time)| {
            let gaps =
                self.flows.iter().map(|flow| ledger.records[flow.index].longest_pause(death.at, until));
            LinkDeath {
                link: death.title.clone(),
                at_s: death.at.since_epoch().as_secs_f64(),
                planned_share: self.flows.iter().map(|flow| flow.share_over(death.link)).fold(0.0, f64::max),
                has_mask: self.flows.iter().any(|flow| flow.is_masked),
                is_masked: death.is_masked,
                gap_ms: gaps.max().unwrap_or_default().as_secs_f64() * 1e3,
                bound_ms: self.bound(death.is_masked).as_secs_f64() * 1e3,
                repair_rounds: death.rounds[1] - death.rounds[0],
            }
        };
        self.deaths.iter().zip(next).map(of).collect()
    }

    fn bound(&self, is_masked: bool) -> Duration {
        let of = |flow: &BulkFlow| if is_masked { flow.skew + QUEUE } else { flow.slowest + DETECTION };
        self.flows.iter().map(of).max().unwrap_or_default() + self.block_time
    }
}

impl BulkFlow {
    fn new(world: &World<Load>, index: usize, flow: &Flow) -> BulkFlow {
        let routes = fec_transport::plan::plan(world.overlay(), flow.from, flow.to, world.config())
            .unwrap_or_default();
        let forth = |route: &PlannedRoute| delay(world, &route.route);
        let back = |route: &PlannedRoute| delay(world, &route.route.reversed());
        let slowest = routes.iter().map(|route| forth(route) + back(route)).max().unwrap_or_default();
        let latest = routes.iter().map(forth).max().unwrap_or_default();
        let skew = latest - routes.iter().map(forth).min().unwrap_or_default();
        let coding = &world.config().coding;
        let protection = if flow.class == Class::Bulk { &coding.bulk } else { &coding.interactive };
        BulkFlow { index, from: flow.from, routes, slowest, skew, is_masked: protection.mask > 0 }
    }

    fn share_over(&self, link: LinkId) -> f64 {
        let crosses = |route: &&PlannedRoute| route.route.links().contains(&link);
        self.routes.iter().filter(crosses).map(|route| route.share).sum()
    }

    /// The links that the sender's mask does not cover now.
    fn unmaskable(&self, world: &World<Load>) -> BTreeSet<LinkId> {
        let node = world.node(self.from);
        let statuses = node.sessions().filter_map(|session| node.session_status(session));
        statuses.flat_map(|status| status.unmaskable).collect()
    }
}

/// How long a packet is on the links of a route, without queues.
fn delay(world: &World<Load>, route: &Route) -> Duration {
    let of = |(from, link): (&MemberId, &LinkId)| {
        let link = world.simulator_links()[link.entry()];
        world.simulator().model(link, world.simulator_node(*from)).delay
    };
    route.members().iter().zip(route.links()).map(of).sum()
}
