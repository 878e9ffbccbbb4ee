//! A network and a routing as a picture: SVG text, line width by load, colour by layer.

mod layout;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::routing::Routing;
use crate::topology::{LinkId, NodeId, Topology};
use layout::{Layout, Point};

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

/// A rectangle on the drawing.
#[derive(Debug, Clone, Copy)]
struct Area {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Area {
    fn around(point: Point, radius: f64) -> Self {
        Self { left: point.x - radius, top: point.y - radius, width: 2.0 * radius, height: 2.0 * radius }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let apart = |a: f64, size_a: f64, b: f64, size_b: f64| a + size_a <= b || b + size_b <= a;
        !apart(self.left, self.width, other.left, other.width)
            && !apart(self.top, self.height, other.top, other.height)
    }

    fn contains(&self, point: Point) -> bool {
        (self.left..self.left + self.width).contains(&point.x)
            && (self.top..self.top + self.height).contains(&point.y)
    }
}

/// Puts each label where it hides the least: beside its node, where neither nodes nor labels are and few links pass.
/// A label that would cover another is left out; the node's title still tells its name.
fn draw_labels(out: &mut String, topology: &Topology, routing: Option<&Routing>, layout: &Layout) {
    let is_end =
        |node: NodeId| routing.is_some_and(|routing| [routing.source(), routing.target()].contains(&node));
    let radius = |node: NodeId| 1.0 + if is_end(node) { END_RADIUS } else { NODE_RADIUS };
    let dot = |(id, _)| Area::around(layout.points[NodeId::index(id)], radius(id));
    let mut taken: Vec<Area> = topology.nodes().map(dot).collect();
    let links: Vec<(Point, Point)> = topology
        .links()
        .map(|(_, from, to, _)| (layout.points[from.index()], layout.points[to.index()]))
        .collect();
    for (id, node) in topology.nodes() {
        let places = label_places(layout.points[id.index()], radius(id) + 3.0, node.name());
        let inside = |area: &&Area| {
            area.left >= 0.0
                && area.top >= 0.0
                && area.left + area.width <= layout.width
                && area.top + area.height <= layout.height
        };
        let free =
            places.iter().filter(inside).filter(|area| !taken.iter().any(|other| other.overlaps(area)));
        let Some(best) = free.min_by_key(|area| links.iter().filter(|link| crosses(area, link)).count())
        else {
            continue;
        };
        taken.push(*best);
        let (x, y) = (best.left, best.top + best.height * 0.78);
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"#111827\" stroke=\"white\" stroke-width=\"3\" \
             paint-order=\"stroke\" stroke-linejoin=\"round\">{}</text>",
            escape(node.name())
        );
    }
}

fn label_places(point: Point, gap: f64, text: &str) -> Vec<Area> {
    let (width, height) = (text.chars().count() as f64 * FONT_SIZE * LETTER, FONT_SIZE * 1.15);
    let beside = [point.x + gap, point.x - gap - width, point.x - width / 2.0];
    let level = [point.y - height / 2.0, point.y - gap - height, point.y + gap];
    let mut places = Vec::new();
    for (column, row) in [(0, 0), (1, 0), (2, 1), (2, 2), (0, 1), (0, 2), (1, 1), (1, 2)] {
        places.push(Area { left: beside[column], top: level[row], width, height });
    }
    places
}

/// Whether a link passes through an area, looked at in steps of a few units.
fn crosses(area: &Area, (a, b): &(Point, Point)) -> bool {
    let steps = ((b.x - a.x).hypot(b.y - a.y) / 4.0).ceil().max(1.0) as u32;
    (0..=steps).any(|step| {
        let part = f64::from(step) / f64::from(steps);
        area.contains(Point { x: a.x + (b.x - a.x) * part, y: a.y + (b.y - a.y) * part })
    })
}

/// The legend's lines: colour, width, text.
fn legend(topology: &Topology, routing: &Routing) -> Vec<(&'static str, f64, String)> {
    let largest = routing.largest_load();
    let width = |load: f64| THINNEST + (THICKEST - THINNEST) * load / largest;
    let shown = LAYER_COLOURS.len() - 1;
    let mut lines: Vec<(&'static str, f64, String)> = Vec::new();
    for layer in routing.layers().iter().take(shown) {
        let text = format!("layer {}: load {:.4}", layer.number, layer.load);
        lines.push((colour(Some(layer.number)), width(layer.load), text));
    }
    if let Some(next) = routing.layers().get(shown) {
        let last = routing.layers().len();
        let text = if last == shown + 1 {
            format!("layer {last}")
        } else {
            format!("layers {}–{last}", shown + 1)
        };
        lines.push((colour(Some(next.number)), width(next.load), format!("{text}: ≤ {:.4}", next.load)));
    }
    if routing.used_links().any(|(_, link)| link.layer.is_none()) {
        lines.push((NO_LAYER, THINNEST * 2.0, "in no layer".into()));
    }
    if routing.used_links().count() < topology.link_count() {
        lines.push((UNUSED, THINNEST, "unused".into()));
    }
    lines
}

/// The legend's title in two lines.
fn titles(topology: &Topology, routing: &Routing) -> [String; 2] {
    let name = |node| topology.node_weight(node).name();
    let network = if topology.name().is_empty() { "Capillary routing" } else { topology.name() };
    [network.into(), format!("{} → {}", name(routing.source()), name(routing.target()))]
}

const SAMPLE: f64 = 36.0;

fn legend_width(topology: &Topology, routing: &Routing) -> f64 {
    let lines = legend(topology, routing).into_iter().map(|(.., text)| text.chars().count() as f64 + 1.0);
    let samples = SAMPLE / (FONT_SIZE * LETTER);
    let widest = lines.map(|letters| letters + samples).fold(0.0, f64::max);
    let titles = titles(topology, routing).into_iter().map(|title| title.chars().count() as f64 * 1.1);
    titles.fold(widest, f64::max) * FONT_SIZE * LETTER + 32.0
}

fn draw_legend(out: &mut String, topology: &Topology, routing: &Routing, left: f64) {
    let mut y = 32.0;
    for title in titles(topology, routing) {
        let _ =
            writeln!(out, "<text x=\"{left:.1}\" y=\"{y}\" font-weight=\"bold\">{}</text>", escape(&title));
        y += 18.0;
    }
    for (colour, width, text) in legend(topology, routing) {
        y += 4.0;
        let (right, line) = (left + SAMPLE - 8.0, y - 4.0);
        let _ = writeln!(
            out,
            "<path d=\"M{left:.1} {line}L{right:.1} {line}\" stroke=\"{colour}\" stroke-width=\"{width:.2}\"/>\
             <text x=\"{:.1}\" y=\"{y}\">{text}</text>",
            left + SAMPLE
        );
        y += 17.0;
    }
}

fn escape(text: &str) -> String {
    let plain = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    plain.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
