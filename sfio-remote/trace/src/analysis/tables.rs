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

/// Every table of the study, and its numbers that stand in the text only.
pub fn tables(report: &Report) -> Vec<TextTable> {
    vec![
        days_table(report),
        counted("Files opened per job (Tables 4 and 5)", "files", "jobs", &report.files_per_job),
        counted("Interval sizes per file (Tables 6 and 7)", "intervals", "files", &report.interval_sizes),
        counted("Request sizes per file (Tables 8 and 9)", "sizes", "files", &report.request_sizes),
        sharing_table(report),
        modes_table(report),
        facts_table(report),
    ]
}

fn days_table(report: &Report) -> TextTable {
    let header =
        vec!["date", "jobs", "files", "read", "written", "both", "none", "temp", "MB read", "MB written"];
    let days = report.days.iter().map(|day| (day.date.clone(), day.totals));
    let all = days.chain([("totals".to_owned(), report.totals())]);
    let row = |(date, totals): (String, super::Totals)| {
        let counts = [totals.jobs, totals.files, totals.read, totals.written, totals.both, totals.none];
        let megabytes =
            [totals.bytes_read, totals.bytes_written].map(|bytes| format!("{:.2}", bytes as f64 / 1e6));
        let counts = counts.iter().chain([&totals.temporary]).map(u64::to_string);
        [date].into_iter().chain(counts).chain(megabytes).collect()
    };
    TextTable { title: "Day by day (Tables 2 and 3)", header, rows: all.map(row).collect() }
}

fn sharing_table(report: &Report) -> TextTable {
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
            [&report.byte_sharing, &report.block_sharing].map(|counts| report.sharing_percent(counts, *class))
        })
        .collect();
    let row = |(index, name): (usize, &&str)| {
        let cells = columns.iter().map(|column| format!("{:.2}", column[index]));
        [(*name).to_owned()].into_iter().chain(cells).collect()
    };
    let rows = SHARE_ROWS.iter().enumerate().map(row).collect();
    TextTable { title: "Sharing within jobs, in % of the files (Tables 10 and 11)", header, rows }
}

fn modes_table(report: &Report) -> TextTable {
    let (requests, bytes) =
        report.modes.iter().fold((0, 0), |sum, share| (sum.0 + share.requests, sum.1 + share.bytes));
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
    let mut shares = report.modes.clone();
    shares.sort_by_key(|share| share.mode);
    let header = vec!["mode", "% of requests", "% of bytes"];
    TextTable { title: "I/O modes (section 4.6)", header, rows: shares.iter().map(row).collect() }
}

fn facts_table(report: &Report) -> TextTable {
    let (read, written) = report.megabytes_per_file();
    let (pairs, sequential, consecutive) = report.pairs;
    let part = |class| percent(report.consecutive_share(class));
    let rows = [
        ("MB read per file that was only read (4.2)", format!("{read:.2}")),
        ("MB written per file that was only written (4.2)", format!("{written:.2}")),
        ("files above 10 MB, % (4.2)", percent(report.size_bytes.share(10_000_001..))),
        ("files open for more than an hour, % (4.2)", percent(report.open_us.share(3_600_000_001..))),
        ("writes of 100 to 1,000 B, % (4.3, CMF)", percent(report.write_bytes.share(100..=1_000))),
        ("writes of 10 to 500 B, % (4.3, CMMD)", percent(report.write_bytes.share(10..=500))),
        ("bytes in writes above 4,000 B, % (4.3)", percent(report.write_bytes.weight_share(4_001..))),
        ("bytes in reads above 4,000 B, % (4.3)", percent(report.read_bytes.weight_share(4_001..))),
        ("requests at a higher offset than the one before, % (4.4)", percent(ratio(sequential, pairs))),
        ("requests right behind the one before, % (4.4)", percent(ratio(consecutive, pairs))),
        ("read-only files that are > 90 % consecutive, % (4.4)", part(Class::Read)),
        ("write-only files that are > 90 % consecutive, % (4.4)", part(Class::Written)),
        (
            "1-interval files whose interval is 0, % (4.5)",
            percent(ratio(report.one_interval.1, report.one_interval.0)),
        ),
        ("jobs with asynchronous requests (4.6)", report.asynchronous_jobs.to_string()),
        ("re-writes after 0.01 to 1 s, % (4.8, CMF)", percent(report.rewrite_us.share(10_000..=1_000_000))),
        ("re-writes after 0.1 to 1 s, % (4.8, CMMD)", percent(report.rewrite_us.share(100_000..=1_000_000))),
        ("jobs with physical I/O (4.9)", report.physical.0.to_string()),
        ("MB of physical I/O (4.9)", format!("{:.2}", report.physical.1 as f64 / 1e6)),
    ];
    let rows = rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]).collect();
    TextTable { title: "What stands in the text", header: vec!["what", "value"], rows }
}
