//! The Cauchy matrix over GF(2⁸): with encoding symbol ids as elements of the field, the coefficient of source symbol y
//! in repair symbol x is 1 / (x + y). Every square part of it has an inverse, in closed form.

use super::field::{inverse, logarithm, power};
use super::kernel::{add_cosets, add_products, are_faster_by_coset, coset};

/// Adds to each of the sums, which lie one behind the other, what the matrix gives for its repair symbol and all source
/// symbols. The ids of repair symbols and of source symbols are all different; those of one coset should lie side by
/// side.
///
/// # Panics
/// If source symbols differ in size, or there are not as many sums of that size as repair symbols.
pub(super) fn add_cauchy(repairs: &[u8], ids: &[u8], sources: &[&[u8]], sums: &mut [u8]) {
    let by_coset = || repairs.chunk_by(|one, other| coset(*one) == coset(*other));
    if !are_faster_by_coset(repairs.len(), by_coset().count()) {
        return add_products(&cauchy(repairs, ids), sources, sums);
    }
    add_cosets(repairs, ids, sources, sums);
    let size = sources.first().map_or(0, |source| source.len());
    let mut start = 0;
    for repairs in by_coset() {
        let length = repairs.len() * size;
        add_own_coset(repairs, ids, sources, &mut sums[start..start + length]);
        start += length;
    }
}

/// Adds what source symbols of the repair symbols' own coset give.
fn add_own_coset(repairs: &[u8], ids: &[u8], sources: &[&[u8]], sums: &mut [u8]) {
    let own = ids.iter().zip(sources).filter(|(id, _)| coset(**id) == coset(repairs[0]));
    let (ids, sources): (Vec<u8>, Vec<&[u8]>) = own.unzip();
    if !ids.is_empty() {
        add_products(&cauchy(repairs, &ids), &sources, sums);
    }
}

/// The rows of the repair symbols, with a column for each of the source symbols.
pub(super) fn cauchy(repairs: &[u8], sources: &[u8]) -> Vec<u8> {
    let mut matrix = Vec::with_capacity(repairs.len() * sources.len());
    repairs.iter().for_each(|repair| matrix.extend(sources.iter().map(|source| inverse(repair ^ source))));
    matrix
}

/// The inverse of the matrix of as many repair symbols as source symbols: a row for each source symbol.
///
/// With x the repair symbols and y the source symbols it is
/// Π_k (x_j + y_k)(x_k + y_i) / ((x_j + y_i) · Π_{k≠j} (x_j + x_k) · Π_{k≠i} (y_i + y_k)) in row i and column j: a
/// factor that only depends on the row, one that only depends on the column, and 1 / (x_j + y_i).
pub(super) fn inverse_of_cauchy(repairs: &[u8], sources: &[u8]) -> Vec<u8> {
    let columns = factors(repairs, sources);
    let rows = factors(sources, repairs);
    let mut inverse = Vec::with_capacity(repairs.len() * sources.len());
    for (source, row) in sources.iter().zip(&rows) {
        let entry = |(repair, column): (&u8, &usize)| power(row + column + 255 - logarithm(repair ^ source));
        inverse.extend(repairs.iter().zip(&columns).map(entry));
    }
    inverse
}

/// For each of `these` the logarithm of the product of its sums with the `others` over the product of its sums with the
/// rest of `these`.
fn factors(these: &[u8], others: &[u8]) -> Vec<usize> {
    let factor = |this: &u8| {
        let above: usize = others.iter().map(|other| logarithm(this ^ other)).sum();
        let rest = these.iter().filter(|other| *other != this);
        let below: usize = rest.map(|other| 255 - logarithm(this ^ other)).sum();
        (above + below) % 255
    };
    these.iter().map(factor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::code::field::product;

    #[test]
    fn the_inverse_times_the_matrix_is_the_identity() {
        let (repairs, sources) = ([255u8, 100, 200, 99, 7], [0u8, 3, 98, 5, 50]);
        let (matrix, inverse) = (cauchy(&repairs, &sources), inverse_of_cauchy(&repairs, &sources));
        for row in 0..5 {
            for column in 0..5 {
                let entry =
                    (0..5).fold(0, |sum, k| sum ^ product(inverse[row * 5 + k], matrix[k * 5 + column]));
                assert_eq!(entry, u8::from(row == column), "row {row}, column {column}");
            }
        }
    }
}
