//! Members and links of a scenario, from any of the ways in which a file may write them down.

use std::collections::BTreeSet;

use capillary::format::ReadOptions;
use capillary::{NodeId, Topology};
use serde::Deserialize as _;

use super::ScenarioError;
use super::file::{FileTable, LinkTable, ParallelTable, PerPath, Shape, TopologyTable};
use fec_transport::sim::{LinkSpec, Scene};

/// Members, and links with what they are like in both directions.
#[derive(Debug, Clone, Default)]
pub(super) struct Layout {
    clients: Vec<String>,
    relays: Vec<String>,
    servers: Vec<String>,
    pub(super) links: Vec<DrawnLink>,
    known_capacities: bool,
}

#[derive(Debug, Clone)]
pub(super) struct DrawnLink {
    pub(super) ends: [String; 2],
    /// Empty for a link that needs none.
    name: String,
    /// What the link is like from the first end to the second, and back.
    pub(super) shapes: [Shape; 2],
}

impl Layout {
    /// `load` gives the text of a file that the scenario names.
    pub(super) fn new(
        table: TopologyTable,
        load: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Layout, ScenarioError> {
        let known_capacities = table.known_capacities;
        let written_out = !table.link.is_empty();
        let mut layout = match (&table.parallel, &table.file, written_out) {
            (Some(parallel), None, false) => Layout::parallel(parallel)?,
            (None, Some(file), false) => Layout::from_file(file, load)?,
            (None, None, true) => Layout::written_out(table)?,
            _ => {
                return Err(ScenarioError::wrong(
                    "topology: expected exactly one of parallel, file and [[topology.link]]",
                ));
            }
        };
        layout.known_capacities = known_capacities;
        layout.scene()?.check().map_err(|error| ScenarioError::wrong(format!("topology: {error}")))?;
        Ok(layout)
    }

    fn parallel(table: &ParallelTable) -> Result<Layout, ScenarioError> {
        let mut layout = Layout {
            clients: vec!["client".to_owned()],
            servers: vec!["server".to_owned()],
            ..Layout::default()
        };
        for path in 0..table.paths {
            let of = |values: &Option<PerPath>, what| per_path(values.as_ref(), path, table.paths, what);
            let near = Shape {
                rate_mbit: of(&table.rate_mbit, "rate_mbit")?,
                // A path is two links, and a round trip crosses each twice.
                delay_ms: of(&table.round_trip_ms, "round_trip_ms")?.map(|time| time / 4.0),
                loss: of(&table.loss, "loss")?,
                mean_burst: table.mean_burst,
                queue_ms: of(&table.queue_ms, "queue_ms")?,
                ..Shape::default()
            };
            let far = Shape { loss: None, mean_burst: None, queue_ms: None, ..near.clone() };
            let relay = format!("r{}", path + 1);
            layout.add_link("client", &relay, "", [near.clone(), near]);
            layout.add_link(&relay, "server", "", [far.clone(), far]);
            layout.relays.push(relay);
        }
        Ok(layout)
    }

    fn from_file(
        table: &FileTable,
        load: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Layout, ScenarioError> {
        let wrong = |what: String| ScenarioError::wrong(format!("topology file \"{}\": {what}", table.path));
        let text = load(&table.path).map_err(&wrong)?;
        let read = capillary::format::read(text.as_bytes(), &ReadOptions::default());
        let topology = read.map_err(|error| wrong(error.to_string()))?.topology;
        let end = |name: &str| {
            let node = capillary::find_node(&topology, name).map_err(|error| wrong(error.to_string()))?;
            Ok::<_, ScenarioError>(member_name(&topology, node))
        };
        let (client, server) = (end(&table.from)?, end(&table.to)?);
        let names = topology.nodes().map(|(node, _)| member_name(&topology, node));
        let relays = names.filter(|name| *name != client && *name != server).collect();
        let mut layout = Layout { clients: vec![client], servers: vec![server], relays, ..Layout::default() };
        let mut joined = BTreeSet::new();
        for (_, a, b, _) in topology.links() {
            // The file may have several links between two nodes, without names to tell them apart: one stands for all.
            if a != b && joined.insert((a.min(b), a.max(b))) {
                let (a, b) = (member_name(&topology, a), member_name(&topology, b));
                layout.add_link(&a, &b, "", [table.links.clone(), table.links.clone()]);
            }
        }
        Ok(layout)
    }

    fn written_out(table: TopologyTable) -> Result<Layout, ScenarioError> {
        let mut layout = Layout {
            clients: table.clients,
            relays: table.relays,
            servers: table.servers,
            ..Layout::default()
        };
        for LinkTable { a, b, name, back, shape } in table.link {
            let forth = Shape::deserialize(shape)
                .map_err(|error| ScenarioError::wrong(format!("link {a} – {b}: {}", error.message())))?;
            let back = back.unwrap_or_default().over(&forth);
            layout.add_link(&a, &b, &name, [forth, back]);
        }
        Ok(layout)
    }

    fn add_link(&mut self, a: &str, b: &str, name: &str, shapes: [Shape; 2]) {
        let [a, b, name] = [a, b, name].map(str::to_owned);
        self.links.push(DrawnLink { ends: [a, b], name, shapes });
    }

    pub(super) fn scene(&self) -> Result<Scene, ScenarioError> {
        let mut scene = Scene::new();
        scene = self.clients.iter().fold(scene, |scene, name| scene.client(name));
        scene = self.relays.iter().fold(scene, |scene, name| scene.relay(name));
        scene = self.servers.iter().fold(scene, |scene, name| scene.server(name));
        for DrawnLink { ends: [a, b], name, shapes } in &self.links {
            let model = |shape: &Shape| {
                shape.model().map_err(|what| ScenarioError::wrong(format!("link {a} – {b}: {what}")))
            };
            let spec = LinkSpec { a_to_b: model(&shapes[0])?, b_to_a: model(&shapes[1])? };
            scene = scene.parallel_link(a, b, name, &spec);
        }
        Ok(if self.known_capacities { scene.with_known_capacities() } else { scene })
    }

    pub(super) fn has_member(&self, name: &str) -> bool {
        [&self.clients, &self.relays, &self.servers].into_iter().flatten().any(|member| member == name)
    }

    /// The positions of the links between two members, of that name if one is given, and whether each was written down
    /// the other way round.
    pub(super) fn find_links(&self, a: &str, b: &str, name: Option<&str>) -> Vec<(usize, bool)> {
        let joins = |link: &DrawnLink| {
            let [one, other] = link.ends.each_ref().map(String::as_str);
            let is_meant = name.is_none_or(|name| name == link.name);
            is_meant && ((one, other) == (a, b) || (one, other) == (b, a))
        };
        let found = self.links.iter().enumerate().filter(|(_, link)| joins(link));
        found.map(|(index, link)| (index, link.ends[0] != a)).collect()
    }
}

/// The label of a node, with its id where several nodes share the label.
fn member_name(topology: &Topology, node: NodeId) -> String {
    let name = topology.node_weight(node).name();
    let is_shared = topology.nodes().any(|(other, weight)| other != node && weight.name() == name);
    if is_shared { format!("{name}#{}", topology.node_weight(node).id) } else { name.to_owned() }
}

fn per_path(
    values: Option<&PerPath>,
    path: usize,
    paths: usize,
    what: &str,
) -> Result<Option<f64>, ScenarioError> {
    match values {
        None => Ok(None),
        Some(PerPath::All(value)) => Ok(Some(*value)),
        Some(PerPath::Each(values)) if values.len() == paths => Ok(Some(values[path])),
        Some(PerPath::Each(values)) => Err(ScenarioError::wrong(format!(
            "topology.parallel.{what} has {} values for {paths} paths: expected one value, or one for each path",
            values.len()
        ))),
    }
}
