#![no_main]
//! Journals: of any bytes the part that is sound counts, and what it says is written as the same again.

use sfio_remote::replication::Journal;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sfio_remote_fuzz::bounded(bytes, 16, 64 << 10, |bytes| {
        if let Some(journal) = Journal::parse(bytes) {
            let mut again = Journal::begin(&journal.header);
            again.extend(Journal::frame(&journal.chunks));
            let parsed = Journal::parse(&again).expect("it was written so");
            assert_eq!((parsed.header, parsed.chunks), (journal.header, journal.chunks));
        }
    });
});
