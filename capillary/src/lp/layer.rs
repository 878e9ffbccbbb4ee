//! The linear programs of one layer.

use good_lp::{Constraint, Expression, ProblemVariables, ResolutionError, Variable, variable};
use petgraph::unionfind::UnionFind;

use super::{Hunt, Simplex};
use crate::topology::{LinkId, NodeId, Orientation, Topology};

/// A flow this near to a capacity, relative, is at capacity.
const ROUND_OFF: f64 = 1e-9;

/// How far the ratio of a solved program may be off, relative. From layer to layer the error of the supplies grows
/// with the ratio, and what is below it is no supply.
const PRECISION: f64 = 4e-12;

/// The units in which a problem is tried. Simplex solvers lose themselves in round-off now and then, and the same
/// problem in other units is another one to them.
const OTHER_UNITS: [f64; 2] = [1.0 / 3.0, 7.0];

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
pub(super) struct LayerProblem {
    simplex: Simplex,
    arcs: Vec<Arc>,
    supply: Vec<f64>,
    /// The first ratio is in units of this, the others in units of 1.
    unit: f64,
    /// Flows in the original problem times this are flows here.
    scale: f64,
    /// What round-off may have made of a supply that ought to be zero.
    noise: f64,
    is_first: bool,
    /// The signed flow of each link, 0 until a layer fixes it; index: link.
    flows: Vec<f64>,
}

impl LayerProblem {
    /// The problem of the first layer. Its capacities are in units of their geometric mean, so that they are near 1.
    pub(super) fn first(simplex: Simplex, topology: &Topology, source: NodeId, target: NodeId) -> Self {
        let mut supply = vec![0.0; topology.node_count()];
        supply[source.index()] = 1.0;
        supply[target.index()] = -1.0;
        let unit = geometric_mean(topology);
        let mut arcs = Vec::new();
        for (link, from, to, weight) in topology.links().filter(|(_, from, to, _)| from != to) {
            let (tail, head, capacity) = (from.index(), to.index(), weight.capacity / unit);
            arcs.push(Arc { tail, head, capacity, link, signed_capacity: capacity });
            if topology.orientation() == Orientation::Undirected {
                arcs.push(Arc { tail: head, head: tail, capacity, link, signed_capacity: -capacity });
            }
        }
        let flows = vec![0.0; topology.link_count()];
        Self { simplex, arcs, supply, unit, scale: 1.0, noise: PRECISION, is_first: true, flows }
    }

    /// The signed flow of each link, as far as it is known.
    pub(super) fn flows(&self) -> &[f64] {
        &self.flows
    }

    pub(super) fn has_no_arcs(&self) -> bool {
        self.arcs.is_empty()
    }

    pub(super) fn has_supplies(&self) -> bool {
        self.supply.iter().any(|&supply| supply != 0.0)
    }

    /// Finds the bottlenecks: returns their positions among the arcs, and how it went. There are none if nothing can
    /// leave the source.
    pub(super) fn hunt(&mut self) -> Result<(Hunt, Vec<usize>), ResolutionError> {
        let mut result = self.try_hunt();
        for factor in OTHER_UNITS {
            if result.is_err() {
                self.rescale(factor);
                result = self.try_hunt();
            }
        }
        result
    }

    fn rescale(&mut self, factor: f64) {
        for arc in &mut self.arcs {
            arc.capacity *= factor;
            arc.signed_capacity *= factor;
        }
        self.supply.iter_mut().for_each(|supply| *supply *= factor);
        self.scale *= factor;
        self.noise *= factor;
    }

    /// Maximises the growth, then minimises the flow over the suspects until all of those left hold theirs.
    fn try_hunt(&self) -> Result<(Hunt, Vec<usize>), ResolutionError> {
        let (ratio, flow) = self.largest_growth()?;
        let mut suspects: Vec<usize> =
            (0..self.arcs.len()).filter(|&arc| self.is_full(arc, &flow, 0.0)).collect();
        let mut counts = vec![suspects.len()];
        loop {
            let (flow, given) = self.least_flow_over(&suspects, ratio)?;
            suspects.retain(|&arc| self.is_full(arc, &flow, given));
            counts.push(suspects.len());
            if counts[counts.len() - 2] == suspects.len() {
                break;
            }
        }
        if suspects.is_empty() && !(self.is_first && ratio <= ROUND_OFF) {
            return Err(ResolutionError::Str("it has no bottleneck".into()));
        }
        Ok((Hunt { ratio: ratio * self.unit, suspects: counts }, suspects))
    }

    /// Whether the arc is at its capacity, up to round-off and up to `given`, the amount by which conservation gave
    /// way.
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
            match self.more(give, 1.0).filter(|_| ratio < 1.0 && !self.is_first) {
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
        let conserved = self.conserved(outflow, |supply| growth * supply);
        let wanted = [&[growth], flow.as_slice()].concat();
        let mut values = self.simplex.optimum(variables.maximise(growth), conserved, &wanted)?;
        Ok((values.remove(0), values))
    }

    fn least_flow_over(&self, suspects: &[usize], ratio: f64) -> Result<(Vec<f64>, f64), ResolutionError> {
        self.cheapest_flow(ratio, |flow| suspects.iter().map(|&arc| flow[arc]).sum())
    }

    /// Takes the cheapest way for what the layers have left free, of least Σ flow/capacity. The arcs' capacities are
    /// what the load of the last layer allows.
    pub(super) fn fill_rest(&mut self) -> Result<(), ResolutionError> {
        let arcs = &self.arcs;
        let (flow, _) = self.cheapest_flow(1.0, |flow| {
            arcs.iter().zip(flow).map(|(arc, &flow)| flow * (1.0 / arc.capacity)).sum()
        })?;
        for (arc, flow) in self.arcs.iter().zip(flow) {
            self.flows[arc.link.index()] += flow.copysign(arc.signed_capacity) / self.scale;
        }
        Ok(())
    }

    /// The ratio and the supplies come out of linear programs with their round-off, and by it no flow may meet them
    /// exactly: then conservation gives way, little by little. Returns the flow and by how much in all it gave way.
    fn cheapest_flow(
        &self,
        ratio: f64,
        cost: impl Fn(&[Variable]) -> Expression,
    ) -> Result<(Vec<f64>, f64), ResolutionError> {
        let mut give = 0.0;
        loop {
            match (self.cheapest_flow_within(ratio, &cost, give), self.more(give, ratio)) {
                (Err(ResolutionError::Infeasible), Some(more)) => give = more,
                (result, _) => return Ok((result?, give * self.supply.len() as f64)),
            }
        }
    }

    fn cheapest_flow_within(
        &self,
        ratio: f64,
        cost: impl Fn(&[Variable]) -> Expression,
        give: f64,
    ) -> Result<Vec<f64>, ResolutionError> {
        let mut variables = ProblemVariables::new();
        let flow = self.flow_variables(&mut variables);
        let outflow = self.outflows(&mut variables, &flow, give);
        let conserved = self.conserved(outflow, |supply| (ratio * supply).into());
        self.simplex.optimum(variables.minimise(cost(&flow)), conserved, &flow)
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
    fn conserved(&self, outflow: Vec<Expression>, supplied: impl Fn(f64) -> Expression) -> Vec<Constraint> {
        let pairs = outflow.into_iter().zip(&self.supply);
        pairs.map(|(outflow, &supply)| (outflow - supplied(supply)).eq(0.0)).collect()
    }

    /// Goes to the next layer [theory §1.1, eqs. 1–4].
    pub(super) fn remove(&mut self, bottlenecks: &[usize], hunt: &Hunt) {
        let ratio = hunt.ratio / self.unit;
        (self.unit, self.is_first) = (1.0, false);
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
            self.flows[arc.link.index()] = arc.signed_capacity / self.scale;
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

fn geometric_mean(topology: &Topology) -> f64 {
    let logarithms = topology.links().map(|(.., link)| libm::log(link.capacity));
    libm::exp(logarithms.sum::<f64>() / topology.link_count().max(1) as f64)
}
