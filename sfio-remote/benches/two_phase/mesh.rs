//! The study's four meshes, as far as it describes them: how many nodes they have, and how many processes share them.
//!
//! Neither the meshes nor what METIS made of them was published. Ours are boxes of nodes that lie in the file layer
//! by layer, cut into equal parts by halving again and again across the longest side. The box is turned against the
//! layers, as parts of METIS do not follow the order of the nodes either, and the parts are dealt out to the ranks
//! by chance.

use sfio_remote::sim::Dice;

/// A mesh: its number in the study, its nodes, its sides from the direction in which the file runs to the fastest,
/// and by how much the cuts are turned against that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mesh {
    pub(crate) number: usize,
    pub(crate) nodes: usize,
    sides: [f64; 3],
    turned: f64,
}

/// The study's four: 1 and 2 are compact, so that a piece of the file belongs to many processes; 3 and 4 are long.
pub(crate) const MESHES: [Mesh; 4] = [
    Mesh { number: 1, nodes: 47_200, sides: [1.0, 1.0, 1.0], turned: 0.12 },
    Mesh { number: 2, nodes: 32_888, sides: [1.0, 1.4, 1.4], turned: 0.12 },
    Mesh { number: 3, nodes: 73_257, sides: [4.0, 1.0, 1.0], turned: 0.06 },
    Mesh { number: 4, nodes: 289_648, sides: [4.0, 1.0, 1.0], turned: 0.03 },
];

impl Mesh {
    /// The rank that each node belongs to, in the order in which the nodes lie in the file; which rank has which part
    /// depends on the seed.
    pub(crate) fn owners(&self, ranks: usize, seed: u64) -> Vec<u16> {
        let positions = self.positions();
        let mut parts = vec![0; self.nodes];
        let mut nodes: Vec<u32> = (0..self.nodes as u32).collect();
        halve(&positions, &mut nodes, 0, ranks, &mut parts);
        let (mut names, mut dice): (Vec<u16>, _) = ((0..ranks as u16).collect(), Dice::new(seed));
        (1..ranks).rev().for_each(|last| names.swap(last, dice.below(last + 1)));
        parts.into_iter().map(|part| names[part]).collect()
    }

    /// Where each node is, seen from the cuts.
    fn positions(&self) -> Vec<[f64; 3]> {
        let [z, y, x] = self.sides;
        let step = (self.nodes as f64 / (x * y * z)).cbrt();
        let (across, deep) = ((x * step).round() as usize, (y * step).round() as usize);
        let (sine, cosine) = self.turned.sin_cos();
        let position = |node: usize| {
            let [x, y, z] =
                [node % across, node / across % deep, node / across / deep].map(|side| side as f64);
            // Two turns, so that no side follows the file.
            let (y, z) = (y * cosine - z * sine, y * sine + z * cosine);
            let (x, z) = (x * cosine - z * sine, x * sine + z * cosine);
            [z, y, x]
        };
        (0..self.nodes).map(position).collect()
    }
}

/// Cuts nodes into `count` equal parts, of which the first has the number `first`.
fn halve(positions: &[[f64; 3]], nodes: &mut [u32], first: usize, count: usize, parts: &mut [usize]) {
    if count == 1 {
        nodes.iter().for_each(|node| parts[*node as usize] = first);
        return;
    }
    let along = |side: usize, node: &u32| positions[*node as usize][side];
    let length = |side: &usize| {
        let all = || nodes.iter().map(|node| along(*side, node));
        all().fold(f64::MIN, f64::max) - all().fold(f64::MAX, f64::min)
    };
    let side = (0..3).max_by(|one, other| length(one).total_cmp(&length(other))).unwrap_or(0);
    let middle = nodes.len() * (count / 2) / count;
    nodes.select_nth_unstable_by(middle, |one, other| along(side, one).total_cmp(&along(side, other)));
    let (below, above) = nodes.split_at_mut(middle);
    halve(positions, below, first, count / 2, parts);
    halve(positions, above, first + count / 2, count - count / 2, parts);
}
