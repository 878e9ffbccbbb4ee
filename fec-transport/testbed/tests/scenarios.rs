//! Twelve short scenarios against a snapshot in the repository: a run is a function of its file, so the comparison is
//! exact. `UPDATE_SNAPSHOT=1 cargo test -p fec-testbed --test scenarios` writes the snapshot anew; look at the
//! difference before you commit it.

use std::path::Path;

use fec_testbed::{Outcome, Scenario};

const FILES: [&str; 4] = ["steady.toml", "steps.toml", "death.toml", "messages.toml"];
const METRICS: [&str; 6] = ["goodput_mbit", "limit_mbit", "overhead", "stall_ms", "queue_ms", "p99_ms"];

fn directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots"))
}

fn scenarios() -> Vec<Scenario> {
    let parse = |file: &&str| {
        let text = std::fs::read_to_string(directory().join(file)).expect("a file of the repository");
        Scenario::parse_all(&text, &|_| Err("no other files".to_owned())).expect("a right scenario")
    };
    FILES.iter().flat_map(parse).collect()
}

fn line(outcome: &Outcome) -> String {
    let cell = |metric: &&str| match outcome.metric(metric) {
        Some(value) => format!(" {value:>12.4}"),
        None => format!(" {:>12}", "-"),
    };
    format!(
        "{:<32}{}  {}\n",
        outcome.name,
        METRICS.iter().map(cell).collect::<String>(),
        &outcome.trace_hash[..16]
    )
}

#[test]
fn twelve_scenarios_show_what_the_snapshot_has() {
    let headings: String = METRICS.iter().map(|metric| format!(" {metric:>12}")).collect();
    let mut table = format!("{:<32}{headings}  trace\n", "scenario");
    for scenario in scenarios() {
        let outcome = scenario.run();
        assert!(outcome.passes(), "{}: {:?}", outcome.name, outcome.checks);
        table += &line(&outcome);
    }
    let path = directory().join("snapshot.txt");
    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        std::fs::write(&path, &table).expect("the repository can be written");
    }
    let snapshot = std::fs::read_to_string(&path).expect("the snapshot; UPDATE_SNAPSHOT=1 writes it");
    assert_eq!(table, snapshot, "UPDATE_SNAPSHOT=1 writes the snapshot anew");
}

#[test]
fn every_scenario_of_the_repository_can_be_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut count = 0;
    for folder in [root.clone(), root.join("long")] {
        for entry in std::fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let text = std::fs::read_to_string(&path).expect("a file of the repository");
                let load = |name: &str| {
                    std::fs::read_to_string(folder.join(name)).map_err(|error| error.to_string())
                };
                count += Scenario::parse_all(&text, &load)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
                    .len();
            }
        }
    }
    assert!(count > 100, "{count} scenarios");
}

/// Two links between the same two members, an event, and what comes of it: when which link dies, by the report.
fn deaths(event: &str) -> Result<Vec<(String, f64)>, String> {
    let link = |name| {
        format!("[[topology.link]]\na = \"client\"\nb = \"server\"\nname = \"{name}\"\nrate_mbit = 2\n")
    };
    let text = format!(
        "name = \"uplinks\"\nwarm_up_s = 0\nduration_s = 2\n[topology]\nclients = [\"client\"]\n\
         servers = [\"server\"]\n{}{}[[flow]]\n[[event]]\nfail = true\n{event}",
        link("dsl"),
        link("lte")
    );
    let scenarios = Scenario::parse_all(&text, &|_| Err("no other files".to_owned()));
    let outcome = scenarios.map_err(|error| error.to_string())?[0].run();
    Ok(outcome.deaths.into_iter().map(|death| (death.link, death.at_s)).collect())
}

#[test]
fn one_of_several_links_dies_or_all_of_them_once_or_again_and_again() {
    let [dsl, lte] = ["client – server (dsl)", "client – server (lte)"].map(str::to_owned);
    let one = deaths("at_s = 0.5\nfor_s = 0.25\nagain_s = 0.5\nlinks = [[\"client\", \"server\", \"lte\"]]");
    assert_eq!(one, Ok(vec![(lte.clone(), 0.5), (lte.clone(), 1.0), (lte.clone(), 1.5)]));
    let both = deaths("at_s = 1\nlinks = [[\"server\", \"client\"]]");
    assert_eq!(both, Ok(vec![(dsl.clone(), 1.0), (lte.clone(), 1.0)]));
    assert_eq!(deaths("at_s = 1\nlinks = \"planned\"\nevery_s = 0.5"), Ok(vec![(dsl, 1.0), (lte, 1.5)]));
}

#[test]
fn a_link_that_is_not_there_is_named() {
    let wrong = |event| deaths(event).expect_err("it is wrong");
    let unknown = wrong("at_s = 1\nlinks = [[\"client\", \"server\", \"isdn\"]]");
    assert_eq!(unknown, "event 1: there is no link client – server named \"isdn\"");
    let short = wrong("at_s = 1\nlinks = [[\"client\"]]");
    assert_eq!(short, "event 1: a link is [\"client\"]: expected two members, and perhaps a name");
    let endless = wrong("at_s = 1\nagain_s = 1\nlinks = \"all\"");
    assert_eq!(endless, "event 1: again_s is 1: expected for_s, and no less than that");
}
