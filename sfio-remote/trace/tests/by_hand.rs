//! Small traces whose figures were counted by hand.

use sfio_trace::analysis::{Analysis, Class, Conventions, Order, Report};
use sfio_trace::record::{
    ApplicationExit, ApplicationId, ApplicationLoad, ClientId, Close, Descriptor, FileId, IoMode, Link,
    Micros, Open, OpenMode, Operation, Record, Request, SetMode, Spread,
};

const BLOCK: u64 = 30_208;
const SECOND: Micros = 1_000_000;
const DAY: Micros = 86_400 * SECOND;

/// A job in the making.
struct Job {
    application: ApplicationId,
    records: Vec<Record>,
}

impl Job {
    fn begin(number: u64, at: Micros, clients: u32) -> Job {
        let application = ApplicationId(number);
        let executable = "/bin/job".to_owned();
        let load = ApplicationLoad { at, application, executable, user: 1, clients, client_list: Vec::new() };
        Job { application, records: vec![Record::ApplicationLoad(load)] }
    }

    fn open(mut self, at: Micros, client: Option<u32>, file: u64, mode: OpenMode) -> Job {
        let open = Open {
            at,
            application: self.application,
            client: client.map(ClientId),
            path: format!("/file-{file}"),
            file: FileId(file),
            descriptor: Descriptor(3),
            size: 0,
            created: at,
            mode,
        };
        self.records.push(match client {
            Some(_) => Record::ClientOpen(open),
            None => Record::ApplicationOpen(open),
        });
        self
    }

    fn request(
        mut self,
        at: Micros,
        client: Option<u32>,
        file: u64,
        what: Operation,
        range: (u64, u64),
    ) -> Job {
        self.records.push(Record::Request(Request {
            start: at,
            end: at + 10,
            application: self.application,
            client: client.map(ClientId),
            file: FileId(file),
            descriptor: Descriptor(3),
            operation: what,
            asynchronous: false,
            spread: None,
            offset: range.0,
            bytes: range.1,
        }));
        self
    }

    fn spread(mut self, spread: Spread) -> Job {
        if let Some(Record::Request(request)) = self.records.last_mut() {
            request.spread = Some(spread);
        }
        self
    }

    fn close(mut self, at: Micros, client: Option<u32>, file: u64, size: u64) -> Job {
        let close = Close {
            at,
            application: self.application,
            client: client.map(ClientId),
            file: FileId(file),
            size,
        };
        self.records.push(match client {
            Some(_) => Record::ClientClose(close),
            None => Record::ApplicationClose(close),
        });
        self
    }

    fn end(mut self, at: Micros) -> Vec<Record> {
        self.records.push(Record::ApplicationExit(ApplicationExit { at, application: self.application }));
        self.records
    }
}

fn analysed(jobs: &[Vec<Record>]) -> Report {
    let mut analysis = Analysis::new(Conventions::default());
    jobs.iter().flatten().for_each(|record| analysis.note(record));
    analysis.finish()
}

use Operation::{Read, Write};

/// A job as a whole writes a file: 100 B, 100 B right behind it, 50 B after a gap of 30 B, then 200 B at the begin.
fn one_writer() -> Vec<Record> {
    Job::begin(1, DAY, 32)
        .open(DAY + SECOND, None, 5, OpenMode::Create)
        .request(DAY + SECOND, None, 5, Write, (0, 100))
        .request(DAY + 2 * SECOND, None, 5, Write, (100, 100))
        .request(DAY + 5 * SECOND, None, 5, Write, (230, 50))
        .request(DAY + 6 * SECOND, None, 5, Write, (0, 200))
        .close(DAY + 9 * SECOND, None, 5, 280)
        .end(DAY + 20 * SECOND)
}

#[test]
fn a_file_that_a_job_writes_as_a_whole() {
    let report = analysed(&[one_writer()]);
    // 100 → 230 is higher, 230 → 0 is lower: of three requests behind another one, two are sequential, one is
    // consecutive. Intervals: 0, 30, −280. Sizes: 100, 50, 200.
    assert_eq!(report.pairs, (3, 2, 1));
    assert_eq!((report.interval_sizes, report.request_sizes), ([0, 0, 0, 1, 0], [0, 0, 0, 1, 0]));
    assert_eq!(report.sequential.written.cells().collect::<Vec<_>>(), [(6_666, 1, 0)]);
    assert_eq!(report.consecutive_share(Class::Written), 0.0);
    // Block 0 was written again after 1 s, 3 s and 1 s.
    assert_eq!(report.rewrite_us.cells().collect::<Vec<_>>(), [(1_000_000, 2, 0), (3_000_000, 1, 0)]);
    assert_eq!((report.reread_us.count(), report.requests), (0, 4));
    // 450 B in four requests: 2 of 100, one of 50, one of 200.
    assert_eq!(report.write_bytes.cells().collect::<Vec<_>>(), [(50, 1, 50), (100, 2, 200), (200, 1, 200)]);
    assert_eq!(report.duration_us.cells().collect::<Vec<_>>(), [(20_000_000, 1, 0)]);
    assert_eq!(report.open_us.cells().collect::<Vec<_>>(), [(8_000_000, 1, 0)]);
    assert_eq!(report.size_bytes.cells().collect::<Vec<_>>(), [(280, 1, 0)]);
    assert_eq!(report.nodes.cells().collect::<Vec<_>>(), [(32, 1, 0)]);
    assert_eq!(report.byte_sharing.written, [1, 0, 0, 0, 0, 0]);
}

/// Two processes take turns with 100 B each: of each by itself nothing is consecutive, of the job all of it is.
fn two_readers() -> Vec<Record> {
    let mut job = Job::begin(2, 2 * DAY, 2).open(2 * DAY, Some(0), 6, OpenMode::Read).open(
        2 * DAY,
        Some(1),
        6,
        OpenMode::Read,
    );
    for turn in 0..4_u64 {
        let client = Some((turn % 2) as u32);
        job = job.request(2 * DAY + turn * SECOND, client, 6, Read, (turn * 100, 100));
    }
    job.close(2 * DAY + 5 * SECOND, Some(0), 6, 400)
        .close(2 * DAY + 6 * SECOND, Some(1), 6, 400)
        .end(2 * DAY + 7 * SECOND)
}

#[test]
fn order_is_that_of_each_process_unless_the_job_asks() {
    let report = analysed(&[two_readers()]);
    assert_eq!(report.pairs, (2, 2, 0));
    assert_eq!(report.interval_sizes, [0, 1, 0, 0, 0]);
    assert_eq!(report.one_interval, (1, 0));
    let mut analysis = Analysis::new(Conventions { order: Order::Job, ..Conventions::default() });
    two_readers().iter().for_each(|record| analysis.note(record));
    let report = analysis.finish();
    assert_eq!((report.pairs, report.one_interval), ((3, 3, 3), (1, 1)));
    // No byte has two readers, but the only block has.
    assert_eq!(
        (report.byte_sharing.read, report.block_sharing.read),
        ([1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1])
    );
    // The first open to the last close.
    assert_eq!(report.open_us.cells().collect::<Vec<_>>(), [(6_000_000, 1, 0)]);
}

#[test]
fn days_and_classes_add_up_and_files_count_for_each_job() {
    let third = Job::begin(3, 2 * DAY + 3, 4)
        .open(2 * DAY + 3, None, 5, OpenMode::ReadWrite)
        .request(2 * DAY + 4, None, 5, Read, (0, 40))
        .request(2 * DAY + 5, None, 5, Write, (0, 60))
        .close(2 * DAY + 9, None, 5, 280)
        .open(2 * DAY + 9, None, 7, OpenMode::Read)
        .close(2 * DAY + 9, None, 7, 12)
        .end(2 * DAY + 9);
    let idle = Job::begin(4, 2 * DAY, 1).end(2 * DAY + 1);
    let report = analysed(&[one_writer(), two_readers(), third, idle]);
    let day = |index: usize| {
        let totals = report.days[index].totals;
        let counts = [totals.jobs, totals.files, totals.read, totals.written, totals.both, totals.none];
        (report.days[index].date.as_str(), counts, totals.bytes_read, totals.bytes_written)
    };
    assert_eq!(day(0), ("1970-01-02", [1, 1, 0, 1, 0, 0], 0, 450));
    assert_eq!(day(1), ("1970-01-03", [3, 3, 1, 0, 1, 1], 440, 60));
    assert_eq!(report.totals().files, 4);
    assert_eq!(report.files_per_job, [1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    // Of the four files three were touched: the fourth is in no row, but it is one of those that percentages are of.
    let overall = report.sharing_percent(&report.byte_sharing, None);
    assert_eq!(overall, [75.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    // Bytes of files that were both read and written are left out.
    assert_eq!(report.megabytes_per_file(), (400.0 / 1e6, 450.0 / 1e6));
}

#[test]
fn an_open_begins_a_new_order() {
    let job = Job::begin(1, DAY, 32)
        .open(DAY, None, 5, OpenMode::Write)
        .request(DAY + 1, None, 5, Write, (0, 100))
        .close(DAY + 2, None, 5, 100)
        .open(DAY + 3, None, 5, OpenMode::Write)
        .request(DAY + 4, None, 5, Write, (700, 300))
        .close(DAY + 5, None, 5, 1_000)
        .end(DAY + 6);
    let report = analysed(&[job]);
    assert_eq!((report.interval_sizes, report.request_sizes), ([1, 0, 0, 0, 0], [0, 0, 1, 0, 0]));
    assert_eq!(report.consecutive_share(Class::Written), 1.0);
    assert_eq!(report.open_us.cells().collect::<Vec<_>>(), [(4, 1, 0)]);
}

#[test]
fn sharing_is_counted_by_bytes_and_by_blocks() {
    // Two processes write halves of three blocks that meet within the second one, and 300 B in common.
    let half = 3 * BLOCK / 2;
    let job = Job::begin(1, DAY, 2)
        .request(DAY, Some(0), 5, Write, (0, half + 300))
        .request(DAY, Some(1), 5, Write, (half, half))
        .request(DAY, None, 6, Read, (0, 4 * BLOCK))
        .spread(Spread::Whole)
        .end(DAY + 6);
    let report = analysed(&[job]);
    // 300 of 90,624 bytes are 0.3 %; one of three blocks is 33 %.
    assert_eq!(
        (report.byte_sharing.written, report.block_sharing.written),
        ([0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0])
    );
    assert_eq!(
        (report.byte_sharing.read, report.block_sharing.read),
        ([0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1])
    );
}

#[test]
fn modes_and_temporary_files() {
    let set = SetMode {
        at: DAY,
        application: ApplicationId(1),
        client: Some(ClientId(0)),
        file: FileId(5),
        mode: IoMode::GlobalIndependent,
    };
    let mut records = Job::begin(1, DAY, 2)
        .open(DAY, Some(0), 5, OpenMode::Create)
        .request(DAY, Some(1), 5, Write, (0, 100))
        .end(DAY + 9);
    let exit = records.pop().expect("the exit");
    records.insert(2, Record::SetMode(set));
    let written = Job::begin(1, DAY, 2).request(DAY + 2, Some(0), 5, Write, (100, 300)).records.remove(1);
    let gone = Record::Link(Link {
        at: DAY + 3,
        application: ApplicationId(1),
        client: None,
        file: FileId(5),
        links: 0,
    });
    records.extend([written, gone, exit]);
    let report = analysed(&[records]);
    assert_eq!(
        report.mode_bytes(),
        [(None, 0.25), (Some(IoMode::GlobalIndependent), 0.75)].into_iter().collect()
    );
    assert_eq!(report.totals().temporary, 1);
}
