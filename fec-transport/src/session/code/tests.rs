//! Both codes against naive linear algebra over GF(2⁸), whose arithmetic is held to its definition in `field`.

use proptest::prelude::*;

use super::field::{inverse, product};
use super::*;

/// The generator matrix of a code: row `id` has the K coefficients of the encoding symbol `id`.
struct Oracle {
    rows: Vec<Vec<u8>>,
}

impl Oracle {
    /// Unit vectors as source symbols make each symbol spell out its row.
    fn of(code: &dyn ErasureCode, k: usize, ids: usize) -> Oracle {
        let unit = |row: usize| (0..k).map(move |place| u8::from(place == row));
        let identity: Vec<u8> = (0..k).flat_map(unit).collect();
        let prepared = code.prepare(&identity);
        let row = |id: usize| match id < k {
            true => unit(id).collect(),
            false => {
                let mut row = Vec::new();
                prepared.append(id, 1, &identity, &mut row);
                if k == 1 { vec![1] } else { row }
            }
        };
        Oracle { rows: (0..ids).map(row).collect() }
    }

    fn encode(&self, id: usize, source: &[u8], size: usize) -> Vec<u8> {
        let byte = |at: usize| {
            let terms = self.rows[id].iter().enumerate();
            terms.fold(0, |sum, (index, factor)| sum ^ product(*factor, source[index * size + at]))
        };
        (0..size).map(byte).collect()
    }

    /// Whether the symbols with these ids determine the block.
    fn determines(&self, ids: &[usize]) -> bool {
        let mut rows: Vec<Vec<u8>> = ids.iter().map(|id| self.rows[*id].clone()).collect();
        let Some(k) = rows.first().map(Vec::len) else { return false };
        for column in 0..k {
            let Some(pivot) = (column..rows.len()).find(|row| rows[*row][column] != 0) else { return false };
            rows.swap(column, pivot);
            let factor = inverse(rows[column][column]);
            let lead: Vec<u8> = rows[column].iter().map(|value| product(*value, factor)).collect();
            for row in rows.iter_mut().skip(column + 1).filter(|row| row[column] != 0) {
                let factor = row[column];
                row.iter_mut().zip(&lead).for_each(|(value, lead)| *value ^= product(*lead, factor));
            }
        }
        true
    }
}

fn block(k: usize, size: usize, seed: u64) -> Vec<u8> {
    (0..(k * size) as u64)
        .map(|at| (at.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

fn symbol(code: &dyn ErasureCode, k: usize, source: &[u8], id: usize) -> Vec<u8> {
    let size = source.len() / k;
    if id < k {
        return source[id * size..][..size].to_vec();
    }
    let mut symbol = Vec::new();
    code.prepare(source).append(id, 1, source, &mut symbol);
    symbol
}

#[test]
fn repair_symbols_are_their_row_of_the_generator_times_the_source() {
    for (codec, k) in [
        (Codec::ReedSolomon, 1),
        (Codec::ReedSolomon, 5),
        (Codec::ReedSolomon, 32),
        (Codec::ReedSolomon, 224),
        (Codec::RaptorQ, 64),
    ] {
        let code = code(codec, k);
        let (size, ids) = (16, (k + 40).min(code.encoding_ids()));
        let (oracle, source) = (Oracle::of(&*code, k, ids), block(k, size, 7));
        for id in 0..ids {
            assert_eq!(
                symbol(&*code, k, &source, id),
                oracle.encode(id, &source, size),
                "{codec:?} {k}: {id}"
            );
        }
    }
}

/// Gives the symbols `ids` of a block to the decoder and compares its judgement and its bytes.
fn decode_against_oracle(codec: Codec, k: usize, size: usize, ids: &[usize], oracle: &Oracle) {
    let (code, source) = (code(codec, k), block(k, size, 3));
    let prepared = code.prepare(&source);
    let mut received = ReceivedSymbols::new(k, size);
    for id in ids {
        let mut symbol = Vec::new();
        match *id < k {
            true => symbol.extend_from_slice(&source[id * size..][..size]),
            false => prepared.append(*id, 1, &source, &mut symbol),
        }
        assert!(received.insert(*id as u16, &symbol) || k == 1);
    }
    assert_eq!(code.decode(&mut received).is_ok(), oracle.determines(ids), "{codec:?} {k}: {ids:?}");
    if oracle.determines(ids) {
        assert_eq!(received.source, source);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_k_symbols_decode_a_reed_solomon_block(
        k in 1usize..=MAX_REED_SOLOMON, order in Just((0usize..256).collect::<Vec<_>>()).prop_shuffle(),
        eighths in 1usize..4, more in 0usize..3,
    ) {
        let oracle = Oracle::of(&*code(Codec::ReedSolomon, k), k, 256);
        prop_assert!(oracle.determines(&order[..k]));
        decode_against_oracle(Codec::ReedSolomon, k, 8 * eighths, &order[..k + more], &oracle);
        decode_against_oracle(Codec::ReedSolomon, k, 8, &order[..k - 1], &oracle);
    }

    #[test]
    fn a_raptorq_block_decodes_exactly_when_elimination_does(
        k in 64usize..=80, order in Just((0usize..140).collect::<Vec<_>>()).prop_shuffle(), more in 0usize..3,
    ) {
        let oracle = Oracle::of(&*code(Codec::RaptorQ, k), k, 140);
        decode_against_oracle(Codec::RaptorQ, k, 8, &order[..k + more], &oracle);
    }
}

/// Every K, with one source symbol lost, some, and as many as can be.
#[test]
fn reed_solomon_blocks_of_every_length_bear_the_loss_of_any_symbols() {
    let mut random = 1u64;
    let mut below = |bound: usize| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (random >> 33) as usize % bound
    };
    for k in 2..=MAX_REED_SOLOMON {
        let (code, source) = (code(Codec::ReedSolomon, k), block(k, 8, k as u64));
        for lost in [1, 1 + below(k.min(256 - k)), k.min(256 - k)] {
            let mut gone = vec![false; 256];
            while gone.iter().filter(|gone| **gone).count() < 256 - k {
                // So many source symbols, and then repair symbols, until K are left.
                let so_far = gone[..k].iter().filter(|gone| **gone).count();
                gone[if so_far < lost { below(k) } else { k + below(256 - k) }] = true;
            }
            let mut received = ReceivedSymbols::new(k, 8);
            for id in (0..256).filter(|id| !gone[*id]) {
                received.insert(id as u16, &symbol(&*code, k, &source, id));
            }
            assert_eq!((received.count(), received.missing()), (k, lost), "K = {k}");
            assert_eq!(code.decode(&mut received), Ok(()), "K = {k}");
            assert_eq!(received.source, source, "K = {k}, {lost} lost");
        }
    }
}

#[test]
fn the_largest_raptorq_block_survives_the_loss_of_a_tenth() {
    let (k, size) = (MAX_RAPTORQ, 32);
    let (code, source) = (code(Codec::RaptorQ, k), block(k, size, 5));
    let prepared = code.prepare(&source);
    let mut received = ReceivedSymbols::new(k, size);
    let ids = (0..k + 116).filter(|id| id % 10 != 3);
    for id in ids {
        let mut symbol = Vec::new();
        match id < k {
            true => symbol.extend_from_slice(&source[id * size..][..size]),
            false => prepared.append(id, 1, &source, &mut symbol),
        }
        received.insert(id as u16, &symbol);
    }
    assert!((k..k + 6).contains(&received.count()));
    assert_eq!(code.decode(&mut received), Ok(()));
    assert_eq!(received.source, source);
}
