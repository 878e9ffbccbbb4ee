use proptest::prelude::*;

use super::*;
use crate::session::code::cauchy::cauchy;
use crate::session::code::field::inverse;

fn available() -> impl Iterator<Item = (Kernel, &'static str)> {
    Kernel::ALL.iter().copied().filter(|(kernel, _)| kernel.is_available())
}

/// Bytes that look random.
fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let next = |state: &u64| Some(state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
    std::iter::successors(Some(seed), next).skip(1).map(|state| (state >> 40) as u8).take(count).collect()
}

fn by_definition(coefficients: &[u8], sources: &[&[u8]], sums: &mut [u8], size: usize) {
    for (row, sum) in coefficients.chunks(sources.len()).zip(sums.chunks_mut(size)) {
        for (coefficient, source) in row.iter().zip(sources) {
            sum.iter_mut().zip(*source).for_each(|(sum, byte)| *sum ^= product(*coefficient, *byte));
        }
    }
}

proptest! {
    /// On each machine this tries the kernels that its processor has; `Plain` is among them everywhere.
    #[test]
    fn every_kernel_computes_the_sums_by_definition(
        rows in 0usize..15, size in 1usize..300, number in 1usize..20, seed in any::<u64>(),
    ) {
        let (coefficients, start) = (bytes(seed, rows * number), bytes(seed + 1, rows * size));
        let block = bytes(seed + 2, number * size);
        let sources: Vec<&[u8]> = block.chunks(size).collect();
        let mut expected = start.clone();
        by_definition(&coefficients, &sources, &mut expected, size);
        for (kernel, name) in available() {
            let mut sums = start.clone();
            kernel.add_products(&coefficients, &sources, &mut sums);
            prop_assert_eq!(&sums, &expected, "{}", name);
        }
    }

    #[test]
    fn every_kernel_computes_by_cosets_what_the_cauchy_matrix_gives(
        ids in proptest::sample::subsequence((0..=255).collect::<Vec<u8>>(), 1..60),
        repairs in proptest::sample::subsequence((0..=255).collect::<Vec<u8>>(), 1..40),
        size in 1usize..200, seed in any::<u64>(),
    ) {
        let (block, start) = (bytes(seed, ids.len() * size), bytes(seed + 1, repairs.len() * size));
        let sources: Vec<&[u8]> = block.chunks(size).collect();
        let coefficient = |x: &u8, y: &u8| if x / 8 == y / 8 { 0 } else { inverse(x ^ y) };
        let rows: Vec<u8> = repairs.iter().flat_map(|x| ids.iter().map(move |y| coefficient(x, y))).collect();
        let mut expected = start.clone();
        by_definition(&rows, &sources, &mut expected, size);
        for (kernel, name) in available() {
            let mut sums = start.clone();
            kernel.add_cosets(&repairs, &ids, &sources, &mut sums);
            prop_assert_eq!(&sums, &expected, "{}", name);
        }
    }
}

#[test]
fn the_environment_keeps_faster_kernels_from_being_chosen() {
    assert_eq!(Kernel::fastest_below(Some("plain")), Kernel::Plain);
    assert!(Kernel::fastest_below(None).is_available());
    assert_eq!(Kernel::fastest_below(Some("no such kernel")), Kernel::fastest_below(None));
    for (kernel, name) in available() {
        assert_eq!(Kernel::fastest_below(Some(name)), kernel);
    }
}

#[test]
#[should_panic(expected = "sources of different sizes")]
fn sources_of_different_sizes_are_a_mistake() {
    add_products(&[1, 2], &[&[1, 2], &[3]], &mut [0, 0]);
}

const SIZE: usize = 1408;

#[test]
#[should_panic(expected = "a sum for each repair symbol")]
fn sums_that_are_too_short_are_a_mistake() {
    add_cosets(&[8, 9], &[0], &[&[1, 2]], &mut [0; 3]);
}

#[test]
#[should_panic(expected = "sources of different sizes")]
fn sources_of_different_sizes_are_a_mistake_by_cosets_too() {
    add_cosets(&[8], &[0, 1], &[&[1, 2], &[3]], &mut [0; 2]);
}

/// Gbit/s of source symbols at which `add` adds the symbols of each of these blocks to sums: the best of five rounds.
#[expect(clippy::disallowed_methods, reason = "it looks at the clock to measure, and decides nothing")]
fn speed(blocks: &[Vec<u8>], mut add: impl FnMut(&[&[u8]])) -> f64 {
    let round = || {
        let start = std::time::Instant::now();
        blocks.iter().for_each(|block| add(&block.chunks(SIZE).collect::<Vec<_>>()));
        start.elapsed().as_secs_f64()
    };
    let best = std::iter::repeat_with(round).take(5).fold(f64::MAX, f64::min);
    blocks.iter().map(|block| block.len() * 8).sum::<usize>() as f64 / best / 1e9
}

/// How fast each kernel is row by row and by cosets: the table of docs/decisions/reed-solomon-kernels.md.
#[test]
#[ignore = "a measurement: cargo test --release -p fec-transport --lib kernel -- --ignored --nocapture"]
fn rows_and_cosets() {
    const SHAPES: [(u8, u8); 8] =
        [(64, 4), (64, 11), (128, 18), (184, 12), (197, 6), (200, 5), (200, 25), (224, 14)];
    println!("{:11}   K /  R   rows  cosets  Gbit/s of source symbols", "kernel");
    for ((kernel, name), (k, r)) in available().flat_map(|kernel| SHAPES.map(|shape| (kernel, shape))) {
        let (ids, repairs): (Vec<u8>, Vec<u8>) = ((0..k).collect(), (k..k + r).collect());
        let blocks: Vec<Vec<u8>> = (0..16).map(|seed| bytes(seed, ids.len() * SIZE)).collect();
        let mut sums = vec![0; repairs.len() * SIZE];
        let rows = speed(&blocks, |sources| {
            kernel.add_products(&cauchy(&repairs, &ids), sources, &mut sums);
        });
        let cosets = speed(&blocks, |sources| kernel.add_cosets(&repairs, &ids, sources, &mut sums));
        println!("{name:11} {k:3} / {r:2} {rows:6.1}  {cosets:6.1}");
    }
}
