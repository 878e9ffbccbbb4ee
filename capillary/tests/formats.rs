//! Readers and writers: what is written reads back, what is broken is an error with a line, and nothing panics.

use std::num::NonZeroU32;
use std::time::Duration;

use capillary::format::{Format, Problem, ReadError, ReadOptions, read, read_traffic, write};
use capillary::matrix::PathBounds;
use capillary::{Link, LinkId, Node, NodeId, Orientation, Position, Topology};
use proptest::prelude::*;

const ABILENE_GML: &str = include_str!("fixtures/zoo/Abilene.gml");
const ABILENE_GRAPHML: &str = include_str!("fixtures/zoo/Abilene.graphml");

fn with_capacity(attribute: &str) -> ReadOptions {
    ReadOptions { capacity: Some(attribute.into()), ..ReadOptions::default() }
}

fn load(text: &str) -> Topology {
    read(text.as_bytes(), &ReadOptions::default()).unwrap().topology
}

fn error(text: &str) -> String {
    read(text.as_bytes(), &ReadOptions::default()).unwrap_err().to_string()
}

#[test]
fn the_zoo_s_two_formats_hold_the_same_network() {
    let (gml, graphml) = (load(ABILENE_GML), load(ABILENE_GRAPHML));
    assert_eq!((gml.node_count(), gml.link_count(), gml.orientation()), (11, 14, Orientation::Undirected));
    assert_eq!(gml.name(), "Abilene");
    let nodes = |topology: &Topology| topology.nodes().map(|(_, node)| node.clone()).collect::<Vec<_>>();
    assert_eq!(nodes(&gml), nodes(&graphml));
    let ends = |topology: &Topology| topology.links().map(|(_, from, to, _)| (from, to)).collect::<Vec<_>>();
    assert_eq!(ends(&gml), ends(&graphml));
    let seattle = gml.node_weight(NodeId(3));
    assert_eq!((seattle.id.as_str(), seattle.name()), ("3", "Seattle"));
    assert_eq!(seattle.position, Some(Position { x: -122.33207, y: 47.60621 }));
}

#[test]
fn sndlib_s_two_formats_hold_the_same_network() {
    let native = "?SNDlib native format; type: network; version: 1.0\n# network test\n\nNODES (\n  A ( 1.5 2.0 )\n  B\n)\n\
                  LINKS (\n  L1 ( A B ) 40.00 0.00 0.00 156.00 ( 155.00 156.00 622.00 468.00 )\n)\nDEMANDS (\n)\n\
                  ADMISSIBLE_PATHS (\n  D1 (\n    P0 ( L1 )\n  )\n)\n";
    let xml = "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n<network version=\"1.0\"><networkStructure>\n\
               <nodes><node id=\"A\"><coordinates><x>1.5</x><y>2.0</y></coordinates></node><node id=\"B\"/></nodes>\n\
               <links><link id=\"L1\"><source>A</source><target>B</target><preInstalledModule><capacity>40</capacity>\
               </preInstalledModule><additionalModules><addModule><capacity>155</capacity></addModule></additionalModules>\
               </link></links></networkStructure></network>";
    for text in [native, xml] {
        for (attribute, capacity) in [("pre_installed_capacity", 40.0), ("module_capacity", 155.0)] {
            let topology = read(text.as_bytes(), &with_capacity(attribute)).unwrap().topology;
            assert_eq!(topology.orientation(), Orientation::Undirected);
            assert_eq!(topology.node_weight(NodeId(0)).position, Some(Position { x: 1.5, y: 2.0 }));
            let link = topology.link_weight(LinkId(0));
            assert_eq!((link.capacity, link.id.as_deref()), (capacity, Some("L1")));
        }
    }
}

#[test]
fn node_link_json_may_have_numbers_as_ids_and_links_or_edges() {
    for (key, directed) in [("links", true), ("edges", false)] {
        let text = format!(
            "{{\"directed\": {directed}, \"graph\": {{\"name\": \"toy\"}}, \"nodes\": [{{\"id\": 0, \"pos\": [1, 2]}}, \
             {{\"id\": \"x\", \"name\": \"X\"}}], \"{key}\": [{{\"source\": 0, \"target\": \"x\", \"capacity\": 7}}]}}"
        );
        let topology = read(text.as_bytes(), &with_capacity("capacity")).unwrap().topology;
        assert_eq!(topology.orientation() == Orientation::Directed, directed);
        assert_eq!((topology.name(), topology.node_weight(NodeId(1)).name()), ("toy", "X"));
        assert_eq!(topology.link_weight(LinkId(0)).capacity, 7.0);
    }
}

#[test]
fn dot_has_chains_subgraphs_ports_and_comments() {
    let text = "/* a */ strict digraph \"N\" { // b\n rankdir=LR; node [shape=box]\n a:n -> b -> c [cap=2]\n\
                a [label=\"The \\\"A\\\"\", pos=\"1,2!\"]; subgraph s { d; e } -> a; -1.5 -> a\n}\n";
    let topology = read(text.as_bytes(), &with_capacity("cap")).unwrap_err();
    assert!(
        matches!(topology, ReadError::At { line: 4, problem: Problem::MissingCapacity { .. }, .. }),
        "{topology}"
    );
    let options = ReadOptions { default_capacity: Some(9.0), ..with_capacity("cap") };
    let topology = read(text.as_bytes(), &options).unwrap().topology;
    let links: Vec<(&str, &str, f64)> = topology
        .links()
        .map(|(_, from, to, link)| {
            (&*topology.node_weight(from).id, &*topology.node_weight(to).id, link.capacity)
        })
        .collect();
    assert_eq!(
        links,
        [("a", "b", 2.0), ("b", "c", 2.0), ("d", "a", 9.0), ("e", "a", 9.0), ("-1.5", "a", 9.0)]
    );
    assert_eq!(topology.node_weight(NodeId(0)).name(), "The \"A\"");
}

#[test]
fn errors_name_the_line_the_element_and_what_was_expected() {
    for (text, expected) in [
        (
            "graph [\n node [\n  id 0\n ]\n node [\n  id 0\n ]\n]",
            "line 5, node \"0\": the id stands at line 2 already; expected a new one",
        ),
        ("graph [\n edge [\n  source 0\n ]\n]", "line 2, link 0: expected a target"),
        (
            "{\"nodes\": [\"a\"],\n \"links\": [{\"from\": \"a\" \"to\": \"c\"}]}",
            "line 2, JSON: expected `,` or `}` in column 25",
        ),
        (
            "graph [\n node [ id 0 ]\n edge [ source 0 target 5 ]\n]",
            "line 3, link 0 (0 to 5): \"5\" is no node of the file",
        ),
        ("graph [\n node [\n  id 0\n", "line 4, node of line 2: expected its closing \"]\""),
        ("from,to\na,b\n\nc,\n", "line 4, link 1: expected two nodes"),
        ("graph { a -> b }", "line 1, \"->\": expected \"->\" in a digraph, \"--\" in a graph"),
        (
            "{\"nodes\": [{\"id\": 1},\n{\"name\": 2}], \"links\": []}",
            "line 2, node 1: expected an id, a string or a number",
        ),
        (
            "  \n",
            "the file is empty; expected a topology (gml, graphml, sndlib-xml, sndlib-native, json, dot, csv, \
             repetita, caida, rocketfuel, edges)",
        ),
        (
            "PK\u{3}\u{4}",
            "line 1: the file looks like none of gml, graphml, sndlib-xml, sndlib-native, json, dot, csv, repetita, caida, \
             rocketfuel, edges",
        ),
    ] {
        assert_eq!(error(text), expected);
    }
}

#[test]
fn a_binary_file_is_of_no_format_and_long_words_are_cut() {
    assert_eq!(read(b"\x7fELF\0graph [\0", &ReadOptions::default()).unwrap_err(), ReadError::UnknownFormat);
    let text = format!("graph [\n {} ]", "x".repeat(10_000));
    assert!(error(&text).len() < 200, "{}", error(&text));
}

#[test]
fn a_capacity_that_was_asked_for_must_be_there_and_positive() {
    let text = b"from,to,mbit\na,b,10\nb,c,0\nc,a,\n";
    let bad = read(text, &with_capacity("mbit")).unwrap_err().to_string();
    assert_eq!(bad, "line 3, link 1 (b to c): its mbit is 0; expected a number above 0");
    let missing = read(text, &with_capacity("speed")).unwrap_err().to_string();
    let expected = "line 2, link 0 (a to b): it has no attribute \"speed\"; expected a capacity there (it has: from, mbit, to)";
    assert_eq!(missing, expected);
    let options = ReadOptions { default_capacity: Some(3.0), ..with_capacity("mbit") };
    let topology = read(text, &options).unwrap().topology;
    let capacities: Vec<f64> = topology.links().map(|(.., link)| link.capacity).collect();
    assert_eq!(capacities, [10.0, 3.0, 3.0]);
}

#[test]
fn the_reader_may_overrule_the_file_s_direction() {
    let options = ReadOptions { orientation: Some(Orientation::Directed), ..ReadOptions::default() };
    assert_eq!(read(ABILENE_GML.as_bytes(), &options).unwrap().topology.orientation(), Orientation::Directed);
}

/// Every prefix of a file is an error with a line, until what is cut off is blank. (Tables and lists have no end to
/// miss.)
#[test]
fn truncated_files_are_errors_with_a_line() {
    let topology = load(ABILENE_GML);
    let endless = [Format::Csv, Format::Caida, Format::EdgeList, Format::Rocketfuel];
    for format in Format::ALL.into_iter().filter(|format| !endless.contains(format)) {
        let text = write(&topology, format);
        // SNDlib's sections after LINKS may be missing without being missed.
        let end = text.find("DEMANDS").unwrap_or(text.trim_end().len());
        for cut in (1..end).filter(|&cut| text.is_char_boundary(cut) && text[cut..end].trim() != "") {
            let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
            match read(&text.as_bytes()[..cut], &options) {
                Err(ReadError::At { line, .. }) => assert!(line <= text.lines().count() + 1),
                Err(ReadError::Empty) => {}
                other => panic!("{format} cut at {cut}: {other:?}"),
            }
        }
    }
}

#[test]
fn metrics_and_delays_are_read_from_the_attributes_that_are_named() {
    let table = "from,to,cost,latency,delay_ms\na,b,10,5us,1\nb,c,2.5,0.1 s,2\nc,d,1,7,3\n";
    let named =
        ReadOptions { metric: Some("cost".into()), delay: Some("latency".into()), ..ReadOptions::default() };
    let links = |options: &ReadOptions| -> Vec<(f64, Option<Duration>)> {
        let topology = read(table.as_bytes(), options).unwrap().topology;
        topology.links().map(|(.., link)| (link.length(), link.delay)).collect()
    };
    let delays = [5, 100_000, 7_000].map(|us| Some(Duration::from_micros(us)));
    assert_eq!(links(&named), [(10.0, delays[0]), (2.5, delays[1]), (1.0, delays[2])]);
    let plain = [1, 2, 3].map(|ms| (1.0, Some(Duration::from_millis(ms))));
    assert_eq!(links(&ReadOptions::default()), plain);
    for (table, message) in [
        (
            "from,to,cost,latency\na,b,0,1\n",
            "line 2, link 0 (a to b): its cost is 0; expected a metric, a number above 0",
        ),
        (
            "from,to,cost,latency\na,b,1,2 weeks\n",
            "line 2, link 0 (a to b): its latency is 2 weeks; expected a delay in milliseconds, or with a unit as 5us, \
             3ms or 0.1s",
        ),
        (
            "from,to,cost\na,b,1\n",
            "line 2, link 0 (a to b): its latency is missing (it has: cost, from, to); expected a delay in \
             milliseconds, or with a unit as 5us, 3ms or 0.1s",
        ),
    ] {
        assert_eq!(read(table.as_bytes(), &named).unwrap_err().to_string(), message);
    }
}

const REPETITA: &str = include_str!("fixtures/formats/square.graph");
const REPETITA_DEMANDS: &str = include_str!("fixtures/formats/square.demands");
const CAIDA: &str = include_str!("fixtures/formats/relationships.txt");
const ROCKETFUEL: &str = include_str!("fixtures/formats/provider.cch");
const SNAP: &str = include_str!("fixtures/formats/snap.txt");
const WEIGHTS: &str = include_str!("fixtures/formats/weights.intra");

/// Links as the ids of their ends.
fn ends(topology: &Topology) -> Vec<(&str, &str)> {
    let id = |node| topology.node_weight(node).id.as_str();
    topology.links().map(|(_, from, to, _)| (id(from), id(to))).collect()
}

#[test]
fn a_format_of_lines_is_told_by_its_content() {
    for (text, format) in [
        (REPETITA, Format::Repetita),
        (CAIDA, Format::Caida),
        (ROCKETFUEL, Format::Rocketfuel),
        (SNAP, Format::EdgeList),
        (WEIGHTS, Format::EdgeList),
        ("a,b\nb,c\n", Format::EdgeList),
        ("1 2 {'capacity': 3}\n2 3 {}\n", Format::EdgeList),
        ("node1;node2;mbit\na;b;5\n", Format::Csv),
        ("Source Node|Target Node|cap\na|b|5\n", Format::Csv),
        ("id\tsrc\tdst\n1\ta\tb\n", Format::Csv),
    ] {
        assert_eq!(Format::detect(text), Some(format), "{text}");
    }
    for text in ["just some words of a letter\nto you", "one\ntwo", "1 2 three\n4 5 six"] {
        assert_eq!(Format::detect(text), None, "{text}");
    }
}

#[test]
fn repetita_has_edges_for_each_direction_and_demands_by_position() {
    let options = ReadOptions { metric: Some("weight".into()), ..with_capacity("bw") };
    let topology = read(REPETITA.as_bytes(), &options).unwrap().topology;
    assert_eq!((topology.orientation(), topology.node_count()), (Orientation::Directed, 4));
    assert_eq!(topology.node_weight(NodeId(0)).name(), "North_End");
    assert_eq!(topology.node_weight(NodeId(0)).position, Some(Position { x: 7.5, y: 47.25 }));
    let link = topology.link_weight(LinkId(2));
    assert_eq!((link.capacity, link.metric, link.delay), (1e6, Some(5.0), Some(Duration::from_micros(350))));
    let traffic = read_traffic(REPETITA_DEMANDS.as_bytes(), &topology).unwrap();
    assert_eq!((traffic.demands().len(), traffic.total()), (2, 42_500.0));
}

#[test]
fn relationships_maps_and_lists_hold_their_links() {
    let caida = read(CAIDA.as_bytes(), &ReadOptions::default()).unwrap().topology;
    assert_eq!(ends(&caida), [("1", "11537"), ("1", "3356"), ("3356", "11537")]);
    let map = read(ROCKETFUEL.as_bytes(), &ReadOptions::default()).unwrap().topology;
    // Routers 2 and 3 have two links; that to the outside is none.
    assert_eq!(ends(&map), [("1", "2"), ("2", "3"), ("2", "3")]);
    assert_eq!(map.node_weight(NodeId(0)).name(), "r1.sf (San Francisco, CA)");
    let snap = read(SNAP.as_bytes(), &ReadOptions::default()).unwrap().topology;
    assert_eq!(
        (snap.orientation(), ends(&snap)),
        (Orientation::Directed, vec![("0", "1"), ("1", "2"), ("2", "0")])
    );
    let weights = ReadOptions { metric: Some("weight".into()), ..ReadOptions::default() };
    let weights = read(WEIGHTS.as_bytes(), &weights).unwrap().topology;
    assert_eq!(ends(&weights)[0], ("Sydney,+Australia1", "Perth,+Australia7"));
    assert_eq!(weights.link_weight(LinkId(1)).metric, Some(2.5));
    let braces =
        read(b"a b {'capacity': 3}\nb c {'capacity': 4.5}\n", &with_capacity("capacity")).unwrap().topology;
    assert_eq!(braces.link_weight(LinkId(1)).capacity, 4.5);
    for (name, separated) in
        [("src;dst;mbit", "a;b;10G"), ("node_a|node_b|mbit", "a|b|10 Gbps"), ("FROM\tTO\tmbit", "a\tb\t1e10")]
    {
        let table = format!("{name}\n{separated}\n");
        let table = read(table.as_bytes(), &with_capacity("mbit")).unwrap().topology;
        assert_eq!(table.link_weight(LinkId(0)).capacity, 1e10, "{name}");
    }
}

#[test]
fn demands_may_be_a_list_without_a_header() {
    let topology = load("from,to\na,b\nb,c\n");
    let traffic = read_traffic(b"# demands\na c 10G\nb a 5e9\n", &topology).unwrap();
    assert_eq!(traffic.total(), 1.5e10);
    let error = read_traffic(b"a c 1\nb a 1e308\n", &topology).unwrap_err().to_string();
    assert_eq!(
        error,
        "line 2, demand 1 (b to a), \"1e308\": expected a number from 0 to 1e100, perhaps with a unit as 10G or 1Gbps"
    );
    let error = read_traffic(b"a c 10G\nb a\n", &topology).unwrap_err().to_string();
    assert_eq!(error, "line 2, link 1: expected as many columns as the first link has");
}

#[test]
fn a_damaged_line_is_an_error_with_its_line_and_what_would_be_right() {
    let damaged = |text: &str, good: &str, bad: &str| {
        assert!(text.contains(good), "{good}");
        error(&text.replacen(good, bad, 1))
    };
    assert_eq!(
        damaged(REPETITA, "e2 1 2 5 1000000 350", "e2 1 2 5 1000000"),
        "line 11, EDGES 2: expected a label, source, target, weight, bandwidth and delay"
    );
    assert_eq!(
        damaged(REPETITA, "e2 1 2", "e2 1 9"),
        "line 11, link 2 (1 to 9): \"9\" is no node of the file"
    );
    assert_eq!(
        damaged(REPETITA, "EDGES 8", "EDGES 9"),
        "line 16, end of file: expected the rest of a section with as many lines as it says"
    );
    assert_eq!(
        damaged(CAIDA, "1|3356|0", "1|3356|peer"),
        "line 4, link 1: expected two AS numbers and a relationship, as 1|2|-1"
    );
    assert_eq!(
        damaged(ROCKETFUEL, "(3) &1", "(4) &1"),
        "line 3, router 2: expected as many neighbours as the parentheses say"
    );
    assert_eq!(
        damaged(ROCKETFUEL, " =r3.chi r1", ""),
        "line 4, router 2: expected a router as 1 @City,+ST bb (2) -> <2> <3> =name r0"
    );
    assert_eq!(
        damaged(ROCKETFUEL, "<1> <3> <3>", "<1> <3> <9>"),
        "line 3, router 2: \"9\" is no node of the file"
    );
    assert_eq!(damaged(SNAP, "2\t0", "2"), "line 5, link 2: expected as many columns as the first link has");
    assert_eq!(
        damaged(WEIGHTS, "Sydney,+Australia1 9.5\n", "Sydney,+Australia1 fast\n"),
        "line 3, link 2 (Perth,+Australia7 to Sydney,+Australia1), \"fast\": expected a finite number, perhaps \
         with a unit as 10G or 1Gbps"
    );
    // Its first line has a number, so that it is a list all the same.
    assert_eq!(
        error("a b nan\nb c 2\n"),
        "line 1, link 0 (a to b), \"nan\": expected a finite number, perhaps with a unit as 10G or 1Gbps"
    );
}

#[test]
fn lists_that_end_within_a_line_are_errors() {
    // A map ends with a line whose neighbours all have one; what is outside may be missing.
    let end = ROCKETFUEL.find("\n-7").unwrap() - 1;
    for cut in 1..end {
        let options = ReadOptions { format: Some(Format::Rocketfuel), ..ReadOptions::default() };
        let error = read(&ROCKETFUEL.as_bytes()[..cut], &options).unwrap_err();
        assert!(matches!(error, ReadError::At { .. }), "cut at {cut}: {error}");
    }
    for (text, format) in [(CAIDA, Format::Caida), (SNAP, Format::EdgeList), (WEIGHTS, Format::EdgeList)] {
        let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
        let (lines, last) = (text.lines().count(), text.trim_end().rfind('\n').unwrap());
        let first_column = text[last + 1..].find(['|', '\t', ' ']).unwrap();
        for cut in last + 2..=last + 1 + first_column {
            let error = read(&text.as_bytes()[..cut], &options).unwrap_err().to_string();
            assert!(error.starts_with(&format!("line {lines}, link")), "{format} cut at {cut}: {error}");
        }
        let error = read(b"# nothing but a comment\n", &options).unwrap_err().to_string();
        assert_eq!(error, "line 1, end of file: expected a link", "{format}");
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z0-9]{1,6}", "[ -~äß→]{1,8}".prop_map(|text| format!("n{}", text.trim()))]
}

fn node() -> impl Strategy<Value = Node> {
    let position = prop::option::of((-180.0..180.0, -90.0..90.0).prop_map(|(x, y)| Position { x, y }));
    (name(), position).prop_map(|(label, position)| Node { label: Some(label), position, ..Node::new("") })
}

fn topology() -> impl Strategy<Value = Topology> {
    let orientation = prop_oneof![Just(Orientation::Directed), Just(Orientation::Undirected)];
    (orientation, prop::collection::vec(node(), 1..6)).prop_flat_map(|(orientation, nodes)| {
        let count = nodes.len() as u32;
        let delay_and_loss = (prop::option::of(0..10_000u64), prop::option::of(0.0..=1.0f64));
        let attributes = (0.001..1e9f64, delay_and_loss, 0.001..1e3f64);
        prop::collection::vec((0..count, 0..count, attributes), 0..12).prop_map(move |links| {
            let mut topology = Topology::new(orientation);
            for (index, node) in nodes.iter().enumerate() {
                topology.add_node(Node { id: index.to_string(), ..node.clone() }).unwrap();
            }
            for (from, to, (capacity, (delay, loss), metric)) in links {
                let (delay, metric) = (delay.map(Duration::from_millis), Some(metric));
                let link = Link { id: None, capacity, delay, loss, metric };
                topology.add_link(NodeId(from), NodeId(to), link).unwrap();
            }
            topology
        })
    })
}

/// What every format keeps: ids, ends, capacities.
fn skeleton(topology: &Topology) -> (Vec<String>, Vec<(NodeId, NodeId, f64)>) {
    let nodes = topology.nodes().map(|(_, node)| node.id.clone()).collect();
    (nodes, topology.links().map(|(_, from, to, link)| (from, to, link.capacity)).collect())
}

proptest! {
    #[test]
    fn what_is_written_reads_back(topology in topology()) {
        for format in [Format::Gml, Format::GraphMl, Format::NodeLink, Format::Dot] {
            let text = write(&topology, format);
            prop_assert_eq!(Format::detect(&text), Some(format), "{}", text);
            let options = ReadOptions { metric: Some("metric".into()), ..with_capacity("capacity") };
            let back = read(text.as_bytes(), &options).unwrap().topology;
            prop_assert_eq!(skeleton(&back), skeleton(&topology));
            prop_assert_eq!(back.orientation(), topology.orientation());
            for ((_, node), (_, was)) in back.nodes().zip(topology.nodes()) {
                prop_assert_eq!((node.name(), node.position), (was.name(), was.position), "{}", text);
            }
            for ((.., link), (.., was)) in back.links().zip(topology.links()) {
                prop_assert_eq!((link.delay, link.loss, link.metric), (was.delay, was.loss, was.metric));
            }
        }
        for format in [Format::SndlibXml, Format::SndlibNative] {
            let text = write(&topology, format);
            let back = read(text.as_bytes(), &with_capacity("pre_installed_capacity")).unwrap().topology;
            prop_assert_eq!(skeleton(&back), skeleton(&topology));
        }
    }

    #[test]
    fn a_table_keeps_its_links(topology in topology()) {
        let text = write(&topology, Format::Csv);
        let back = read(text.as_bytes(), &with_capacity("capacity")).unwrap().topology;
        let links = |topology: &Topology| -> Vec<(String, String, f64)> {
            let id = |node| topology.node_weight(node).id.clone();
            topology.links().map(|(_, from, to, link)| (id(from), id(to), link.capacity)).collect()
        };
        prop_assert_eq!(links(&back), links(&topology));
    }

    #[test]
    fn formats_of_lines_keep_their_links(topology in topology()) {
        let pairs = |topology: &Topology| -> Vec<(NodeId, NodeId)> {
            topology.links().map(|(_, from, to, _)| (from, to)).collect()
        };
        let back = |format, options: &ReadOptions| {
            let options = ReadOptions { format: Some(format), ..options.clone() };
            read(write(&topology, format).as_bytes(), &options)
        };
        let repetita = ReadOptions { metric: Some("weight".into()), ..with_capacity("bw") };
        let repetita = back(Format::Repetita, &repetita).unwrap().topology;
        let both = topology.orientation() == Orientation::Undirected;
        let copies = if both { 2 } else { 1 };
        prop_assert_eq!(repetita.link_count(), topology.link_count() * copies);
        for ((.., link), (.., was)) in repetita.links().step_by(copies).zip(topology.links()) {
            prop_assert_eq!((link.capacity, link.metric), (was.capacity, was.metric));
            prop_assert_eq!(link.delay, Some(was.delay.unwrap_or_default()));
        }
        if topology.link_count() > 0 {
            let list = back(Format::EdgeList, &with_capacity("weight")).unwrap().topology;
            let caida = back(Format::Caida, &ReadOptions::default()).unwrap().topology;
            prop_assert_eq!(ends(&list), ends(&topology));
            prop_assert_eq!(ends(&caida), ends(&topology));
        }
        let map = back(Format::Rocketfuel, &ReadOptions::default()).unwrap().topology;
        let sorted = |mut pairs: Vec<(NodeId, NodeId)>| {
            pairs.retain(|(from, to)| from != to);
            pairs.iter_mut().for_each(|pair| *pair = (pair.0.min(pair.1), pair.0.max(pair.1)));
            pairs.sort_unstable();
            pairs
        };
        prop_assert_eq!(sorted(pairs(&map)), sorted(pairs(&topology)));
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for format in Format::ALL.map(Some).into_iter().chain([None]) {
            let _ = read(&bytes, &ReadOptions { format, ..ReadOptions::default() });
        }
    }

    #[test]
    fn a_damaged_file_never_panics(at in 0usize..4000, byte in any::<u8>(), which in 0..Format::ALL.len()) {
        let format = Format::ALL[which];
        let mut bytes = write(&load(ABILENE_GML), format).into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = read(&bytes, &ReadOptions { format: Some(format), ..ReadOptions::default() });
    }
}

/// In a table, in a list of JSON, and as the path length of SNDlib.
#[test]
fn demands_may_bound_their_paths() {
    let topology = read(b"from,to\na,b\nb,c\n", &ReadOptions::default()).unwrap().topology;
    let bounds = |text: &str| {
        let traffic =
            read_traffic(text.as_bytes(), &topology).unwrap_or_else(|error| panic!("{text}: {error}"));
        let each = traffic.demands().iter().map(|demand| demand.bounds);
        each.map(|PathBounds { hops, delay, stretch }| (hops.map(NonZeroU32::get), delay, stretch))
            .collect::<Vec<_>>()
    };
    let none = (None, None, None);
    let milliseconds = |count| Some(Duration::from_millis(count));
    let table = "from,to,demand,max_hops,max delay,max_stretch\na,c,1,2,30,\na,b,1,,5s,1.5\nb,a,1,,,\n";
    assert_eq!(
        bounds(table),
        [(Some(2), milliseconds(30), None), (None, milliseconds(5000), Some(1.5)), none]
    );
    let list = r#"{"nodes": [], "demands": [
        {"source": "a", "target": "c", "demand": 1, "max_hops": 3, "max_stretch": 2.0},
        {"source": "a", "target": "b", "demand": 1, "max_delay": "2ms", "max_hops": null}
    ], "links": []}"#;
    assert_eq!(bounds(list), [(Some(3), None, Some(2.0)), (None, milliseconds(2), None)]);
    let native = "?SNDlib native format; type: network; version: 1.0\nDEMANDS (\n\
        D1 ( a c ) 1 5.0 UNLIMITED\nD2 ( a b ) 1 5.0 4\n)\n";
    assert_eq!(bounds(native), [none, (Some(4), None, None)]);
    let xml = |length: &str| {
        format!(
            "<network xmlns=\"http://sndlib.zib.de/network\"><demands><demand><source>a</source>\
             <target>c</target><demandValue>1</demandValue>{length}</demand></demands></network>"
        )
    };
    assert_eq!(bounds(&xml("<maxPathLength>7</maxPathLength>")), [(Some(7), None, None)]);
    assert_eq!(bounds(&xml("")), [none]);
    for (row, expected) in [
        ("a,c,1,0,,", "max_hops \"0\": expected a whole number of at least 1"),
        (
            "a,c,1,,soon,",
            "max_delay \"soon\": expected a delay in milliseconds, or with a unit as 5us, 3ms or 0.1s",
        ),
        ("a,c,1,,,0.5", "max_stretch \"0.5\": expected a number of at least 1"),
    ] {
        let text = format!("from,to,demand,max_hops,max_delay,max_stretch\n{row}\n");
        let error = read_traffic(text.as_bytes(), &topology).unwrap_err().to_string();
        assert_eq!(error, format!("line 2, demand 0 (a to c), {expected}"));
    }
}
