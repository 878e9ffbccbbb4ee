//! The wall (design §2): the protocol logic of this crate does no I/O. The manifests, and the search itself, are tested
//! by the wall test of fec-transport.

#[path = "../../fec-transport/tests/wall/scan.rs"]
mod scan;

use std::path::Path;

#[test]
fn protocol_logic_does_no_io() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let simulator = ("netsim", "the simulator is for the demo and for tests");
    let findings = scan::scan(&src, &["io", "bin"], &[simulator]);
    let list: String = findings.iter().map(|finding| format!("\n  {finding}")).collect();
    assert!(findings.is_empty(), "behind the wall:{list}");
}
