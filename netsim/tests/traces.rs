//! Traces in and out: what is read is what is meant, and what makes no sense is refused with its line.

use std::path::PathBuf;
use std::time::Duration;

use netsim::mobility::trace::{
    BONNMOTION_MARGIN_M, TraceError, gzip, read_bonnmotion, read_ns2, write_bonnmotion, write_ns2,
};
use netsim::mobility::{
    Area, GaussMarkov, Groups, Length, Model, Pauses, RandomWalk, RandomWaypoint, Scenario, Speeds, Trace,
};
use proptest::prelude::*;

const NATIVE: &[u8] = include_bytes!("fixtures/three.movements");
const NS2: &[u8] = include_bytes!("fixtures/three.ns_movements");

/// Asserts that two traces have the same frames, up to a nanometre.
#[track_caller]
fn assert_same_frames(one: &Trace, other: &Trace, interval: Duration) {
    assert_eq!(one.nodes().len(), other.nodes().len());
    let mut frames = 0;
    for (one, other) in one.frames(interval).zip(other.frames(interval)) {
        for (node, (a, b)) in one.positions.iter().zip(&other.positions).enumerate() {
            let apart = (a.x - b.x).hypot(a.y - b.y);
            assert!(apart < 1e-9, "node {node} at {:?}: {a:?} and {b:?}", one.time);
        }
        frames += 1;
    }
    assert!(frames > 1);
}

#[test]
fn a_native_trace_and_its_ns2_twin_are_the_same_motion() {
    let native = read_bonnmotion(NATIVE).unwrap();
    let ns2 = read_ns2(NS2, BONNMOTION_MARGIN_M).unwrap();
    assert_eq!(native.duration_s(), 20.0);
    assert_same_frames(&native, &ns2, Duration::from_millis(250));

    let frame = native.frames(Duration::from_secs(12)).nth(1).unwrap();
    let places: Vec<(f64, f64)> = frame.positions.iter().map(|at| (at.x, at.y)).collect();
    assert_eq!(places, [(37.0, 40.0), (30.0, 0.0), (-1.0, 30.0)]);
}

/// The sample of BonnMotion and its own ns-2 export (GPL, so not in this repository).
#[test]
fn bonnmotions_sample_and_its_ns2_twin_are_the_same_motion() {
    let folder = std::env::var_os("NETSIM_TOPOLOGIES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/topologies"),
        PathBuf::from,
    );
    let path = |name: &str| folder.join("manet").join(name);
    let read = |name: &str| std::fs::read(path(name)).ok();
    let files = (read("bonnmotion-rwp_10.movements.gz"), read("bonnmotion-rwp_10.ns_movements"));
    let (Some(native), Some(ns2)) = files else {
        println!("SKIPPED: no BonnMotion sample in {}; NETSIM_TOPOLOGIES names its folder", folder.display());
        return;
    };
    let native = read_bonnmotion(&native).unwrap();
    let ns2 = read_ns2(&ns2, BONNMOTION_MARGIN_M).unwrap();
    assert_eq!((native.nodes().len(), native.duration_s()), (10, 600.0));
    assert_eq!(native.frames(Duration::from_secs(1)).count(), 601);
    assert_same_frames(&native, &ns2, Duration::from_secs(1));
}

#[test]
fn an_ns2_trace_that_ends_a_rounding_before_its_last_frame_has_it() {
    let ns2 = b"$node_(0) set X_ 0\n$node_(0) set Y_ 0\n$ns_ at 0 \"$node_(0) setdest 0.3 0 0.1\"";
    let trace = read_ns2(ns2, 0.0).unwrap();
    assert!(trace.duration_s() < 3.0, "{}", trace.duration_s());
    assert_eq!(trace.frames(Duration::from_secs(1)).count(), 4);
}

fn metres(metres: f64) -> Length {
    Length::from_metres(metres).unwrap()
}

fn models() -> [Model; 4] {
    let (speeds, second) = (Speeds::between(1.0, 20.0).unwrap(), Duration::from_secs(1));
    let waypoints = RandomWaypoint::new(speeds, Pauses::between(Duration::ZERO, 5 * second).unwrap());
    [
        RandomWalk::new(speeds, 9 * second).unwrap().into(),
        waypoints.into(),
        GaussMarkov::new(3.0, 2.0, 0.8, second).unwrap().into(),
        Groups::new(3, metres(10.0), 4 * second, waypoints).unwrap().into(),
    ]
}

#[test]
fn models_survive_the_way_through_both_formats() {
    for model in models() {
        let scenario = Scenario::new(7, Area::new(metres(100.0), metres(60.0)), model).unwrap();
        let trace = scenario.trace(11, Duration::from_secs(50));
        let native = write_bonnmotion(&trace);
        assert_eq!(read_bonnmotion(native.as_bytes()).unwrap(), trace, "to the last bit");
        assert_eq!(read_bonnmotion(&gzip(&native)).unwrap(), trace);
        let ns2 = read_ns2(write_ns2(&trace, 25.0).as_bytes(), 25.0).unwrap();
        assert_same_frames(&trace, &ns2, Duration::from_millis(700));

        let interval = Duration::from_millis(700);
        for (direct, recorded) in scenario.frames(11, interval).zip(trace.frames(interval)) {
            for (a, b) in direct.positions.iter().zip(&recorded.positions) {
                assert!((a.x - b.x).hypot(a.y - b.y) < 1e-9, "{model:?} at {:?}", direct.time);
            }
        }
        assert_eq!(trace.frames(interval).count(), 72);
    }
}

#[track_caller]
fn assert_refused(result: Result<Trace, TraceError>, message: &str) {
    assert_eq!(result.unwrap_err().to_string(), message);
}

#[test]
fn what_is_no_native_trace_is_refused_with_its_line() {
    let read = |text: &str| read_bonnmotion(text.as_bytes());
    assert_refused(read(""), "the trace has no nodes");
    assert_refused(read("# only a comment\n"), "the trace has no nodes");
    assert_refused(
        read("0 1 2\n0 1 2 3 4\n"),
        "line 2: 5 numbers; a node's line holds time, x and y of each waypoint, so a multiple of 3",
    );
    assert_refused(
        read("# nodes\n0 1 two"),
        "line 2: \"two\" where a coordinate in metres should stand, from -1000000000 to 1000000000",
    );
    assert_refused(
        read("0 1 2 5 3 4 4 3 4"),
        "line 1: time 4 stands after 5; the waypoints of a node stand in the order of time",
    );
    assert_refused(read("0 1 2 5 3 4 5 3 5"), "line 1: the node is at two places at time 5");
    assert_refused(read("0 1 2 0.5 9 3 4 0.5"), "line 1: the trace has three dimensions; only two are read");
    for hostile in ["NaN 0 0", "-1 0 0", "inf 0 0", "0 nan 0", "0 1e300 0"] {
        assert!(matches!(read(hostile), Err(TraceError::At { line: 1, .. })), "{hostile}");
    }
    assert_refused(read_bonnmotion(b"0 1 2\n0 \xff 2"), "line 2: the trace is not UTF-8 text");
    let mut cut = gzip("0 1 2\n");
    cut.truncate(cut.len() - 6);
    assert!(matches!(read_bonnmotion(&cut), Err(TraceError::Gzip { .. })));
}

#[test]
fn what_is_no_ns2_trace_is_refused_with_its_line() {
    let read = |text: &str| read_ns2(text.as_bytes(), 0.0);
    let start = |node: u32| format!("$node_({node}) set X_ 1\n$node_({node}) set Y_ 1\n");
    assert_refused(read("# nothing"), "the trace has no nodes");
    let error = read("$node_(0) set X_ 1\nsetdest now\n").unwrap_err().to_string();
    assert!(error.starts_with("line 2: \"setdest now\" is none of `$node_(N) set X_ VALUE`"), "{error}");
    assert_refused(
        read(&(start(0) + &start(2))),
        "there is no node 1, though the trace has 2 nodes up to number 2",
    );
    assert_refused(read("\n$node_(0) set Y_ 1\n"), "node 0 (first named in line 2) has no X_");
    assert_refused(read(&(start(0) + &start(0))), "line 3: node 0 has its X_ already");
    assert_refused(read("$node_(0) set Z_ 4"), "line 1: the trace has three dimensions; only two are read");
    assert_refused(
        read(&(start(0) + "$ns_ at 1 \"$node_(0) setdest 1 2 3 4\"")),
        "line 3: the trace has three dimensions; only two are read",
    );
    assert_refused(
        read(&(start(0) + "$ns_ at 1 \"$node_(0) setdest 1 2 -4\"")),
        "line 3: \"-4\" where a speed in m/s should stand, from 0 to 1000000000",
    );
    assert_refused(read("$node_(-1) set X_ 4"), "line 1: \"$node_(-1)\" is no node number");
    // A number so high that a table up to it would not fit the memory.
    assert!(matches!(read(&start(4_294_967_295)), Err(TraceError::MissingNode { missing: 0, .. })));
}

/// Words of both formats and others, in any order.
fn garbage() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("$ns_".to_owned()),
        Just("at".to_owned()),
        Just("setdest".to_owned()),
        Just("set".to_owned()),
        Just("X_".to_owned()),
        Just("\"$node_(0)".to_owned()),
        Just("$node_(1)".to_owned()),
        Just("#".to_owned()),
        Just("\n".to_owned()),
        "[-0-9.e]{1,6}",
        "\\PC{1,4}",
    ];
    prop::collection::vec(word, 0..60).prop_map(|words| words.join(" "))
}

proptest! {
    /// A reader may refuse anything, but must survive it; what it takes is a trace that can be used.
    #[test]
    fn readers_survive_garbage(text in garbage(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for input in [text.as_bytes(), &bytes[..], &[&[0x1f, 0x8b], &bytes[..]].concat(), &gzip(&text)] {
            for trace in [read_bonnmotion(input), read_ns2(input, 10.0)].into_iter().flatten() {
                for frame in trace.frames(Duration::from_secs(1)).take(5) {
                    prop_assert!(frame.positions.iter().all(|at| at.x.is_finite() && at.y.is_finite()));
                }
            }
        }
    }

    /// A good file with one character changed gives a trace or an error, never a panic.
    #[test]
    fn readers_survive_a_changed_character(place in 0..400_usize, byte: u8) {
        for (file, margin) in [(NATIVE, None), (NS2, Some(10.0))] {
            let mut file = file.to_vec();
            let place = place % file.len();
            file[place] = byte;
            let result = margin.map_or_else(|| read_bonnmotion(&file), |margin| read_ns2(&file, margin));
            if let Ok(trace) = result {
                prop_assert!(trace.duration_s().is_finite());
            }
        }
    }
}
