//! What the colours and widths of the picture stand for.

use std::fmt::Write as _;

use super::{Part, Picture, RED_LOSS, colour};

/// Sizes in pixels.
const LEFT: f64 = 35.0;
const SAMPLE: f64 = 26.0;
const GAP: f64 = 22.0;
const ROW: f64 = 24.0;
/// Of an average letter.
const LETTER: f64 = 6.4;

/// What is shown of an entry.
#[derive(Debug)]
enum Sample {
    Box(&'static str),
    Line { colour: String, width: f64 },
}

/// Rows of entries: the parts of members, the widths of links, the colours of links.
#[derive(Debug)]
pub(super) struct Key {
    rows: Vec<Vec<(Sample, String)>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Key {
    /// What has to be explained of a picture.
    pub(super) fn of(picture: &Picture<'_>) -> Key {
        let rows: Vec<_> = [parts(picture), widths(picture), losses(picture)]
            .into_iter()
            .filter(|row| !row.is_empty())
            .collect();
        let width = |row: &Vec<(Sample, String)>| row.iter().map(|(_, text)| advance(text)).sum::<f64>();
        let width = rows.iter().map(width).fold(0.0, f64::max) + 2.0 * LEFT;
        Key { width, height: rows.len() as f64 * ROW + ROW / 2.0, rows }
    }

    /// Draws it below what ends at `top`.
    pub(super) fn draw(&self, svg: &mut String, top: f64) {
        for (number, row) in self.rows.iter().enumerate() {
            let (mut x, y) = (LEFT, top + (number as f64 + 0.5) * ROW);
            for (sample, text) in row {
                sample.draw(svg, x, y);
                let start = x + SAMPLE + 8.0;
                let _ = writeln!(
                    svg,
                    "<text x=\"{start:.1}\" y=\"{:.1}\" font-size=\"11\" text-anchor=\"start\" fill=\"#222\">{text}</text>",
                    y + 4.0
                );
                x += advance(text);
            }
        }
    }
}

impl Sample {
    fn draw(&self, svg: &mut String, x: f64, y: f64) {
        let _ = match self {
            Sample::Box(fill) => writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{SAMPLE}\" height=\"14\" rx=\"4\" fill=\"{fill}\" stroke=\"#456\"/>",
                y - 7.0
            ),
            Sample::Line { colour, width } => writeln!(
                svg,
                "<path d=\"M {x:.1} {y:.1} h {SAMPLE}\" stroke=\"{colour}\" stroke-width=\"{width:.1}\"/>"
            ),
        };
    }
}

/// How far the next entry is.
fn advance(text: &str) -> f64 {
    SAMPLE + 8.0 + text.chars().count() as f64 * LETTER + GAP
}

fn parts(picture: &Picture<'_>) -> Vec<(Sample, String)> {
    let all = [
        (Part::Client, "client: no address"),
        (Part::Relay, "relays for others"),
        (Part::Server, "serves, relays for nobody"),
    ];
    let is_there = |part: Part| picture.overlay.members().iter().any(|member| Part::of(member) == part);
    let there = all.into_iter().filter(|(part, _)| is_there(*part));
    there.map(|(part, text)| (Sample::Box(part.fill()), text.to_owned())).collect()
}

/// The widest link, and one of a tenth, if capacities are known.
fn widths(picture: &Picture<'_>) -> Vec<(Sample, String)> {
    let capacities = || picture.overlay.links().iter().filter_map(|link| link.capacity_mbit);
    if capacities().next().is_none() {
        return Vec::new();
    }
    let widest = picture.widest_mbit;
    let are_equal = capacities().all(|capacity| capacity == widest);
    let shown = if are_equal { vec![widest] } else { vec![widest, widest / 10.0] };
    let line = |capacity: f64| Sample::Line { colour: colour(0.0), width: picture.stroke(capacity) };
    shown.into_iter().map(|capacity| (line(capacity), format!("carries {capacity} Mbit/s"))).collect()
}

/// From no loss to what is fully red, if losses are known.
fn losses(picture: &Picture<'_>) -> Vec<(Sample, String)> {
    if picture.overlay.links().iter().all(|link| link.loss.is_none()) {
        return Vec::new();
    }
    let entries = [
        (0.0, "loses nothing".to_owned()),
        (RED_LOSS / 2.0, format!("loses {} %", RED_LOSS * 50.0)),
        (RED_LOSS, format!("loses {} % or more", RED_LOSS * 100.0)),
    ];
    entries
        .into_iter()
        .map(|(loss, text)| (Sample::Line { colour: colour(loss), width: 3.0 }, text))
        .collect()
}
