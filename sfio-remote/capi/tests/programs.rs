//! Programs in C against real members on loopback: those of the paper, and one that calls everything.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use fec_transport::io::{EndpointConfig, Sockets};
use fec_transport::keys::{Identity, encode_key};
use fec_transport::overlay::Overlay;
use sfio_remote::io::{MemberConfig, blocking};
use sfio_remote::io_node::{AccessRules, IoNodeConfig, Right};
use tempfile::TempDir;

/// The I/O nodes of the paper's programs, in this process, and the config file of a client.
struct Scene {
    folder: TempDir,
    _io_nodes: Vec<blocking::Member>,
}

const IO_NODES: [&str; 2] = ["t0-p1", "t0-p2"];

fn identity(name: &str) -> Identity {
    Identity::from_seed(blake3::derive_key("sfio-capi 2026 a member of a test", name.as_bytes()))
}

fn entry(name: &str, sockets: Option<&Sockets>) -> String {
    let keys = identity(name).public();
    let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
    let mut text = format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n");
    if let Some(Sockets { control, data }) = sockets {
        let [control, data] = [control, data].map(|socket| socket.local_addr().expect("bound"));
        text += &format!("control = \"{control}\"\ndata = \"{data}\"\n");
    }
    text
}

impl Scene {
    fn new() -> Scene {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let sockets = IO_NODES.map(|_| Sockets::bind(any, any).expect("a free port"));
        let mut text = "serial = 1\n".to_owned() + &entry("client", None);
        text.extend(IO_NODES.iter().zip(&sockets).map(|(name, sockets)| entry(name, Some(sockets))));
        text.extend(IO_NODES.map(|name| format!("[[link]]\na = \"client\"\nb = \"{name}\"\n")));
        let overlay = Arc::new(Overlay::parse(&text).expect("a right overlay"));
        let folder = tempfile::tempdir().expect("a folder");
        let io_nodes = IO_NODES.into_iter().zip(sockets).map(|(name, sockets)| {
            let export = folder.path().join(name);
            fs::create_dir(&export).expect("possible");
            let mut endpoint = EndpointConfig::new(Arc::clone(&overlay), identity(name));
            endpoint.sockets = Some(sockets);
            let access = AccessRules::everyone(Right::ReadWrite);
            let io_node = IoNodeConfig { access, ..IoNodeConfig::default() };
            let config = MemberConfig { export: Some(export), io_node, ..MemberConfig::default() };
            blocking::Member::start(endpoint, config).expect("it starts")
        });
        let _io_nodes = io_nodes.collect();
        let scene = Scene { folder, _io_nodes };
        scene.write("overlay.toml", &text);
        scene.write("key", &identity("client").to_text());
        scene.write("config.toml", "overlay = \"overlay.toml\"\nmember = \"client\"\nkey = \"key\"\n");
        scene
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("possible");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("possible");
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("config.toml")
    }

    fn exported(&self, io_node: &str, path: &str) -> String {
        fs::read_to_string(self.folder.path().join(io_node).join(path)).expect("it was written")
    }

    /// Compiles a program against the library that belongs to this test.
    fn compile(&self, name: &str) -> PathBuf {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = self.folder.path().join(name);
        let output = Command::new("cc")
            .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&program)
            .arg("-I")
            .arg(crate_folder.join("include"))
            .arg(crate_folder.join(format!("tests/c/{name}.c")))
            .arg("-L")
            .arg(library_folder())
            .arg("-lsfio")
            .output()
            .expect("there is a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }
}

/// Cargo puts the library beside the test, or one folder above.
fn library_folder() -> PathBuf {
    let test = std::env::current_exe().expect("this test runs");
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.into_iter().find(|folder| folder.join("libsfio.so").exists());
    found.expect("libsfio.so was built").to_owned()
}

fn start(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env("LD_LIBRARY_PATH", library_folder()).env_remove("SFIO_CONFIG");
    command
}

fn succeeds(mut child: Child) {
    let status = child.wait().expect("it was started");
    assert!(status.success(), "{status}");
}

#[test]
fn the_programs_of_the_paper_leave_what_the_paper_says() {
    let scene = Scene::new();
    let run = |program: &Path, arguments: &[&str]| {
        start(program, arguments).env("SFIO_CONFIG", scene.config()).spawn().expect("it was compiled")
    };
    succeeds(run(&scene.compile("hello"), &[]));
    assert_eq!(scene.exported("t0-p1", "tmp/a1.dat"), "Hellod");
    assert_eq!(scene.exported("t0-p2", "tmp/a2.dat"), " Worl");
    let greetings = scene.compile("greetings");
    let ranks = ["0", "1", "2"].map(|rank| run(&greetings, &[rank]));
    ranks.into_iter().for_each(succeeds);
    assert_eq!(scene.exported("t0-p1", "tmp/a.dat"), "Hellod!*Heorld!o*Wor");
    assert_eq!(scene.exported("t0-p2", "tmp/a.dat"), "*Worlllo*W*Hellld!*");
}

#[test]
fn every_function_does_what_the_header_says() {
    let scene = Scene::new();
    let config = scene.config().to_string_lossy().into_owned();
    let output = start(&scene.compile("everything"), &[&config]).output().expect("it was compiled");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("lseek     0\n") && stdout.ends_with("all of it holds\n"), "{stdout}");
}

#[test]
fn processes_of_a_group_write_one_file_together_and_hear_that_one_was_killed() {
    write_together(None);
}

#[test]
fn processes_that_may_be_on_several_machines_do_so_too() {
    write_together(Some("127.0.0.1"));
}

/// A rank is killed in the end, which the others are told.
fn write_together(host: Option<&str>) {
    const SIZE: usize = 4;
    const VICTIM: usize = 2;
    let scene = Scene::new();
    let meeting = scene.folder.path().join("meeting");
    fs::create_dir(&meeting).expect("possible");
    let program = scene.compile("together");
    let ranks: Vec<Child> = (0..SIZE)
        .map(|rank| {
            let [rank, size, victim] = [rank, SIZE, VICTIM].map(|number| number.to_string());
            let mut command = start(&program, &[&meeting.to_string_lossy(), &rank, &size, &victim]);
            command
                .args(host)
                .env("SFIO_CONFIG", scene.config())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            command.spawn().expect("it was compiled")
        })
        .collect();
    for (rank, child) in ranks.into_iter().enumerate() {
        let output = child.wait_with_output().expect("it was started");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let holds = stdout.ends_with(&format!("rank {rank}: all of it holds\n"));
        assert_eq!((output.status.success(), holds), (rank != VICTIM, rank != VICTIM), "{stdout}{stderr}");
        // One rank prints the counters of all.
        assert_eq!(stdout.contains("ftruncate 0\n"), rank == 0, "{stdout}{stderr}");
    }
    // 50 turns of a record of each rank, 64 bytes of them on each I/O node in turn.
    let turn: String = ["a", "b", "c", "d"].map(|letter| letter.repeat(8)).concat();
    let written = IO_NODES.map(|io_node| scene.exported(io_node, "tmp/g.dat"));
    assert_eq!(written, [turn.repeat(26), turn.repeat(24)]);
}
