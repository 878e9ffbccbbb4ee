//! What the network can carry: the limit that a goodput is measured by (design §8).

/// A flow's planned paths; a path that is cut has none of the links it needs and is left out.
pub(super) type Paths = Vec<Vec<Hop>>;

/// One direction of a link on a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hop {
    /// Which direction of which link it is: equal numbers are one and the same.
    pub(super) direction: usize,
    /// In bit/s.
    pub(super) rate: f64,
    /// The share of packets that it loses.
    pub(super) loss: f64,
}

/// The largest rate that all `flows` have at once, in bit/s of delivered packets.
///
/// A linear program: x, the rate sent into each path, at most what each link carries of what reaches it, and t, at most
/// what each flow delivers; t is maximised. One flow over disjoint paths gets Σ rate × Π(1 − loss) (design §8).
pub(super) fn largest_equal_rate(flows: &[Paths]) -> f64 {
    let paths: Vec<(usize, &Vec<Hop>)> = flows
        .iter()
        .enumerate()
        .flat_map(|(flow, paths)| paths.iter().map(move |path| (flow, path)))
        .collect();
    let variables = paths.len() + 1;
    let mut rows: Vec<(Vec<f64>, f64)> = Vec::new();
    for flow in 0..flows.len() {
        let mut row = vec![0.0; variables];
        row[paths.len()] = 1.0;
        for (index, (of, path)) in paths.iter().enumerate() {
            row[index] = if *of == flow { -surviving(path) } else { 0.0 };
        }
        rows.push((row, 0.0));
    }
    let hops = paths.iter().flat_map(|(_, path)| path.iter());
    let mut directions: Vec<(usize, f64)> = hops.map(|hop| (hop.direction, hop.rate)).collect();
    directions.sort_by_key(|(direction, _)| *direction);
    directions.dedup_by_key(|(direction, _)| *direction);
    for (direction, rate) in directions {
        let share = |path: &Vec<Hop>| {
            let at = path.iter().position(|hop| hop.direction == direction);
            at.map_or(0.0, |at| surviving(&path[..at]))
        };
        let mut row: Vec<f64> = paths.iter().map(|(_, path)| share(path)).collect();
        row.push(0.0);
        rows.push((row, rate));
    }
    maximise_last(variables, rows)
}

fn surviving(hops: &[Hop]) -> f64 {
    hops.iter().map(|hop| 1.0 - hop.loss).product()
}

/// The largest value of the last variable under `rows` (coefficients · x ≤ bound, bounds ≥ 0) and x ≥ 0: the simplex
/// method in a tableau, with Bland's rule, which never cycles. A few dozen rows and columns.
fn maximise_last(variables: usize, rows: Vec<(Vec<f64>, f64)>) -> f64 {
    const EPSILON: f64 = 1e-9;
    let width = variables + rows.len() + 1;
    let mut tableau: Vec<Vec<f64>> = Vec::new();
    let scale = rows.iter().map(|(_, bound)| *bound).fold(1.0, f64::max);
    for (index, (mut coefficients, bound)) in rows.into_iter().enumerate() {
        coefficients.resize(width, 0.0);
        coefficients[variables + index] = 1.0;
        coefficients[width - 1] = bound / scale;
        tableau.push(coefficients);
    }
    let mut basis: Vec<usize> = (variables..width - 1).collect();
    let mut objective = vec![0.0; width];
    objective[variables - 1] = -1.0;
    while let Some(entering) = objective[..width - 1].iter().position(|cost| *cost < -EPSILON) {
        let ratio = |row: usize| tableau[row][width - 1] / tableau[row][entering];
        let candidates = (0..tableau.len()).filter(|row| tableau[*row][entering] > EPSILON);
        let by_ratio = |a: &usize, b: &usize| ratio(*a).total_cmp(&ratio(*b)).then(basis[*a].cmp(&basis[*b]));
        let Some(leaving) = candidates.min_by(by_ratio) else { return f64::INFINITY };
        basis[leaving] = entering;
        let pivot = tableau[leaving][entering];
        tableau[leaving].iter_mut().for_each(|value| *value /= pivot);
        let pivot_row = tableau[leaving].clone();
        let others = tableau.iter_mut().enumerate().filter(|(row, _)| *row != leaving).map(|(_, row)| row);
        for row in others.chain([&mut objective]) {
            let factor = row[entering];
            row.iter_mut().zip(&pivot_row).for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    objective[width - 1] * scale
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(direction: usize, rate: f64, loss: f64) -> Hop {
        Hop { direction, rate, loss }
    }

    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-3, "{found} instead of {expected}");
    }

    #[test]
    fn disjoint_paths_add_up() {
        let path = |n: usize, rate, loss| vec![hop(2 * n, rate, loss), hop(2 * n + 1, rate, 0.1)];
        let limit = largest_equal_rate(&[vec![path(0, 50e6, 0.05), path(1, 10e6, 0.2)]]);
        assert_close(limit, 50e6 * 0.95 * 0.9 + 10e6 * 0.8 * 0.9);
    }

    #[test]
    fn paths_that_share_a_link_share_its_rate() {
        let common = hop(9, 30e6, 0.0);
        let one = vec![vec![hop(0, 100e6, 0.0), common]];
        let three = (1..4).map(|n| vec![hop(n, 100e6, 0.0), common]).collect::<Paths>();
        assert_close(largest_equal_rate(&[one.clone(), three]), 15e6);
        // A loss in front of the common link leaves it room.
        let lossy = vec![vec![hop(1, 100e6, 0.5), common]];
        assert_close(largest_equal_rate(&[lossy]), 30e6);
        let apart = vec![vec![hop(5, 5e6, 0.0)]];
        assert_close(largest_equal_rate(&[one, apart]), 5e6);
    }

    #[test]
    fn a_flow_without_a_path_gets_nothing() {
        assert_close(largest_equal_rate(&[vec![]]), 0.0);
        assert_close(largest_equal_rate(&[vec![vec![hop(0, 1e6, 0.0)]], vec![]]), 0.0);
    }
}
