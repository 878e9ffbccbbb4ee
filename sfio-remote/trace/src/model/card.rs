//! What is drawn for a file: a card that says what the study's tables would say of it.

use super::deck::Chance;
use super::{Asks, Model};
use crate::record::IoMode;

/// The kinds of files, in the order of the tables' columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Read,
    Written,
    Both,
    None,
}

/// One file, as the tables see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Card {
    pub(super) kind: Kind,
    /// Interval sizes, 4 for more.
    pub(super) intervals: usize,
    /// Request sizes, 4 for more.
    pub(super) sizes: usize,
    /// Rows of the sharing tables.
    pub(super) byte_row: usize,
    pub(super) block_row: usize,
    /// Whether more than 90 % of the requests are consecutive.
    pub(super) is_consecutive: bool,
    pub(super) is_temporary: bool,
    /// The size of what is accessed: from, to; logarithms are even.
    pub(super) size: (f64, f64),
    /// Whether the file itself is larger than 10 GB.
    pub(super) is_huge: bool,
    pub(super) mode: Option<IoMode>,
}

/// Sizes of files that are not large, and from where on they are.
const SMALL: (f64, f64) = (10e3, 9.9e6);
const LARGE_FROM: f64 = 10.5e6;
const BLOCK: f64 = 30_208.0;

impl Card {
    /// How often each byte is accessed, as far as the bytes of the file's class are concerned.
    pub(super) fn passes(&self, asks: Asks) -> f64 {
        let is_copied = asks == Asks::Process && self.byte_row == 5 && !self.is_broadcast();
        if is_copied { 2.0 } else { 1.0 }
    }

    pub(super) fn is_broadcast(&self) -> bool {
        self.mode == Some(IoMode::SynchronousBroadcast)
    }

    fn is_large(&self) -> bool {
        self.size.1 > SMALL.1 * 1.01
    }

    fn mean_size(&self) -> f64 {
        let (low, high) = self.size;
        if high <= low { low } else { (high - low) / (high / low).ln() }
    }

    /// Within which sizes the rows of the sharing tables can be: a block in a hundred needs a hundred blocks. Where
    /// each process has a part of its own there are as many boundaries as processes, so a file with many blocks has few
    /// that are shared.
    fn possible_size(&self, asks: Asks) -> (f64, f64) {
        let blocks = |low: f64, high: f64| (low * BLOCK, high * BLOCK);
        let is_partly = self.byte_row < 5;
        match (asks, self.block_row) {
            (_, 1) => (115.0 * BLOCK, f64::INFINITY),
            (Asks::Job, 4) => (115.0 * BLOCK, f64::INFINITY),
            (Asks::Job, 2 | 3) => (14.0 * BLOCK, f64::INFINITY),
            (Asks::Process, 4) if self.byte_row == 3 => blocks(206.0, 225.0),
            (Asks::Process, 4) => blocks(104.0, 118.0),
            (Asks::Process, 2 | 3) => blocks(12.0, 60.0),
            (Asks::Process, 5) if is_partly => blocks(0.4, 0.95),
            _ => (SMALL.0, f64::INFINITY),
        }
    }
}

/// All cards of a deck.
pub(super) fn deck(model: &Model, chance: &mut Chance) -> Vec<Card> {
    let mut cards = shapes(model, chance);
    sizes(model, chance, &mut cards);
    modes(model, chance, &mut cards);
    let mut temporary: Vec<usize> =
        (0..cards.len()).filter(|index| matches!(cards[*index].kind, Kind::Written | Kind::Both)).collect();
    chance.shuffle(&mut temporary);
    temporary.iter().take(model.temporary.value as usize).for_each(|index| cards[*index].is_temporary = true);
    cards
}

/// Counts out of shares, by largest remainders, so that they add up.
fn apportioned(weights: &[f64], total: u64) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let exact = |weight: &f64| if sum > 0.0 { weight / sum * total as f64 } else { 0.0 };
    let mut counts: Vec<u64> = weights.iter().map(|weight| exact(weight).floor() as u64).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|one, other| exact(&weights[*other]).fract().total_cmp(&exact(&weights[*one]).fract()));
    let missing = total.saturating_sub(counts.iter().sum());
    order.iter().cycle().take(missing as usize).for_each(|index| counts[*index] += 1);
    counts
}

/// A list with each index as often as its count says, in ascending order.
fn spelt(counts: &[u64]) -> Vec<usize> {
    counts.iter().enumerate().flat_map(|(index, count)| std::iter::repeat_n(index, *count as usize)).collect()
}

/// Which interval and request sizes go together, and which files are consecutive.
///
/// A file with no interval has one request an open; if the tables leave more of them than have a single size, the
/// others are opened twice (Table 8 against Table 6). With several intervals go several sizes.
fn shapes(model: &Model, chance: &mut Chance) -> Vec<Card> {
    let [read, written, both, none] = model.files.value;
    let mut sizes = spelt(&model.request_sizes.value).into_iter().filter(|size| *size > 0).peekable();
    let mut shapes: Vec<(usize, usize)> = spelt(&model.interval_sizes.value)
        .into_iter()
        .skip(none as usize)
        .map(|intervals| (intervals, sizes.next().unwrap_or(1)))
        .collect();
    // Several requests without an interval are two opens: they have no third size.
    let single = shapes.iter().position(|(intervals, _)| *intervals > 0).unwrap_or(shapes.len());
    debug_assert!(shapes[..single].iter().all(|(_, sizes)| *sizes <= 2), "more opens than two");
    let counts = [read, written, both];
    let consecutive: Vec<u64> = counts
        .iter()
        .zip(model.consecutive.value)
        .map(|(count, share)| (*count as f64 * share).round() as u64)
        .collect();
    let flags = consecutive_shapes(model, &shapes, single, consecutive.iter().sum());
    let mut halves: [Vec<(usize, usize)>; 2] = Default::default();
    for (shape, flag) in shapes.drain(..).zip(flags) {
        halves[usize::from(flag)].push(shape);
    }
    halves.iter_mut().for_each(|half| chance.shuffle(half));
    let mut cards = Vec::new();
    for (class, kind) in [Kind::Read, Kind::Written, Kind::Both].into_iter().enumerate() {
        let mut rows = rows(model, class, counts[class]);
        chance.shuffle(&mut rows);
        for (place, (byte_row, block_row)) in rows.into_iter().enumerate() {
            let wanted = usize::from((place as u64) < consecutive[class]);
            let taken = halves[wanted].pop().map(|shape| (shape, wanted));
            let ((intervals, sizes), flag) = taken
                .or_else(|| halves[1 - wanted].pop().map(|shape| (shape, 1 - wanted)))
                .unwrap_or(((0, 1), 1));
            cards.push(card(kind, (intervals, sizes), (byte_row, block_row), flag == 1));
        }
    }
    cards.extend((0..none).map(|_| card(Kind::None, (0, 0), (0, 0), true)));
    cards
}

fn card(kind: Kind, (intervals, sizes): (usize, usize), rows: (usize, usize), is_consecutive: bool) -> Card {
    Card {
        kind,
        intervals,
        sizes,
        byte_row: rows.0,
        block_row: rows.1,
        is_consecutive,
        is_temporary: false,
        size: SMALL,
        is_huge: false,
        mode: None,
    }
}

/// Of each shape, in ascending order of interval sizes, whether it is consecutive.
fn consecutive_shapes(model: &Model, shapes: &[(usize, usize)], single: usize, total: u64) -> Vec<bool> {
    let ones = shapes.iter().filter(|(intervals, _)| *intervals == 1).count();
    let more = shapes.len() - single - ones;
    let left = (total as usize).saturating_sub(single);
    let of_ones = match &model.one_interval_consecutive {
        Some(share) => (ones as f64 * share.value).round() as usize,
        None => (left * ones).checked_div(ones + more).unwrap_or(0),
    };
    let of_ones = of_ones.min(ones).min(left);
    let of_more = (left - of_ones).min(more);
    let even =
        |count: usize, marked: usize| (0..count).map(move |i| (i + 1) * marked / count > i * marked / count);
    std::iter::repeat_n(true, single).chain(even(ones, of_ones)).chain(even(more, of_more)).collect()
}

/// Rows by bytes and by blocks that go together: where more bytes are shared, more blocks are.
fn rows(model: &Model, class: usize, count: u64) -> Vec<(usize, usize)> {
    let sharing = model.sharing(class);
    let [bytes, blocks] = [&sharing.byte, &sharing.block].map(|rows| spelt(&apportioned(rows, count)));
    bytes.into_iter().zip(blocks).collect()
}

/// Which files are large, and how large the large ones of each class are, so that the mean is right.
fn sizes(model: &Model, chance: &mut Chance, cards: &mut [Card]) {
    let mut order: Vec<usize> = (0..cards.len()).collect();
    chance.shuffle(&mut order);
    let wanted = (model.above_10_mb.value * cards.len() as f64).round() as usize;
    let huge = (model.above_10_gb.value * cards.len() as f64).round() as usize;
    let mut large = 0;
    for index in order {
        let card = &mut cards[index];
        let (low, high) = card.possible_size(model.asks);
        let is_touched = card.kind != Kind::None;
        if large < wanted && high.is_infinite() && is_touched {
            card.size = (LARGE_FROM.max(low), LARGE_FROM.max(low) * 20.0);
            card.is_huge = large < huge;
            large += 1;
        } else {
            card.size = (low.min(SMALL.1 * 0.9), high.min(SMALL.1));
        }
    }
    fit_means(model, cards);
}

/// Moves the upper end of the large files' sizes until the means are the study's.
fn fit_means(model: &Model, cards: &mut [Card]) {
    for (kind, mean) in [Kind::Read, Kind::Written].into_iter().zip(model.megabytes_per_file.value) {
        let count = cards.iter().filter(|card| card.kind == kind).count();
        let wanted = mean * 1e6 * count as f64;
        let (mut low, mut high) = (LARGE_FROM * 1.01, 100e9);
        for _ in 0..80 {
            let middle = (low * high).sqrt();
            set_large(cards, kind, middle);
            let of_kind = cards.iter().filter(|card| card.kind == kind);
            let sum: f64 = of_kind.map(|card| card.mean_size() * card.passes(model.asks)).sum();
            if sum < wanted { low = middle } else { high = middle }
        }
        if kind == Kind::Read {
            // The study has no mean of files that are read and written.
            set_large(cards, Kind::Both, low);
        }
    }
}

fn set_large(cards: &mut [Card], kind: Kind, upper: f64) {
    for card in cards.iter_mut().filter(|card| card.kind == kind && card.is_large()) {
        card.size.1 = upper.max(card.size.0 * 1.01);
    }
}

/// Which mode each file has, so that the modes' shares of the bytes are the study's.
fn modes(model: &Model, chance: &mut Chance, cards: &mut [Card]) {
    let Some(modes) = &model.modes else { return };
    let [sequential, global, broadcast, local] = modes.value;
    let expected =
        |cards: &[Card], index: usize| cards[index].mean_size() * cards[index].passes(Asks::Process);
    let total = |cards: &[Card]| {
        (0..cards.len()).filter(|i| cards[*i].kind != Kind::None).map(|i| expected(cards, i)).sum::<f64>()
    };
    let of_all: Vec<usize> =
        (0..cards.len()).filter(|i| cards[*i].kind == Kind::Read && cards[*i].byte_row == 5).collect();
    let mut candidates = of_all;
    chance.shuffle(&mut candidates);
    for index in candidates {
        let taken: f64 =
            (0..cards.len()).filter(|i| cards[*i].is_broadcast()).map(|i| expected(cards, i)).sum();
        if taken >= broadcast * total(cards) {
            break;
        }
        cards[index].mode = Some(IoMode::SynchronousBroadcast);
        fit_means(model, cards);
    }
    let sum = total(cards);
    let mut rest: Vec<usize> =
        (0..cards.len()).filter(|i| cards[*i].kind != Kind::None && cards[*i].mode.is_none()).collect();
    rest.sort_by(|one, other| expected(cards, *other).total_cmp(&expected(cards, *one)));
    let none = (1.0 - sequential - global - broadcast - local).max(0.0);
    let mut open = [
        (Some(IoMode::SynchronousSequential), sequential * sum),
        (Some(IoMode::GlobalIndependent), global * sum),
        (Some(IoMode::LocalIndependent), local * sum),
        (None, none * sum),
    ];
    for index in rest {
        open.sort_by(|one, other| other.1.total_cmp(&one.1));
        cards[index].mode = open[0].0;
        open[0].1 -= expected(cards, index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deck_has_the_papers_counts() {
        for (name, _) in super::super::PRESETS {
            let model = Model::preset(name).expect("it is one");
            let cards = deck(&model, &mut Chance::new(1));
            let count =
                |holds: &dyn Fn(&Card) -> bool| cards.iter().filter(|card| holds(card)).count() as u64;
            for (index, kind) in [Kind::Read, Kind::Written, Kind::Both, Kind::None].into_iter().enumerate() {
                assert_eq!(count(&|card| card.kind == kind), model.files.value[index]);
            }
            for number in 0..5 {
                assert_eq!(count(&|card| card.intervals == number), model.interval_sizes.value[number]);
                assert_eq!(count(&|card| card.sizes == number), model.request_sizes.value[number]);
            }
            assert_eq!(count(&|card| card.is_temporary), model.temporary.value);
            let large = count(&Card::is_large) as f64 / cards.len() as f64;
            assert!((large - model.above_10_mb.value).abs() < 0.002, "{name}: {large}");
        }
    }
}
