#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fec_transport::fuzzing::message_frames(bytes));
