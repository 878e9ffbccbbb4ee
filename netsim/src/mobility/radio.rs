//! Who hears whom: the unit-disk radio.

use crate::mobility::Position;

/// The pairs of positions at most `range` apart, as (lower, higher) index, in order.
///
/// Positions are sorted into a grid of cells that are no smaller than the range, so that neighbours lie in the same
/// cell or in one of the eight around it. There are at most about as many cells as positions.
pub(super) fn links_within(positions: &[Position], range: f64) -> Vec<(usize, usize)> {
    let grid = Grid::new(positions, range);
    let mut links = Vec::new();
    let mut nearby = Vec::new();
    for (node, position) in positions.iter().enumerate() {
        nearby.clear();
        let candidates = grid.around(*position).filter(|&other| other > node);
        nearby.extend(candidates.filter(|&other| is_within(*position, positions[other], range)));
        nearby.sort_unstable();
        links.extend(nearby.iter().map(|&other| (node, other)));
    }
    links
}

pub(super) fn is_within(a: Position, b: Position, range: f64) -> bool {
    let (x, y) = (a.x - b.x, a.y - b.y);
    x * x + y * y <= range * range
}

struct Grid {
    corner: Position,
    cell: f64,
    columns: usize,
    rows: usize,
    /// Where the nodes of each cell begin in `nodes`; one more at the end.
    starts: Vec<usize>,
    nodes: Vec<usize>,
}

impl Grid {
    fn new(positions: &[Position], range: f64) -> Self {
        let bounds = |coordinate: fn(&Position) -> f64| {
            let values = || positions.iter().map(coordinate);
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
        };
        let ((left, right), (bottom, top)) = (bounds(|at| at.x), bounds(|at| at.y));
        let (width, height) = ((right - left).max(0.0), (top - bottom).max(0.0));
        // At most √n + 1 cells a side, so no more than about n in all, however small the range is.
        // A little larger than the range, so that rounding puts nobody two cells away.
        let cell = (range * (1.0 + 1e-9)).max(width.max(height) / (positions.len() as f64).sqrt().max(1.0));
        let count = |extent: f64| if cell > 0.0 { (extent / cell) as usize + 1 } else { 1 };
        let mut grid = Self {
            corner: Position { x: left, y: bottom },
            cell,
            columns: count(width),
            rows: count(height),
            starts: Vec::new(),
            nodes: vec![0; positions.len()],
        };
        grid.sort(positions);
        grid
    }

    /// Sorts nodes by cell, by counting.
    fn sort(&mut self, positions: &[Position]) {
        let cells: Vec<usize> = positions.iter().map(|position| self.cell_of(*position)).collect();
        self.starts = vec![0; self.columns * self.rows + 1];
        for cell in &cells {
            self.starts[cell + 1] += 1;
        }
        for cell in 1..self.starts.len() {
            self.starts[cell] += self.starts[cell - 1];
        }
        let mut free = self.starts.clone();
        for (node, cell) in cells.into_iter().enumerate() {
            self.nodes[free[cell]] = node;
            free[cell] += 1;
        }
    }

    fn column_and_row(&self, position: Position) -> (usize, usize) {
        let place = |distance: f64, count: usize| ((distance / self.cell) as usize).min(count - 1);
        (place(position.x - self.corner.x, self.columns), place(position.y - self.corner.y, self.rows))
    }

    fn cell_of(&self, position: Position) -> usize {
        let (column, row) = self.column_and_row(position);
        row * self.columns + column
    }

    /// The nodes in the cell of a position and in those around it.
    fn around(&self, position: Position) -> impl Iterator<Item = usize> {
        let (column, row) = self.column_and_row(position);
        let columns = column.saturating_sub(1)..=(column + 1).min(self.columns - 1);
        let rows = row.saturating_sub(1)..=(row + 1).min(self.rows - 1);
        rows.flat_map(move |row| {
            // Cells of a row lie side by side, and so do their nodes.
            let cells = row * self.columns + columns.start()..=row * self.columns + columns.end();
            self.nodes[self.starts[*cells.start()]..self.starts[*cells.end() + 1]].iter().copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(positions: &[Position], range: f64) -> Vec<(usize, usize)> {
        let pairs = (0..positions.len()).flat_map(|a| (a + 1..positions.len()).map(move |b| (a, b)));
        pairs.filter(|&(a, b)| is_within(positions[a], positions[b], range)).collect()
    }

    /// Places on a small lattice, so that many coincide or lie exactly a range apart, or anywhere.
    fn places() -> impl Strategy<Value = Vec<Position>> {
        let lattice = (0..8_i32, 0..40_i32).prop_map(|(x, y)| (f64::from(x), f64::from(y)));
        let anywhere = (-1e3..1e3_f64, -1e1..1e1_f64);
        prop::collection::vec(prop_oneof![lattice, anywhere], 0..150)
            .prop_map(|places| places.into_iter().map(|(x, y)| Position { x, y }).collect())
    }

    proptest! {
        #[test]
        fn the_grid_finds_what_looking_at_all_pairs_finds(
            places in places(),
            range in prop_oneof![Just(1.0), Just(3.0), 1e-6..1e4_f64],
        ) {
            prop_assert_eq!(links_within(&places, range), naive(&places, range));
        }
    }

    #[test]
    fn nodes_in_one_place_hear_each_other() {
        let place = Position { x: 3.0, y: 4.0 };
        assert_eq!(links_within(&[place; 3], 1e-9), [(0, 1), (0, 2), (1, 2)]);
    }
}
