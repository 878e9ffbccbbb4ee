//! The bottleneck hunting loop over all samples of a sweep (figure 41 of the thesis).

use serde_json::{Value, json};

use crate::columns::Columns;
use crate::statistics::Estimate;
use program::Table;

/// By layer, from the first.
#[derive(Debug, Default)]
pub(crate) struct Hunts {
    layers: Vec<Layer>,
}

#[derive(Debug, Default)]
struct Layer {
    bottlenecks: Estimate,
    iterations: Estimate,
    least_iterations: usize,
    most_iterations: usize,
    /// Suspects before the hunt and after each iteration. A hunt that has ended keeps its last number, so the last
    /// entry stands for all that would follow.
    suspects: Vec<Estimate>,
}

impl Hunts {
    /// Adds a sample: its rows are all layers, in each all iterations.
    pub(crate) fn add(&mut self, rows: &Columns) -> Result<(), String> {
        let run = rows.integer(1, 0);
        let mut layers: Vec<Vec<i64>> = Vec::new();
        for row in 0..rows.rows() {
            let (layer, iteration) = (rows.integer(6, row), rows.integer(7, row));
            if iteration == 0 {
                layers.push(Vec::new());
            }
            let due = (layers.len() as i64, layers.last().map_or(0, |hunt| hunt.len() as i64));
            match layers.last_mut() {
                Some(hunt) if due == (layer, iteration) => hunt.push(rows.integer(8, row)),
                _ => return Err(format!("layer {layer}, iteration {iteration} stands where another is due")),
            }
        }
        if self.layers.len() < layers.len() {
            self.layers.resize_with(layers.len(), Layer::default);
        }
        for (layer, hunt) in self.layers.iter_mut().zip(&layers) {
            layer.add(run, hunt);
        }
        Ok(())
    }

    /// Mean suspects by layer and iteration.
    pub(crate) fn curves(&self) -> Vec<Vec<f64>> {
        let mean = |estimate: &Estimate| estimate.summary().mean;
        self.layers.iter().map(|layer| layer.suspects.iter().map(mean).collect()).collect()
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        let row = |(index, layer): (usize, &Layer)| {
            let (bottlenecks, iterations) = (layer.bottlenecks.summary(), layer.iterations.summary());
            json!({
                "layer": index + 1,
                "bottlenecks": bottlenecks.mean,
                "ci95": bottlenecks.ci95,
                "deviation": bottlenecks.deviation,
                "iterations": iterations.mean,
                "least_iterations": layer.least_iterations,
                "most_iterations": layer.most_iterations,
                "suspects": layer.suspects.iter().map(|suspects| suspects.summary().mean).collect::<Vec<_>>(),
                "samples": bottlenecks.samples,
            })
        };
        self.layers.iter().enumerate().map(row).collect()
    }

    pub(crate) fn table(&self) -> Table {
        let names =
            ["layer", "bottlenecks", "ci95", "iterations", "least", "most", "first suspects", "samples"];
        let mut table = Table::new(names);
        for (index, layer) in self.layers.iter().enumerate() {
            let (bottlenecks, iterations) = (layer.bottlenecks.summary(), layer.iterations.summary());
            let suspects = layer.suspects.first().map_or(0.0, |suspects| suspects.summary().mean);
            table.push(vec![
                (index + 1).to_string(),
                format!("{:.3}", bottlenecks.mean),
                bottlenecks.ci95.map_or("-".into(), |ci95| format!("{ci95:.3}")),
                format!("{:.2}", iterations.mean),
                layer.least_iterations.to_string(),
                layer.most_iterations.to_string(),
                format!("{suspects:.1}"),
                bottlenecks.samples.to_string(),
            ]);
        }
        table
    }

    pub(crate) fn text(&self) -> String {
        let means = self.layers.iter().map(|layer| layer.bottlenecks.summary().mean);
        let mean = means.sum::<f64>() / self.layers.len().max(1) as f64;
        format!("{}\nbottlenecks per layer, mean over the layers: {mean:.3}\n", self.table())
    }
}

impl Layer {
    fn add(&mut self, run: i64, hunt: &[i64]) {
        let Some(&last) = hunt.last() else { return };
        let iterations = hunt.len() - 1;
        self.least_iterations =
            if self.suspects.is_empty() { iterations } else { self.least_iterations.min(iterations) };
        self.most_iterations = self.most_iterations.max(iterations);
        while self.suspects.len() < hunt.len() {
            // The samples before have kept their last number.
            self.suspects.push(self.suspects.last().copied().unwrap_or_default());
        }
        for (iteration, estimate) in self.suspects.iter_mut().enumerate() {
            estimate.add(run, *hunt.get(iteration).unwrap_or(&last) as f64);
        }
        self.bottlenecks.add(run, last as f64);
        self.iterations.add(run, iterations as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Value as Cell;
    use crate::item::HUNT;

    fn sample(run: i32, hunts: &[&[i32]]) -> Columns {
        let mut rows = Columns::new(HUNT);
        for (layer, hunt) in hunts.iter().enumerate() {
            for (iteration, &suspects) in hunt.iter().enumerate() {
                let place = [Cell::Long(run.into()), Cell::Int(run), Cell::Int(0), Cell::Int(0)];
                let rest = [0, 1, layer as i32 + 1, iteration as i32, suspects].map(Cell::Int);
                rows.push(&[&place[..], &rest].concat());
            }
        }
        rows
    }

    #[test]
    fn a_hunt_that_has_ended_keeps_its_number_while_longer_ones_go_on() {
        let mut hunts = Hunts::default();
        hunts.add(&sample(0, &[&[9, 3, 3]])).unwrap();
        hunts.add(&sample(1, &[&[11, 7, 6, 5, 5], &[4, 4]])).unwrap();
        hunts.add(&sample(2, &[&[1, 1]])).unwrap();
        for (means, sums) in hunts.curves().iter().zip([&[21.0, 11.0, 10.0, 9.0, 9.0][..], &[12.0, 12.0]]) {
            assert_eq!(means.len(), sums.len());
            assert!(means.iter().zip(sums).all(|(mean, sum)| (mean * 3.0 - sum).abs() < 1e-12), "{means:?}");
        }
        let first = &hunts.layers[0];
        assert_eq!((first.least_iterations, first.most_iterations), (1, 4));
        assert_eq!(first.bottlenecks.summary().mean, 3.0);
    }

    #[test]
    fn rows_out_of_order_are_refused() {
        let mut rows = sample(0, &[&[9, 3, 3]]);
        rows.append(&sample(0, &[&[4, 4]]));
        assert!(Hunts::default().add(&rows).unwrap_err().contains("layer 1, iteration 0"));
    }
}
