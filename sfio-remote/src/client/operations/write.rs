//! Writing regions.

use std::sync::Arc;

use super::growth::{self, Written};
use crate::client::error::OperationError;
use crate::client::file::Layout;
use crate::client::files::FileId;
use crate::client::operation::{Next, Operation, Plan, Planning};
use crate::client::part::Part;
use crate::client::stage::{Stage, access_parts};
use crate::distribution::SubfileIndex;
use crate::request::WriteList;
use crate::wire::RequestKind;

/// Write regions.
#[derive(Debug)]
pub struct Write {
    /// The file.
    pub file: FileId,
    /// What to write.
    pub list: WriteList,
    /// Whether it survives a power loss when it is done, also if the file was opened for less.
    pub durable: bool,
}

/// What must be known when the data has arrived.
struct Arrived {
    layout: Arc<Layout>,
    known_length: u64,
    /// Where the write ends in the logical file.
    end: u64,
    /// The subfile that a part without payload asks for its size.
    witness: Option<SubfileIndex>,
}

impl Operation for Write {
    type Answer = ();

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<()>, OperationError> {
        let Write { file, mut list, durable } = self;
        let open = planning.file(file)?;
        let durable = durable || open.durability().is_immediate();
        let compression = open.compression();
        let (layout, known_length) = (Arc::clone(open.layout()), open.known_length());
        let accesses = list.take_accesses(layout.distribution(), layout.holders());
        let mut parts = access_parts(&layout, accesses, list.is_stripe_by_stripe());
        // Writing nothing extends nothing, wherever it is.
        let written = list.regions().iter().filter(|region| region.length() > 0);
        let end = written.map(|region| region.end()).max().unwrap_or(0);
        let touches =
            |subfile| parts.iter().any(|part| part.subfile_access().is_some_and(|a| a.subfile() == subfile));
        let witness = growth::witness(&layout.distribution(), known_length, end, touches);
        parts.extend(witness.map(|subfile| {
            let path = layout.path(subfile).clone();
            Part::single(layout.holder(subfile), RequestKind::Stat { path })
        }));
        let arrived = Arrived { layout, known_length, end, witness };
        let write = Stage::write(parts, list).of(file).durable(durable).compressing(compression);
        Ok(write.then(move |stage, _| {
            let grow = Stage::new(arrived.parts_to_grow(stage.parts())).of(file).durable(durable);
            let grow = grow.then(move |_, files| {
                files.has_grown(file, end);
                Ok(Next::Answer(()))
            });
            Ok(Next::Plan(Box::new(grow)))
        }))
    }

    fn payload_bytes(&self) -> u64 {
        self.list.regions().iter().map(|region| region.length()).sum()
    }
}

impl Arrived {
    /// The parts that extend the subfiles that the write left short.
    fn parts_to_grow(&self, parts: &[Part]) -> Vec<Part> {
        let written = |part: &Part| {
            let size_before = part.size().unwrap_or(0);
            match part.subfile_access() {
                Some(access) => Some(Written { subfile: access.subfile(), end: access.end(), size_before }),
                None => self.witness.map(|subfile| Written { subfile, end: 0, size_before }),
            }
        };
        let written: Vec<Written> = parts.iter().filter_map(written).collect();
        let part = |(subfile, length): (SubfileIndex, u64)| {
            let path = self.layout.path(subfile).clone();
            Part::single(self.layout.holder(subfile), RequestKind::Grow { path, length })
        };
        let distribution = self.layout.distribution();
        growth::needed(&distribution, self.known_length, self.end, &written).into_iter().map(part).collect()
    }
}
