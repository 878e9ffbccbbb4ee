//! Charts as SVG and PNG files.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::chart::{Chart, Colour, Curve, Panel};
use crate::failure::Failure;

/// Panels in a row at most.
const COLUMNS: usize = 4;

/// Sizes in units of the drawing.
const PANEL: (u32, u32) = (330, 300);
/// A chart with one panel has more room for it.
const LONE_PANEL: (u32, u32) = (640, 460);
const LEGEND_WIDTH: u32 = 120;
const TITLE_HEIGHT: u32 = 40;

/// A PNG has so many dots for each unit, so that it stays sharp on dense screens.
const DOTS: u32 = 2;

const FONT: &str = "sans-serif";

/// Writes the chart to a file, by whose ending it becomes SVG or PNG.
pub(crate) fn draw(chart: &Chart, path: &Path) -> Result<(), Failure> {
    static FONTS: Once = Once::new();
    FONTS.call_once(|| {
        // SVG takes the reader's own font of the name; PNG is drawn with this one.
        register_font(FONT, FontStyle::Normal, dejavu::sans::regular())
            .unwrap_or_else(|_| unreachable!("DejaVu is a font"));
    });
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => {
            let mut text = String::new();
            let area = SVGBackend::with_string(&mut text, size(chart, 1)).into_drawing_area();
            paint(chart, &area, 1)?;
            drop(area);
            std::fs::write(path, text).map_err(Failure::at(path))
        }
        Some("png") => {
            let (width, height) = size(chart, DOTS);
            let mut dots = vec![255; (width * height * 3) as usize];
            paint(chart, &BitMapBackend::with_buffer(&mut dots, (width, height)).into_drawing_area(), DOTS)?;
            write_png(path, (width, height), &dots)
        }
        _ => Err(Failure::Usage(format!("{}: a picture's name ends in .svg or .png", path.display()))),
    }
}

fn write_png(path: &Path, (width, height): (u32, u32), dots: &[u8]) -> Result<(), Failure> {
    let file = File::create(path).map_err(Failure::at(path))?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), width, height);
    encoder.set_color(png::ColorType::Rgb);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(dots));
    written.map_err(|error| Failure::File(path.to_path_buf(), std::io::Error::other(error)))
}

fn grid(chart: &Chart) -> (usize, usize) {
    let panels = chart.panels.len().max(1);
    let rows = panels.div_ceil(COLUMNS);
    (rows, panels.div_ceil(rows))
}

fn size(chart: &Chart, dots: u32) -> (u32, u32) {
    let (rows, columns) = grid(chart);
    let panel = if chart.panels.len() > 1 { PANEL } else { LONE_PANEL };
    let width = columns as u32 * panel.0 + LEGEND_WIDTH;
    (width * dots, (rows as u32 * panel.1 + TITLE_HEIGHT) * dots)
}

fn paint<B: DrawingBackend>(chart: &Chart, area: &DrawingArea<B, Shift>, dots: u32) -> Result<(), Failure> {
    let failed = |error: DrawingAreaErrorKind<B::ErrorType>| Failure::Picture(error.to_string());
    area.fill(&WHITE).map_err(failed)?;
    let (width, _) = size(chart, dots);
    let title = (FONT, 15 * dots).into_font();
    let rest = area.margin(8 * dots, 0, 0, 0).titled(&chart.title, title).map_err(failed)?;
    let (panels, legend) = rest.split_horizontally(width - LEGEND_WIDTH * dots);
    let bounds = Bounds::of(chart);
    for (panel, area) in chart.panels.iter().zip(panels.split_evenly(grid(chart))) {
        paint_panel(chart, panel, &area, bounds, dots).map_err(failed)?;
    }
    paint_legend(chart, &legend, dots).map_err(failed)?;
    area.present().map_err(failed)
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
        let least = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let most = points().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
        let high = points().map(|point| point.1).fold(0.0, f64::max);
        // One point, or none, still needs axes.
        let x = if least < most { (least, most) } else { (0.0, 1.0) };
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
        .x_labels(10)
        .y_labels(8)
        .x_label_formatter(&short)
        .y_label_formatter(&short)
        .draw()?;
    for curve in &panel.curves {
        let style = style(curve, dots);
        let points = curve.points.iter().copied();
        if curve.dashed {
            axes.draw_series(DashedLineSeries::new(points, 5 * dots, 3 * dots, style))?;
        } else {
            axes.draw_series(LineSeries::new(points, style))?;
        }
    }
    Ok(())
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
    for (index, (label, colour)) in chart.legend.iter().enumerate() {
        let y = (index as i32 + 1) * step;
        let sample = vec![(4, y), (26 * dots as i32, y)];
        area.draw(&PathElement::new(sample, rgb(*colour).stroke_width(2 * dots)))?;
        let style = (FONT, 12 * dots).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(label.clone(), (32 * dots as i32, y), style))?;
    }
    Ok(())
}
