//! Charts: panels of curves with common axes, written as SVG or PNG.

mod picture;

pub use picture::{draw, file};

/// A picture: panels with common axes, and what the colours mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What the horizontal axis means.
    pub x: String,
    /// How the horizontal axis is divided.
    pub x_scale: Scale,
    /// What the vertical axis, which begins at 0, means.
    pub y: String,
    /// From left to right, then in the next row.
    pub panels: Vec<Panel>,
    /// What the lines mean, from the top down.
    pub legend: Vec<Label>,
}

/// What a line means: words beside a sample of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    text: String,
    colour: Colour,
    dashed: bool,
}

impl Label {
    /// For a curve that is not dashed.
    pub fn solid(text: impl Into<String>, colour: Colour) -> Label {
        Label { text: text.into(), colour, dashed: false }
    }

    /// For a dashed curve.
    pub fn dashed(text: impl Into<String>, colour: Colour) -> Label {
        Label { dashed: true, ..Label::solid(text, colour) }
    }
}

/// How an axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Equal distances are equal differences.
    #[default]
    Linear,
    /// Equal distances are equal differences, and only whole numbers are labelled; for what is counted.
    Whole,
    /// Equal distances are equal ratios; for sizes, whose labels are powers of two.
    PowersOfTwo,
}

/// One pair of axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// What it shows; may be empty.
    pub title: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// A line through points.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Horizontal and vertical values, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
    /// Its colour.
    pub colour: Colour,
    /// Whether the line is dashed.
    pub dashed: bool,
    /// How sure the points are: half the width of an interval around each, in their order, or nothing. It is drawn as a
    /// band in a light shade of the colour.
    pub band: Vec<f64>,
}

/// Red, green, blue.
pub type Colour = (u8, u8, u8);

/// For what is beside the point: bounds, limits.
pub const GREY: Colour = (120, 120, 120);

/// Corners of the viridis map without its brightest end, which is hard to see on white.
const MAP: [Colour; 5] = [(68, 1, 84), (59, 82, 139), (33, 145, 140), (53, 171, 84), (170, 196, 35)];

/// Colours that people with any eyesight can tell apart (Okabe and Ito).
const DISTINCT: [Colour; 8] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
    (0, 0, 0),
    (140, 140, 0),
];

/// The colour of the `index`-th of `count` things that have an order, such as layers.
pub fn graded(index: usize, count: usize) -> Colour {
    let place = index as f64 / count.saturating_sub(1).max(1) as f64 * (MAP.len() - 1) as f64;
    let corner = (place as usize).min(MAP.len() - 2);
    let share = place - corner as f64;
    let mix = |a: u8, b: u8| (f64::from(a) * (1.0 - share) + f64::from(b) * share).round() as u8;
    let (a, b) = (MAP[corner], MAP[corner + 1]);
    (mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// The colour of the `index`-th of things that have no order; after eight they come again.
pub fn distinct(index: usize) -> Colour {
    DISTINCT[index % DISTINCT.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(x_scale: Scale) -> Chart {
        let points = vec![(64.0, 1.0), (1_024.0, 2.0), (65_536.0, 3.5)];
        let curve = Curve { points, colour: distinct(0), dashed: false, band: vec![0.5; 3] };
        let panel = Panel { title: String::new(), curves: vec![curve] };
        Chart {
            title: "Rates".into(),
            x: "size".into(),
            x_scale,
            y: "MB/s".into(),
            panels: vec![panel],
            legend: vec![Label::solid("one", distinct(0))],
        }
    }

    #[test]
    fn charts_become_svg_and_png_by_the_name_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        for scale in [Scale::Linear, Scale::Whole, Scale::PowersOfTwo] {
            for (name, beginning) in [("a.svg", &b"<svg"[..]), ("a.png", &b"\x89PNG"[..])] {
                let path = folder.path().join(name);
                draw(&chart(scale), &path).expect("it can be drawn");
                assert!(std::fs::read(&path).expect("it was written").starts_with(beginning), "{name}");
            }
        }
        let refused = draw(&chart(Scale::Linear), &folder.path().join("a.jpg")).unwrap_err();
        assert!(refused.to_string().contains("ends in .svg or .png"), "{refused}");
        assert_eq!(file("a.jpg").unwrap_err(), "a.jpg: a picture's name ends in .svg or .png");
        assert_eq!(file("a.b/c.png"), Ok("a.b/c.png".into()));
    }

    fn svg(chart: &Chart) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.svg");
        draw(chart, &path).expect("it can be drawn");
        std::fs::read_to_string(&path).expect("it was written")
    }

    #[test]
    fn what_is_counted_has_whole_labels_only() {
        let mut chart = chart(Scale::Whole);
        for (last, expected) in
            [(2, vec!["1", "2"]), (4, vec!["1", "2", "3", "4"]), (25, vec!["5", "10", "15", "20", "25"])]
        {
            let points = (1..=last).map(|layer| (f64::from(layer), 80.0)).collect();
            chart.panels[0].curves[0] =
                Curve { points, colour: distinct(0), dashed: false, band: Vec::new() };
            let text = svg(&chart);
            let words = text.split("</text>").filter_map(|text| text.trim_end().rsplit('\n').next());
            let labels: Vec<&str> =
                words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).collect();
            // Those of the vertical axis, 0 to 80, come first.
            assert_eq!(labels.rsplit(|label| *label == "80").next(), Some(&expected[..]), "{labels:?}");
        }
    }

    #[test]
    fn a_band_lies_around_its_curve() {
        let text = svg(&chart(Scale::Linear));
        assert_eq!(text.matches("<polygon").count(), 1);
        let mut unsure = chart(Scale::Linear);
        unsure.panels[0].curves[0].band.clear();
        assert_eq!(svg(&unsure).matches("<polygon").count(), 0);
    }

    /// Its axis went from 0 to 1, wherever the point was.
    #[test]
    fn a_lone_point_stands_in_the_middle_with_its_own_label() {
        let mut chart = chart(Scale::Whole);
        for (scale, labels) in [
            (Scale::Whole, ["7", "8", "9"]),
            (Scale::Linear, ["4", "8", "12"]),
            (Scale::PowersOfTwo, ["4", "8", "16"]),
        ] {
            chart.x_scale = scale;
            chart.panels[0].curves[0].points = vec![(8.0, 1.0)];
            let text = svg(&chart);
            assert!(labels.iter().all(|label| text.contains(&format!("\n{label}\n"))), "{scale:?}: {text}");
            assert!(text.contains("<circle"));
        }
    }

    #[test]
    fn the_legend_shows_a_dashed_line_dashed() {
        let mut chart = chart(Scale::Linear);
        let solid = svg(&chart).matches("<polyline").count();
        chart.legend = vec![Label::dashed("one", distinct(0))];
        assert_eq!(svg(&chart).matches("<polyline").count(), solid + 2);
    }

    #[test]
    fn powers_of_two_have_labels() {
        let text = svg(&chart(Scale::PowersOfTwo));
        assert!(text.contains("64 Ki") && text.contains("\n64\n"), "{text}");
    }
}
