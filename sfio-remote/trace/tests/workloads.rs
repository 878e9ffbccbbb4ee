//! Generated workloads, analysed, have the study's tables `[charisma]`.

use sfio_trace::analysis::{Analysis, Class, Conventions, Report};
use sfio_trace::model::{Generator, Misfits, Model};
use sfio_trace::paper;
use sfio_trace::record::IoMode;

fn analysed(preset: &str, jobs: usize, seed: u64) -> (Report, Misfits) {
    let model = Model::preset(preset).expect("it is one");
    let mut generator = Generator::new(&model, seed);
    let mut analysis = Analysis::new(Conventions::default());
    for job in generator.by_ref().take(jobs) {
        job.iter().for_each(|record| analysis.note(record));
    }
    (analysis.finish(), generator.misfits())
}

/// What was counted and what the study has, with the difference that is allowed.
struct Comparison {
    faults: Vec<String>,
}

impl Comparison {
    fn near(&mut self, what: &str, found: f64, expected: f64, allowed: f64) {
        println!("{what:<52} {found:>9.2} {expected:>9.2}");
        if (found - expected).abs() > allowed {
            self.faults.push(format!("{what}: {found:.2}, not {expected:.2} ± {allowed}"));
        }
    }

    fn least(&mut self, what: &str, found: f64, least: f64) {
        println!("{what:<52} {found:>9.2} {least:>8.2}+");
        if found < least {
            self.faults.push(format!("{what}: {found:.2}, not at least {least:.2}"));
        }
    }

    fn rows(&mut self, what: &str, found: &[u64], expected: &[u64]) {
        let percent =
            |counts: &[u64], row: usize| 100.0 * counts[row] as f64 / counts.iter().sum::<u64>() as f64;
        for row in 0..expected.len() {
            self.near(&format!("{what}, row {row}, %"), percent(found, row), percent(expected, row), 1.0);
        }
    }
}

/// Compares a report with column `which` of the paper's tables: 0 CMF, 1 CMMD.
fn compare(report: &Report, which: usize) -> Vec<String> {
    let mut all = Comparison { faults: Vec::new() };
    all.rows("files per job (Tables 4, 5)", &report.files_per_job, &paper::FILES_PER_JOB[which]);
    all.rows("interval sizes (Tables 6, 7)", &report.interval_sizes, &paper::INTERVAL_SIZES[which]);
    all.rows("request sizes (Tables 8, 9)", &report.request_sizes, &paper::REQUEST_SIZES[which]);
    let totals = report.totals();
    for (name, class, share) in [
        ("read", Class::Read, [33.6, 28.5][which]),
        ("written", Class::Written, [60.5, 65.9][which]),
        ("both", Class::Both, [5.8, 5.4][which]),
    ] {
        all.near(
            &format!("files {name}, %"),
            100.0 * totals.of(class) as f64 / totals.files as f64,
            share,
            1.0,
        );
    }
    let (read, written) = report.megabytes_per_file();
    let (expected_read, expected_written) = ([27.8, 117.5][which], [25.2, 110.2][which]);
    all.near("MB read per file", read, expected_read, 0.05 * expected_read);
    all.near("MB written per file", written, expected_written, 0.05 * expected_written);
    all.near("files above 10 MB, %", 100.0 * report.size_bytes.share(10_000_001..), [35.0, 50.0][which], 1.0);
    let small = [100..=1_000, 10..=500][which].clone();
    all.near("small writes, %", 100.0 * report.write_bytes.share(small), 90.0, 1.0);
    all.least("bytes in writes above 4,000 B, %", 100.0 * report.write_bytes.weight_share(4_001..), 90.0);
    all.least("bytes in reads above 4,000 B, %", 100.0 * report.read_bytes.weight_share(4_001..), 90.0);
    all.near(
        "> 90 % consecutive, written, %",
        100.0 * report.consecutive_share(Class::Written),
        [95.0, 60.0][which],
        1.0,
    );
    all.near(
        "> 90 % consecutive, read, %",
        100.0 * report.consecutive_share(Class::Read),
        [60.0, 20.0][which],
        1.0,
    );
    for (unit, counts) in [&report.byte_sharing, &report.block_sharing].into_iter().enumerate() {
        let columns = [Some(Class::Read), Some(Class::Written), Some(Class::Both), None];
        for (column, class) in columns.into_iter().enumerate() {
            let found = report.sharing_percent(counts, class);
            for (row, found) in found.into_iter().enumerate() {
                let expected = paper::SHARING[which][row][2 * column + unit];
                let what = format!("sharing by {}, column {column}, row {row}", ["bytes", "blocks"][unit]);
                // Of 49 CMMD files that are read and written each is two points.
                all.near(&what, found, expected, if column == 2 { 2.5 } else { 1.0 });
            }
        }
    }
    let rewrites =
        [report.rewrite_us.share(10_000..=1_000_000), report.rewrite_us.share(100_000..=1_000_000)];
    all.near("re-writes in time, %", 100.0 * rewrites[which], [85.0, 90.0][which], 1.0);
    all.near(
        "open for more than an hour, %",
        100.0 * report.open_us.share(3_600_000_001..),
        [15.0, 52.0][which],
        2.0,
    );
    if which == 0 {
        let (ones, zero) = report.one_interval;
        all.near("1-interval files with 0, %", 100.0 * zero as f64 / ones as f64, 79.0, 1.0);
    } else {
        let modes = report.mode_bytes();
        for (mode, share) in [
            (IoMode::SynchronousSequential, 78.0),
            (IoMode::GlobalIndependent, 11.9),
            (IoMode::SynchronousBroadcast, 8.7),
            (IoMode::LocalIndependent, 0.88),
        ] {
            let found = 100.0 * modes.get(&Some(mode)).copied().unwrap_or(0.0);
            all.near(&format!("{mode:?}, % of the bytes"), found, share, 1.0);
        }
    }
    all.faults
}

#[test]
fn the_studys_own_number_of_jobs_opens_exactly_its_files() {
    for (preset, totals) in [("charisma-cmf", paper::CMF_TOTALS), ("charisma-cmmd", paper::CMMD_TOTALS)] {
        let (report, _) = analysed(preset, totals.counts[0] as usize, 3);
        let found = report.totals();
        let counts =
            [found.jobs, found.files, found.read, found.written, found.both, found.none, found.temporary];
        assert_eq!(counts, totals.counts, "{preset}");
    }
}

#[test]
fn equal_seeds_give_equal_jobs() {
    let model = Model::preset("charisma-cmmd").expect("it is one");
    let jobs = |seed| Generator::new(&model, seed).take(5).collect::<Vec<_>>();
    assert_eq!(jobs(4), jobs(4));
    assert_ne!(jobs(4), jobs(5));
}

#[test]
fn generated_jobs_have_the_papers_tables() {
    for (which, preset) in ["charisma-cmf", "charisma-cmmd"].into_iter().enumerate() {
        // The message-passing jobs open three times as many files, with ten times the requests of the others.
        let jobs = std::env::var("SFIO_TRACE_JOBS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000);
        let (report, misfits) = analysed(preset, jobs, 1);
        println!("{preset}: {jobs} jobs, {} requests, {misfits:?}", report.requests);
        let faults = compare(&report, which);
        assert!(faults.is_empty(), "{preset}:\n{}", faults.join("\n"));
    }
}
