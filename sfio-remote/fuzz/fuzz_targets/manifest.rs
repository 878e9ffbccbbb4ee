#![no_main]
//! Entries of a manifest: what is read is written and read as the same again.

use sfio_remote::replication::{EntryReader, EntryWriter};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sfio_remote_fuzz::bounded(bytes, 64, 64 << 10, |bytes| {
        let mut reader = EntryReader::new(bytes);
        while let Ok(Some(entry)) = reader.read() {
            let mut writer = EntryWriter::new(Vec::new());
            if writer.write(&entry).is_ok() {
                let written = writer.finish().expect("memory takes all");
                let again = EntryReader::new(written.as_slice()).read();
                assert_eq!(again.expect("it was written"), Some(entry));
            }
        }
    });
});
