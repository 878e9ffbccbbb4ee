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
