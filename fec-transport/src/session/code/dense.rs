//! Small dense systems over GF(2⁸) whose unknowns are symbols: what remains of decoding when only what was lost is
//! computed.

use super::field::{inverse, product};
use super::kernel::add_products;

/// Equations for `unknowns` symbols of `symbol_size` bytes each, added one by one; one that says nothing new is
/// dropped.
#[derive(Debug)]
pub(super) struct DenseSystem {
    unknowns: usize,
    symbol_size: usize,
    /// Coefficients and right-hand side of each equation. The pivot of an equation is its first coefficient that is not
    /// 0; it is 1, and 0 in all other equations.
    equations: Vec<Equation>,
}

#[derive(Debug)]
struct Equation {
    pivot: usize,
    coefficients: Vec<u8>,
    /// The sum of these known symbols, times their factors, is what the right-hand side becomes: given in the order in
    /// which equations were added.
    combination: Vec<u8>,
}

impl DenseSystem {
    pub(super) fn new(unknowns: usize, symbol_size: usize) -> DenseSystem {
        DenseSystem { unknowns, symbol_size, equations: Vec::with_capacity(unknowns) }
    }

    /// Whether the equations determine all unknowns.
    pub(super) fn is_determined(&self) -> bool {
        self.equations.len() == self.unknowns
    }

    /// Adds an equation, of one coefficient for each unknown; gives false if it says nothing new.
    pub(super) fn add(&mut self, mut coefficients: Vec<u8>) -> bool {
        debug_assert_eq!(coefficients.len(), self.unknowns);
        let mut combination = vec![0; self.unknowns];
        for equation in &self.equations {
            let factor = coefficients[equation.pivot];
            if factor != 0 {
                add_multiple(factor, &equation.coefficients, &mut coefficients);
                add_multiple(factor, &equation.combination, &mut combination);
            }
        }
        let Some(pivot) = coefficients.iter().position(|coefficient| *coefficient != 0) else { return false };
        combination[self.equations.len()] = 1;
        let inverse = inverse(coefficients[pivot]);
        scale(inverse, &mut coefficients);
        scale(inverse, &mut combination);
        for equation in &mut self.equations {
            let factor = equation.coefficients[pivot];
            if factor != 0 {
                add_multiple(factor, &coefficients, &mut equation.coefficients);
                add_multiple(factor, &combination, &mut equation.combination);
            }
        }
        self.equations.push(Equation { pivot, coefficients, combination });
        true
    }

    /// Computes the unknowns from the right-hand sides of the equations that said something new, in their order, one
    /// after the other; calls `take` with the number and the value of each.
    pub(super) fn solve(&self, right_hand_sides: &[u8], mut take: impl FnMut(usize, &[u8])) {
        debug_assert!(self.is_determined());
        let sides: Vec<&[u8]> = right_hand_sides.chunks_exact(self.symbol_size).collect();
        let factors: Vec<u8> =
            self.equations.iter().flat_map(|equation| &equation.combination).copied().collect();
        let mut values = vec![0; self.equations.len() * self.symbol_size];
        add_products(&factors, &sides, &mut values);
        for (equation, value) in self.equations.iter().zip(values.chunks_exact(self.symbol_size)) {
            take(equation.pivot, value);
        }
    }
}

fn add_multiple(factor: u8, from: &[u8], to: &mut [u8]) {
    add_products(&[factor], &[from], to);
}

fn scale(factor: u8, row: &mut [u8]) {
    row.iter_mut().for_each(|byte| *byte = product(factor, *byte));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_unknowns_come_out_of_enough_equations(
            unknowns in proptest::collection::vec(any::<[u8; 3]>(), 1..12),
            rows in proptest::collection::vec(proptest::collection::vec(0u8..4, 12), 40),
        ) {
            let mut system = DenseSystem::new(unknowns.len(), 3);
            let mut sides = Vec::new();
            for row in rows {
                let row = &row[..unknowns.len()];
                if !system.is_determined() && system.add(row.to_vec()) {
                    let mut side = [0; 3];
                    row.iter().zip(&unknowns).for_each(|(factor, symbol)| add_multiple(*factor, symbol, &mut side));
                    sides.extend(side);
                }
            }
            prop_assume!(system.is_determined());
            let mut found = vec![None; unknowns.len()];
            system.solve(&sides, |number, value| found[number] = Some(value.to_vec()));
            for (found, unknown) in found.into_iter().zip(unknowns) {
                prop_assert_eq!(found, Some(unknown.to_vec()));
            }
        }
    }

    #[test]
    fn an_equation_that_says_nothing_new_is_dropped() {
        let mut system = DenseSystem::new(2, 1);
        assert!(system.add(vec![1, 2]));
        assert!(!system.add(vec![1, 2]) && !system.add(vec![0, 0]));
        assert!(!system.is_determined() && system.add(vec![3, 1]) && system.is_determined());
    }
}
