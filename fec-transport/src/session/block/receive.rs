//! A block on its way from the peer.

use crate::session::code::{ReceivedSymbols, allows, code};
use crate::wire::symbol::{BlockHeader, source_symbols};

/// After so many decodings that fail, at K, K + 1, K + 3 and K + 7 symbols, the sender has chosen symbols that do not
/// determine their block. RaptorQ fails with K + h symbols once in 256^(h + 1) times or so (RFC 6330 §1): an honest
/// sender meets this once in 10¹⁹ blocks.
pub(crate) const MAX_FAILURES: u32 = 4;

/// A block on its way from the peer.
#[derive(Debug)]
pub(crate) struct ReceiveBlock {
    header: BlockHeader,
    encoding_ids: usize,
    symbols: ReceivedSymbols,
    /// With how many symbols to try to decode: K, and after each failure 1, 2, 4 more than there were.
    enough: usize,
    /// Decodings that have failed.
    failures: u32,
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
            failures: 0,
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

    /// Whether more symbols are not worth waiting for; see [`MAX_FAILURES`].
    pub(crate) fn is_hopeless(&self) -> bool {
        self.failures >= MAX_FAILURES
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.symbols.memory()
    }

    /// The block's bytes. Computes only what was lost.
    ///
    /// # Errors
    /// The block itself, if its symbols do not determine it: it needs more.
    pub(crate) fn decode(mut self) -> Result<Vec<u8>, Box<ReceiveBlock>> {
        match code(self.header.codec, self.symbols.source_symbols()).decode(&mut self.symbols) {
            Ok(()) => {
                let mut bytes = self.symbols.into_source();
                bytes.truncate(self.header.length as usize);
                Ok(bytes)
            }
            Err(_) => {
                self.enough = self.symbols.count() + (1 << self.failures);
                self.failures += 1;
                Err(Box::new(self))
            }
        }
    }
}
