#![no_main]
//! Requests, as an I/O node gets them.

use bytes::Bytes;
use sfio_remote::wire::{Assembler, Request};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut arrived = Bytes::copy_from_slice(bytes);
    sfio_remote_fuzz::bounded(bytes, 32, 64 << 10, |_| {
        if let Ok(Some(message)) = Assembler::request().push(&mut arrived)
            && let Ok(request) = Request::parse(&message)
        {
            assert_eq!(Request::parse(&request.emit().into()), Ok(request));
        }
    });
});
