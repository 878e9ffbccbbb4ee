//! Records for tests of what an I/O node does with them.

use crate::replication::record::Generation;
use crate::replication::{
    Deed, Hash, Metadata, ObjectEntry, Owner, Record, RunId, SignedRecord, Signer, Timestamp, Token,
};
use crate::sim::identity_of;

pub(super) fn run(number: u8) -> RunId {
    RunId([number; 16])
}

/// The first record of the data set `name`, by `member`; it names run 1.
pub(super) fn first(name: &str, member: &str) -> Record {
    Record {
        token: Token([9; 16]),
        site: "local".to_owned(),
        name: name.to_owned(),
        number: 1,
        predecessor: Hash::ZERO,
        run: run(1),
        signer: Signer { member: member.to_owned(), key: identity_of(member).public().ed25519 },
        published_ms: 7,
        deed: Deed::Publish,
        current: 1,
        generations: vec![generation(1, 0)],
        next_generation: 2,
        objects: vec![ObjectEntry { number: 0, run: run(1), length: 0 }],
        next_object: 1,
        damaged: Vec::new(),
        healed: Vec::new(),
        condemned: Vec::new(),
        origins: Vec::new(),
    }
}

/// What the run of that number publishes next, by `member`: one more generation.
pub(super) fn next(before: &SignedRecord, number: u8, member: &str) -> Record {
    let mut record = before.record().clone();
    record.number += 1;
    record.predecessor = before.hash();
    record.run = run(number);
    record.signer = Signer { member: member.to_owned(), key: identity_of(member).public().ed25519 };
    record.objects.push(ObjectEntry { number: record.next_object, run: run(number), length: 0 });
    record.generations.push(generation(record.next_generation, record.next_object));
    record.current = record.next_generation;
    record.next_generation += 1;
    record.next_object += 1;
    record
}

/// What comes behind `before` and keeps its last generation only.
pub(super) fn forgetting(before: &SignedRecord, member: &str) -> Record {
    let mut record = next(before, 0, member);
    record.deed = Deed::Forget;
    record.objects.pop();
    record.generations.pop();
    record.next_object -= 1;
    record.next_generation -= 1;
    record.current = before.current;
    record.generations.retain(|generation| generation.number == before.current);
    record.condemn_unneeded();
    record
}

pub(super) fn signed(record: &Record) -> SignedRecord {
    SignedRecord::sign(record.clone(), &identity_of(&record.signer.member)).expect("it is sound")
}

fn generation(number: u64, object: u32) -> Generation {
    let top = Metadata {
        mode: 0o755,
        modified: Timestamp { seconds: 1, nanoseconds: 2 },
        owner: Owner { user: 0, group: 0 },
        attributes: Vec::new(),
    };
    Generation {
        number,
        published_ms: 5,
        entries: 0,
        bytes: 0,
        top,
        index: Vec::new(),
        objects: vec![object],
    }
}
