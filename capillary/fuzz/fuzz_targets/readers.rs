//! No bytes may make a reader panic, whatever format they claim to be. What loads must be written and load again.
//!
//! With cargo-fuzz and nightly: `cargo +nightly fuzz run readers -- -max_total_time=600`. Without them, see
//! fuzz/README.md.

#![no_main]

use capillary::format::{Format, ReadOptions, read, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The first byte chooses the format, so that one corpus serves all readers; beyond them, the content decides.
    let Some((choice, bytes)) = data.split_first() else { return };
    let format = Format::ALL.get(*choice as usize % 16).copied();
    let options = ReadOptions { format, ..ReadOptions::default() };
    let Ok(loaded) = read(bytes, &options) else { return };
    let topology = loaded.topology;
    // XML has no way to write control characters, so that names may become equal.
    if topology.nodes().any(|(_, node)| node.id.contains(char::is_control)) {
        return;
    }
    for format in [Format::Gml, Format::GraphMl, Format::NodeLink, Format::Dot] {
        let text = write(&topology, format);
        let again = read(text.as_bytes(), &ReadOptions { format: Some(format), ..ReadOptions::default() });
        let again = again.unwrap_or_else(|error| panic!("{format}: {error}\n{text}")).topology;
        assert_eq!((again.node_count(), again.link_count()), (topology.node_count(), topology.link_count()));
    }
});
