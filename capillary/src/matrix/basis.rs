//! The working basis of a simplex method with one convexity row for each demand (generalized upper bounds, Dantzig &
//! Van Slyke 1967).
//!
//! Of the paths of a demand one is the *key*: it carries what the others leave. What remains is a square matrix with a
//! row for each tight arc and a column for each other path in the basis and for the level: a few rows, however many
//! demands there are.

/// The inverse of the working matrix, row by row: `rows[column][row]`.
#[derive(Debug, Clone, Default)]
pub(super) struct Inverse {
    rows: Vec<Vec<f64>>,
}

impl Inverse {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The row of the inverse that belongs to a column of the matrix.
    pub(super) fn row(&self, column: usize) -> &[f64] {
        &self.rows[column]
    }

    /// The inverse times a sparse vector of (row, value).
    pub(super) fn times(&self, vector: &[(usize, f64)]) -> Vec<f64> {
        let product = |row: &Vec<f64>| vector.iter().map(|&(place, value)| row[place] * value).sum();
        self.rows.iter().map(product).collect()
    }

    /// A vector by columns, sparse, times the inverse.
    pub(super) fn times_left(&self, vector: &[(usize, f64)]) -> Vec<f64> {
        let mut product = vec![0.0; self.len()];
        for &(column, factor) in vector {
            add_scaled(&mut product, factor, &self.rows[column]);
        }
        product
    }

    /// Replaces a column of the matrix by another; `solved` is the inverse times the new one.
    pub(super) fn replace_column(&mut self, column: usize, solved: &[f64]) {
        let mut pivot = std::mem::take(&mut self.rows[column]);
        pivot.iter_mut().for_each(|value| *value /= solved[column]);
        for (index, row) in self.rows.iter_mut().enumerate() {
            if index != column && solved[index] != 0.0 {
                add_scaled(row, -solved[index], &pivot);
            }
        }
        self.rows[column] = pivot;
    }

    /// Adds a row and a column at the end: `solved` is the inverse times the new column without its last entry,
    /// `product` the new row without its last entry times the inverse, `pivot` what is left of the last entry: its own
    /// value minus the new row times `solved`.
    pub(super) fn border(&mut self, solved: &[f64], product: &[f64], pivot: f64) {
        for (row, &factor) in self.rows.iter_mut().zip(solved) {
            if factor != 0.0 {
                add_scaled(row, factor / pivot, product);
            }
            row.push(-factor / pivot);
        }
        let last = product.iter().map(|value| -value / pivot).chain([1.0 / pivot]);
        self.rows.push(last.collect());
    }

    /// Removes a row and a column of the matrix; the last ones take their places.
    pub(super) fn remove(&mut self, row: usize, column: usize) {
        let removed = self.rows.swap_remove(column);
        for values in &mut self.rows {
            let factor = -values[row] / removed[row];
            if factor != 0.0 {
                add_scaled(values, factor, &removed);
            }
            values.swap_remove(row);
        }
    }

    /// Exchanges the key of a demand with `column`: it becomes the negative sum of all `columns` of the demand, of
    /// which it is one.
    pub(super) fn exchange_key(&mut self, column: usize, columns: &[usize]) {
        let mut sum = vec![0.0; self.len()];
        columns.iter().for_each(|&other| add_scaled(&mut sum, -1.0, &self.rows[other]));
        self.rows[column] = sum;
    }

    /// Expresses `columns` by a new key. `solved` is the inverse times the difference between the new key and the old
    /// one.
    pub(super) fn enter_key(&mut self, columns: &[usize], solved: &[f64]) {
        let mut sum = vec![0.0; self.len()];
        columns.iter().for_each(|&column| add_scaled(&mut sum, 1.0, &self.rows[column]));
        let pivot = 1.0 - columns.iter().map(|&column| solved[column]).sum::<f64>();
        for (row, &factor) in self.rows.iter_mut().zip(solved) {
            if factor != 0.0 {
                add_scaled(row, factor / pivot, &sum);
            }
        }
    }

    /// The inverse of a matrix given by its columns (each by row). `None`: it is singular.
    pub(super) fn of(columns: &[Vec<(usize, f64)>]) -> Option<Self> {
        let size = columns.len();
        // The transpose is inverted, so that columns are rows: (Mᵀ)⁻¹ = (M⁻¹)ᵀ.
        let mut left = vec![vec![0.0; size]; size];
        for (row, column) in left.iter_mut().zip(columns) {
            column.iter().for_each(|&(place, value)| row[place] += value);
        }
        let unit = |index: usize| (0..size).map(|place| f64::from(u8::from(place == index))).collect();
        let mut right: Vec<Vec<f64>> = (0..size).map(unit).collect();
        for step in 0..size {
            let largest =
                (step..size).max_by(|&a, &b| left[a][step].abs().total_cmp(&left[b][step].abs()))?;
            if left[largest][step].abs() < 1e-11 {
                return None;
            }
            left.swap(step, largest);
            right.swap(step, largest);
            let pivot = left[step][step];
            left[step].iter_mut().chain(&mut right[step]).for_each(|value| *value /= pivot);
            let (pivot_left, pivot_right) = (left[step].clone(), right[step].clone());
            for row in (0..size).filter(|&row| row != step) {
                let factor = left[row][step];
                if factor != 0.0 {
                    add_scaled(&mut left[row], -factor, &pivot_left);
                    add_scaled(&mut right[row], -factor, &pivot_right);
                }
            }
        }
        let transposed = |row: usize| (0..size).map(|column| right[column][row]).collect();
        Some(Self { rows: (0..size).map(transposed).collect() })
    }
}

fn add_scaled(row: &mut [f64], factor: f64, other: &[f64]) {
    row.iter_mut().zip(other).for_each(|(value, other)| *value += factor * other);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix by columns, and its inverse by updates, must agree with the inverse by elimination.
    fn assert_same(updated: &Inverse, columns: &[Vec<(usize, f64)>]) {
        let fresh = Inverse::of(columns).unwrap();
        for (a, b) in updated.rows.iter().flatten().zip(fresh.rows.iter().flatten()) {
            assert!((a - b).abs() < 1e-12, "{updated:?} {fresh:?}");
        }
    }

    #[test]
    fn updates_agree_with_a_fresh_inverse() {
        let columns =
            vec![vec![(0, 2.0), (1, 1.0)], vec![(0, 1.0), (1, 3.0), (2, 1.0)], vec![(1, -1.0), (2, 1.0)]];
        let mut inverse = Inverse::of(&columns).unwrap();

        let other = vec![(0, 1.0), (2, 2.0)];
        let solved = inverse.times(&other);
        inverse.replace_column(1, &solved);
        let mut columns = columns;
        columns[1] = other;
        assert_same(&inverse, &columns);

        let (column, row) = (vec![(0, 1.0), (1, 1.0)], vec![(0, 1.0), (2, -1.0)]);
        let (solved, product) = (inverse.times(&column), inverse.times_left(&row));
        let pivot = 5.0 - row.iter().map(|&(place, value)| value * solved[place]).sum::<f64>();
        inverse.border(&solved, &product, pivot);
        columns[0].push((3, 1.0));
        columns[2].push((3, -1.0));
        columns.push(vec![(0, 1.0), (1, 1.0), (3, 5.0)]);
        assert_same(&inverse, &columns);

        inverse.remove(1, 2);
        columns.swap_remove(2);
        for column in &mut columns {
            column.retain(|&(row, _)| row != 1);
            column.iter_mut().for_each(|(row, _)| *row = if *row == 3 { 1 } else { *row });
        }
        assert_same(&inverse, &columns);
    }
}
