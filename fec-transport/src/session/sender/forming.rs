//! How blocks are formed: how large they are, and how many symbols each path carries.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::LivingPath;
use super::choice::{self, Circumstances};
use super::demand::Demand;
use crate::config::{Coding, Policy, Protection, Spreading};
use crate::crypto::random::Random;
use crate::overlay::LinkId;
use crate::session::block::{FullBlock, Geometry, SendBlock};
use crate::session::paths::PathId;
use crate::session::rate::NEARLY;
use crate::session::redundancy::{PathOutlook, Redundancy, hold_back, unmaskable_links};
use crate::session::spread::{Spread, random_quotas};
use crate::session::stream::Class;
use crate::time::Time;
use crate::wire::{IP_UDP_HEADERS, SYMBOL_OVERHEAD};

/// Over a path with a shorter round trip, redundancy makes up for losses that were measured, and for no others.
const NEAR: Duration = Duration::from_millis(1);
/// The part of its share in a masked block that a path may get more or less, to fall into step with the others.
const STEP: f64 = 0.1;
/// Bytes that headers add to a symbol on the link: 64 of ours and 28 of IPv4 and UDP (design §8).
pub(super) const HEADERS: usize = SYMBOL_OVERHEAD + IP_UDP_HEADERS;

/// What decides on blocks: how large they are, and how many of their symbols each path carries.
#[derive(Debug)]
pub(super) struct Forming {
    coding: Coding,
    redundancy: Redundancy,
    spread: Spread,
    /// Under which the latest bulk block was formed.
    circumstances: Circumstances,
    demand: Demand,
    /// Links that the latest masked block does not mask, of urgent blocks (true) and of bulk.
    unmaskable: BTreeMap<bool, Vec<LinkId>>,
}

impl Forming {
    pub(super) fn new(coding: &Coding) -> Forming {
        Forming {
            coding: coding.clone(),
            redundancy: Redundancy::new(coding),
            spread: Spread::default(),
            circumstances: Circumstances::default(),
            demand: Demand::default(),
            unmaskable: BTreeMap::new(),
        }
    }

    /// Bytes of a symbol of a full block.
    pub(super) fn symbol_size(&self) -> usize {
        self.coding.symbol_size
    }

    /// Blocks have symbols of at most so many bytes from now on.
    pub(super) fn set_symbol_size(&mut self, bytes: usize) {
        self.coding.symbol_size = bytes;
    }

    /// The links that carry too large a share of the latest masked blocks to be masked.
    pub(super) fn unmaskable(&self) -> BTreeSet<LinkId> {
        self.unmaskable.values().flatten().copied().collect()
    }

    pub(super) fn protection(&self, class: Class) -> &Protection {
        if class.is_urgent() { &self.coding.interactive } else { &self.coding.bulk }
    }

    /// Whether a path with nothing to do may carry what belongs to another: not where the shares matter.
    pub(super) fn may_take_over(&self) -> bool {
        let bulk = &self.coding.bulk;
        bulk.policy == Policy::Throughput && bulk.mask == 0 && self.coding.spread == Spreading::Quotas
    }

    /// A full block of that class, if the paths have `rate` bit/s together.
    pub(super) fn full_block(&self, class: Class, rate: f64) -> FullBlock {
        choice::full_block(&self.coding, class, rate, &self.circumstances)
    }

    /// Takes note of an urgent block with so many source symbols of so many bytes.
    pub(super) fn note_demand(&mut self, now: Time, geometry: Geometry) {
        let packet = (geometry.symbol_size + HEADERS) as f64 * 8.0;
        self.demand.note(now, geometry.source_symbols as f64 * packet);
    }

    /// Takes note of what a bulk block's first sending has more than its source symbols.
    pub(super) fn note_expansion(&mut self, block: &SendBlock) {
        self.circumstances.note_expansion(block.unsent() as f64 / block.source_symbols() as f64);
    }

    /// How many symbols of a block each path carries. `backlog` tells how many symbols of older bulk blocks a path
    /// still has to carry; `is_message`, whether the block is all that its stream had to send.
    pub(super) fn quotas(
        &mut self,
        block: &SendBlock,
        paths: &[LivingPath],
        is_message: bool,
        backlog: impl Fn(PathId) -> usize,
        random: &mut Random,
    ) -> Vec<(PathId, u16)> {
        let protection = self.protection(block.class()).clone();
        let mut outlook = outlook(paths, &protection, block.class().is_urgent());
        let masks_by_quotas = protection.mask > 0 && self.coding.spread == Spreading::Quotas;
        if masks_by_quotas {
            hold_back(&mut outlook, self.coding.mask_limit);
        }
        if protection.mask > 0 {
            let unmaskable = unmaskable_links(&outlook, self.coding.mask_limit);
            self.unmaskable.insert(block.class().is_urgent(), unmaskable);
        }
        if block.class() == Class::Bulk {
            self.circumstances.look(&outlook, &protection, usable(&outlook, paths));
            if masks_by_quotas {
                self.fall_into_step(&mut outlook, block.source_symbols(), backlog);
                hold_back(&mut outlook, self.coding.mask_limit);
            }
        }
        let urgent = block.class().is_urgent();
        let symbols = self.redundancy.first_sending(block.geometry(), urgent, &protection, &outlook);
        let mut quotas = match self.coding.spread {
            Spreading::Quotas => self.spread.quotas(symbols, &outlook),
            Spreading::Random => random_quotas(symbols, &outlook, random),
        };
        if masks_by_quotas && urgent && is_message {
            self.fit(block, &outlook, paths, &mut quotas);
        }
        quotas
    }

    /// Where the mask would make a path busy, the path gives up the mask as far as it must: a queue stands on a busy
    /// path, and copies that make all messages late mask nothing.
    fn fit(
        &mut self,
        block: &SendBlock,
        outlook: &[PathOutlook],
        paths: &[LivingPath],
        quotas: &mut [(PathId, u16)],
    ) {
        let per_source_symbol = self.demand.rate(block.formed()) / block.source_symbols() as f64;
        let room = |id| rate_of(paths, id) * NEARLY / per_source_symbol;
        if quotas.iter().all(|(id, quota)| f64::from(*quota) <= room(*id)) {
            return;
        }
        let unmasked = Protection { mask: 0, ..self.protection(block.class()).clone() };
        let needed = self.redundancy.first_sending(block.geometry(), true, &unmasked, outlook);
        for ((id, quota), path) in quotas.iter_mut().zip(outlook) {
            let needed = f64::from(needed) * path.share;
            *quota = (*quota).min(room(*id).max(needed.ceil()) as u16);
        }
    }

    /// Gives paths that are behind the others with older blocks less of the next one, and those ahead more, so that all
    /// of them end it together: with a link dead, everybody waits for the last path, and by itself none would ever
    /// catch up.
    fn fall_into_step(
        &self,
        outlook: &mut [PathOutlook],
        source_symbols: usize,
        backlog: impl Fn(PathId) -> usize,
    ) {
        let symbols = source_symbols as f64 * self.circumstances.expansion();
        let backlog = |id| backlog(id) as f64;
        let all: f64 = outlook.iter().map(|path| backlog(path.id)).sum();
        for path in outlook.iter_mut() {
            // What it would have of all that waits if it were in step, in shares of the block.
            let ahead = (path.share * all - backlog(path.id)) / symbols;
            path.share += ahead.clamp(-STEP * path.share, STEP * path.share);
        }
        let total: f64 = outlook.iter().map(|path| path.share).sum();
        outlook.iter_mut().for_each(|path| path.share /= total);
    }
}

/// The rate of all trusted paths together, in bit/s.
pub(super) fn total_rate(paths: &[LivingPath]) -> f64 {
    paths.iter().filter(|path| path.is_trusted).map(|path| path.rate).sum()
}

/// The rate of one of `paths`, in bit/s.
fn rate_of(paths: &[LivingPath], id: PathId) -> f64 {
    paths.iter().find(|path| path.id == id).map_or(0.0, |path| path.rate)
}

/// The share of the paths' rate that quotas by these shares can use.
fn usable(outlook: &[PathOutlook], paths: &[LivingPath]) -> f64 {
    let total = total_rate(paths);
    let pace =
        outlook.iter().filter(|path| path.share > 0.0).map(|path| rate_of(paths, path.id) / path.share);
    pace.fold(total, f64::min) / total.max(1.0)
}

/// What redundancy and spreading look at: the trusted paths, for messages all living ones, and their shares by the
/// policy. A path loses no less than the prior, unless it is so near that what it does lose is soon there again.
fn outlook(paths: &[LivingPath], protection: &Protection, urgent: bool) -> Vec<PathOutlook> {
    let prior = |path: &LivingPath| if path.round_trip < NEAR { 0.0 } else { protection.prior_loss };
    let weight = |path: &LivingPath| match protection.policy {
        Policy::Resilient => path.planned_share,
        Policy::Throughput => path.rate,
    };
    let trusted = || paths.iter().filter(|path| path.is_trusted || urgent);
    let total: f64 = trusted().map(weight).sum();
    let path = |path: &LivingPath| PathOutlook {
        id: path.id,
        share: if total > 0.0 { weight(path) / total } else { 1.0 / trusted().count() as f64 },
        loss: path.loss.max(prior(path)),
        dispersion: path.dispersion,
        links: path.links.clone(),
    };
    trusted().map(path).collect()
}
