//! The committed header is the one that cbindgen writes.

use std::path::Path;

#[test]
fn the_committed_header_is_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("a right config");
    // In the order in which a reader wants them.
    let sources = ["error", "process", "file", "access", "request", "group", "counters"];
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = sources
        .iter()
        .fold(builder, |builder, source| builder.with_src(folder.join(format!("src/{source}.rs"))));
    let mut header = Vec::new();
    builder.generate().expect("right sources").write(&mut header);
    let committed = folder.join("include/sfio.h");
    if std::env::var_os("SFIO_WRITE_HEADER").is_some() {
        std::fs::write(&committed, &header).expect("it can be written");
    }
    let found = std::fs::read(&committed).unwrap_or_default();
    assert!(
        found == header,
        "sfio.h is not what cbindgen makes of the sources; \
         SFIO_WRITE_HEADER=1 cargo test -p sfio-capi --test header writes it anew"
    );
}
