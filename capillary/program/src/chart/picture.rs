//! Drawing charts by plotters.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Chart, Colour, Curve, Panel, Scale};
use crate::exit::Exit;
use crate::failure::Failure;

/// Panels in a row at most.
const COLUMNS: usize = 4;

/// Sizes in units of the drawing.
const PANEL: (u32, u32) = (330, 300);
/// A chart with one panel has more room for it.
const LONE_PANEL: (u32, u32) = (640, 460);
/// The legend has room for its longest label.
const LEGEND: Legend = Legend { line: 26, gap: 6, letter: 7, margin: 14, least: 120 };
const TITLE_HEIGHT: u32 = 40;

/// A PNG has so many dots for each unit, so that it stays sharp on dense screens.
const DOTS: u32 = 2;

const FONT: &str = "sans-serif";

/// Labels on the horizontal axis at most.
const LABELS: usize = 10;

/// How much of its colour a band has.
const BAND_SHADE: f64 = 0.15;

/// Curves of at most so many points show each of them.
const MARKED_POINTS: usize = 24;

/// Dashes in the legend's sample of a dashed line.
const DASHES: i32 = 3;

/// Widths of the legend's parts.
struct Legend {
    line: u32,
    gap: u32,
    /// Of a letter, on average.
    letter: u32,
    margin: u32,
    least: u32,
}

impl Legend {
    fn width(&self, chart: &Chart) -> u32 {
        let letters = chart.legend.iter().map(|label| label.text.chars().count() as u32).max().unwrap_or(0);
        (self.line + self.gap + letters * self.letter + self.margin).max(self.least)
    }
}

/// What a picture is written as.
enum Format {
    Svg,
    Png,
}

impl Format {
    fn of(path: &Path) -> Result<Format, String> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => Ok(Format::Svg),
            Some("png") => Ok(Format::Png),
            _ => Err(format!("{}: a picture's name ends in .svg or .png", path.display())),
        }
    }
}

/// Reads the name of a picture from the command line, so that a wrong one is told before anything is measured.
///
/// # Errors
/// If it does not end in .svg or .png.
pub fn file(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    Format::of(&path).map(|_| path)
}

/// Writes the chart to a file, by whose ending it becomes SVG or PNG.
///
/// # Errors
/// If the name has another ending, or the file cannot be written.
pub fn draw(chart: &Chart, path: &Path) -> Result<(), Failure> {
    static FONTS: Once = Once::new();
    FONTS.call_once(|| {
        // SVG takes the reader's own font of the name; PNG is drawn with this one.
        register_font(FONT, FontStyle::Normal, dejavu::sans::regular())
            .unwrap_or_else(|_| unreachable!("DejaVu is a font"));
    });
    match Format::of(path).map_err(Failure::usage)? {
        Format::Svg => {
            let mut text = String::new();
            let area = SVGBackend::with_string(&mut text, size(chart, 1)).into_drawing_area();
            paint(chart, &area, 1)?;
            drop(area);
            std::fs::write(path, text).map_err(|error| Failure::file(path, &error))
        }
        Format::Png => {
            let (width, height) = size(chart, DOTS);
            let mut dots = vec![255; (width * height * 3) as usize];
            paint(chart, &BitMapBackend::with_buffer(&mut dots, (width, height)).into_drawing_area(), DOTS)?;
            write_png(path, (width, height), &dots)
        }
    }
}

fn write_png(path: &Path, (width, height): (u32, u32), dots: &[u8]) -> Result<(), Failure> {
    let file = File::create(path).map_err(|error| Failure::file(path, &error))?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), width, height);
    encoder.set_color(png::ColorType::Rgb);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(dots));
    written.map_err(|error| match error {
        png::EncodingError::IoError(error) => Failure::file(path, &error),
        error => Failure::new(Exit::Failed, format!("{}: {error}", path.display())),
    })
}

fn grid(chart: &Chart) -> (usize, usize) {
    let panels = chart.panels.len().max(1);
    let rows = panels.div_ceil(COLUMNS);
    (rows, panels.div_ceil(rows))
}

fn size(chart: &Chart, dots: u32) -> (u32, u32) {
    let (rows, columns) = grid(chart);
    let panel = if chart.panels.len() > 1 { PANEL } else { LONE_PANEL };
    let width = columns as u32 * panel.0 + LEGEND.width(chart);
    (width * dots, (rows as u32 * panel.1 + TITLE_HEIGHT) * dots)
}

fn paint<B: DrawingBackend>(chart: &Chart, area: &DrawingArea<B, Shift>, dots: u32) -> Result<(), Failure> {
    let failed = |error: DrawingAreaErrorKind<B::ErrorType>| {
        Failure::new(Exit::Failed, format!("the picture: {error}"))
    };
    area.fill(&WHITE).map_err(failed)?;
    let (width, _) = size(chart, dots);
    let title = (FONT, 15 * dots).into_font();
    let rest = area.margin(8 * dots, 0, 0, 0).titled(&chart.title, title).map_err(failed)?;
    let (panels, legend) = rest.split_horizontally(width - LEGEND.width(chart) * dots);
    let bounds = Bounds::of(chart);
    for (panel, area) in chart.panels.iter().zip(panels.split_evenly(grid(chart))) {
        paint_panel(chart, panel, &area, bounds, dots).map_err(failed)?;
    }
    paint_legend(chart, &legend, dots).map_err(failed)?;
    area.present().map_err(failed)
}

impl Scale {
    /// Where on a linear axis a value stands.
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear | Scale::Whole => value,
            // Nothing below 1 is a size.
            Scale::PowersOfTwo => value.max(1.0).log2(),
        }
    }

    /// How many labels an axis has at most. As many as there are whole numbers, if they are few: then each has one, and
    /// nothing between them.
    fn labels(self, (low, high): (f64, f64)) -> usize {
        match self {
            Scale::Whole => ((high - low) as usize + 1).min(LABELS),
            Scale::Linear | Scale::PowersOfTwo => LABELS,
        }
    }

    /// What is written at a place on the axis.
    fn label(self, place: f64) -> String {
        match self {
            Scale::Linear => short(&place),
            Scale::Whole if place.fract().abs() > 1e-6 => String::new(),
            Scale::Whole => format!("{place:.0}"),
            Scale::PowersOfTwo if place.fract().abs() > 1e-6 => String::new(),
            Scale::PowersOfTwo => {
                let prefixes = ["", " Ki", " Mi", " Gi", " Ti"];
                let step = (place / 10.0).floor().clamp(0.0, 4.0);
                format!("{}{}", 2_f64.powf(place - 10.0 * step), prefixes[step as usize])
            }
        }
    }
}

/// The common axes of all panels.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    x: (f64, f64),
    y: (f64, f64),
}

impl Bounds {
    fn of(chart: &Chart) -> Self {
        let points = || chart.panels.iter().flat_map(|panel| &panel.curves).flat_map(|curve| &curve.points);
        let places = || points().map(|point| chart.x_scale.place(point.0));
        let least = places().fold(f64::INFINITY, f64::min);
        let most = places().fold(f64::NEG_INFINITY, f64::max);
        let curves = || chart.panels.iter().flat_map(|panel| &panel.curves);
        let tops = curves().flat_map(|curve| curve.interval().map(|(_, _, high)| high));
        let high = points().map(|point| point.1).chain(tops).fold(0.0, f64::max);
        let x = match chart.x_scale {
            _ if least < most => (least, most),
            _ if !least.is_finite() => (0.0, 1.0),
            // What stands at one place only has it in the middle of the axis.
            Scale::Linear if least != 0.0 => (least - least.abs() / 2.0, least + least.abs() / 2.0),
            _ => (least - 1.0, least + 1.0),
        };
        Self { x, y: (0.0, if high > 0.0 { high * 1.04 } else { 1.0 }) }
    }
}

fn paint_panel<B: DrawingBackend>(
    chart: &Chart,
    panel: &Panel,
    area: &DrawingArea<B, Shift>,
    bounds: Bounds,
    dots: u32,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let label = (FONT, 12 * dots);
    let mut axes = ChartBuilder::on(area)
        .caption(&panel.title, label)
        .margin(6 * dots)
        .x_label_area_size(34 * dots)
        .y_label_area_size(44 * dots)
        .build_cartesian_2d(bounds.x.0..bounds.x.1, bounds.y.0..bounds.y.1)?;
    axes.configure_mesh()
        .x_desc(&chart.x)
        .y_desc(&chart.y)
        .label_style(label)
        .axis_desc_style(label)
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225).stroke_width(dots))
        .x_labels(chart.x_scale.labels(bounds.x))
        .y_labels(8)
        .x_label_formatter(&|place| chart.x_scale.label(*place))
        .y_label_formatter(&short)
        .draw()?;
    for curve in &panel.curves {
        if let Some(band) = band(curve, chart.x_scale) {
            axes.draw_series([Polygon::new(band, rgb(curve.colour).mix(BAND_SHADE).filled())])?;
        }
    }
    for curve in &panel.curves {
        let style = style(curve, dots);
        let points = || curve.points.iter().map(|&(x, y)| (chart.x_scale.place(x), y));
        if curve.dashed {
            axes.draw_series(DashedLineSeries::new(points(), 5 * dots, 3 * dots, style))?;
        } else {
            axes.draw_series(LineSeries::new(points(), style))?;
        }
        if curve.points.len() <= MARKED_POINTS {
            axes.draw_series(points().map(|point| Circle::new(point, 2 * dots, style.filled())))?;
        }
    }
    Ok(())
}

/// The outline of a curve's band, if it has one.
fn band(curve: &Curve, scale: Scale) -> Option<Vec<(f64, f64)>> {
    let places = curve.interval().map(|(x, low, high)| (scale.place(x), low, high));
    let (lower, upper): (Vec<_>, Vec<_>) = places.map(|(x, low, high)| ((x, low), (x, high))).unzip();
    (!lower.is_empty()).then(|| lower.into_iter().chain(upper.into_iter().rev()).collect())
}

impl Curve {
    /// Each point's horizontal value, and the ends of the interval around it; no end is below the axis.
    fn interval(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        let around = self.points.iter().zip(&self.band);
        around.map(|(&(x, y), half)| (x, (y - half).max(0.0), y + half))
    }
}

fn style(curve: &Curve, dots: u32) -> ShapeStyle {
    rgb(curve.colour).stroke_width(if curve.dashed { dots } else { dots + dots / 2 })
}

fn rgb((red, green, blue): Colour) -> RGBColor {
    RGBColor(red, green, blue)
}

/// A number without zeros that say nothing.
fn short(value: &f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn paint_legend<B: DrawingBackend>(
    chart: &Chart,
    area: &DrawingArea<B, Shift>,
    dots: u32,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let step = 18 * dots as i32;
    for (index, label) in chart.legend.iter().enumerate() {
        let y = (index as i32 + 1) * step;
        let (start, end) = (4, (LEGEND.line * dots) as i32);
        let dashes = if label.dashed { DASHES } else { 1 };
        // As many gaps as lines between them, each as long as they are.
        let length = (end - start) / (2 * dashes - 1);
        for dash in 0..dashes {
            let from = start + 2 * dash * length;
            let to = if dash + 1 == dashes { end } else { from + length };
            area.draw(&PathElement::new([(from, y), (to, y)], rgb(label.colour).stroke_width(2 * dots)))?;
        }
        let style = (FONT, 12 * dots).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(label.text.clone(), (((LEGEND.line + LEGEND.gap) * dots) as i32, y), style))?;
    }
    Ok(())
}
