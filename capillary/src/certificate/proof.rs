//! The certificate of any routing, from its loads alone.

use petgraph::graph::DiGraph;

use crate::certificate::{Certificate, CertificateError, Step};
use crate::routing::{LinkUse, Routing};
use crate::topology::{LinkId, NodeId, Orientation, Topology};

impl Certificate {
    /// Finds the cuts that prove `routing` to be the capillary routing of `topology`, whoever made it, and checks them
    /// with [`Certificate::verify`]; or tells which link does not have to carry as much as it does.
    ///
    /// Nothing is solved: in each part the links of the largest load must be full arcs between strongly connected
    /// components of what the flow leaves free, and the components are the next parts [theory §1.3]. If the routing
    /// has layers and links that belong to none, as a pattern does, only the layers are proved.
    ///
    /// Loads may be off by `tolerance`, relative to those of the same layer: 1e-9 suits the solvers by maximum flow and
    /// in exact arithmetic, simplex solvers may need 1e-6.
    ///
    /// Complexity: O(links × depth of the parts).
    ///
    /// ```
    /// use capillary::{Certificate, CertificateError, NodeId, Orientation, Routing, Topology};
    ///
    /// let links = [("s", "t", 1.0), ("s", "t", 1.0)];
    /// let topology = Topology::from_links(Orientation::Directed, links)?;
    /// let halves = Routing::new(&topology, NodeId(0), NodeId(1), &[0.5, 0.5])?;
    /// assert_eq!(Certificate::prove(&topology, &halves, 1e-9)?.steps()[0].load, 0.5);
    ///
    /// let uneven = Routing::new(&topology, NodeId(0), NodeId(1), &[0.7, 0.3])?;
    /// let error = Certificate::prove(&topology, &uneven, 1e-9).unwrap_err();
    /// assert_eq!(error.to_string(), "link 0 has load 0.7, but a detour around it has room");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prove(topology: &Topology, routing: &Routing, tolerance: f64) -> Result<Self, CertificateError> {
        routing.verify(topology)?;
        let loads = (0..topology.link_count() as u32).map(|link| routing.signed_load(LinkId(link))).collect();
        let certificate = Proof::new(topology, routing, loads, tolerance).complete()?;
        certificate.verify_within(tolerance, topology, routing)?;
        Ok(certificate)
    }

    /// Like [`Certificate::prove`], for loads that are known exactly. They are compared by their ranks, so that no two
    /// of them are taken for one, however near they are. `ranks` are whole numbers: 0 for no load, higher for higher
    /// loads, with the sign of the flow.
    #[cfg(feature = "exact")]
    pub(crate) fn prove_by_ranks(
        topology: &Topology,
        routing: &Routing,
        ranks: Vec<f64>,
    ) -> Result<Self, CertificateError> {
        Proof::new(topology, routing, ranks, 0.0).complete()
    }
}

/// A part of the network whose largest load is still to be looked at.
struct Part {
    /// Its nodes begin here in the order.
    start: u32,
    nodes: Vec<NodeId>,
    /// The links with both ends in it.
    links: Vec<LinkId>,
    parent: Option<u32>,
    /// The largest load of the part around it.
    above: f64,
}

struct Proof<'r> {
    routing: &'r Routing,
    /// Load of each link with the sign of its flow, or another number that grows with the load. Index: link.
    loads: Vec<f64>,
    orientation: Orientation,
    tolerance: f64,
    smallest_capacity: f64,
    certificate: Certificate,
    pending: Vec<Part>,
    /// The place of each node in its part, then its component. Index: node.
    place: Vec<u32>,
}

impl<'r> Proof<'r> {
    fn new(topology: &Topology, routing: &'r Routing, loads: Vec<f64>, tolerance: f64) -> Self {
        let order: Vec<NodeId> = topology.nodes().map(|(id, _)| id).collect();
        let no_loops = topology.links().filter(|(_, from, to, _)| from != to);
        let links = no_loops.map(|(id, ..)| id).collect();
        let place = vec![0; order.len()];
        let whole = Part { start: 0, nodes: order.clone(), links, parent: None, above: 0.0 };
        let is_partial = routing.links().iter().any(|link| link.load > 0.0 && !is_claimed(routing, link));
        let last = routing.layers().last().map(|layer| layer.load);
        let stopped_at = last.filter(|_| is_partial);
        Self {
            routing,
            loads,
            orientation: topology.orientation(),
            tolerance,
            smallest_capacity: topology.smallest_capacity().unwrap_or(1.0),
            certificate: Certificate { order, steps: Vec::new(), children: Vec::new(), stopped_at },
            pending: vec![whole],
            place,
        }
    }

    /// Divides part after part, until none has a load left.
    fn complete(mut self) -> Result<Certificate, CertificateError> {
        while let Some(part) = self.pending.pop() {
            self.divide(part)?;
        }
        Ok(self.certificate)
    }

    /// Divides a part along the cuts that hold its largest load, if it has any.
    fn divide(&mut self, part: Part) -> Result<(), CertificateError> {
        let claimed =
            part.links.iter().copied().filter(|&id| is_claimed(self.routing, self.routing.link(id)));
        let largest = claimed.max_by(|&a, &b| self.load(a).total_cmp(&self.load(b)));
        let Some(largest) = largest.filter(|&id| self.load(id) > self.tolerance * part.above) else {
            return Ok(());
        };
        let load = self.load(largest);
        let components = self.components(&part, load);
        for (index, nodes) in components.iter().enumerate() {
            nodes.iter().for_each(|node| self.place[node.index()] = index as u32);
        }
        let mut links = vec![Vec::new(); components.len()];
        for &id in &part.links {
            let link = self.routing.link(id);
            let component = self.place[link.from.index()];
            if component != self.place[link.to.index()] {
                continue;
            }
            if is_claimed(self.routing, link) && self.is_full(self.load(id), load) {
                return Err(CertificateError::Detour { link: id, load: link.load });
            }
            links[component as usize].push(id);
        }
        self.record(&part, largest, components.into_iter().zip(links));
        Ok(())
    }

    /// The strongly connected components of what can still move while no load exceeds `load`, from the source side of
    /// the cuts to the target side.
    fn components(&mut self, part: &Part, load: f64) -> Vec<Vec<NodeId>> {
        let mut graph = DiGraph::<NodeId, ()>::with_capacity(part.nodes.len(), 2 * part.links.len());
        for &node in &part.nodes {
            self.place[node.index()] = graph.add_node(node).index() as u32;
        }
        for &id in &part.links {
            let link = self.routing.link(id);
            let ends = (self.place[link.from.index()].into(), self.place[link.to.index()].into());
            let signed = self.loads[id.index()];
            if !self.is_full(signed, load) {
                graph.add_edge(ends.0, ends.1, ());
            }
            let has_way_back = match self.orientation {
                Orientation::Directed => signed > self.tolerance * load,
                Orientation::Undirected => !self.is_full(-signed, load),
            };
            if has_way_back {
                graph.add_edge(ends.1, ends.0, ());
            }
        }
        // Arcs between components lead from later to earlier ones: from the target side back to the source side.
        let components = petgraph::algo::tarjan_scc(&graph);
        let names = |members: Vec<_>| members.into_iter().map(|member| graph[member]).collect();
        components.into_iter().map(names).collect()
    }

    /// Writes the step down and keeps its children for later, as far as links are in them.
    fn record(
        &mut self,
        part: &Part,
        largest: LinkId,
        children: impl Iterator<Item = (Vec<NodeId>, Vec<LinkId>)>,
    ) {
        let (load, rank) = (self.routing.link(largest).load, self.load(largest));
        let Certificate { order, steps, children: starts, .. } = &mut self.certificate;
        let above = part.parent.map_or(self.smallest_capacity, |step| steps[step as usize].load);
        let (parent, first) = (Some(steps.len() as u32), starts.len() as u32);
        let mut start = part.start;
        for (nodes, links) in children {
            let end = start + nodes.len() as u32;
            starts.push(start);
            order[start as usize..end as usize].copy_from_slice(&nodes);
            if !links.is_empty() {
                self.pending.push(Part { start, nodes, links, parent, above: rank });
            }
            start = end;
        }
        steps.push(Step {
            part: part.start..start,
            ratio: above / load,
            load,
            parent: part.parent,
            children: first..starts.len() as u32,
        });
    }

    fn load(&self, link: LinkId) -> f64 {
        self.loads[link.index()].abs()
    }

    fn is_full(&self, load: f64, largest: f64) -> bool {
        load >= largest * (1.0 - self.tolerance)
    }
}

/// Whether the routing says that a layer fixes the link's load; one without layers says so of all.
fn is_claimed(routing: &Routing, link: &LinkUse) -> bool {
    routing.layers().is_empty() || link.layer.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_must_carry_nothing() {
        let links = [("s", "t", 1.0), ("t", "t", 1.0)];
        let topology = Topology::from_links(Orientation::Directed, links).unwrap();
        let prove = |flows: &[f64]| {
            let routing = Routing::new(&topology, NodeId(0), NodeId(1), flows).unwrap();
            Certificate::prove(&topology, &routing, 1e-9)
        };
        assert!(prove(&[1.0, 0.0]).is_ok());
        let error = prove(&[1.0, 0.3]).unwrap_err();
        assert!(matches!(error, CertificateError::WrongLoad { link: LinkId(1), .. }), "{error}");
    }

    #[test]
    fn a_circle_of_flow_is_no_part_of_the_routing() {
        // Beside the demand a flow runs around, on links that have room for it.
        let links = [("s", "t", 1.0), ("t", "a", 1.0), ("a", "t", 1.0)];
        let topology = Topology::from_links(Orientation::Directed, links).unwrap();
        let routing = Routing::new(&topology, NodeId(0), NodeId(1), &[1.0, 0.5, 0.5]).unwrap();
        let error = Certificate::prove(&topology, &routing, 1e-9).unwrap_err();
        assert_eq!(error, CertificateError::Detour { link: LinkId(1), load: 0.5 });
    }
}
