//! Which packets the peer has proved to have received.

use super::tally::{Tally, WORD};
use crate::crypto::receipt::{Made, Receipts};
use crate::wire::report::PathReport;

/// Words of which is remembered what was proved: twice those of a report, since reports overtake one another.
const REMEMBERED: usize = 2 * super::arrivals::MAX_WORDS;

/// What the peer has proved to have received over a path.
#[derive(Debug)]
pub(super) struct Proofs {
    tally: Tally,
    count: u64,
    made: Made,
}

impl Default for Proofs {
    fn default() -> Proofs {
        Proofs { tally: Tally::new(REMEMBERED), count: 0, made: Made::default() }
    }
}

impl Proofs {
    /// How many packets were proved to have arrived.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Takes what a report names; false if its proof is wrong, and then nothing here may be relied on any more. Only
    /// packets that were not known to have arrived cost time.
    pub(super) fn take(&mut self, report: &PathReport, receipts: &Receipts) -> bool {
        let sum = report.words().fold(0, |sum, (word, bits)| {
            let known = self.tally.word(word);
            let new = bits & !known.bits;
            let new_receipts = receipts.sum(report.path, word, new, &mut self.made);
            let left_out = receipts.sum(report.path, word, known.bits & !bits, &mut self.made);
            if let Some(known) = self.tally.word_mut(word) {
                known.bits |= new;
                known.receipts ^= new_receipts;
                self.count += u64::from(new.count_ones());
            }
            sum ^ known.receipts ^ new_receipts ^ left_out
        });
        sum == report.arrived.proof
    }
}

const _: () = assert!(WORD == 64, "a report has words of 64 packets");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::random::Random;
    use crate::session::paths::arrivals::Arrivals;
    use crate::time::Time;
    use std::collections::BTreeMap;

    const PATH: u32 = 3;

    /// A path whose packets and reports get lost, are repeated and overtake one another, all as a seed has it.
    struct Way {
        random: Random,
        receipts: Receipts,
        arrivals: Arrivals,
        proofs: Proofs,
        arrived: u64,
    }

    impl Way {
        fn new(seed: u64) -> Way {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&seed.to_be_bytes());
            let mut random = Random::from_seed(bytes);
            let receipts = Receipts::new(random.bytes());
            let (arrivals, proofs) = (Arrivals::new(Time::ZERO), Proofs::default());
            Way { random, receipts, arrivals, proofs, arrived: 0 }
        }

        fn chance(&mut self, percent: u32) -> bool {
            self.random.below(100) < percent
        }

        fn arrive(&mut self, number: u64) {
            if self.arrivals.is_fresh(number) {
                self.arrivals.note(Time::ZERO, number, self.receipts.of(PATH, number, &mut Made::default()));
                self.arrived += 1;
            }
        }

        fn report(&mut self, room: usize) -> Option<PathReport> {
            let highest = self.arrivals.highest()?.number;
            let words = self.arrivals.words_to_report().min(room);
            Some(PathReport { path: PATH, highest, arrival_us: 0, arrived: self.arrivals.report(words) })
        }

        /// Sends packets 0 to 3,000 with a report now and then, of which `lost` in a hundred are lost.
        fn run(&mut self, loss: u32, reordering: u32, lost: u32) {
            let mut under_way: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            for number in 0..3_000 {
                let copies = if self.chance(5) { 2 } else { 1 };
                for _ in 0..copies {
                    let at = number + u64::from(self.random.below(reordering + 1));
                    if !self.chance(loss) {
                        under_way.entry(at).or_default().push(number);
                    }
                }
                for arrived in under_way.remove(&number).unwrap_or_default() {
                    self.arrive(arrived);
                }
                if self.chance(8) {
                    let report = self.report(120).filter(|_| self.random.below(100) >= lost);
                    assert!(report.is_none_or(|report| self.proofs.take(&report, &self.receipts)));
                }
            }
            under_way.into_values().flatten().for_each(|number| self.arrive(number));
            let last = self.report(120).expect("something has arrived");
            assert!(self.proofs.take(&last, &self.receipts));
        }
    }

    #[test]
    fn an_honest_receiver_proves_what_arrived_whatever_is_lost_repeated_and_overtaken() {
        for seed in 0..1_000 {
            let mut way = Way::new(seed);
            let (loss, reordering) = (way.random.below(90), way.random.below(60));
            way.run(loss, reordering, 0);
            assert_eq!(way.proofs.count(), way.arrived, "seed {seed}");
            let mut way = Way::new(seed);
            way.run(loss, reordering, 70);
            assert!(way.proofs.count() <= way.arrived, "seed {seed}");
            assert!(100 * way.proofs.count() >= 80 * way.arrived, "seed {seed}: {}", way.proofs.count());
        }
    }

    #[test]
    fn a_packet_more_or_another_number_is_found_out_and_a_packet_less_only_counts_less() {
        for seed in 0..200 {
            let mut way = Way::new(seed);
            (0..500).filter(|number| number % 7 != 0).for_each(|number| way.arrive(number));
            let honest = way.report(120).expect("something has arrived");
            let missing = 7 * u64::from(way.random.below(71));
            let mut more = honest.clone();
            more.arrived.words[(missing / WORD) as usize] ^= 1 << (missing % WORD);
            assert!(!way.proofs.take(&more, &way.receipts), "seed {seed}");
            way.proofs = Proofs::default();
            let mut later = honest.clone();
            later.highest += 64;
            assert!(!way.proofs.take(&later, &way.receipts), "seed {seed}");
            way.proofs = Proofs::default();
            let mut less = honest.clone();
            less.arrived.words[0] ^= 0b10;
            less.arrived.proof ^= way.receipts.of(PATH, 1, &mut Made::default());
            assert!(way.proofs.take(&less, &way.receipts));
            assert_eq!(way.proofs.count() + 1, way.arrived);
            assert!(way.proofs.take(&honest, &way.receipts));
            assert_eq!(way.proofs.count(), way.arrived);
        }
    }
}
