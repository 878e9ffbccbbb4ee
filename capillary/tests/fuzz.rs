//! Damaged files by the thousand: no reader of topologies or demands panics, every error names what is wrong, and what
//! loads is written and loads again.
//!
//! `cargo test` damages each file a few hundred times; for as long as one likes (seconds, for each format in turn):
//!
//! ```sh
//! CAPILLARY_FUZZ_SECONDS=600 cargo test --release -p capillary --test fuzz -- --ignored --nocapture
//! ```
//!
//! `CAPILLARY_FUZZ_ONLY` keeps to the readers whose name contains it (`caida`, `demands`), `CAPILLARY_FUZZ_SEED` sets
//! where the dice begin (1). capillary/fuzz is the same with a compiler that counts which
//! branches were taken.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use capillary::format::{Format, ReadError, ReadOptions, read, read_traffic, write};
use capillary::{NodeId, Topology};

const ABILENE: &str = include_str!("fixtures/zoo/Abilene.gml");

/// Files as they are found, by format.
const FOUND: [(Format, &str); 8] = [
    (Format::Gml, ABILENE),
    (Format::GraphMl, include_str!("fixtures/zoo/Abilene.graphml")),
    (Format::NodeLink, include_str!("fixtures/topohub/gabriel-25-0.json")),
    (Format::Repetita, include_str!("fixtures/formats/square.graph")),
    (Format::Caida, include_str!("fixtures/formats/relationships.txt")),
    (Format::Rocketfuel, include_str!("fixtures/formats/provider.cch")),
    (Format::EdgeList, include_str!("fixtures/formats/snap.txt")),
    (Format::EdgeList, include_str!("fixtures/formats/weights.intra")),
];

/// SplitMix64: the same damage on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Words that readers may stumble over.
const WORDS: [&str; 18] = [
    "0",
    "-1",
    "1e308",
    "-0",
    "NaN",
    "inf",
    "18446744073709551616",
    "\"",
    "(",
    ")",
    "[",
    "]",
    "\n",
    "\t",
    "\0",
    "\u{feff}",
    "é",
    "9999999999",
];

/// One to four changes: bytes and words in the place of others, parts left out, doubled or moved, the end cut off.
fn damaged(dice: &mut Dice, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + dice.below(4) {
        let (at, length) = (dice.below(bytes.len()), 1 + dice.below(12));
        let end = (at + length).min(bytes.len());
        match dice.below(7) {
            0 if !bytes.is_empty() => bytes[at] = dice.next() as u8,
            1 => drop(bytes.splice(at..end, WORDS[dice.below(WORDS.len())].bytes())),
            2 => drop(bytes.splice(at..at, WORDS[dice.below(WORDS.len())].bytes())),
            3 => drop(bytes.drain(at..end)),
            4 => bytes.truncate(at),
            5 => {
                let part = bytes[at..end].to_vec();
                let to = dice.below(bytes.len());
                drop(bytes.splice(to..to, part));
            }
            _ => double_line(dice, &mut bytes),
        }
    }
    bytes
}

/// A line once more, somewhere else.
fn double_line(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let lines: Vec<Vec<u8>> = bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let (from, to) = (dice.below(lines.len()), dice.below(lines.len()));
    let place = lines[..to].iter().map(Vec::len).sum::<usize>();
    if let Some(line) = lines.get(from) {
        drop(bytes.splice(place..place, line.iter().copied()));
    }
}

/// An error names a line of the file, or the end behind the last, and says something.
fn check_error(error: &ReadError, bytes: &[u8]) {
    let lines = String::from_utf8_lossy(bytes).lines().count();
    assert!(!error.to_string().trim().is_empty());
    if let ReadError::At { line, .. } = error {
        assert!((1..=lines + 1).contains(line), "{error}: the file has {lines} lines");
    }
}

/// Reads a topology, and what was written of it.
fn try_topology(format: Format, bytes: &[u8]) {
    let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
    let topology = match read(bytes, &options) {
        Ok(loaded) => loaded.topology,
        Err(error) => return check_error(&error, bytes),
    };
    // XML has no way to write control characters, so that names may become equal.
    if topology.nodes().any(|(_, node)| node.id.contains(char::is_control)) {
        return;
    }
    for format in [Format::Gml, Format::GraphMl, Format::NodeLink, Format::Dot] {
        let text = write(&topology, format);
        let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
        let again = read(text.as_bytes(), &options);
        let again = again.unwrap_or_else(|error| panic!("{format}: {error}\n{text}")).topology;
        let counts = |topology: &Topology| (topology.node_count(), topology.link_count());
        assert_eq!(counts(&again), counts(&topology), "{format}");
    }
}

fn try_demands(topology: &Topology, bytes: &[u8]) {
    match read_traffic(bytes, topology) {
        Ok(traffic) => assert!(traffic.demands().iter().all(|demand| demand.amount >= 0.0)),
        Err(error) => check_error(&error, bytes),
    }
}

fn abilene() -> Topology {
    read(ABILENE.as_bytes(), &ReadOptions::default()).unwrap().topology
}

/// Whole files of a format: as they are found, and as we write them.
fn topologies(format: Format) -> Vec<Vec<u8>> {
    let found = FOUND.iter().filter(|(of, _)| *of == format).map(|(_, text)| text.as_bytes().to_vec());
    found.chain([write(&abilene(), format).into_bytes()]).collect()
}

/// Whole files of demands between the nodes of Abilene, by what they are.
fn demands() -> Vec<(&'static str, Vec<u8>)> {
    let topology = abilene();
    let id = |node: u32| &topology.node_weight(NodeId(node)).id;
    let rows: Vec<(u32, u32, u32)> = (0..10).map(|index| (index, index + 1, 100 * index + 7)).collect();
    let mut texts: [String; 7] = Default::default();
    let [table, list, repetita, json, json_list, native, xml] = &mut texts;
    *table = "source;destination;traffic;max_hops;max_delay;max_stretch\n".into();
    *repetita = format!("DEMANDS {}\nlabel src dest bw\n", rows.len());
    *json = "{\"nodes\": [], \"links\": [], \"graph\": {\"demands\": {".into();
    *json_list = "{\"nodes\": [], \"links\": [], \"demands\": [".into();
    *native =
        "?SNDlib native format; type: network; version: 1.0\nNODES (\n)\nLINKS (\n)\nDEMANDS (\n".into();
    *xml = "<network><demands>\n".into();
    for (index, &(from, to, amount)) in rows.iter().enumerate() {
        let (from, to) = (id(from), id(to));
        let comma = if index == 0 { "" } else { ", " };
        let _ = writeln!(table, "{from};{to};{amount} Mbit/s;{};{index}.5ms;1.{index}", index + 1);
        let _ = writeln!(list, "{from} {to} {amount}");
        let _ = writeln!(repetita, "demand_{index} {from} {to} {amount}");
        let _ = write!(json, "{comma}\"{from}\": {{\"{to}\": {amount}}}");
        let _ = write!(
            json_list,
            "{comma}{{\"source\": \"{from}\", \"target\": \"{to}\", \"demand\": {amount}, \"max_hops\": 4,\n\
             \"max_delay\": \"9ms\", \"max_stretch\": 1.5}}"
        );
        let length = if index % 2 == 0 { "UNLIMITED" } else { "3" };
        let _ = writeln!(native, "  D{index} ( {from} {to} ) 1 {amount}.00 {length}");
        let _ = writeln!(
            xml,
            "<demand id=\"D{index}\"><source>{from}</source><target>{to}</target>\n\
             <demandValue>{amount}</demandValue><maxPathLength>{length}</maxPathLength></demand>"
        );
    }
    json.push_str("}}}\n");
    json_list.push_str("]}\n");
    native.push_str(")\n");
    xml.push_str("</demands></network>\n");
    let names = ["table", "list", "repetita", "json", "json list", "sndlib-native", "sndlib-xml"];
    names.into_iter().zip(texts.map(String::into_bytes)).collect()
}

/// Reads bytes, whatever they are.
type Reader = Box<dyn Fn(&[u8])>;

/// Something that reads bytes, with whole files for it.
struct Target {
    name: String,
    files: Vec<Vec<u8>>,
    read: Reader,
}

fn targets() -> Vec<Target> {
    let topology = |format: Format| Target {
        name: format.name().into(),
        files: topologies(format),
        read: Box::new(move |bytes| try_topology(format, bytes)),
    };
    let of_demands = |(name, file): (&str, Vec<u8>)| {
        let nodes = abilene();
        let traffic = read_traffic(&file, &nodes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(traffic.demands().len(), 10, "{name}");
        let read = Box::new(move |bytes: &[u8]| try_demands(&nodes, bytes));
        Target { name: format!("demands, {name}"), files: vec![file], read }
    };
    Format::ALL.into_iter().map(topology).chain(demands().into_iter().map(of_demands)).collect()
}

impl Target {
    /// Damages files until it is `enough`, and tells how many there were. Prints what made a reader panic.
    fn fuzz(&self, dice: &mut Dice, mut enough: impl FnMut(usize) -> bool) -> usize {
        let mut count = 0;
        while !enough(count) {
            let file = &self.files[dice.below(self.files.len())];
            let bytes = damaged(dice, file);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.read)(&bytes)));
            if outcome.is_err() {
                panic!("{}, file {count}: {:?}", self.name, String::from_utf8_lossy(&bytes));
            }
            count += 1;
        }
        count
    }
}

#[test]
fn damaged_files_of_every_format_are_errors_with_a_place_or_load_again() {
    for target in targets() {
        target.fuzz(&mut Dice(1), |count| count == 200);
    }
}

#[test]
#[ignore = "takes as long as CAPILLARY_FUZZ_SECONDS says, for each format"]
#[allow(clippy::disallowed_methods, reason = "it goes on for a time, and asserts none")]
fn damaged_files_of_every_format_for_a_time() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let seconds = Duration::from_secs(number("CAPILLARY_FUZZ_SECONDS", 10));
    let mut dice = Dice(number("CAPILLARY_FUZZ_SEED", 1));
    let only = std::env::var("CAPILLARY_FUZZ_ONLY").unwrap_or_default();
    for target in targets().into_iter().filter(|target| target.name.contains(&only)) {
        let start = Instant::now();
        let count = target.fuzz(&mut dice, |count| count % 64 == 0 && start.elapsed() >= seconds);
        println!("{}: {count} damaged files", target.name);
    }
}
