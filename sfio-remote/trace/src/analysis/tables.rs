//! The study's tables as text.

use super::distribution::ratio;
use super::{Class, Report, SHARE_ROWS};
use crate::record::IoMode;

/// A table with a title, as text; each row has as many cells as the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextTable {
    /// What it shows, and its number in the study.
    pub title: &'static str,
    /// The names of its columns.
    pub header: Vec<&'static str>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

fn percent(share: f64) -> String {
    format!("{:.2}", 100.0 * share)
}

/// Rows of a name, a count, and its share.
fn counted(title: &'static str, what: &'static str, of: &'static str, counts: &[u64]) -> TextTable {
    let sum = counts.iter().sum();
    let last = counts.len() - 1;
    let name = |index: usize| if index == last { format!("{index}+") } else { index.to_string() };
    let row =
        |(index, count): (usize, &u64)| vec![name(index), count.to_string(), percent(ratio(*count, sum))];
    TextTable { title, header: vec![what, of, "%"], rows: counts.iter().enumerate().map(row).collect() }
}

impl Report {
    /// Every table of the study, and its numbers that stand in the text only.
    pub fn tables(&self) -> Vec<TextTable> {
        vec![
            self.days_table(),
            counted("Files opened per job (Tables 4 and 5)", "files", "jobs", &self.files_per_job),
            counted("Interval sizes per file (Tables 6 and 7)", "intervals", "files", &self.interval_sizes),
            counted("Request sizes per file (Tables 8 and 9)", "sizes", "files", &self.request_sizes),
            self.sharing_table(),
            self.modes_table(),
            self.facts_table(),
        ]
    }

    fn days_table(&self) -> TextTable {
        let header =
            vec!["date", "jobs", "files", "read", "written", "both", "none", "temp", "MB read", "MB written"];
        let days = self.days.iter().map(|day| (day.date.clone(), day.totals));
        let all = days.chain([("totals".to_owned(), self.totals())]);
        let row = |(date, totals): (String, super::Totals)| {
            let counts = [totals.jobs, totals.files, totals.read, totals.written, totals.both, totals.none];
            let megabytes =
                [totals.bytes_read, totals.bytes_written].map(|bytes| format!("{:.2}", bytes as f64 / 1e6));
            let counts = counts.iter().chain([&totals.temporary]).map(u64::to_string);
            [date].into_iter().chain(counts).chain(megabytes).collect()
        };
        TextTable { title: "Day by day (Tables 2 and 3)", header, rows: all.map(row).collect() }
    }

    fn sharing_table(&self) -> TextTable {
        let header = vec![
            "% shared",
            "read byte",
            "read block",
            "written byte",
            "written block",
            "both byte",
            "both block",
            "overall byte",
            "overall block",
        ];
        let classes = [Some(Class::Read), Some(Class::Written), Some(Class::Both), None];
        let columns: Vec<[f64; 6]> = classes
            .iter()
            .flat_map(|class| {
                [&self.byte_sharing, &self.block_sharing].map(|counts| self.sharing_percent(counts, *class))
            })
            .collect();
        let row = |(index, name): (usize, &&str)| {
            let cells = columns.iter().map(|column| format!("{:.2}", column[index]));
            [(*name).to_owned()].into_iter().chain(cells).collect()
        };
        let rows = SHARE_ROWS.iter().enumerate().map(row).collect();
        TextTable { title: "Sharing within jobs, in % of the files (Tables 10 and 11)", header, rows }
    }

    fn modes_table(&self) -> TextTable {
        let (requests, bytes) =
            self.modes.iter().fold((0, 0), |sum, share| (sum.0 + share.requests, sum.1 + share.bytes));
        let name = |mode| match mode {
            Some(IoMode::LocalIndependent) => "local independent",
            Some(IoMode::GlobalIndependent) => "global independent",
            Some(IoMode::SynchronousBroadcast) => "synchronous broadcast",
            Some(IoMode::SynchronousSequential) => "synchronous sequential",
            None => "none set",
        };
        let row = |share: &super::ModeShare| {
            let shares = [ratio(share.requests, requests), ratio(share.bytes, bytes)].map(percent);
            [name(share.mode).to_owned()].into_iter().chain(shares).collect()
        };
        let mut shares = self.modes.clone();
        shares.sort_by_key(|share| share.mode);
        let header = vec!["mode", "% of requests", "% of bytes"];
        TextTable { title: "I/O modes (section 4.6)", header, rows: shares.iter().map(row).collect() }
    }

    fn facts_table(&self) -> TextTable {
        let (read, written) = self.megabytes_per_file();
        let (pairs, sequential, consecutive) = self.pairs;
        let part = |class| percent(self.consecutive_share(class));
        let rows = [
            ("MB read per file that was only read (4.2)", format!("{read:.2}")),
            ("MB written per file that was only written (4.2)", format!("{written:.2}")),
            ("files above 10 MB, % (4.2)", percent(self.size_bytes.share(10_000_001..))),
            ("files open for more than an hour, % (4.2)", percent(self.open_us.share(3_600_000_001..))),
            ("writes of 100 to 1,000 B, % (4.3, CMF)", percent(self.write_bytes.share(100..=1_000))),
            ("writes of 10 to 500 B, % (4.3, CMMD)", percent(self.write_bytes.share(10..=500))),
            ("bytes in writes above 4,000 B, % (4.3)", percent(self.write_bytes.weight_share(4_001..))),
            ("bytes in reads above 4,000 B, % (4.3)", percent(self.read_bytes.weight_share(4_001..))),
            ("requests at a higher offset than the one before, % (4.4)", percent(ratio(sequential, pairs))),
            ("requests right behind the one before, % (4.4)", percent(ratio(consecutive, pairs))),
            ("read-only files that are > 90 % consecutive, % (4.4)", part(Class::Read)),
            ("write-only files that are > 90 % consecutive, % (4.4)", part(Class::Written)),
            (
                "1-interval files whose interval is 0, % (4.5)",
                percent(ratio(self.one_interval.1, self.one_interval.0)),
            ),
            ("jobs with asynchronous requests (4.6)", self.asynchronous_jobs.to_string()),
            ("re-writes after 0.01 to 1 s, % (4.8, CMF)", percent(self.rewrite_us.share(10_000..=1_000_000))),
            (
                "re-writes after 0.1 to 1 s, % (4.8, CMMD)",
                percent(self.rewrite_us.share(100_000..=1_000_000)),
            ),
            ("jobs with physical I/O (4.9)", self.physical.0.to_string()),
            ("MB of physical I/O (4.9)", format!("{:.2}", self.physical.1 as f64 / 1e6)),
        ];
        let rows = rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]).collect();
        TextTable { title: "What stands in the text", header: vec!["what", "value"], rows }
    }
}
