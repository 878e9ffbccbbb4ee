//! A network and a routing as a picture: SVG text, line width by load, colour by layer.

mod labels;
mod layout;
mod legend;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::routing::Routing;
use crate::topology::{LinkId, NodeId, Topology};
use labels::draw_labels;
use layout::{Layout, Point};
use legend::{draw_legend, legend_width};

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

/// How far parallel links bend away from each other.
const BEND: f64 = 14.0;

const NODE_RADIUS: f64 = 4.5;
/// The radius of the source and the target.
const END_RADIUS: f64 = 7.0;
const FONT_SIZE: f64 = 12.0;
/// The width of an average letter of the font, in units of its size.
const LETTER: f64 = 0.56;

/// A picture of a network, with a routing drawn into it if there is one. Nodes stand where the topology says; if it
/// does not say, springs pull them into place.
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
    let layout = Layout::of(topology);
    let legend = routing.map_or(0.0, |routing| legend_width(topology, routing));
    let (width, height) = (layout.width + legend, layout.height);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"{FONT_SIZE}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    draw_links(&mut out, topology, routing, &layout);
    draw_nodes(&mut out, topology, routing, &layout);
    draw_labels(&mut out, topology, routing, &layout);
    if let Some(routing) = routing {
        draw_legend(&mut out, topology, routing, layout.width);
    }
    out + "</svg>\n"
}

/// Unused links first, then by rising load, so that nothing thin covers anything thick and used.
fn draw_links(out: &mut String, topology: &Topology, routing: Option<&Routing>, layout: &Layout) {
    let load = |link: LinkId| routing.map_or(0.0, |routing| routing.link(link).load);
    let largest = routing.map_or(1.0, Routing::largest_load);
    let bends = bends(topology);
    let mut links: Vec<_> = topology.links().filter(|(_, from, to, _)| from != to).collect();
    links.sort_by(|a, b| load(a.0).total_cmp(&load(b.0)));
    for (id, from, to, _) in links {
        let (a, b) = (layout.points[from.index()], layout.points[to.index()]);
        let bend = bends.get(&id).copied().unwrap_or(0.0);
        let (colour, width) = stroke(routing, id, largest);
        let title = format!("link {}: load {:.4}", id.0, load(id));
        let path = curve(a, b, bend);
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width:.2}\" \
             stroke-linecap=\"round\"><title>{title}</title></path>"
        );
    }
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

fn curve(a: Point, b: Point, bend: f64) -> String {
    if bend == 0.0 {
        return format!("M{:.1} {:.1}L{:.1} {:.1}", a.x, a.y, b.x, b.y);
    }
    let length = (b.x - a.x).hypot(b.y - a.y).max(1.0);
    let (dx, dy) = ((b.x - a.x) / length, (b.y - a.y) / length);
    // A quadratic curve passes half-way to its control point.
    let (x, y) = ((a.x + b.x) / 2.0 - dy * bend * 2.0, (a.y + b.y) / 2.0 + dx * bend * 2.0);
    format!("M{:.1} {:.1}Q{x:.1} {y:.1} {:.1} {:.1}", a.x, a.y, b.x, b.y)
}

fn draw_nodes(out: &mut String, topology: &Topology, routing: Option<&Routing>, layout: &Layout) {
    let ends = routing.map(|routing| [routing.source(), routing.target()]);
    for (id, _) in topology.nodes() {
        let Point { x, y } = layout.points[id.index()];
        let is_end = ends.is_some_and(|ends| ends.contains(&id));
        let (radius, fill) = if is_end { (END_RADIUS, "#111827") } else { (NODE_RADIUS, "white") };
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"#111827\" stroke-width=\"1.4\"/>"
        );
    }
}

fn escape(text: &str) -> String {
    let plain = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    plain.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
