//! The probability that too few symbols of a block arrive over paths that lose independently.

/// P(Σ received < `wanted`), where path i gets `quotas[i].0` symbols and loses each with probability `quotas[i].1`.
///
/// It convolves the numbers of lost symbols of the paths, cut off at the most that may be lost: O(paths × losses²).
pub(super) fn shortfall_probability(quotas: &[(usize, f64)], wanted: usize) -> f64 {
    let sent: usize = quotas.iter().map(|(count, _)| count).sum();
    let Some(bearable) = sent.checked_sub(wanted) else { return 1.0 };
    // probabilities[j]: exactly j are lost, over the paths so far.
    let mut probabilities = vec![1.0];
    for (count, loss) in quotas.iter().filter(|(count, loss)| *count > 0 && *loss > 0.0) {
        probabilities = convolve(&probabilities, &binomial(*count, *loss, bearable), bearable);
    }
    (1.0 - probabilities.iter().sum::<f64>()).max(0.0)
}

/// P(exactly j of `count` are lost) for j up to `most`.
fn binomial(count: usize, loss: f64, most: usize) -> Vec<f64> {
    let odds = loss / (1.0 - loss);
    let mut term = (1.0 - loss).powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut terms = Vec::with_capacity(most.min(count) + 1);
    for lost in 0..=most.min(count) {
        terms.push(term);
        term *= odds * (count - lost) as f64 / (lost + 1) as f64;
    }
    terms
}

fn convolve(a: &[f64], b: &[f64], most: usize) -> Vec<f64> {
    let mut sums = vec![0.0; (a.len() + b.len() - 1).min(most + 1)];
    for (i, x) in a.iter().enumerate() {
        for (sum, y) in sums[i.min(most)..].iter_mut().zip(b) {
            *sum += x * y;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All outcomes one by one.
    fn naive(quotas: &[(usize, f64)], wanted: usize) -> f64 {
        let losses: Vec<f64> = quotas.iter().flat_map(|(count, loss)| vec![*loss; *count]).collect();
        let outcome = |mask: u32| {
            let symbol = |(i, loss): (usize, &f64)| if mask >> i & 1 == 1 { 1.0 - loss } else { *loss };
            losses.iter().enumerate().map(symbol).product::<f64>()
        };
        let too_few = |mask: &u32| (mask.count_ones() as usize) < wanted;
        (0..1u32 << losses.len()).filter(too_few).map(outcome).sum()
    }

    proptest! {
        #[test]
        fn it_is_the_sum_over_all_outcomes(
            quotas in proptest::collection::vec((0usize..4, 0.0f64..0.9), 1..5), wanted in 0usize..14,
        ) {
            prop_assert!((shortfall_probability(&quotas, wanted) - naive(&quotas, wanted)).abs() < 1e-9);
        }
    }
}
