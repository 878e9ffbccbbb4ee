//! Plans of matrices checked by `oracle/levels.py`, which shares no code with this crate: certificates by networkx's
//! shortest paths, every utilisation by a chain of linear programs (HiGHS in scipy).
//!
//! Without Python, networkx or scipy the tests say on standard error what was skipped. `PYTHON` names another
//! interpreter than `python3`, `CAPILLARY_PLANS` how many random networks are planned (12), `CAPILLARY_SHARED` the
//! folder with `topologies/` whose SNDlib networks are planned, too; what the documentation tells was made by
//!
//! ```sh
//! CAPILLARY_PLANS=200 CAPILLARY_SHARED=/path cargo test --release -p capillary --test oracle -- --nocapture
//! ```

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const ABILENE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/zoo/Abilene.gml");
const GABRIEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/topohub/gabriel-25-0.json");
const LEVELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/levels.py");

/// A number that looks random, and is the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn python() -> Command {
    Command::new(std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into()))
}

/// Says what was left out, where `cargo test` does not swallow it.
fn skip(what: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {what}");
}

/// Whether Python has a module.
fn has(module: &str) -> bool {
    let asked = python().args(["-c", &format!("import {module}")]).output();
    asked.is_ok_and(|output| output.status.success())
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Plans and writes the plan into a file of that name.
fn plan(name: &str, arguments: &[&str]) -> PathBuf {
    let plan = file(&format!("{name}.json"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_capillary"));
    command.arg("plan").args(arguments).args(["--json", "-o"]).arg(&plan);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    plan
}

/// A network of up to 14 nodes with parallel links and capacities from 1 to 10⁴, and up to 40 demands: as CSV.
fn random_plan(index: u64) -> PathBuf {
    let mut dice = Dice(index);
    let nodes = 3 + dice.below(12);
    let mut links = String::from("from,to,capacity\n");
    let capacity = |dice: &mut Dice| 10_f64.powf(dice.below(401) as f64 / 100.0).round();
    for node in 0..nodes {
        // A ring, so that everything can be reached.
        let _ = writeln!(links, "{node},{},{}", (node + 1) % nodes, capacity(&mut dice));
    }
    for _ in 0..dice.below(3 * nodes) {
        let _ = writeln!(links, "{},{},{}", dice.below(nodes), dice.below(nodes), capacity(&mut dice));
    }
    // The first demand is one in any case, the others may lead from a node to itself and count nothing.
    let mut demands = String::from("from,to,demand\n0,1,7\n");
    for _ in 0..dice.below(40) {
        let _ = writeln!(demands, "{},{},{}", dice.below(nodes), dice.below(nodes), 1 + dice.below(100));
    }
    let paths = ["links", "demands"].map(|what| file(&format!("oracle-{index}-{what}.csv")));
    for (path, content) in paths.iter().zip([links, demands]) {
        std::fs::write(path, content).unwrap();
    }
    let [links, demands] = paths.each_ref().map(|path| path.to_str().unwrap());
    let way = if dice.below(2) == 0 { "--directed" } else { "--undirected" };
    plan(&format!("oracle-{index}"), &[links, "--capacity", "capacity", "--demands", demands, way])
}

/// The SNDlib networks of up to 40 nodes with their demands, and Geant2012, in the folder that `CAPILLARY_SHARED`
/// names.
fn shared_plans() -> Vec<PathBuf> {
    let Some(root) = std::env::var_os("CAPILLARY_SHARED") else {
        skip("the SNDlib networks: CAPILLARY_SHARED names no folder with topologies/");
        return Vec::new();
    };
    let topologies = Path::new(&root).join("topologies");
    let path = |name: &str| topologies.join(name).to_str().unwrap().to_string();
    let sndlib = ["abilene", "france", "geant", "giul39", "nobel-eu", "polska"].map(|name| {
        let network = path(&format!("sndlib-xml/{name}.xml"));
        let way = if name == "giul39" { "--directed" } else { "--undirected" };
        plan(name, &[&network, "--capacity", "module_capacity", "--demands", &network, way])
    });
    let geant = plan("geant2012", &[&path("zoo-gml/Geant2012.gml"), "--gravity", "1000"]);
    sndlib.into_iter().chain([geant]).collect()
}

#[test]
fn a_plain_implementation_in_python_finds_the_certificates_and_the_levels_right() {
    if !has("networkx") {
        return skip("certificates by networkx, levels by HiGHS: python3 has no module networkx");
    }
    let has_solver = has("scipy");
    if !has_solver {
        skip("levels by a chain of linear programs (HiGHS): python3 has no module scipy");
    }
    let count = std::env::var("CAPILLARY_PLANS").map_or(12, |plans| plans.parse().unwrap());
    let mut plans = vec![
        plan("abilene-gravity", &[ABILENE, "--gravity", "100"]),
        plan("gabriel-gravity", &[GABRIEL, "--gravity", "100"]),
    ];
    plans.extend((0..count).map(random_plan));
    plans.extend(shared_plans());
    let mut check = python();
    check.arg(LEVELS).args((!has_solver).then_some("--no-chain")).args(&plans);
    let output = check.output().unwrap();
    let (found, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    print!("{found}");
    assert!(output.status.success(), "{wrong}");
    assert_eq!(found.lines().count(), plans.len(), "{found}");
}

/// The check itself must not say yes to everything.
#[test]
fn a_plan_that_claims_too_little_fails_the_check_in_python() {
    if !has("networkx") {
        return skip("a wrong certificate: python3 has no module networkx");
    }
    let path = plan("claims-too-little", &[ABILENE, "--gravity", "100"]);
    let mut wrong: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let level = wrong["levels"][1]["utilisation"].as_f64().unwrap();
    wrong["levels"][1]["utilisation"] = (level * 1.01).into();
    std::fs::write(&path, wrong.to_string()).unwrap();
    let output = python().arg(LEVELS).arg("--no-chain").arg(&path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("bound"), "{text}");
}
