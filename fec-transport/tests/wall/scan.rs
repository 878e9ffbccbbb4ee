//! Looks through source files for what belongs behind the wall (design §2): sockets, files, clocks, tasks, unseeded
//! randomness. Used by the wall tests of fec-transport and sfio-remote.
//!
//! It reads the text, not the meaning: comments and literals are blanked, items under `#[cfg(test)]` are left out, and
//! what remains is searched for words and paths. Somebody who wants to deceive it can; somebody who forgets the wall is
//! caught.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// What protocol logic does without, and why.
///
/// A rule with `::` matches that path, any other matches a whole word. `core::net` has addresses only and is allowed.
pub(crate) const RULES: &[(&str, &str)] = &[
    ("std::net", "sockets live in io/ (addresses are in core::net)"),
    ("std::fs", "files live in io/"),
    ("std::os", "the operating system is io/'s affair"),
    ("std::env", "the environment is the program's affair"),
    ("std::process", "processes are the program's affair"),
    ("std::thread", "threads live in io/"),
    ("thread::sleep", "time is an argument"),
    ("ToSocketAddrs", "it asks a name server"),
    ("UdpSocket", "sockets live in io/"),
    ("TcpStream", "sockets live in io/"),
    ("TcpListener", "sockets live in io/"),
    ("Instant", "time is an argument"),
    ("SystemTime", "time is an argument"),
    ("UNIX_EPOCH", "time is an argument"),
    ("stdin", "input is an argument"),
    ("stdout", "output is a result"),
    ("stderr", "output is a result"),
    ("println", "output is a result; events for people go to tracing"),
    ("eprintln", "output is a result; events for people go to tracing"),
    ("async", "tasks live in io/"),
    ("await", "tasks live in io/"),
    ("tokio", "tasks live in io/"),
    ("quinn", "the control plane's connections live in io/"),
    ("quinn_udp", "sockets live in io/"),
    ("rustls", "the control plane's connections live in io/"),
    ("socket2", "sockets live in io/"),
    ("rustix", "files live in io/"),
    ("libc", "the operating system is io/'s affair"),
    ("tempfile", "files live in io/"),
    ("rand", "randomness comes from a seed"),
    ("thread_rng", "randomness comes from a seed"),
    ("getrandom", "randomness comes from a seed"),
    ("OsRng", "randomness comes from a seed"),
    ("SystemRandom", "randomness comes from a seed"),
    ("from_os_rng", "randomness comes from a seed"),
    ("RandomState", "randomness comes from a seed"),
    ("HashMap", "its order is random; use BTreeMap"),
    ("HashSet", "its order is random; use BTreeSet"),
    ("clippy::disallowed_methods", "only io/ looks at a clock"),
    ("clippy::disallowed_types", "the order of a hashed map is random"),
];

/// The modules of `std` that a rule names, for `use std::{fs, net::UdpSocket}`.
const STD_MODULES: [&str; 6] = ["net", "fs", "os", "env", "process", "thread"];

/// A place where a rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) why: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: `{}`: {}", self.file.display(), self.line, self.what, self.why)
    }
}

/// Searches all Rust files beneath `src`, but for the folders `outside` (relative to it), by [`RULES`] and `more`.
pub(crate) fn scan(src: &Path, outside: &[&str], more: &[(&'static str, &'static str)]) -> Vec<Finding> {
    sources(src, outside).iter().flat_map(|(file, code)| search(file, code, more)).collect()
}

/// All Rust files beneath `src`, relative to it, but for the folders `outside` and for tests; of each the text without
/// comments, literals and tests.
pub(crate) fn sources(src: &Path, outside: &[&str]) -> Vec<(PathBuf, String)> {
    let mut sources = Vec::new();
    let mut tests = Vec::new();
    for file in rust_files(src) {
        let relative = file.strip_prefix(src).expect("it was found there").to_owned();
        if outside.iter().any(|folder| relative.starts_with(folder)) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let (code, test_modules) = without_tests(&blanked(&text));
        tests.extend(test_modules.iter().map(|name| module_place(&relative, name)));
        sources.push((relative, code));
    }
    assert!(!sources.is_empty(), "nothing to search beneath {}", src.display());
    sources.retain(|(file, _)| !tests.iter().any(|test| file.with_extension("").starts_with(test)));
    sources
}

/// Searches one file whose comments, literals and tests are gone.
pub(crate) fn search(file: &Path, code: &str, more: &[(&'static str, &'static str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (what, why) in RULES.iter().chain(more).copied() {
        for at in occurrences(code, what) {
            findings.push(Finding { file: file.to_owned(), line: line_of(code, at), what: what.into(), why });
        }
    }
    for at in occurrences(code, "use std::") {
        let statement = code[at..].split(';').next().unwrap_or_default();
        let braces = statement.find('{').map_or("", |brace| &statement[brace..]);
        for module in STD_MODULES.into_iter().filter(|module| !occurrences(braces, module).is_empty()) {
            let what = format!("use std::{{{module}}}");
            findings.push(Finding {
                file: file.to_owned(),
                line: line_of(code, at),
                what,
                why: "it belongs to io/",
            });
        }
    }
    findings
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry of the folder").path()).collect();
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Where `mod name;` in `file` leads, without extension.
fn module_place(file: &Path, name: &str) -> PathBuf {
    let is_root = ["lib.rs", "main.rs", "mod.rs"].iter().any(|root| file.ends_with(root));
    let folder = if is_root { file.parent().expect("a file").to_owned() } else { file.with_extension("") };
    folder.join(name)
}

/// Where `what` stands in `code` as a whole word or path.
pub(crate) fn occurrences(code: &str, what: &str) -> Vec<usize> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let stands_alone = |at: usize| {
        let before = code[..at].chars().next_back();
        let after = code[at + what.len()..].chars().next().filter(|_| !what.ends_with(':'));
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    };
    code.match_indices(what).map(|(at, _)| at).filter(|at| stands_alone(*at)).collect()
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// The text with its comments and literals replaced by blanks; lines stay where they are.
pub(crate) fn blanked(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let length = skipped(&characters[at..], at.checked_sub(1).map(|before| characters[before]));
        if length == 0 {
            out.push(characters[at]);
            at += 1;
        } else {
            out.extend(characters[at..at + length].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at += length;
        }
    }
    out
}

/// How many characters the comment or literal has that begins here; 0 if none does.
fn skipped(rest: &[char], before: Option<char>) -> usize {
    let in_word = before.is_some_and(|character| character.is_alphanumeric() || character == '_');
    match rest {
        ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment(rest),
        ['"', ..] => quoted(rest, '"'),
        ['r', '"' | '#', ..] if !in_word || before == Some('b') => raw_string(rest),
        ['\'', '\\', ..] => quoted(rest, '\''),
        ['\'', _, '\'', ..] => 3,
        _ => 0,
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`; 0 for a raw identifier.
fn raw_string(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body = 2 + hashes;
    let found = rest[body..].windows(end.len()).position(|window| window == end);
    found.map_or(rest.len(), |found| body + found + end.len())
}

/// Blanks the items that are compiled for tests only; gives the names of the modules among them that are files of their
/// own, too.
pub(crate) fn without_tests(code: &str) -> (String, Vec<String>) {
    const MARKS: [&str; 2] = ["#[cfg(test)]", "#[cfg(all(test,"];
    let (mut out, mut modules, mut rest) = (String::new(), Vec::new(), code);
    while let Some(at) = MARKS.iter().filter_map(|mark| rest.find(mark)).min() {
        let mark = rest[at..].find(']').map_or(rest.len() - at, |end| end + 1);
        let item = &rest[at + mark..];
        let length = item_length(item);
        let words: Vec<&str> = item[..length].trim_end_matches(';').split_whitespace().collect();
        if let [.., "mod", name] = words[..] {
            modules.push(name.to_owned());
        }
        out.push_str(&rest[..at]);
        out.extend(rest[at..at + mark + length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &item[length..];
    }
    out.push_str(rest);
    (out, modules)
}

/// Up to the item's `;` or closing brace, or to the end of the line of a field.
fn item_length(item: &str) -> usize {
    let name = item.split_whitespace().find(|word| !word.starts_with("pub"));
    if name.is_some_and(|name| name.ends_with(':')) {
        return item.find(",\n").map_or(item.len(), |comma| comma + 1);
    }
    let mut depth = 0_usize;
    for (at, character) in item.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}
