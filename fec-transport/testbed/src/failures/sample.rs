//! Mobile ad-hoc networks as overlays: the members, the links between those that hear one another, and the two between
//! which the session runs.

use std::time::Duration;

use capillary::{NodeId, Topology};
use netsim::mobility::{Area, Length, RandomWalk, Scenario, ScenarioError, Speeds};
use netsim::random_stream;
use rand_core::RngCore;

use fec_transport::sim::{LinkSpec, Scene};

/// Metres within which two nodes hear each other.
const RANGE: f64 = 100.0;
/// The random walk of the presets of `ror`: metres per second, and for how long a node keeps its direction. Of each
/// walk only the first frame is looked at, so that samples have nothing to do with one another.
const SPEEDS: [f64; 2] = [5.0, 15.0];
const LEG: Duration = Duration::from_secs(10);
/// Pairs that are tried before a network counts as one without any.
const TRIES: usize = 10_000;

/// A network and two of its nodes that no single link separates.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Counts the samples of a seed.
    pub number: u64,
    /// Undirected, every link of capacity 1.
    pub topology: Topology,
    /// Where the session begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
}

impl Sample {
    /// Draws sample `number` of `seed`: the first frame of a random walk of `nodes` nodes with `mean_degree` neighbours
    /// each, and an ordered pair with a minimum cut of at least 2. Without such a pair the next network is drawn.
    ///
    /// # Errors
    /// [`ScenarioError`] if so many nodes cannot have such a degree.
    pub fn draw(seed: u64, number: u64, nodes: usize, mean_degree: f64) -> Result<Sample, ScenarioError> {
        let range = Length::from_metres(RANGE)?;
        let area = Area::for_mean_degree(nodes, range, mean_degree, 1.0)?;
        let walk = RandomWalk::new(Speeds::between(SPEEDS[0], SPEEDS[1])?, LEG)?;
        let scenario = Scenario::new(nodes, area, walk)?;
        let mut random = random_stream(seed, &["failures", "sample", &number.to_string()]);
        loop {
            let mut frames = scenario.frames(random.next_u64(), LEG);
            let topology = frames.next().expect("a model's frames do not end").topology(range);
            if let Some((from, to)) = draw_pair(&topology, &mut random) {
                return Ok(Sample { number, topology, from, to });
            }
        }
    }

    /// The sample as an overlay: all nodes but the two ends relay for everybody.
    pub(super) fn scene(&self, link: &LinkSpec) -> Scene {
        let mut scene = Scene::new();
        for (node, _) in self.topology.nodes() {
            let name = member_name(node);
            scene = match node {
                from if from == self.from => scene.client(&name),
                to if to == self.to => scene.server(&name),
                _ => scene.relay(&name),
            };
        }
        let links = self.topology.links();
        links.fold(scene, |scene, (_, a, b, _)| scene.link(&member_name(a), &member_name(b), link))
    }
}

/// The name of a node's member; the overlay has them in the order of the topology.
pub(super) fn member_name(node: NodeId) -> String {
    format!("n{}", node.index())
}

fn draw_pair(topology: &Topology, random: &mut impl RngCore) -> Option<(NodeId, NodeId)> {
    let count = u32::try_from(topology.nodes().count()).expect("node numbers have 32 bits");
    let mut node = || NodeId(((u64::from(random.next_u32()) * u64::from(count)) >> 32) as u32);
    let pairs = std::iter::repeat_with(|| (node(), node())).take(TRIES).filter(|(from, to)| from != to);
    let is_joined_twice = |(from, to): &(NodeId, NodeId)| {
        capillary::minimum_cut(topology, *from, *to).is_ok_and(|cut| cut.capacity >= 2.0 - 1e-9)
    };
    pairs.into_iter().find(is_joined_twice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_a_function_of_its_number_and_no_link_separates_its_ends() {
        let [one, again, other] = [3, 3, 4].map(|number| Sample::draw(1, number, 40, 7.6).expect("it fits"));
        assert_eq!((one.from, one.to), (again.from, again.to));
        assert_eq!(one.topology.link_count(), again.topology.link_count());
        assert_ne!(
            (one.from, one.to, one.topology.link_count()),
            (other.from, other.to, other.topology.link_count())
        );
        let cut = capillary::minimum_cut(&one.topology, one.from, one.to).expect("they are joined");
        assert!(cut.capacity >= 2.0);
    }
}
