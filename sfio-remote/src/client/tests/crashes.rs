//! Power losses at every point of many histories: what was acknowledged as durable is there afterwards, and nothing
//! that nobody wrote is read as good.

use super::*;
use crate::distribution::Distribution;

const WIDTH: usize = 3;

/// What the bytes of a file may be after a power loss.
#[derive(Default)]
struct Expectation {
    /// What each byte may be now, if nothing is lost.
    now: Vec<Vec<u8>>,
    /// The same when a sync last succeeded: this much must survive.
    durable: Vec<Vec<u8>>,
    /// What has been written to each byte since then.
    since: Vec<Vec<u8>>,
    /// Whether each call makes its bytes durable in several steps, between which a page of zeros may be seen.
    zeros: bool,
}

impl Expectation {
    /// A write begins: its bytes may be seen from now on.
    fn begin(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        // Between the old end and the first byte lie zeros, as soon as the subfiles have grown.
        self.since.resize(self.since.len().max(end), vec![0]);
        for (place, byte) in self.since[offset..end].iter_mut().zip(data) {
            place.push(*byte);
        }
    }

    fn end(&mut self, offset: usize, data: &[u8], succeeded: bool) {
        let end = offset + data.len();
        if succeeded && end > self.now.len() {
            // Zeros, or what a write that failed has left there.
            self.now.extend_from_slice(&self.since[self.now.len()..end]);
        }
        for (place, byte) in self.now.iter_mut().skip(offset).zip(data) {
            if succeeded {
                place.clear();
            }
            place.push(*byte);
        }
    }

    fn synced(&mut self) {
        self.durable.clone_from(&self.now);
        self.since.iter_mut().take(self.now.len()).for_each(Vec::clear);
    }

    fn allows(&self, index: usize, byte: u8) -> bool {
        let in_durable = self.durable.get(index).is_some_and(|values| values.contains(&byte));
        let since = self.since.get(index).is_some_and(|values| values.contains(&byte));
        let zero = self.zeros && byte == 0 && index >= self.durable.len();
        in_durable || since || zero
    }
}

/// A file's subfiles as a power loss leaves them.
fn lose_power(cluster: &Cluster, dice: &mut Dice) -> Vec<Vec<u8>> {
    let stores = cluster.stores.iter().skip(NAMES.len() - WIDTH);
    let after = |store: &FaultyStore<MemoryStore>| {
        let mut store = store.inner().clone();
        store.crash(|| dice.below(2) == 0);
        store.content("a").unwrap_or_default()
    };
    stores.map(after).collect()
}

fn check(distribution: &Distribution, subfiles: &[Vec<u8>], expectation: &Expectation, context: &str) {
    let sizes: Vec<u64> = subfiles.iter().map(|subfile| subfile.len() as u64).collect();
    let structure = distribution.structure(&sizes);
    let whole = structure.whole_length() as usize;
    assert!(
        whole >= expectation.durable.len(),
        "{context}: {structure:?}, {} durable",
        expectation.durable.len()
    );
    for index in 0..whole {
        let location = distribution.locate(index as u64);
        let byte = subfiles[location.subfile.index()][location.offset as usize];
        assert!(
            expectation.allows(index, byte),
            "{context}: byte {index} is {byte}, which nobody wrote there"
        );
    }
}

/// One time in eight, something that will go wrong at one of the disks.
fn perhaps_inject(cluster: &mut Cluster, dice: &mut Dice) {
    if dice.below(8) == 0 {
        let faults = [Fault::TornWrite { bytes: dice.below(900) as u64 }, Fault::FailedSync];
        let fault = faults[dice.below(2)].clone();
        cluster.stores[2 + dice.below(WIDTH)].inject(fault);
    }
}

/// Lets everything run until nothing happens any more; gives the number of disk operations.
fn after_each_disk_operation(cluster: &mut Cluster, mut look: impl FnMut(&Cluster, u64)) -> usize {
    let before = cluster.disk_operations;
    let mut operations = before;
    while cluster.step() {
        if cluster.disk_operations > operations {
            operations = cluster.disk_operations;
            look(cluster, operations);
        }
    }
    (operations - before) as usize
}

/// Plays one history, and loses power after each of its disk operations; gives the number of power losses.
fn play(seed: u64, durability: Durability) -> usize {
    let (mut cluster, mut dice) = (Cluster::new(seed), Dice::new(seed + 1_000));
    let stripe_unit = StripeUnit::new([5, 200, 1_000, 3_000][dice.below(4)]).expect("in range");
    let distribution = Distribution::new(stripe_unit, WIDTH).expect("in range");
    let open = Open {
        name: name(THREE),
        stripe_unit,
        mode: OpenMode::Create,
        durability,
        compression: Compression::Auto,
    };
    let file = cluster.call(open).expect("it opens").file;
    assert_eq!(cluster.call(Sync { file }), Ok(()));
    let zeros = durability == Durability::OnEveryCall;
    let (mut expectation, mut losses) = (Expectation { zeros, ..Expectation::default() }, 0);
    let mut all_succeeded = true;
    for step in 0..8 {
        perhaps_inject(&mut cluster, &mut dice);
        let offset = dice.below(9_000);
        let data: Vec<u8> =
            (0..1 + dice.below(4_000)).map(|i| (1 + (i * 31 + step * 77) % 255) as u8).collect();
        let syncs = durability == Durability::OnFlush && dice.below(3) == 0;
        let receipt = match syncs {
            true => cluster.start(CLIENT, Sync { file }),
            false => {
                expectation.begin(offset, &data);
                let list = WriteList::new([(offset as u64, Bytes::from(data.clone()))]).expect("possible");
                cluster.start(CLIENT, Write { file, list, durable: false })
            }
        };
        losses += after_each_disk_operation(&mut cluster, |cluster, operation| {
            let context = format!("seed {seed}, {durability:?}, step {step}, disk operation {operation}");
            check(&distribution, &lose_power(cluster, &mut dice), &expectation, &context);
        });
        let succeeded = receipt.take().expect("it has ended").is_ok();
        if !syncs {
            expectation.end(offset, &data, succeeded);
            all_succeeded &= succeeded;
        }
        // A call that is durable by itself says nothing of what failed before it.
        if succeeded && (syncs || durability == Durability::OnEveryCall && all_succeeded) {
            expectation.synced();
        }
    }
    losses
}

#[test]
fn ten_thousand_power_losses_lose_nothing_that_was_durable_and_show_nothing_that_was_not_written() {
    let mut losses = 0;
    for seed in 0.. {
        losses += play(seed, Durability::OnFlush);
        if losses >= 10_000 {
            break;
        }
    }
}

#[test]
fn what_every_call_makes_durable_survives_without_a_sync() {
    let losses: usize = (0..60).map(|seed| play(seed, Durability::OnEveryCall)).sum();
    assert!(losses > 1_000, "{losses}");
}
