//! The program as its users see it.

use std::process::{Command, Output};

use serde_json::Value;

const ABILENE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/zoo/Abilene.gml");

fn capillary(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_capillary")).args(arguments).output().unwrap()
}

/// What a successful run prints.
fn printed(arguments: &[&str]) -> String {
    let output = capillary(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

/// A file of this test run's own.
fn file(name: &str, content: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn a_plan_has_the_documented_fields() {
    let plan = json(&["plan", ABILENE, "--from", "Seattle", "--to", "New York", "--json"]);
    assert_eq!(plan["network"], serde_json::json!({ "nodes": 11, "links": 14, "directed": false }));
    assert_eq!((&plan["from"], &plan["to"]), (&Value::from("3"), &Value::from("0")));
    assert_eq!(plan["layers"][0]["load"], 0.5);
    assert_eq!(plan["layers"][0]["links"].as_array().unwrap().len(), 11);
    let link = &plan["links"][0];
    let expected = serde_json::json!({
        "index": 0, "from": "0", "to": "1", "from_name": "New York", "to_name": "Chicago",
        "flow": -0.5, "load": 0.5, "layer": 1, "critical": false
    });
    assert_eq!((&plan["from_name"], &plan["to_name"]), (&Value::from("Seattle"), &Value::from("New York")));
    let names = plan["paths"][0]["names"].as_array().unwrap();
    assert_eq!((&names[0], names.last()), (&Value::from("Seattle"), Some(&Value::from("New York"))));
    assert_eq!(*link, expected);
    assert_eq!(plan["links"][7]["layer"], Value::Null);
    assert_eq!(plan["paths"][0]["weight"], 0.5);
    assert_eq!(plan["solver"]["name"], "max-flow");
    assert_eq!(plan["critical_links"], serde_json::json!([]));
}

#[test]
fn all_solvers_plan_the_same() {
    let pair = ["plan", ABILENE, "--from", "4", "--to", "7", "--json"];
    let plan = json(&pair);
    let exact = json(&[&pair[..], &["--exact"]].concat());
    let lp = json(&[&pair[..], &["--solver", "lp"]].concat());
    assert_eq!(exact["layers"][2]["load"], "1/8");
    assert_eq!(lp["solver"]["suspects"].as_array().unwrap().len(), 3);
    for plan in [&plan, &exact, &lp] {
        assert_eq!(plan["solver"]["proved"], true);
    }
    for index in 0..14 {
        let fraction = exact["links"][index]["flow"].as_str().unwrap();
        let (over, under) = fraction.split_once('/').unwrap_or((fraction, "1"));
        let expected = over.parse::<f64>().unwrap() / under.parse::<f64>().unwrap();
        for plan in [&plan, &lp] {
            assert!((plan["links"][index]["flow"].as_f64().unwrap() - expected).abs() < 1e-9);
        }
    }
}

#[test]
fn a_plan_may_stop_at_a_layer_and_count_in_sixteenths() {
    let plan = json(&["plan", ABILENE, "--from", "4", "--to", "7", "--layers", "1", "--json"]);
    assert_eq!(plan["layers"].as_array().unwrap().len(), 1);
    let exact = ["plan", ABILENE, "--from", "4", "--to", "7", "--layers", "1", "--exact", "--json"];
    let exact = json(&exact);
    assert_eq!(exact["layers"], serde_json::json!([{ "number": 1, "load": "1/2", "links": [6, 8, 9] }]));
    for (link, exact) in plan["links"].as_array().unwrap().iter().zip(exact["links"].as_array().unwrap()) {
        assert_eq!(link["layer"], exact["layer"]);
    }
    let refused = capillary(&["plan", ABILENE, "--from", "4", "--to", "7", "--layers", "0"]);
    let line = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(line.contains("\"0\" is no number of at least 1; expected 1, 2, 3, …"), "{line}");
    let plan = json(&["plan", ABILENE, "--from", "4", "--to", "7", "--quantize", "16", "--json"]);
    assert_eq!(plan["quantized"], serde_json::json!({ "parts": 16, "load_error": 0.0 }));
}

#[test]
fn compact_json_is_one_line_of_the_same() {
    let plan = ["plan", ABILENE, "--gravity", "10", "--json"];
    let compact = printed(&[&plan[..], &["--compact"]].concat());
    assert_eq!(compact.lines().count(), 1);
    let (mut short, mut long): (Value, Value) = (serde_json::from_str(&compact).unwrap(), json(&plan));
    for plan in [&mut short, &mut long] {
        plan["solver"]["seconds"] = Value::Null;
    }
    assert_eq!(short, long);
}

#[test]
fn the_table_reads_like_a_report() {
    let table = printed(&["plan", ABILENE, "--from", "Seattle", "--to", "New York"]);
    assert!(table.starts_with(
        "Abilene: Seattle → New York\nlargest load 0.5000, 1 layer, 11 of 14 links used, 0 critical\n"
    ));
    assert!(
        table.contains("0.5000  Seattle → Denver → Kansas City → Indianapolis → Chicago → New York\n"),
        "{table}"
    );
}

#[test]
fn what_cannot_be_is_one_line_with_the_exit_code_of_its_kind() {
    let empty = file("empty.gml", "");
    let other = file("picture.png", "\u{89}PNG");
    let apart = file("apart.csv", "from,to,mbit\na,b,0\nc,d,1\n");
    let pair = |from, to| ["plan", ABILENE, "--from", from, "--to", to].map(String::from).to_vec();
    let file_with = |file: &str, more: &[&str]| {
        [&["plan", file, "--from", "a", "--to", "c"], more]
            .concat()
            .iter()
            .map(|text| (*text).to_string())
            .collect::<Vec<_>>()
    };
    for (arguments, code, words) in [
        (pair("Seatle", "New York"), 2, "there is no node \"Seatle\"; did you mean \"Seattle\"?"),
        (pair("Seattle", "Seattle"), 2, "source and target are both \"Seattle\"; they must be two nodes"),
        (file_with(&apart, &[]), 3, "\"c\" cannot be reached from \"a\""),
        (
            file_with(&apart, &["--capacity", "mbit"]),
            3,
            "line 2, link 0 (a to b): its mbit is 0; expected a number above 0",
        ),
        (file_with(&empty, &[]), 3, "the file is empty"),
        (file_with(&other, &[]), 3, "the file looks like none of"),
        (file_with("/nonexistent", &[]), 3, "No such file"),
    ] {
        let output = capillary(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains(words) && message.lines().count() == 1, "{message}");
    }
    assert_eq!(capillary(&["plan", ABILENE]).status.code(), Some(2));
}

#[test]
fn batches_do_not_depend_on_the_number_of_threads() {
    let all = |threads| printed(&["plan", ABILENE, "--pairs", "all", "--json", "--threads", threads]);
    let rows = all("1");
    assert_eq!(rows, all("3"));
    // So many were started, and took 11 s to find nothing to do.
    assert_eq!(rows, all("4000000000"));
    assert_eq!(rows.lines().count(), 110);
    let pairs = file("pairs.csv", "# from, to\nSeattle, New York\n0,1\n");
    let rows = printed(&["plan", ABILENE, "--pairs", &pairs, "--format", "csv"]);
    assert_eq!(rows.lines().nth(1), Some("3,0,1,0.5,11,0,,Seattle,New York"));
    let pairs = file("bad-pairs.csv", "Seattle, Boston\n");
    assert_eq!(capillary(&["plan", ABILENE, "--pairs", &pairs]).status.code(), Some(3));
}

/// Rows of no paths at all, which carried something all the same.
#[test]
fn no_paths_and_too_many_layers_are_refused() {
    let pair = ["--from", "4", "--to", "7"];
    let refused = |arguments: &[&str]| {
        let output = capillary(&[arguments, &pair].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let none = "\"0\" is no number of at least 1; expected 1, 2, 3, …";
    assert!(refused(&["compare", ABILENE, "-k=0"]).contains(none));
    assert!(refused(&["plan", ABILENE, "--max-paths", "0"]).contains(none));
    let told = refused(&["plan", ABILENE, "--layers", "99999999999999999999"]);
    assert!(told.contains("is too large; expected a number from 1 to 4294967295"), "{told}");
}

/// The stack overflowed.
#[test]
fn elements_nested_without_end_are_refused_with_their_line() {
    let nested =
        |name: &str, depth: usize| format!("<{name}>").repeat(depth) + &format!("</{name}>").repeat(depth);
    let deep = file("deep.graphml", &format!("<graphml>\n{}</graphml>\n", nested("graph", 20_000)));
    let demands =
        file("deep.xml", &format!("<?xml version=\"1.0\"?>\n<network>\n{}</network>\n", nested("a", 60_000)));
    for (arguments, told) in [
        (
            &["inspect", &deep][..],
            "deep.graphml: line 2, graph: expected at most 256 elements in one another",
        ),
        (
            &["plan", ABILENE, "--demands", &demands],
            "deep.xml: line 3, a: expected at most 256 elements in one another",
        ),
    ] {
        let output = capillary(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.trim_end().ends_with(told), "{said}");
    }
}

#[test]
fn inspect_counts_what_is_there() {
    let facts = json(&["inspect", ABILENE, "--json", "--from", "4", "--to", "7"]);
    assert_eq!((&facts["nodes"], &facts["links"], &facts["self_loops"]), (&11.into(), &14.into(), &0.into()));
    assert_eq!((&facts["components"], &facts["minimum_cut"]), (&1.into(), &2.0.into()));
    assert_eq!(facts["links_of_the_cut"].as_array().map(Vec::len), Some(2));
    let loops = file("loops.csv", "from,to\na,b\na,b\nb,b\nb,c\n");
    let facts = json(&["inspect", &loops, "--json"]);
    assert_eq!(
        (&facts["links"], &facts["self_loops"], &facts["parallel_links"]),
        (&4.into(), &1.into(), &1.into())
    );
    assert_eq!(facts["bridges"], serde_json::json!(["3 (b – c)"]));
}

#[test]
fn a_comparison_shows_that_capillary_routing_loads_least() {
    let comparison = json(&["compare", ABILENE, "--from", "4", "--to", "7", "--json"]);
    let rows = comparison["routings"].as_array().unwrap();
    let load = |name: &str| {
        rows.iter().find(|row| row["routing"] == name).unwrap()["largest_load"].as_f64().unwrap()
    };
    assert_eq!((load("shortest path"), load("capillary")), (1.0, 0.5));
    assert_eq!(rows.len(), 9);
    assert!(load("capillary") <= load("random multipath") && load("random multipath") < 1.0);
}

#[test]
fn a_failure_takes_its_flow_and_the_rest_is_planned_anew() {
    let pair = ["what-if", ABILENE, "--from", "Seattle", "--to", "New York", "--json"];
    let one = json(&[&pair[..], &["--fail", "Seattle--Denver"]].concat());
    assert_eq!(one["failures"][0]["lost"], 0.5);
    assert_eq!(one["failures"][0]["largest_load"], 1.0);
    let each = json(&[&pair[..], &["--each"]].concat());
    assert_eq!(each["failures"].as_array().unwrap().len(), 11);
    let node = json(&[&pair[..], &["--fail-node", "Denver"]].concat());
    assert_eq!(node["failures"][0]["lost"], 0.5);
    let groups = file("groups.txt", "duct: 4, Seattle--Denver\n");
    let both = json(&[&pair[..], &["--groups", &groups, "--fail-group", "duct"]].concat());
    assert_eq!(
        (&both["failures"][0]["lost"], &both["failures"][0]["largest_load"]),
        (&1.0.into(), &Value::Null)
    );
}

#[test]
fn a_converted_file_plans_the_same() {
    for format in ["gml", "graphml", "json", "dot", "sndlib-xml", "sndlib-native", "csv"] {
        let converted =
            file(&format!("abilene.{format}"), &printed(&["convert", ABILENE, "--format", format]));
        // Not every format has a place for labels.
        let plan = |file: &str| {
            let mut plan = json(&["plan", file, "--from", "id:4", "--to", "id:7", "--json"]);
            for link in plan["links"].as_array_mut().unwrap() {
                link.as_object_mut().unwrap().retain(|key, _| !key.ends_with("_name"));
            }
            plan
        };
        let (plan, again) = (plan(ABILENE), plan(&converted));
        assert_eq!((&plan["links"], &plan["layers"]), (&again["links"], &again["layers"]), "{format}");
    }
}

#[test]
fn a_complaint_that_cannot_be_written_does_not_change_the_exit_code() {
    let run = |arguments: &[&str]| {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        Command::new(env!("CARGO_BIN_EXE_capillary")).args(arguments).stderr(full).output().unwrap()
    };
    assert_eq!(run(&["inspect", "no-such-file"]).status.code(), Some(3));
    // A link that leads back to its own node is warned of.
    let odd = file("odd.csv", "from,to\na,b\na,a\n");
    let warned = capillary(&["inspect", &odd]);
    assert!(warned.status.success() && !warned.stderr.is_empty(), "{warned:?}");
    assert_eq!(run(&["inspect", &odd]).status.code(), Some(0));
}

#[test]
fn a_files_name_says_what_is_written_into_it() {
    let dot = file("named.dot", "");
    assert!(capillary(&["convert", ABILENE, "-o", &dot]).status.success());
    assert!(std::fs::read_to_string(&dot).unwrap().starts_with("graph"));
    let refused =
        [["convert", "named.foo", "no format is called .foo"], ["draw", "named.jpg", "ends in .svg or .png"]];
    for [command, name, words] in refused {
        let refused = capillary(&[command, ABILENE, "-o", name]);
        let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && complaint.contains(words), "{complaint}");
    }
}

#[test]
fn one_file_may_be_standard_input() {
    let fed = |arguments: &[&str], input: &std::path::Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capillary"));
        command.args(arguments).stdin(std::fs::File::open(input).unwrap()).output().unwrap()
    };
    let inspected = fed(&["inspect", "-"], ABILENE.as_ref());
    assert_eq!(String::from_utf8_lossy(&inspected.stdout), printed(&["inspect", ABILENE]));
    let pairs = file("fed-pairs.csv", "Seattle,New York\n");
    let planned = fed(&["plan", ABILENE, "--pairs", "-", "--json"], pairs.as_ref());
    let row: Value = serde_json::from_slice(&planned.stdout).unwrap();
    assert_eq!((&row["from"], &row["from_name"]), (&Value::from("3"), &Value::from("Seattle")));
    assert_eq!((&row["to"], &row["to_name"]), (&Value::from("0"), &Value::from("New York")));
    let both = fed(&["plan", "-", "--pairs", "-"], ABILENE.as_ref());
    let complaint = String::from_utf8_lossy(&both.stderr);
    assert!(both.status.code() == Some(2) && complaint.contains("one file at most"), "{complaint}");
}

#[test]
fn a_map_of_a_network_without_a_name_is_called_after_its_file() {
    let nameless = file("backbone.csv", "from,to\na,b\nb,c\n");
    let map = printed(&["draw", &nameless, "--gravity", "2"]);
    assert!(map.contains(">backbone<") && !map.contains(">Network<"), "{map}");
    assert!(printed(&["draw", ABILENE, "--gravity", "2"]).contains(">Abilene<"));
}

#[test]
fn a_drawing_shows_every_link_and_the_legend() {
    let svg = printed(&["draw", ABILENE, "--from", "4", "--to", "7"]);
    assert_eq!(svg.matches("<title>link").count(), 14);
    assert!(
        svg.contains("layer 3: load 0.1250") && svg.contains(">Seattle</text>") && svg.ends_with("</svg>\n")
    );
    let used = json(&["plan", ABILENE, "--from", "4", "--to", "7", "--json"])["links"]
        .as_array()
        .map(|links| links.iter().filter(|link| link["flow"].as_f64() != Some(0.0)).count());
    assert_eq!(Some(svg.matches("Z\" fill=").count()), used, "each used link has a head");
    // A chain: each link carries everything, and nodes at one place are apart.
    let chain = file("chain.gml", &chain_at_one_place());
    let svg = printed(&["draw", &chain, "--from", "a", "--to", "c"]);
    assert!(svg.contains("critical: carries everything (2)") && !svg.contains("NaN"), "{svg}");
}

fn chain_at_one_place() -> String {
    let node = |(id, name): (usize, &str)| {
        format!("node [ id {id} label \"{name}\" Longitude 8.0 Latitude 47.0 ]\n")
    };
    let nodes: String = ["a", "b", "c"].into_iter().enumerate().map(node).collect();
    format!("graph [\n{nodes}edge [ source 0 target 1 ]\nedge [ source 1 target 2 ]\n]\n")
}

#[test]
fn a_traffic_matrix_is_planned_with_its_proof() {
    let demands =
        file("matrix.csv", "from,to,demand\nSeattle,New York,4\nSeattle,Chicago,2k\nHouston,Seattle,1\n");
    let plan = json(&["plan", ABILENE, "--demands", &demands, "--json"]);
    assert_eq!(plan["demands"], 3);
    assert_eq!(plan["solver"]["proved"], true);
    let levels = plan["levels"].as_array().unwrap();
    let first = levels[0]["utilisation"].as_f64().unwrap();
    assert!((first - 1002.0).abs() < 1e-6, "Seattle has two links for 2004 of traffic: {first}");
    assert_eq!(plan["certificate"][0]["level"], 1);
    let unknown = file("unknown.csv", "from,to,demand\nSeattle,Newyork,4\n");
    let output = capillary(&["plan", ABILENE, "--demands", &unknown]);
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("line 2, demand 0: there is no node \"Newyork\""), "{text}");
}

/// Two ways from a to d, the shorter one of which is narrow, with places, delays and metrics.
fn diamond(name: &str) -> String {
    let node = |(id, x, y): (&str, f64, f64)| {
        format!("node [ id {id} label \"{id}\" Longitude {x} Latitude {y} ]\n")
    };
    let link = |(from, to, capacity, delay, cost): (u32, u32, u32, u32, u32)| {
        format!("edge [ source {from} target {to} capacity {capacity} delay_ms {delay} cost {cost} ]\n")
    };
    let nodes: String =
        [("0", 0.0, 0.0), ("1", 1.0, 1.0), ("2", 1.0, -1.0), ("3", 2.0, 0.0)].map(node).concat();
    let links = [(0, 1, 10, 5, 1), (1, 3, 10, 5, 1), (0, 2, 10, 20, 1), (2, 3, 10, 20, 1), (0, 3, 5, 1, 3)]
        .map(link)
        .concat();
    file(name, &format!("graph [\n{nodes}{links}]\n"))
}

#[test]
fn bounds_and_metrics_of_a_matrix_mean_what_they_say() {
    let network = diamond("bounded.gml");
    let demands = file("diamond.csv", "from,to,demand\n0,3,10\n");
    let plan = |more: &[&str]| {
        let always = ["plan", &network, "--capacity", "capacity", "--demands", &demands, "--json"];
        json(&[&always[..], more].concat())
    };
    let largest = |plan: &Value| plan["levels"][0]["utilisation"].as_f64().unwrap();
    let routing =
        |plan: &Value, place: usize| plan["routings"][place]["largest_utilisation"].as_f64().unwrap();
    let free = plan(&["--quantize", "16"]);
    assert!((largest(&free) - 0.4).abs() < 1e-9, "{free}");
    // On fewest links all of it is on the narrow link; by cost it is on the other two ways.
    assert_eq!((routing(&free, 0), routing(&free, 1)), (2.0, 2.0));
    let by_cost = plan(&["--metric", "cost"]);
    assert_eq!((routing(&by_cost, 0), routing(&by_cost, 1)), (1.0, 0.5));
    // 6.4, 6.4 and 3.2 sixteenths.
    assert_eq!(free["quantized"]["parts"], 16);
    let counts = free["quantized"]["splits"][0]["arcs"].as_array().unwrap();
    assert_eq!(counts.iter().map(|arc| arc[1].as_u64().unwrap()).sum::<u64>(), 16);
    assert_eq!(free["routings"].as_array().unwrap().len(), 5);
    for (bound, level) in [
        (["--max-hops", "1"], 2.0),
        (["--max-delay", "10ms"], 2.0 / 3.0),
        (["--max-stretch", "2"], 0.4),
        (["--max-stretch", "1.5"], 2.0),
    ] {
        let bounded = plan(&bound);
        assert!((largest(&bounded) - level).abs() < 1e-9, "{bound:?}: {bounded}");
    }
    let slow = plan(&["--max-delay", "10ms"]);
    for path in slow["paths"].as_array().unwrap() {
        assert!(path["delay_ms"].as_f64().unwrap() <= 10.0, "{path}");
    }
    let always = ["plan", &network, "--capacity", "capacity", "--demands", &demands, "--max-hops", "3"];
    let refused = capillary(&[&always[..], &["--quantize", "16"]].concat());
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn failures_of_a_matrix_are_planned_anew_whatever_the_threads() {
    let network = diamond("failing.gml");
    let demands = file("failing.csv", "from,to,demand\n0,3,10\n1,3,1\n");
    let what_if = |more: &[&str]| {
        let always = ["what-if", &network, "--capacity", "capacity", "--demands", &demands, "--json"];
        json(&[&always[..], more].concat())
    };
    let each = what_if(&["--each", "--threads", "2"]);
    assert_eq!(each, what_if(&["--each", "--threads", "1"]));
    assert_eq!(each["failures"].as_array().unwrap().len(), 5);
    // Without the narrow link 11 are on two ways of 10.
    let narrow = &each["failures"][4];
    assert!((narrow["largest_utilisation"].as_f64().unwrap() - 0.55).abs() < 1e-9, "{narrow}");
    assert_eq!((&narrow["cut_off"], &narrow["demands_cut_off"]), (&0.0.into(), &0.into()));
    let nodes = what_if(&["--each-node"]);
    let last = &nodes["failures"][3];
    assert_eq!((&last["cut_off"], &last["largest_utilisation"]), (&1.0.into(), &Value::Null));
    // Nodes 1 and 2 are 157 km from 0, node 3 is 222 km away.
    let region = what_if(&["--fail-region", "0:160km"]);
    assert_eq!(region["failures"][0]["failed"], "region 0:160km (0, 1, 2)");
    let groups = file("duct.txt", "north: 0, 1\nsouth: 2--3\n");
    let groups = what_if(&["--groups", &groups, "--each-group"]);
    assert_eq!(
        (&groups["failures"][0]["failed"], &groups["failures"][1]["failed"]),
        (&"north".into(), &"south".into())
    );
}

#[test]
fn matrices_over_time_are_a_row_each_and_pictures_show_utilisations() {
    let network = diamond("timed.gml");
    let first = file("monday.csv", "from,to,demand\n0,3,10\n");
    let second = file("tuesday.csv", "from,to,demand\n0,3,20\n");
    let always = ["plan", &network, "--capacity", "capacity", "--demands", &first, "--demands", &second];
    let curves = file("curves.svg", "");
    let rows = printed(&[&always[..], &["--json", "--plot", &curves]].concat());
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let largest = |row: &Value| row["routings"][3]["largest_utilisation"].as_f64().unwrap();
    assert_eq!((&rows[0]["matrix"], &rows[1]["matrix"]), (&"monday".into(), &"tuesday".into()));
    assert!((largest(&rows[1]) - 2.0 * largest(&rows[0])).abs() < 1e-9);
    assert!(std::fs::read_to_string(&curves).unwrap().starts_with("<svg"));
    let map = printed(&["draw", &network, "--capacity", "capacity", "--demands", &first]);
    // A half of a line for each direction.
    assert_eq!(map.matches("<title>link").count(), 10);
    assert!(map.contains("0 to 1: utilisation 0.4000, 4.0000 of 10"), "{map}");
    let several = capillary(&["draw", &network, "--demands", &first, "--demands", &second]);
    let complaint = String::from_utf8_lossy(&several.stderr);
    assert!(several.status.code() == Some(2) && complaint.contains("draw takes one matrix"), "{complaint}");
}

#[test]
fn an_all_to_all_over_one_switch_has_a_liquid_schedule() {
    let star = file("star.csv", "from,to\nhub,a\nhub,b\nhub,c\nhub,d\n");
    let schedule = json(&["schedule", &star, "--all-to-all", "a,b,c,d", "--json"]);
    assert_eq!((&schedule["transfers"], &schedule["bound"]), (&Value::from(12), &Value::from(3)));
    assert_eq!(schedule["liquid"]["verdict"], "found");
    assert_eq!(schedule["liquid"]["frames"].as_array().unwrap().len(), 3);
    let table = printed(&["schedule", &star, "--all-to-all", "a,b,c,d"]);
    assert!(table.contains("round robin"), "{table}");
    // One node sends to nobody; a schedule of nothing was found for it.
    for nodes in ["a", "a,a"] {
        let alone = capillary(&["schedule", &star, "--all-to-all", nodes]);
        let complaint = String::from_utf8(alone.stderr).unwrap();
        let expected = format!("--all-to-all {nodes}: expected two different nodes at least");
        assert!(alone.status.code() == Some(2) && complaint.contains(&expected), "{complaint}");
    }
    let none = file("no-transfers.csv", "# from,to\n");
    let nothing = capillary(&["schedule", &star, "--transfers", &none]);
    let complaint = String::from_utf8(nothing.stderr).unwrap();
    assert!(nothing.status.code() == Some(3) && complaint.contains("there is no transfer"), "{complaint}");
}

#[test]
fn a_file_of_demands_without_any_is_named_itself() {
    let network = file("undemanding.csv", "from,to\na,b\n");
    for content in ["", "from,to,demand\n", "from,to,demand\na,b,0\na,a,1\n"] {
        let demands = file("no-demands.csv", content);
        let plan = capillary(&["plan", &network, "--demands", &demands]);
        let complaint = String::from_utf8(plan.stderr).unwrap();
        let expected = format!("capillary: {demands}: there is no demand to route; expected");
        assert!(plan.status.code() == Some(3) && complaint.starts_with(&expected), "{complaint}");
    }
}

#[test]
fn one_of_a_thing_is_told_in_the_singular() {
    let network = file("single.csv", "from,to\na,b\n");
    let demands = file("single-demand.csv", "from,to,demand\na,b,0.5\n");
    let plan = printed(&["plan", &network, "--demands", &demands]);
    assert!(plan.starts_with("single-demand: 1 demand, 0.5 in all\n1 level, proved;"), "{plan}");
    assert!(plan.contains("longest path 1 link\n"), "{plan}");
    let pair = printed(&["plan", &network, "--from", "a", "--to", "b"]);
    assert!(pair.contains("1 of 1 link used") && pair.contains("1 path carries"), "{pair}");
    let transfers = file("single-transfer.csv", "a,b\n");
    let schedule = printed(&["schedule", &network, "--transfers", &transfers]);
    assert!(schedule.starts_with("1 transfer, bound 1 frame, 1 bottleneck; liquid"), "{schedule}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure_and_a_full_disk_is_one() {
    let pair = ["--from", "Seattle", "--to", "New York"];
    let cases: [&[&str]; 12] = [
        &["plan"],
        &["plan", "--json"],
        &["plan", "--pairs", "all"],
        &["plan", "--gravity", "100"],
        &["inspect"],
        &["compare"],
        &["what-if", "--each"],
        &["schedule", "--all-to-all", "Seattle,New York,Denver"],
        &["draw"],
        &["convert"],
        &["--help"],
        &["plan", "--help"],
    ];
    for case in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capillary"));
        let is_help = case.contains(&"--help");
        command.args(case).args((!is_help).then_some(ABILENE));
        let has_pair = !is_help
            && !["inspect", "schedule", "convert"].contains(&case[0])
            && !case.contains(&"--gravity");
        command.args(if has_pair && !case.contains(&"--pairs") { &pair[..] } else { &[] });
        assert_eq!(program::reader::leaves_early(&mut command), Ok(()));
        if !is_help {
            assert_eq!(program::reader::misses_room(&mut command), Ok(()));
        }
    }
}

#[test]
fn a_result_goes_to_the_file_that_output_names() {
    let target = file("plan.csv", "");
    let plan = ["plan", ABILENE, "--from", "Seattle", "--to", "New York", "--format", "csv"];
    assert_eq!(printed(&[&plan[..], &["-o", &target]].concat()), "");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), printed(&plan));
    let missing = capillary(&[&plan[..], &["-o", "/no/such/folder/plan.csv"]].concat());
    assert_eq!(missing.status.code(), Some(3));
}

#[test]
fn demands_keep_bounds_of_their_own() {
    let links = file("bounds-links.csv", "from,to,capacity\na,b,10\na,c,10\nc,b,10\n");
    let network = [links.as_str(), "--capacity", "capacity", "--demands"];
    let free = file("bounds-free.csv", "from,to,demand\na,b,10\n");
    let bound = file("bounds-bound.csv", "from,to,demand,max_hops\na,b,6,1\na,b,4,\n");
    let largest = |demands: &str| {
        let plan = json(&[&["plan"], &network[..], &[demands, "--json"]].concat());
        plan["levels"][0]["utilisation"].as_f64().unwrap()
    };
    assert!((largest(&free) - 0.5).abs() < 1e-9 && (largest(&bound) - 0.6).abs() < 1e-9);
    // Without the short way the bound demand counts as cut off, and the other one still goes.
    let failed = json(&[&["what-if"], &network[..], &[&bound, "--fail", "0", "--json"]].concat());
    assert_eq!(failed["failures"][0]["cut_off"], 0.6);
    let after = failed["failures"][0]["largest_utilisation"].as_f64().unwrap();
    assert!((after - 0.4).abs() < 1e-9, "{after}");
    let refused = capillary(&[&["plan"], &network[..], &[&bound, "--quantize", "16"]].concat());
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("bounds those from \"a\" to \"b\""), "{error}");
}

#[test]
fn what_failures_do_is_drawn_as_curves() {
    let picture = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("failures.svg");
    let picture = picture.to_str().unwrap();
    printed(&["what-if", ABILENE, "--gravity", "10", "--each", "--plot", picture]);
    let drawn = std::fs::read_to_string(picture).unwrap();
    assert!(drawn.contains("failures, from the worst down") && drawn.contains("equal-cost multipath"));
    let refused = capillary(&["what-if", ABILENE, "--from", "0", "--to", "4", "--each", "--plot", picture]);
    assert_eq!(refused.status.code(), Some(2));
}

/// Where one link was ten thousand times as wide as the narrowest all loads were 0.0000, in CSV, too.
#[test]
fn small_loads_keep_their_digits() {
    let wide = file("wide.csv", "from,to,capacity\na,b,1\nc,d,3000000\n");
    let network = [wide.as_str(), "--capacity", "capacity", "--from", "c", "--to", "d"];
    let with = |command: &str, more: &[&str]| printed(&[&[command], &network[..], more].concat());
    let plan = with("plan", &[]);
    assert!(plan.contains("largest load 3.333e-7, 1 layer"), "{plan}");
    assert!(plan.contains("\n      1  3.333e-7  1.0000     1  c     d   critical\n"), "{plan}");
    let (csv, json) =
        (with("plan", &["--format", "csv"]), json(&[&["plan"], &network[..], &["--json"]].concat()));
    let load = csv.lines().nth(1).and_then(|row| row.split(',').nth(1)).unwrap();
    assert_eq!(Some(load.parse::<f64>().unwrap()), json["links"][1]["load"].as_f64());
    assert!(with("compare", &[]).lines().skip(2).all(|row| row.contains("3.333e-7")));
    assert!(with("what-if", &["--each", "--format", "csv"]).contains("\n1.0,-,-,"));
    assert!(with("draw", &[]).contains("load 3.333e-7"));
}

#[test]
fn what_a_format_cannot_hold_is_told() {
    let directed = file(
        "directed.gml",
        "graph [ directed 1 node [ id 1 label \"a & <b>\" Longitude 1.0 Latitude 2.0 ] node [ id 2 ] node [ id 3 ] \
         edge [ source 1 target 2 ] ]",
    );
    let told = |file: &str, format: &str| {
        let output = capillary(&["convert", file, "--format", format]);
        assert_eq!(output.status.code(), Some(0), "{format}");
        String::from_utf8(output.stderr).unwrap()
    };
    let lost = |what: &str| format!("capillary: warning: {what}\n");
    let csv = "csv cannot hold: the direction of links, labels, positions, 1 isolated node";
    assert_eq!(told(&directed, "csv"), lost(csv));
    assert_eq!(told(&directed, "edges"), lost("edges cannot hold: labels, positions, 1 isolated node"));
    for format in ["gml", "graphml", "json", "dot"] {
        assert_eq!(told(&directed, format), "", "{format}");
    }
    for format in ["caida", "rocketfuel", "sndlib-xml", "sndlib-native"] {
        let told = told(&directed, format);
        assert!(told.starts_with(&format!("capillary: warning: {format} cannot hold: ")), "{told}");
    }
    let plain = file("plain-links.csv", "from,to\na,b\n");
    assert_eq!(told(&plain, "csv") + &told(&plain, "edges"), "");
    // Nodes are numbers there; that a link is two, one each way, is no loss.
    assert_eq!(told(&plain, "repetita"), lost("repetita cannot hold: 2 names as they are"));
}

/// A name with `<` made a list of links that no longer looked like one, and one-way links became two-way.
#[test]
fn a_list_of_links_is_read_back_whatever_its_names_are() {
    let odd = file("odd.csv", "from,to\na & <b>,\"c d\"\n\"[e]=\"\"f\"\"\",\"c d\"\n");
    let output = capillary(&["convert", &odd, "--directed", "--format", "edges"]);
    let list = file("odd.edges", &String::from_utf8(output.stdout).unwrap());
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told, "capillary: warning: edges cannot hold: 3 names as they are\n");
    let facts = json(&["inspect", &list, "--json"]);
    assert_eq!((&facts["nodes"], &facts["links"]), (&Value::from(3), &Value::from(2)));
    assert_eq!((&facts["format"], &facts["directed"]), (&Value::from("edges"), &Value::from(true)));
}

/// An escape sequence in a label coloured the terminal.
#[test]
fn control_characters_of_names_do_not_reach_a_terminal() {
    let nodes = "node [ id 1 label \"a\u{1b}[31m\" ] node [ id 2 label \"b\u{7}\" ]";
    let escapes = file("esc.gml", &format!("graph [ {nodes} edge [ source 1 target 2 ] ]"));
    let pair = ["--from", "1", "--to", "2"];
    for command in [
        &["plan"][..],
        &["plan", "--gravity", "1"],
        &["compare"],
        &["what-if", "--each"],
        &["inspect"],
        &["inspect", "--from", "1", "--to", "2"],
        &["schedule", "--all-to-all", "1,2"],
    ] {
        let has_pair = command.len() == 1 && command[0] != "inspect" || command[0] == "what-if";
        let pair = if has_pair { &pair[..] } else { &[] };
        let output = printed(&[&command[..1], &[&escapes], &command[1..], pair].concat());
        let has_control = output.contains(|c: char| c.is_control() && c != '\n');
        assert!(!has_control, "{command:?}: {output:?}");
    }
    let plan = printed(&[&["plan", &escapes], &pair[..]].concat());
    assert!(plan.contains("a\\u{1b}[31m → b\\u{7}"), "{plan}");
    assert_eq!(json(&[&["plan", &escapes, "--json"], &pair[..]].concat())["from_name"], "a\u{1b}[31m");
    let failed = capillary(&["plan", &escapes, "--from", "1", "--to", "1"]);
    assert!(!failed.stderr.contains(&0x1b));
}

/// Round-off left paths of 2.8e-13 of 80, and their demands counted as split.
#[test]
fn no_demand_has_a_path_of_round_off() {
    let abilene = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/abilene.xml");
    let plan = ["plan", abilene, "--capacity", "module_capacity", "--demands", abilene];
    let answer = json(&[&plan[..], &["--json"]].concat());
    let number = |path: &Value, field: &str| path[field].as_f64().unwrap();
    for path in answer["paths"].as_array().unwrap() {
        assert!(number(path, "amount") > 1e-9 * number(path, "demand"), "{path}");
    }
    assert!(printed(&plan).contains("split between paths: 8 demands;"));
}

#[test]
fn a_format_that_is_not_written_is_refused() {
    for command in [
        &["plan", ABILENE, "--pairs", "all"][..],
        &["plan", ABILENE, "--gravity", "1"],
        &["compare", ABILENE, "--from", "0", "--to", "4"],
        &["what-if", ABILENE, "--from", "0", "--to", "4", "--each"],
    ] {
        let refused = capillary(&[command, &["--format", "dot"]].concat());
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{command:?}");
    }
    let help = |command: &str| printed(&[command, "--help"]);
    assert!(
        help("plan").contains("dot:") && !help("compare").contains("dot") && !help("what-if").contains("dot")
    );
    assert!(help("plan").contains("Several times") && !help("draw").contains("Several times"));
    assert!(help("what-if").lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn a_transfer_without_a_way_is_a_fault_of_its_line() {
    let apart = file("islands.csv", "from,to\na,b\nc,d\n");
    let transfers = file("islands-transfers.csv", "# from, to\na,b\na,c\n");
    let refused = |arguments: &[&str]| {
        let output = capillary(&[&["schedule", &apart], arguments].concat());
        assert_eq!(output.status.code(), Some(3));
        String::from_utf8(output.stderr).unwrap()
    };
    let what = "the transfer from \"a\" to \"c\": the target cannot be reached";
    assert_eq!(refused(&["--transfers", &transfers]), format!("capillary: {transfers}: line 3: {what}\n"));
    assert!(refused(&["--all-to-all", "a,c"]).starts_with(&format!("capillary: {apart}: the transfer")));
}

#[test]
fn a_number_that_cannot_be_is_told_with_its_flag() {
    for (arguments, words) in [
        (["--gravity", "1e308"], "expected a number above 0 and at most 1e100"),
        (["--gravity", "-1"], "expected a number above 0 and at most 1e100"),
        (["--cover", "101%"], "\"101%\" is no share; expected above 0 and at most 1, as 0.5 or 50%"),
        (["--max-paths", "-1"], "\"-1\" is no number of at least 1"),
    ] {
        let refused = capillary(&[&["plan", ABILENE], &arguments[..]].concat());
        let message = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2));
        assert!(message.contains(arguments[0]) && message.contains(words), "{message}");
    }
    printed(&["plan", ABILENE, "--from", "0", "--to", "4", "--cover", "50%"]);
}
