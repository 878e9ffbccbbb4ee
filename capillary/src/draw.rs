//! A network and a routing as a picture: SVG text, line width by load, colour by layer.

mod labels;
mod layout;
mod legend;
mod utilisation;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::matrix::ArcUse;
use crate::routing::Routing;
use crate::topology::{LinkId, NodeId, Topology};
use labels::{Area, Label};
use layout::{Layout, Point};
use legend::Legend;

/// Colours of the layers, the largest load first: from ColorBrewer's and Okabe and Ito's sets, dark enough for lines
/// on white. Layers beyond the last share its colour.
const LAYER_COLOURS: [&str; 8] =
    ["#b2182b", "#e66101", "#b8860b", "#1b7837", "#00868b", "#2166ac", "#762a83", "#8c6d5a"];

/// Links that the routing does not use, and links of a pattern that no layer has fixed.
const UNUSED: &str = "#b6bcc6";
const NO_LAYER: &str = "#6b7280";

/// Line widths in units of the drawing.
const THINNEST: f64 = 1.2;
const THICKEST: f64 = 9.0;

/// What stands out of a critical link on each side.
const BORDER: f64 = 2.2;
/// An arrow's head on the thinnest line.
const HEAD_LENGTH: f64 = 9.0;
const HEAD_HALF_WIDTH: f64 = 4.0;

/// Nodes' outlines, labels, borders.
const INK: &str = "#111827";

/// What is left free around the picture.
const EDGE: f64 = 16.0;

/// How far parallel links bend away from each other.
const BEND: f64 = 14.0;

const NODE_RADIUS: f64 = 4.5;
/// The radius of the source and the target.
const END_RADIUS: f64 = 7.0;
const FONT_SIZE: f64 = 12.0;
/// The width of an average letter of the font, in units of its size.
const LETTER: f64 = 0.6;

/// A picture of a network, with a routing drawn into it if there is one: [`Drawing`] without notes.
///
/// ```
/// use capillary::{NodeId, Orientation, Topology, draw};
///
/// let topology = Topology::from_links(Orientation::Undirected, [("a", "b", 1.0), ("b", "c", 1.0)])?;
/// let routing = capillary::solve(&topology, NodeId(0), NodeId(2))?;
/// let svg = draw::svg(&topology, Some(&routing));
/// assert!(svg.starts_with("<svg") && svg.contains(">c</text>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn svg(topology: &Topology, routing: Option<&Routing>) -> String {
    let drawing = Drawing::of(topology);
    routing.into_iter().fold(drawing, Drawing::with_routing).svg()
}

/// A picture of a network. Nodes stand where the topology says; if it does not say, springs pull them into place.
///
/// With a routing, line width is load and colour is layer, a head on each used link points where the flow goes, and
/// critical links, which carry the whole demand, have a black border.
///
/// ```
/// use capillary::{Orientation, Topology, draw::Drawing};
///
/// let topology = Topology::from_links(Orientation::Undirected, [("a", "b", 1.0), ("b", "c", 1.0)])?;
/// let svg = Drawing::of(&topology).with_note("as of today").svg();
/// assert!(svg.contains(">as of today</text>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Drawing<'a> {
    topology: &'a Topology,
    routing: Option<&'a Routing>,
    /// What the arcs of a matrix carry, instead of a routing.
    arcs: Option<&'a [ArcUse]>,
    notes: Vec<String>,
    /// What positions are measured in, if they are lengths.
    unit: Option<String>,
}

impl<'a> Drawing<'a> {
    /// A picture of a network, and nothing else.
    pub fn of(topology: &'a Topology) -> Self {
        Self { topology, routing: None, arcs: None, notes: Vec::new(), unit: None }
    }

    /// The same with a routing of the same topology.
    #[must_use]
    pub fn with_routing(self, routing: &'a Routing) -> Self {
        Self { routing: Some(routing), ..self }
    }

    /// The same with what a matrix puts on the arcs, in the place of a routing: each direction of a link is the half of
    /// its line that begins at the sender, line width and colour are its utilisation.
    #[must_use]
    pub fn with_utilisations(self, arcs: &'a [ArcUse]) -> Self {
        Self { routing: None, arcs: Some(arcs), ..self }
    }

    /// The same with a line of text beside it; the first such line is below the network's name.
    #[must_use]
    pub fn with_note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// The same with a bar that shows how long a length is, in the unit in which the topology has its positions.
    /// Without it they may be degrees of longitude and latitude.
    #[must_use]
    pub fn with_scale_bar(self, unit: impl Into<String>) -> Self {
        Self { unit: Some(unit.into()), ..self }
    }

    /// The picture as SVG, no larger than what is on it.
    pub fn svg(&self) -> String {
        let (topology, routing) = (self.topology, self.routing);
        let layout = Layout::of(topology, self.unit.is_some());
        let labels = Label::place_all(topology, routing, &layout);
        let shown = labels.iter().map(|label| label.area()).chain(areas(topology, &layout));
        let network = shown.reduce(Area::joined).unwrap_or(Area::around(Point { x: 0.0, y: 0.0 }, 1.0));
        let legend = Legend::of(self, layout.scale);
        let (left, top) = (network.left - EDGE, network.top - EDGE);
        let legend_left = network.left + network.width + if legend.width > 0.0 { 2.0 * EDGE } else { 0.0 };
        let (width, height) =
            (legend_left + legend.width + EDGE - left, network.height.max(legend.height) + 2.0 * EDGE);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{left:.0} {top:.0} {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"Helvetica, Arial, sans-serif\" \
             font-size=\"{FONT_SIZE}\">\n\
             <rect x=\"{left:.0}\" y=\"{top:.0}\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        match self.arcs {
            Some(arcs) => utilisation::draw(&mut out, topology, arcs, &layout),
            None => draw_links(&mut out, topology, routing, &layout),
        }
        draw_nodes(&mut out, topology, routing, &layout);
        labels.iter().for_each(|label| label.draw(&mut out));
        legend.draw(&mut out, Point { x: legend_left, y: network.top });
        out + "</svg>\n"
    }
}

/// Where nodes are, and links that bend.
fn areas(topology: &Topology, layout: &Layout) -> impl Iterator<Item = Area> {
    let bends = bends(topology);
    let nodes = layout.points.iter().map(|point| Area::around(*point, END_RADIUS));
    let curves = topology.links().filter_map(move |(id, from, to, _)| {
        let bend = bends.get(&id)?;
        Some(Area::around(middle(layout.points[from.index()], layout.points[to.index()], *bend), THICKEST))
    });
    nodes.chain(curves.collect::<Vec<_>>())
}

/// Unused links first, then by rising load, so that nothing thin covers anything thick and used.
fn draw_links(out: &mut String, topology: &Topology, routing: Option<&Routing>, layout: &Layout) {
    let load = |link: LinkId| routing.map_or(0.0, |routing| routing.link(link).load);
    let largest = routing.map_or(1.0, Routing::largest_load);
    let bends = bends(topology);
    // No line covers a head.
    let mut heads = String::new();
    let mut links: Vec<_> = topology.links().filter(|(_, from, to, _)| from != to).collect();
    links.sort_by(|a, b| load(a.0).total_cmp(&load(b.0)));
    for (id, from, to, _) in links {
        let (a, b) = (layout.points[from.index()], layout.points[to.index()]);
        let bend = bends.get(&id).copied().unwrap_or(0.0);
        let (colour, width) = stroke(routing, id, largest);
        let title = format!("link {}: load {}", id.0, number(load(id), 4));
        let path = curve(a, b, bend);
        let used = routing.map(|routing| *routing.link(id)).filter(|link| link.load > 0.0);
        if used.is_some_and(|link| link.is_critical()) {
            draw_border(out, &path, width);
        }
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width:.2}\" \
             stroke-linecap=\"round\"><title>{title}</title></path>"
        );
        if let Some(link) = used {
            let (a, b, bend) = if link.flow < 0.0 { (b, a, -bend) } else { (a, b, bend) };
            draw_head(&mut heads, (a, b), middle(a, b, bend), (colour, width));
        }
    }
    out.push_str(&heads);
}

/// A critical link is seen by what stands out on both sides of it.
fn draw_border(out: &mut String, path: &str, width: f64) {
    let width = width + 2.0 * BORDER;
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{INK}\" stroke-width=\"{width:.2}\" stroke-linecap=\"round\"/>"
    );
}

/// An arrow's head half-way from `a` to `b`, smaller where they are near each other.
fn draw_head(out: &mut String, (a, b): (Point, Point), tip: Point, (colour, width): (&str, f64)) {
    let distance = (b.x - a.x).hypot(b.y - a.y).max(f64::MIN_POSITIVE);
    let (dx, dy) = ((b.x - a.x) / distance, (b.y - a.y) / distance);
    let size = (1.0_f64).min((distance - 2.0 * NODE_RADIUS).max(0.0) / (3.0 * HEAD_LENGTH));
    let (length, half) = ((HEAD_LENGTH + width) * size, (HEAD_HALF_WIDTH + width * 0.6) * size);
    let corner = |along: f64, across: f64| {
        format!("{:.1} {:.1}", tip.x + dx * along - dy * across, tip.y + dy * along + dx * across)
    };
    let (front, left, right) =
        (corner(length / 2.0, 0.0), corner(-length / 2.0, half), corner(-length / 2.0, -half));
    let _ = writeln!(
        out,
        "<path d=\"M{front}L{left}L{right}Z\" fill=\"{colour}\" stroke=\"white\" stroke-width=\"1.2\" \
         stroke-linejoin=\"round\"/>"
    );
}

fn stroke(routing: Option<&Routing>, link: LinkId, largest: f64) -> (&'static str, f64) {
    let Some(link) = routing.map(|routing| routing.link(link)) else { return (NO_LAYER, THINNEST) };
    if link.load <= 0.0 {
        return (UNUSED, THINNEST);
    }
    (colour(link.layer), THINNEST + (THICKEST - THINNEST) * link.load / largest)
}

fn colour(layer: Option<u32>) -> &'static str {
    let place = |layer: u32| (layer as usize - 1).min(LAYER_COLOURS.len() - 1);
    layer.map_or(NO_LAYER, |layer| LAYER_COLOURS[place(layer)])
}

/// How much each of several links between the same nodes bends, to one side or the other.
fn bends(topology: &Topology) -> BTreeMap<LinkId, f64> {
    let mut between: BTreeMap<(NodeId, NodeId), Vec<(LinkId, f64)>> = BTreeMap::new();
    for (id, from, to, _) in topology.links().filter(|(_, from, to, _)| from != to) {
        // The side is that of the pair, not of the link's own direction.
        let (pair, side) = if from < to { ((from, to), 1.0) } else { ((to, from), -1.0) };
        between.entry(pair).or_default().push((id, side));
    }
    let mut bends = BTreeMap::new();
    for links in between.into_values().filter(|links| links.len() > 1) {
        let middle = (links.len() - 1) as f64 / 2.0;
        for (place, (id, side)) in links.into_iter().enumerate() {
            bends.insert(id, (place as f64 - middle) * BEND * side);
        }
    }
    bends
}

/// The middle of a link that bends so far.
fn middle(a: Point, b: Point, bend: f64) -> Point {
    let length = (b.x - a.x).hypot(b.y - a.y).max(1.0);
    let (dx, dy) = ((b.x - a.x) / length, (b.y - a.y) / length);
    Point { x: (a.x + b.x) / 2.0 - dy * bend, y: (a.y + b.y) / 2.0 + dx * bend }
}

fn curve(a: Point, b: Point, bend: f64) -> String {
    if bend == 0.0 {
        return format!("M{:.1} {:.1}L{:.1} {:.1}", a.x, a.y, b.x, b.y);
    }
    // A quadratic curve passes half-way to its control point.
    let Point { x, y } = middle(a, b, 2.0 * bend);
    format!("M{:.1} {:.1}Q{x:.1} {y:.1} {:.1} {:.1}", a.x, a.y, b.x, b.y)
}

fn draw_nodes(out: &mut String, topology: &Topology, routing: Option<&Routing>, layout: &Layout) {
    let ends = routing.map(|routing| [routing.source(), routing.target()]);
    for (id, node) in topology.nodes() {
        let Point { x, y } = layout.points[id.index()];
        let is_end = ends.is_some_and(|ends| ends.contains(&id));
        let (radius, fill) = if is_end { (END_RADIUS, INK) } else { (NODE_RADIUS, "white") };
        let title = escape(node.name());
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"{INK}\" \
             stroke-width=\"1.4\"><title>{title}</title></circle>"
        );
    }
}

/// A load to read: so many digits behind the point, and where these would tell little as many of its own and a power of
/// ten, as in the tables of the programs.
fn number(value: f64, digits: usize) -> String {
    if value == 0.0 || value.abs() >= 0.001 {
        format!("{value:.digits$}")
    } else {
        let behind = digits - 1;
        format!("{value:.behind$e}")
    }
}

fn escape(text: &str) -> String {
    let plain = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    plain.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
