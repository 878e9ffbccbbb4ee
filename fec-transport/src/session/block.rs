//! Source blocks: what a stream is cut into, and the unit of coding, of repair and of delivery.

use super::code::{Code, ENCODING_IDS, MAX_SOURCE_SYMBOLS};
use super::path::PathId;
use crate::time::Time;
use crate::wire::symbol::{BlockHeader, source_symbols};

/// The symbol size for a block of `length` bytes: the block itself if it fits into one symbol, else the smallest
/// multiple of 8 with which the block has no more symbols than with `largest`.
pub(crate) fn symbol_size(length: usize, largest: usize) -> usize {
    if length <= largest {
        length
    } else {
        length.div_ceil(source_symbols(length, largest)).next_multiple_of(8)
    }
}

/// A block on its way to the peer; it keeps its source until the peer has it.
#[derive(Debug)]
pub(crate) struct SendBlock {
    pub(crate) header: BlockHeader,
    /// K symbols of equal size, the last padded with zeros.
    source: Vec<u8>,
    source_symbols: usize,
    /// The encoding id of the next symbol: first the source symbols, then repair symbols without end.
    next_encoding_id: u16,
    /// First sending: how many symbols each path still has to carry.
    pub(crate) quotas: Vec<(PathId, u16)>,
    /// Repair symbols that were decided on and not yet sent; any path may carry them.
    pub(crate) owed: u16,
    flights: Vec<Flight>,
    /// How many independent symbols the peer is known to have.
    rank: usize,
    /// How often the block was repaired.
    pub(crate) repairs: u8,
}

/// Symbols of one block with consecutive packet numbers on one path.
#[derive(Debug, Clone, Copy)]
struct Flight {
    path: PathId,
    first: u64,
    last: u64,
    sent: Time,
}

impl SendBlock {
    /// A block of `data`, cut into symbols of at most `largest_symbol` bytes.
    pub(crate) fn new(header: BlockHeader, data: &[u8], largest_symbol: usize) -> SendBlock {
        let size = symbol_size(data.len(), largest_symbol);
        let symbols = source_symbols(data.len(), size);
        let mut source = Vec::with_capacity(symbols * size);
        source.extend_from_slice(data);
        source.resize(symbols * size, 0);
        SendBlock {
            header,
            source,
            source_symbols: symbols,
            next_encoding_id: 0,
            quotas: Vec::new(),
            owed: 0,
            flights: Vec::new(),
            rank: 0,
            repairs: 0,
        }
    }

    /// K.
    pub(crate) fn source_symbols(&self) -> usize {
        self.source_symbols
    }

    /// Draws the next symbol: gives its encoding id and whether it repeats or repairs.
    pub(crate) fn encode_next(&mut self) -> (u16, bool) {
        let id = self.next_encoding_id;
        self.next_encoding_id = (id + 1) % ENCODING_IDS as u16;
        (id, usize::from(id) >= self.source_symbols || self.repairs > 0)
    }

    /// Appends the symbol of that encoding id.
    pub(crate) fn encode(&self, encoding_id: u16, out: &mut Vec<u8>) {
        Code::of(self.source_symbols).encode(encoding_id, &self.source, out);
    }

    /// Notes that a symbol left on `path` as packet `number`.
    pub(crate) fn sent(&mut self, path: PathId, number: u64, now: Time) {
        match self.flights.last_mut() {
            Some(flight) if flight.path == path && flight.last + 1 == number => {
                (flight.last, flight.sent) = (number, now);
            }
            _ => self.flights.push(Flight { path, first: number, last: number, sent: now }),
        }
    }

    /// How many symbols of the first sending have not been sent.
    pub(crate) fn unsent(&self) -> usize {
        self.quotas.iter().map(|(_, count)| usize::from(*count)).sum()
    }

    /// Takes one symbol out of the quota of `path`, or of any path; false if there is none.
    pub(crate) fn take_quota(&mut self, path: Option<PathId>) -> bool {
        let mut fitting = self.quotas.iter_mut();
        let Some((_, count)) =
            fitting.find(|(id, count)| *count > 0 && path.is_none_or(|wanted| wanted == *id))
        else {
            return false;
        };
        *count -= 1;
        true
    }

    /// Notes the rank that the peer reported; ranks never fall, so an older report changes nothing.
    pub(crate) fn reported(&mut self, rank: u8) {
        self.rank = self.rank.max(usize::from(rank)).min(self.source_symbols);
    }

    /// Forgets the flights that have ended, as far as `fate(path, time of sending)` knows.
    pub(crate) fn settle(&mut self, fate: impl Fn(PathId, Time) -> FlightFate) {
        self.flights.retain_mut(|flight| match fate(flight.path, flight.sent) {
            FlightFate::Over => false,
            FlightFate::Flying => true,
            FlightFate::KnownUpTo(number) => {
                flight.first = flight.first.max(number + 1);
                flight.first <= flight.last
            }
        });
    }

    /// How many more symbols the peer needs beyond what is on the way or about to be.
    pub(crate) fn deficit(&self) -> usize {
        let flying: u64 = self.flights.iter().map(|flight| flight.last - flight.first + 1).sum();
        let coming = flying as usize + self.unsent() + usize::from(self.owed);
        self.source_symbols.saturating_sub(self.rank + coming)
    }
}

/// What is known of the packets of a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlightFate {
    /// They have arrived or never will.
    Over,
    /// Those up to this number have arrived or never will.
    KnownUpTo(u64),
    /// Nothing.
    Flying,
}

/// A block on its way from the peer.
#[derive(Debug)]
pub(crate) struct ReceiveBlock {
    pub(crate) header: BlockHeader,
    symbol_size: usize,
    source: Vec<u8>,
    present: Vec<bool>,
    repair: Vec<(u16, Vec<u8>)>,
}

/// A symbol that contradicts the protocol or its own block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadSymbol {
    #[error("a symbol of {0} bytes")]
    SymbolSize(usize),
    #[error("a block of {0} source symbols")]
    TooManySymbols(usize),
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
        if symbols > MAX_SOURCE_SYMBOLS {
            return Err(BadSymbol::TooManySymbols(symbols));
        }
        Ok(ReceiveBlock {
            header,
            symbol_size,
            source: vec![0; symbols * symbol_size],
            present: vec![false; symbols],
            repair: Vec::new(),
        })
    }

    /// Takes a symbol; gives whether it was new.
    pub(crate) fn insert(
        &mut self,
        header: &BlockHeader,
        encoding_id: u16,
        symbol: &[u8],
    ) -> Result<bool, BadSymbol> {
        if *header != self.header || symbol.len() != self.symbol_size {
            return Err(BadSymbol::Contradiction(header.id));
        }
        if usize::from(encoding_id) >= ENCODING_IDS {
            return Err(BadSymbol::EncodingId(encoding_id));
        }
        // All symbols of a block with one source symbol are that symbol.
        let id = if self.present.len() == 1 { 0 } else { usize::from(encoding_id) };
        if let Some(present) = self.present.get_mut(id) {
            let new = !*present;
            *present = true;
            self.source[id * self.symbol_size..][..self.symbol_size].copy_from_slice(symbol);
            return Ok(new);
        }
        let new = !self.is_complete() && self.repair.iter().all(|(other, _)| *other != encoding_id);
        if new {
            self.repair.push((encoding_id, symbol.to_vec()));
        }
        Ok(new)
    }

    /// How many independent symbols are here.
    pub(crate) fn rank(&self) -> usize {
        self.present.iter().filter(|present| **present).count() + self.repair.len()
    }

    /// Whether the block can be decoded.
    pub(crate) fn is_complete(&self) -> bool {
        self.rank() >= self.present.len()
    }

    /// The block's bytes; to be called when it is complete. Decodes only what was lost.
    pub(crate) fn decode(mut self) -> Vec<u8> {
        Code::of(self.present.len()).decode(&mut self.source, &self.present, &mut self.repair);
        self.source.truncate(self.header.length as usize);
        self.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(length: usize) -> BlockHeader {
        BlockHeader { id: 5, stream: 2, offset: 0, length: length as u32, last: false }
    }

    fn symbols_of(data: &[u8], count: usize) -> Vec<(u16, Vec<u8>)> {
        let mut block = SendBlock::new(header(data.len()), data, 64);
        (0..count)
            .map(|_| {
                let (id, _) = block.encode_next();
                let mut symbol = Vec::new();
                block.encode(id, &mut symbol);
                (id, symbol)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn a_block_arrives_whatever_symbols_are_lost(
            data in proptest::collection::vec(any::<u8>(), 0..64 * 32),
            order in Just((0usize..80).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let symbols = symbols_of(&data, 80);
            let mut received = ReceiveBlock::new(header(data.len()), symbols[0].1.len()).expect("a right block");
            for index in order {
                if received.is_complete() {
                    break;
                }
                let (id, symbol) = &symbols[index];
                received.insert(&header(data.len()), *id, symbol).expect("a right symbol");
                received.insert(&header(data.len()), *id, symbol).expect("a copy changes nothing");
            }
            prop_assert!(received.is_complete());
            prop_assert_eq!(received.decode(), data);
        }

        #[test]
        fn hostile_symbols_are_errors(length in 0u32..1 << 24, size in 0usize..2000, id: u16) {
            let header = BlockHeader { id: 1, stream: 2, offset: 0, length, last: true };
            if let Ok(mut block) = ReceiveBlock::new(header, size) {
                let _ = block.insert(&header, id, &vec![0; size]);
                prop_assert!(block.insert(&header, 0, &vec![0; size + 1]).is_err());
            }
        }
    }

    #[test]
    fn symbols_are_as_small_as_their_number_allows() {
        assert_eq!(symbol_size(100, 1408), 100);
        assert_eq!(symbol_size(1500, 1408), 752);
        assert_eq!(symbol_size(1408 * 32, 1408), 1408);
    }

    #[test]
    fn what_is_in_flight_is_not_sent_again() {
        let data = vec![1; 64 * 4];
        let mut block = SendBlock::new(header(data.len()), &data, 64);
        (0..5).for_each(|number| block.sent(PathId(1), number, Time::ZERO));
        assert_eq!(block.deficit(), 0);
        block.settle(|_, _| FlightFate::KnownUpTo(2));
        block.reported(1);
        assert_eq!(block.deficit(), 1, "one has arrived and two are on the way");
        block.settle(|_, _| FlightFate::Over);
        assert_eq!(block.deficit(), 3);
    }
}
