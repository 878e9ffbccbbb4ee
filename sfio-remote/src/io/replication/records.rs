//! Whether every I/O node has every record of a data set as it was published.
//!
//! ```text
//! the newest record ─▶ the hash of the one before ─▶ … ─▶ that of the first one
//!                      each is compared with what every I/O node reads from its disk
//! ```
//!
//! The chain is walked from its end, because the newest record is the one that was chosen and checked: by the hashes it
//! tells what all others were. It is walked to its beginning, or to where the data set was removed: nobody needs what
//! was before that.

use std::collections::BTreeSet;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::error::{Outcome, is_loss, is_outage};
use super::job::{Job, Patience};
use super::objects::Source;
use crate::io::FileError;
use crate::name::FileName;
use crate::replication::{Hash, MAX_RECORD_BYTES, RunId, SignedRecord};

/// So many records of each I/O node are read at once: most have some kilobytes, none more than 4 MiB.
const AT_ONCE: u64 = 16;

/// What an I/O node has of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    /// It is staged: whoever published it did not come so far, and the next run brings it.
    Staged,
    Damaged,
    /// It can be read, and names the one before; perhaps it removes the data set.
    Whole {
        hash: Hash,
        predecessor: Hash,
        removes: bool,
    },
}

/// Which records an I/O node does not have as they were published.
#[derive(Debug, Default)]
struct Harm {
    lost: BTreeSet<u64>,
    damaged: BTreeSet<u64>,
    other: BTreeSet<u64>,
}

/// The harm that was found so far.
struct Examination {
    /// What the next record to be judged must be; none behind one that nobody has whole.
    expected: Option<Hash>,
    /// In the order of the site.
    harm: Vec<Harm>,
    /// Those that no I/O node has whole.
    nowhere: BTreeSet<u64>,
}

/// What is wrong with the records up to `newest`, in words; nothing if all I/O nodes have all of them.
///
/// # Errors
/// If the site cannot be asked. What is lost or damaged is no error.
pub(super) async fn examine_records(job: &Job, newest: &SignedRecord) -> Outcome<Vec<String>> {
    Ok(examine(job, newest).await?.in_words(job.dataset.io_nodes()))
}

/// Whether no I/O node has one of the records up to `newest` whole, so that nobody can put it back.
///
/// # Errors
/// If the site cannot be asked.
pub(super) async fn are_lost_for_good(job: &Job, newest: &SignedRecord) -> Outcome<bool> {
    Ok(!examine(job, newest).await?.nowhere.is_empty())
}

async fn examine(job: &Job, newest: &SignedRecord) -> Outcome<Examination> {
    let io_nodes = job.dataset.io_nodes();
    let harm = io_nodes.iter().map(|_| Harm::default()).collect();
    let mut examination = Examination { expected: Some(newest.hash()), harm, nowhere: BTreeSet::new() };
    let (mut last, run) = (newest.number, newest.run);
    while last > 0 {
        let first = last.saturating_sub(AT_ONCE - 1).max(1);
        let is_newest = last == newest.number;
        let held = job.on_all_nodes(move |job, io_node| {
            // The first I/O node gets a record before all others, so what it lacks is lost.
            let staged = Some(run).filter(|_| is_newest && io_node != job.dataset.io_nodes()[0]);
            read_records(job, io_node, first..last + 1, staged)
        });
        let held = held.await?;
        for number in (first..=last).rev() {
            let index = (number - first) as usize;
            let of_number: Vec<Held> = held.iter().map(|of_node| of_node[index]).collect();
            if examination.judge(number, &of_number) {
                return Ok(examination);
            }
        }
        last = first - 1;
    }
    Ok(examination)
}

/// What an I/O node has of the records of these numbers. If the last one is the newest, it may be `staged` there.
async fn read_records(
    job: Job,
    io_node: String,
    numbers: std::ops::Range<u64>,
    staged: Option<RunId>,
) -> Result<Vec<Held>, FileError> {
    let newest = numbers.end - 1;
    let read = |number| {
        let staged = staged.filter(|_| number == newest);
        tokio::spawn(read_record(job.clone(), io_node.clone(), number, staged))
    };
    let reading: Vec<JoinHandle<_>> = numbers.map(read).collect();
    let mut held = Vec::new();
    for one in reading {
        held.push(one.await.expect("a read does not panic, and nobody aborts it")?);
    }
    Ok(held)
}

async fn read_record(
    job: Job,
    io_node: String,
    number: u64,
    staged: Option<RunId>,
) -> Result<Held, FileError> {
    let held = read_from_disk(&job, &io_node, number).await?;
    let Some(run) = staged.filter(|_| held == Held::Nothing) else { return Ok(held) };
    match read_patiently(&job, &job.dataset.staged(&io_node, run)).await? {
        Some(_) => Ok(Held::Staged),
        // It may have taken its number between the two.
        None => read_from_disk(&job, &io_node, number).await,
    }
}

/// What is on an I/O node's disk.
async fn read_from_disk(job: &Job, io_node: &str, number: u64) -> Result<Held, FileError> {
    let bytes = match read_patiently(job, &job.dataset.record(io_node, number)).await {
        Err(error) if is_loss(&error) => return Ok(Held::Damaged),
        bytes => bytes?,
    };
    let Some(bytes) = bytes else { return Ok(Held::Nothing) };
    job.dataset.throttle().pass(bytes.len() as u64).await;
    Ok(match SignedRecord::parse(bytes) {
        Ok(record) if record.number == number => {
            Held::Whole { hash: record.hash(), predecessor: record.predecessor, removes: record.is_removed() }
        }
        Ok(_) | Err(_) => Held::Damaged,
    })
}

/// As [`Job::patiently`], in a form that a task of its own can have.
async fn read_patiently(job: &Job, name: &FileName) -> Result<Option<Bytes>, FileError> {
    let mut waiting = Patience::of(job).waiting();
    loop {
        match job.dataset.read_whole(name, MAX_RECORD_BYTES + 1, Source::Disk).await {
            Err(error) if is_outage(&error) && waiting.lasts(&error).await => {}
            read => return read,
        }
    }
}

impl Examination {
    /// What each I/O node has of the record of that number; those behind it were judged before. Says whether it removes
    /// the data set.
    fn judge(&mut self, number: u64, held: &[Held]) -> bool {
        let whole = held.iter().find_map(|held| match *held {
            Held::Whole { hash, predecessor, removes }
                if self.expected.is_none_or(|expected| expected == hash) =>
            {
                Some((hash, predecessor, removes))
            }
            _ => None,
        });
        self.expected = whole.map(|(_, predecessor, _)| predecessor);
        let Some((right, _, removes)) = whole else {
            self.nowhere.insert(number);
            return false;
        };
        for (harm, held) in self.harm.iter_mut().zip(held) {
            let of_kind = match held {
                Held::Staged => continue,
                Held::Whole { hash, .. } if *hash == right => continue,
                Held::Whole { .. } => &mut harm.other,
                Held::Nothing => &mut harm.lost,
                Held::Damaged => &mut harm.damaged,
            };
            of_kind.insert(number);
        }
        removes
    }

    fn in_words(&self, io_nodes: &[String]) -> Vec<String> {
        let mut words = Vec::new();
        for (io_node, harm) in io_nodes.iter().zip(&self.harm) {
            let kinds =
                [(&harm.lost, "lost"), (&harm.damaged, "damaged"), (&harm.other, "not what the others have")];
            for (numbers, what) in kinds.into_iter().filter(|(numbers, _)| !numbers.is_empty()) {
                let (is, them) = if numbers.len() == 1 { ("is", "it") } else { ("are", "them") };
                let records = in_ranges(numbers);
                words.push(format!("{io_node}: {records} {is} {what}; `sfio repair` puts {them} back"));
            }
        }
        if !self.nowhere.is_empty() {
            words.push(format!(
                "{}: no I/O node has {} whole",
                in_ranges(&self.nowhere),
                match self.nowhere.len() {
                    1 => "it",
                    _ => "them",
                }
            ));
        }
        words
    }
}

/// The numbers of records, those that follow one another as a range.
fn in_ranges(numbers: &BTreeSet<u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let words: Vec<String> = ranges
        .iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        })
        .collect();
    let noun = if numbers.len() == 1 { "record" } else { "records" };
    format!("{noun} {}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_one_another_are_a_range() {
        assert_eq!(in_ranges(&BTreeSet::from([7])), "record 7");
        assert_eq!(in_ranges(&BTreeSet::from([1, 2, 3, 5, 8, 9])), "records 1 to 3, 5, 8 to 9");
    }
}
