//! The rating of a routing by one number [theory §2; thesis §4.3.1].

use capillary::{LinkId, Routing};
use thiserror::Error;

use crate::block::BlockError;
use crate::cost::BlockLengths;

/// What a routing needs when its links fail one by one.
#[derive(Debug, Clone, PartialEq)]
pub struct Rating {
    /// ROR: the sum, over the links that can fail, of the growth of the sender's rate while that link is down.
    pub overall: f64,
    /// The links that carry everything: no redundancy makes up for them, so they are not in the sum.
    pub critical_links: Vec<LinkId>,
}

/// Why a routing cannot be rated.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum RatingError {
    /// A static tolerance outside [0, 1).
    #[error("the static tolerance is {tolerance}; it must lie in [0, 1)")]
    BadTolerance {
        /// The tolerance that was given.
        tolerance: f64,
    },
    /// A tolerance that needs a block longer than there is.
    #[error("the static tolerance: {source}")]
    Tolerated {
        /// Why the tolerance gives no block length.
        source: BlockError,
    },
    /// A link that needs a block longer than there is.
    #[error("{link}: {source}")]
    Block {
        /// The link.
        link: LinkId,
        /// Why its flow gives no block length.
        source: BlockError,
    },
}

/// ROR with blocks of limited length: Σ ( FEC(r)/FEC(t) − 1 ) over the links with t ≤ r < 1  (eq. 8).
///
/// `tolerance` (t) is the loss that the stream bears at all times.
///
/// Complexity: one block length for each used link.
pub fn rate(routing: &Routing, tolerance: f64, law: &impl BlockLengths) -> Result<Rating, RatingError> {
    check(tolerance)?;
    let tolerated = length(law, tolerance, None)?;
    sum_growth(routing, tolerance, |link, flow| Ok(length(law, flow, Some(link))? / tolerated - 1.0))
}

/// [`rate`] for each of several tolerances; index: as in `tolerances`.
///
/// Complexity: one block length for each used link and each tolerance, however many tolerances there are.
///
/// ```
/// use capillary::{NodeId, Orientation, Topology};
/// use ror::{BlockLaw, CostTable};
///
/// let topology = Topology::from_links(Orientation::Directed, [("s", "t", 1.0); 4])?;
/// let routing = capillary::solve(&topology, NodeId(0), NodeId(1))?;
/// let law = CostTable::new(BlockLaw::new(20, 1e-5)?);
/// let ratings = ror::rate_each(&routing, &[0.0, 0.3], &law)?;
/// assert!((ratings[0].overall - 4.0 * (44.0 / 20.0 - 1.0)).abs() < 1e-12);
/// assert_eq!(ratings[1].overall, 0.0); // each link carries a quarter, less than what is tolerated
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rate_each(
    routing: &Routing,
    tolerances: &[f64],
    law: &impl BlockLengths,
) -> Result<Vec<Rating>, RatingError> {
    tolerances.iter().try_for_each(|&tolerance| check(tolerance))?;
    let least = tolerances.iter().copied().fold(1.0, f64::min);
    let critical_links: Vec<LinkId> = routing.critical_links().collect();
    let failing: Vec<(f64, f64)> = routing
        .used_links()
        .filter(|(_, link)| !link.is_critical() && link.flow.abs() >= least)
        .map(|(id, link)| Ok((link.flow.abs(), length(law, link.flow.abs(), Some(id))?)))
        .collect::<Result<_, RatingError>>()?;
    let rating = |&tolerance: &f64| {
        let tolerated = length(law, tolerance, None)?;
        let counted = failing.iter().filter(|(flow, _)| *flow >= tolerance);
        // Not `sum`, for which nothing is −0.
        let overall = counted.fold(0.0, |sum, (_, needed)| sum + (needed / tolerated - 1.0));
        Ok(Rating { overall, critical_links: critical_links.clone() })
    };
    tolerances.iter().map(rating).collect()
}

fn length(law: &impl BlockLengths, loss: f64, link: Option<LinkId>) -> Result<f64, RatingError> {
    let packets = law.block_length(loss).map_err(|source| match link {
        Some(link) => RatingError::Block { link, source },
        None => RatingError::Tolerated { source },
    })?;
    Ok(f64::from(packets))
}

/// ROR with very large blocks, of which 1/(1 − p) times the source packets suffice: Σ ( (1−t)/(1−r) − 1 ) over the
/// links with t ≤ r < 1  (eq. 11).
///
/// ```
/// use capillary::{NodeId, Orientation, Topology};
///
/// // The only way out of s is critical; then come two ways.
/// let links = [("s", "a", 1.0), ("a", "t", 1.0), ("a", "t", 1.0)];
/// let topology = Topology::from_links(Orientation::Directed, links)?;
/// let routing = capillary::solve(&topology, NodeId(0), NodeId(2))?;
/// let rating = ror::rate_large_blocks(&routing, 0.0)?;
/// assert_eq!((rating.overall, rating.critical_links.len()), (2.0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rate_large_blocks(routing: &Routing, tolerance: f64) -> Result<Rating, RatingError> {
    check(tolerance)?;
    sum_growth(routing, tolerance, |_, flow| Ok((1.0 - tolerance) / (1.0 - flow) - 1.0))
}

fn check(tolerance: f64) -> Result<(), RatingError> {
    if (0.0..1.0).contains(&tolerance) { Ok(()) } else { Err(RatingError::BadTolerance { tolerance }) }
}

/// Adds up the growth for the flow of each used link that the tolerance does not already cover.
fn sum_growth(
    routing: &Routing,
    tolerance: f64,
    growth: impl Fn(LinkId, f64) -> Result<f64, RatingError>,
) -> Result<Rating, RatingError> {
    let mut rating = Rating { overall: 0.0, critical_links: routing.critical_links().collect() };
    for (id, link) in routing.used_links().filter(|(_, link)| !link.is_critical()) {
        let flow = link.flow.abs();
        if flow >= tolerance {
            rating.overall += growth(id, flow)?;
        }
    }
    Ok(rating)
}

#[cfg(test)]
mod tests {
    use capillary::{NodeId, Orientation, Topology};

    use super::*;
    use crate::{BlockLaw, CostTable};

    fn parallel(links: usize) -> Routing {
        let topology = Topology::from_links(Orientation::Directed, vec![("s", "t", 1.0); links]).unwrap();
        capillary::solve(&topology, NodeId(0), NodeId(1)).unwrap()
    }

    #[test]
    fn parallel_links_are_as_many_terms() {
        let law = BlockLaw::new(20, 1e-5).unwrap();
        // Three links with 1/3 each: FEC = 52 of 20 [theory §2].
        let rating = rate(&parallel(3), 0.0, &law).unwrap();
        assert!((rating.overall - 3.0 * (52.0 / 20.0 - 1.0)).abs() < 1e-12);
        assert!(rating.critical_links.is_empty());
    }

    #[test]
    fn links_below_the_tolerance_cost_nothing_and_one_at_it_is_in_the_sum_with_no_growth() {
        let law = BlockLaw::new(20, 1e-5).unwrap();
        assert_eq!(rate(&parallel(5), 0.25, &law).unwrap().overall, 0.0);
        assert_eq!(rate(&parallel(4), 0.25, &law).unwrap().overall, 0.0);
        let quarter_over_tenth = 44.0 / 32.0 - 1.0;
        assert!((rate(&parallel(4), 0.1, &law).unwrap().overall - 4.0 * quarter_over_tenth).abs() < 1e-12);
    }

    #[test]
    fn several_tolerances_at_once_are_rated_as_each_alone() {
        // Flows of 1/2, 1/4 and 1/8 from one node to the other.
        let ends = ["s a", "s t", "a b", "a t", "b c", "b t", "c t", "c t"];
        let links = ends.map(|ends| ends.split_once(' ').unwrap()).map(|(from, to)| (from, to, 1.0));
        let topology = Topology::from_links(Orientation::Directed, links).unwrap();
        let routing = capillary::baseline::equal_cost_multipath(&topology, NodeId(0), NodeId(2)).unwrap();
        let solved = capillary::solve(&topology, NodeId(0), NodeId(2)).unwrap();
        let law = BlockLaw::new(20, 1e-5).unwrap();
        let table = CostTable::new(law);
        for routing in [routing, solved] {
            let tolerances = [0.0, 0.036, 0.125, 0.2, 0.6];
            let each = rate_each(&routing, &tolerances, &table).unwrap();
            for (tolerance, rating) in tolerances.into_iter().zip(each) {
                let alone = rate(&routing, tolerance, &law).unwrap();
                assert_eq!((rating.overall.to_bits(), &rating), (alone.overall.to_bits(), &alone));
            }
        }
    }

    #[test]
    fn critical_links_are_listed_and_left_out() {
        let rating = rate_large_blocks(&parallel(1), 0.0).unwrap();
        assert_eq!(rating, Rating { overall: 0.0, critical_links: vec![LinkId(0)] });
    }

    #[test]
    fn an_impossible_tolerance_is_refused() {
        for tolerance in [-0.1, 1.0, f64::NAN] {
            let law = BlockLaw::new(20, 1e-5).unwrap();
            for refused in [
                rate_large_blocks(&parallel(2), tolerance).map(|_| ()),
                rate(&parallel(2), tolerance, &law).map(|_| ()),
                rate_each(&parallel(2), &[0.1, tolerance], &law).map(|_| ()),
            ] {
                assert!(matches!(refused, Err(RatingError::BadTolerance { .. })));
            }
        }
    }
}
