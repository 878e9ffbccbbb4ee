//! Which code a block gets, and how many source symbols a full one has: one decision, from the class of its stream, the
//! session's rate, and what its paths lose. docs/decisions/redundancy.md has the table that it follows.

use super::forming::HEADERS;
use crate::config::{Codec as Configured, Coding, Protection};
use crate::limits::{MAX_RAPTORQ, MAX_REED_SOLOMON};
use crate::session::block::FullBlock;
use crate::session::code::REED_SOLOMON_SYMBOLS;
use crate::session::redundancy::PathOutlook;
use crate::session::stream::Class;
use crate::wire::symbol::Codec;

/// Beyond this rate, in bit/s, RaptorQ's decoding would be the limit: half of what one core decodes (theory §3).
const RAPTORQ_RATE: f64 = 2e9;
/// RaptorQ takes a tenth of a core for each Gbit/s more than Reed–Solomon does: its longer blocks must save so much of
/// what is sent to be worth that.
const WORTH: f64 = 0.02;
/// What a Reed–Solomon block keeps for bursts that nobody has measured: the 44 packets of a run that meets a full
/// socket, and some more.
const RESERVE: usize = 48;
/// So many standard deviations of its losses above the mean can be made up for by the symbols that a Reed–Solomon block
/// has, the repairs included: one block in 30,000 needs more, and is sent again.
const MARGIN: f64 = 4.0;
/// What a first sending has more than what is lost in the mean, in standard deviations, with what is repaired: the
/// residual of a bulk block is 0.35.
const FIRST_SENDING: f64 = 0.7;
/// The part of a block's time for which a masked block may keep its reader waiting; the rest is for queues, which vary
/// by 10 ms.
const MASKED_TIME: f64 = 0.8;
/// Source symbols of the smallest block that is cut short by what it must bear: with fewer, rounding to whole symbols
/// on each path costs more than a mask.
const SMALLEST: usize = 16;
/// No more than this is made up for by redundancy.
const MAX_LOSS: f64 = 0.5;

/// What the latest bulk block was formed under.
#[derive(Debug, Clone)]
pub(super) struct Circumstances {
    /// Symbols of its first sending over its source symbols.
    expansion: f64,
    /// The share of the paths' rate that its quotas can use: the slowest path for its share sets the pace.
    usable: f64,
    /// What its paths lose, and how much more it varies than independent losses do; both in the mean.
    loss: f64,
    dispersion: f64,
}

impl Default for Circumstances {
    fn default() -> Circumstances {
        Circumstances { expansion: 1.0, usable: 1.0, loss: 0.0, dispersion: 1.0 }
    }
}

impl Circumstances {
    /// Symbols of the latest block's first sending over its source symbols.
    pub(super) fn expansion(&self) -> f64 {
        self.expansion
    }

    /// Takes note of how many symbols a block's first sending has for one source symbol.
    pub(super) fn note_expansion(&mut self, expansion: f64) {
        self.expansion = expansion.max(1.0);
    }

    /// Takes note of the paths that a bulk block is formed for, and of the share of their rate that its quotas can use.
    pub(super) fn look(&mut self, paths: &[PathOutlook], protection: &Protection, usable: f64) {
        self.usable = usable;
        self.loss = paths
            .iter()
            .map(|path| path.share * path.loss.max(protection.tolerance))
            .sum::<f64>()
            .min(MAX_LOSS);
        self.dispersion = paths.iter().map(|path| path.share * path.dispersion).sum::<f64>().max(1.0);
    }

    /// The most source symbols of a Reed–Solomon block.
    ///
    /// The symbols less [`RESERVE`] are K, what is lost of them in the mean, and [`MARGIN`] deviations of that: solved
    /// for √K.
    /// A mask asks for more than the losses do; what it asks for shows in the latest block.
    fn reach(&self) -> usize {
        let Circumstances { expansion, loss, dispersion, .. } = *self;
        let symbols = (REED_SOLOMON_SYMBOLS - 1) as f64;
        let half = MARGIN / 2.0 * (loss * dispersion).sqrt();
        let root = (half * half + (symbols - RESERVE as f64) * (1.0 - loss)).sqrt() - half;
        let by_loss = root * root;
        (by_loss.min(symbols / expansion) as usize).clamp(SMALLEST, MAX_REED_SOLOMON)
    }

    /// What a first sending has beyond what is lost in the mean, as a share of the source symbols.
    fn excess(&self, source_symbols: usize) -> f64 {
        let variance = self.loss * self.dispersion / source_symbols as f64;
        FIRST_SENDING * variance.sqrt() / (1.0 - self.loss)
    }

    /// For how long a bulk block fills the session's rate, in seconds.
    ///
    /// While all links live, a masked block is whole before its redundancy has been sent; once one is dead, only at its
    /// end. So that this pause, too, is no longer than the time of a block, masked blocks are shorter.
    fn block_time(&self, coding: &Coding) -> f64 {
        let time = coding.block_time.as_secs_f64();
        if coding.bulk.mask == 0 { time } else { MASKED_TIME * time / (2.0 - 1.0 / self.expansion) }
    }

    /// The source symbols of a bulk block that fills the session's rate for its time.
    fn wanted(&self, coding: &Coding, rate: f64) -> usize {
        let packet = (coding.symbol_size + HEADERS) as f64 * 8.0 * self.expansion;
        let symbols = (rate * self.usable * self.block_time(coding) / packet) as usize;
        let (least, most) = (*coding.bulk_symbols.start(), *coding.bulk_symbols.end());
        match symbols.min(most).max(least) {
            // The smallest block would take too long for the mask to hide a dead link.
            least if least > symbols && coding.bulk.mask > 0 => symbols.clamp(SMALLEST, least),
            symbols => symbols,
        }
    }
}

/// A full block of that class, if the paths have `rate` bit/s together.
///
/// Reed–Solomon wherever its symbols suffice. Where they would cut blocks short, RaptorQ if its longer blocks save
/// enough, as they do where losses are large or come in long bursts.
pub(super) fn full_block(
    coding: &Coding,
    class: Class,
    rate: f64,
    circumstances: &Circumstances,
) -> FullBlock {
    let reed_solomon = |source_symbols| FullBlock { codec: Codec::ReedSolomon, source_symbols };
    if class.is_urgent() {
        return reed_solomon(coding.interactive_symbols);
    }
    let (wanted, reach) = (circumstances.wanted(coding, rate), circumstances.reach());
    let raptorq = match coding.codec {
        Configured::ReedSolomon => false,
        Configured::RaptorQ => true,
        Configured::Auto if wanted <= reach => false,
        // Whoever asks for such blocks gets them.
        Configured::Auto if *coding.bulk_symbols.start() > MAX_REED_SOLOMON => true,
        Configured::Auto => {
            rate <= RAPTORQ_RATE && circumstances.excess(reach) - circumstances.excess(wanted) > WORTH
        }
    };
    match raptorq {
        true => FullBlock { codec: Codec::RaptorQ, source_symbols: wanted.min(MAX_RAPTORQ) },
        false => reed_solomon(wanted.min(reach)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(loss: f64, dispersion: f64, rate: f64) -> FullBlock {
        let circumstances = Circumstances { loss, dispersion, ..Circumstances::default() };
        full_block(&Coding::default(), Class::Bulk, rate, &circumstances)
    }

    #[test]
    fn real_links_get_reed_solomon_blocks_as_long_as_255_symbols_allow() {
        for (loss, symbols) in [(0.0, 207), (0.01, 199), (0.05, 184), (0.1, 169), (0.2, 144)] {
            let expected = FullBlock { codec: Codec::ReedSolomon, source_symbols: symbols };
            assert_eq!(chosen(loss, 1.0, 10e9), expected, "{loss}");
            assert_eq!(chosen(loss / 2.0, 1.0, 300e6).codec, Codec::ReedSolomon, "{loss}");
        }
    }

    #[test]
    fn slow_links_get_blocks_of_their_time() {
        assert_eq!(chosen(0.05, 1.0, 12e6), FullBlock { codec: Codec::ReedSolomon, source_symbols: 101 });
        assert_eq!(chosen(0.05, 1.0, 1e6).source_symbols, 64);
    }

    #[test]
    fn raptorq_is_for_large_losses_and_long_bursts_as_long_as_it_is_fast_enough() {
        for (loss, dispersion) in [(0.4, 1.0), (0.05, 30.0)] {
            let expected = FullBlock { codec: Codec::RaptorQ, source_symbols: 1_024 };
            assert_eq!(chosen(loss, dispersion, 1e9), expected, "{loss}, {dispersion}");
            assert_eq!(chosen(loss, dispersion, 4e9).codec, Codec::ReedSolomon, "{loss}, {dispersion}");
        }
    }

    #[test]
    fn a_masked_block_leaves_room_for_what_the_mask_adds() {
        let coding = Coding { bulk: Protection { mask: 1, ..Coding::default().bulk }, ..Coding::default() };
        let doubled = Circumstances { expansion: 2.03, ..Circumstances::default() };
        let full = full_block(&coding, Class::Bulk, 1e9, &doubled);
        assert_eq!(full, FullBlock { codec: Codec::ReedSolomon, source_symbols: 125 });
        // At 4 Mbit/s 64 symbols would take too long to hide a dead link.
        assert_eq!(full_block(&coding, Class::Bulk, 4e6, &doubled).source_symbols, 16);
    }
}
