//! A planned pair as a table, JSON, CSV or DOT.

use std::fmt::Write as _;

use capillary::{LinkId, NodeId, Paths, Routing, Splits};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::source::Network;
use program::table::{Cell, counted, number};
use program::{Table, output};

/// A solved pair with all that can be said of it.
pub(super) struct Answer<'n> {
    pub(super) network: &'n Network,
    pub(super) routing: Routing,
    /// Flow and load of each link as p/q, with `--exact`.
    pub(super) fractions: Option<Vec<(String, String)>>,
    pub(super) solver: Value,
    pub(super) paths: Paths,
    pub(super) splits: Option<Splits>,
    /// The parts that ratios are counted in, the rounded ratios and what they do to the loads.
    pub(super) quantized: Option<(u32, Splits, f64)>,
}

/// What the list of links is called.
const LINKS: &str = "links";

/// The object that is printed. Its links are made one by one as they are written: together they would take several
/// times the memory of all else.
pub(super) struct Document<'a> {
    answer: &'a Answer<'a>,
    object: Value,
}

struct LinkList<'a>(&'a Answer<'a>);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.object.as_object().into_iter().flatten() {
            match key == LINKS {
                true => map.serialize_entry(key, &LinkList(self.answer))?,
                false => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

impl Serialize for LinkList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(answer) = self;
        serializer.collect_seq((0..answer.routing.links().len()).map(|index| answer.link_json(index)))
    }
}

impl Answer<'_> {
    fn name(&self, node: NodeId) -> &str {
        self.network.name(node)
    }

    /// The used links by falling load.
    pub(super) fn links(&self) -> Table {
        let mut table = Table::new(["layer", "load", "flow", "link", "from", "to", ""]);
        let mut used: Vec<_> = self.routing.used_links().collect();
        used.sort_by(|a, b| b.1.load.total_cmp(&a.1.load).then(a.0.cmp(&b.0)));
        for (id, link) in used {
            let (from, to) = link.direction();
            let (layer, critical) =
                (link.layer.map_or(String::new(), |layer| layer.to_string()), link.is_critical());
            table.push_cells(vec![
                layer.into(),
                Cell::number(link.load),
                Cell::number(link.flow.abs()),
                id.0.to_string().into(),
                self.name(from).into(),
                self.name(to).into(),
                if critical { "critical" } else { "" }.into(),
            ]);
        }
        table
    }

    /// For a place with so many columns of text, if it is limited.
    pub(super) fn table(&self, columns: Option<usize>) -> String {
        let topology = &self.network.topology;
        let [from, to] =
            [self.routing.source(), self.routing.target()].map(|node| output::shown(self.name(node)));
        let title = match topology.name() {
            "" => "Capillary routing".into(),
            name => output::shown(name),
        };
        let mut out = format!("{title}: {from} → {to}\n");
        let (layers, used) =
            (counted(self.routing.layers().len(), "layer"), self.routing.used_links().count());
        let critical = self.routing.critical_links().count();
        let _ = writeln!(
            out,
            "largest load {}, {layers}, {used} of {} used, {critical} critical\n",
            number(self.routing.largest_load()),
            counted(topology.link_count(), "link"),
        );
        let _ = writeln!(out, "{}", self.links().folded(columns));
        out += &self.path_table(columns);
        out += &self.split_table(columns);
        out
    }

    /// An error of loads to read; what is round-off beside the largest load is none.
    fn error(&self, error: f64) -> String {
        let is_round_off = error < 1e-9 * self.routing.largest_load();
        number(if is_round_off { 0.0 } else { error })
    }

    fn path_table(&self, columns: Option<usize>) -> String {
        let mut table = Table::new(["weight", "path"]);
        for path in &self.paths.paths {
            let names: Vec<&str> = path.nodes.iter().map(|&node| self.name(node)).collect();
            table.push(vec![number(path.weight), names.join(" → ")]);
        }
        let (covered, error) = (self.paths.covered * 100.0, self.paths.load_error);
        let count = match self.paths.paths.len() {
            1 => "1 path carries".into(),
            count => format!("{count} paths carry"),
        };
        let table = table.folded(columns);
        format!("{table}{count} {covered:.1} % of the routing; largest load error {}\n\n", self.error(error))
    }

    fn split_table(&self, columns: Option<usize>) -> String {
        let Some(splits) = &self.splits else { return String::new() };
        let mut table = Table::new(["node", "sends"]);
        for split in splits.splits().iter().filter(|split| split.shares.len() > 1) {
            let shares: Vec<String> =
                split.shares.iter().map(|(link, share)| self.share(*link, *share)).collect();
            table.push(vec![self.name(split.node).into(), shares.join(", ")]);
        }
        let mut out = table.folded(columns);
        if let Some((parts, rounded, error)) = &self.quantized {
            let _ = writeln!(out, "\nratios in 1/{parts}: largest load error {}", self.error(*error));
            for split in rounded.splits().iter().filter(|split| split.shares.len() > 1) {
                let counts: Vec<String> = split
                    .shares
                    .iter()
                    .map(|(_, share)| format!("{:.0}", share * f64::from(*parts)))
                    .collect();
                let _ = writeln!(out, "  {}: {}", output::shown(self.name(split.node)), counts.join(" : "));
            }
        }
        out
    }

    fn share(&self, link: LinkId, share: f64) -> String {
        let (_, head) = self.routing.link(link).direction();
        format!("{:.2} % to {}", share * 100.0, self.name(head))
    }

    pub(super) fn dot(&self) -> String {
        let mut out = format!("digraph {:?} {{\n", self.network.topology.name());
        for (id, link) in self.routing.used_links() {
            let (from, to) = link.direction();
            let (load, layer) = (link.load, link.layer.unwrap_or(0));
            let width = 0.5 + 5.0 * load / self.routing.largest_load();
            let ends = format!("{:?} -> {:?}", self.name(from), self.name(to));
            let _ = writeln!(
                out,
                "  {ends} [id=\"{}\", label=\"{}\", layer={layer}, penwidth={width:.2}];",
                id.0,
                number(load)
            );
        }
        out + "}\n"
    }

    /// The stable form: see the documentation of the program.
    pub(super) fn document(&self) -> Document<'_> {
        Document { answer: self, object: self.json() }
    }

    /// The same with null in the place of the links.
    fn json(&self) -> Value {
        let topology = &self.network.topology;
        let id = |node: NodeId| &topology.node_weight(node).id;
        let paths: Vec<Value> = self
            .paths
            .paths
            .iter()
            .map(|path| {
                let nodes: Vec<&String> = path.nodes.iter().map(|&node| id(node)).collect();
                let names: Vec<&str> = path.nodes.iter().map(|&node| self.name(node)).collect();
                let links: Vec<u32> = path.links.iter().map(|link| link.0).collect();
                json!({ "weight": path.weight, "nodes": nodes, "names": names, "links": links })
            })
            .collect();
        let mut object = json!({
            "network": {
                "nodes": topology.node_count(),
                "links": topology.link_count(),
                "directed": topology.orientation() == capillary::Orientation::Directed,
            },
            "from": id(self.routing.source()),
            "to": id(self.routing.target()),
            "from_name": self.name(self.routing.source()),
            "to_name": self.name(self.routing.target()),
            "layers": self.layers_json(),
            (LINKS): null,
            "critical_links": self.routing.critical_links().map(|link| link.0).collect::<Vec<_>>(),
            "paths": paths,
            "covered": self.paths.covered,
            "solver": self.solver,
        });
        if let Some((parts, _, error)) = &self.quantized {
            object["quantized"] = json!({ "parts": parts, "load_error": error });
        }
        object
    }

    fn layers_json(&self) -> Vec<Value> {
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); self.routing.layers().len()];
        for (index, link) in self.routing.links().iter().enumerate() {
            if let Some(number) = link.layer {
                members[number as usize - 1].push(index);
            }
        }
        let layers = self.routing.layers().iter().zip(members).map(|(layer, links)| {
            let load = match (&self.fractions, links.first()) {
                (Some(fractions), Some(&link)) => json!(fractions[link].1),
                _ => json!(layer.load),
            };
            json!({ "number": layer.number, "load": load, "links": links })
        });
        layers.collect()
    }

    fn link_json(&self, index: usize) -> Value {
        let link = &self.routing.links()[index];
        let id = |node: NodeId| &self.network.topology.node_weight(node).id;
        let (flow, load) = match &self.fractions {
            Some(fractions) => (json!(fractions[index].0), json!(fractions[index].1)),
            None => (json!(link.flow), json!(link.load)),
        };
        json!({
            "index": index,
            "from": id(link.from),
            "to": id(link.to),
            "from_name": self.name(link.from),
            "to_name": self.name(link.to),
            "flow": flow,
            "load": load,
            "layer": link.layer,
            "critical": link.is_critical(),
        })
    }
}
