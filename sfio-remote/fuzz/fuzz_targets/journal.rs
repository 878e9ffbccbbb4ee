#![no_main]
//! Journals: of any bytes the part that is sound counts, and what it says is written as the same again.

use fec_transport::keys::Identity;
use sfio_remote::replication::{Journal, JournalHeader, RunId, Signer, Token};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // No mutation hits a signature or a sum: here the bytes are a frame's body behind a header that a member signed.
    let identity = Identity::from_seed([7; 32]);
    let signer = Signer { member: "client".to_owned(), key: identity.public().ed25519 };
    let header = JournalHeader { token: Token([1; 16]), run: RunId([2; 16]), signer };
    let head = Journal::begin(&header, &identity);
    sfio_remote_fuzz::bounded(bytes, 16, 64 << 10, |bytes| {
        drop(Journal::parse(bytes));
        let sum = sfio_remote::replication::Hash::of(bytes);
        let length = (bytes.len() as u32).to_le_bytes();
        let whole = [&head[..], &length, &sum.as_bytes()[..16], bytes].concat();
        let journal = Journal::parse(&whole).expect("its header is right");
        let again = [head.clone(), Journal::frame(&journal.chunks_in(0).collect::<Vec<_>>())].concat();
        let parsed = Journal::parse(&again).expect("it was written so");
        assert!(parsed.chunks_in(0).eq(journal.chunks_in(0)));
    });
});
