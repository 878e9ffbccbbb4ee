//! Traces as JSON lines, plain or compressed by zstd.
//!
//! A trace file is one record a line; a line may have further regions of the same call, and is then as many records.
//! Compressed files may be cut off by a crash: what was flushed before is read, and the error says how far it goes.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::record::{FORMAT_VERSION, Record};
use crate::regions::Regions;

/// The first bytes of a frame of zstd.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LinesError {
    /// A line is no record.
    #[error("line {line}: {}; expected a record in JSON, as {{\"record\":\"request\",…}}", in_words(.error))]
    Line {
        /// Which one; the first one is 1.
        line: usize,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// It is of another version.
    #[error("line {line}: it has format {found}; expected 1 to {FORMAT_VERSION}")]
    Version {
        /// Where the header is.
        line: usize,
        /// Its version.
        found: u32,
    },
    /// A record ends before it begins, or reaches past the largest offset.
    #[error("line {line}: {what}")]
    Value {
        /// Which one.
        line: usize,
        /// What is wrong, and what would be right.
        what: &'static str,
    },
    /// It is no text, or not all of it is.
    #[error(
        "line {line}: this is no text; expected records in JSON, plain or compressed by zstd, or a log of Darshan"
    )]
    NoText {
        /// Where that begins.
        line: usize,
    },
    /// The file cannot be read.
    #[error("after {bytes} bytes: {error}")]
    Read {
        /// How much came before.
        bytes: u64,
        /// What is wrong.
        error: io::Error,
    },
    /// The compressed bytes are damaged or end too early.
    #[error("after {bytes} bytes of text: {error}; expected a whole zstd stream")]
    Compression {
        /// How much came out before.
        bytes: u64,
        /// What is wrong.
        error: io::Error,
    },
}

/// What is wrong with a line. Its number in the file is another than that in the text of one line, and people have
/// whole numbers where Rust has types.
fn in_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let column = if error.column() > 0 { format!(" at column {}", error.column()) } else { String::new() };
    let text = text.replace(&place, &column);
    ["u64", "u32", "i64"]
        .iter()
        .fold(text, |text, of_rust| text.replace(&format!("expected {of_rust}"), "expected a whole number"))
}

/// The record as a line, with its line break.
pub fn line(record: &Record) -> String {
    let mut line = Vec::new();
    // Records hold numbers and strings only: each can be written.
    let _ = write_call(&mut line, record, &[]);
    String::from_utf8(line).unwrap_or_default()
}

/// Writes a request, or what a disk did, as a line with its line break, with `further` regions of the same call.
///
/// # Errors
/// If the sink has one.
pub fn write_call(sink: &mut impl Write, record: &Record, further: &[Regions]) -> io::Result<()> {
    serde_json::to_writer(&mut *sink, &Call { record, further })?;
    sink.write_all(b"\n")
}

/// What stands in one line.
#[derive(Serialize)]
struct Call<'a> {
    #[serde(flatten)]
    record: &'a Record,
    #[serde(skip_serializing_if = "<[Regions]>::is_empty")]
    further: &'a [Regions],
}

/// What a line may have beside its record.
#[derive(Deserialize)]
struct Beside {
    #[serde(default)]
    further: Vec<Regions>,
}

/// Reads records one by one from bytes, plain or compressed; so a large trace needs no memory of its size.
pub struct Lines<'a> {
    source: Box<dyn std::io::BufRead + 'a>,
    is_compressed: bool,
    text: String,
    /// The further regions of the latest line.
    further: Box<dyn Iterator<Item = Record>>,
    number: usize,
    bytes: u64,
}

impl<'a> Lines<'a> {
    /// Looks at the first bytes, which tell whether the trace is compressed.
    ///
    /// # Errors
    /// If the decompressor cannot begin.
    pub fn new(mut source: impl std::io::BufRead + 'a) -> Result<Lines<'a>, LinesError> {
        let first = source.fill_buf().map_err(|error| LinesError::Read { bytes: 0, error })?;
        let is_compressed = first.starts_with(&ZSTD_MAGIC);
        let failed = |error| LinesError::Compression { bytes: 0, error };
        let source: Box<dyn std::io::BufRead + 'a> = if is_compressed {
            let decoder = zstd::stream::read::Decoder::with_buffer(source).map_err(failed)?;
            Box::new(std::io::BufReader::with_capacity(1 << 16, decoder))
        } else {
            Box::new(source)
        };
        let (text, further) = (String::new(), Box::new(std::iter::empty()));
        Ok(Lines { source, is_compressed, text, further, number: 0, bytes: 0 })
    }

    fn read(&mut self) -> Result<Option<Record>, LinesError> {
        if let Some(record) = self.further.next() {
            return Ok(Some(record));
        }
        loop {
            self.text.clear();
            let read = self.source.read_line(&mut self.text);
            let count = read.map_err(|error| self.unreadable(error))?;
            if count == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.bytes += count as u64;
            if !self.text.trim().is_empty() {
                let record = parsed(&self.text, self.number)?;
                check(&record, self.number)?;
                // Few lines have any, and all would take longer to read if each was asked.
                if self.text.contains("\"further\"") {
                    let Beside { further } = parsed(&self.text, self.number)?;
                    self.further = Box::new(elsewhere(&record, further, self.number)?);
                }
                return Ok(Some(record));
            }
        }
    }
}

impl Lines<'_> {
    /// Why the next line cannot be read.
    fn unreadable(&self, error: io::Error) -> LinesError {
        let bytes = self.bytes;
        match error.kind() {
            // Standard says so of bytes that are not UTF-8.
            io::ErrorKind::InvalidData => LinesError::NoText { line: self.number + 1 },
            _ if self.is_compressed => LinesError::Compression { bytes, error },
            _ => LinesError::Read { bytes, error },
        }
    }
}

impl Iterator for Lines<'_> {
    type Item = Result<Record, LinesError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn parsed<'a, T: Deserialize<'a>>(text: &'a str, line: usize) -> Result<T, LinesError> {
    serde_json::from_str(text).map_err(|error| LinesError::Line { line, error })
}

/// The call of a record, as records of its further regions.
fn elsewhere(
    record: &Record,
    further: Vec<Regions>,
    line: usize,
) -> Result<impl Iterator<Item = Record> + use<>, LinesError> {
    if !further.iter().all(Regions::are_valid) {
        let what =
            "further regions end below 2^63, and a run [offset, bytes, times, stride] has 1 to 1,048,576";
        return Err(LinesError::Value { line, what });
    }
    if record.elsewhere(0, 0).is_none() {
        let what = "it has further regions, which only `request` and `physical` have";
        return Err(LinesError::Value { line, what });
    }
    let record = record.clone();
    let regions = further.into_iter().flat_map(Regions::each);
    Ok(regions.filter_map(move |(offset, bytes)| record.elsewhere(offset, bytes)))
}

/// What no reader behind this one has to ask again.
fn check(record: &Record, line: usize) -> Result<(), LinesError> {
    let interval = |start: u64, end, offset: u64, bytes| match (end >= start, offset.checked_add(bytes)) {
        (true, Some(last)) if last <= i64::MAX as u64 => Ok(()),
        (false, _) => Err(LinesError::Value { line, what: "it ends before it begins" }),
        _ => {
            Err(LinesError::Value { line, what: "it reaches past 2^63 − 1, the largest offset of a file" })
        }
    };
    match record {
        Record::Header(header) if !(1..=FORMAT_VERSION).contains(&header.format) => {
            Err(LinesError::Version { line, found: header.format })
        }
        Record::Request(request) => {
            if let Some(crate::record::Spread::Dealt { unit, overlap }) = request.spread
                && (unit == 0 || overlap > unit)
            {
                return Err(LinesError::Value {
                    line,
                    what: "a spread has a unit, and an overlap of at most a unit",
                });
            }
            interval(request.start, request.end, request.offset, request.bytes)
        }
        Record::Physical(request) => interval(request.start, request.end, request.offset, request.bytes),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{ApplicationId, Descriptor, FileId, Operation, Request, header};
    use crate::runs::{Run, runs};

    fn line_of(record: &Record, further: &[Regions]) -> String {
        let mut line = Vec::new();
        write_call(&mut line, record, further).expect("a vector takes all");
        String::from_utf8(line).expect("JSON is text")
    }

    fn request(offset: u64) -> Record {
        Record::Request(Request {
            start: 5,
            end: 7,
            application: ApplicationId(1),
            client: None,
            file: FileId(2),
            descriptor: Descriptor(3),
            operation: Operation::Write,
            asynchronous: false,
            spread: None,
            offset,
            bytes: 10,
        })
    }

    fn text(records: &[Record]) -> String {
        records.iter().map(line).collect()
    }

    #[test]
    fn what_is_written_is_read_plain_and_compressed() {
        let records: Vec<Record> =
            [header(1, "sfio", "3 nodes")].into_iter().chain((0..1_000).map(request)).collect();
        let text = text(&records);
        let packed = zstd::encode_all(text.as_bytes(), 3).expect("it is compressed");
        assert!(packed.len() * 10 < text.len());
        for bytes in [text.as_bytes(), &packed] {
            let read: Result<Vec<Record>, _> = Lines::new(bytes).expect("it begins").collect();
            assert_eq!(read.expect("it is whole"), records);
        }
    }

    #[test]
    fn the_regions_of_a_call_are_read_as_requests_of_their_own() {
        let call = (0..1_000).map(|index| 10 * index).chain([77, 3]);
        let regions = Regions::gather(runs(call.clone().skip(1).map(|offset| (offset, 10))));
        let text = line_of(&request(0), &regions) + &line(&request(5));
        assert_eq!(text.lines().count(), 2);
        let read: Result<Vec<Record>, _> = Lines::new(text.as_bytes()).expect("it begins").collect();
        assert_eq!(read.expect("it is whole"), call.chain([5]).map(request).collect::<Vec<_>>());
    }

    #[test]
    fn regions_that_nobody_can_ask_for_are_an_error() {
        let endless = Run { offset: 0, bytes: 0, times: u64::MAX, stride: 0 };
        for (record, run, expected) in [
            (
                request(1),
                endless,
                "line 1: further regions end below 2^63, and a run [offset, bytes, times, stride] has",
            ),
            (header(1, "sfio", ""), Run::one(1, 1), "line 1: it has further regions, which only"),
        ] {
            let text = line_of(&record, &[Regions::Run(run)]);
            let error = Lines::new(text.as_bytes()).expect("it begins").find_map(Result::err).expect("one");
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_format_that_never_was_or_is_not_yet_is_an_error() {
        for found in [0, FORMAT_VERSION + 1] {
            let Record::Header(mut header) = header(1, "sfio", "") else { unreachable!("it is a header") };
            header.format = found;
            let text = line(&Record::Header(header));
            let error = Lines::new(text.as_bytes()).expect("it begins").find_map(Result::err).expect("one");
            assert_eq!(error.to_string(), format!("line 1: it has format {found}; expected 1 to 3"));
        }
    }

    /// It named line 2 of a text of one line, and Rust's types.
    #[test]
    fn a_line_that_is_no_record_is_told_with_its_own_number() {
        let told = |line: &str| {
            let text = format!("\n\n{line}\n");
            let error = Lines::new(text.as_bytes()).expect("it begins").find_map(Result::err).expect("one");
            error.to_string()
        };
        let cut = told("{\"record\":\"request\",");
        assert!(cut.starts_with("line 3: EOF while parsing") && !cut.contains("line 2"), "{cut}");
        let whole = line(&request(1));
        let word = told(whole.trim_end().replace("\"offset\":1", "\"offset\":\"x\"").as_str());
        assert!(word.contains("line 3: invalid type: string \"x\", expected a whole number"), "{word}");
    }

    #[test]
    fn errors_name_the_line_or_how_far_the_stream_went() {
        let broken = text(&[request(1)]) + "\n{\"record\":\"request\"}\n";
        let error = Lines::new(broken.as_bytes()).expect("it begins").find_map(Result::err);
        assert!(error.expect("one").to_string().starts_with("line 3: missing field"));
        let packed =
            zstd::encode_all(text(&[request(1)]).repeat(1_000).as_bytes(), 3).expect("it is compressed");
        let cut = &packed[..packed.len() - 4];
        let error = Lines::new(cut).expect("it begins").find_map(Result::err).expect("one").to_string();
        assert!(error.starts_with("after ") && error.contains("whole zstd stream"), "{error}");
        let no_text = [line(&request(1)).as_bytes(), b"\xff\xfe\n"].concat();
        let error =
            Lines::new(&no_text[..]).expect("it begins").find_map(Result::err).expect("one").to_string();
        assert!(error.starts_with("line 2: this is no text; expected records in JSON"), "{error}");
        let odd = line(&request(1)).replace("}\n", ",\"further\":[[1,2,3]]}\n");
        let error = Lines::new(odd.as_bytes()).expect("it begins").find_map(Result::err).expect("one");
        let expected = "line 1: expected [offset, bytes] or [offset, bytes, times, stride]";
        assert!(error.to_string().starts_with(expected), "{error}");
        let far = Lines::new(text(&[request(u64::MAX)]).as_bytes())
            .expect("it begins")
            .find_map(Result::err)
            .map(|e| e.to_string());
        assert_eq!(far.as_deref(), Some("line 1: it reaches past 2^63 − 1, the largest offset of a file"));
    }
}
