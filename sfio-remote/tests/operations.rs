//! What an operator sees of running members, and tells them: status, metrics, reload, a graceful end.

#![cfg(feature = "cli")]

#[path = "members/overlay.rs"]
mod overlay;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use overlay::{LocalOverlay, sfio};
use serde_json::Value;

fn bytes(count: usize) -> Vec<u8> {
    let mut output = vec![0; count];
    blake3::Hasher::new_keyed(&[count as u8; 32]).finalize_xof().fill(&mut output);
    output
}

fn json(run: overlay::Run) -> Value {
    serde_json::from_slice(&run.stdout()).expect("JSON")
}

fn status(overlay: &LocalOverlay, name: &str) -> Value {
    json(sfio(&["status", "--json", "--config", &overlay.config(name)]))
}

/// Looks at a member until it shows what is awaited.
fn await_status(overlay: &LocalOverlay, name: &str, is_there: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..200 {
        last = status(overlay, name);
        if is_there(&last) {
            return last;
        }
    }
    panic!("{name} never shows it: {last:#}");
}

fn count(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}

/// The variable was taken for a second answer to the question which member is meant.
#[test]
fn a_socket_counts_more_than_the_config_of_the_environment() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let of = |arguments: &[&str]| {
        let mut command = overlay::command(&[&["status", "--json"], arguments].concat());
        let output = command.env("SFIO_CONFIG", overlay.config("io1")).output().expect("it runs");
        let status: Value = serde_json::from_slice(&output.stdout).expect("one object");
        status["member"].clone()
    };
    assert_eq!(of(&[]), "io1");
    assert_eq!(of(&["--config", &overlay.config("io2")]), "io2");
    let socket = overlay.folder().join("io2/admin.sock");
    assert_eq!(of(&["--socket", &socket.to_string_lossy()]), "io2");
    sfio(&["status"]).ends_with(2, "give --config FILE or --socket SOCKET, or set SFIO_CONFIG");
}

#[test]
fn status_shows_neighbours_circuits_sessions_and_their_paths() {
    let overlay =
        LocalOverlay::up(&["--relays", "2", "--io-nodes", "1", "--rate-mbit", "10", "--delay-ms", "1"]);
    let socket = overlay.folder().join("io1/admin.sock");
    let mode = fs::metadata(&socket).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let put = overlay.begin_put(&bytes(4_000_000), "io1,x");
    overlay.wait_for_file("io1", "x.sfio-part");
    let has_paths = |status: &Value| {
        let paths = &status["sessions"][0]["paths"];
        count(paths) >= 2 && (0..2).all(|path| paths[path]["packets_received"].as_u64() > Some(10))
    };
    let io1 = await_status(&overlay, "io1", has_paths);
    assert_eq!((&io1["member"], &io1["overlay_serial"]), (&Value::from("io1"), &Value::from(1)));
    let session = &io1["sessions"][0];
    assert_eq!((&session["peer"], &session["incoming"]), (&Value::from("client"), &Value::from(true)));
    assert!(session["received_bytes"].as_u64() > Some(0), "{session:#}");
    assert!(io1["io_node"]["transfers"].as_u64() > Some(0), "{io1:#}");
    let relay = status(&overlay, "r1");
    assert!(relay["datagrams"]["forwarded"].as_u64() > Some(0), "{relay:#}");
    let relayed = relay["circuits"].as_array().expect("a list").iter();
    assert!(relayed.clone().any(|circuit| circuit["part"] == "relay" && circuit["route"][1] == "r1"));
    let table = sfio(&["status", "--socket", &socket.to_string_lossy()]).stdout();
    let table = String::from_utf8(table).expect("text");
    assert!(table.contains("from client") && table.contains("io1 – r1 – client"), "{table}");
    assert_eq!(
        (&io1["limits"]["sessions"], &io1["policing"]["set_ups_per_originator"]),
        (&Value::from(2_048), &Value::from(256.0))
    );
    let io_node = &io1["io_node"];
    assert_eq!(io_node["limits"]["memory_bytes"], Value::from(64 << 20));
    assert!(io_node["members"]["client"]["transfers"].as_u64() > Some(0), "{io_node:#}");
    assert!(
        table.contains("limits: 1 of 2048 sessions") && table.contains("of at most 512 transfers"),
        "{table}"
    );
    put.succeeds();
    overlay.signal("io1", "-KILL");
    overlay.wait_for_words("io1 has died");
    sfio(&["status", "--config", &overlay.config("io1")]).fails_with(4, "no member runs with it");
}

/// Asks for a page as plain HTTP.
fn get(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(format!("{request}\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

#[test]
fn the_metrics_page_has_sessions_paths_drops_and_the_io_node() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "1", "--io-nodes", "1"]);
    overlay.signal("io1", "-KILL");
    overlay.wait_for_words("io1 has died");
    let (_member, ready) = overlay.start_with("io1", &["--metrics", "127.0.0.1:0"]);
    let (_, url) = ready.split_once("metrics http://").expect("it says where");
    let address = url.trim_end().trim_end_matches("/metrics");
    let control = ready.split("data ").nth(1).and_then(|rest| rest.split(',').next()).expect("its address");
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    for _ in 0..5 {
        stranger.send_to(&[1; 100], control).expect("sent");
    }
    let put = overlay.begin_put(&bytes(30_000_000), "io1,x");
    overlay.wait_for_file("io1", "x.sfio-part");
    let page = get(address, "GET /metrics HTTP/1.1");
    put.succeeds();
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("openmetrics-text"), "{page}");
    for line in [
        "sfio_sessions 1.0\n",
        "sfio_build_info{version=\"",
        "sfio_session_received_bytes_total{session=\"1\",peer=\"client\"} ",
        "sfio_path_rate_bps{session=\"1\",peer=\"client\",path=\"",
        "route=\"io1 r1 client\"",
        "sfio_path_loss{session=\"1\"",
        "sfio_path_share{session=\"1\"",
        "sfio_path_redundancy{session=\"1\"",
        "sfio_circuits{part=\"responder\"} ",
        "sfio_io_node_transfers ",
        "sfio_io_node_errors_total{call=\"write\"} 0",
        "# EOF",
    ] {
        assert!(page.contains(line), "{line} is not in {page}");
    }
    let strangers = page.split("fate=\"unknown_label\"} ").nth(1).and_then(|rest| rest.lines().next());
    let strangers: u32 = strangers.and_then(|count| count.parse().ok()).expect("a count");
    // A process that had the port before may still be sent to.
    assert!(strangers >= 5, "{page}");
    assert!(get(address, "GET / HTTP/1.1").starts_with("HTTP/1.1 404"));
    assert!(get(address, "POST /metrics HTTP/1.1").starts_with("HTTP/1.1 405"));
}

/// Takes a member and its links out of an overlay file, and raises the serial.
fn without(text: &str, name: &str, serial: u64) -> String {
    let entry = |part: &&str| {
        !(part.starts_with("[[member]]") && part.contains(&format!("name = \"{name}\""))
            || part.starts_with("[[link]]") && part.contains(&format!("\"{name}\"")))
    };
    let text = text.replace("\n[[", "\n\u{1}[[");
    let kept: String = text.split('\u{1}').filter(entry).collect();
    kept.replace("serial = 1\n", &format!("serial = {serial}\n"))
}

#[test]
fn a_reload_takes_only_what_the_operator_signed_and_cuts_off_who_is_not_listed() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "1", "--io-nodes", "1"]);
    let key = overlay.folder().join("operator.key").to_string_lossy().into_owned();
    let operator = String::from_utf8(sfio(&["keygen", "--operator", &key]).stdout()).expect("text");
    let file = overlay.folder().join("overlay.toml").to_string_lossy().into_owned();
    let sign = || drop(sfio(&["overlay", "sign", &file, "--key", &key]).stdout());
    let config = overlay.config("io1");
    let text = fs::read_to_string(&config).expect("it is there");
    fs::write(&config, operator + &text).expect("it can be written");
    overlay.signal("io1", "-KILL");
    overlay.wait_for_words("io1 has died");
    sfio(&["member", "--config", &config]).fails_with(3, "overlay.toml.sig: No such file");
    sign();
    let _member = overlay.start_by_hand("io1");
    overlay.put(&bytes(1_000), "io1,x", &[]).succeeds();

    let reload = || sfio(&["reload", "--json", "--config", &config]);
    reload().fails_with(3, "its serial is 1, and 1 is in use");
    overlay.edit_overlay(|text| without(&text, "client", 2));
    reload().fails_with(3, "is not the signature of operator");
    assert_eq!(status(&overlay, "io1")["overlay_serial"], 1);
    sign();
    let change = json(reload());
    assert_eq!((&change["serial"], &change["members_removed"][0]), (&2.into(), &"client".into()));
    assert_eq!(status(&overlay, "io1")["overlay_serial"], 2);
    assert_eq!(count(&status(&overlay, "io1")["sessions"]), 0);
    // The client still believes in the old file.
    overlay.edit_overlay(|_| fs::read_to_string(&file).expect("it is there"));
    let sighup = |name: &str| overlay.signal(name, "-HUP");
    sighup("r1");
    await_status(&overlay, "r1", |status| status["overlay_serial"] == 2);
}

#[test]
fn a_member_that_is_asked_to_end_finishes_what_is_under_way() {
    let overlay =
        LocalOverlay::up(&["--relays", "2", "--io-nodes", "1", "--rate-mbit", "10", "--delay-ms", "1"]);
    let data = bytes(6_000_000);
    let put = overlay.begin_put(&data, "io1,x");
    overlay.wait_for_file("io1", "x.sfio-part");
    overlay.signal("r1", "-TERM");
    overlay.wait_for_words("r1 has ended (exit status: 0)");
    overlay.signal("io1", "-TERM");
    await_status(&overlay, "io1", |status| status["shutting_down"] == true);
    put.succeeds();
    overlay.wait_for_words("io1 has ended (exit status: 0)");
    assert!(overlay.exported("io1", "x") == data, "the bytes differ");
}

#[test]
fn a_second_signal_ends_it_at_once_with_a_code_that_tells() {
    let overlay =
        LocalOverlay::up(&["--relays", "1", "--io-nodes", "1", "--rate-mbit", "5", "--delay-ms", "1"]);
    let put = overlay.begin_put_with(&bytes(30_000_000), "io1,x", &["--patience", "0"]);
    overlay.wait_for_file("io1", "x.sfio-part");
    overlay.signal("io1", "-TERM");
    await_status(&overlay, "io1", |status| status["shutting_down"] == true);
    overlay.signal("io1", "-TERM");
    overlay.wait_for_words("io1 has died (exit status: 8)");
    put.fails_with(4, "io1");
    assert!(!overlay.folder().join("io1/admin.sock").exists());
}

#[test]
fn a_config_is_checked_while_a_member_runs_with_it() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "1", "--io-nodes", "1"]);
    let check = |name: &str| sfio(&["member", "--check-config", "--config", &overlay.config(name)]);
    let said = String::from_utf8(check("io1").stdout()).expect("text");
    assert!(said.contains("io1/config.toml can be used") && said.contains("serial 1, 3 members"), "{said}");
    check("r1").succeeds();
    // Nothing was disturbed, and nothing made.
    overlay.put(b"text", "io1,x", &[]).succeeds();
    let config = overlay.config("io1");
    let text = fs::read_to_string(&config).expect("it is there");
    fs::write(&config, text.replace("export = \"export\"", "export = \"elsewhere\"")).expect("written");
    check("io1").fails_with(3, "elsewhere: No such file");
    fs::create_dir(overlay.folder().join("io1/elsewhere")).expect("made");
    check("io1").fails_with(3, "export.identity");
    assert_eq!(fs::read_dir(overlay.folder().join("io1/elsewhere")).expect("a folder").count(), 0);
    let long = format!("admin = \"{}\"\n{text}", "x".repeat(120));
    fs::write(&config, long).expect("written");
    check("io1").fails_with(3, "expected at most 107");
    let file = overlay.folder().join("overlay.toml");
    let moved = fs::read_to_string(&file).expect("it is there").replace("127.0.0.1", "192.0.2.1");
    fs::write(&file, moved).expect("written");
    check("r1").fails_with(3, "it is not one of this machine");
}

#[test]
fn a_log_of_json_has_an_object_a_line() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "1"]);
    overlay.signal("io1", "-KILL");
    overlay.wait_for_words("io1 has died");
    // Its standard input has ended already, so it starts, and ends.
    let config = overlay.config("io1");
    let log = sfio(&["member", "--config", &config, "--until-stdin-ends", "--log-format", "json"]).said();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    assert!(lines.iter().any(|line| line["level"] == "INFO" && line["timestamp"].is_string()), "{log}");
}

#[test]
fn a_run_that_watches_tells_since_when_the_data_set_is_fresh_and_ends_well_by_ctrl_c() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "1"]);
    let tree = tempfile::tempdir().expect("a folder");
    fs::write(tree.path().join("file"), "text").expect("written");
    let source = tree.path().to_string_lossy();
    let sync =
        overlay.begin_logged(&["sync", "--watch=1s", "--metrics", "127.0.0.1:0", &source, "local:tree"]);
    let said = sync.wait_for_words("metrics at http://");
    let address = said.split("http://").nth(1).expect("its address").trim_end_matches("/metrics");
    let fresh = "sfio_sync_last_success_timestamp_seconds{dataset=\"local:tree\"} ";
    let mut pages = (0..200).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        get(address, "GET /metrics HTTP/1.1")
    });
    let page = pages.find(|page| page.contains(fresh)).expect("the first pass is a good one");
    assert!(page.contains("sfio_sync_generation{dataset=\"local:tree\"} 1.0\n"), "{page}");
    sync.interrupt(0);
}

/// It ended for good when the source was away for a moment, or an I/O node was.
#[test]
fn a_run_that_watches_lives_through_a_source_that_is_away() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "1"]);
    let folder = tempfile::tempdir().expect("a folder");
    let (tree, away) = (folder.path().join("tree"), folder.path().join("away"));
    fs::create_dir(&tree).expect("a folder");
    fs::write(tree.join("file"), "text").expect("written");
    let sync =
        overlay.begin_logged(&["sync", "--watch=1s", "--quiet", &tree.to_string_lossy(), "local:tree"]);
    overlay.wait_for_file("io1", "tree/commits");
    fs::rename(&tree, &away).expect("ours");
    sync.wait_for_words("No such file or directory");
    // Nothing of it is said at the passes that follow.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    fs::write(away.join("another"), "more text").expect("written");
    fs::rename(&away, &tree).expect("ours");
    overlay.client(&["wait", "local:tree", "--generation", "2", "--timeout", "30s"]).stdout();
    assert_eq!(sync.count_of("No such file or directory"), 1);
    sync.interrupt(0);
}
