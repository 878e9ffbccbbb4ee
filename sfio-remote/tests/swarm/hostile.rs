//! Hostile bytes: records, manifests, journals and messages that somebody has made up or damaged. None makes a decoder
//! panic or take more memory than some multiple of their length; and what is read is written and read as the same
//! again.
//!
//! What begins as the real thing is changed at random; no coverage guides it, for that needs libFuzzer, a C++ compiler
//! and a nightly toolchain (`sfio-remote/fuzz`, the same targets). Ten minutes for each decoder:
//!
//! ```sh
//! HOSTILE_SECONDS=600 cargo test --workspace --test swarm hostile -- --nocapture
//! HOSTILE_EXAMPLES=FOLDER cargo test --workspace --test swarm hostile      # the real things, for a fuzzer
//! ```

use std::time::Duration;

use bytes::Bytes;
use fec_transport::keys::Identity;
use sfio_remote::distribution::StripeUnit;
use sfio_remote::io::replication::ManifestCache;
use sfio_remote::io::sim::{Cluster, ClusterConfig, run};
use sfio_remote::replication::{
    ChunkRef, EntryReader, EntryWriter, Hash, Journal, JournalHeader, Record, RunId, SignedRecord, Signer,
    Token,
};
use sfio_remote::sim::{Dice, identity_of};
use sfio_remote::wire::{Assembler, Reply, Request, parse_listing};

use crate::allocations::most_held;
use crate::commands::{Place, SyncOptions, User};
use crate::trees::Trees;

/// Changed inputs for each decoder, when nobody says how long.
const ROUNDS: usize = 4_000;
/// What every decoder may take, however short its input is.
const FLOOR: u64 = 64 << 10;

/// A decoder, and how many times as much memory as its input it may hold.
struct Decoder {
    name: &'static str,
    times: u64,
    decode: fn(&[u8]),
}

const DECODERS: [Decoder; 8] = [
    Decoder {
        name: "record",
        times: 32,
        decode: |bytes| _ = SignedRecord::parse(Bytes::copy_from_slice(bytes)),
    },
    Decoder { name: "record that a member signs", times: 32, decode: signed_record },
    Decoder { name: "journal", times: 16, decode: |bytes| _ = Journal::parse(bytes) },
    Decoder { name: "journal with right sums", times: 16, decode: journal_with_right_sums },
    Decoder { name: "manifest", times: 64, decode: manifest },
    // A list may claim as many chunks as it has bytes, and each takes 64.
    Decoder { name: "index", times: 64, decode: index },
    Decoder { name: "request", times: 32, decode: request },
    Decoder { name: "reply", times: 32, decode: reply },
];

fn signed_record(body: &[u8]) {
    // No change hits a signature: here the bytes are a body, which a member signs.
    let Ok(mut record) = postcard::from_bytes::<Record>(body) else { return };
    let identity = Identity::from_seed([7; 32]);
    record.signer.key = identity.public().ed25519;
    if let Ok(signed) = SignedRecord::sign(record, &identity) {
        assert_eq!(SignedRecord::parse(signed.bytes().clone()), Ok(signed));
    }
}

fn journal_with_right_sums(body: &[u8]) {
    let mut bytes = journal_head();
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(&Hash::of(body).as_bytes()[..16]);
    bytes.extend(body);
    let journal = Journal::parse(&bytes).expect("its header is right");
    let mut again = journal_head();
    again.extend(Journal::frame(&journal.chunks_in(0).collect::<Vec<_>>()));
    let parsed = Journal::parse(&again).expect("it was written so");
    assert!(parsed.chunks_in(0).eq(journal.chunks_in(0)));
}

fn manifest(bytes: &[u8]) {
    let mut reader = EntryReader::new(bytes);
    while let Ok(Some(entry)) = reader.read() {
        let mut writer = EntryWriter::new(Vec::new());
        if writer.write(&entry).is_ok() {
            let written = writer.finish().expect("memory takes all");
            assert_eq!(EntryReader::new(written.as_slice()).read().expect("it was written"), Some(entry));
        }
    }
}

fn index(bytes: &[u8]) {
    if let Ok(list) = postcard::from_bytes::<Vec<ChunkRef>>(bytes) {
        let written = postcard::to_stdvec(&list).expect("plain values");
        assert_eq!(postcard::from_bytes::<Vec<ChunkRef>>(&written), Ok(list));
    }
}

fn request(bytes: &[u8]) {
    if let Ok(Some(message)) = Assembler::request().push(&mut Bytes::copy_from_slice(bytes))
        && let Ok(request) = Request::parse(&message)
    {
        assert_eq!(Request::parse(&request.emit().into()), Ok(request));
    }
}

fn reply(bytes: &[u8]) {
    let _ = parse_listing(&Bytes::copy_from_slice(bytes));
    if let Ok(Some(message)) = Assembler::reply().push(&mut Bytes::copy_from_slice(bytes))
        && let Ok(reply) = Reply::parse(&message)
    {
        assert_eq!(Reply::parse(&reply.emit()), Ok(reply));
    }
}

fn journal_head() -> Vec<u8> {
    let identity = Identity::from_seed([7; 32]);
    let signer = Signer { member: "client".to_owned(), key: identity.public().ed25519 };
    Journal::begin(&JournalHeader { token: Token([1; 16]), run: RunId([2; 16]), signer }, &identity)
}

/// Everything that a data set of two generations consists of, as it is on the disk, and pieces of it.
fn examples() -> Vec<Vec<u8>> {
    let mut examples = run(async {
        let cluster = Cluster::start(ClusterConfig::new(&["client", "io"], 1));
        cluster.world().serve("io").expect("a new root");
        let keys = [("client".to_owned(), identity_of("client").public().ed25519)];
        let user = User {
            client: cluster.process("client").client().clone(),
            member: "client".to_owned(),
            place: Place {
                io_nodes: vec!["io".to_owned()],
                stripe_unit: StripeUnit::new(4_096).expect("in range"),
                keys: std::sync::Arc::new(keys.into()),
            },
            cache: ManifestCache::none(),
            accepts_older: false,
            patience: Duration::ZERO,
            dice: std::sync::Arc::new(std::sync::Mutex::new(Dice::new(1))),
            clock: std::sync::Arc::new(|| 0),
        };
        for tree in [1, 2] {
            let how = SyncOptions { keep: 1, checksum: false, if_current: false };
            user.sync(Trees::all().path(tree), how).await.expect("nothing disturbs");
        }
        let mut world = cluster.world();
        let disk = world.disk("io").inner();
        let contents = disk.paths().filter_map(|path| disk.content(path.as_str()));
        contents.filter(|content| !content.is_empty()).collect::<Vec<Vec<u8>>>()
    });
    let records: Vec<Vec<u8>> =
        examples.iter().filter(|bytes| bytes.starts_with(b"SFIOREC2")).cloned().collect();
    assert!(!records.is_empty(), "there are records");
    // Bodies of records, and a manifest and its index, which an object ends with.
    examples.extend(records.iter().map(|record| record[8..record.len() - 64].to_vec()));
    let ends: Vec<Vec<u8>> =
        examples.iter().flat_map(|bytes| [40, 150, 700].map(|n| tail(bytes, n))).collect();
    examples.extend(ends);
    let chunk = ChunkRef {
        hash: Hash::of(b"x"),
        length: 9,
        object: 0,
        offset: 0,
        stored: 9,
        codec: sfio_remote::replication::Codec::Plain,
    };
    examples.push([journal_head(), Journal::frame(&[chunk; 3])].concat());
    examples.push(Journal::frame(&[chunk; 3])[20..].to_vec());
    examples.push(postcard::to_stdvec(&vec![chunk; 3]).expect("plain values"));
    examples
}

fn tail(bytes: &[u8], length: usize) -> Vec<u8> {
    bytes[bytes.len().saturating_sub(length)..].to_vec()
}

/// A few changes of an example.
fn changed(examples: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = examples[dice.below(examples.len())].clone();
    bytes.truncate(20_000);
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(bytes.len() + 1);
        match dice.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 if at < bytes.len() => bytes[at] = dice.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            2 => bytes.truncate(at),
            // The longest length that a variable number can be.
            3 => drop(bytes.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1])),
            4 => {
                let end = at + dice.below(bytes.len() - at + 1).min(200);
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            5 => {
                let other = &examples[dice.below(examples.len())];
                let from = dice.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend(other[from..].iter().take(20_000));
            }
            _ => drop(bytes.splice(at..at, [dice.below(256) as u8])),
        }
    }
    bytes
}

#[test]
#[allow(clippy::disallowed_methods, reason = "how long it goes on is up to whoever asks for it")]
fn hostile_bytes_neither_panic_a_decoder_nor_make_it_take_much_memory() {
    let examples = examples();
    if let Ok(folder) = std::env::var("HOSTILE_EXAMPLES") {
        let write = |(number, bytes): (usize, &Vec<u8>)| std::fs::write(format!("{folder}/{number}"), bytes);
        examples
            .iter()
            .enumerate()
            .try_for_each(write)
            .expect("HOSTILE_EXAMPLES is a folder that can be written");
    }
    let seconds = std::env::var("HOSTILE_SECONDS").ok().and_then(|text| text.parse().ok());
    for Decoder { name, times, decode } in DECODERS {
        let (mut dice, mut rounds) = (Dice::new(19), 0);
        let began = std::time::Instant::now();
        let goes_on = |rounds| match seconds {
            Some(seconds) => began.elapsed() < Duration::from_secs(seconds),
            None => rounds < ROUNDS,
        };
        while goes_on(rounds) {
            let bytes = changed(&examples, &mut dice);
            let ((), most) = most_held(|| decode(&bytes));
            let bound = bytes.len() as u64 * times + FLOOR;
            assert!(most <= bound, "{name}: {} bytes take {most}: {bytes:02x?}", bytes.len());
            rounds += 1;
        }
        println!("{name}: {rounds} inputs");
    }
}
