//! What the readers agree on: nodes and links with the places they stand at, not yet checked against each other.

use std::time::Duration;

use crate::format::attributes::Attributes;
use crate::format::fault::Place;
use crate::format::{Fault, Problem, ReadOptions, amount};
use crate::topology::{Link, Node, NodeId, Orientation, Position, Topology};

/// A file's content.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) directed: bool,
    pub(super) nodes: Vec<DraftNode>,
    pub(super) links: Vec<DraftLink>,
}

#[derive(Debug, Default)]
pub(super) struct DraftNode {
    pub(super) place: Place,
    pub(super) id: String,
    pub(super) label: Option<String>,
    pub(super) x: Option<f64>,
    pub(super) y: Option<f64>,
}

#[derive(Debug, Default)]
pub(super) struct DraftLink {
    pub(super) place: Place,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) id: Option<String>,
    /// Whether the file says of this one link that it is directed.
    pub(super) directed: Option<bool>,
    /// The delay, in formats that have one for all links.
    pub(super) delay: Option<Duration>,
    /// All else that the file says of it.
    pub(super) attributes: Attributes,
}

impl Draft {
    /// Adds a node for each link end that the file does not list, for formats that need not.
    pub(super) fn add_missing_nodes(&mut self) {
        let mut known: std::collections::BTreeSet<String> =
            self.nodes.iter().map(|node| node.id.clone()).collect();
        for link in &self.links {
            for id in [&link.from, &link.to] {
                if known.insert(id.clone()) {
                    self.nodes.push(DraftNode { place: link.place, id: id.clone(), ..DraftNode::default() });
                }
            }
        }
    }

    /// The same with a node for each link end, for lists of links: one without any is a file that was cut off.
    pub(super) fn with_links(mut self, text: &str) -> Result<Self, Fault> {
        if self.links.is_empty() {
            return Err(Fault::expected(text.trim_end().len(), "end of file", "a link"));
        }
        self.add_missing_nodes();
        Ok(self)
    }

    /// The topology, and what is odd about it.
    pub(super) fn build(self, options: &ReadOptions) -> Result<(Topology, Vec<String>), Fault> {
        let own = if self.directed { Orientation::Directed } else { Orientation::Undirected };
        let mut topology = Topology::new(options.orientation.unwrap_or(own));
        topology.set_name(self.name);
        let mut places = Vec::new();
        for node in self.nodes {
            if let Some(first) = topology.node(&node.id) {
                let (element, first) = (format!("node {:?}", node.id), places[first.index()]);
                return Err(Fault::DuplicateNode { place: node.place, element, first });
            }
            places.push(node.place);
            topology.add_node(node.build())?;
        }
        let mut warnings = Vec::new();
        for (index, link) in self.links.into_iter().enumerate() {
            if link.directed.is_some_and(|directed| directed != self.directed)
                && options.orientation.is_none()
            {
                return Err(Fault::at(link.place, link.name(index), Problem::MixedOrientation));
            }
            let (from, to) = (link.end(index, &link.from, &topology)?, link.end(index, &link.to, &topology)?);
            if from == to {
                let (a, b) = (topology.node_weight(from).name(), topology.node_weight(to).name());
                warnings.push(format!("link {index} ({a} to {b}) is a self-loop and carries nothing"));
            }
            topology.add_link(from, to, link.build(index, from == to, options)?)?;
        }
        Ok((topology, warnings))
    }
}

impl DraftNode {
    fn build(self) -> Node {
        let position = match (self.x, self.y) {
            (Some(x), Some(y)) if x.is_finite() && y.is_finite() => Some(Position { x, y }),
            _ => None,
        };
        let label = self.label.filter(|label| !label.is_empty() && *label != self.id);
        Node { id: self.id, label, position }
    }
}

impl DraftLink {
    fn name(&self, index: usize) -> String {
        format!("link {index} ({} to {})", self.from, self.to)
    }

    fn end(&self, index: usize, id: &str, topology: &Topology) -> Result<NodeId, Fault> {
        let unknown = || Fault::at(self.place, self.name(index), Problem::UnknownNode { id: id.into() });
        topology.node(id).ok_or_else(unknown)
    }

    fn build(self, index: usize, is_loop: bool, options: &ReadOptions) -> Result<Link, Fault> {
        let capacity = match &options.capacity {
            // A self-loop carries nothing, whatever its capacity.
            Some(attribute) if is_loop => self.capacity(index, attribute, Some(1.0))?,
            Some(attribute) => self.capacity(index, attribute, options.default_capacity)?,
            None => 1.0,
        };
        let number = |name: &str| self.attributes.get(name).and_then(|text| text.parse::<f64>().ok());
        let delay = match &options.delay {
            Some(attribute) => {
                let expected = "a delay in milliseconds, or with a unit as 5us, 3ms or 0.1s";
                Some(self.attribute(index, attribute, expected, delay)?)
            }
            None => {
                let named = || Duration::try_from_secs_f64(number("delay_ms")? / 1e3).ok();
                self.delay.or_else(named)
            }
        };
        let metric = options.metric.as_ref().map(|attribute| {
            let value = |text: &str| text.trim().parse().ok().filter(|&m: &f64| m.is_finite() && m > 0.0);
            self.attribute(index, attribute, "a metric, a number above 0", value)
        });
        let loss = number("loss").filter(|loss| (0.0..=1.0).contains(loss));
        Ok(Link { capacity, delay, loss, metric: metric.transpose()?, id: self.id })
    }

    /// An attribute that was asked for.
    fn attribute<T>(
        &self,
        index: usize,
        attribute: &str,
        expected: &'static str,
        value: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Fault> {
        let text = self.attributes.get(attribute);
        text.and_then(|text| value(text)).ok_or_else(|| {
            let text =
                text.cloned().unwrap_or_else(|| format!("missing (it has: {})", self.attributes.names()));
            let problem = Problem::BadAttribute { attribute: attribute.to_string(), text, expected };
            Fault::at(self.place, self.name(index), problem)
        })
    }

    fn capacity(&self, index: usize, attribute: &str, default: Option<f64>) -> Result<f64, Fault> {
        let text = self.attributes.get(attribute);
        let value = text.and_then(|text| amount(text));
        if let Some(capacity) = value.filter(|value| value.is_finite() && *value > 0.0).or(default) {
            return Ok(capacity);
        }
        let attribute = attribute.to_string();
        let problem = match text {
            Some(text) => Problem::BadCapacity { attribute, text: text.clone() },
            None => Problem::MissingCapacity { attribute, present: self.attributes.names() },
        };
        Err(Fault::at(self.place, self.name(index), problem))
    }
}

/// A delay in milliseconds, or with a unit: s, ms, us (µs).
pub(super) fn delay(text: &str) -> Option<Duration> {
    let text = text.trim();
    let number = text.trim_end_matches(|c: char| c.is_alphabetic() || c.is_whitespace());
    let per_second = match text[number.len()..].trim() {
        "" | "ms" => 1e3,
        "s" => 1.0,
        "us" | "µs" | "μs" => 1e6,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? / per_second).ok()
}

/// What writers say of a link besides its ends, in every format by these names.
pub(super) fn attributes(link: &Link) -> Vec<(&'static str, f64)> {
    let mut attributes = vec![("capacity", link.capacity)];
    attributes.extend(link.delay.map(|delay| ("delay_ms", delay.as_secs_f64() * 1e3)));
    attributes.extend(link.loss.map(|loss| ("loss", loss)));
    attributes.extend(link.metric.map(|metric| ("metric", metric)));
    attributes
}
