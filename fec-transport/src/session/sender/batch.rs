//! Symbols of one block that leave together.

use crate::run::Symbols;
use crate::session::block::SendBlock;
use crate::session::path::PathId;
use crate::session::sender::SendCounters;
use crate::time::Time;
use crate::wire::symbol::SymbolHeader;

/// Symbols of one block that were chosen for one path and have not been sent; all of `count` must be.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    pub(super) block: &'a mut SendBlock,
    pub(super) counters: &'a mut SendCounters,
    /// How many symbols.
    pub(crate) count: usize,
    /// The encoding id of the first, once its header was emitted; the others follow.
    pub(super) first: Option<u16>,
}

impl Batch<'_> {
    /// Whether somebody waits for them.
    pub(crate) fn is_urgent(&self) -> bool {
        self.block.class.is_urgent()
    }

    /// Bytes of each symbol.
    pub(crate) fn symbol_size(&self) -> usize {
        self.block.geometry().symbol_size
    }

    /// Appends the header of the next symbol; gives whether it repairs.
    pub(crate) fn emit(&mut self, out: &mut Vec<u8>) -> bool {
        let (encoding_id, is_repair) = self.block.encode_next();
        self.first.get_or_insert(encoding_id);
        self.counters.count(encoding_id, self.block);
        SymbolHeader { encoding_id, block: self.block.header }.emit(out);
        is_repair
    }

    /// The symbols, once their headers were emitted.
    pub(crate) fn symbols(&mut self, symbols: &mut Vec<Symbols>) {
        if let Some(first) = self.first {
            self.block.encode(first, self.count, symbols);
        }
    }

    /// Notes that the symbol left on `path` as packet `number`.
    pub(crate) fn sent(&mut self, path: PathId, number: u64, now: Time) {
        self.block.sent(path, number, now);
    }
}
