//! A local overlay in a temporary folder, with its members as processes, which end with it.

#![allow(dead_code, reason = "each file of tests uses its part")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tempfile::TempDir;

/// What `overlay up` says when all members are.
const READY: &str = "members; stop them with Ctrl-C";

/// For whatever should happen at once; only a fault lets anybody wait for so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the program to its end.
pub(crate) fn sfio(arguments: &[&str]) -> Run {
    Run::of(command(arguments).stdin(Stdio::null()).output().expect("the program is there"))
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sfio"));
    command.args(arguments).env_remove("SFIO_CONFIG").env_remove("RUST_LOG");
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// How a run of the program ended.
pub(crate) struct Run(Output);

impl Run {
    fn of(output: Output) -> Run {
        Run(output)
    }

    /// What it wrote to standard output.
    pub(crate) fn stdout(self) -> Vec<u8> {
        assert!(self.0.status.success(), "{}: {}", self.0.status, self.stderr());
        self.0.stdout
    }

    /// It ended well and said nothing: there is no terminal, and was no outage.
    pub(crate) fn succeeds(self) {
        assert!(self.0.status.success(), "{}: {}", self.0.status, self.stderr());
        assert_eq!(self.stderr(), "");
    }

    /// The same as text, however it ended.
    pub(crate) fn printed(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    /// What it wrote to standard error.
    pub(crate) fn said(&self) -> String {
        self.stderr()
    }

    /// It ended with that code and words; in one line unless the command line itself was wrong.
    pub(crate) fn fails_with(self, code: i32, words: &str) {
        let stderr = self.stderr();
        assert_eq!(self.0.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
        let complaints = stderr.lines().filter(|line| line.starts_with("sfio: ")).count();
        assert_eq!(complaints, usize::from(code != 2), "{stderr}");
    }

    /// It ended with that code, and among its words are these.
    pub(crate) fn ends_with(self, code: i32, words: &str) {
        let stderr = self.stderr();
        assert_eq!(self.0.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }
}

/// A run of the program that goes on.
pub(crate) struct Running(Child);

impl Running {
    fn end(self) -> Run {
        Run::of(self.0.wait_with_output().expect("it was started"))
    }

    pub(crate) fn succeeds(self) {
        self.end().succeeds();
    }

    /// Kills it; gives whether it had already ended well by then.
    pub(crate) fn kill(mut self) -> bool {
        // It may have ended.
        let _ = self.0.kill();
        self.0.wait().expect("it was started").success()
    }

    /// Whether it ends well.
    pub(crate) fn ends_well(self) -> bool {
        self.end().0.status.success()
    }

    pub(crate) fn fails_with(self, code: i32, words: &str) {
        self.end().fails_with(code, words);
    }
}

/// A run of the program that goes on, and what it has said so far.
pub(crate) struct Logged {
    process: Child,
    words: Arc<Words>,
}

impl Logged {
    fn listen(command: &mut Command) -> Logged {
        let mut process = command.spawn().expect("the program is there");
        let words = Arc::new(Words::default());
        words.collect(process.stderr.take().expect("it is piped"));
        Logged { process, words }
    }

    /// Waits for a line with these words, and gives it.
    pub(crate) fn wait_for_words(&self, words: &str) -> String {
        self.words.wait_for(words)
    }

    /// How many lines with these words it has said so far.
    pub(crate) fn count_of(&self, words: &str) -> usize {
        let lines = self.words.lines.lock().expect("nobody panics");
        lines.iter().filter(|line| line.contains(words)).count()
    }

    pub(crate) fn succeeds(self) {
        self.ends_with(0);
    }

    /// A user presses Ctrl-C, which is to end it with that code.
    pub(crate) fn interrupt(self, code: i32) {
        let kill = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status();
        assert!(kill.expect("kill is there").success());
        self.ends_with(code);
    }

    fn ends_with(mut self, code: i32) {
        let status = self.process.wait().expect("it was started");
        let lines = self.words.lines.lock().expect("nobody panics");
        assert_eq!(status.code(), Some(code), "{status}: {lines:#?}");
    }
}

/// A member that was started by hand; it is killed when dropped.
pub(crate) struct Member(pub(crate) Child);

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An overlay that is up.
pub(crate) struct LocalOverlay {
    folder: TempDir,
    up: Child,
    words: Arc<Words>,
}

/// The lines that somebody has written so far.
#[derive(Default)]
struct Words {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl Words {
    fn collect(self: &Arc<Words>, from: impl std::io::Read + Send + 'static) {
        let words = Arc::clone(self);
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                words.lines.lock().expect("nobody panics").push(line);
                words.more.notify_all();
            }
        });
    }

    /// Waits for a line with these words.
    fn wait_for(&self, words: &str) -> String {
        self.wait_for_one(&[words])
    }

    /// Waits for a line with some of these words.
    fn wait_for_one(&self, words: &[&str]) -> String {
        let lines = self.lines.lock().expect("nobody panics");
        let has = |line: &&String| words.iter().any(|words| line.contains(words));
        let missing = |lines: &mut Vec<String>| !lines.iter().any(|line| has(&line));
        let (lines, waited) = self.more.wait_timeout_while(lines, PATIENCE, missing).expect("nobody panics");
        assert!(!waited.timed_out(), "{words:?} is not in {lines:#?}");
        lines.iter().find(has).expect("it was waited for").clone()
    }
}

impl LocalOverlay {
    /// Makes an overlay and waits until all of its members are ready. Somebody else on this machine may take one of its
    /// ports meanwhile; then another one is made.
    pub(crate) fn up(options: &[&str]) -> LocalOverlay {
        let mut attempts = (0..5).filter_map(|_| LocalOverlay::try_up(options));
        attempts.next().expect("not all ports are taken again and again")
    }

    fn try_up(options: &[&str]) -> Option<LocalOverlay> {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().to_string_lossy().into_owned();
        sfio(&[&["overlay", "new", &dir], options].concat()).succeeds();
        let mut up = command(&["overlay", "up", &dir])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is there");
        let words = Arc::new(Words::default());
        words.collect(up.stdout.take().expect("it is piped"));
        words.collect(up.stderr.take().expect("it is piped"));
        let overlay = LocalOverlay { folder, up, words };
        let first = overlay.words.wait_for_one(&[READY, "Address already in use", "is in use by another"]);
        first.contains(READY).then_some(overlay)
    }

    /// The code with which `overlay up` ends by itself.
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.up.wait().expect("it was started").code()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until `overlay up` says that.
    pub(crate) fn wait_for_words(&self, words: &str) {
        self.words.wait_for(words);
    }

    /// A command as the overlay's client.
    pub(crate) fn client(&self, arguments: &[&str]) -> Run {
        sfio(&[arguments, &["--overlay", &self.folder().to_string_lossy()]].concat())
    }

    /// What a command shows on a terminal with so many columns.
    pub(crate) fn client_on_terminal(&self, columns: u32, command: &str) -> String {
        let (program, folder) = (env!("CARGO_BIN_EXE_sfio"), self.folder().display());
        let line = format!("stty cols {columns} rows 24; exec '{program}' {command} --overlay '{folder}'");
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).env_remove("SFIO_CONFIG");
        script.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        Run::of(script.output().expect("util-linux has it")).printed()
    }

    /// The same on a machine that has never seen a data set.
    pub(crate) fn fresh_client(&self, arguments: &[&str]) -> Run {
        let cache = tempfile::tempdir().expect("a folder");
        let folder = self.folder().to_string_lossy();
        let mut command = command(&[arguments, &["--overlay", &folder]].concat());
        let command = command.env("XDG_CACHE_HOME", cache.path()).stdin(Stdio::null());
        Run::of(command.output().expect("the program is there"))
    }

    /// The same with a variable of the environment.
    pub(crate) fn client_with(&self, variable: &str, value: &str, arguments: &[&str]) -> Run {
        let mut command = command(&[arguments, &["--overlay", &self.folder().to_string_lossy()]].concat());
        let command = command.env(variable, value).stdin(Stdio::null());
        Run::of(command.output().expect("the program is there"))
    }

    /// The same, going on.
    pub(crate) fn begin(&self, arguments: &[&str]) -> Running {
        let folder = self.folder().to_string_lossy();
        let mut command = command(&[arguments, &["--overlay", &folder]].concat());
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().expect("the program is there"))
    }

    pub(crate) fn put(&self, data: &[u8], name: &str, options: &[&str]) -> Run {
        self.spawn_put(data, name, options).end()
    }

    /// Begins to store `data`.
    pub(crate) fn begin_put(&self, data: &[u8], name: &str) -> Running {
        self.spawn_put(data, name, &[])
    }

    pub(crate) fn begin_put_with(&self, data: &[u8], name: &str, options: &[&str]) -> Running {
        self.spawn_put(data, name, options)
    }

    /// Begins a command as the overlay's client, and listens to its log.
    pub(crate) fn begin_logged(&self, arguments: &[&str]) -> Logged {
        let folder = self.folder().to_string_lossy();
        let mut command = command(&[arguments, &["--overlay", &folder]].concat());
        Logged::listen(command.env("RUST_LOG", "info").stdin(Stdio::null()).stderr(Stdio::piped()))
    }

    /// Begins a command as the overlay's client, and listens to what it says to whoever asks for no log.
    pub(crate) fn begin_heard(&self, arguments: &[&str]) -> Logged {
        let folder = self.folder().to_string_lossy();
        let mut command = command(&[arguments, &["--overlay", &folder]].concat());
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Logged::listen(command)
    }

    /// Sends a signal to the process that all emulated links pass through.
    pub(crate) fn signal_links(&self, signal: &str) {
        let kill = Command::new("kill").args([signal, &self.up.id().to_string()]).status();
        assert!(kill.expect("kill is there").success());
    }

    fn spawn_put(&self, data: &[u8], name: &str, options: &[&str]) -> Running {
        let dir = self.folder().to_string_lossy();
        let mut put = command(&[&["put", "--overlay", &dir, "-", name], options].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is there");
        let (mut stdin, data) = (put.stdin.take().expect("it is piped"), data.to_vec());
        // One that fails early takes no more.
        std::thread::spawn(move || drop(stdin.write_all(&data)));
        Running(put)
    }

    pub(crate) fn get(&self, name: &str, options: &[&str]) -> Run {
        self.client(&[&["get", name, "-"], options].concat())
    }

    /// What an I/O node serves.
    pub(crate) fn export(&self, io_node: &str) -> PathBuf {
        self.folder().join(io_node).join("export")
    }

    /// A subfile as it lies on the disk.
    pub(crate) fn exported(&self, io_node: &str, path: &str) -> Vec<u8> {
        fs::read(self.export(io_node).join(path)).expect("it was stored")
    }

    /// What lies in an export root, beside what is the I/O node's own.
    pub(crate) fn exported_names(&self, io_node: &str) -> Vec<String> {
        let entries = fs::read_dir(self.export(io_node)).expect("it is there");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("readable").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.retain(|name| name != ".sfio");
        names.sort();
        names
    }

    /// Waits until a subfile has its first bytes, or, if the path is that of a folder, one in it.
    pub(crate) fn wait_for_file(&self, io_node: &str, path: &str) {
        self.wait_for_file_on_any(&[io_node], path);
    }

    /// The same on any of these I/O nodes.
    pub(crate) fn wait_for_file_on_any(&self, io_nodes: &[&str], path: &str) {
        let paths: Vec<PathBuf> = io_nodes.iter().map(|io_node| self.export(io_node).join(path)).collect();
        let has_bytes = |path: &Path| fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() > 0);
        let has_file = |path: &Path| {
            let entries = fs::read_dir(path).into_iter().flatten();
            entries.filter_map(Result::ok).any(|entry| has_bytes(&entry.path()))
        };
        let found = comes_true(|| paths.iter().any(|path| has_bytes(path) || has_file(path)));
        assert!(found, "none of {paths:?} appears");
    }

    /// Sends a signal to the member with that name. One that is killed has gone when this returns: its addresses are
    /// free.
    pub(crate) fn signal(&self, name: &str, signal: &str) {
        let ready = self.words.wait_for(&format!("{name} is ready: process "));
        let process = ready.split(&[' ', ','][..]).nth(4).expect("its number follows");
        let takes = |signal| {
            let kill = Command::new("kill").args([signal, process]).stderr(Stdio::null()).status();
            kill.expect("there is a kill").success()
        };
        assert!(takes(signal), "{ready}");
        assert!(signal != "-KILL" || comes_true(|| !takes("-0")), "{name} is still there");
    }

    /// Starts a member that is not running, and waits until it is ready.
    pub(crate) fn start_by_hand(&self, name: &str) -> Member {
        self.start_with(name, &[]).0
    }

    /// The same with further options; also gives what it says when it is ready.
    pub(crate) fn start_with(&self, name: &str, options: &[&str]) -> (Member, String) {
        let config = self.config(name);
        let mut member = command(&[&["member", "--config", &config], options].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program is there");
        let words = Arc::new(Words::default());
        words.collect(member.stdout.take().expect("it is piped"));
        let member = Member(member);
        let ready = words.wait_for("is ready");
        (member, ready)
    }

    /// The config file of a member.
    pub(crate) fn config(&self, name: &str) -> String {
        self.folder().join(name).join("config.toml").to_string_lossy().into_owned()
    }

    /// Changes the overlay file.
    pub(crate) fn edit_overlay(&self, edit: impl FnOnce(String) -> String) {
        let file = self.folder().join("overlay.toml");
        let text = fs::read_to_string(&file).expect("it is there");
        fs::write(file, edit(text)).expect("it can be written");
    }
}

impl Drop for LocalOverlay {
    fn drop(&mut self) {
        // The members' standard inputs end with it.
        let _ = self.up.kill();
        let _ = self.up.wait();
    }
}

/// Whether a condition is true before patience ends.
fn comes_true(mut condition: impl FnMut() -> bool) -> bool {
    let pause = Duration::from_millis(5);
    let tries = PATIENCE.as_millis() / pause.as_millis();
    (0..tries).any(|_| {
        condition() || {
            std::thread::sleep(pause);
            false
        }
    })
}

/// Takes the first control address of an overlay file away from its member.
pub(crate) fn occupy_an_address(overlay: &Path) -> UdpSocket {
    let text = fs::read_to_string(overlay).expect("it is there");
    let address = text.lines().find_map(|line| line.strip_prefix("control = ")).expect("a member listens");
    UdpSocket::bind(address.trim_matches('"')).expect("it is free")
}
