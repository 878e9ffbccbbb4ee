//! Whether what was sent follows what was predicted.

use super::Row;

/// What the rows of many samples show together. The prediction is ROR with blocks of M packets (eq. 8), or eq. 11.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Samples with rows.
    pub samples: usize,
    /// Rows in all.
    pub rows: usize,
    /// For each sample whose prediction changes with the layer, the correlation of sent and predicted over its layers.
    pub correlations: Vec<f64>,
    /// Their median.
    pub median_correlation: Option<f64>,
    /// Sent over predicted: the least, the median and the greatest of all rows.
    pub ratio: Option<[f64; 3]>,
    /// The share of rows whose ratio lies within 0.7 to 1.3.
    pub within: f64,
    /// Blocks that started later than a second after a failure, how many of them were lost, and how many were repaired.
    pub late_blocks: u64,
    /// See `late_blocks`.
    pub late_lost: u64,
    /// See `late_blocks`.
    pub late_repaired: u64,
}

/// The bounds within which sent over predicted is to lie (docs/evaluation.md).
const RATIO: std::ops::RangeInclusive<f64> = 0.7..=1.3;

/// Sums up rows of equal settings; `predicted` picks the prediction.
pub fn summarise(rows: &[Row], predicted: impl Fn(&Row) -> f64) -> Summary {
    let mut samples: Vec<u64> = rows.iter().map(|row| row.sample).collect();
    samples.sort_unstable();
    samples.dedup();
    let of_sample = |sample: &u64| {
        let own = rows.iter().filter(|row| row.sample == *sample);
        correlation(&own.map(|row| (predicted(row), row.sent)).collect::<Vec<_>>())
    };
    let correlations: Vec<f64> = samples.iter().filter_map(of_sample).collect();
    let mut ratios: Vec<f64> =
        rows.iter().filter(|row| predicted(row) > 0.0).map(|row| row.sent / predicted(row)).collect();
    ratios.sort_by(f64::total_cmp);
    let within = ratios.iter().filter(|ratio| RATIO.contains(ratio)).count();
    Summary {
        samples: samples.len(),
        rows: rows.len(),
        median_correlation: median(&correlations),
        correlations,
        within: within as f64 / ratios.len().max(1) as f64,
        ratio: median(&ratios).map(|middle| [ratios[0], middle, ratios[ratios.len() - 1]]),
        late_blocks: rows.iter().map(|row| row.late_blocks).sum(),
        late_lost: rows.iter().map(|row| row.late_lost).sum(),
        late_repaired: rows.iter().map(|row| row.late_repaired).sum(),
    }
}

/// Pearson's correlation of pairs; `None` if one side does not vary or there are fewer than three.
pub fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|(x, y)| of(x - mean_x, y - mean_y)).sum::<f64>();
    let (xx, yy, xy) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
    // A prediction that differs by round-off alone does not vary.
    let varies = |squares: f64, mean: f64| squares > 1e-12 * (1.0 + mean * mean);
    (pairs.len() >= 3 && varies(xx, mean_x) && varies(yy, mean_y)).then(|| xy / (xx * yy).sqrt())
}

/// The middle value, the mean of two in the middle; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len().is_multiple_of(2) { sorted[middle - 1].midpoint(upper) } else { upper })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_is_one_along_a_line_and_nothing_where_nothing_varies() {
        let line = [(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)];
        assert!((correlation(&line).expect("both vary") - 1.0).abs() < 1e-12);
        assert!(correlation(&line.map(|(x, y)| (-x, y))).expect("both vary") < -0.999);
        let cross = [(0.0, 0.0), (1.0, 1.0), (0.0, 1.0), (1.0, 0.0)];
        assert_eq!(correlation(&cross), Some(0.0));
        assert_eq!(correlation(&[(3.0, 1.0), (3.0, 2.0), (3.0, 5.0)]), None);
        assert_eq!(correlation(&line[..2]), None);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        assert_eq!(median(&[4.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
