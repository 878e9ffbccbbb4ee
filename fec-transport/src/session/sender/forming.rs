//! How blocks are formed: which stream has its turn, how large the block is, and how many symbols each path carries.

use super::{CONTROL_STREAM, LivingPath, Sender};
use crate::config::{Codec as CodecChoice, Policy, Protection, Spreading};
use crate::crypto::random::Random;
use crate::limits::{MAX_BLOCK_SPAN, MAX_REED_SOLOMON};
use crate::session::block::SendBlock;
use crate::session::rate::BUSY;
use crate::session::redundancy::{PathOutlook, hold_back, unmaskable_links};
use crate::session::spread::random_quotas;
use crate::session::stream::{Class, SendStream};
use crate::time::Time;
use crate::wire::symbol::{BlockHeader, Codec};

/// Beyond this rate, in bit/s, RaptorQ's decoding would be the limit: half of what one core decodes (theory §3).
const RAPTORQ_RATE: f64 = 2e9;
/// What of a block's time a masked block may make somebody wait; the rest is for queues, which vary by 10 ms.
const MASKED_TIME: f64 = 0.8;
/// Source symbols of the smallest masked block: with fewer, rounding to whole symbols on each path costs more than the mask.
const SMALLEST_MASKED: usize = 16;
/// By how much of its share in a masked block a path may get more or less, to fall into step with the others.
const STEP: f64 = 0.1;
/// Bytes that headers add to a symbol on the link: 60 of ours and 28 of IPv4 and UDP (design §8).
const HEADERS: usize = 88;

impl Sender {
    pub(super) fn protection(&self, class: Class) -> &Protection {
        if class.is_urgent() { &self.coding.interactive } else { &self.coding.bulk }
    }

    /// Whether all block numbers were given: after 43 hours of Reed–Solomon blocks at 10 Gbit/s.
    pub(crate) fn is_used_up(&self) -> bool {
        self.next_block == u32::MAX
    }

    #[cfg(test)]
    pub(in crate::session) fn use_up(&mut self) {
        self.next_block = u32::MAX;
    }

    pub(super) fn may_open_block(&self) -> bool {
        let oldest = self.blocks.first_key_value().map_or(self.next_block, |(id, _)| *id);
        !self.is_used_up()
            && self.blocks.len() < self.open_blocks
            && self.next_block - oldest < MAX_BLOCK_SPAN
            && self.source_bytes < self.send_memory
    }

    /// Source symbols of a full block of that class, if the paths have `rate` bit/s together.
    fn full_block(&self, class: Class, rate: f64) -> usize {
        if class.is_urgent() {
            return self.coding.interactive_symbols;
        }
        let raptorq = match self.coding.codec {
            CodecChoice::Auto => rate <= RAPTORQ_RATE,
            CodecChoice::RaptorQ => true,
            CodecChoice::ReedSolomon => false,
        };
        if !raptorq {
            return MAX_REED_SOLOMON;
        }
        // The time of a block is that of all its symbols.
        let packet = (self.coding.symbol_size + HEADERS) as f64 * 8.0 * self.expansion;
        let symbols = rate * self.usable * self.block_time() / packet;
        let symbols = (symbols as usize).min(*self.coding.bulk_symbols.end());
        match symbols.max(*self.coding.bulk_symbols.start()) {
            // The smallest block would take too long for the mask to hide a dead link.
            least if least > symbols && self.coding.bulk.mask > 0 => {
                symbols.clamp(SMALLEST_MASKED, MAX_REED_SOLOMON)
            }
            symbols => symbols,
        }
    }

    /// For how long a bulk block fills the session's rate, in seconds.
    ///
    /// While all links live, a masked block is whole before its redundancy has been sent; once one is dead, only at its
    /// end. So that this pause, too, is no longer than the time of a block, masked blocks are shorter.
    fn block_time(&self) -> f64 {
        let time = self.coding.block_time.as_secs_f64();
        if self.coding.bulk.mask == 0 { time } else { MASKED_TIME * time / (2.0 - 1.0 / self.expansion) }
    }

    /// The stream of that urgency whose turn it is to form a block: control first, then one after the other.
    pub(super) fn next_stream(&self, now: Time, rate: f64, urgent: bool) -> Option<u32> {
        let has_room = if urgent { self.urgent.has_room() } else { self.bulk.has_room() };
        if !has_room || !self.may_open_block() {
            return None;
        }
        let can_form = |(_, stream): &(&u32, &SendStream)| {
            let full = self.full_block(stream.class, rate) * self.coding.symbol_size;
            let timer = self.protection(stream.class).block_timer;
            stream.class.is_urgent() == urgent && stream.can_form(now, full, timer)
        };
        let control = self.streams.range(..=CONTROL_STREAM);
        let after = self.streams.range(self.last_served + 1..);
        let before = self.streams.range(CONTROL_STREAM + 1..=self.last_served.max(CONTROL_STREAM + 1));
        control.chain(after).chain(before).find(can_form).map(|(id, _)| *id)
    }

    /// Whether a path with nothing to do may carry what belongs to another: not where the shares matter.
    pub(super) fn may_take_over(&self) -> bool {
        let bulk = &self.coding.bulk;
        bulk.policy == Policy::Throughput && bulk.mask == 0 && self.coding.spread == Spreading::Quotas
    }

    /// Forms the next block of that urgency; false if there is none to form.
    pub(super) fn form_block(
        &mut self,
        now: Time,
        urgent: bool,
        paths: &[LivingPath],
        random: &mut Random,
    ) -> bool {
        let rate = total_rate(paths);
        let Some(number) = self.next_stream(now, rate, urgent) else { return false };
        let Some(class) = self.streams.get(&number).map(|stream| stream.class) else { return false };
        let (symbols, largest) = (self.full_block(class, rate), self.coding.symbol_size);
        let Some(stream) = self.streams.get_mut(&number) else { return false };
        let formed = stream.form(now, symbols, largest);
        let header = BlockHeader {
            id: self.next_block,
            stream: number,
            offset: formed.offset,
            length: formed.length as u32,
            last: formed.last,
            codec: formed.geometry.codec,
        };
        let mut block = SendBlock::new(header, formed.geometry, formed.source, class, now);
        if urgent {
            let packet = (formed.geometry.symbol_size + HEADERS) as f64 * 8.0;
            self.demand.note(now, formed.geometry.source_symbols as f64 * packet);
        }
        block.quotas = self.quotas(&block, paths, random);
        self.enter(now, block);
        self.last_served = number;
        true
    }

    fn quotas(
        &mut self,
        block: &SendBlock,
        paths: &[LivingPath],
        random: &mut Random,
    ) -> Vec<(super::PathId, u16)> {
        let protection = self.protection(block.class).clone();
        let mut outlook = outlook(paths, protection.policy, block.class.is_urgent());
        let masks_by_quotas = protection.mask > 0 && self.coding.spread == Spreading::Quotas;
        if masks_by_quotas {
            hold_back(&mut outlook, self.coding.mask_limit);
        }
        if protection.mask > 0 {
            let unmaskable = unmaskable_links(&outlook, self.coding.mask_limit);
            self.unmaskable.insert(block.class.is_urgent(), unmaskable);
        }
        if block.class == Class::Bulk {
            self.usable = usable(&outlook, paths);
            if masks_by_quotas {
                self.fall_into_step(&mut outlook, block.source_symbols());
                hold_back(&mut outlook, self.coding.mask_limit);
            }
        }
        let (source_symbols, urgent) = (block.source_symbols(), block.class.is_urgent());
        let symbols = self.redundancy.first_sending(source_symbols, urgent, &protection, &outlook);
        let mut quotas = match self.coding.spread {
            Spreading::Quotas => self.spread.quotas(symbols, &outlook),
            Spreading::Random => random_quotas(symbols, &outlook, random),
        };
        if masks_by_quotas && urgent && self.is_message(block) {
            self.fit(block, &outlook, paths, &mut quotas);
        }
        quotas
    }

    /// Whether a block is all that its stream had to send: not a piece of something longer, whose writer waits for it.
    fn is_message(&self, block: &SendBlock) -> bool {
        self.streams.get(&block.header.stream).is_some_and(|stream| stream.buffered() == 0)
    }

    /// Where the mask would make a path busy, the path gives up the mask as far as it must: a queue stands on a busy path,
    /// and copies that make all messages late mask nothing.
    fn fit(
        &mut self,
        block: &SendBlock,
        outlook: &[PathOutlook],
        paths: &[LivingPath],
        quotas: &mut [(super::PathId, u16)],
    ) {
        let per_source_symbol = self.demand.rate(block.formed) / block.source_symbols() as f64;
        let room = |id| rate_of(paths, id) * BUSY / per_source_symbol;
        if quotas.iter().all(|(id, quota)| f64::from(*quota) <= room(*id)) {
            return;
        }
        let unmasked = Protection { mask: 0, ..self.protection(block.class).clone() };
        let needed = self.redundancy.first_sending(block.source_symbols(), true, &unmasked, outlook);
        for ((id, quota), path) in quotas.iter_mut().zip(outlook) {
            let needed = f64::from(needed) * path.share;
            *quota = (*quota).min(room(*id).max(needed.ceil()) as u16);
        }
    }

    /// Gives paths that are behind the others with older blocks less of the next one, and those ahead more, so that all of
    /// them end it together: with a link dead, everybody waits for the last path, and by itself none would ever catch up.
    fn fall_into_step(&self, outlook: &mut [PathOutlook], source_symbols: usize) {
        let symbols = source_symbols as f64 * self.expansion;
        let backlog = |id| self.bulk.backlog(&self.blocks, id) as f64;
        let all: f64 = outlook.iter().map(|path| backlog(path.id)).sum();
        for path in outlook.iter_mut() {
            // What it would have of all that waits if it were in step, in shares of the block.
            let ahead = (path.share * all - backlog(path.id)) / symbols;
            path.share += ahead.clamp(-STEP * path.share, STEP * path.share);
        }
        let total: f64 = outlook.iter().map(|path| path.share).sum();
        outlook.iter_mut().for_each(|path| path.share /= total);
    }

    /// Puts a block on its way.
    fn enter(&mut self, now: Time, block: SendBlock) {
        let id = block.header.id;
        if block.header.stream != CONTROL_STREAM {
            if self.data_blocks == 0 {
                self.acknowledged.resume(now);
            }
            self.data_blocks += 1;
        }
        if let Some(at) = block.class.deadline(now) {
            self.deadlines.insert((at, id));
        }
        let repairs = block.unsent() > block.source_symbols();
        if repairs && block.geometry().codec == Codec::RaptorQ {
            self.to_encode.push_back(id);
        }
        if block.class == Class::Bulk {
            self.expansion = (block.unsent() as f64 / block.source_symbols() as f64).max(1.0);
        }
        self.source_bytes += block.source_bytes();
        self.counters.blocks += 1;
        self.lane(block.class).begin(id);
        self.blocks.insert(id, block);
        self.next_block += 1;
    }
}

/// The rate of all trusted paths together, in bit/s.
fn total_rate(paths: &[LivingPath]) -> f64 {
    paths.iter().filter(|path| path.is_trusted).map(|path| path.rate).sum()
}

/// The rate of one of `paths`, in bit/s.
fn rate_of(paths: &[LivingPath], id: super::PathId) -> f64 {
    paths.iter().find(|path| path.id == id).map_or(0.0, |path| path.rate)
}

/// The share of the paths' rate that quotas by these shares can use.
fn usable(outlook: &[PathOutlook], paths: &[LivingPath]) -> f64 {
    let total = total_rate(paths);
    let pace =
        outlook.iter().filter(|path| path.share > 0.0).map(|path| rate_of(paths, path.id) / path.share);
    pace.fold(total, f64::min) / total.max(1.0)
}

/// What redundancy and spreading look at: the trusted paths, for messages all living ones, and their shares by the policy.
fn outlook(paths: &[LivingPath], policy: Policy, urgent: bool) -> Vec<PathOutlook> {
    let weight = |path: &LivingPath| match policy {
        Policy::Resilient => path.planned_share,
        Policy::Throughput => path.rate,
    };
    let trusted = || paths.iter().filter(|path| path.is_trusted || urgent);
    let total: f64 = trusted().map(weight).sum();
    let path = |path: &LivingPath| PathOutlook {
        id: path.id,
        share: if total > 0.0 { weight(path) / total } else { 1.0 / trusted().count() as f64 },
        loss: path.loss,
        dispersion: path.dispersion,
        links: path.links.clone(),
    };
    trusted().map(path).collect()
}
