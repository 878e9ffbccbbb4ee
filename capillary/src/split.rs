//! A routing as what each router is told: the ratios in which a node splits what it gets.

use crate::routing::{Routing, RoutingError};
use crate::topology::{LinkId, NodeId, Topology};

/// How one node splits its traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// The node.
    pub node: NodeId,
    /// The links on which it sends, with their shares, which sum to 1.
    pub shares: Vec<(LinkId, f64)>,
}

/// The split ratios of a routing, the nodes in the order of the flow: the source first.
#[derive(Debug, Clone, PartialEq)]
pub struct Splits {
    splits: Vec<Split>,
}

impl Splits {
    /// The ratios of a routing; `None` if its flow runs in a circle, which a capillary routing's does not.
    ///
    /// ```
    /// use capillary::{NodeId, Orientation, Splits, Topology};
    ///
    /// let links = [("s", "t", 1.0), ("s", "t", 1.0), ("s", "t", 1.0)];
    /// let topology = Topology::from_links(Orientation::Directed, links)?;
    /// let routing = capillary::solve(&topology, NodeId(0), NodeId(1))?;
    /// let splits = Splits::of(&routing).unwrap();
    ///
    /// // Routers count in sixteenths: 6, 5 and 5 of them.
    /// let quantized = splits.quantized(16).routing(&topology, NodeId(0), NodeId(1))?;
    /// assert_eq!(quantized.links()[0].flow, 6.0 / 16.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(routing: &Routing) -> Option<Self> {
        let ends = routing.links().iter().flat_map(|link| [link.from, link.to]);
        let nodes = ends.map(NodeId::index).max().map_or(0, |last| last + 1);
        let (mut leaving, mut entering) = (vec![Vec::new(); nodes], vec![0usize; nodes]);
        for (id, link) in routing.used_links() {
            let (tail, head) = link.direction();
            leaving[tail.index()].push((id, link.flow.abs(), head));
            entering[head.index()] += 1;
        }
        // Kahn's order: a node comes when everything that flows into it has come.
        let mut ready = vec![routing.source()];
        let mut splits = Vec::new();
        let mut seen = 0;
        while let Some(node) = ready.pop() {
            let links = &leaving[node.index()];
            let total: f64 = links.iter().map(|(_, flow, _)| flow).sum();
            seen += links.len();
            for (.., head) in links {
                entering[head.index()] -= 1;
                if entering[head.index()] == 0 {
                    ready.push(*head);
                }
            }
            let shares: Vec<(LinkId, f64)> = links.iter().map(|(id, flow, _)| (*id, flow / total)).collect();
            if !shares.is_empty() {
                splits.push(Split { node, shares });
            }
        }
        let used: usize = leaving.iter().map(Vec::len).sum();
        (seen == used).then_some(Self { splits })
    }

    /// The splits, the source's first, each after those it gets its traffic from.
    pub fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// The ratios in multiples of 1/`parts`, by largest remainder; of equal remainders the earlier link's is rounded
    /// up.
    pub fn quantized(&self, parts: u32) -> Self {
        let quantize = |split: &Split| {
            let shares: Vec<f64> = split.shares.iter().map(|(_, share)| *share).collect();
            let whole = split.shares.iter().zip(whole_parts(&shares, parts));
            let links = whole.map(|((link, _), part)| (*link, f64::from(part) / f64::from(parts)));
            Split { node: split.node, shares: links.collect() }
        };
        Self { splits: self.splits.iter().map(quantize).collect() }
    }

    /// The routing that nodes with these ratios make of the demand.
    pub fn routing(
        &self,
        topology: &Topology,
        source: NodeId,
        target: NodeId,
    ) -> Result<Routing, RoutingError> {
        let mut through = vec![0.0; topology.node_count()];
        let mut flows = vec![0.0; topology.link_count()];
        topology.check_node(source)?;
        through[source.index()] = 1.0;
        for split in &self.splits {
            for &(link, share) in &split.shares {
                let (from, to) = topology.ends(link);
                let (head, sign) = if split.node == from { (to, 1.0) } else { (from, -1.0) };
                let flow = through[split.node.index()] * share;
                flows[link.index()] += sign * flow;
                through[head.index()] += flow;
            }
        }
        Routing::new(topology, source, target, &flows)
    }
}

/// Shares, which sum to 1, in whole parts, which sum to `parts`: by largest remainder.
pub(crate) fn whole_parts(shares: &[f64], parts: u32) -> Vec<u32> {
    let scaled: Vec<f64> = shares.iter().map(|share| share * f64::from(parts)).collect();
    // A share that is a whole number but for round-off stays it.
    let mut whole: Vec<u32> = scaled.iter().map(|share| (share + 1e-9).floor() as u32).collect();
    let remainder = |index: usize| scaled[index] - f64::from(whole[index]);
    let mut order: Vec<usize> = (0..scaled.len()).collect();
    order.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)).then(a.cmp(&b)));
    let missing = parts.saturating_sub(whole.iter().sum());
    for &index in order.iter().take(missing as usize) {
        whole[index] += 1;
    }
    whole
}
