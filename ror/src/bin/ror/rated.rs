//! Several routings of one pair with their ratings: what `rate` and `compare` print.

use std::num::NonZeroU32;

use capillary::{Routing, SolveError, baseline, solve, solve_layers};
use ror::{CostTable, Rating, RatingError, rate_each, rate_large_blocks};

use crate::failure::Failure;
use crate::source::{Coding, Network};
use program::table::Cell;

/// A routing, what it is called, and its ratings; index of the ratings: the tolerance. A rating is `None` if every link
/// that the routing uses is critical: then the sum is empty, and its 0 would be the best rating of all.
#[derive(Debug)]
pub(crate) struct Rated {
    pub(crate) name: String,
    /// The layer of capillary routing at which the routing stopped.
    pub(crate) layer: Option<NonZeroU32>,
    pub(crate) routing: Routing,
    /// ROR with blocks of M source packets.
    pub(crate) short: Vec<Option<f64>>,
    /// ROR with very large blocks.
    pub(crate) large: Vec<Option<f64>>,
}

/// The baselines with `k` disjoint paths, the patterns of those of `layers` that there are, and the whole capillary
/// routing, rated.
pub(crate) fn rated(
    network: &Network,
    k: u32,
    layers: &[NonZeroU32],
    coding: &Coding,
) -> Result<Vec<Rated>, Failure> {
    let law = CostTable::new(coding.law()?);
    let routings = routings(network, k, layers).map_err(|error| network.unsolvable(error))?;
    let rate = |named| Rated::of(named, coding, &law);
    routings.into_iter().map(rate).collect::<Result<_, RatingError>>().map_err(Failure::Rating)
}

pub(crate) type Named = (String, Option<NonZeroU32>, Routing);

fn routings(network: &Network, k: u32, layers: &[NonZeroU32]) -> Result<Vec<Named>, SolveError> {
    let (topology, from, to) = (&network.topology, network.from, network.to);
    let mut routings: Vec<Named> = vec![
        ("shortest path".into(), None, baseline::shortest_path(topology, from, to)?),
        ("equal-cost multipath".into(), None, baseline::equal_cost_multipath(topology, from, to)?),
        (
            "random multipath".into(),
            None,
            baseline::random_multipath(topology, from, to, baseline::RANDOM_PATHS, baseline::RANDOM_SEED)?,
        ),
        (format!("{k} disjoint paths"), None, baseline::disjoint_paths(topology, from, to, k)?),
        ("maximum flow".into(), None, baseline::maximum_flow_split(topology, from, to)?),
    ];
    let whole = solve(topology, from, to)?;
    let is_there = |layer: &&NonZeroU32| layer.get() as usize <= whole.layers().len();
    for &layer in layers.iter().filter(is_there) {
        let pattern = solve_layers(topology, from, to, layer)?.routing;
        routings.push((format!("capillary, layer {layer}"), Some(layer), pattern));
    }
    routings.push(("capillary".into(), None, whole));
    Ok(routings)
}

impl Rated {
    /// A routing with its ratings.
    pub(crate) fn of(
        (name, layer, routing): Named,
        coding: &Coding,
        law: &CostTable,
    ) -> Result<Self, RatingError> {
        let short = rate_each(&routing, &coding.tolerances, law)?;
        let large = coding.tolerances.iter().map(|&tolerance| rate_large_blocks(&routing, tolerance));
        let is_rated = routing.used_links().any(|(_, link)| !link.is_critical());
        let overall = |rating: Rating| is_rated.then_some(rating.overall);
        let large = large.map(|rating| rating.map(overall)).collect::<Result<_, _>>()?;
        let short = short.into_iter().map(overall).collect();
        Ok(Self { name, layer, routing, short, large })
    }

    /// The cells of its ratings, those with short and with large blocks in turns; `none` stands where there is none.
    pub(crate) fn cells(&self, none: &'static str) -> impl Iterator<Item = Cell> {
        let cell = move |rating: &Option<f64>| rating.map_or(none.into(), Cell::fixed);
        self.short.iter().zip(&self.large).flat_map(move |(short, large)| [cell(short), cell(large)])
    }
}

/// Σ |flow|: how many links a unit of the demand crosses on average.
pub(crate) fn mean_path_length(routing: &Routing) -> f64 {
    routing.links().iter().map(|link| link.flow.abs()).sum()
}
