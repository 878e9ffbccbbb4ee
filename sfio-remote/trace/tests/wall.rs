//! The wall (design §2): readers take bytes, and give records. Nothing here opens a file or looks at a clock.

#[path = "../../../fec-transport/tests/wall/scan.rs"]
mod scan;

use std::path::Path;

#[test]
fn readers_do_no_io() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let findings = scan::scan(&src, &[], &[]);
    let list: String = findings.iter().map(|finding| format!("\n  {finding}")).collect();
    assert!(findings.is_empty(), "behind the wall:{list}");
}
