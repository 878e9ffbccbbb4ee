//! Sent over predicted, a point for each plan.

use fec_testbed::failures::Row;

use super::Spread;

const SIDE: f64 = 520.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 48.0;
/// Okabe and Ito's colours, which people with any colour vision tell apart.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// A scatter plot with the line on which both are equal, and those of 0.7 and 1.3.
pub(crate) fn svg(rows: &[Row], tolerances: &[f64], spread: Spread) -> String {
    let values = rows.iter().flat_map(|row| [row.sent, spread.predicted(row)]);
    let step = step(values.fold(0.0, f64::max) / 6.0);
    let most =
        step * (rows.iter().map(|row| row.sent.max(spread.predicted(row))).fold(0.0, f64::max) / step).ceil();
    let most = if most > 0.0 { most } else { 1.0 };
    let (x, y) = (|value: f64| LEFT + value / most * SIDE, |value: f64| TOP + SIDE - value / most * SIDE);
    let mut text = frame(spread);
    let mut tick = 0.0;
    while tick <= most + step / 2.0 {
        text += &format!(
            "<path d=\"M{LEFT} {0:.1}h{SIDE}M{1:.1} {TOP}v{SIDE}\" stroke=\"#ddd\"/>\n\
             <text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{tick}</text>\n\
             <text x=\"{1:.1}\" y=\"{4}\" text-anchor=\"middle\">{tick}</text>\n",
            y(tick),
            x(tick),
            LEFT - 8.0,
            y(tick) + 4.0,
            TOP + SIDE + 18.0
        );
        tick = ((tick + step) / step).round() * step;
    }
    for (slope, dashes) in [(1.0, "none"), (0.7, "5 4"), (1.3, "5 4")] {
        let end = most.min(most / slope);
        text += &format!(
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"#888\" stroke-dasharray=\"{dashes}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#555\">{slope}</text>\n",
            x(0.0),
            y(0.0),
            x(end),
            y(end * slope),
            x(end) + if slope < 1.0 { 4.0 } else { -4.0 },
            y(end * slope) - 5.0
        );
    }
    for (number, tolerance) in tolerances.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        for row in rows.iter().filter(|row| row.tolerance == *tolerance) {
            text += &format!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\" fill-opacity=\"0.55\"/>\n",
                x(spread.predicted(row)),
                y(row.sent)
            );
        }
        let line = TOP + 20.0 + number as f64 * 18.0;
        text += &format!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{colour}\"/><text x=\"{}\" y=\"{line}\">t = {:.1} %</text>\n",
            LEFT + 16.0,
            line - 4.0,
            LEFT + 26.0,
            tolerance * 100.0
        );
    }
    text + "</svg>\n"
}

/// The sheet, the title and what the axes are.
fn frame(spread: Spread) -> String {
    let (width, height) = (LEFT + SIDE + 44.0, TOP + SIDE + 56.0);
    let (middle, down) = (LEFT + SIDE / 2.0, TOP + SIDE / 2.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"14\">Redundancy sent while each link fails in turn, spread = {}</text>\n\
         <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">predicted: {}</text>\n\
         <text transform=\"translate(20 {down}) rotate(-90)\" text-anchor=\"middle\">sent</text>\n",
        spread.name(),
        height - 14.0,
        spread.prediction_name()
    )
}

/// A round distance of grid lines that is at least `least`.
fn step(least: f64) -> f64 {
    let magnitude = 10f64.powf(least.max(1e-6).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude);
    steps.into_iter().find(|step| *step >= least).unwrap_or(10.0 * magnitude)
}
