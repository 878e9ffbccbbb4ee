//! How much of a file is touched by more than one process of its job: by bytes and by blocks `[charisma §4.7]`.

use std::collections::BTreeMap;

use crate::record::{ClientId, Request, Spread};

/// Who touches bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    /// One process.
    Client(ClientId),
    /// The job as a whole, without a word of which process has which bytes: it counts as one process.
    Job,
    /// All processes, in this way.
    Spread(Spread),
}

/// Which bytes of a file were touched, and by whom.
#[derive(Debug, Clone, Default)]
pub(crate) struct Touches {
    extents: BTreeMap<Owner, Vec<(u64, u64)>>,
}

/// How much of a file is shared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    /// Bytes that were touched, and by more than one process.
    pub(crate) bytes: (u64, u64),
    /// Blocks that were touched, and by more than one process.
    pub(crate) blocks: (u64, u64),
}

/// The rows of Tables 10 and 11.
pub const SHARE_ROWS: [&str; 6] = ["= 0", "< 1", "< 50", ">= 50", "> 99", "= 100"];

/// In which row of Tables 10 and 11 a part of a whole is; the rows are disjoint, so each goes on where the one before
/// it ends.
pub(crate) fn share_row((whole, part): (u64, u64)) -> usize {
    let (whole, part) = (u128::from(whole), u128::from(part));
    match part {
        0 => 0,
        _ if part == whole => 5,
        _ if part * 100 < whole => 1,
        _ if part * 2 < whole => 2,
        _ if part * 100 <= whole * 99 => 3,
        _ => 4,
    }
}

impl Touches {
    pub(crate) fn note(&mut self, request: &Request) {
        let (start, end) = (request.offset, request.offset.saturating_add(request.bytes));
        if start == end {
            return;
        }
        let owner = match (request.client, request.spread) {
            (_, Some(spread)) => Owner::Spread(spread),
            (Some(client), None) => Owner::Client(client),
            (None, None) => Owner::Job,
        };
        let extents = self.extents.entry(owner).or_default();
        match extents.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            Some(last) if (*last) == (start, end) => {}
            _ => extents.push((start, end)),
        }
    }

    /// How much of it is shared, with blocks of `block` bytes, in a job of so many processes.
    pub(crate) fn shared(&self, block: u64, clients: u32) -> Shared {
        let mut edges: Vec<(u64, bool, Owner)> = Vec::new();
        for (owner, extents) in &self.extents {
            edges.extend(
                extents.iter().flat_map(|(start, end)| [(*start, true, *owner), (*end, false, *owner)]),
            );
        }
        edges.sort_unstable();
        let mut sweep = Sweep { block, clients: clients.max(2), open: None, shared: Shared::default() };
        let (mut active, mut from) = (BTreeMap::<Owner, u64>::new(), 0);
        for (at, begins, owner) in edges {
            if at > from {
                sweep.pass(from, at, &active);
            }
            from = at;
            let count = active.entry(owner).or_default();
            *count = if begins { *count + 1 } else { *count - 1 };
            if *count == 0 {
                active.remove(&owner);
            }
        }
        sweep.close();
        sweep.shared
    }
}

/// Who holds a part of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    One(Owner),
    /// The process with this number of those that a spread deals to.
    Dealt(u64),
    Several,
}

/// A pass over the file from its first touched byte to the last one.
struct Sweep {
    block: u64,
    clients: u32,
    /// The block that was entered last, and who holds it.
    open: Option<(u64, Holder)>,
    shared: Shared,
}

impl Sweep {
    /// The bytes from `from` to before `to` have the same owners.
    fn pass(&mut self, from: u64, to: u64, active: &BTreeMap<Owner, u64>) {
        let mut owners = active.keys();
        let (Some(first), second) = (owners.next(), owners.next()) else { return };
        self.shared.bytes.0 += to - from;
        match (first, second) {
            (Owner::Spread(Spread::Dealt { unit, overlap }), None) => {
                self.shared.bytes.1 += doubled(to, *unit, *overlap) - doubled(from, *unit, *overlap);
                let dealt = (*unit, *overlap);
                self.each_block(from, to, |sweep, start, end| sweep.dealt(start, end, dealt));
            }
            (Owner::Spread(Spread::Whole), _) | (_, Some(_)) => {
                self.shared.bytes.1 += to - from;
                self.hold(from, to, Holder::Several);
            }
            (owner, None) => self.hold(from, to, Holder::One(*owner)),
        }
    }

    /// The holder of a part of one block that is dealt out.
    fn dealt(&self, start: u64, end: u64, (unit, overlap): (u64, u64)) -> Holder {
        let (first, last) = (start / unit, (end - 1) / unit);
        if first != last || doubled(end, unit, overlap) > doubled(start, unit, overlap) {
            return Holder::Several;
        }
        Holder::Dealt(first % u64::from(self.clients))
    }

    fn each_block(&mut self, from: u64, to: u64, holder: impl Fn(&Self, u64, u64) -> Holder) {
        let mut start = from;
        while start < to {
            let number = start / self.block;
            let end = to.min((number + 1).saturating_mul(self.block));
            let holder = holder(self, start, end);
            self.enter(number, holder);
            start = end;
        }
    }

    /// Bytes with one holder; whole blocks in the middle are counted at once.
    fn hold(&mut self, from: u64, to: u64, holder: Holder) {
        let (first, last) = (from / self.block, (to - 1) / self.block);
        self.enter(first, holder);
        if last > first {
            let between = last - first - 1;
            self.shared.blocks.0 += between;
            self.shared.blocks.1 += if holder == Holder::Several { between } else { 0 };
            self.enter(last, holder);
        }
    }

    fn enter(&mut self, number: u64, holder: Holder) {
        match &mut self.open {
            Some((open, before)) if *open == number => {
                if *before != holder {
                    *before = Holder::Several;
                }
            }
            _ => {
                self.close();
                self.open = Some((number, holder));
            }
        }
    }

    fn close(&mut self) {
        if let Some((_, holder)) = self.open.take() {
            self.shared.blocks.0 += 1;
            self.shared.blocks.1 += u64::from(holder == Holder::Several);
        }
    }
}

/// How many of the bytes before `end` two processes have, each piece of `unit` bytes going on for `overlap` bytes.
fn doubled(end: u64, unit: u64, overlap: u64) -> u64 {
    match (end / unit).checked_sub(1) {
        None => 0,
        Some(whole) => whole * overlap + (end % unit).min(overlap),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{ApplicationId, Descriptor, FileId, Operation};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn request(client: Option<u32>, spread: Option<Spread>, offset: u64, bytes: u64) -> Request {
        Request {
            start: 0,
            end: 0,
            application: ApplicationId(1),
            client: client.map(ClientId),
            file: FileId(1),
            descriptor: Descriptor(0),
            operation: Operation::Read,
            asynchronous: false,
            spread,
            offset,
            bytes,
        }
    }

    fn shared(requests: &[Request], block: u64, clients: u32) -> Shared {
        let mut touches = Touches::default();
        requests.iter().for_each(|request| touches.note(request));
        touches.shared(block, clients)
    }

    #[test]
    fn rows_are_disjoint_and_meet() {
        let rows = [(0, 0), (9, 1), (10, 2), (499, 2), (500, 3), (990, 3), (991, 4), (999, 4), (1_000, 5)];
        for (part, row) in rows {
            assert_eq!(share_row((1_000, part)), row, "{part} of 1,000");
        }
    }

    #[test]
    fn false_sharing_is_blocks_without_bytes() {
        let halves = [request(Some(0), None, 0, 150), request(Some(1), None, 150, 150)];
        assert_eq!(shared(&halves, 100, 2), Shared { bytes: (300, 0), blocks: (3, 1) });
        let dealt = [request(None, Some(Spread::Dealt { unit: 30, overlap: 0 }), 0, 300)];
        assert_eq!(shared(&dealt, 100, 32), Shared { bytes: (300, 0), blocks: (3, 3) });
        let whole = [request(None, Some(Spread::Whole), 0, 300)];
        assert_eq!(shared(&whole, 100, 32), Shared { bytes: (300, 300), blocks: (3, 3) });
    }

    /// Every byte by itself.
    fn oracle(requests: &[Request], block: u64, clients: u32) -> Shared {
        let mut holders: BTreeMap<u64, BTreeSet<(u8, u64)>> = BTreeMap::new();
        for request in requests {
            for byte in request.offset..request.offset + request.bytes {
                let of = holders.entry(byte).or_default();
                match (request.client, request.spread) {
                    (_, Some(Spread::Whole)) => of.extend((0..u64::from(clients)).map(|client| (1, client))),
                    (_, Some(Spread::Dealt { unit, overlap })) => {
                        let piece = byte / unit;
                        of.insert((1, piece % u64::from(clients)));
                        if piece > 0 && byte % unit < overlap {
                            of.insert((1, (piece - 1) % u64::from(clients)));
                        }
                    }
                    (Some(client), None) => drop(of.insert((0, client.0.into()))),
                    (None, None) => drop(of.insert((2, 0))),
                }
            }
        }
        let mut blocks: BTreeMap<u64, BTreeSet<(u8, u64)>> = BTreeMap::new();
        for (byte, of) in &holders {
            blocks.entry(byte / block).or_default().extend(of);
        }
        let several = |map: &BTreeMap<u64, BTreeSet<(u8, u64)>>| {
            (map.len() as u64, map.values().filter(|of| of.len() > 1).count() as u64)
        };
        Shared { bytes: several(&holders), blocks: several(&blocks) }
    }

    proptest! {
        #[test]
        fn it_is_what_counting_each_byte_gives(
            pieces in prop::collection::vec((0_u32..3, 0_u64..300, 1_u64..120), 1..8),
            block in 1_u64..60,
        ) {
            let requests: Vec<Request> =
                pieces.iter().map(|(client, offset, bytes)| request(Some(*client), None, *offset, *bytes)).collect();
            prop_assert_eq!(shared(&requests, block, 3), oracle(&requests, block, 3));
        }

        #[test]
        fn what_is_dealt_is_what_counting_each_byte_gives(
            pieces in prop::collection::vec((0_u64..300, 1_u64..120), 1..5),
            (unit, share) in (1_u64..90, 0_u64..=100),
            block in 1_u64..60,
        ) {
            // With as many processes as pieces no two pieces of a block have the same one.
            let spread = Spread::Dealt { unit, overlap: unit * share / 100 };
            let requests: Vec<Request> =
                pieces.iter().map(|(offset, bytes)| request(None, Some(spread), *offset, *bytes)).collect();
            prop_assert_eq!(shared(&requests, block, 500), oracle(&requests, block, 500));
        }
    }
}
