//! Planning as a job: it needs the processor and the overlay as it was when somebody asked, nothing else.

use std::sync::Arc;

use super::detour::Suspects;
use super::plan::{PlannedRoute, plan};
use crate::config::Config;
use crate::event::SessionId;
use crate::overlay::{MemberId, Overlay};

/// The routes of a session are to be planned; see [`Node::poll_plan`](crate::Node::poll_plan).
#[derive(Debug)]
pub struct PlanJob {
    pub(super) session: SessionId,
    /// Counts the plans that were asked for; the result of an older one is out of date.
    pub(super) number: u64,
    pub(super) purpose: Purpose,
    pub(super) overlay: Arc<Overlay>,
    pub(super) config: Arc<Config>,
    pub(super) from: MemberId,
    pub(super) to: MemberId,
}

/// What a plan is for.
#[derive(Debug, Clone)]
pub(crate) enum Purpose {
    /// The session is being opened.
    Open,
    /// A newer overlay file is in use.
    Reload,
    /// These links may be dead.
    Detour(Suspects),
}

/// What came out of a [`PlanJob`], for [`Node::handle_plan`](crate::Node::handle_plan).
#[derive(Debug)]
pub struct Plan {
    pub(crate) session: SessionId,
    pub(super) number: u64,
    pub(crate) purpose: Purpose,
    /// Empty if no route leads there.
    pub(crate) routes: Vec<PlannedRoute>,
}

impl PlanJob {
    /// Does the work.
    pub fn run(self) -> Plan {
        let PlanJob { session, number, purpose, overlay, config, from, to } = self;
        let routes = match &purpose {
            Purpose::Open | Purpose::Reload => plan(&overlay, from, to, &config).ok(),
            Purpose::Detour(suspects) => suspects.plan(&overlay, from, to, &config),
        };
        Plan { session, number, purpose, routes: routes.unwrap_or_default() }
    }
}
