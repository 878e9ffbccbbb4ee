#![no_main]
//! The list of a manifest's chunks.

use sfio_remote::replication::ChunkRef;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Before the first element comes, serde makes room for as many as the length says, in at most 1 MiB.
    sfio_remote_fuzz::bounded(bytes, 32, (1 << 20) + (64 << 10), |bytes| {
        if let Ok(list) = postcard::from_bytes::<Vec<ChunkRef>>(bytes) {
            let written = postcard::to_stdvec(&list).expect("plain values");
            assert_eq!(postcard::from_bytes::<Vec<ChunkRef>>(&written), Ok(list));
        }
    });
});
