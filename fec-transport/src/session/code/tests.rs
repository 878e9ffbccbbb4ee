//! Both codes against naive linear algebra over GF(2⁸).

use proptest::prelude::*;

use super::*;

/// The field's product by definition (polynomial 0x11d, the one of both codes).
fn product(mut a: u8, mut b: u8) -> u8 {
    let mut sum = 0;
    while b != 0 {
        if b & 1 == 1 {
            sum ^= a;
        }
        a = (a << 1) ^ if a & 0x80 != 0 { 0x1d } else { 0 };
        b >>= 1;
    }
    sum
}

fn inverse(a: u8) -> u8 {
    (1..=255).find(|b| product(a, *b) == 1).expect("a is not zero")
}

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
                prepared.append(id as u16, &identity, &mut row);
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
        let k = rows[0].len();
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
    code.prepare(source).append(id as u16, source, &mut symbol);
    symbol
}

#[test]
fn repair_symbols_are_their_row_of_the_generator_times_the_source() {
    for (codec, k) in
        [(Codec::ReedSolomon, 1), (Codec::ReedSolomon, 5), (Codec::ReedSolomon, 32), (Codec::RaptorQ, 64)]
    {
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
            false => prepared.append(*id as u16, &source, &mut symbol),
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
        k in 1usize..=32, order in Just((0usize..256).collect::<Vec<_>>()).prop_shuffle(), eighths in 1usize..4,
    ) {
        let oracle = Oracle::of(&*code(Codec::ReedSolomon, k), k, 256);
        prop_assert!(oracle.determines(&order[..k]));
        decode_against_oracle(Codec::ReedSolomon, k, 8 * eighths, &order[..k], &oracle);
    }

    #[test]
    fn a_raptorq_block_decodes_exactly_when_elimination_does(
        k in 64usize..=80, order in Just((0usize..140).collect::<Vec<_>>()).prop_shuffle(), more in 0usize..3,
    ) {
        let oracle = Oracle::of(&*code(Codec::RaptorQ, k), k, 140);
        decode_against_oracle(Codec::RaptorQ, k, 8, &order[..k + more], &oracle);
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
            false => prepared.append(id as u16, &source, &mut symbol),
        }
        received.insert(id as u16, &symbol);
    }
    assert!((k..k + 6).contains(&received.count()));
    assert_eq!(code.decode(&mut received), Ok(()));
    assert_eq!(received.source, source);
}
