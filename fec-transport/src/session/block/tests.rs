use proptest::prelude::*;

use super::*;
use crate::session::paths::PathId;
use crate::session::run::Symbols;
use crate::session::stream::Class;
use crate::time::Time;
use crate::wire::symbol::BlockHeader;

const LARGEST: usize = 64;
/// What is too short for RaptorQ gets Reed–Solomon.
const FULL: FullBlock = FullBlock { codec: Codec::RaptorQ, source_symbols: 1_024 };

fn header(length: usize) -> BlockHeader {
    let codec = Geometry::of(length, LARGEST, FULL).codec;
    BlockHeader { id: 5, stream: 2, offset: 0, length: length as u32, last: false, codec }
}

fn send_block(data: &[u8]) -> SendBlock {
    let geometry = Geometry::of(data.len(), LARGEST, FULL);
    let mut source = data.to_vec();
    source.resize(geometry.source_symbols * geometry.symbol_size, 0);
    SendBlock::new(header(data.len()), geometry, in_one_piece(geometry, source), Class::Bulk, Time::ZERO)
}

fn in_one_piece(geometry: Geometry, source: Vec<u8>) -> Source {
    let pieces = if source.is_empty() { Vec::new() } else { vec![source.into()] };
    Source::new(geometry.symbol_size, pieces)
}

fn bytes_of(symbols: &[Symbols]) -> Vec<u8> {
    symbols.iter().flat_map(|symbols| symbols.bytes.to_vec()).collect()
}

fn symbols_of(data: &[u8], count: usize) -> Vec<(u16, Vec<u8>)> {
    let mut block = send_block(data);
    let mut next = || {
        let (id, _) = block.encode_next();
        let mut symbols = Vec::new();
        block.encode(id, 1, &mut symbols);
        (id, bytes_of(&symbols))
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn symbols_of_a_batch_are_those_that_come_one_by_one() {
    let data: Vec<u8> = (0..20 * LARGEST - 3).map(|index| index as u8).collect();
    let one_by_one: Vec<Vec<u8>> = symbols_of(&data, 300).into_iter().map(|(_, symbol)| symbol).collect();
    let (mut block, mut batch) = (send_block(&data), Vec::new());
    block.encode(0, 300, &mut batch);
    // Source symbols, repair symbols, and after 256 the source symbols again.
    assert_eq!(batch.iter().map(|symbols| symbols.count).collect::<Vec<_>>(), [20, 236, 20, 24]);
    assert_eq!(bytes_of(&batch), one_by_one.concat());
}

#[test]
fn repair_symbols_are_the_same_from_the_stock_and_beyond_it() {
    let data: Vec<u8> = (0..70 * LARGEST).map(|index| (index / 3) as u8).collect();
    let one_by_one: Vec<Vec<u8>> = symbols_of(&data, 200).into_iter().map(|(_, symbol)| symbol).collect();
    let mut block = send_block(&data);
    block.owe(75);
    assert_eq!(block.unsent_repairs(), (70, 5));
    block.supplied(Stock::make(block.geometry(), &data, 70, 5));
    let supplied = block.memory();
    let mut symbols = Vec::new();
    block.encode(68, 39, &mut symbols);
    assert_eq!(block.memory(), supplied, "the spare ones are enough");
    block.encode(107, 93, &mut symbols);
    assert_eq!(bytes_of(&symbols), one_by_one[68..].concat());
}

fn arrives(data: &[u8], order: &[usize]) -> Result<(), TestCaseError> {
    let symbols = symbols_of(data, order.len());
    let mut received = ReceiveBlock::new(header(data.len()), symbols[0].1.len()).expect("a right block");
    for index in order {
        let (id, symbol) = &symbols[*index];
        received.insert(&header(data.len()), *id, symbol).expect("a right symbol");
        received.insert(&header(data.len()), *id, symbol).expect("a copy changes nothing");
        if received.may_decode() {
            match received.decode() {
                Ok(bytes) => {
                    prop_assert_eq!(bytes, data);
                    return Ok(());
                }
                Err(more) => {
                    prop_assert_eq!(more.rank() + 1, Geometry::of(data.len(), LARGEST, FULL).source_symbols);
                    received = *more;
                }
            }
        }
    }
    Err(TestCaseError::fail("it never decoded"))
}

proptest! {
    #[test]
    fn a_small_block_arrives_whatever_symbols_are_lost(
        data in proptest::collection::vec(any::<u8>(), 0..LARGEST * 32),
        order in Just((0usize..80).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        arrives(&data, &order)?;
    }

    #[test]
    fn a_large_block_arrives_whatever_symbols_are_lost(
        length in LARGEST * 63 + 1..LARGEST * 100, seed: u8,
        order in Just((0usize..220).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let data: Vec<u8> = (0..length).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect();
        arrives(&data, &order)?;
    }

    #[test]
    fn hostile_symbols_are_errors(length in 0u32..1 << 24, size in 0usize..2000, id: u16, large: bool) {
        let codec = if large { Codec::RaptorQ } else { Codec::ReedSolomon };
        let header = BlockHeader { id: 1, stream: 2, offset: 0, length, last: true, codec };
        if let Ok(mut block) = ReceiveBlock::new(header, size) {
            let _ = block.insert(&header, id, &vec![0; size]);
            prop_assert!(block.insert(&header, 0, &vec![0; size + 1]).is_err());
        }
    }

    #[test]
    fn every_length_has_a_geometry_that_its_codec_allows(length in 0usize..=224 * 1408, raptorq: bool) {
        let codec = if raptorq { Codec::RaptorQ } else { Codec::ReedSolomon };
        let geometry = Geometry::of(length, 1408, FullBlock { codec, source_symbols: 224 });
        prop_assert!(crate::session::code::allows(geometry.codec, geometry.source_symbols), "{geometry:?}");
        prop_assert_eq!(source_symbols(length, geometry.symbol_size), geometry.source_symbols);
    }
}

#[test]
fn symbols_are_as_small_as_their_number_allows() {
    let size = |length| Geometry::of(length, 1408, FULL).symbol_size;
    assert_eq!((size(100), size(1500), size(1408 * 32)), (100, 752, 1408));
}

#[test]
fn what_is_in_flight_is_not_sent_again() {
    let mut block = send_block(&[1; LARGEST * 4]);
    (0..5).for_each(|number| block.sent(number as u16, PathId(1), number, Time::ZERO));
    assert_eq!(block.deficit(), 0);
    block.settle(|_, _| FlightFate::KnownUpTo(2));
    block.reported(1);
    assert_eq!(block.deficit(), 1, "one has arrived and two are on the way");
    block.settle(|_, _| FlightFate::Over);
    assert_eq!(block.deficit(), 3);
}

/// A run of 44 packets is lost as a whole when the peer's socket is full. A block that had no other symbols left once
/// got a few of its first ones again, which the peer had, and then the next few.
#[test]
fn a_block_that_lacks_more_symbols_than_are_left_is_sent_again() {
    let full = FullBlock { codec: Codec::ReedSolomon, source_symbols: 224 };
    let geometry = Geometry::of(200 * LARGEST, LARGEST, full);
    let source = vec![1; 200 * LARGEST];
    let header = BlockHeader { codec: geometry.codec, ..header(200 * LARGEST) };
    let mut block = SendBlock::new(header, geometry, in_one_piece(geometry, source), Class::Bulk, Time::ZERO);
    (0..200).for_each(|_| assert!(block.encode_next().0 < 256));
    block.repair(50);
    assert_eq!(block.take_owed(usize::MAX), 50, "of 56 that are left");
    (0..50).for_each(|_| assert!(block.encode_next().0 < 256));
    block.repair(7);
    assert_eq!(block.take_owed(usize::MAX), 6 + 200);
    (0..206).for_each(|_| assert!(block.encode_next().0 < 256));
    block.repair(1);
    assert_eq!(block.take_owed(usize::MAX), 200);
}

/// A path that died with more of a block than there were repair symbols left once had the whole block sent again: where
/// one of two links of 40 Mbit/s died every two seconds, a third of all repair was that.
#[test]
fn what_went_down_with_a_path_is_sent_again_and_nothing_else() {
    let full = FullBlock { codec: Codec::ReedSolomon, source_symbols: 224 };
    let geometry = Geometry::of(200 * LARGEST, LARGEST, full);
    let source = vec![1; 200 * LARGEST];
    let header = BlockHeader { codec: geometry.codec, ..header(200 * LARGEST) };
    let mut block = SendBlock::new(header, geometry, in_one_piece(geometry, source), Class::Bulk, Time::ZERO);
    // The two paths take turns, five symbols each time; of what goes over the second one the first ten arrive.
    let mut numbers = [0; 2];
    for id in 0..200 {
        let path = usize::from(id % 10 >= 5);
        assert_eq!(block.encode_next().0, id);
        block.sent(id, PathId(path as u32), numbers[path], Time::ZERO);
        numbers[path] += 1;
    }
    block.settle(|path, _| FlightFate::KnownUpTo(if path == PathId(0) { 99 } else { 9 }));
    block.reported(110);
    assert_eq!(block.deficit(), 0);
    block.forget_path(PathId(1));
    assert_eq!(block.deficit(), 90);
    block.repair(90);
    assert_eq!(block.take_owed(usize::MAX), 90);
    let sent: Vec<u16> = (0..90).map(|_| block.encode_next().0).collect();
    let fresh = 200..256;
    let lost: Vec<u16> = (20..200).filter(|id| id % 10 >= 5).collect();
    let again = 90 - fresh.len();
    assert_eq!(sent, fresh.chain(lost[..again].iter().copied()).collect::<Vec<_>>());
    // What is left of them is enough for another round, and then there is nothing left but all of it.
    block.repair(50);
    assert_eq!(block.take_owed(usize::MAX), 50);
    assert_eq!((0..50).map(|_| block.encode_next().0).collect::<Vec<_>>(), lost[again..again + 50]);
    block.repair(7);
    assert_eq!(block.take_owed(usize::MAX), 6 + 200);
}
