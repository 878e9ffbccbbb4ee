//! The figures as pictures.

use std::path::Path;

use anyhow::{Result, anyhow};
use program::chart::{Chart, Curve, Label, Panel, Scale, distinct, draw};

/// Curves of one figure: each is over something, and has a value for each size of messages.
pub(super) struct Picture {
    title: String,
    y: &'static str,
    curves: Vec<(String, Vec<(f64, f64)>)>,
    /// What has no messages has one value.
    levels: Vec<(String, f64)>,
}

impl Picture {
    pub(super) fn new(title: &str, y: &'static str) -> Picture {
        Picture { title: title.to_owned(), y, curves: Vec::new(), levels: Vec::new() }
    }

    /// Takes a value; rows of one curve follow one another.
    pub(super) fn add(&mut self, over: &str, bytes: Option<usize>, value: f64) {
        let Some(bytes) = bytes else { return self.levels.push((over.to_owned(), value)) };
        let point = (bytes as f64, value);
        match self.curves.last_mut().filter(|(name, _)| name == over) {
            Some((_, points)) => points.push(point),
            None => self.curves.push((over.to_owned(), vec![point])),
        }
    }

    /// Writes it to a file, by whose ending it becomes SVG or PNG.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write(self, path: &Path) -> Result<()> {
        let sizes: Vec<f64> =
            self.curves.iter().flat_map(|(_, points)| points).map(|(bytes, _)| *bytes).collect();
        let ends = [f64::min, f64::max].map(|end| sizes.iter().copied().reduce(end).unwrap_or(1.0));
        let level = |(name, value): (String, f64)| (name, ends.map(|bytes| (bytes, value)).to_vec(), true);
        let curves = self.curves.into_iter().map(|(name, points)| (name, points, false));
        let all: Vec<_> = curves.chain(self.levels.into_iter().map(level)).collect();
        let legend = all.iter().enumerate().map(|(index, (name, _, dashed))| match dashed {
            true => Label::dashed(name, distinct(index)),
            false => Label::solid(name, distinct(index)),
        });
        let legend = legend.collect();
        let curve = |(index, (_, points, dashed))| {
            let band = Vec::new();
            Curve { points, colour: distinct(index), dashed, band }
        };
        let curves = all.into_iter().enumerate().map(curve).collect();
        let chart = Chart {
            title: self.title,
            x: "bytes of a message".to_owned(),
            x_scale: Scale::PowersOfTwo,
            y: self.y.to_owned(),
            panels: vec![Panel { title: String::new(), curves }],
            legend,
        };
        draw(&chart, path).map_err(|failure| anyhow!("{failure}"))
    }
}
