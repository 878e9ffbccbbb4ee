//! RaptorQ (RFC 6330) for large blocks: K = 64..=1,024 source symbols.
//!
//! The arithmetic is the crate raptorq's, which keeps the encoding plans of the last 64 values of K. It panics on
//! parameters that contradict each other (theory §3), so everything that comes here was checked before: K by
//! [`allows`](super::allows), symbols by their equal size.

use raptorq::{
    EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder, SourceBlockEncoder,
};

use super::dense::DenseSystem;
use super::{ErasureCode, NeedsMore, ReceivedSymbols, RepairSymbols};

/// The encoding symbol id has 16 bits on the wire.
const ENCODING_IDS: usize = 1 << 16;
/// Every object is one source block to RaptorQ.
const BLOCK: u8 = 0;
/// Where no more than one source symbol in so many is missing, solving for these alone is faster than decoding all:
/// half as long at one in 20, as long at about one in five.
const FEW: usize = 7;

/// RaptorQ with a given number of source symbols.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RaptorQ {
    source_symbols: usize,
}

impl RaptorQ {
    pub(crate) fn of(source_symbols: usize) -> RaptorQ {
        RaptorQ { source_symbols }
    }

    fn parameters(self, symbol_size: usize) -> ObjectTransmissionInformation {
        let length = (self.source_symbols * symbol_size) as u64;
        let size = u16::try_from(symbol_size).expect("a symbol fits into a datagram");
        ObjectTransmissionInformation::new(length, size, 1, 1, 1)
    }
}

impl ErasureCode for RaptorQ {
    fn encoding_ids(&self) -> usize {
        ENCODING_IDS
    }

    fn prepare(&self, source: &[u8]) -> Box<dyn RepairSymbols> {
        let parameters = self.parameters(source.len() / self.source_symbols);
        let encoder = SourceBlockEncoder::new(BLOCK, &parameters, source);
        Box::new(Prepared { source_symbols: self.source_symbols, encoder })
    }

    fn decode(&self, symbols: &mut ReceivedSymbols) -> Result<(), NeedsMore> {
        if symbols.missing() == 0 {
            return Ok(());
        }
        if symbols.count() < self.source_symbols {
            return Err(NeedsMore);
        }
        symbols.complete();
        match symbols.missing() * FEW <= self.source_symbols {
            true => self.fill_in(symbols),
            false => self.decode_all(symbols),
        }
    }
}

impl RaptorQ {
    /// Solves for the missing symbols alone. A repair symbol is a sum of source symbols with factors from GF(2⁸); the
    /// sum of those that are here is what the encoder makes of the block with zeros in the gaps, and the factors of the
    /// others are what it makes of unit vectors.
    fn fill_in(self, symbols: &mut ReceivedSymbols) -> Result<(), NeedsMore> {
        let (absent, size) = (symbols.absent(), symbols.symbol_size());
        let factors = self.prepare(&unit_vectors(self.source_symbols, &absent));
        let mut system = DenseSystem::new(absent.len(), size);
        let mut used = Vec::with_capacity(absent.len());
        for (id, symbol) in symbols.repair() {
            let mut row = Vec::with_capacity(absent.len());
            factors.append(usize::from(id), 1, &[], &mut row);
            if !system.is_determined() && system.add(row) {
                used.push((id, symbol));
            }
        }
        if !system.is_determined() {
            return Err(NeedsMore);
        }
        let known = self.prepare(symbols.source().0);
        let mut sides = Vec::with_capacity(absent.len() * size);
        for (id, symbol) in used {
            let start = sides.len();
            known.append(usize::from(id), 1, &[], &mut sides);
            sides[start..].iter_mut().zip(symbol).for_each(|(side, byte)| *side ^= byte);
        }
        system.solve(&sides, |number, value| symbols.fill_in(absent[number], value));
        Ok(())
    }

    fn decode_all(self, symbols: &mut ReceivedSymbols) -> Result<(), NeedsMore> {
        let parameters = self.parameters(symbols.symbol_size());
        let (bytes, present) = symbols.source();
        let mut decoder = SourceBlockDecoder::new(BLOCK, &parameters, bytes.len() as u64);
        let packet =
            |id: usize, symbol: &[u8]| EncodingPacket::new(PayloadId::new(BLOCK, id as u32), symbol.to_vec());
        let source = bytes.chunks_exact(symbols.symbol_size()).zip(present).enumerate();
        let source = source.filter(|(_, (_, present))| **present).map(|(id, (symbol, _))| packet(id, symbol));
        let repair = symbols.repair().map(|(id, symbol)| packet(usize::from(id), symbol));
        let decoded = decoder.decode(source.chain(repair)).ok_or(NeedsMore)?;
        symbols.fill_in_all(decoded);
        Ok(())
    }
}

/// A block in which the n-th absent symbol is the n-th unit vector, and all others are zero. Each symbol has as many
/// bytes as symbols are absent.
fn unit_vectors(source_symbols: usize, absent: &[usize]) -> Vec<u8> {
    let mut vectors = vec![0; source_symbols * absent.len()];
    for (number, index) in absent.iter().enumerate() {
        vectors[index * absent.len() + number] = 1;
    }
    vectors
}

/// The intermediate symbols of one block.
struct Prepared {
    source_symbols: usize,
    encoder: SourceBlockEncoder,
}

impl RepairSymbols for Prepared {
    fn append(&self, first: usize, count: usize, _: &[u8], out: &mut Vec<u8>) {
        let number = (first - self.source_symbols) as u32;
        for packet in self.encoder.repair_packets(number, count as u32) {
            out.extend_from_slice(packet.data());
        }
    }
}
