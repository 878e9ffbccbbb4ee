//! Darshan logs: those that our own writer makes in every version, and those that somebody else made.
//!
//! The logs of the PyPI package `darshan` are compared with its own reader if `SFIO_TRACE_DARSHAN_PYTHON` names a
//! Python that has the package:
//!
//! ```text
//! python3 -m venv /tmp/venv && /tmp/venv/bin/pip install darshan
//! SFIO_TRACE_DARSHAN_PYTHON=/tmp/venv/bin/python cargo test -p sfio-trace --test darshan -- --nocapture
//! ```
//!
//! Ten minutes of damaged logs (`SFIO_TRACE_FUZZ_S` says how many seconds):
//!
//! ```text
//! SFIO_TRACE_FUZZ_S=600 cargo test -p sfio-trace --release --test darshan damaged -- --nocapture
//! ```

use std::io::Write as _;
use std::process::Command;

use sfio_trace::analysis::{Analysis, Conventions};
use sfio_trace::darshan::{self, Layer, Log, Trace};

/// What a written log is made of.
#[derive(Clone, Copy)]
struct Shape {
    version: &'static str,
    compression: u8,
    is_big: bool,
    /// Streams that the requests are compressed in.
    streams: usize,
    /// Whether each segment names its thread.
    has_threads: bool,
}

const VERSIONS: [&str; 5] = ["3.00", "3.10", "3.20", "3.21", "3.41"];

struct Writer {
    shape: Shape,
    bytes: Vec<u8>,
}

impl Writer {
    fn new(shape: Shape) -> Writer {
        Writer { shape, bytes: Vec::new() }
    }

    fn word(&mut self, value: u64, size: usize) {
        let word = value.to_le_bytes();
        let word = &word[..size];
        if self.shape.is_big { self.bytes.extend(word.iter().rev()) } else { self.bytes.extend(word) }
    }

    fn words(&mut self, values: &[i64]) {
        values.iter().for_each(|value| self.word(*value as u64, 8));
    }

    fn padded(&mut self, text: &str, size: usize) {
        self.bytes.extend(text.bytes().chain(std::iter::repeat(0)).take(size));
    }

    fn compressed(&self, streams: usize) -> Vec<u8> {
        let part = self.bytes.len().div_ceil(streams).max(1);
        self.bytes.chunks(part).flat_map(|chunk| compressed(self.shape.compression, chunk)).collect()
    }
}

fn compressed(kind: u8, bytes: &[u8]) -> Vec<u8> {
    match kind {
        0 => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes it")
        }
        1 => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes it")
        }
        _ => bytes.to_vec(),
    }
}

/// Where a segment lies, and when it was, by its number.
fn segment(number: i64) -> (i64, i64, f64, f64) {
    (number * 4_096, 1_000 + number, number as f64 * 0.25, number as f64 * 0.25 + 0.125)
}

fn module(shape: Shape, ranks: i64, thread: bool) -> Writer {
    let mut writer = Writer::new(shape);
    for rank in 0..ranks {
        writer.words(&[77, rank, 0]);
        writer.padded("host-7", 64);
        writer.words(&[2, 3]);
        for number in 0..5 {
            let (offset, length, start, end) = segment(number);
            writer.words(&[offset, length, start.to_bits() as i64, end.to_bits() as i64]);
            if thread {
                writer.words(&[4_711]);
            }
        }
    }
    writer
}

/// A log of one file and three ranks: two writes and three reads each.
fn log(shape: Shape) -> Vec<u8> {
    let is_wide = shape.version == "3.41";
    let mut job = Writer::new(shape);
    match is_wide {
        true => job.words(&[1_000, 1_700_000_000, 250_000_000, 1_700_000_100, 0, 3, 42]),
        false => job.words(&[1_000, 1_700_000_000, 1_700_000_100, 3, 42]),
    }
    job.padded("lib_ver=0", 1_024);
    job.padded("/opt/app --big\nnfs\t/home", 500);
    let mut names = Writer::new(shape);
    names.words(&[77]);
    if shape.version == "3.00" {
        names.word(6, 4);
        names.padded("/a/b/c", 6);
    } else {
        names.padded("/a/b/c", 7);
    }
    let posix_number = match shape.version {
        "3.41" => 10,
        "3.20" | "3.21" => 9,
        _ => 8,
    };
    let regions = [
        job.compressed(1),
        names.compressed(1),
        module(shape, 3, shape.has_threads).compressed(shape.streams),
        module(shape, 1, false).compressed(1),
    ];
    assembled(shape, posix_number, &regions)
}

fn assembled(shape: Shape, posix: usize, regions: &[Vec<u8>; 4]) -> Vec<u8> {
    let is_wide = shape.version == "3.41";
    let (modules, size) = if is_wide { (64, 32 + 16 + 64 * 20) } else { (16, 24 + 16 + 16 * 20) };
    let mut header = Writer::new(shape);
    header.padded(shape.version, 8);
    header.words(&[6_567_223]);
    header.bytes.push(shape.compression);
    header.padded("", if is_wide { 7 } else { 3 });
    header.word(0, if is_wide { 8 } else { 4 });
    let offset = |index: usize| (size + regions[..index].iter().map(Vec::len).sum::<usize>()) as i64;
    header.words(&[offset(1), regions[1].len() as i64]);
    for number in 0..modules {
        match number {
            _ if number == posix => header.words(&[offset(2), regions[2].len() as i64]),
            _ if number == posix + 1 => header.words(&[offset(3), regions[3].len() as i64]),
            _ => header.words(&[0, 0]),
        }
    }
    for number in 0..modules {
        let version = if number == posix { 1 + u64::from(shape.has_threads) } else { 2 };
        header.word(version, 4);
    }
    assert_eq!(header.bytes.len(), size);
    header.bytes.into_iter().chain(regions.concat()).collect()
}

fn shapes() -> impl Iterator<Item = Shape> {
    let of = |version| {
        (0..3_u8).flat_map(move |compression| {
            [false, true].map(|is_big| Shape {
                version,
                compression,
                is_big,
                streams: 1 + usize::from(compression),
                has_threads: is_big && version == "3.41",
            })
        })
    };
    VERSIONS.into_iter().flat_map(of)
}

#[test]
fn every_version_is_read_as_it_was_written() {
    for shape in shapes() {
        let log = darshan::read(&log(shape)).unwrap_or_else(|error| panic!("{}: {error}", shape.version));
        assert_eq!((log.version.as_str(), log.is_partial), (shape.version, false));
        let job = (log.job.user, log.job.start / 1_000_000, log.job.processes, log.job.id);
        assert_eq!(job, (1_000, 1_700_000_000, 3, 42), "{}", shape.version);
        assert_eq!(log.job.start % 1_000_000, if shape.version == "3.41" { 250_000 } else { 0 });
        assert_eq!((log.job.executable.as_str(), log.names[&77].as_str()), ("/opt/app --big", "/a/b/c"));
        assert_eq!((log.posix.len(), log.mpiio.len()), (3, 1));
        for trace in &log.posix {
            let all: Vec<_> = trace.writes.iter().chain(&trace.reads).collect();
            let read: Vec<_> = all.iter().map(|s| (s.offset, s.length, s.start, s.end)).collect();
            assert_eq!(read, (0..5).map(segment).collect::<Vec<_>>());
            assert_eq!((trace.writes.len(), trace.host.as_str()), (2, "host-7"));
        }
    }
}

#[test]
fn a_log_becomes_records_that_can_be_analysed() {
    let shape = Shape { version: "3.21", compression: 0, is_big: false, streams: 1, has_threads: false };
    let log = darshan::read(&log(shape)).expect("a log");
    let mut analysis = Analysis::new(Conventions::default());
    log.records(Layer::Posix).iter().for_each(|record| analysis.note(record));
    let report = analysis.finish();
    // Three ranks with five requests each, at rising offsets with gaps.
    assert_eq!((report.jobs, report.requests, report.pairs), (1, 15, (12, 12, 0)));
    assert_eq!((report.totals().both, report.totals().bytes_read), (1, 3 * (1_002 + 1_003 + 1_004)));
    assert_eq!(report.byte_sharing.both, [0, 0, 0, 0, 0, 1]);
}

#[test]
fn errors_say_where() {
    let shape = Shape { version: "3.21", compression: 2, is_big: false, streams: 1, has_threads: false };
    let whole = log(shape);
    let error = |bytes: &[u8]| darshan::read(bytes).expect_err("it is damaged").to_string();
    let changed = |at: usize, with: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        error(&bytes)
    };
    assert_eq!(
        error(&whole[..12]),
        "header, byte 8: it ends within the magic number, which needs 4 bytes more"
    );
    let cut = error(&whole[..whole.len() - 1]);
    assert!(cut.starts_with("header: DXT_MPIIO is at byte") && cut.ends_with("is it cut off?"), "{cut}");
    assert_eq!(changed(0, b"2.05\0"), "header, byte 0: version \"2.05\"; expected 3.00 to 3.41");
    assert!(changed(8, &[1]).starts_with("header, byte 8: the magic number is"));
    assert_eq!(changed(16, &[9]), "header, byte 16: compression 9; expected 0 (zlib), 1 (bzip2) or 2 (none)");
    // The count of writes of the first record: behind the header, job, names, and 88 bytes of the record.
    let record = 376 - 16 + 5 * 8 + 1_024 + 500 + 15;
    let many = changed(record + 88, &[0xff, 0xff, 0xff]);
    assert!(many.starts_with("DXT_POSIX, byte 96: it ends within the segments of a record"), "{many}");
    let negative = changed(record + 88 + 16 + 8, &(-5_i64).to_le_bytes());
    assert!(negative.starts_with("DXT_POSIX, byte 136: the length of a segment is -5"), "{negative}");
    let mut damaged = log(Shape { compression: 0, ..shape });
    let place = damaged.len() - 30;
    damaged[place] ^= 0x55;
    let damaged = error(&damaged);
    assert!(damaged.starts_with("DXT_MPIIO, compressed byte"), "{damaged}");
}

/// A small generator of numbers; the same ones each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end.max(1)
    }
}

#[test]
fn damaged_logs_are_errors_and_no_panics() {
    let seconds: Option<u64> = std::env::var("SFIO_TRACE_FUZZ_S").ok().and_then(|text| text.parse().ok());
    let mut seeds: Vec<Vec<u8>> = shapes().map(log).collect();
    seeds.extend(
        oracle(None)
            .iter()
            .filter_map(|log| std::fs::read(log["path"].as_str()?).ok())
            .filter(|log| log.len() < 100_000),
    );
    let (mut dice, mut tried, mut read) = (Dice(7), 0_u64, 0_u64);
    #[allow(clippy::disallowed_methods, reason = "how long damaged logs are tried is counted in real time")]
    let began = std::time::Instant::now();
    while match seconds {
        Some(seconds) => began.elapsed().as_secs() < seconds,
        None => tried < 3_000,
    } {
        let mut bytes = seeds[dice.below(seeds.len())].clone();
        for _ in 0..=dice.below(4) {
            let end = if dice.below(2) == 0 { bytes.len().min(1_400) } else { bytes.len() };
            let place = dice.below(end);
            match dice.below(4) {
                0 => bytes[place] ^= 1 << dice.below(8),
                1 => bytes[place] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5)],
                2 => bytes.truncate(place.max(1)),
                _ => {
                    let (end, filler) =
                        ((place + dice.below(16)).min(bytes.len()), vec![0xff; dice.below(16)]);
                    bytes.splice(place..end, filler);
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        if let Ok(log) = darshan::read(&bytes) {
            read += 1;
            let mut analysis = Analysis::new(Conventions::default());
            log.records(Layer::Posix).iter().for_each(|record| analysis.note(record));
            drop(analysis.finish());
        }
        tried += 1;
    }
    println!("{tried} damaged logs, of which {read} could be read");
    assert!(tried > read);
}

/// What Darshan's own reader says of its logs and of those in a folder; nothing if it is not there.
fn oracle(folder: Option<&std::path::Path>) -> Vec<serde_json::Value> {
    let Ok(python) = std::env::var("SFIO_TRACE_DARSHAN_PYTHON") else { return Vec::new() };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle.py");
    let output =
        Command::new(&python).arg(script).args(folder).output().expect("the Python that was named runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the oracle speaks JSON")
}

/// The segments as the oracle names them.
fn segments(traces: &[Trace]) -> Vec<serde_json::Value> {
    let of = |trace: &Trace| {
        let kinds = [("write", &trace.writes), ("read", &trace.reads)];
        let (rank, id) = (trace.rank, trace.id);
        kinds
            .into_iter()
            .flat_map(|(kind, segments)| segments.iter().map(move |s| (kind, *s)))
            .map(move |(kind, s)| {
                serde_json::json!([kind, rank, id, s.offset, s.length, s.start.to_bits(), s.end.to_bits()])
            })
            .collect::<Vec<_>>()
    };
    traces.iter().flat_map(of).collect()
}

fn compare(log: &Log, expected: &serde_json::Value) -> u64 {
    let mut requests = 0;
    for (module, layer) in [("DXT_POSIX", Layer::Posix), ("DXT_MPIIO", Layer::MpiIo)] {
        let expected = &expected["modules"][module];
        let found = segments(log.traces(layer));
        assert_eq!(found.len(), expected["segments"].as_array().map_or(0, Vec::len), "{module}");
        assert_eq!(serde_json::Value::from(found), expected["segments"], "{module}");
        let mut analysis = Analysis::new(Conventions::default());
        log.records(layer).iter().for_each(|record| analysis.note(record));
        let report = analysis.finish();
        let (pairs, sequential, consecutive) = report.pairs;
        assert_eq!(serde_json::json!([pairs, sequential, consecutive]), expected["pairs"], "{module}");
        requests += report.requests;
    }
    requests
}

#[test]
fn logs_that_somebody_else_made_are_read_as_darshan_reads_them() {
    // Beside its own logs it reads those that our writer makes; it was built without bzip2.
    let folder = tempfile::tempdir().expect("a folder");
    for shape in shapes().filter(|shape| shape.compression == 0 && !shape.is_big) {
        let name = format!("ours-{}.darshan", shape.version);
        std::fs::write(folder.path().join(name), log(shape)).expect("it is written");
    }
    let logs = oracle(Some(folder.path()));
    if logs.is_empty() {
        println!("SKIPPED: SFIO_TRACE_DARSHAN_PYTHON names no Python with the package darshan");
        return;
    }
    for expected in &logs {
        let path = expected["path"].as_str().expect("a path");
        let bytes = std::fs::read(path).expect("the log is there");
        let log = darshan::read(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
        let job = serde_json::json!([log.job.processes, log.job.user, log.job.id, log.job.start / 1_000_000]);
        assert_eq!(
            job,
            serde_json::json!([
                expected["processes"],
                expected["user"],
                expected["job"],
                expected["start_s"]
            ]),
            "{path}"
        );
        let requests = compare(&log, expected);
        let name = path.rsplit('/').next().unwrap_or(path);
        println!("{} {name}: {requests} requests as Darshan reads them", log.version);
    }
}
