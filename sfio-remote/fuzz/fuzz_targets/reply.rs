#![no_main]
//! Replies, as a client gets them.

use bytes::Bytes;
use sfio_remote::wire::{Assembler, Reply};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut arrived = Bytes::copy_from_slice(bytes);
    sfio_remote_fuzz::bounded(bytes, 32, 64 << 10, |_| {
        if let Ok(Some(message)) = Assembler::reply().push(&mut arrived)
            && let Ok(reply) = Reply::parse(&message)
        {
            assert_eq!(Reply::parse(&reply.emit()), Ok(reply));
        }
    });
});
