//! The routing that a matrix has without a plan.

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
    let used = |(index, arc): (u32, &crate::matrix::arcs::Arc)| ArcUse {
        link: arc.link,
        from: NodeId(arc.tail),
        to: NodeId(arc.head),
        capacity: arc.capacity,
        load: load[index as usize],
        utilisation: load[index as usize] / arc.capacity,
        level: None,
    };
    Ok(arcs.iter().map(used).collect())
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
        let traffic = TrafficMatrix::new(vec![Demand { source, target, amount: 8.0 }]);
        let loads = |weight: &dyn Fn(LinkId) -> f64| -> Vec<f64> {
            let arcs = equal_cost_multipath(&topology, &traffic, weight).unwrap();
            arcs.iter().step_by(2).map(|arc| arc.load).collect()
        };
        assert_eq!(loads(&|_| 1.0), [4.0, 4.0, 4.0, 4.0, 0.0, 0.0]);
        // The direct way from a is as long as the one by c; b is farther.
        let weights = [1.0, 9.0, 2.0, 1.0, 1.0, 1.0];
        assert_eq!(loads(&|link| weights[link.index()]), [8.0, 0.0, 4.0, 0.0, 4.0, 4.0]);
    }
}
