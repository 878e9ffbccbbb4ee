//! Symbols of one block that leave together.

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

    /// Appends the next symbol with its header; gives whether it repairs.
    pub(crate) fn emit(&mut self, out: &mut Vec<u8>) -> bool {
        let (encoding_id, is_repair) = self.block.encode_next();
        self.counters.count(encoding_id, self.block);
        SymbolHeader { encoding_id, block: self.block.header }.emit(out);
        self.block.encode(encoding_id, out);
        is_repair
    }

    /// Notes that the symbol left on `path` as packet `number`.
    pub(crate) fn sent(&mut self, path: PathId, number: u64, now: Time) {
        self.block.sent(path, number, now);
    }
}
