//! What was counted.

use std::collections::BTreeMap;

use serde::Serialize;

use super::distribution::ratio;
use super::file::{Class, File, MANY};
use super::sharing::share_row;
use super::{Conventions, Distribution, Job};
use crate::record::{IoMode, Micros, Operation, Request};

/// What was counted of a trace. Distributions are lists of value, count and weight.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// What it rests on.
    pub conventions: Conventions,
    /// How many jobs there are.
    pub jobs: u64,
    /// How many reads and writes.
    pub requests: u64,
    /// Of each day on which a job began what the jobs that began on it did (Tables 2 and 3).
    pub days: Vec<Day>,
    /// How many jobs opened 0, 1, …, 9, and 10 or more files (Tables 4 and 5).
    pub files_per_job: [u64; 11],
    /// How many files have 0, 1, 2, 3, and 4 or more interval sizes (Tables 6 and 7).
    pub interval_sizes: [u64; MANY + 1],
    /// How many files have 0, 1, 2, 3, and 4 or more request sizes (Tables 8 and 9).
    pub request_sizes: [u64; MANY + 1],
    /// How many files are shared by bytes, in the rows of Tables 10 and 11.
    pub byte_sharing: ByClass<[u64; 6]>,
    /// How many files are shared by blocks.
    pub block_sharing: ByClass<[u64; 6]>,
    /// How many files have one interval size, and of these in how many it is 0 (§4.5).
    pub one_interval: (u64, u64),
    /// Nodes of jobs (Figures 1 and 2).
    pub nodes: Distribution,
    /// Durations of jobs in microseconds (Figures 3 and 4).
    pub duration_us: Distribution,
    /// Sizes of files (Figures 5 and 6).
    pub size_bytes: Distribution,
    /// For how long files were open, in microseconds (Figures 7 and 8).
    pub open_us: Distribution,
    /// Sizes of writes, weighted by bytes (Figures 9 and 10).
    pub write_bytes: Distribution,
    /// Sizes of reads, weighted by bytes (Figures 11 and 12).
    pub read_bytes: Distribution,
    /// Shares of sequential requests of files, in hundredths of a percent (Figures 13 and 14).
    pub sequential: ByClass<Distribution>,
    /// Shares of consecutive requests of files, in hundredths of a percent (Figures 15 and 16).
    pub consecutive: ByClass<Distribution>,
    /// Requests that have one before them, and of these the sequential and the consecutive ones.
    pub pairs: (u64, u64, u64),
    /// Time between reads of a block, in microseconds (Figures 17 and 18).
    pub reread_us: Distribution,
    /// Time between writes of a block, in microseconds.
    pub rewrite_us: Distribution,
    /// What was done in which I/O mode (§4.6).
    pub modes: Vec<ModeShare>,
    /// Jobs with asynchronous requests.
    pub asynchronous_jobs: u64,
    /// Jobs with physical I/O, and its bytes (§4.9).
    pub physical: (u64, u64),
    /// Bytes read of files that were only read, and written of files that were only written (§4.2).
    pub pure_bytes: (u64, u64),
}

/// What the jobs that began on one day did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Day {
    /// The day, UTC: "1994-06-28".
    pub date: String,
    /// What they did.
    #[serde(flatten)]
    pub totals: Totals,
}

/// A row of Tables 2 and 3.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Jobs that began.
    pub jobs: u64,
    /// Files that they opened.
    pub files: u64,
    /// Files that were only read.
    pub read: u64,
    /// Files that were only written.
    pub written: u64,
    /// Files that were read and written.
    pub both: u64,
    /// Files that were neither.
    pub none: u64,
    /// Files that the same job created and deleted.
    pub temporary: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// Something for each class of files; those that were not touched have none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ByClass<T> {
    /// Files that were only read.
    pub read: T,
    /// Files that were only written.
    pub written: T,
    /// Files that were read and written.
    pub both: T,
}

/// What was done in one I/O mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ModeShare {
    /// The mode; none if none was set.
    pub mode: Option<IoMode>,
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

impl<T> ByClass<T> {
    /// That of a class.
    pub fn of(&self, class: Class) -> Option<&T> {
        match class {
            Class::Read => Some(&self.read),
            Class::Written => Some(&self.written),
            Class::Both => Some(&self.both),
            Class::None => None,
        }
    }

    fn of_mut(&mut self, class: Class) -> Option<&mut T> {
        match class {
            Class::Read => Some(&mut self.read),
            Class::Written => Some(&mut self.written),
            Class::Both => Some(&mut self.both),
            Class::None => None,
        }
    }
}

impl Totals {
    /// The sum of two rows.
    #[must_use]
    pub fn plus(self, other: Totals) -> Totals {
        Totals {
            jobs: self.jobs + other.jobs,
            files: self.files + other.files,
            read: self.read + other.read,
            written: self.written + other.written,
            both: self.both + other.both,
            none: self.none + other.none,
            temporary: self.temporary + other.temporary,
            bytes_read: self.bytes_read.saturating_add(other.bytes_read),
            bytes_written: self.bytes_written.saturating_add(other.bytes_written),
        }
    }

    /// How many files are in a class.
    pub fn of(&self, class: Class) -> u64 {
        match class {
            Class::Read => self.read,
            Class::Written => self.written,
            Class::Both => self.both,
            Class::None => self.none,
        }
    }
}

impl Report {
    /// The sum of all days.
    pub fn totals(&self) -> Totals {
        self.days.iter().fold(Totals::default(), |sum, day| sum.plus(day.totals))
    }

    /// Of the files of a class the percentages that are shared, in the rows of Tables 10 and 11. Without a class it is
    /// of all opened files, those that were not touched among them: they are in no row.
    pub fn sharing_percent(&self, counts: &ByClass<[u64; 6]>, class: Option<Class>) -> [f64; 6] {
        let totals = self.totals();
        std::array::from_fn(|row| match class {
            Some(class) => 100.0 * ratio(counts.of(class).map_or(0, |rows| rows[row]), totals.of(class)),
            None => {
                let sum = counts.read[row] + counts.written[row] + counts.both[row];
                100.0 * ratio(sum, totals.files)
            }
        })
    }

    /// Megabytes (10⁶ B) read per file that was only read, and written per file that was only written (§4.2).
    pub fn megabytes_per_file(&self) -> (f64, f64) {
        let totals = self.totals();
        (ratio(self.pure_bytes.0, totals.read) / 1e6, ratio(self.pure_bytes.1, totals.written) / 1e6)
    }

    /// The share of files of a class that were accessed more than 90 % consecutively (§4.4).
    pub fn consecutive_share(&self, class: Class) -> f64 {
        self.consecutive.of(class).map_or(0.0, |shares| shares.share(9_001..))
    }

    pub(super) fn note_request(&mut self, request: &Request, mode: Option<IoMode>, reused: &[(Micros, u64)]) {
        self.requests += 1;
        let (sizes, times) = match request.operation {
            Operation::Read => (&mut self.read_bytes, &mut self.reread_us),
            Operation::Write => (&mut self.write_bytes, &mut self.rewrite_us),
        };
        sizes.add(request.bytes, 1, request.bytes);
        reused.iter().for_each(|(elapsed, blocks)| times.add(*elapsed, *blocks, 0));
        let place = self.modes.iter().position(|share| share.mode == mode).unwrap_or_else(|| {
            self.modes.push(ModeShare { mode, requests: 0, bytes: 0 });
            self.modes.len() - 1
        });
        let share = &mut self.modes[place];
        share.requests += 1;
        share.bytes = share.bytes.saturating_add(request.bytes);
    }

    pub(super) fn note_job(&mut self, job: &Job) {
        self.jobs += 1;
        self.nodes.note(job.nodes().into());
        self.duration_us.note(job.duration());
        self.asynchronous_jobs += u64::from(job.is_asynchronous());
        if job.physical_bytes() > 0 {
            self.physical.0 += 1;
            self.physical.1 = self.physical.1.saturating_add(job.physical_bytes());
        }
        self.files_per_job[job.files.len().min(10)] += 1;
        let mut totals = Totals { jobs: 1, files: job.files.len() as u64, ..Totals::default() };
        job.files.values().for_each(|file| self.note_file(file, job.nodes(), &mut totals));
        let date = date(job.began());
        let place = self.days.binary_search_by(|day| day.date.cmp(&date)).unwrap_or_else(|place| {
            self.days.insert(place, Day { date, totals: Totals::default() });
            place
        });
        self.days[place].totals = self.days[place].totals.plus(totals);
    }

    fn note_file(&mut self, file: &File, nodes: u32, totals: &mut Totals) {
        let class = file.class();
        match class {
            Class::Read => totals.read += 1,
            Class::Written => totals.written += 1,
            Class::Both => totals.both += 1,
            Class::None => totals.none += 1,
        }
        totals.temporary += u64::from(file.created && file.deleted);
        totals.bytes_read = totals.bytes_read.saturating_add(file.read_bytes);
        totals.bytes_written = totals.bytes_written.saturating_add(file.written_bytes);
        match class {
            Class::Read => self.pure_bytes.0 = self.pure_bytes.0.saturating_add(file.read_bytes),
            Class::Written => self.pure_bytes.1 = self.pure_bytes.1.saturating_add(file.written_bytes),
            Class::Both | Class::None => {}
        }
        self.size_bytes.note(file.size);
        file.open_us.into_iter().for_each(|us| self.open_us.note(us));
        self.note_order(file, class);
        let shared = file.touches.shared(self.conventions.block_bytes, nodes);
        if let Some(rows) = self.byte_sharing.of_mut(class) {
            rows[share_row(shared.bytes)] += 1;
        }
        if let Some(rows) = self.block_sharing.of_mut(class) {
            rows[share_row(shared.blocks)] += 1;
        }
    }

    fn note_order(&mut self, file: &File, class: Class) {
        let (intervals, pairs) = (file.sequences.intervals(), file.sequences.pairs());
        self.interval_sizes[intervals] += 1;
        self.request_sizes[file.sequences.sizes()] += 1;
        self.pairs = (self.pairs.0 + pairs.0, self.pairs.1 + pairs.1, self.pairs.2 + pairs.2);
        if intervals == 1 {
            self.one_interval.0 += 1;
            self.one_interval.1 += u64::from(pairs.2 == pairs.0);
        }
        let (sequential, consecutive) = file.sequences.shares();
        self.sequential.of_mut(class).into_iter().for_each(|shares| shares.note(sequential));
        self.consecutive.of_mut(class).into_iter().for_each(|shares| shares.note(consecutive));
    }

    /// Shares of the bytes by mode.
    pub fn mode_bytes(&self) -> BTreeMap<Option<IoMode>, f64> {
        let all = self.modes.iter().map(|share| share.bytes).sum();
        self.modes.iter().map(|share| (share.mode, ratio(share.bytes, all))).collect()
    }
}

/// The day of a time, UTC, in the calendar that is used everywhere today.
fn date(at: Micros) -> String {
    // Days are counted in eras of 400 years that begin on a 1st of March, so that the leap day is the last one.
    let days = at / 86_400_000_000 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (of_month, month) =
        (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    format!("{:04}-{month:02}-{of_month:02}", era * 400 + year + u64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        let day = 86_400_000_000;
        for (days, expected) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (8_944, "1994-06-28"),
            (11_016, "2000-02-29"),
            (19_782, "2024-02-29"),
        ] {
            assert_eq!(
                (date(days * day), date(days * day + day - 1)),
                (expected.to_owned(), expected.to_owned())
            );
        }
    }
}
