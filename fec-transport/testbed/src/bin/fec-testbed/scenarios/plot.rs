//! What happened over time, as a table for machines and as a picture for people.

use fec_testbed::scenario::{PathSample, Series, SeriesRow};

/// A chart: its title, and its curves, each a name and a value per row.
type Chart = (String, Vec<(String, Vec<f64>)>);

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 200.0;
const GAP: f64 = 34.0;
/// Okabe and Ito's colours, which people with any colour vision tell apart.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933"];

/// The series as CSV, a row every 100 ms.
pub(crate) fn csv(series: &Series) -> String {
    let mut text = String::from("t_s,goodput_mbit,limit_mbit,overhead,queue_ms,competitors_mbit");
    for route in &series.routes {
        let route = route.replace(" – ", "-").replace([',', '"'], "_");
        text += &format!(",rate_mbit {route},share {route},loss {route},live {route}");
    }
    text += "\n";
    for row in &series.rows {
        text += &format!(
            "{:.1},{:.4},{:.4},{:.5},{:.3},{:.4}",
            row.at_s, row.goodput_mbit, row.limit_mbit, row.overhead, row.queue_ms, row.competitors_mbit
        );
        for path in paths(series, row) {
            text += &format!(
                ",{:.4},{:.4},{:.5},{}",
                path.rate_mbit,
                path.share,
                path.loss,
                u8::from(path.is_live)
            );
        }
        text += "\n";
    }
    text
}

/// The paths of a row, with those that came later.
fn paths<'a>(series: &'a Series, row: &'a SeriesRow) -> impl Iterator<Item = PathSample> + 'a {
    (0..series.routes.len()).map(|column| row.paths.get(column).copied().unwrap_or_default())
}

/// The series as four charts below one another.
pub(crate) fn svg(name: &str, series: &Series) -> String {
    let charts = charts(series);
    let height = charts.len() as f64 * (HEIGHT + GAP) + 60.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n",
        escaped(name)
    );
    let end = series.rows.last().map_or(1.0, |row| row.at_s);
    for (number, (title, curves)) in charts.iter().enumerate() {
        let top = 46.0 + number as f64 * (HEIGHT + GAP);
        text += &chart(title, curves, top, end);
    }
    text + "</svg>\n"
}

fn charts(series: &Series) -> Vec<Chart> {
    let of_row = |name: &str, value: fn(&SeriesRow) -> f64| {
        (name.to_owned(), series.rows.iter().map(value).collect::<Vec<f64>>())
    };
    let of_paths = |value: fn(PathSample) -> f64| {
        let curve = |(column, route): (usize, &String)| {
            let at = |row: &SeriesRow| row.paths.get(column).copied().map_or(0.0, value);
            (route.clone(), series.rows.iter().map(at).collect())
        };
        series.routes.iter().enumerate().map(curve).collect::<Vec<_>>()
    };
    let mut throughput =
        vec![of_row("goodput", |row| row.goodput_mbit), of_row("limit", |row| row.limit_mbit)];
    if series.rows.iter().any(|row| row.competitors_mbit > 0.0) {
        throughput.push(of_row("competitors", |row| row.competitors_mbit));
    }
    vec![
        ("Mbit/s".to_owned(), throughput),
        ("redundancy and repair per source symbol".to_owned(), vec![of_row("overhead", |row| row.overhead)]),
        ("longest queue, ms".to_owned(), vec![of_row("queue", |row| row.queue_ms)]),
        ("rate per path, Mbit/s".to_owned(), of_paths(|path| path.rate_mbit)),
        ("share of packets per path".to_owned(), of_paths(|path| path.share)),
        ("measured loss per path".to_owned(), of_paths(|path| path.loss)),
    ]
}

fn chart(title: &str, curves: &[(String, Vec<f64>)], top: f64, end: f64) -> String {
    let width = WIDTH - LEFT - RIGHT;
    let largest = curves.iter().flat_map(|(_, values)| values).copied().fold(1e-3, f64::max);
    let bottom = top + HEIGHT;
    let mut text = format!("<text x=\"{LEFT}\" y=\"{:.1}\">{}</text>\n", top - 5.0, escaped(title));
    text += &format!(
        "<path d=\"M{LEFT} {top}V{bottom}H{}\" fill=\"none\" stroke=\"#888\"/>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n<text x=\"{}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\n",
        LEFT + width,
        LEFT - 4.0,
        top + 8.0,
        short(largest),
        LEFT - 4.0
    );
    for tick in 0..=5 {
        let at = f64::from(tick) / 5.0;
        let x = LEFT + at * width;
        text += &format!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} s</text>\n",
            bottom + 13.0,
            short(at * end)
        );
    }
    for (number, (name, values)) in curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let point = |(row, value): (usize, &f64)| {
            let x = LEFT + (row + 1) as f64 / values.len() as f64 * width;
            format!("{x:.1},{:.1}", bottom - value / largest * HEIGHT)
        };
        let points: Vec<String> = values.iter().enumerate().map(point).collect();
        text += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>\n",
            points.join(" "),
            LEFT + width + 8.0,
            top + 10.0 + 13.0 * number as f64,
            escaped(name)
        );
    }
    text
}

fn short(value: f64) -> String {
    match value {
        value if value >= 10.0 || value.fract() == 0.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
