//! Requests, from the client to an I/O node.
//!
//! ```text
//!  0               1               2               3
//! ┌───────────────┬───────────────┬───────────────┬───────────────┐
//! │      'S'      │      'F'      │    version    │     kind      │  0
//! ├───────────────┴───────────────┼───────────────┴───────────────┤
//! │             flags             │          path length          │  4
//! ├───────────────────────────────┼───────────────────────────────┤
//! │         target length         │            packing            │  8
//! ├───────────────────────────────┴───────────────────────────────┤
//! │                        run table length                       │ 12
//! ├───────────────────────────────────────────────────────────────┤
//! │                      operation (64 bits)                      │ 16
//! ├───────────────────────────────────────────────────────────────┤
//! │                            transfer                           │ 24
//! ├───────────────────────────────────────────────────────────────┤
//! │                        length (64 bits)                       │ 28
//! ├───────────────────────────────────────────────────────────────┤
//! │ path · target · run table, then the payload of a write        │ 36
//! └───────────────────────────────────────────────────────────────┘
//! ```

use bytes::Bytes;

use super::field::{Fields, at_most, text};
use super::{MAX_RUN_TABLE_BYTES, RunTable, VERSION, WireError};
use crate::compression::Packing;
use crate::dataset::DatasetPath;
use crate::distribution::MAX_LENGTH;
use crate::name::{EntryName, MAX_PATH_BYTES, SubfilePath};
use crate::replication::RunId;

const MAGIC: u16 = u16::from_be_bytes(*b"SF");
const FIXED_BYTES: usize = 36;

/// The longest request without its payload, in bytes.
pub const MAX_REQUEST_BYTES: usize = FIXED_BYTES + 2 * MAX_PATH_BYTES + MAX_RUN_TABLE_BYTES;

const DURABLE: u16 = 1;
const TRUNCATE: u16 = 2;
const REPLACE: u16 = 4;
const RESET: u16 = 8;
const CLAIM: u16 = 16;
const EXCLUSIVE: u16 = 32;
const FROM_DISK: u16 = 64;

/// What a client asks of an I/O node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which operation of the client it belongs to.
    pub id: RequestId,
    /// Whether the reply may come only when the change will survive a power loss.
    pub durable: bool,
    /// How the payload is packed: of a write its own, of a read that of the reply. Others are raw.
    pub packing: Packing,
    /// What to do, and to which subfile.
    pub kind: RequestKind,
}

/// Names a request among all of one client process, so that a repetition can be told from a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId {
    /// The operation.
    pub operation: u64,
    /// The operation's transfer.
    pub transfer: u32,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestKind {
    /// Send these extents, as far as they exist.
    Read {
        /// The subfile.
        path: SubfilePath,
        /// What to send, in this order.
        runs: RunTable,
        /// Whether what the operating system holds in memory does not count: to know what is on the disk.
        from_disk: bool,
    },
    /// Put the payload into these extents.
    Write {
        /// The subfile; it must exist.
        path: SubfilePath,
        /// Where the payload goes, in this order.
        runs: RunTable,
    },
    /// See to it that the subfile exists.
    Create {
        /// The subfile.
        path: SubfilePath,
        /// Whether one that exists becomes empty.
        truncate: bool,
        /// Whether nobody else may change it until this session removes it, gives it another path, or ends.
        claim: bool,
        /// Whether it is an error if it exists. Then nothing can be truncated or claimed.
        exclusive: bool,
    },
    /// Cut or extend with zeros to this size.
    SetLength {
        /// The subfile.
        path: SubfilePath,
        /// Its new size in bytes.
        length: u64,
    },
    /// Extend with zeros to at least this size.
    Grow {
        /// The subfile.
        path: SubfilePath,
        /// The size in bytes that it must have at least.
        length: u64,
    },
    /// Tell the size.
    Stat {
        /// The subfile.
        path: SubfilePath,
    },
    /// Make everything that was written before survive a power loss.
    Sync {
        /// The subfile.
        path: SubfilePath,
    },
    /// Remove the subfile.
    Remove {
        /// The subfile.
        path: SubfilePath,
    },
    /// Give the subfile another path.
    Rename {
        /// The subfile.
        path: SubfilePath,
        /// Its new path.
        target: SubfilePath,
        /// Whether a subfile that has this path already is replaced; else that is an error.
        replace: bool,
    },
    /// Send the eight error counters.
    ErrorCounters {
        /// Whether they start again from zero.
        reset: bool,
    },
    /// Make a staged record the one of its number, if it may be that. What has been published so stays so.
    Publish {
        /// The data set.
        dataset: DatasetPath,
        /// What the record was staged as.
        staged: RunId,
        /// The record's number.
        number: u64,
    },
    /// Somebody reads the data set: nothing of it may be reclaimed for a while.
    Mark {
        /// The data set.
        dataset: DatasetPath,
    },
    /// Remove what a run sent, which the newest record condemns, unless a reader may still need it.
    Reclaim {
        /// The data set.
        dataset: DatasetPath,
        /// The run.
        run: RunId,
        /// The number of the newest record.
        number: u64,
    },
    /// Tell what a folder holds, in the order of the names, as far as one reply has room.
    List {
        /// The folder, which may be the export root.
        folder: SubfilePath,
        /// Only what comes behind this name; none: from the beginning.
        after: Option<EntryName>,
    },
}

impl RequestKind {
    fn code(&self) -> u8 {
        match self {
            RequestKind::Read { .. } => 1,
            RequestKind::Write { .. } => 2,
            RequestKind::Create { .. } => 3,
            RequestKind::SetLength { .. } => 4,
            RequestKind::Grow { .. } => 5,
            RequestKind::Stat { .. } => 6,
            RequestKind::Sync { .. } => 7,
            RequestKind::Remove { .. } => 8,
            RequestKind::Rename { .. } => 9,
            RequestKind::ErrorCounters { .. } => 10,
            RequestKind::List { .. } => 11,
            RequestKind::Publish { .. } => 12,
            RequestKind::Mark { .. } => 13,
            RequestKind::Reclaim { .. } => 14,
        }
    }

    /// The subfile, folder or data set that it is about; none for the error counters.
    pub fn path(&self) -> Option<&SubfilePath> {
        match self {
            RequestKind::Read { path, .. }
            | RequestKind::Write { path, .. }
            | RequestKind::Create { path, .. }
            | RequestKind::SetLength { path, .. }
            | RequestKind::Grow { path, .. }
            | RequestKind::Stat { path }
            | RequestKind::Sync { path }
            | RequestKind::Remove { path }
            | RequestKind::Rename { path, .. }
            | RequestKind::List { folder: path, .. } => Some(path),
            RequestKind::Publish { dataset, .. }
            | RequestKind::Mark { dataset }
            | RequestKind::Reclaim { dataset, .. } => Some(dataset.folder()),
            RequestKind::ErrorCounters { .. } => None,
        }
    }

    /// The number of payload bytes that follow the request.
    pub fn payload(&self) -> u64 {
        match self {
            RequestKind::Write { runs, .. } => runs.payload(),
            _ => 0,
        }
    }

    fn runs(&self) -> Option<&RunTable> {
        match self {
            RequestKind::Read { runs, .. } | RequestKind::Write { runs, .. } => Some(runs),
            _ => None,
        }
    }

    fn flags(&self) -> u16 {
        match self {
            RequestKind::Create { truncate, claim, exclusive, .. } => {
                (u16::from(*truncate) * TRUNCATE)
                    | (u16::from(*claim) * CLAIM)
                    | (u16::from(*exclusive) * EXCLUSIVE)
            }
            RequestKind::Read { from_disk: true, .. } => FROM_DISK,
            RequestKind::Rename { replace: true, .. } => REPLACE,
            RequestKind::ErrorCounters { reset: true } => RESET,
            _ => 0,
        }
    }
}

impl Request {
    /// The bytes of the request, without its payload.
    pub fn emit(&self) -> Vec<u8> {
        let path = self.kind.path().map_or("", SubfilePath::as_str);
        let target = match &self.kind {
            RequestKind::Rename { target, .. } => target.to_string(),
            RequestKind::List { after: Some(after), .. } => after.to_string(),
            RequestKind::Publish { staged: run, .. } | RequestKind::Reclaim { run, .. } => run.to_string(),
            _ => String::new(),
        };
        let length = match &self.kind {
            RequestKind::SetLength { length, .. } | RequestKind::Grow { length, .. } => *length,
            RequestKind::Publish { number, .. } | RequestKind::Reclaim { number, .. } => *number,
            _ => 0,
        };
        let runs = self.kind.runs().map_or(&[][..], |runs| runs.as_bytes());
        let flags = self.kind.flags() | if self.durable { DURABLE } else { 0 };
        let mut bytes = Vec::with_capacity(FIXED_BYTES + path.len() + target.len() + runs.len());
        bytes.extend(MAGIC.to_be_bytes());
        bytes.extend([VERSION, self.kind.code()]);
        bytes.extend(flags.to_be_bytes());
        // Paths and run tables were checked against their limits when they were made; the limits fit the fields.
        bytes.extend((path.len() as u16).to_be_bytes());
        bytes.extend((target.len() as u16).to_be_bytes());
        bytes.extend(self.packing.bits().to_be_bytes());
        bytes.extend((runs.len() as u32).to_be_bytes());
        bytes.extend(self.id.operation.to_be_bytes());
        bytes.extend(self.id.transfer.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend_from_slice(path.as_bytes());
        bytes.extend_from_slice(target.as_bytes());
        bytes.extend_from_slice(runs);
        bytes
    }

    /// The request that `bytes` are.
    ///
    /// # Errors
    /// If they are not exactly one request of this version.
    pub fn parse(bytes: &Bytes) -> Result<Request, WireError> {
        let view = RequestView::new(bytes)?;
        let path = || path(view.path);
        let runs = || RunTable::parse(bytes.slice(bytes.len() - view.run_table.len()..));
        let mut expected = Extras::default();
        let kind = match view.kind {
            1 => RequestKind::Read {
                path: path()?,
                runs: expected.run_table(runs)?,
                from_disk: expected.flag(&view, FROM_DISK),
            },
            2 => RequestKind::Write { path: path()?, runs: expected.run_table(runs)? },
            3 => RequestKind::Create {
                path: path()?,
                truncate: expected.flag(&view, TRUNCATE),
                claim: expected.flag(&view, CLAIM),
                exclusive: expected.exclusive(&view)?,
            },
            4 => RequestKind::SetLength { path: path()?, length: expected.length(&view)? },
            5 => RequestKind::Grow { path: path()?, length: expected.length(&view)? },
            6 => RequestKind::Stat { path: path()? },
            7 => RequestKind::Sync { path: path()? },
            8 => RequestKind::Remove { path: path()? },
            9 => RequestKind::Rename {
                path: path()?,
                target: expected.target(&view)?,
                replace: expected.flag(&view, REPLACE),
            },
            10 => RequestKind::ErrorCounters { reset: expected.flag(&view, RESET) },
            11 => RequestKind::List { folder: folder(view.path)?, after: expected.name(&view)? },
            12 => RequestKind::Publish {
                dataset: DatasetPath::new(path()?)?,
                staged: expected.run(&view)?,
                number: expected.record_number(&view)?,
            },
            13 => RequestKind::Mark { dataset: DatasetPath::new(path()?)? },
            14 => RequestKind::Reclaim {
                dataset: DatasetPath::new(path()?)?,
                run: expected.run(&view)?,
                number: expected.record_number(&view)?,
            },
            value => return Err(WireError::Unknown { what: "kind of request", value: value.into() }),
        };
        expected.refuse_others(&view, &kind)?;
        let packing = packing(&view, &kind)?;
        Ok(Request { id: view.id, durable: view.flags & DURABLE != 0, packing, kind })
    }
}

/// Which optional fields a kind of request has; all others must be empty, so that each request has one spelling.
#[derive(Default)]
struct Extras {
    flags: u16,
    length: bool,
    target: bool,
    run_table: bool,
}

impl Extras {
    fn flag(&mut self, view: &RequestView<'_>, flag: u16) -> bool {
        self.flags |= flag;
        view.flags & flag != 0
    }

    fn length(&mut self, view: &RequestView<'_>) -> Result<u64, WireError> {
        self.length = true;
        at_most("the length", view.length, MAX_LENGTH)
    }

    fn target(&mut self, view: &RequestView<'_>) -> Result<SubfilePath, WireError> {
        self.target = true;
        path(view.target)
    }

    /// A record's number in place of a length; the first one is 1.
    fn record_number(&mut self, view: &RequestView<'_>) -> Result<u64, WireError> {
        match self.length(view)? {
            0 => Err(WireError::Unknown { what: "number of a record", value: 0 }),
            number => Ok(number),
        }
    }

    /// A run in place of a target.
    fn run(&mut self, view: &RequestView<'_>) -> Result<RunId, WireError> {
        self.target = true;
        text("run", view.target)?.parse().map_err(|_| WireError::Run)
    }

    /// A name in place of a target, if there is one.
    fn name(&mut self, view: &RequestView<'_>) -> Result<Option<EntryName>, WireError> {
        self.target = true;
        match view.target {
            [] => Ok(None),
            name => Ok(Some(EntryName::new(text("name", name)?)?)),
        }
    }

    /// Whether only a new subfile will do; there is nothing of it to truncate, and what is written once needs no claim.
    fn exclusive(&mut self, view: &RequestView<'_>) -> Result<bool, WireError> {
        let exclusive = self.flag(view, EXCLUSIVE);
        match view.flags & (TRUNCATE | CLAIM) {
            flags if exclusive && flags != 0 => Err(WireError::Superfluous {
                kind: "create exclusively",
                what: "such flags",
                value: flags.into(),
            }),
            _ => Ok(exclusive),
        }
    }

    fn run_table<R>(&mut self, parse: impl FnOnce() -> Result<R, WireError>) -> Result<R, WireError> {
        self.run_table = true;
        parse()
    }

    fn refuse_others(&self, view: &RequestView<'_>, kind: &RequestKind) -> Result<(), WireError> {
        let name = kind.name();
        let refuse = |what, value: u64, expected: bool| match value {
            value if value != 0 && !expected => Err(WireError::Superfluous { kind: name, what, value }),
            _ => Ok(()),
        };
        let unknown_flags = view.flags & !(self.flags | DURABLE);
        refuse("such flags", unknown_flags.into(), false)?;
        refuse("length", view.length, self.length)?;
        refuse("path", view.path.len() as u64, kind.path().is_some())?;
        refuse("target", view.target.len() as u64, self.target)?;
        refuse("run table", view.run_table.len() as u64, self.run_table)
    }
}

impl RequestKind {
    /// Its name, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            RequestKind::Read { .. } => "read",
            RequestKind::Write { .. } => "write",
            RequestKind::Create { .. } => "create",
            RequestKind::SetLength { .. } => "set-length",
            RequestKind::Grow { .. } => "grow",
            RequestKind::Stat { .. } => "stat",
            RequestKind::Sync { .. } => "sync",
            RequestKind::Remove { .. } => "remove",
            RequestKind::Rename { .. } => "rename",
            RequestKind::ErrorCounters { .. } => "tell error counters",
            RequestKind::List { .. } => "list",
            RequestKind::Publish { .. } => "publish",
            RequestKind::Mark { .. } => "mark",
            RequestKind::Reclaim { .. } => "reclaim",
        }
    }
}

/// How the payload is packed; only the bytes of subfiles may be.
fn packing(view: &RequestView<'_>, kind: &RequestKind) -> Result<Packing, WireError> {
    let value = view.packing.into();
    let packing = Packing::from_bits(view.packing).ok_or(WireError::Unknown { what: "packing", value })?;
    match kind.runs() {
        None if packing != Packing::Raw => {
            Err(WireError::Superfluous { kind: kind.name(), what: "packing", value })
        }
        _ => Ok(packing),
    }
}

fn path(bytes: &[u8]) -> Result<SubfilePath, WireError> {
    let written = text("path", bytes)?;
    let path = SubfilePath::new(written)?;
    if path.as_str() == written { Ok(path) } else { Err(WireError::Spelling(written.to_owned())) }
}

/// A path that may be the export root, as an empty one.
fn folder(bytes: &[u8]) -> Result<SubfilePath, WireError> {
    if bytes.is_empty() { Ok(SubfilePath::root()) } else { path(bytes) }
}

/// The fields of a request as they stand in the bytes: each is there, and none exceeds its limit.
#[derive(Debug, Clone, Copy)]
pub struct RequestView<'a> {
    /// The number of the kind.
    pub kind: u8,
    /// All flags, known or not.
    pub flags: u16,
    /// How the payload is packed.
    pub packing: u16,
    /// The operation and its transfer.
    pub id: RequestId,
    /// The length, for kinds that have one.
    pub length: u64,
    /// The path.
    pub path: &'a [u8],
    /// The second path, for kinds that have one.
    pub target: &'a [u8],
    /// The encoded run table, for kinds that have one.
    pub run_table: &'a [u8],
}

/// The lengths of the parts that follow the fixed part of a request.
struct Lengths {
    path: usize,
    target: usize,
    run_table: usize,
}

impl<'a> RequestView<'a> {
    /// How many bytes the request has, as soon as its first bytes tell; at most [`MAX_REQUEST_BYTES`].
    ///
    /// # Errors
    /// If these bytes cannot be the beginning of a request.
    pub fn measure(bytes: &[u8]) -> Result<Option<usize>, WireError> {
        if bytes.len() < 16 {
            return Ok(None);
        }
        let (_, lengths) = Self::head(&mut Fields::new(bytes))?;
        Ok(Some(FIXED_BYTES + lengths.path + lengths.target + lengths.run_table))
    }

    /// The fields of the request that `bytes` are.
    ///
    /// # Errors
    /// If they are not exactly one request.
    pub fn new(bytes: &'a [u8]) -> Result<RequestView<'a>, WireError> {
        let mut fields = Fields::new(bytes);
        let ((kind, flags, packing), lengths) = Self::head(&mut fields)?;
        let id = RequestId { operation: fields.u64()?, transfer: fields.u32()? };
        let length = fields.u64()?;
        let path = fields.bytes(lengths.path)?;
        let target = fields.bytes(lengths.target)?;
        let run_table = fields.bytes(lengths.run_table)?;
        let trailing = bytes.len() - FIXED_BYTES - path.len() - target.len() - run_table.len();
        match trailing {
            0 => Ok(RequestView { kind, flags, packing, id, length, path, target, run_table }),
            more => Err(WireError::Trailing(more as u64)),
        }
    }

    /// The first 16 bytes: kind, flags, packing, and the lengths.
    fn head(fields: &mut Fields<'_>) -> Result<((u8, u16, u16), Lengths), WireError> {
        fields.preamble(MAGIC)?;
        let (kind, flags) = (fields.u8()?, fields.u16()?);
        let path = at_most("the length of the path", fields.u16()?.into(), MAX_PATH_BYTES as u64)?;
        let target = at_most("the length of the target", fields.u16()?.into(), MAX_PATH_BYTES as u64)?;
        let packing = fields.u16()?;
        let run_table =
            at_most("the length of the run table", fields.u32()?.into(), MAX_RUN_TABLE_BYTES as u64)?;
        // All three are below a few 16-bit numbers.
        let lengths = Lengths { path: path as usize, target: target as usize, run_table: run_table as usize };
        Ok(((kind, flags, packing), lengths))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Extent;
    use crate::wire::{Assembler, RunTableBuilder};
    use proptest::prelude::*;

    fn any_path() -> impl Strategy<Value = SubfilePath> {
        "[a-zü]{1,9}(/[a-z. ]{3,9}){0,3}".prop_map(|text| SubfilePath::new(&text).expect("a right path"))
    }

    fn any_folder() -> impl Strategy<Value = SubfilePath> {
        prop_oneof![any_path(), Just(SubfilePath::root())]
    }

    fn any_dataset() -> impl Strategy<Value = DatasetPath> {
        any_path().prop_map(|path| DatasetPath::new(path).expect("a free folder"))
    }

    fn any_runs() -> impl Strategy<Value = RunTable> {
        prop::collection::vec((1_u64..100_000, 1_u64..5_000), 1..50).prop_map(|steps| {
            let (mut builder, mut at) = (RunTableBuilder::default(), 0);
            for (gap, length) in steps {
                builder.push(Extent::between(at + gap, at + gap + length));
                at += gap + length;
            }
            builder.finish().expect("not empty")
        })
    }

    fn any_kind() -> impl Strategy<Value = RequestKind> {
        let length = 0..=MAX_LENGTH;
        prop_oneof![
            (any_path(), any_runs(), any::<bool>()).prop_map(|(path, runs, from_disk)| RequestKind::Read {
                path,
                runs,
                from_disk
            }),
            (any_path(), any_runs()).prop_map(|(path, runs)| RequestKind::Write { path, runs }),
            (any_path(), any::<bool>(), any::<bool>()).prop_map(|(path, truncate, claim)| {
                RequestKind::Create { path, truncate, claim, exclusive: false }
            }),
            any_path().prop_map(|path| RequestKind::Create {
                path,
                truncate: false,
                claim: false,
                exclusive: true
            }),
            (any_dataset(), any::<[u8; 16]>(), 1..=MAX_LENGTH).prop_map(|(dataset, run, number)| {
                RequestKind::Publish { dataset, staged: RunId(run), number }
            }),
            (any_dataset(), any::<[u8; 16]>(), 1..=MAX_LENGTH).prop_map(|(dataset, run, number)| {
                RequestKind::Reclaim { dataset, run: RunId(run), number }
            }),
            any_dataset().prop_map(|dataset| RequestKind::Mark { dataset }),
            (any_folder(), prop::option::of("[a-zü. ]{3,9}")).prop_map(|(folder, after)| {
                let after = after.map(|text| EntryName::new(&text).expect("a right name"));
                RequestKind::List { folder, after }
            }),
            (any_path(), length.clone()).prop_map(|(path, length)| RequestKind::SetLength { path, length }),
            (any_path(), length).prop_map(|(path, length)| RequestKind::Grow { path, length }),
            any_path().prop_map(|path| RequestKind::Stat { path }),
            any_path().prop_map(|path| RequestKind::Sync { path }),
            any_path().prop_map(|path| RequestKind::Remove { path }),
            (any_path(), any_path(), any::<bool>()).prop_map(|(path, target, replace)| RequestKind::Rename {
                path,
                target,
                replace
            }),
            any::<bool>().prop_map(|reset| RequestKind::ErrorCounters { reset }),
        ]
    }

    fn any_request() -> impl Strategy<Value = Request> {
        (any::<u64>(), any::<u32>(), any::<bool>(), any_kind()).prop_map(
            |(operation, transfer, durable, kind)| Request {
                id: RequestId { operation, transfer },
                durable,
                packing: if kind.runs().is_some() { Packing::AUTO } else { Packing::Raw },
                kind,
            },
        )
    }

    fn stat() -> Vec<u8> {
        let kind = RequestKind::Stat { path: SubfilePath::new("a").expect("a right path") };
        Request { id: RequestId { operation: 1, transfer: 2 }, durable: false, packing: Packing::Raw, kind }
            .emit()
    }

    fn fault(change: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut bytes = stat();
        change(&mut bytes);
        Request::parse(&bytes.into()).expect_err("a wrong request").to_string()
    }

    #[test]
    fn each_fault_is_named() {
        assert!(fault(|bytes| bytes[0] = 0).contains("begins with 0x0046"));
        assert!(fault(|bytes| bytes[2] = 9).contains("version 9"));
        assert!(fault(|bytes| bytes[3] = 99).contains("99 is no kind of request"));
        assert!(fault(|bytes| bytes[5] = 2).contains("a request to stat has no such flags, but it is 2"));
        assert!(fault(|bytes| bytes[6] = 0xff).contains("at most 4095"));
        assert!(fault(|bytes| bytes[11] = 1).contains("a request to stat has no packing, but it is 1"));
        assert!(fault(|bytes| bytes[11] = 8).contains("8 is no packing"));
        assert!(fault(|bytes| bytes[35] = 1).contains("a request to stat has no length, but it is 1"));
        assert!(fault(|bytes| bytes[36] = b'/').contains("the path is empty"));
        assert!(fault(|bytes| bytes[36] = 0xff).contains("not UTF-8"));
        assert!(fault(|bytes| bytes[3] = 12).contains("the run is not 32 hexadecimal digits"));
        let reserved = fault(|bytes| {
            (bytes[3], bytes[7]) = (13, 5);
            bytes.splice(36.., *b".sfio");
        });
        assert!(reserved.contains("kept for data sets"), "{reserved}");
        let nowhere = fault(|bytes| {
            (bytes[3], bytes[9]) = (14, 32);
            bytes.extend([b'0'; 32]);
        });
        assert!(nowhere.contains("0 is no number of a record"), "{nowhere}");
        let exclusive = fault(|bytes| (bytes[3], bytes[5]) = (3, 48));
        assert!(
            exclusive.contains("a request to create exclusively has no such flags, but it is 16"),
            "{exclusive}"
        );
        assert!(fault(|bytes| bytes.push(0)).contains("1 bytes follow"));
        assert!(fault(|bytes| bytes.truncate(20)).contains("ends after 20 of"));
    }

    #[test]
    fn a_path_has_one_spelling_on_the_wire() {
        let error = fault(|bytes| {
            bytes[7] = 2;
            bytes.push(b'/');
        });
        assert!(error.contains("not in its one spelling"), "{error}");
    }

    proptest! {
        #[test]
        fn parse_of_emit_is_the_identity(request in any_request()) {
            prop_assert_eq!(Request::parse(&request.emit().into()), Ok(request));
        }

        #[test]
        fn a_request_is_found_in_a_stream_however_it_is_cut(request in any_request(), cut in 1_usize..200) {
            let mut stream = request.emit();
            stream.extend_from_slice(b"payload");
            let mut assembler = Assembler::request();
            let mut chunks = stream.chunks(cut).map(Bytes::copy_from_slice);
            let (message, mut rest) = loop {
                let mut chunk = chunks.next().expect("the whole request");
                if let Some(message) = assembler.push(&mut chunk)? {
                    break (message, chunk.to_vec());
                }
            };
            chunks.for_each(|chunk| rest.extend_from_slice(&chunk));
            prop_assert_eq!(Request::parse(&message), Ok(request));
            prop_assert_eq!(rest, b"payload");
        }

        #[test]
        fn a_damaged_request_is_an_error_or_another_request(request in any_request(), at in any::<prop::sample::Index>(), value: u8) {
            let mut bytes = request.emit();
            let at = at.index(bytes.len());
            bytes[at] = value;
            if let Ok(parsed) = Request::parse(&bytes.clone().into()) {
                // A run table may be spelled differently; everything else has one spelling.
                if parsed.kind.runs().is_none() {
                    prop_assert_eq!(parsed.emit(), bytes);
                }
            }
        }

        #[test]
        fn garbage_is_an_error_and_holds_little_memory(bytes in prop::collection::vec(any::<u8>(), 0..100), magic: bool) {
            let mut bytes = bytes;
            if magic && bytes.len() >= 4 {
                bytes[..3].copy_from_slice(b"SF\x03");
            }
            if let Ok(Some(length)) = RequestView::measure(&bytes) {
                prop_assert!(length <= MAX_REQUEST_BYTES);
            }
            let _ = Request::parse(&bytes.into());
        }
    }
}
