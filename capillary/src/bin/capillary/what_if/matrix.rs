//! `capillary what-if --demands`: what failures do to all demands of a matrix.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::Path;

use capillary::matrix::{ArcUse, MatrixError, TrafficMatrix, equal_cost_multipath, solve};
use capillary::{LinkId, Topology};
use program::table::{Cell, number};
use program::{Failure, Table};
use rayon::ThreadPool;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::Failed;
use crate::matrix::curves;
use crate::source::Network;

/// The largest utilisations of a network.
struct Utilisation {
    capillary: f64,
    multipath: f64,
}

/// One failure and what is left.
struct Case {
    name: String,
    /// The share of all demands that was on the failed links before anybody moved.
    lost: f64,
    /// The share of all demands whose targets cannot be reached any more, and how many these are.
    cut: (f64, usize),
    /// What the other demands make of the links that are left; `None` if there are none.
    after: Option<Utilisation>,
}

/// All failures of a matrix.
pub(super) struct Cases {
    before: Utilisation,
    cases: Vec<Case>,
}

impl Cases {
    /// Every failure, each planned anew for all demands.
    pub(super) fn of(
        network: &Network,
        traffic: &TrafficMatrix,
        failures: &[Failed],
        pool: &ThreadPool,
    ) -> Result<Self, Failure> {
        let unroutable = |error: MatrixError| network.unroutable(&error);
        let multipath = multipath(&network.topology, traffic).map_err(unroutable)?;
        // All levels of what was before take as long as the first levels after many failures, so they go beside these.
        let before = || solve(&network.topology, traffic, None);
        // Failures differ in how long they take, so that no thread gets a fixed part of them.
        let after = || {
            let each = failures.par_iter().with_max_len(1).map(|failed| Case::of(network, traffic, failed));
            each.collect::<Result<Vec<Case>, _>>()
        };
        let (routing, cases) = pool.install(|| rayon::join(before, after));
        let (routing, mut cases) = (routing.map_err(unroutable)?, cases.map_err(unroutable)?);
        for (case, failed) in cases.iter_mut().zip(failures) {
            case.lost = lost(routing.paths(), routing.arcs(), &failed.links) / traffic.total();
        }
        Ok(Self { before: Utilisation { capillary: routing.largest_utilisation(), multipath }, cases })
    }

    /// Draws the largest utilisations after the failures.
    pub(super) fn plot(&self, title: &str, path: &Path) -> Result<(), Failure> {
        let after = self.cases.iter().filter_map(|case| case.after.as_ref());
        let after: Vec<(f64, f64)> = after.map(|after| (after.capillary, after.multipath)).collect();
        curves::after_failures(&after, title, path)
    }

    pub(super) fn before(&self) -> String {
        let Utilisation { capillary, multipath } = self.before;
        format!("largest utilisation {}, multipath {}", number(capillary), number(multipath))
    }

    pub(super) fn table(&self) -> Table {
        let mut table =
            Table::new(["lost", "cut off", "largest utilisation after", "multipath after", "failed"]);
        for case in &self.cases {
            let after = match &case.after {
                Some(after) => [after.capillary, after.multipath].map(Cell::number),
                None => ["-", "-"].map(Cell::from),
            };
            let [capillary, multipath] = after;
            let [lost, cut] = [case.lost, case.cut.0].map(Cell::number);
            table.push_cells(vec![lost, cut, capillary, multipath, case.name.as_str().into()]);
        }
        table
    }

    pub(super) fn json(&self) -> Value {
        let cases: Vec<Value> = self
            .cases
            .iter()
            .map(|case| {
                let after = case.after.as_ref();
                json!({
                    "failed": case.name, "lost": case.lost, "cut_off": case.cut.0,
                    "demands_cut_off": case.cut.1,
                    "largest_utilisation": after.map(|after| after.capillary),
                    "multipath": after.map(|after| after.multipath),
                })
            })
            .collect();
        let Utilisation { capillary, multipath } = self.before;
        let before = json!({ "largest_utilisation": capillary, "multipath": multipath });
        json!({ "before": before, "failures": cases })
    }
}

impl Case {
    /// What a failure leaves; what was on the failed links is still to be told.
    fn of(network: &Network, traffic: &TrafficMatrix, failed: &Failed) -> Result<Self, MatrixError> {
        let (rest, _) = network.topology.filter_links(|link| !failed.links.contains(&link));
        let (reached, cut) = traffic.by_reach(&rest)?;
        let after = if reached.total() > 0.0 { Some(utilisation(&rest, &reached)?) } else { None };
        let cut = (cut.total() / traffic.total(), cut.demands().len());
        Ok(Self { name: failed.name.clone(), lost: 0.0, cut, after })
    }
}

fn utilisation(topology: &Topology, traffic: &TrafficMatrix) -> Result<Utilisation, MatrixError> {
    let capillary = solve(topology, traffic, Some(NonZeroU32::MIN))?.largest_utilisation();
    Ok(Utilisation { capillary, multipath: multipath(topology, traffic)? })
}

/// The largest utilisation under equal-cost multipath.
fn multipath(topology: &Topology, traffic: &TrafficMatrix) -> Result<f64, MatrixError> {
    let multipath = equal_cost_multipath(topology, traffic, |link| topology.link_weight(link).length())?;
    Ok(multipath.iter().map(|arc| arc.utilisation).fold(0.0, f64::max))
}

/// What is on paths that cross a failed link.
fn lost(paths: &[capillary::matrix::DemandPath], arcs: &[ArcUse], failed: &BTreeSet<LinkId>) -> f64 {
    let crosses = |path: &&capillary::matrix::DemandPath| {
        path.arcs.iter().any(|&arc| failed.contains(&arcs[arc as usize].link))
    };
    paths.iter().filter(crosses).map(|path| path.amount).sum()
}
