//! What stands beside a drawing: what it is of, what the colours and widths stand for, how long a length is.

use std::fmt::Write as _;

use super::labels::width;
use super::layout::Point;
use super::{
    BORDER, Drawing, INK, LAYER_COLOURS, NO_LAYER, THICKEST, THINNEST, UNUSED, colour, escape, number,
    utilisation,
};
use crate::routing::Routing;
use crate::topology::Topology;

/// The width of a line's sample with the gap behind it.
const SAMPLE: f64 = 36.0;

/// The height of a line, and how far its text stands below its top.
const LINE: f64 = 21.0;
const BASE: f64 = 14.0;

/// A scale bar is at most so long.
const LONGEST_BAR: f64 = 140.0;

/// A row of the legend.
#[derive(Debug, Clone, PartialEq)]
enum Row {
    Title(String),
    Note(String),
    Line { colour: &'static str, width: f64, has_border: bool, text: String },
    Bar { length: f64, text: String },
}

/// The rows, and what room they take; none take none.
#[derive(Debug)]
pub(super) struct Legend {
    rows: Vec<Row>,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Legend {
    /// The legend of a drawing with so many of its units for one of the topology's positions.
    pub(super) fn of(drawing: &Drawing<'_>, scale: f64) -> Self {
        let mut rows = titles(drawing);
        rows.extend(drawing.notes.iter().cloned().map(Row::Note));
        if let Some(routing) = drawing.routing {
            rows.extend(lines(drawing.topology, routing));
        }
        for (colour, width, text) in drawing.arcs.map(utilisation::legend).unwrap_or_default() {
            rows.push(Row::Line { colour, width, has_border: false, text });
        }
        rows.extend(drawing.unit.as_ref().map(|unit| bar(unit, scale)));
        let width = rows.iter().map(Row::width).fold(0.0, f64::max);
        Self { width, height: rows.len() as f64 * LINE, rows }
    }

    pub(super) fn draw(&self, out: &mut String, Point { x, mut y }: Point) {
        for row in &self.rows {
            row.draw(out, x, y + BASE);
            y += LINE;
        }
    }
}

impl Row {
    fn width(&self) -> f64 {
        match self {
            Row::Title(text) => width(text, true),
            Row::Note(text) => width(text, false),
            Row::Line { text, .. } => SAMPLE + width(text, false),
            Row::Bar { length, text } => length + 10.0 + width(text, false),
        }
    }

    fn draw(&self, out: &mut String, x: f64, y: f64) {
        let (middle, right) = (y - 4.0, x + SAMPLE - 8.0);
        let mut line = |colour: &str, width: f64| {
            let _ = writeln!(
                out,
                "<path d=\"M{x:.1} {middle}L{right:.1} {middle}\" stroke=\"{colour}\" stroke-width=\"{width:.2}\"/>"
            );
        };
        match self {
            Row::Title(text) => {
                let _ = writeln!(
                    out,
                    "<text x=\"{x:.1}\" y=\"{y}\" font-weight=\"bold\">{}</text>",
                    escape(text)
                );
            }
            Row::Note(text) => {
                let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y}\">{}</text>", escape(text));
            }
            Row::Line { colour, width, has_border, text } => {
                if *has_border {
                    line(INK, width + 2.0 * BORDER);
                }
                line(colour, *width);
                let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{y}\">{text}</text>", x + SAMPLE);
            }
            Row::Bar { length, text } => draw_bar(out, (x, x + length), y, text),
        }
    }
}

/// A line between two strokes, and what it measures.
fn draw_bar(out: &mut String, (start, end): (f64, f64), y: f64, text: &str) {
    let (middle, top, bottom) = (y - 4.0, y - 8.0, y);
    let _ = writeln!(
        out,
        "<path d=\"M{start:.1} {top}V{bottom}M{start:.1} {middle}H{end:.1}M{end:.1} {top}V{bottom}\" fill=\"none\" \
         stroke=\"{INK}\" stroke-width=\"1.4\"/><text x=\"{:.1}\" y=\"{y}\">{}</text>",
        end + 10.0,
        escape(text)
    );
}

/// The network's name and the demand; nothing if nothing else is said.
fn titles(drawing: &Drawing<'_>) -> Vec<Row> {
    if drawing.routing.is_none() && drawing.notes.is_empty() && drawing.unit.is_none() {
        return Vec::new();
    }
    let name = |node| drawing.topology.node_weight(node).name();
    let network = drawing.topology.name();
    let network = match drawing.routing {
        _ if !network.is_empty() => network,
        Some(_) => "Capillary routing",
        None => "Network",
    };
    let demand =
        drawing.routing.map(|routing| format!("{} → {}", name(routing.source()), name(routing.target())));
    [network.to_owned()].into_iter().chain(demand).map(Row::Title).collect()
}

/// What the lines of the drawing stand for.
fn lines(topology: &Topology, routing: &Routing) -> Vec<Row> {
    let largest = routing.largest_load();
    let width = |load: f64| THINNEST + (THICKEST - THINNEST) * load / largest;
    let line = |colour, width, text: String| Row::Line { colour, width, has_border: false, text };
    let shown = LAYER_COLOURS.len() - 1;
    let mut lines = Vec::new();
    for layer in routing.layers().iter().take(shown) {
        let text = format!("layer {}: load {}", layer.number, number(layer.load, 4));
        lines.push(line(colour(Some(layer.number)), width(layer.load), text));
    }
    if let Some(next) = routing.layers().get(shown) {
        let last = routing.layers().len();
        let text = if last == shown + 1 {
            format!("layer {last}")
        } else {
            format!("layers {}–{last}", shown + 1)
        };
        lines.push(line(
            colour(Some(next.number)),
            width(next.load),
            format!("{text}: ≤ {}", number(next.load, 4)),
        ));
    }
    if routing.used_links().any(|(_, link)| link.layer.is_none()) {
        lines.push(line(NO_LAYER, THINNEST * 2.0, "in no layer".into()));
    }
    if routing.used_links().count() < topology.link_count() {
        lines.push(line(UNUSED, THINNEST, "unused".into()));
    }
    let critical = routing.critical_links().count();
    if critical > 0 {
        let text = format!("critical: carries everything ({critical})");
        lines.push(Row::Line { colour: "white", width: THICKEST / 2.0, has_border: true, text });
    }
    lines
}

/// A bar of a round length: 1, 2 or 5 times a power of ten.
fn bar(unit: &str, scale: f64) -> Row {
    let longest = LONGEST_BAR / scale;
    let power = 10.0_f64.powf(longest.log10().floor());
    let factor = [5.0, 2.0].into_iter().find(|factor| factor * power <= longest).unwrap_or(1.0);
    let length = factor * power;
    Row::Bar { length: length * scale, text: format!("{length} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_bar_has_a_round_length_that_fits() {
        for (scale, text) in
            [(1.0, "100 m"), (2.0, "50 m"), (0.5, "200 m"), (140.0, "1 m"), (1_000.0, "0.1 m")]
        {
            let Row::Bar { length, text: found } = bar("m", scale) else { panic!("it is a bar") };
            assert_eq!(found, text);
            assert!((LONGEST_BAR * 0.38..=LONGEST_BAR).contains(&length), "{length} at {scale}");
        }
    }
}
