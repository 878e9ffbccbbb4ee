//! Every decoder of requests, answers and records takes any bytes: none makes it panic, or take more memory than their
//! length allows. `DECODER_SECONDS=600 cargo test --release --workspace --test decoders -- --nocapture` gives each ten
//! minutes of inputs, `DECODER=request` chooses one.

#[path = "../../fec-transport/tests/decoders/trial.rs"]
mod trial;

use bytes::Bytes;
use fec_transport::keys::Identity;
use sfio_remote::compression::{Codec, Coder, Format, FrameHeader, FrameReader, Level, Packing};
use sfio_remote::distribution::Extent;
use sfio_remote::name::{EntryName, SubfilePath};
use sfio_remote::remote_error::{ErrorKind, RemoteError};
use sfio_remote::replication::{
    self, ChunkRef, Deed, Entry, EntryKind, EntryReader, EntryWriter, Generation, Hash, Journal,
    JournalHeader, Metadata, ObjectEntry, Owner, Piece, Record, RunId, SignedRecord, Signer, Timestamp,
    Token, TreePath,
};
use sfio_remote::store::{self, Listing};
use sfio_remote::wire::{
    Reply, Request, RequestId, RequestKind, RunTable, RunTableBuilder, emit_listing, parse_listing,
};
use trial::try_decoder;

fn runs() -> RunTable {
    let mut builder = RunTableBuilder::default();
    for at in [0, 100, 200, 5_000, 70_000] {
        builder.push(Extent::new(at, 50).expect("an extent"));
    }
    builder.finish().expect("not empty")
}

fn requests() -> Vec<Vec<u8>> {
    let path = || SubfilePath::new("a/b").expect("a path");
    let kinds = [
        RequestKind::Read { path: path(), runs: runs(), from_disk: true },
        RequestKind::Write { path: path(), runs: runs() },
        RequestKind::Create { path: path(), truncate: true, claim: true, exclusive: false },
        RequestKind::SetLength { path: path(), length: 7 },
        RequestKind::Rename { path: path(), target: path(), replace: true },
        RequestKind::List { folder: path(), after: None },
        RequestKind::ErrorCounters { reset: true },
    ];
    let request = |kind| Request {
        id: RequestId { operation: 7, transfer: 3 },
        durable: false,
        packing: Packing::Raw,
        kind,
    };
    kinds.into_iter().map(|kind| request(kind).emit()).collect()
}

fn replies() -> Vec<Vec<u8>> {
    let refused = RemoteError::new(ErrorKind::NotFound, "it is not there");
    [Ok(()), Err(refused)].map(|result| Reply { result, size: 5, payload: 6 }.emit()).to_vec()
}

/// A payload in frames, packed by these codecs in turn.
fn frames(codecs: &[Codec]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (index, codec) in codecs.iter().cycle().take(4).enumerate() {
        let plain = b"all work and no play ".repeat(10 + index);
        let packed = Coder::default().pack(*codec, &plain);
        let format = if packed.is_some() { codec.format() } else { Format::Plain };
        let body = packed.unwrap_or(plain.clone());
        let header = FrameHeader { plain: plain.len() as u32, packed: body.len() as u32, format };
        stream.extend(header.emit());
        stream.extend(body);
    }
    stream
}

fn listing() -> Vec<u8> {
    let entry = |name: &str| store::Entry {
        name: EntryName::new(name).expect("a name"),
        kind: store::EntryKind::File,
        size: 7,
        is_being_written: false,
    };
    emit_listing(&Listing { entries: ["a", "b", "long name"].map(entry).into(), more: true })
}

/// A header that is signed, and frames behind it.
fn journal(identity: &Identity) -> Vec<u8> {
    let signer = Signer { member: "m".to_owned(), key: identity.public().ed25519 };
    let header = JournalHeader { token: Token([1; 16]), run: RunId([3; 16]), signer };
    let chunk = |number: u64| ChunkRef {
        object: 7,
        hash: Hash::of(&number.to_be_bytes()),
        length: 100,
        offset: number * 60,
        stored: 60,
        codec: replication::Codec::Plain,
    };
    [Journal::begin(&header, identity), Journal::frame(&[chunk(0), chunk(1)]), Journal::frame(&[chunk(2)])]
        .concat()
}

fn metadata() -> Metadata {
    let modified = Timestamp { seconds: 1, nanoseconds: 2 };
    Metadata { mode: 0o755, modified, owner: Owner { user: 0, group: 0 }, attributes: Vec::new() }
}

fn manifest() -> Vec<u8> {
    let mut writer = EntryWriter::new(Vec::new());
    for path in ["a", "b/c"] {
        let path = TreePath::new(path.as_bytes().to_vec()).expect("a path");
        let kind = EntryKind::File { size: 9, pieces: vec![Piece::Hole(9)] };
        writer.write(&Entry { path, kind, metadata: metadata() }).expect("in memory");
    }
    writer.finish().expect("in memory")
}

fn record(identity: &Identity) -> Vec<u8> {
    let generation = Generation {
        number: 1,
        published_ms: 5,
        entries: 0,
        bytes: 0,
        top: metadata(),
        index: Vec::new(),
        objects: vec![0],
    };
    let record = Record {
        token: Token([9; 16]),
        site: "local".to_owned(),
        name: "d".to_owned(),
        number: 1,
        predecessor: Hash::ZERO,
        run: RunId([1; 16]),
        signer: Signer { member: "m".to_owned(), key: identity.public().ed25519 },
        published_ms: 7,
        deed: Deed::Publish,
        current: 1,
        generations: vec![generation],
        next_generation: 2,
        objects: vec![ObjectEntry { number: 0, run: RunId([1; 16]), length: 0 }],
        next_object: 1,
        damaged: Vec::new(),
        healed: Vec::new(),
        condemned: Vec::new(),
        origins: Vec::new(),
    };
    SignedRecord::sign(record, identity).expect("it is sound").bytes().to_vec()
}

#[test]
fn no_bytes_make_a_decoder_panic_or_take_more_memory_than_their_length_allows() {
    let identity = Identity::from_seed([3; 32]);
    try_decoder("request", requests(), |input| {
        if let Ok(request) = Request::parse(&Bytes::copy_from_slice(input)) {
            assert_eq!(Request::parse(&request.emit().into()).as_ref(), Ok(&request));
        }
    });
    try_decoder("run_table", vec![runs().as_bytes().to_vec()], |input| {
        let _ = RunTable::parse(Bytes::copy_from_slice(input));
    });
    try_decoder("reply", replies(), |input| {
        let _ = Reply::parse(input);
    });
    let frames = || vec![frames(&[Codec::Lz4, Codec::Plain]), frames(&[Codec::Zstd(Level::DEFAULT)])];
    try_decoder("frames", frames(), |input| {
        let (mut reader, mut rest) =
            (FrameReader::new(Packing::AUTO, 1 << 40), Bytes::copy_from_slice(input));
        while let Ok(Some(_)) = reader.push(&mut rest) {}
    });
    // What is unpacked has the length that its header says, of at most 256 KiB; here the input's length bounds it.
    let mut coder = Coder::default();
    try_decoder("packed", frames(), |input| {
        let plain = input.len() * 50;
        let _ = coder.unpack(Format::Lz4, input, plain);
        let _ = coder.unpack(Format::Zstd, input, plain);
    });
    try_decoder("listing", vec![listing()], |input| drop(parse_listing(input)));
    try_decoder("manifest", vec![manifest()], |input| {
        let mut reader = EntryReader::new(input);
        while let Ok(Some(_)) = reader.read() {}
    });
    try_decoder("journal", vec![journal(&identity)], |input| drop(Journal::parse(input)));
    // A member that signs what it likes: what the signature covers is changed before it is made.
    let seed = record(&identity);
    let body = seed[..seed.len() - 64].to_vec();
    try_decoder("record", vec![body], |input| {
        let signed = [input, &identity.sign(input)].concat();
        let _ = SignedRecord::parse(signed.into());
    });
}
