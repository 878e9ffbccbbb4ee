//! Programs in C with BMI's calls only, over every network.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use fec_transport::keys::{Identity, encode_key};
use netsim::emulator::{self, Direction, EmulatedLink, Emulator};
use netsim::{LinkModel, Probability, Rate};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// A folder with compiled programs.
struct Workshop {
    folder: TempDir,
}

impl Workshop {
    fn new() -> Workshop {
        Workshop { folder: tempfile::tempdir().expect("a folder") }
    }

    /// Compiles a program against the library that belongs to this test.
    fn compile(&self, name: &str, options: &[&str]) -> PathBuf {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = self.folder.path().join(name);
        let output = Command::new("cc")
            .args([
                "-std=c99",
                "-D_POSIX_C_SOURCE=200809L",
                "-Wall",
                "-Wextra",
                "-pedantic",
                "-Werror",
                "-g",
                "-O1",
            ])
            .arg("-o")
            .arg(&program)
            .arg("-I")
            .arg(crate_folder.join("include"))
            .arg(crate_folder.join(format!("tests/c/{name}.c")))
            .arg("-L")
            .arg(library_folder())
            .args(options)
            .output()
            .expect("there is a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }
}

const SHARED: &[&str] = &["-lbmi", "-pthread"];

/// Cargo puts the library beside the test, or one folder above.
fn library_folder() -> PathBuf {
    let test = std::env::current_exe().expect("this test runs");
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.into_iter().find(|folder| folder.join("libbmi.so").exists());
    found.expect("libbmi.so was built").to_owned()
}

/// How programs are run: as they are, or by a program that watches their memory.
type Runner<'a> = &'a [&'a str];

const PLAIN: Runner<'static> = &[];

const VALGRIND: Runner<'static> = &[
    "valgrind",
    "--quiet",
    "--error-exitcode=9",
    "--leak-check=full",
    "--show-leak-kinds=definite",
    "--errors-for-leak-kinds=definite",
];

/// Valgrind takes what ring's own machine code has encrypted for bytes that nobody has set.
const VALGRIND_WITH_CIPHERS: Runner<'static> = &[
    "valgrind",
    "--quiet",
    "--error-exitcode=9",
    "--undef-value-errors=no",
    "--leak-check=full",
    "--show-leak-kinds=definite",
    "--errors-for-leak-kinds=definite",
];

/// With a fraction of the work: valgrind makes a session some fifty times as slow.
const LIGHT: &[&str] = &["-DCLIENTS=1", "-DLONG_SIZE=40000", "-lbmi", "-pthread"];

fn command(runner: Runner<'_>, program: &Path) -> Command {
    let mut command = match runner.split_first() {
        None => Command::new(program),
        Some((first, others)) => {
            let mut command = Command::new(first);
            command.args(others).arg(program);
            command
        }
    };
    command.env("LD_LIBRARY_PATH", library_folder()).env_remove("BMI_CONFIG");
    command
}

fn holds(output: &Output) {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && stdout.ends_with("all of it holds\n"),
        "{}\n{stdout}{stderr}",
        output.status
    );
}

/// A server and its clients in one process.
fn exchange_within(runner: Runner<'_>, program: &Path, address: &str) {
    holds(&command(runner, program).args([address, "both"]).output().expect("it was compiled"));
}

/// Two members of an overlay on loopback, a server and a client, and their config files.
struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new() -> Scene {
        Scene::of([free_address(), free_address()], "[[link]]\na = \"client\"\nb = \"server\"\n")
    }

    /// With a server at these addresses for control and data, and these links.
    fn of([control, data]: [SocketAddr; 2], links: &str) -> Scene {
        let scene = Scene { folder: tempfile::tempdir().expect("a folder") };
        let server = format!("control = \"{control}\"\ndata = \"{data}\"\n");
        let mut overlay = links.to_owned();
        for (name, rest) in [("server", &server[..]), ("client", "")] {
            let identity = Identity::from_seed([name.as_bytes()[0]; 32]);
            let [ed25519, x25519] =
                [identity.public().ed25519, identity.public().x25519].map(|key| encode_key(&key));
            overlay += &format!(
                "[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n{rest}"
            );
            scene.write(&format!("{name}.key"), &identity.to_text());
            let config = format!("overlay = \"overlay.toml\"\nmember = \"{name}\"\nkey = \"{name}.key\"\n");
            scene.write(&format!("{name}.toml"), &config);
        }
        scene.write("overlay.toml", &overlay);
        scene
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("possible");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("possible");
    }

    fn command(&self, runner: Runner<'_>, program: &Path, address: &str, role: &str) -> Command {
        let mut command = command(runner, program);
        command.args([address, role]).env("BMI_CONFIG", self.folder.path().join(format!("{role}.toml")));
        command
    }

    /// A server that listens, and what it will say; nothing if somebody else has taken its port.
    fn start_server(&self, runner: Runner<'_>, program: &Path, address: &str) -> Option<(Child, Words)> {
        let (mut server, mut words) = start(self.command(runner, program, address, "server"));
        let is_ready = next_line(&mut words) == "ready\n";
        if !is_ready {
            server.wait().expect("it was started");
        }
        is_ready.then_some((server, words))
    }
}

/// What a program says.
type Words = BufReader<ChildStdout>;

fn start(mut command: Command) -> (Child, Words) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it was compiled");
    let words = BufReader::new(child.stdout.take().expect("it is piped"));
    (child, words)
}

fn next_line(words: &mut Words) -> String {
    let mut line = String::new();
    words.read_line(&mut line).expect("it is a pipe");
    line
}

fn rest_of(words: &mut Words) -> String {
    let mut rest = String::new();
    words.read_to_string(&mut rest).expect("it is a pipe");
    rest
}

/// Three emulated links between a client and a server, each of which loses 2 % in both directions.
struct Lossy {
    scene: Scene,
    emulator: Emulator,
    _runtime: Runtime,
}

impl Lossy {
    fn new() -> Lossy {
        let server = [free_address(), free_address()];
        let [control, data] = server.map(Some);
        let model = || {
            let loss = Probability::new(0.02).expect("a probability");
            LinkModel::new(Rate::from_mbit(40), Duration::from_millis(5)).with_loss(loss)
        };
        let links = ["dsl", "lte", "radio"].map(|name| {
            let (client, server) = (emulator::Endpoint::default(), emulator::Endpoint { control, data });
            EmulatedLink::new(name, client, server, model(), model())
        });
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let emulator = {
            let _within = runtime.enter();
            Emulator::start(links.into(), 1).expect("an emulator")
        };
        let link = |link: &emulator::LinkHandle| {
            let ports = link.ports().a_to_b;
            let [control, data] = [ports.control, ports.data].map(|port| port.expect("it is entered there"));
            let name = link.name();
            format!(
                "[[link]]\na = \"client\"\nb = \"server\"\nname = \"{name}\"\n\
                 b_at = {{ control = \"{control}\", data = \"{data}\" }}\n"
            )
        };
        let links: String = emulator.links().iter().map(link).collect();
        Lossy { scene: Scene::of(server, &links), emulator, _runtime: runtime }
    }
}

/// An address that was free a moment ago: a process of its own is to have it.
fn free_address() -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on loopback");
    socket.local_addr().expect("bound")
}

/// A server and its clients in two processes.
fn exchange_between(runner: Runner<'_>, program: &Path, address: impl Fn() -> String) {
    // Somebody else may have taken the server's port meanwhile.
    for _ in 0..5 {
        let (scene, address) = (Scene::new(), address());
        let Some((mut server, mut told)) = scene.start_server(runner, program, &address) else { continue };
        let client = scene.command(runner, program, &address, "client").output();
        if !client.as_ref().is_ok_and(|client| client.status.success()) {
            server.kill().expect("it was started");
        }
        let rest = rest_of(&mut told);
        holds(&client.expect("it was compiled"));
        let status = server.wait().expect("it was started");
        assert!(status.success() && rest == "all of it holds\n", "the server: {status}\n{rest}");
        return;
    }
    panic!("the server never started");
}

fn over_sessions() -> String {
    "fec://server".to_owned()
}

fn over_quic() -> String {
    format!("quic://server@{}", free_address())
}

/// Whether a program is there that not every machine has; says so if it is not.
fn there_is(program: &str, what: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: there is no {program}, so that {what}");
    }
    found
}

#[test]
fn a_server_and_its_clients_over_memory() {
    let workshop = Workshop::new();
    exchange_within(PLAIN, &workshop.compile("exchange", SHARED), "memory://server");
}

#[test]
fn a_server_and_its_clients_over_many_paths_with_fec() {
    let workshop = Workshop::new();
    exchange_between(PLAIN, &workshop.compile("exchange", SHARED), over_sessions);
}

#[test]
fn a_server_and_its_clients_over_one_quic_connection() {
    let workshop = Workshop::new();
    exchange_between(PLAIN, &workshop.compile("exchange", SHARED), over_quic);
}

/// The order within a pair is that of the posts, whatever the lengths; a message that came twice would be taken for the
/// next one.
#[test]
fn each_message_comes_once_whole_and_in_order_though_packets_are_lost_and_a_link_dies() {
    let workshop = Workshop::new();
    let order = workshop.compile("order", SHARED);
    let started = (0..5).find_map(|_| {
        let lossy = Lossy::new();
        let server = lossy.scene.start_server(PLAIN, &order, &over_sessions())?;
        Some((lossy, server))
    });
    let (lossy, (mut server, mut told)) = started.expect("a server");
    let (mut client, mut words) = start(lossy.scene.command(PLAIN, &order, &over_sessions(), "client"));
    let has_begun = next_line(&mut words) == "ready\n" && next_line(&mut words) == "half\n";
    let dead = lossy.emulator.link("lte").expect("it is emulated");
    let carried = [Direction::AToB, Direction::BToA].map(|direction| dead.counters(direction).delivered);
    dead.kill();
    let ends = [rest_of(&mut words), rest_of(&mut told)];
    let are_well = [&mut client, &mut server].map(|child| child.wait().expect("it was started").success());
    assert!(has_begun && are_well == [true; 2], "{ends:?}");
    assert_eq!(ends, ["all of it holds\n"; 2]);
    assert!(
        carried.into_iter().all(|packets| packets > 100),
        "the link that died carried {carried:?} packets"
    );
    for link in lossy.emulator.links() {
        let lost = [Direction::AToB, Direction::BToA].map(|direction| link.counters(direction).lost);
        assert!(lost.into_iter().all(|packets| packets > 0), "{}: {lost:?}", link.name());
    }
}

#[test]
fn an_address_of_the_process_itself_leads_within() {
    let workshop = Workshop::new();
    let exchange = workshop.compile("exchange", SHARED);
    for address in [over_sessions(), over_quic()] {
        let scene = Scene::new();
        let mut command = command(PLAIN, &exchange);
        command.args([&address, "both"]).env("BMI_CONFIG", scene.folder.path().join("server.toml"));
        holds(&command.output().expect("it was compiled"));
    }
}

#[test]
fn every_function_does_what_the_header_says() {
    let workshop = Workshop::new();
    let everything = workshop.compile("everything", SHARED);
    holds(&command(PLAIN, &everything).output().expect("it was compiled"));
}

/// They were taken from the network, and were gone.
#[test]
fn unexpected_messages_for_which_there_is_no_memory_come_once_there_is() {
    let workshop = Workshop::new();
    let scarce = workshop.compile("scarce", SHARED);
    holds(&command(PLAIN, &scarce).output().expect("it was compiled"));
}

#[test]
fn no_memory_is_lost_or_misused() {
    let workshop = Workshop::new();
    if !there_is("valgrind", "only the compiler's sanitizer watches the programs' memory") {
        return sanitized(&workshop);
    }
    let everything = workshop.compile("everything", SHARED);
    holds(&command(VALGRIND, &everything).output().expect("it was compiled"));
    let exchange = workshop.compile("exchange", SHARED);
    exchange_within(VALGRIND, &exchange, "memory://server");
    let exchange = workshop.compile("exchange", LIGHT);
    exchange_between(VALGRIND_WITH_CIPHERS, &exchange, over_sessions);
    exchange_between(VALGRIND_WITH_CIPHERS, &exchange, over_quic);
}

/// The same by AddressSanitizer, which sees the programs' own accesses and all that is allocated.
fn sanitized(workshop: &Workshop) {
    let probe = workshop.folder.path().join("probe.c");
    fs::write(&probe, "int main(void) { return 0; }\n").expect("possible");
    let mut compiler = Command::new("cc");
    compiler.arg("-fsanitize=address").arg(&probe).arg("-o").arg(workshop.folder.path().join("probe"));
    if !compiler.output().is_ok_and(|output| output.status.success()) {
        return eprintln!(
            "skipped: the compiler has no -fsanitize=address, so that nobody watches the programs' memory"
        );
    }
    let options = [SHARED, &["-fsanitize=address"]].concat();
    let everything = workshop.compile("everything", &options);
    holds(&command(PLAIN, &everything).output().expect("it was compiled"));
    let exchange = workshop.compile("exchange", &options);
    exchange_within(PLAIN, &exchange, "memory://server");
    exchange_between(PLAIN, &exchange, over_sessions);
    exchange_between(PLAIN, &exchange, over_quic);
}

/// What pkg-config says of the library that is installed beneath a folder.
fn ask_pkg_config(prefix: &Path, arguments: &[&str]) -> Vec<String> {
    let output = Command::new("pkg-config")
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .args(arguments)
        .arg("bmi")
        .output()
        .expect("it is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn an_installed_library_is_found_by_pkg_config_shared_and_static() {
    let workshop = Workshop::new();
    let (crate_folder, prefix) =
        (Path::new(env!("CARGO_MANIFEST_DIR")), workshop.folder.path().join("prefix"));
    let installed = Command::new(crate_folder.join("install")).arg(&prefix).arg(library_folder()).output();
    let installed = installed.expect("there is bash");
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    if !there_is("pkg-config", "what it would say is not looked at") {
        return;
    }
    assert_eq!(ask_pkg_config(&prefix, &["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let shared = ask_pkg_config(&prefix, &["--cflags", "--libs"]);
    // Of the static library all that it needs is named; the shared one beside it must not be taken.
    let library = prefix.join("lib/libbmi.a").to_string_lossy().into_owned();
    let all = ask_pkg_config(&prefix, &["--static", "--cflags", "--libs"]);
    let whole = all.into_iter().map(|option| if option == "-lbmi" { library.clone() } else { option });
    for options in [shared, whole.collect()] {
        let program = workshop.folder.path().join("installed");
        let output = Command::new("cc")
            .arg(crate_folder.join("tests/c/everything.c"))
            .arg("-o")
            .arg(&program)
            .args(&options)
            .output()
            .expect("there is a C compiler");
        assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
        let output = Command::new(&program)
            .env("LD_LIBRARY_PATH", prefix.join("lib"))
            .env_remove("BMI_CONFIG")
            .output();
        holds(&output.expect("it was compiled"));
    }
}
