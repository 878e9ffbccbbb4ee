//! A block on its way from the peer.

use crate::session::code::{ReceivedSymbols, allows, code};
use crate::wire::symbol::{BlockHeader, source_symbols};

/// So many symbols beyond K determine a RaptorQ block, but for one in 10¹⁸: each symbol, from the K-th on, leaves about
/// one in a hundred of those undetermined that were. Only a peer that chooses its symbols to that end gets here.
const MOST_BEYOND: usize = 8;

/// A block on its way from the peer.
#[derive(Debug)]
pub(crate) struct ReceiveBlock {
    header: BlockHeader,
    encoding_ids: usize,
    symbols: ReceivedSymbols,
    /// With how many symbols to try to decode: K, then 1, 2, 4 and 8 more.
    enough: usize,
}

/// A symbol that contradicts the protocol or its own block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadSymbol {
    #[error("a symbol of {0} bytes")]
    SymbolSize(usize),
    #[error("a block of {0} source symbols")]
    SourceSymbols(usize),
    #[error("encoding id {0}")]
    EncodingId(u16),
    #[error("two symbols of block {0} that contradict each other")]
    Contradiction(u32),
    #[error(
        "symbols of block {0} that do not determine it, though there are {MOST_BEYOND} more than it takes"
    )]
    Undetermined(u32),
}

impl ReceiveBlock {
    /// The block that a first symbol of `symbol_size` bytes announces.
    pub(crate) fn new(header: BlockHeader, symbol_size: usize) -> Result<ReceiveBlock, BadSymbol> {
        let length = header.length as usize;
        let single = length == symbol_size;
        if !single && (symbol_size == 0 || !symbol_size.is_multiple_of(8) || length < symbol_size) {
            return Err(BadSymbol::SymbolSize(symbol_size));
        }
        let symbols = source_symbols(length, symbol_size);
        if !allows(header.codec, symbols) {
            return Err(BadSymbol::SourceSymbols(symbols));
        }
        Ok(ReceiveBlock {
            header,
            encoding_ids: code(header.codec, symbols).encoding_ids(),
            symbols: ReceivedSymbols::new(symbols, symbol_size),
            enough: symbols,
        })
    }

    pub(crate) fn header(&self) -> BlockHeader {
        self.header
    }

    /// Takes a symbol; gives whether it was new.
    pub(crate) fn insert(
        &mut self,
        header: &BlockHeader,
        encoding_id: u16,
        symbol: &[u8],
    ) -> Result<bool, BadSymbol> {
        if *header != self.header || symbol.len() != self.symbols.symbol_size() {
            return Err(BadSymbol::Contradiction(header.id));
        }
        if usize::from(encoding_id) >= self.encoding_ids {
            return Err(BadSymbol::EncodingId(encoding_id));
        }
        Ok(!self.may_decode() && self.symbols.insert(encoding_id, symbol))
    }

    /// How many of the K symbols that it takes are here. After a decoder that was not content with K, fewer.
    pub(crate) fn rank(&self) -> usize {
        let lacking = self.enough.saturating_sub(self.symbols.count());
        self.symbols.source_symbols().saturating_sub(lacking)
    }

    /// Whether it is worth decoding.
    pub(crate) fn may_decode(&self) -> bool {
        self.symbols.missing() == 0 || self.symbols.count() >= self.enough
    }

    /// Whether all source symbols are here, so that there is nothing to compute.
    pub(crate) fn is_whole(&self) -> bool {
        self.symbols.missing() == 0
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.symbols.memory()
    }

    /// Bytes of memory beyond the length that credit counts.
    pub(crate) fn excess(&self) -> u64 {
        (self.memory() as u64).saturating_sub(u64::from(self.header.length))
    }

    /// Whether it was tried as often as it ever is, and failed: no honest sender's block comes to that.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.enough > self.symbols.source_symbols() + MOST_BEYOND
    }

    /// The block's bytes. Computes only what was lost.
    ///
    /// # Errors
    /// The block itself, if its symbols do not determine it: it needs more, or [is hopeless](Self::is_hopeless).
    pub(crate) fn decode(mut self) -> Result<Vec<u8>, Box<ReceiveBlock>> {
        match code(self.header.codec, self.symbols.source_symbols()).decode(&mut self.symbols) {
            Ok(()) => {
                let mut bytes = self.symbols.into_source();
                bytes.truncate(self.header.length as usize);
                Ok(bytes)
            }
            Err(_) => {
                let beyond = self.enough - self.symbols.source_symbols();
                self.enough += beyond.max(1);
                Err(Box::new(self))
            }
        }
    }
}
