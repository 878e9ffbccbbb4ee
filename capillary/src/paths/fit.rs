//! Weights with which some paths come as near as they can to the loads of a routing.
//!
//! Take what a path alone is off the routing, link by link, as a point. Then weighted paths are off by the weighted
//! mean of their points. So the best weights belong to the point of their convex hull that is nearest to the origin,
//! and Wolfe's algorithm finds it exactly, in finitely many steps, without a solver of programs. (P. Wolfe, Finding the
//! nearest point in a polytope, Mathematical Programming 11, 1976.)

use super::WeightedPath;
use crate::routing::Routing;

/// A step counts as one only if it comes nearer by this share of the farthest point's squared distance.
const NEAR: f64 = 1e-12;
/// How many steps are made for each path. A search that needs more goes in circles, led by round-off.
const MAX_STEPS: usize = 8;

/// The weights of `paths`, in their order and of sum 1, for which Σ (load · load error)² over the links is smallest:
/// the more a link carries, the less it may be off. `start` are weights of sum 1 from which to go. A weight may be
/// zero.
///
/// The paths' links must be linearly independent, as those of peeled paths are: each has one that no later path uses.
/// `None` if round-off is in the way. Time O(paths² · links + paths³), mostly.
pub(super) fn weights(routing: &Routing, paths: &[WeightedPath], start: Vec<f64>) -> Option<Vec<f64>> {
    nearest(&products(&deviations(routing, paths)), start)
}

/// For each path by itself, the load times the load error on each used link.
fn deviations(routing: &Routing, paths: &[WeightedPath]) -> Vec<Vec<f64>> {
    let mut places = vec![None; routing.links().len()];
    for (place, (id, _)) in routing.used_links().enumerate() {
        places[id.index()] = Some(place);
    }
    // On a used link load / |flow| is the smallest capacity over the link's own.
    let full = |(_, link): (_, &crate::routing::LinkUse)| link.load * link.load / link.flow.abs();
    let full: Vec<f64> = routing.used_links().map(full).collect();
    let none: Vec<f64> = routing.used_links().map(|(_, link)| -link.load * link.load).collect();
    let deviation = |path: &WeightedPath| {
        let mut off = none.clone();
        for place in path.links.iter().filter_map(|link| places[link.index()]) {
            off[place] += full[place];
        }
        off
    };
    paths.iter().map(deviation).collect()
}

/// The products of all pairs of points.
fn products(points: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum();
    points.iter().map(|a| points.iter().map(|b| product(a, b)).collect()).collect()
}

/// The weights of the point nearest to the origin, of points with these products.
fn nearest(products: &[Vec<f64>], start: Vec<f64>) -> Option<Vec<f64>> {
    let farthest = (0..products.len()).map(|point| products[point][point]).fold(0.0, f64::max);
    let mut weights = start;
    let mut chosen: Vec<usize> = (0..weights.len()).filter(|point| weights[*point] > 0.0).collect();
    for _ in 0..MAX_STEPS * products.len() {
        descend(products, &mut chosen, &mut weights)?;
        let along = |point: usize| -> f64 { chosen.iter().map(|&i| weights[i] * products[point][i]).sum() };
        let distance: f64 = chosen.iter().map(|&point| weights[point] * along(point)).sum();
        let others = (0..products.len()).filter(|point| !chosen.contains(point));
        let Some(next) = others.min_by(|a, b| along(*a).total_cmp(&along(*b))) else { break };
        if along(next) > distance - NEAR * farthest {
            break;
        }
        chosen.push(next);
    }
    Some(weights)
}

/// Goes towards the nearest point of the plane through the chosen points, as far as the hull reaches; a point whose
/// weight becomes zero on the way is chosen no longer.
fn descend(products: &[Vec<f64>], chosen: &mut Vec<usize>, weights: &mut [f64]) -> Option<()> {
    loop {
        let wanted = nearest_of_plane(products, chosen)?;
        let reach: Vec<Option<f64>> =
            chosen.iter().zip(&wanted).map(|(i, to)| reach(weights[*i], *to)).collect();
        let Some(step) = reach.iter().flatten().copied().reduce(f64::min) else {
            chosen.iter().zip(&wanted).for_each(|(point, to)| weights[*point] = *to);
            return Some(());
        };
        for ((&point, to), reach) in chosen.iter().zip(&wanted).zip(&reach) {
            let blocks = reach.is_some_and(|reach| reach <= step);
            weights[point] = if blocks { 0.0 } else { weights[point] + step * (to - weights[point]) };
        }
        chosen.retain(|point| weights[*point] > 0.0);
    }
}

/// Which part of the way from one weight to another leads to zero, if it lies on the way.
fn reach(weight: f64, to: f64) -> Option<f64> {
    match to > 0.0 {
        true => None,
        false => Some(if weight > 0.0 { weight / (weight - to) } else { 0.0 }),
    }
}

/// The weights, of sum 1 and of any sign, of the point of the plane through the chosen points that is nearest to the
/// origin: (11ᵀ + products) · weights ∼ 1.
fn nearest_of_plane(products: &[Vec<f64>], chosen: &[usize]) -> Option<Vec<f64>> {
    let row = |&point: &usize| -> Vec<f64> {
        chosen.iter().map(|&other| 1.0 + products[point][other]).chain([1.0]).collect()
    };
    let mut weights = solve(chosen.iter().map(row).collect())?;
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
    weights.iter().all(|weight| weight.is_finite()).then_some(weights)
}

/// Solves a linear system by elimination; each row ends with its right side.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let count = rows.len();
    for column in 0..count {
        let pivot =
            (column..count).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let (above, below) = rows.split_at_mut(column + 1);
        let leading = &above[column];
        for row in below {
            let factor = row[column] / leading[column];
            row[column..].iter_mut().zip(&leading[column..]).for_each(|(cell, lead)| *cell -= factor * lead);
        }
    }
    let mut solution = vec![0.0; count];
    for index in (0..count).rev() {
        let known: f64 = (index + 1..count).map(|other| rows[index][other] * solution[other]).sum();
        solution[index] = (rows[index][count] - known) / rows[index][index];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No other weights come nearer: the condition that is sufficient for convex problems.
        #[test]
        fn no_point_lies_nearer_than_the_nearest(
            points in (1usize..7).prop_flat_map(|count| {
                let point = proptest::collection::vec(-1.0..1.0f64, 8);
                (proptest::collection::vec(point, count), proptest::collection::vec(0.01..1.0f64, count))
            }),
        ) {
            let (points, start) = points;
            let sum: f64 = start.iter().sum();
            let products = products(&points);
            let weights = nearest(&products, start.iter().map(|weight| weight / sum).collect()).unwrap();
            prop_assert!(weights.iter().all(|weight| *weight >= 0.0));
            prop_assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let along = |point: usize| -> f64 { (0..points.len()).map(|i| weights[i] * products[point][i]).sum() };
            let distance: f64 = (0..points.len()).map(|point| weights[point] * along(point)).sum();
            prop_assert!((0..points.len()).all(|point| along(point) >= distance - 1e-9), "{:?}", weights);
        }
    }

    #[test]
    fn a_point_that_only_leads_away_gets_no_weight() {
        let points = [vec![1.0, 1.0], vec![1.0, -1.0], vec![3.0, 0.0]];
        let weights = nearest(&products(&points), vec![0.2, 0.2, 0.6]).unwrap();
        assert!((weights[0] - 0.5).abs() < 1e-12 && weights[2] == 0.0, "{weights:?}");
    }
}
