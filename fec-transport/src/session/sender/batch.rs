//! Symbols of one block that leave together.

use crate::session::block::SendBlock;
use crate::session::paths::PathId;
use crate::session::run::Symbols;
use crate::session::sender::SendCounters;
use crate::time::Time;
use crate::wire::symbol::SymbolHeader;

/// Symbols of one block that were chosen for one path and have not been sent; all of `count` must be.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    block: &'a mut SendBlock,
    counters: &'a mut SendCounters,
    count: usize,
    /// The encoding ids of those whose headers were emitted, in runs: the first one and how many follow each other.
    runs: Vec<(u16, usize)>,
    /// The last of them.
    latest: u16,
}

impl<'a> Batch<'a> {
    pub(super) fn new(block: &'a mut SendBlock, counters: &'a mut SendCounters, count: usize) -> Batch<'a> {
        Batch { block, counters, count, runs: Vec::new(), latest: 0 }
    }

    /// How many symbols they are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether somebody waits for them.
    pub(crate) fn is_urgent(&self) -> bool {
        self.block.class().is_urgent()
    }

    /// Bytes of each symbol.
    pub(crate) fn symbol_size(&self) -> usize {
        self.block.geometry().symbol_size
    }

    /// Appends the header of the next symbol; gives whether it repairs.
    pub(crate) fn emit(&mut self, out: &mut Vec<u8>) -> bool {
        let (encoding_id, is_repair) = self.block.encode_next();
        let is_next =
            |(first, count): &&mut (u16, usize)| usize::from(*first) + *count == usize::from(encoding_id);
        match self.runs.last_mut().filter(is_next) {
            Some((_, count)) => *count += 1,
            None => self.runs.push((encoding_id, 1)),
        }
        self.latest = encoding_id;
        self.count_symbol(encoding_id);
        SymbolHeader { encoding_id, block: self.block.header() }.emit(out);
        is_repair
    }

    fn count_symbol(&mut self, encoding_id: u16) {
        let SendCounters { source_symbols, redundancy_symbols, repair_symbols, .. } = &mut *self.counters;
        let is_source = usize::from(encoding_id) < self.block.source_symbols();
        *match (self.block.is_repaired(), is_source) {
            (true, _) => repair_symbols,
            (false, true) => source_symbols,
            (false, false) => redundancy_symbols,
        } += 1;
    }

    /// The symbols, once their headers were emitted.
    pub(crate) fn symbols(&mut self) -> Vec<Symbols> {
        let mut symbols = Vec::new();
        for (first, count) in &self.runs {
            self.block.encode(*first, *count, &mut symbols);
        }
        symbols
    }

    /// Notes that the latest symbol left on `path` as packet `number`.
    pub(crate) fn sent(&mut self, path: PathId, number: u64, now: Time) {
        self.block.sent(self.latest, path, number, now);
    }
}
