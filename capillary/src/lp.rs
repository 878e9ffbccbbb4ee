//! The capillary routing by linear programming, as in the thesis: the numerically stable form with the bottleneck
//! hunting loop [thesis §4.2.2, §4.2.3; theory §1.2]. Feature `lp`.
//!
//! It is thousands of times slower than [`solve`](crate::solve) and stays for comparison: as a second opinion in
//! tests, and to show how the hunt goes (figure 41 of the thesis).

use good_lp::{
    Expression, ProblemVariables, ResolutionError, Solution as _, SolverModel, Variable, variable,
};
use petgraph::unionfind::UnionFind;

use crate::routing::Routing;
use crate::solver::{SolveError, check_pair, unreachable};
use crate::topology::{LinkId, NodeId, Orientation, Topology};

/// A flow this near to a capacity, relative, is at capacity.
const ROUND_OFF: f64 = 1e-9;

/// How far the ratio of a solved program may be off, relative. From layer to layer the error of the supplies grows
/// with the ratio, and what is below it is no supply.
const PRECISION: f64 = 4e-12;

/// The hunt for the bottlenecks of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Hunt {
    /// By how much the flow could grow: F of [theory §1.1].
    pub ratio: f64,
    /// The number of suspects before the hunt and after each of its iterations; the last two are equal, and are the
    /// number of bottlenecks.
    pub suspects: Vec<usize>,
}

impl Hunt {
    /// How many linear programs the hunt took: the last one finds that no suspect can be dropped.
    pub fn iterations(&self) -> usize {
        self.suspects.len() - 1
    }
}

/// A capillary routing with the record of each layer's hunt.
#[derive(Debug, Clone, PartialEq)]
pub struct LpSolution {
    /// The routing.
    pub routing: Routing,
    /// The hunts, in the order of the layers.
    pub hunts: Vec<Hunt>,
}

/// The capillary routing from `source` to `target` by linear programming.
///
/// ```
/// use capillary::{NodeId, Orientation, Topology, lp};
///
/// let links = [("s", "a", 1.0), ("a", "t", 1.0), ("s", "t", 1.0)];
/// let topology = Topology::from_links(Orientation::Directed, links)?;
/// let solution = lp::solve(&topology, NodeId(0), NodeId(2))?;
/// assert_eq!(solution.hunts[0].suspects, [3, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve(topology: &Topology, source: NodeId, target: NodeId) -> Result<LpSolution, SolveError> {
    check_pair(topology, source, target)?;
    let mut problem = LayerProblem::first(topology, source, target);
    let mut flows = vec![0.0; topology.link_count()];
    let mut hunts = Vec::new();
    while problem.has_supplies() {
        let failed = |reason: ResolutionError| SolveError::LinearProgram {
            layer: hunts.len() + 1,
            reason: reason.to_string(),
        };
        let (hunt, bottlenecks) = problem.hunt().map_err(failed)?;
        if hunt.ratio <= ROUND_OFF && hunts.is_empty() {
            return Err(unreachable(topology, source, target));
        }
        if bottlenecks.is_empty() {
            return Err(failed(ResolutionError::Str("it has no bottleneck".into())));
        }
        problem.remove(&bottlenecks, hunt.ratio, &mut flows);
        hunts.push(hunt);
    }
    let fixed = |link: LinkId| flows[link.index()] != 0.0;
    let routing = Routing::with_layers(topology, source, target, &flows, fixed)?;
    Ok(LpSolution { routing, hunts })
}

#[derive(Debug, Clone, Copy)]
struct Arc {
    tail: usize,
    head: usize,
    capacity: f64,
    link: LinkId,
    /// Capacity with the sign of the arc's direction on its link.
    signed_capacity: f64,
}

/// The problem of one layer: the arcs that are left and the flow-out coefficients [thesis §4.2.2].
struct LayerProblem {
    arcs: Vec<Arc>,
    supply: Vec<f64>,
    scale: f64,
    /// What round-off may have made of a supply that ought to be zero.
    noise: f64,
}

impl LayerProblem {
    fn first(topology: &Topology, source: NodeId, target: NodeId) -> Self {
        let mut supply = vec![0.0; topology.node_count()];
        supply[source.index()] = 1.0;
        supply[target.index()] = -1.0;
        let mut arcs = Vec::new();
        for (link, from, to, weight) in topology.links().filter(|(_, from, to, _)| from != to) {
            let (tail, head, capacity) = (from.index(), to.index(), weight.capacity);
            arcs.push(Arc { tail, head, capacity, link, signed_capacity: capacity });
            if topology.orientation() == Orientation::Undirected {
                arcs.push(Arc { tail: head, head: tail, capacity, link, signed_capacity: -capacity });
            }
        }
        Self { arcs, supply, scale: 1.0, noise: PRECISION }
    }

    fn has_supplies(&self) -> bool {
        self.supply.iter().any(|&supply| supply != 0.0)
    }

    /// Maximises the growth, then minimises the flow over the suspects until all of those left hold theirs.
    /// Returns the positions of the bottlenecks among the arcs.
    fn hunt(&self) -> Result<(Hunt, Vec<usize>), ResolutionError> {
        let (ratio, flow) = self.largest_growth()?;
        let mut suspects: Vec<usize> =
            (0..self.arcs.len()).filter(|&arc| self.is_full(arc, &flow, 0.0)).collect();
        let mut counts = vec![suspects.len()];
        loop {
            let (flow, given) = self.least_flow_over(&suspects, ratio)?;
            suspects.retain(|&arc| self.is_full(arc, &flow, given));
            counts.push(suspects.len());
            if counts[counts.len() - 2] == suspects.len() {
                return Ok((Hunt { ratio, suspects: counts }, suspects));
            }
        }
    }

    /// Whether the arc is at its capacity, but for round-off and for what conservation has `given` way by.
    fn is_full(&self, arc: usize, flow: &[f64], given: f64) -> bool {
        flow[arc] >= self.arcs[arc].capacity * (1.0 - ROUND_OFF) - given
    }

    /// The largest ratio and a flow that attains it.
    ///
    /// Behind the first layer the last flow meets the supplies, so that a ratio below 1 tells of round-off alone.
    fn largest_growth(&self) -> Result<(f64, Vec<f64>), ResolutionError> {
        let mut give = 0.0;
        loop {
            let (ratio, flow) = self.largest_growth_within(give)?;
            match self.more(give, 1.0).filter(|_| ratio < 1.0 && !self.is_first()) {
                Some(more) => give = more,
                None => return Ok((ratio, flow)),
            }
        }
    }

    fn largest_growth_within(&self, give: f64) -> Result<(f64, Vec<f64>), ResolutionError> {
        let mut variables = ProblemVariables::new();
        let flow = self.flow_variables(&mut variables);
        let growth = variables.add(variable().min(0.0));
        let outflow = self.outflows(&mut variables, &flow, give);
        let model = variables.maximise(growth).using(good_lp::microlp);
        let solution = self.conserve(model, outflow, |supply| growth * supply).solve()?;
        Ok((solution.value(growth), flow.iter().map(|&arc| solution.value(arc)).collect()))
    }

    /// The ratio and the supplies come out of linear programs with their round-off, and by it no flow may meet them
    /// exactly: then conservation gives way, little by little. Returns the flow and by how much in all it gave way.
    fn least_flow_over(&self, suspects: &[usize], ratio: f64) -> Result<(Vec<f64>, f64), ResolutionError> {
        let mut give = 0.0;
        loop {
            match (self.least_flow_within(suspects, ratio, give), self.more(give, ratio)) {
                (Err(ResolutionError::Infeasible), Some(more)) => give = more,
                (result, _) => return Ok((result?, give * self.supply.len() as f64)),
            }
        }
    }

    fn least_flow_within(
        &self,
        suspects: &[usize],
        ratio: f64,
        give: f64,
    ) -> Result<Vec<f64>, ResolutionError> {
        let mut variables = ProblemVariables::new();
        let flow = self.flow_variables(&mut variables);
        let cost: Expression = suspects.iter().map(|&arc| flow[arc]).sum();
        let outflow = self.outflows(&mut variables, &flow, give);
        let model = variables.minimise(cost).using(good_lp::microlp);
        let solution = self.conserve(model, outflow, |supply| (ratio * supply).into()).solve()?;
        Ok(flow.iter().map(|&arc| solution.value(arc)).collect())
    }

    fn is_first(&self) -> bool {
        self.scale == 1.0 && self.noise == PRECISION
    }

    /// The next larger amount by which the outflow of a node may be off, if there is still reason in it.
    fn more(&self, give: f64, ratio: f64) -> Option<f64> {
        let largest = ratio * self.supply.iter().fold(0.0, |largest: f64, supply| largest.max(supply.abs()));
        (give < ROUND_OFF * largest).then(|| f64::max(give * 8.0, f64::EPSILON * largest))
    }

    fn flow_variables(&self, variables: &mut ProblemVariables) -> Vec<Variable> {
        self.arcs.iter().map(|arc| variables.add(variable().min(0.0).max(arc.capacity))).collect()
    }

    /// Outflow minus inflow of each node, which may be off by `give`.
    fn outflows(&self, variables: &mut ProblemVariables, flow: &[Variable], give: f64) -> Vec<Expression> {
        let mut outflow = vec![Expression::default(); self.supply.len()];
        for (arc, &flow) in self.arcs.iter().zip(flow) {
            outflow[arc.tail] += flow;
            outflow[arc.head] -= flow;
        }
        if give > 0.0 {
            outflow.iter_mut().for_each(|outflow| *outflow += variables.add(variable().min(-give).max(give)));
        }
        outflow
    }

    /// Outflow minus inflow is what `supplied` makes of each node's supply.
    fn conserve<M: SolverModel>(
        &self,
        mut model: M,
        outflow: Vec<Expression>,
        supplied: impl Fn(f64) -> Expression,
    ) -> M {
        for (outflow, &supply) in outflow.into_iter().zip(&self.supply) {
            model.add_constraint((outflow - supplied(supply)).eq(0.0));
        }
        model
    }

    /// Goes to the next layer [theory §1.1, eqs. 1–4].
    fn remove(&mut self, bottlenecks: &[usize], ratio: f64, flows: &mut [f64]) {
        self.scale *= ratio;
        for supply in &mut self.supply {
            *supply *= ratio;
        }
        // A difference of large numbers carries their round-off.
        let largest = self.supply.iter().fold(0.0, |largest: f64, supply| largest.max(supply.abs()));
        self.noise = self.noise * ratio + largest * PRECISION;
        for &position in bottlenecks {
            let arc = self.arcs[position];
            self.supply[arc.tail] -= arc.capacity;
            self.supply[arc.head] += arc.capacity;
            flows[arc.link.index()] = arc.signed_capacity / self.scale;
        }
        let mut position = 0;
        self.arcs.retain(|_| {
            position += 1;
            bottlenecks.binary_search(&(position - 1)).is_err()
        });
        self.round_supplies();
    }

    /// Takes round-off out of the supplies: what is nearly zero is zero, and each connected component sums to zero.
    fn round_supplies(&mut self) {
        let mut joined = UnionFind::<usize>::new(self.supply.len());
        for arc in &self.arcs {
            joined.union(arc.tail, arc.head);
        }
        let component = joined.into_labeling();
        let mut sum = vec![0.0; self.supply.len()];
        let mut holder: Vec<Option<usize>> = vec![None; self.supply.len()];
        for node in 0..self.supply.len() {
            if self.supply[node].abs() <= self.noise {
                self.supply[node] = 0.0;
                continue;
            }
            sum[component[node]] += self.supply[node];
            let largest = holder[component[node]].map_or(0.0, |node| self.supply[node].abs());
            if self.supply[node].abs() > largest {
                holder[component[node]] = Some(node);
            }
        }
        for (sum, holder) in sum.into_iter().zip(holder) {
            if let Some(node) = holder {
                self.supply[node] -= sum;
            }
        }
    }
}
