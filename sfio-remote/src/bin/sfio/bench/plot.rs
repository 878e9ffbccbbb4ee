//! The rates as a picture: one line for each pattern over the stripe units, or for each stripe unit over the fragments.

use std::fmt::Write as _;

use super::report::{Report, Row};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 60.0;

/// Colours that people with any eyesight can tell apart (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c00"];

/// A line of the picture: its name, and its points as size in bytes and rate in bytes per second.
type Line = (String, Vec<(f64, f64)>);

/// The report as an SVG document: written rates as lines, read rates dashed.
pub(super) fn svg(report: &Report) -> String {
    let (written, read) = (lines(report, Row::write_rate), lines(report, Row::read_rate));
    let points = || written.iter().chain(&read).flat_map(|(_, points)| points);
    let least = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let most = points().map(|(x, _)| *x).fold(1.0, f64::max);
    let scale = Scale {
        least: least.min(most).log2(),
        span: (most / least).log2().max(1.0),
        top: nice(points().map(|(_, y)| *y).fold(1.0, f64::max)),
    };
    let has_fragments = report.rows.iter().any(|row| row.variant.fragment.is_some());
    let what = if has_fragments { "fragment or stripe unit" } else { "stripe unit" };
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text += &axes(&scale, what);
    for (index, (name, points)) in written.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        text += &polyline(&scale, points, colour, "");
        let y = TOP + 18.0 * index as f64;
        let x = WIDTH - RIGHT + 15.0;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{name}</text>");
    }
    for (index, (_, points)) in read.iter().enumerate() {
        text += &polyline(&scale, points, COLOURS[index % COLOURS.len()], " stroke-dasharray=\"5 4\"");
    }
    text + "</svg>\n"
}

struct Scale {
    /// Powers of two.
    least: f64,
    span: f64,
    /// Bytes per second.
    top: f64,
}

impl Scale {
    fn x(&self, size: f64) -> f64 {
        LEFT + (size.log2() - self.least) / self.span * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, rate: f64) -> f64 {
        HEIGHT - BOTTOM - rate / self.top * (HEIGHT - TOP - BOTTOM)
    }
}

fn lines(report: &Report, rate: impl Fn(&Row) -> f64) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in &report.rows {
        let (name, size) = match row.variant.fragment {
            Some(bytes) => (format!("fragments, stripe {}", row.stripe_unit), bytes),
            None => (row.variant.name(), row.stripe_unit.bytes()),
        };
        let point = (size as f64, rate(row));
        match lines.iter_mut().find(|(other, _)| *other == name) {
            Some((_, points)) => points.push(point),
            None => lines.push((name, vec![point])),
        }
    }
    lines
}

fn axes(scale: &Scale, what: &str) -> String {
    let (left, right, bottom) = (LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM);
    let mut text = format!(
        "<text x=\"{left}\" y=\"20\">MB/s; lines: written, dashed: read</text>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{what} in bytes</text>\n",
        (left + right) / 2.0,
        HEIGHT - 15.0
    );
    for step in 0..=5 {
        let rate = scale.top * f64::from(step) / 5.0;
        let y = scale.y(rate);
        let _ = writeln!(
            text,
            "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}</text>",
            left - 8.0,
            y + 4.0,
            rate / 1e6
        );
    }
    let powers = scale.least.ceil() as i32..=(scale.least + scale.span).floor() as i32;
    for power in powers.step_by(2) {
        let (size, x) = (2_f64.powi(power), scale.x(2_f64.powi(power)));
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" y1=\"{bottom}\" x2=\"{x:.1}\" y2=\"{}\" stroke=\"#888\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{size}</text>",
            bottom + 5.0,
            bottom + 20.0
        );
    }
    text
}

fn polyline(scale: &Scale, points: &[(f64, f64)], colour: &str, dashes: &str) -> String {
    let mut points = points.to_vec();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let places: Vec<String> =
        points.iter().map(|(x, y)| format!("{:.1},{:.1}", scale.x(*x), scale.y(*y))).collect();
    let mut text = format!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>\n",
        places.join(" ")
    );
    for place in places {
        let (x, y) = place.split_once(',').unwrap_or(("0", "0"));
        let _ = writeln!(text, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>");
    }
    text
}

/// The next number of few digits, of which a fifth has few digits, too.
fn nice(number: f64) -> f64 {
    let power = 10_f64.powf(number.log10().floor());
    let factors = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    factors.map(|factor| factor * power).into_iter().find(|n| *n >= number).unwrap_or(number)
}
