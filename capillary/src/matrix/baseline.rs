//! The routing that a matrix has without a plan.

use std::num::NonZeroU32;

use crate::matrix::arcs::Arcs;
use crate::matrix::tree::Tree;
use crate::matrix::{ArcUse, MatrixError, TrafficMatrix, unreachable};
use crate::topology::{LinkId, NodeId, Topology};

/// Distances that differ by less, relative, are equal.
const EQUAL: f64 = 1e-12;

/// Equal-cost multipath as routers do it: at each node, all that goes to a target is shared equally among the links
/// that are on a shortest way there, by the `weight` of the links (above 0; with 1 for all, the ways of fewest links).
/// Returns what each arc carries, in the order of [`MatrixRouting::arcs`](crate::matrix::MatrixRouting::arcs).
///
/// # Errors
/// [`MatrixError`] names the demand that cannot be routed.
pub fn equal_cost_multipath(
    topology: &Topology,
    traffic: &TrafficMatrix,
    weight: impl Fn(LinkId) -> f64,
) -> Result<Vec<ArcUse>, MatrixError> {
    let demands = traffic.checked(topology)?;
    let arcs = Arcs::new(topology);
    let mut load = vec![0.0; arcs.len()];
    let mut tree = Tree::new(arcs.nodes());
    for same_target in demands.chunk_by(|a, b| a.target == b.target) {
        let target = same_target[0].target;
        tree.search(&arcs, target.0, |arc| Some(weight(arcs.arc(arc).link)), |_| 1.0);
        let mut through = vec![0.0; arcs.nodes()];
        for demand in same_target {
            if tree.distance(demand.source.0).is_infinite() {
                return Err(unreachable(topology, demand));
            }
            through[demand.source.index()] += demand.amount;
        }
        spread(&arcs, &tree, &weight, &mut through, &mut load);
    }
    Ok(uses(&arcs, &load))
}

/// What each arc carries, by loads.
fn uses(arcs: &Arcs, load: &[f64]) -> Vec<ArcUse> {
    let used = |(index, arc): (u32, &crate::matrix::arcs::Arc)| ArcUse {
        link: arc.link,
        from: NodeId(arc.tail),
        to: NodeId(arc.head),
        capacity: arc.capacity,
        load: load[index as usize],
        utilisation: load[index as usize] / arc.capacity,
        level: None,
    };
    arcs.iter().map(used).collect()
}

/// Each demand on one shortest path by the `weight` of the links (above 0); of several on the first by the order of the
/// arcs, the same from each node on. Returns what each arc carries, as [`equal_cost_multipath`] does.
///
/// # Errors
/// [`MatrixError`] names the demand that cannot be routed.
pub fn shortest_paths(
    topology: &Topology,
    traffic: &TrafficMatrix,
    weight: impl Fn(LinkId) -> f64,
) -> Result<Vec<ArcUse>, MatrixError> {
    let arcs = Arcs::new(topology);
    let mut load = vec![0.0; arcs.len()];
    add_shortest_paths(topology, &arcs, traffic, 1.0, weight, &mut load)?;
    Ok(uses(&arcs, &load))
}

/// Each demand in equal parts on `paths` paths, each of them the shortest by lengths of the links that are drawn anew
/// from an exponential distribution: what multipath gains that knows nothing of the demands. The same `seed` gives the
/// same paths on every machine.
///
/// # Errors
/// [`MatrixError`] names the demand that cannot be routed.
pub fn random_multipath(
    topology: &Topology,
    traffic: &TrafficMatrix,
    paths: NonZeroU32,
    seed: u64,
) -> Result<Vec<ArcUse>, MatrixError> {
    let arcs = Arcs::new(topology);
    let mut load = vec![0.0; arcs.len()];
    let mut state = seed;
    for _ in 0..paths.get() {
        let lengths: Vec<f64> = (0..topology.link_count()).map(|_| exponential(&mut state)).collect();
        let share = 1.0 / f64::from(paths.get());
        add_shortest_paths(topology, &arcs, traffic, share, |link| lengths[link.index()], &mut load)?;
    }
    Ok(uses(&arcs, &load))
}

/// A number from an exponential distribution of mean 1, above 0 (SplitMix64).
fn exponential(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let share = (((mixed ^ (mixed >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -libm::log(share)
}

/// Adds a share of each demand on its shortest path.
fn add_shortest_paths(
    topology: &Topology,
    arcs: &Arcs,
    traffic: &TrafficMatrix,
    share: f64,
    weight: impl Fn(LinkId) -> f64,
    load: &mut [f64],
) -> Result<(), MatrixError> {
    let demands = traffic.checked(topology)?;
    let mut tree = Tree::new(arcs.nodes());
    for same_target in demands.chunk_by(|a, b| a.target == b.target) {
        tree.search(arcs, same_target[0].target.0, |arc| Some(weight(arcs.arc(arc).link)), |_| 1.0);
        for demand in same_target {
            if tree.distance(demand.source.0).is_infinite() {
                return Err(unreachable(topology, demand));
            }
            for arc in tree.path(arcs, demand.source.0) {
                load[arc as usize] += share * demand.amount;
            }
        }
    }
    Ok(())
}

/// Sends what goes `through` each node on, from the farthest nodes to the target.
fn spread(arcs: &Arcs, tree: &Tree, weight: &impl Fn(LinkId) -> f64, through: &mut [f64], load: &mut [f64]) {
    let mut leaving = vec![Vec::new(); arcs.nodes()];
    for (index, arc) in arcs.iter() {
        let (near, far) = (tree.distance(arc.head), tree.distance(arc.tail));
        if far.is_finite() && near < far && (near + weight(arc.link) - far).abs() <= EQUAL * far {
            leaving[arc.tail as usize].push(index);
        }
    }
    let mut order: Vec<u32> =
        (0..arcs.nodes() as u32).filter(|&node| through[node as usize] >= 0.0).collect();
    order.sort_by(|&a, &b| tree.distance(b).total_cmp(&tree.distance(a)));
    for node in order {
        let each = through[node as usize] / leaving[node as usize].len() as f64;
        for &arc in leaving[node as usize].iter().filter(|_| each > 0.0) {
            load[arc as usize] += each;
            through[arcs.arc(arc).head as usize] += each;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Demand;
    use crate::topology::Orientation;

    #[test]
    fn shares_are_equal_at_each_node_and_follow_the_weights() {
        let links = [
            ("s", "a", 1.0),
            ("s", "b", 1.0),
            ("a", "t", 1.0),
            ("b", "t", 1.0),
            ("a", "c", 1.0),
            ("c", "t", 1.0),
        ];
        let topology = Topology::from_links(Orientation::Undirected, links).unwrap();
        let (source, target) = (topology.node("s").unwrap(), topology.node("t").unwrap());
        let traffic = TrafficMatrix::new(vec![Demand::new(source, target, 8.0)]);
        let loads = |weight: &dyn Fn(LinkId) -> f64| -> Vec<f64> {
            let arcs = equal_cost_multipath(&topology, &traffic, weight).unwrap();
            arcs.iter().step_by(2).map(|arc| arc.load).collect()
        };
        assert_eq!(loads(&|_| 1.0), [4.0, 4.0, 4.0, 4.0, 0.0, 0.0]);
        // The direct way from a is as long as the one by c; b is farther.
        let weights = [1.0, 9.0, 2.0, 1.0, 1.0, 1.0];
        assert_eq!(loads(&|link| weights[link.index()]), [8.0, 0.0, 4.0, 0.0, 4.0, 4.0]);
    }

    #[test]
    fn one_path_is_a_shortest_one_and_random_paths_spread() {
        let links = [("s", "a", 1.0), ("a", "t", 1.0), ("s", "b", 1.0), ("b", "t", 1.0), ("s", "t", 1.0)];
        let topology = Topology::from_links(Orientation::Directed, links).unwrap();
        let (source, target) = (topology.node("s").unwrap(), topology.node("t").unwrap());
        let traffic = TrafficMatrix::new(vec![Demand::new(source, target, 8.0)]);
        let loads = |arcs: Vec<ArcUse>| -> Vec<f64> { arcs.iter().map(|arc| arc.load).collect() };
        let weights = [1.0, 1.0, 1.0, 2.0, 3.0];
        let shortest = shortest_paths(&topology, &traffic, |link| weights[link.index()]).unwrap();
        assert_eq!(loads(shortest), [8.0, 8.0, 0.0, 0.0, 0.0]);
        let random =
            |seed| loads(random_multipath(&topology, &traffic, NonZeroU32::new(64).unwrap(), seed).unwrap());
        let spread = random(1);
        assert!(
            spread.iter().all(|load| *load > 0.0) && random(1) == spread && random(2) != spread,
            "{spread:?}"
        );
        assert!((spread[0] + spread[2] + spread[4] - 8.0).abs() < 1e-12);
    }
}
