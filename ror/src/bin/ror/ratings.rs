//! ROR by layer and tolerance over all samples of a sweep.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::columns::Columns;
use crate::plan::Sampling;
use crate::statistics::{Estimate, Summary};
use program::Table;
use program::table::counted;

/// The two kinds of blocks and the columns of their ratings.
const BLOCKS: [(Blocks, usize); 2] = [(Blocks::Short, 8), (Blocks::Large, 9)];

/// How long the blocks are that a stream is coded in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Blocks {
    /// M source packets, eq. 8
    Short,
    /// Very many, eq. 11
    Large,
}

impl Blocks {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Large => "large",
        }
    }
}

/// A rating and how it differs from that of the first layer, sample by sample.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    rating: Estimate,
    change: Estimate,
}

/// One line of the result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// `None`: all sets together.
    pub(crate) set: Option<usize>,
    pub(crate) layer: u32,
    pub(crate) tolerance: f64,
    pub(crate) blocks: Blocks,
    pub(crate) rating: Summary,
    /// The rating minus that of the plan's first layer, of the same sample.
    pub(crate) change: Summary,
}

#[derive(Debug)]
pub(crate) struct Ratings {
    pub(crate) layers: Vec<u32>,
    pub(crate) tolerances: Vec<f64>,
    pub(crate) sets: usize,
    /// By set (the last one: all), kind of blocks, layer, tolerance.
    cells: Vec<Cell>,
}

impl Ratings {
    pub(crate) fn new(plan: &Sampling) -> Self {
        let (layers, tolerances, sets) = (plan.layers(), plan.tolerances.clone(), plan.sets as usize);
        let cells = vec![Cell::default(); (sets + 1) * BLOCKS.len() * layers.len() * tolerances.len()];
        Self { layers, tolerances, sets, cells }
    }

    fn place(&self, set: usize, blocks: usize, layer: usize, tolerance: usize) -> usize {
        ((set * BLOCKS.len() + blocks) * self.layers.len() + layer) * self.tolerances.len() + tolerance
    }

    /// Adds a sample: its rows are all layers, in each all tolerances.
    pub(crate) fn add(&mut self, plan: &Sampling, rows: &Columns) -> Result<(), String> {
        let tolerances = plan.tolerances.len();
        let expected = self.layers.len() * tolerances;
        if rows.rows() != expected {
            return Err(format!("{} rows instead of {expected}", rows.rows()));
        }
        let (run, set) = (rows.integer(1, 0), rows.integer(2, 0) as usize);
        for row in 0..expected {
            let (layer, tolerance) = (row / tolerances, row % tolerances);
            let found = (rows.integer(6, row), rows.number(7, row));
            if found != (i64::from(self.layers[layer]), self.tolerances[tolerance]) {
                return Err(format!(
                    "layer {} at tolerance {} stands where others are due",
                    found.0, found.1
                ));
            }
            for (blocks, (_, column)) in BLOCKS.into_iter().enumerate() {
                let (rating, first) = (rows.number(column, row), rows.number(column, tolerance));
                for set in [set, self.sets] {
                    let place = self.place(set, blocks, layer, tolerance);
                    self.cells[place].rating.add(run, rating);
                    self.cells[place].change.add(run, rating - first);
                }
            }
        }
        Ok(())
    }

    /// All rows of one set, or of all sets together.
    pub(crate) fn rows(&self, set: Option<usize>) -> Vec<Row> {
        let mut rows = Vec::new();
        for (index, (blocks, _)) in BLOCKS.into_iter().enumerate() {
            for (layer, &number) in self.layers.iter().enumerate() {
                for (tolerance, &t) in self.tolerances.iter().enumerate() {
                    let cell = &self.cells[self.place(set.unwrap_or(self.sets), index, layer, tolerance)];
                    let (rating, change) = (cell.rating.summary(), cell.change.summary());
                    rows.push(Row { set, layer: number, tolerance: t, blocks, rating, change });
                }
            }
        }
        rows
    }

    fn all(&self, by_set: bool) -> Vec<Row> {
        let sets = (0..self.sets).filter(|_| by_set);
        [None].into_iter().chain(sets.map(Some)).flat_map(|set| self.rows(set)).collect()
    }

    /// The stable form: see the documentation of the program.
    pub(crate) fn json(&self, by_set: bool) -> Vec<Value> {
        let row = |row: Row| {
            let mut object = json!({
                "layer": row.layer,
                "tolerance": row.tolerance,
                "blocks": row.blocks.name(),
                "mean": row.rating.mean,
                "ci95": row.rating.ci95,
                "deviation": row.rating.deviation,
                "samples": row.rating.samples,
                "runs": row.rating.runs,
                "change": row.change.mean,
                "change_ci95": row.change.ci95,
            });
            if by_set {
                object["set"] = json!(row.set);
            }
            object
        };
        self.all(by_set).into_iter().map(row).collect()
    }

    /// One row for each rating.
    pub(crate) fn table(&self, by_set: bool) -> Table {
        let names = [
            "blocks",
            "layer",
            "tolerance",
            "mean",
            "ci95",
            "deviation",
            "samples",
            "runs",
            "change",
            "change_ci95",
        ];
        let set = ["set"].into_iter().filter(|_| by_set);
        let mut table = Table::new(set.chain(names));
        for row in self.all(by_set) {
            let shown = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
            let set = row.set.map_or("all".into(), |set| set.to_string());
            let cells = [
                row.blocks.name().into(),
                row.layer.to_string(),
                row.tolerance.to_string(),
                row.rating.mean.to_string(),
                shown(row.rating.ci95),
                shown(row.rating.deviation),
                row.rating.samples.to_string(),
                row.rating.runs.to_string(),
                row.change.mean.to_string(),
                shown(row.change.ci95),
            ];
            table.push([set].into_iter().filter(|_| by_set).chain(cells).collect());
        }
        table
    }

    /// What people read: a layer each line, a tolerance each column.
    pub(crate) fn text(&self, by_set: bool) -> String {
        let mut out = String::new();
        for set in [None].into_iter().chain((0..self.sets).filter(|_| by_set).map(Some)) {
            let rows = self.rows(set);
            for (blocks, _) in BLOCKS {
                let rows: Vec<&Row> = rows.iter().filter(|row| row.blocks == blocks).collect();
                let which = set.map_or(String::new(), |set| format!(", set {set}"));
                let samples = rows.first().map_or(0, |row| row.rating.samples as usize);
                let samples = counted(samples, "sample");
                let _ = writeln!(out, "ROR with {} blocks{which}: means over {samples}\n", blocks.name());
                let _ = writeln!(out, "{}", self.by_layer(&rows));
            }
        }
        out + &self.notes()
    }

    fn by_layer(&self, rows: &[&Row]) -> Table {
        let tolerances = self.tolerances.iter().map(|t| format!("{:.1} %", t * 100.0));
        let mut table = Table::new(["layer".to_string()].into_iter().chain(tolerances));
        let line =
            |name: String, cells: Vec<String>| [name].into_iter().chain(cells).collect::<Vec<String>>();
        for layer in rows.chunks(self.tolerances.len()) {
            let means = layer.iter().map(|row| four_digits(row.rating.mean)).collect();
            table.push(line(layer[0].layer.to_string(), means));
        }
        if let Some(last) = rows.chunks(self.tolerances.len()).last() {
            let shown = |value: Option<f64>| value.map_or("-".into(), four_digits);
            table.push(line("± 95 %".into(), last.iter().map(|row| shown(row.rating.ci95)).collect()));
            table.push(line("change".into(), last.iter().map(|row| four_digits(row.change.mean)).collect()));
            table.push(line("± 95 %".into(), last.iter().map(|row| shown(row.change.ci95)).collect()));
        }
        table
    }

    fn notes(&self) -> String {
        let runs = self.rows(None).first().map_or(0, |row| row.rating.runs);
        let notes = "The lines below the layers: of the last layer the confidence interval, its mean change against the \
                     first layer in the same sample, and the interval of that.\n";
        match runs {
            0 | 1 => format!("{notes}One run gives no interval: frames of one run depend on one another.\n"),
            runs => format!("{notes}Intervals are over {runs} independent runs.\n"),
        }
    }
}

/// A rating to read. Ratings are of the order of 1, and a change that is round-off is none.
fn four_digits(rating: f64) -> String {
    format!("{rating:.4}")
}
