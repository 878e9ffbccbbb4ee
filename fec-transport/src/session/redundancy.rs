//! How many symbols of a block are sent at once, and how many to repair it with (design §6, theory §3).

mod shortfall;

use std::collections::BTreeMap;

use ror::BlockLaw;

use super::block::Geometry;
use super::code::REED_SOLOMON_SYMBOLS;
use super::paths::PathId;
use crate::config::{Coding, Protection, Spreading};
use crate::overlay::{Crossings, LinkId};
use crate::wire::symbol::Codec;
use shortfall::shortfall_probability;

/// A block of fewer symbols is a message that somebody waits for, even on a bulk stream; its residual is no larger than
/// `SMALL_RESIDUAL`.
const SMALL_BLOCK: usize = 8;
const SMALL_RESIDUAL: f64 = 1e-3;
/// A shorter block is the end of a stream, which somebody waits for more than for what is in its middle, or belongs to
/// a slow link: its residual is no larger than `SHORT_RESIDUAL`.
const SHORT_BLOCK: usize = 64;
const SHORT_RESIDUAL: f64 = 0.1;
/// A mask is there to spare repairs: with a link dead, no larger share of blocks than this needs one.
const MASKED_RESIDUAL: f64 = 1e-3;
/// Blocks from so many symbols on are made longer where losses come in bursts; smaller ones are spread over the paths.
const BURST_BLOCK: usize = 16;
/// A path that loses more than this is not made up for by redundancy: repair follows it better.
const MAX_LOSS: f64 = 0.5;
/// Losses are told apart in steps of this ratio, and count as none below `SMALLEST_LOSS`, so that the cache is of use.
const LOSS_STEP: f64 = 1.05;
const SMALLEST_LOSS: f64 = 0.0005;
/// Shares of paths are told apart in so many steps.
const SHARE_STEPS: f64 = 64.0;
/// Situations change slowly, and a session is not to hold more memory for them than for its paths: some 25 KB.
const CACHED: usize = 128;
/// How much a link's share may be off because its paths' shares are rounded.
const ROUNDING: f64 = 4.0 / SHARE_STEPS;
/// Links with a larger share than the mask's limit are held back to it, so that they can be masked, up to this share:
/// the one that the other of two equal paths has when a path comes back at half its rate (design §6).
const HELD_BACK: f64 = 2.0 / 3.0 + 1e-9;

/// What the sender knows of a living path when it forms a block.
#[derive(Debug, Clone)]
pub(crate) struct PathOutlook {
    pub(crate) id: PathId,
    /// The share of the block that it is to carry; all shares sum to 1.
    pub(crate) share: f64,
    /// The share of packets that it loses; 1 if nothing at all comes through.
    pub(crate) loss: f64,
    /// The variance of its losses over that of independent ones, at least 1.
    pub(crate) dispersion: f64,
    pub(crate) links: Vec<LinkId>,
}

/// The number of symbols of a first sending, for each situation computed once.
#[derive(Debug, Clone)]
pub(crate) struct Redundancy {
    spread: Spreading,
    mask_limit: f64,
    cache: BTreeMap<Situation, u16>,
}

/// Everything that the number of symbols depends on, rounded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Situation {
    size: BlockSize,
    urgent: bool,
    masked: bool,
    /// For each path the share and the loss in steps, the dispersion in quarters, and its links.
    paths: Vec<(u16, i32, u16, Vec<LinkId>)>,
}

impl Redundancy {
    pub(crate) fn new(coding: &Coding) -> Redundancy {
        Redundancy { spread: coding.spread, mask_limit: coding.mask_limit, cache: BTreeMap::new() }
    }

    /// N: how many symbols of a block with `source_symbols` are sent before anything is known of it.
    ///
    /// With quotas it is the smallest N with P(Σ received over the paths < K) ≤ residual, for the measured losses and
    /// again for the static tolerance on all paths; with random spreading it is the thesis's FEC(K, mean loss).
    pub(crate) fn first_sending(
        &mut self,
        block: Geometry,
        urgent: bool,
        protection: &Protection,
        paths: &[PathOutlook],
    ) -> u16 {
        let size = BlockSize::of(block);
        if self.spread == Spreading::Random {
            return self.by_law(size, urgent, protection, paths);
        }
        let rounded: Vec<PathOutlook> = paths.iter().map(rounded).collect();
        let situation = Situation::of(size, urgent, protection.mask > 0, &rounded);
        let symbols = match self.cache.get(&situation) {
            Some(symbols) => *symbols,
            None => {
                let symbols = self.symbols(size, urgent, protection, &rounded);
                if self.cache.len() >= CACHED {
                    self.cache.clear();
                }
                self.cache.insert(situation, symbols);
                symbols
            }
        };
        if protection.mask > 0 {
            return self.masked(size, symbols, paths);
        }
        symbols
    }

    /// The thesis's rule [theory §2]: FEC(K, p), p what the paths lose in the mean or the static tolerance. Every
    /// symbol draws its path, so that no more than the mean matters; it is taken as it is, because FEC rises in steps.
    fn by_law(&self, size: BlockSize, urgent: bool, protection: &Protection, paths: &[PathOutlook]) -> u16 {
        let mean: f64 = paths.iter().map(|path| path.share * path.loss).sum();
        let symbols = law(size, residual(size.k, urgent, protection), mean.max(protection.tolerance));
        u16::try_from(symbols).unwrap_or(u16::MAX)
    }

    /// The fewest symbols from `n` on of which enough are left whichever maskable link dies: by the exact shares. Of
    /// all but messages one more than K, so that the last symbol of the slowest path is not waited for, and K symbols
    /// that do not determine a RaptorQ block need no repair.
    fn masked(&self, size: BlockSize, n: u16, paths: &[PathOutlook]) -> u16 {
        let crossings = crossings(paths);
        let links = maskable_links(paths, self.mask_limit);
        let enough = size.k + usize::from(size.k >= SMALL_BLOCK);
        let survives = |n: usize| {
            let taken = |path: usize| (n as f64 * paths[path].share - 1e-9).ceil() as usize;
            links.iter().all(|link| n.saturating_sub(crossings.sum(*link, taken)) >= enough)
        };
        let mut all = usize::from(n)..size.most;
        all.find(|n| survives(*n)).and_then(|n| u16::try_from(n).ok()).unwrap_or(n)
    }

    fn symbols(&self, size: BlockSize, urgent: bool, protection: &Protection, paths: &[PathOutlook]) -> u16 {
        let residual = residual(size.k, urgent, protection);
        let masked = protection.mask > 0;
        let tolerated = |path: &PathOutlook| PathOutlook { loss: protection.tolerance, ..path.clone() };
        let tolerated: Vec<PathOutlook> = paths.iter().map(tolerated).collect();
        let measured = self.by_quotas(size, residual, masked, paths);
        let symbols = measured.max(self.by_quotas(size, residual, masked, &tolerated));
        u16::try_from(symbols).unwrap_or(u16::MAX)
    }

    /// The smallest N with which the block survives the paths' losses, and with `masked` also any one link.
    fn by_quotas(&self, size: BlockSize, residual: f64, masked: bool, paths: &[PathOutlook]) -> usize {
        let BlockSize { k, most } = size;
        let links = if masked { maskable_links(paths, self.mask_limit) } else { Vec::new() };
        if links.is_empty() && bursts_met(k, paths) <= residual {
            return k;
        }
        let survives = |n: usize| {
            let with_dead = residual.min(MASKED_RESIDUAL);
            shortfall(n, k, paths, None) <= residual
                && links.iter().all(|link| shortfall(n, k, paths, Some(*link)) <= with_dead)
        };
        let crossings = crossings(paths);
        let largest = links.iter().map(|link| share_over(&crossings, paths, *link)).fold(0.0, f64::max);
        let mean: f64 = paths.iter().map(|path| path.share * path.loss).sum();
        let least = (k as f64 / (1.0 - mean) / (1.0 - largest)).min(most as f64);
        let n = smallest(k.max(least.floor() as usize), most, survives);
        if k < BURST_BLOCK {
            return n;
        }
        // The margin above the mean grows with the standard deviation of the losses.
        let dispersion: f64 = paths.iter().map(|path| path.share * path.dispersion).sum();
        let margin = (n as f64 - least).max(0.0) * dispersion.sqrt();
        n.max((least + margin).ceil() as usize).min(most)
    }
}

/// How many source symbols a block has, and how many symbols are sent at once at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BlockSize {
    k: usize,
    most: usize,
}

impl BlockSize {
    fn of(block: Geometry) -> BlockSize {
        let k = block.source_symbols;
        let different = match block.codec {
            Codec::ReedSolomon => REED_SOLOMON_SYMBOLS,
            Codec::RaptorQ => 8 * k,
        };
        BlockSize { k, most: (4 * k + 16).min(different) }
    }
}

/// The smallest number in `from..=to` for which `holds`, which is monotonous; `to` if none.
fn smallest(from: usize, to: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut step) = (from, 1);
    let mut high = from;
    while high < to && !holds(high) {
        low = high + 1;
        high = (high + step).min(to);
        step *= 2;
    }
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    high
}

/// P(fewer than K of N symbols arrive), if all that cross `dead` are lost. Quotas are the shares of N rounded down or
/// up; paths that are dead are taken to carry those rounded up.
fn shortfall(n: usize, k: usize, paths: &[PathOutlook], dead: Option<LinkId>) -> f64 {
    let dies = |path: &&PathOutlook| path.loss >= 1.0 || dead.is_some_and(|link| path.links.contains(&link));
    let total: f64 = paths.iter().map(|path| path.share).sum();
    let symbols = |path: &PathOutlook| n as f64 * path.share / total;
    let taken: usize = paths.iter().filter(dies).map(|path| (symbols(path) - 1e-9).ceil() as usize).sum();
    let left = n.saturating_sub(taken);
    let living = || paths.iter().filter(|path| !dies(path));
    let living_share: f64 = living().map(|path| path.share).sum();
    let (mut assigned, mut passed) = (0, 0.0);
    let quotas = living().map(|path| {
        passed += path.share / living_share * left as f64;
        let quota = (passed.round() as usize).min(left) - assigned;
        assigned += quota;
        (quota, path.loss)
    });
    shortfall_probability(&quotas.collect::<Vec<_>>(), k)
}

/// How many bursts of losses `n` symbols meet in the mean: no fewer than the share of blocks that lose anything. The
/// longer the bursts are the fewer blocks pay for them, and the less does redundancy help those that do.
fn bursts_met(n: usize, paths: &[PathOutlook]) -> f64 {
    let met = |path: &PathOutlook| {
        let burst = f64::midpoint(path.dispersion, 1.0);
        path.loss * (n as f64 * path.share + burst - 1.0) / burst
    };
    paths.iter().map(met).sum()
}

/// The links that a block can be made to survive: those that do not carry too much of it.
pub(crate) fn maskable_links(paths: &[PathOutlook], limit: f64) -> Vec<LinkId> {
    let crossings = crossings(paths);
    crossings.links().filter(|link| share_over(&crossings, paths, *link) <= limit + ROUNDING).collect()
}

/// The links that no redundancy can mask within the limit.
pub(crate) fn unmaskable_links(paths: &[PathOutlook], limit: f64) -> Vec<LinkId> {
    let crossings = crossings(paths);
    crossings.links().filter(|link| share_over(&crossings, paths, *link) > limit + ROUNDING).collect()
}

/// Lowers the shares of the paths over links that carry a little more than `limit`, so that these can be masked: what
/// the others carry must replace them, and more than that they cannot use.
pub(crate) fn hold_back(paths: &mut [PathOutlook], limit: f64) {
    let reach = limit.max(HELD_BACK);
    let crossings = crossings(paths);
    let largest = |paths: &[PathOutlook]| {
        let shares = crossings.links().map(|link| (link, share_over(&crossings, paths, link)));
        shares
            .filter(|(_, share)| *share > limit + 1e-6 && *share <= reach)
            .max_by(|a, b| a.1.total_cmp(&b.1))
    };
    for _ in 0..paths.len() {
        let Some((link, share)) = largest(paths) else { return };
        // Its paths get limit / (1 - limit) times what all others have; then all shares sum to 1 again.
        let (inside, outside) = (limit / share, (1.0 - limit) / (1.0 - share));
        let before = paths.to_vec();
        for path in paths.iter_mut() {
            path.share *= if path.links.contains(&link) { inside } else { outside };
        }
        if largest(paths).is_some_and(|(_, after)| after > share - 1e-6) {
            // Others would carry as much in its place.
            paths.clone_from_slice(&before);
            return;
        }
    }
}

fn crossings(paths: &[PathOutlook]) -> Crossings {
    Crossings::new(paths.iter().map(|path| path.links.iter().copied()))
}

fn share_over(crossings: &Crossings, paths: &[PathOutlook], link: LinkId) -> f64 {
    crossings.sum(link, |path| paths[path].share)
}

/// FEC(K, loss) of `ror` [theory §2].
fn law(size: BlockSize, residual: f64, loss: f64) -> usize {
    let BlockSize { k, most } = size;
    let length = BlockLaw::new(k as u32, residual).and_then(|law| law.block_length(loss.min(MAX_LOSS)));
    length.map_or(most, |length| (length as usize).min(most))
}

/// The residual of a block: short bulk blocks are waited for.
fn residual(k: usize, urgent: bool, protection: &Protection) -> f64 {
    match k {
        _ if urgent => protection.residual,
        ..SMALL_BLOCK => protection.residual.min(SMALL_RESIDUAL),
        SMALL_BLOCK..SHORT_BLOCK => protection.residual.min(SHORT_RESIDUAL),
        _ => protection.residual,
    }
}

/// The path as the cache sees it.
fn rounded(path: &PathOutlook) -> PathOutlook {
    let loss = match path.loss {
        dead if dead >= 1.0 => 1.0,
        clean if clean < SMALLEST_LOSS => 0.0,
        loss => LOSS_STEP.powi(loss_step(loss.min(MAX_LOSS))),
    };
    let share = (path.share * SHARE_STEPS).round().max(1.0) / SHARE_STEPS;
    let dispersion = (path.dispersion * 4.0).round() / 4.0;
    PathOutlook { loss, share, dispersion, ..path.clone() }
}

fn loss_step(loss: f64) -> i32 {
    (loss.ln() / LOSS_STEP.ln()).round() as i32
}

impl Situation {
    fn of(size: BlockSize, urgent: bool, masked: bool, paths: &[PathOutlook]) -> Situation {
        let path = |path: &PathOutlook| {
            let loss = if path.loss == 0.0 { i32::MIN } else { loss_step(path.loss) };
            let share = (path.share * SHARE_STEPS).round() as u16;
            (share, loss, (path.dispersion * 4.0).round() as u16, path.links.clone())
        };
        Situation { size, urgent, masked, paths: paths.iter().map(path).collect() }
    }
}

/// How many further symbols to send for a block that lacks `deficit`, if packets are lost with probability `loss`.
///
/// The first repair allows for the expected loss and one deviation of it; each later `round` doubles that margin and
/// adds a symbol, because by then waiting costs more than bytes.
pub(crate) fn repair_symbols(deficit: usize, loss: f64, round: u8) -> usize {
    let loss = loss.min(0.9);
    let needed = deficit as f64;
    let deviation = (needed * loss).sqrt() / (1.0 - loss);
    let margin = deviation * f64::from(1u16 << round.min(4));
    (needed / (1.0 - loss) + margin).ceil() as usize + usize::from(round.min(8))
}

#[cfg(test)]
mod tests;
