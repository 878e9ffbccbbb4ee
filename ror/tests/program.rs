//! The program as its users see it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use serde_json::Value;

/// Nodes and links of a small mobile network; a sweep over it takes a second or so.
const PLAN: &str = "nodes = 30\nmean_degree = 6\nframes = 60\nsets = 7\nruns = 2\nlayers = 4\n\
                    tolerances = [0.036, 0.078]\nseed = 3\n";

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ror"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ror(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// What the program prints when it succeeds.
fn printed(arguments: &[&str]) -> String {
    let output = ror(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

/// The exit code, and the one line that the program prints when it fails.
fn refused(arguments: &[&str]) -> (i32, String) {
    let output = ror(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
    (output.status.code().unwrap(), text.trim_end().to_string())
}

/// A folder of one test, gone when it ends.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_string()
    }

    fn file(&self, name: &str, content: &str) -> String {
        std::fs::write(self.path(name), content).unwrap();
        self.name(name)
    }
}

#[test]
fn the_law_has_the_documented_rows() {
    let rows = json(&["law", "--m", "20", "--der", "1e-5", "--p", "0.01,0.05,0.2", "--json"]);
    let row = |p: f64, n: u32| serde_json::json!({ "m": 20, "p": p, "der": 1e-5, "n": n });
    assert_eq!(rows, serde_json::json!([row(0.01, 24), row(0.05, 28), row(0.2, 40)]));
    let inverse = json(&["law", "--n", "40", "--json"]);
    let loss = inverse[0]["p"].as_f64().unwrap();
    assert!((0.2..0.21).contains(&loss), "{loss}");
}

#[test]
fn five_links_of_a_fifth_each_need_a_quarter_more_five_times() {
    let folder = Folder::new();
    let links = folder.file("five.csv", &format!("from,to\n{}", "s,t\n".repeat(5)));
    let pair = [links.as_str(), "--from", "s", "--to", "t"];
    let rated = json(&[&["rate"], &pair[..], &["--tolerances", "0", "--layers", "1", "--json"]].concat());
    let whole = rated["rows"].as_array().unwrap().iter().find(|row| row["routing"] == "capillary").unwrap();
    assert!((whole["ror_large"].as_f64().unwrap() - 1.25).abs() < 1e-12);
    // FEC(0.2) = 40 of 20: each failure doubles the packets.
    assert!((whole["ror_short"].as_f64().unwrap() - 5.0).abs() < 1e-12);
    let compared = json(&[&["compare"], &pair[..], &["--tolerances", "0", "--json"]].concat());
    let routings = compared["routings"].as_array().unwrap();
    let layers = routings.iter().filter(|routing| routing["routing"].as_str().unwrap().contains("layer"));
    assert_eq!((layers.count(), routings.len()), (1, 7), "layers that there are not are left out");
    let shortest = &routings[0];
    assert_eq!(
        (shortest["critical_links"].as_u64(), &shortest["ror"][0]["short"]),
        (Some(1), &Value::Null),
        "every link is critical"
    );
    let (code, line) = refused(&["rate", &links, "--from", "s", "--to", "tt"]);
    assert_eq!(code, 2);
    assert!(line.contains("there is no node \"tt\"; did you mean \"t\"?"), "{line}");
}

/// Two demands that share a network: one has two equal ways of its own, the other one way only.
#[test]
fn every_demand_of_a_matrix_is_rated_by_its_share_of_the_routing() {
    let folder = Folder::new();
    let links = folder.file("net.csv", "from,to\ns,a\ns,b\na,t\nb,t\nt,u\n");
    let demands = folder.file("demands.csv", "from,to,demand\ns,t,3\nt,u,1\n");
    let matrix =
        ["matrix", &links, "--directed", "--demands", &demands, "--tolerances", "0,0.036"].map(String::from);
    let arguments: Vec<&str> = matrix.iter().map(String::as_str).chain(["--json"]).collect();
    let rated = json(&arguments);
    assert_eq!((&rated["demands"], &rated["total"]), (&2.into(), &4.0.into()));
    let rows = rated["rows"].as_array().unwrap();
    let row = |to: &str| rows.iter().find(|row| row["to"] == to).unwrap();
    let own = |row: &Value| row["routings"].as_array().unwrap().last().unwrap().clone();
    let halves = own(row("t"));
    assert!((row("t")["largest_share"].as_f64().unwrap() - 0.5).abs() < 1e-12);
    assert_eq!(halves["critical_links"], serde_json::json!([]));
    // Four links of a half each, and with large blocks twice as much while one of them is down.
    assert!((halves["ratings"][0]["ror_large"].as_f64().unwrap() - 4.0).abs() < 1e-12);
    let law = json(&["law", "--m", "20", "--der", "1e-5", "--p", "0.5", "--json"]);
    assert_eq!(row("t")["block"], law[0]["n"]);
    let alone = own(row("u"));
    assert_eq!((&row("u")["block"], &alone["ratings"][0]["ror_short"]), (&Value::Null, &Value::Null));
    assert_eq!(alone["critical_links"], serde_json::json!([4]));
    // The means leave out what has no rating, and say so.
    let routing = rated["routings"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&routing["with_critical_links"], &routing["not_rated"]), (&1.into(), &1.into()));
    assert!((routing["means"][0]["ror_large"].as_f64().unwrap() - 4.0).abs() < 1e-12);
    let csv: Vec<&str> = matrix.iter().map(String::as_str).chain(["--format", "csv"]).collect();
    let code = ror(&["matrix", &links, "--gravity", "0"]).status.code();
    assert_eq!((printed(&csv).lines().count(), code), (3, Some(2)));
}

#[test]
fn rows_follow_the_documented_columns_and_frames_their_sets() {
    let folder = Folder::new();
    let (plan, out) = (folder.file("plan.toml", PLAN), folder.name("out"));
    printed(&["sweep", &plan, "--folder", &out]);
    let file = std::fs::File::open(folder.path("out/shard-1-of-1.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let fields = reader.metadata().file_metadata().schema().get_fields();
    let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
    let expected = "item run set frame from to layer tolerance ror_short ror_large critical links_used";
    assert_eq!(names.join(" "), expected);
    let mut count = 0;
    for (row, record) in reader.get_row_iter(None).unwrap().enumerate() {
        let record = record.unwrap();
        let item = row as i64 / 8;
        assert_eq!(record.get_long(0).unwrap(), item);
        let (run, frame) = (record.get_int(1).unwrap(), record.get_int(3).unwrap());
        assert_eq!((i64::from(run), i64::from(frame)), (item / 60, item % 60));
        assert_eq!(record.get_int(2).unwrap(), frame * 7 / 60);
        assert_ne!(record.get_int(4).unwrap(), record.get_int(5).unwrap());
        assert_eq!(record.get_int(6).unwrap(), row as i32 / 2 % 4 + 1);
        assert_eq!(record.get_double(7).unwrap(), [0.036, 0.078][row % 2]);
        // A minimum cut of two leaves no critical link, so redundancy is needed for each one.
        assert_eq!(record.get_int(10).unwrap(), 0);
        assert!(record.get_double(8).unwrap() > record.get_double(9).unwrap());
        assert!(record.get_int(11).unwrap() >= 3);
        count += 1;
    }
    assert_eq!(count, 2 * 60 * 4 * 2);
}

#[test]
fn merged_rows_have_means_and_intervals_over_runs() {
    let folder = Folder::new();
    let (plan, out) = (folder.file("plan.toml", PLAN), folder.name("out"));
    printed(&["sweep", &plan, "--folder", &out]);
    let rows = json(&["merge", &out, "--json"]);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 2 * 4 * 2);
    for row in rows {
        assert_eq!((row["samples"].as_u64(), row["runs"].as_u64()), (Some(120), Some(2)));
        assert!(row["ci95"].as_f64().unwrap() > 0.0);
        assert!(["short", "large"].contains(&row["blocks"].as_str().unwrap()));
        let first = row["layer"] == 1;
        assert_eq!(row["change"] == 0.0, first, "{row}");
    }
    let by_set = json(&["merge", &out, "--json", "--by-set"]);
    let samples = |set: u64| {
        let row = by_set.as_array().unwrap().iter().find(|row| row["set"] == set);
        row.unwrap()["samples"].as_u64().unwrap()
    };
    // Set s has the frames k with 7·k/60 = s, of both runs.
    let expected: Vec<u64> =
        (0..7).map(|set| 2 * (0..60).filter(|k| k * 7 / 60 == set).count() as u64).collect();
    assert_eq!((0..7).map(samples).collect::<Vec<_>>(), expected);
}

/// Waits until a shard has put something into its journal, and kills it on the spot. If it was faster than we are, it
/// has finished.
fn kill_half_way(mut shard: Child, journal: &Path) {
    while shard.try_wait().unwrap().is_none() {
        if std::fs::metadata(journal).is_ok_and(|journal| journal.len() > 0) {
            shard.kill().unwrap();
        }
        std::thread::yield_now();
    }
}

#[test]
fn threads_shards_and_kills_leave_no_trace_in_the_merged_rows() {
    let folder = Folder::new();
    let plan = folder.file("plan.toml", &PLAN.replace("frames = 60", "frames = 2000"));
    let outs = ["one", "two", "seven"].map(|name| folder.name(name));
    printed(&["sweep", &plan, "--folder", &outs[0], "--threads", "1"]);
    printed(&["sweep", &plan, "--folder", &outs[1], "--threads", "2"]);
    let shards: Vec<String> = (1..=7).map(|index| format!("{index}/7")).collect();
    let mut killed = 0;
    for (index, shard) in shards.iter().enumerate() {
        let sweep = ["sweep", &plan, "--folder", &outs[2], "--shard", shard, "--threads", "1"];
        if index % 2 == 1 {
            let journal = folder.path(&format!("seven/shard-{}-of-7.journal", index + 1));
            kill_half_way(command(&sweep).spawn().unwrap(), &journal);
            killed += usize::from(journal.exists());
        } else {
            printed(&sweep);
        }
    }
    assert!(killed > 0, "no shard was caught half-way");
    let unfinished = ror(&["merge", &outs[2]]);
    assert_eq!(unfinished.status.code(), Some(7), "{}", String::from_utf8_lossy(&unfinished.stderr));
    for shard in &shards {
        printed(&["sweep", &plan, "--folder", &outs[2], "--shard", shard]);
    }
    let merged =
        outs.each_ref().map(|out| printed(&["merge", out, "--json", "--into", &format!("{out}.parquet")]));
    assert_eq!(merged[0], merged[1]);
    assert_eq!(merged[0], merged[2]);
    let files = outs.each_ref().map(|out| std::fs::read(format!("{out}.parquet")).unwrap());
    assert!(files[0] == files[1] && files[0] == files[2], "the merged files differ");
}

#[test]
fn an_interrupted_sweep_goes_on_where_it_was() {
    let folder = Folder::new();
    let plan = folder.file("plan.toml", &PLAN.replace("frames = 60", "frames = 5000"));
    let (out, whole) = (folder.name("out"), folder.name("whole"));
    let journal = folder.path("out/shard-1-of-1.journal");
    let sweep = ["sweep", &plan, "--folder", &out, "--threads", "1"];
    let mut running = command(&sweep).spawn().unwrap();
    while running.try_wait().unwrap().is_none() {
        if std::fs::metadata(&journal).is_ok_and(|journal| journal.len() > 0) {
            break;
        }
        std::thread::yield_now();
    }
    let interrupt = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let output = running.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(8), "{told}");
    assert!(told.contains("of 10000 items; the same command goes on from there"), "{told}");
    let before = std::fs::metadata(&journal).unwrap().len();
    assert!(before > 0);
    printed(&sweep);
    assert!(!journal.exists());
    printed(&["sweep", &plan, "--folder", &whole]);
    assert_eq!(printed(&["merge", &out, "--json"]), printed(&["merge", &whole, "--json"]));
}

#[test]
fn a_million_items_take_no_more_memory_than_a_thousand() {
    let folder = Folder::new();
    let plan = folder.file("plan.toml", &PLAN.replace("frames = 60", "frames = 500000"));
    // The positions alone of all frames would take 480 MB.
    let limit = "ulimit -v 400000; exec \"$@\"";
    for shard in ["1/1000", "120/1000"] {
        let sweep = ["sweep", &plan, "--folder", &folder.name("out"), "--shard", shard, "--threads", "1"];
        let output =
            Command::new("sh").args(["-c", limit, "sh", env!("CARGO_BIN_EXE_ror")]).args(sweep).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let (code, line) = refused(&["merge", &folder.name("out")]);
    assert_eq!(code, 7);
    assert!(line.contains("missing: shard 2/1000, 3/1000"), "{line}");
}

#[test]
fn bad_plans_are_told_in_one_line_with_their_key() {
    let folder = Folder::new();
    for (from, to, expected) in [
        ("seed = 3", "sead = 3", "line 8: unknown field `sead`"),
        ("seed = 3", "range = -100", "range: -100 is no positive number of metres"),
        ("layers = 4", "layers = 0", "layers: there is no layer 0; layers are counted from 1"),
        ("layers = 4", "layers = [0, 2]", "layers: there is no layer 0; layers are counted from 1"),
        ("layers = 4", "layers = \"all\"", "line 6: layers: expected a number of layers, or a list"),
        ("nodes = 30", "nodes = 1", "nodes: 1 is too few for a pair"),
        ("nodes = 30\n", "", "missing field `nodes`"),
        ("sets = 7", "sets = 61", "sets: 61 is not between 1 and 60"),
        ("mean_degree = 6", "mean_degree = 40", "mean_degree: no area gives 30 nodes"),
        ("mean_degree = 6", "", "area: give either the area or the mean degree"),
        ("0.078", "1.5", "tolerances: the loss is 1.5"),
        ("seed = 3", "m = 0", "m: a block of 0 source packets"),
        ("seed = 3", "der = 1.0", "der: the decoding error rate is 1"),
        ("seed = 3", "pairs = [[1, 1]]", "pairs: [1, 1] is one node, not a pair"),
        ("seed = 3", "pairs = [[1, 30]]", "pairs: there is no node 30; nodes are 0 to 29"),
        ("seed = 3", "speed = [5, 1]", "speed: speeds from 5 to 1 m/s"),
        ("seed = 3", "pause = [1, 2]", "pause: this mobility has none"),
        ("seed = 3", "mobility = \"walk\"", "line 8: mobility: unknown variant `walk`"),
        (
            "mean_degree = 6",
            "area = [100000, 100000]\npairs = [[0, 1]]",
            "pairs: nodes 0 and 1 are not connected in frame 0 of run 0",
        ),
        (
            "mean_degree = 6",
            "area = [100000, 100000]",
            "range: no two nodes have a minimum cut of 2 in frame 0 of run 0",
        ),
    ] {
        let plan = folder.file("bad.toml", &PLAN.replace(from, to));
        let out = tempfile::tempdir().unwrap();
        let (code, line) = refused(&["sweep", &plan, "--folder", out.path().to_str().unwrap()]);
        assert_eq!(code, 3, "{line}");
        assert!(line.contains(&format!("bad.toml: {expected}")), "{line}");
    }
}

#[test]
fn shards_that_are_none_and_folders_of_other_plans_are_refused() {
    let folder = Folder::new();
    let (plan, out) = (folder.file("plan.toml", PLAN), folder.name("out"));
    let refusal = refused(&["sweep", &plan, "--folder", &out, "--shard", "8/7"]);
    assert_eq!(refusal, (2, "ror: --shard 8/7: there is no shard 8 of 7".into()));
    printed(&["sweep", &plan, "--folder", &out]);
    let (code, line) = refused(&["sweep", &plan, "--folder", &out, "--seed", "4"]);
    assert_eq!(code, 3);
    assert!(line.ends_with("--folder: the folder holds another plan: seed is 3 there and 4 here"), "{line}");
    // Finished: nothing is done again.
    let again = ror(&["sweep", &plan, "--folder", &out]);
    assert_eq!(String::from_utf8(again.stderr).unwrap(), format!("ror: {out}: shard 1/1 is finished\n"));
    assert!(again.status.success());
    let (code, line) = refused(&["sweep", &plan, "--folder", &plan]);
    assert_eq!(code, 3);
    assert!(line.ends_with("--folder: it is a file; expected a folder, or a name that is free"), "{line}");
}

#[test]
fn a_folder_takes_shards_of_one_cut_only() {
    let folder = Folder::new();
    let (plan, out) = (folder.file("plan.toml", PLAN), folder.name("out"));
    printed(&["sweep", &plan, "--folder", &out, "--shard", "1/2"]);
    let (code, line) = refused(&["sweep", &plan, "--folder", &out, "--shard", "1/3"]);
    let there =
        "shard-1-of-2.parquet is there, of a sweep cut into 2; expected --shard I/2, or another folder";
    assert_eq!((code, line), (3, format!("ror: {out}: --shard 1/3: {there}")));
    // A folder that was given shards of several cuts before that was refused.
    std::fs::copy(folder.path("out/shard-1-of-2.parquet"), folder.path("out/shard-1-of-3.parquet")).unwrap();
    let (code, line) = refused(&["merge", &out]);
    assert_eq!(code, 5);
    assert!(line.contains("2 cuts: shard-1-of-2.parquet; shard-1-of-3.parquet; remove"), "{line}");
}

#[test]
fn a_damaged_shard_is_told_from_a_whole_one() {
    let folder = Folder::new();
    let (plan, out) = (folder.file("plan.toml", PLAN), folder.name("out"));
    printed(&["sweep", &plan, "--folder", &out, "--shard", "1/2"]);
    printed(&["sweep", &plan, "--folder", &out, "--shard", "2/2"]);
    let [first, second] = [1, 2].map(|index| folder.path(&format!("out/shard-{index}-of-2.parquet")));
    let [first_sum, second_sum] =
        [1, 2].map(|index| folder.path(&format!("out/shard-{index}-of-2.parquet.b3")));
    let again = "; remove the file and sweep --shard 2/2 again";
    let right = std::fs::read(&second).unwrap();
    let right_sum = std::fs::read_to_string(&second_sum).unwrap();
    assert_eq!(right_sum, format!("{}  shard-2-of-2.parquet\n", blake3::hash(&right)));

    std::fs::copy(&first, &second).unwrap();
    std::fs::copy(&first_sum, &second_sum).unwrap();
    let (code, line) = refused(&["merge", &out]);
    assert_eq!(code, 5);
    let told = format!("shard-2-of-2.parquet: item 0 stands where item 60 is due{again}");
    assert!(line.ends_with(&told), "{line}");

    let plot = folder.name("plot.svg");
    let commands = [
        &["merge", &out][..],
        &["plot", &out, "-o", &plot],
        &["sweep", &plan, "--folder", &out, "--shard", "2/2"],
    ];
    let check = |what: &str| {
        for command in commands {
            let (code, line) = refused(command);
            assert_eq!(code, 5, "{line}");
            assert!(line.starts_with(&format!("ror: {}: {what}", second.display())), "{line}");
            assert!(line.ends_with(again), "{line}");
        }
    };
    // Where one bit of the rows was another, the numbers were, and nothing was said.
    std::fs::write(&second_sum, &right_sum).unwrap();
    for place in [0, right.len() / 3, right.len() / 2, right.len() - 1] {
        let mut flipped = right.clone();
        flipped[place] ^= 4;
        std::fs::write(&second, flipped).unwrap();
        check("it is not as it was written: its checksum is ");
    }
    std::fs::write(&second, &right[..1000]).unwrap();
    check("it is not as it was written: its checksum is ");
    std::fs::write(&second, &right).unwrap();
    std::fs::write(&second_sum, "no checksum").unwrap();
    check("there is no checksum in shard-2-of-2.parquet.b3");
    std::fs::remove_file(&second_sum).unwrap();
    check("its checksum shard-2-of-2.parquet.b3 is missing");

    std::fs::remove_file(&second).unwrap();
    assert_eq!(refused(&["merge", &out]), (7, format!("ror: {out}: missing: shard 2/2")));
    printed(&["sweep", &plan, "--folder", &out, "--shard", "2/2"]);
    printed(&["merge", &out]);
}

/// A device became a file and a link was replaced; what a full disk had room for was left there, with code 1.
#[test]
fn all_rows_in_one_file_go_where_the_name_leads() {
    let folder = Folder::new();
    let (plan, out) = (folder.file("plan.toml", PLAN), folder.name("out"));
    printed(&["sweep", &plan, "--folder", &out]);
    printed(&["merge", &out, "--into", &folder.name("all")]);
    let rows = std::fs::read(folder.path("all")).unwrap();

    std::os::unix::fs::symlink("target", folder.path("link")).unwrap();
    printed(&["merge", &out, "--into", &folder.name("link")]);
    assert!(folder.path("link").is_symlink());
    assert!(std::fs::read(folder.path("target")).unwrap() == rows, "the target differs");

    let pipe = folder.name("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = Command::new("cat").arg(&pipe).stdout(Stdio::piped()).spawn().unwrap();
    printed(&["merge", &out, "--into", &pipe]);
    assert!(reader.wait_with_output().unwrap().stdout == rows, "what came through the pipe differs");
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&folder.path("pipe").metadata().unwrap().file_type()));

    // The device itself is safe from a rename: the link is all that it could replace.
    std::os::unix::fs::symlink("/dev/full", folder.path("full")).unwrap();
    let (code, line) = refused(&["merge", &out, "--into", &folder.name("full")]);
    assert_eq!(code, 6, "{line}");
    assert!(line.starts_with(&format!("ror: {}: No space left", folder.name("full"))), "{line}");
    assert!(folder.path("full").is_symlink());
    assert!(!folder.path("full.unfinished").exists());
}

#[test]
fn presets_are_the_thesiss_figures() {
    let plan = |preset| printed(&["sweep", "--preset", preset, "--print"]).parse::<toml::Table>().unwrap();
    let number = |plan: &toml::Table, key: &str| plan[key].as_integer().unwrap();
    let plan43 = plan("thesis-43");
    assert_eq!(
        ["nodes", "frames", "sets", "layers", "m"].map(|key| number(&plan43, key)),
        [115, 300, 7, 10, 20]
    );
    let tolerances = plan43["tolerances"].as_array().unwrap();
    assert_eq!(
        (tolerances.len(), tolerances[0].as_float(), tolerances[14].as_float()),
        (15, Some(0.036), Some(0.078))
    );
    let plan44 = plan("thesis-44");
    assert_eq!(["nodes", "frames", "sets"].map(|key| number(&plan44, key)), [120, 150, 4]);
    let plan41 = plan("thesis-41");
    assert_eq!(["nodes", "runs", "layers"].map(|key| number(&plan41, key)), [300, 200, 10]);
}

#[test]
fn the_law_is_swept_merged_and_drawn() {
    let folder = Folder::new();
    let out = folder.name("out");
    printed(&["sweep", "--preset", "thesis-42", "--folder", &out]);
    let rows = json(&["merge", &out, "--json"]);
    let tie = rows.as_array().unwrap().iter().find(|row| row["m"] == 1 && row["p"] == 0.1).unwrap();
    assert_eq!(tie["n"], 5);
    printed(&["plot", &out]);
    let svg = std::fs::read_to_string(folder.path("out/plot.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("M = 10") && svg.contains("1/(1 − p)"));
    let decoder =
        png::Decoder::new(std::io::BufReader::new(std::fs::File::open(folder.path("out/plot.png")).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut dots = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut dots).unwrap();
    let dark = dots.chunks(3).filter(|dot| dot.iter().all(|part| *part < 100)).count();
    assert!(dark > 2_000, "{dark} dark dots: are axes and letters there?");
}

#[test]
fn the_hunt_agrees_with_the_solver_by_maximum_flow() {
    let folder = Folder::new();
    let plan = "measure = \"hunt\"\nnodes = 40\nmean_degree = 6\nframes = 1\nruns = 6\nlayers = 3\n";
    let (plan, out) = (folder.file("plan.toml", plan), folder.name("out"));
    printed(&["sweep", &plan, "--folder", &out]);
    let rows = json(&["merge", &out, "--json"]);
    for row in rows.as_array().unwrap() {
        let suspects = row["suspects"].as_array().unwrap();
        assert_eq!(row["samples"], 6);
        assert!(suspects.windows(2).all(|pair| pair[0].as_f64() >= pair[1].as_f64()), "{row}");
        assert_eq!(suspects.last().unwrap(), &row["bottlenecks"]);
        assert_eq!(suspects.len() as u64 - 1, row["most_iterations"].as_u64().unwrap());
    }
    printed(&["plot", &out]);
}

#[test]
fn pandas_or_polars_reads_the_shards() {
    let folder = Folder::new();
    let (plan, out) = (folder.file("plan.toml", PLAN), folder.name("out"));
    printed(&["sweep", &plan, "--folder", &out]);
    let rows = folder.file("rows.json", &printed(&["merge", &out, "--json"]));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/parquet.py");
    let shard = folder.name("out/shard-1-of-1.parquet");
    let Ok(output) = Command::new("python3").args([script, &shard, &rows]).output() else {
        println!("skipped: there is no python3");
        return;
    };
    let told =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("{told}");
    assert!([Some(0), Some(77)].contains(&output.status.code()), "{told}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure_and_a_full_disk_is_one() {
    let folder = Folder::new();
    let (plan, out) = (folder.file("plan.toml", PLAN), folder.name("out"));
    printed(&["sweep", &plan, "--folder", &out]);
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/../capillary/tests/fixtures/zoo/Abilene.gml");
    let pair = ["--from", "Seattle", "--to", "New York"];
    let of_network = |name| [&[name, network][..], &pair].concat();
    let cases: [&[&str]; 7] = [
        &of_network("rate"),
        &of_network("compare"),
        &["law"],
        &["law", "--json"],
        &["sweep", "--preset", "thesis-43", "--print"],
        &["merge", &out],
        &["sweep", "--help"],
    ];
    for case in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ror"));
        assert_eq!(program::reader::leaves_early(command.args(case)), Ok(()));
        if !case.contains(&"--help") {
            assert_eq!(program::reader::misses_room(&mut command), Ok(()));
        }
    }
}

#[test]
fn shares_are_read_with_per_cent_and_refused_with_their_flag() {
    let law = |p: &str| json(&["law", "--m", "20", "--p", p, "--json"]);
    assert_eq!((law("5%"), law("5e-2")), (law("0.05"), law("0.05")));
    for arguments in [["law", "--p", "1"], ["law", "--p", "-1"]] {
        let output = ror(&arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && message.contains("'--p <P,…>'"), "{message}");
    }
    let (code, line) =
        refused(&["sweep", "--preset", "thesis-43", "--folder", "x", "--shard", "1/99999999999"]);
    assert_eq!(code, 2);
    assert!(
        line.ends_with("--shard 1/99999999999: expected I/N, two whole numbers up to 4294967295"),
        "{line}"
    );
}
