//! One process's requests to one file, between its open and its close: sizes and gaps.

use super::card::Card;
use super::deck::Chance;

/// What a stream of requests shall have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// Bytes from its first to its last one, about.
    pub(super) length: u64,
    /// Large requests, if it has any.
    pub(super) large: u64,
    /// Small ones.
    pub(super) small: u64,
    /// Which sizes are small: from, to.
    pub(super) range: (u64, u64),
}

/// Requests from a relative offset 0 on: where each begins, and its size.
pub(super) type Stream = Vec<(u64, u64)>;

/// How many there shall be where the tables say "4 or more".
fn number(row: usize, chance: &mut Chance) -> u64 {
    if row >= 4 { chance.between(4, 6) } else { row as u64 }
}

/// A stream with the interval and request sizes of the card.
pub(super) fn stream(card: &Card, wish: Wish, chance: &mut Chance) -> Stream {
    let intervals = number(card.intervals, chance);
    let sizes = number(card.sizes, chance).max(1);
    let requests = sized(sizes, intervals, card.is_consecutive, wish, chance);
    let gaps = gaps(card, intervals, requests.len().saturating_sub(1), &requests, chance);
    let stream = placed(&requests, &gaps);
    let end = stream.iter().map(|(offset, bytes)| offset + bytes).max().unwrap_or(0);
    if end <= wish.length || sizes == 1 && requests.len() == 1 {
        return stream;
    }
    placed(&shortened(requests, end - wish.length, wish.range.1), &gaps)
}

/// The sizes of the requests in their order: each of so many sizes occurs.
fn sized(sizes: u64, intervals: u64, is_consecutive: bool, wish: Wish, chance: &mut Chance) -> Vec<u64> {
    // More than 90 % of the requests must follow the one before: each further interval needs more than ten.
    let needed = if is_consecutive { 12 * intervals.saturating_sub(1) } else { intervals } + 1;
    if sizes == 1 {
        let count = if intervals == 0 { 1 } else { needed.max(wish.large).max(2) };
        return vec![(wish.length / count).max(1); count as usize];
    }
    let kinds = distinct(sizes - 1, wish.range, chance);
    let small = wish.small.max(needed).max(2 * (sizes - 1)) as usize;
    let mut requests: Vec<u64> = kinds.iter().copied().cycle().take(kinds.len()).collect();
    requests.extend((kinds.len()..small).map(|_| kinds[chance.below(kinds.len() as u64) as usize]));
    let rest = wish.length.saturating_sub(requests.iter().sum());
    let large = (rest / wish.large.max(1)).max(wish.range.1 + 1 + chance.below(64));
    requests.extend(std::iter::repeat_n(large, wish.large.max(1) as usize));
    chance.shuffle(&mut requests);
    requests
}

/// The requests with the large ones so much shorter that gaps have room, as far as they stay large.
fn shortened(mut requests: Vec<u64>, excess: u64, small: u64) -> Vec<u64> {
    let large = requests.iter().max().copied().unwrap_or(0);
    let count = requests.iter().filter(|size| **size == large).count() as u64;
    let shorter = large.saturating_sub(excess.div_ceil(count.max(1)));
    let shorter =
        if requests.iter().all(|size| *size == large) { shorter.max(1) } else { shorter.max(small + 1) };
    requests.iter_mut().filter(|size| **size == large).for_each(|size| *size = shorter);
    requests
}

/// So many different numbers of a range, or as many as it has.
fn distinct(count: u64, (low, high): (u64, u64), chance: &mut Chance) -> Vec<u64> {
    let mut found = Vec::new();
    while (found.len() as u64) < count.min(high - low + 1) {
        let number = chance.between(low, high);
        if !found.contains(&number) {
            found.push(number);
        }
    }
    found
}

/// The bytes between requests: as many different numbers as there are intervals.
fn gaps(card: &Card, intervals: u64, pairs: usize, requests: &[u64], chance: &mut Chance) -> Vec<i64> {
    if pairs == 0 {
        return Vec::new();
    }
    let further =
        |count, chance: &mut Chance| distinct(count, (1, 400), chance).into_iter().map(|gap| gap as i64);
    if card.is_consecutive {
        let mut gaps = vec![0; pairs];
        for (place, gap) in further(intervals.saturating_sub(1), chance).enumerate() {
            // One for each part of the stream, so that none takes the place of another.
            let part = pairs as u64 / intervals.max(1);
            gaps[(place as u64 * part + chance.below(part.max(1))) as usize] = gap;
        }
        return gaps;
    }
    let mut kinds: Vec<i64> = further(intervals.max(1), chance).collect();
    if card.kind == super::card::Kind::Both {
        // They are predominantly not sequential: most steps go back behind the begin of a request of the usual size.
        let mut sizes = requests.to_vec();
        sizes.sort_unstable();
        let usual = sizes[sizes.len() / 2] as i64;
        kinds.iter_mut().skip(usize::from(intervals > 1)).for_each(|gap| *gap = -usual - *gap);
    } else if intervals > 1 {
        kinds[0] = 0;
    }
    let mut gaps: Vec<i64> = kinds.iter().copied().take(pairs).collect();
    gaps.extend((gaps.len()..pairs).map(|_| kinds[chance.below(kinds.len() as u64) as usize]));
    chance.shuffle(&mut gaps);
    gaps
}

/// Where the requests begin; the lowest offset is 0.
fn placed(requests: &[u64], gaps: &[i64]) -> Stream {
    let mut at = 0_i64;
    let mut places = Vec::new();
    for (index, size) in requests.iter().enumerate() {
        places.push(at);
        at += *size as i64 + gaps.get(index).copied().unwrap_or(0);
    }
    let lowest = places.iter().min().copied().unwrap_or(0);
    places.iter().zip(requests).map(|(place, size)| ((place - lowest) as u64, *size)).collect()
}
