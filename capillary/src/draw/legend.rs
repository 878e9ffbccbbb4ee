//! What the colours and widths of a drawing stand for.

use std::fmt::Write as _;

use super::{FONT_SIZE, LAYER_COLOURS, LETTER, NO_LAYER, THICKEST, THINNEST, UNUSED, colour, escape};
use crate::routing::Routing;
use crate::topology::Topology;

/// The width of a line's sample with the gap behind it.
const SAMPLE: f64 = 36.0;

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

pub(super) fn legend_width(topology: &Topology, routing: &Routing) -> f64 {
    let lines = legend(topology, routing).into_iter().map(|(.., text)| text.chars().count() as f64 + 1.0);
    let samples = SAMPLE / (FONT_SIZE * LETTER);
    let widest = lines.map(|letters| letters + samples).fold(0.0, f64::max);
    let titles = titles(topology, routing).into_iter().map(|title| title.chars().count() as f64 * 1.1);
    titles.fold(widest, f64::max) * FONT_SIZE * LETTER + 32.0
}

pub(super) fn draw_legend(out: &mut String, topology: &Topology, routing: &Routing, left: f64) {
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
