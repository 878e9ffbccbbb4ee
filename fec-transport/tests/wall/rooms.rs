//! Types as rooms, read from the sources: where a type's `impl` blocks stand, how many fields it has, and who may touch
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::arrows::module_of;

/// A struct of the sources.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) fields: Vec<Field>,
    /// The files in which its own `impl` blocks stand; those of traits do not count.
    pub(crate) impls: BTreeSet<PathBuf>,
    pub(crate) methods: usize,
    /// Whether a method changes it.
    pub(crate) is_changed_by_methods: bool,
    /// Whether it is what a program was told on its command line.
    pub(crate) is_arguments: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// Whether other modules see it.
    pub(crate) is_visible: bool,
}

/// Why a type is no room.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Its `impl` blocks stand in more than two files.
    Spread(BTreeSet<PathBuf>),
    /// It has too many fields.
    Large(usize),
    /// It has methods that change it, and fields that other modules can touch without them.
    Open(Vec<String>),
    /// A file without an `impl` of it, beneath the module that defines it, touches these of its fields.
    Entered(PathBuf, BTreeSet<String>),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Spread(files) => {
                let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
                write!(f, "its impl blocks stand in {} files: {}", files.len(), files.join(", "))
            }
            Fault::Large(fields) => write!(f, "it has {fields} fields; at most {MAX_FIELDS} are one room"),
            Fault::Open(fields) => {
                write!(f, "it has methods that change it, and open fields: {}", fields.join(", "))
            }
            Fault::Entered(file, fields) => {
                write!(f, "{} touches its fields {fields:?}", file.display())
            }
        }
    }
}

/// Fields of a type that is not plain data.
const MAX_FIELDS: usize = 20;
const MAX_FILES: usize = 2;

/// All structs with named fields in `sources`, which are relative files and their text without comments, literals and
/// tests.
pub(crate) fn rooms(sources: &[(PathBuf, String)]) -> Vec<Room> {
    let mut rooms: Vec<Room> = sources.iter().flat_map(|(file, code)| structs(file, code)).collect();
    for (file, code) in sources {
        for (name, body) in impls(code) {
            let Some(room) = owner(&mut rooms, name, file, code) else { continue };
            room.impls.insert(file.clone());
            room.methods += body.matches("fn ").count();
            room.is_changed_by_methods |= body.contains("&mut self");
        }
    }
    rooms
}

/// What keeps a type from being a room.
pub(crate) fn faults(room: &Room, all: &[Room], sources: &[(PathBuf, String)]) -> Vec<Fault> {
    let mut faults = Vec::new();
    if room.impls.len() > MAX_FILES {
        faults.push(Fault::Spread(room.impls.clone()));
    }
    let open: Vec<String> =
        room.fields.iter().filter(|field| field.is_visible).map(|field| field.name.clone()).collect();
    let is_plain_data = open.len() == room.fields.len() || room.is_arguments;
    if room.fields.len() > MAX_FIELDS && !is_plain_data {
        faults.push(Fault::Large(room.fields.len()));
    }
    if room.is_changed_by_methods && !open.is_empty() {
        faults.push(Fault::Open(open));
    }
    let module = module_of(&room.file);
    let beneath = sources.iter().filter(|(file, _)| {
        let other = module_of(file);
        other.len() > module.len() && other.starts_with(&module) && !room.impls.contains(file)
    });
    if room.is_changed_by_methods && !room.is_arguments {
        let own = own_names(room, all);
        for (file, code) in beneath {
            let touched: BTreeSet<String> =
                own.iter().filter(|name| touches(code, name)).map(|name| (*name).to_owned()).collect();
            if !touched.is_empty() {
                faults.push(Fault::Entered(file.clone(), touched));
            }
        }
    }
    faults
}

/// The hidden fields of `room` whose names no other type has: only of these can the text tell whose they are.
fn own_names<'a>(room: &'a Room, all: &[Room]) -> Vec<&'a str> {
    let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
    all.iter().flat_map(|room| &room.fields).for_each(|field| *owners.entry(&field.name).or_default() += 1);
    let hidden = room.fields.iter().filter(|field| !field.is_visible).map(|field| field.name.as_str());
    hidden.filter(|name| owners.get(name) == Some(&1)).collect()
}

/// Whether the code reads or assigns a field of that name.
fn touches(code: &str, name: &str) -> bool {
    let access = format!(".{name}");
    code.match_indices(&access).any(|(at, _)| {
        let after = code[at + access.len()..].chars().next();
        let before = code[..at].chars().next_back();
        let ends = !after.is_some_and(|after| after.is_alphanumeric() || after == '_' || after == '(');
        ends && before.is_some_and(|before| before.is_alphanumeric() || "_)]?".contains(before))
    })
}

/// The struct that an `impl` block in `file` is of: the one of that name in this file, or else in the nearest module
/// above it; none if the file has an enum or a tuple of that name.
fn owner<'a>(rooms: &'a mut [Room], name: &str, file: &Path, code: &str) -> Option<&'a mut Room> {
    let has_fields = rooms.iter().any(|room| room.name == name && room.file == file);
    if !has_fields && lines(code).any(|(line, _)| declared(line) == Some(name)) {
        return None;
    }
    let module = module_of(file);
    let shared = |room: &Room| {
        let other = module_of(&room.file);
        other.iter().zip(&module).take_while(|(a, b)| a == b).count()
    };
    let named = rooms.iter_mut().filter(|room| room.name == name);
    named.max_by_key(|room| (room.file == file, shared(room)))
}

fn structs(file: &Path, code: &str) -> Vec<Room> {
    let mut rooms = Vec::new();
    for (line, at) in lines(code) {
        let Some(name) = declared(line).filter(|_| line.contains("struct ")) else { continue };
        let item = &code[at..];
        let (Some(brace), end) = (item.find('{'), item.find(';').unwrap_or(item.len())) else { continue };
        if end < brace {
            continue;
        }
        let attributes = &code[code[..at].rfind("\n}").unwrap_or(0)..at];
        rooms.push(Room {
            name: name.to_owned(),
            file: file.to_owned(),
            fields: fields(block(&item[brace..])),
            impls: BTreeSet::new(),
            methods: 0,
            is_changed_by_methods: false,
            is_arguments: ["Args", "Parser"].iter().any(|derived| attributes.contains(derived)),
        });
    }
    rooms
}

/// The name of the struct or enum that is declared in a line, which is not indented.
fn declared(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = if line.starts_with("pub(") { line.split_once(") ")?.1 } else { line };
    let rest = line.strip_prefix("struct ").or_else(|| line.strip_prefix("enum "))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Each field stands on a line of its own, indented once: rustfmt sees to it.
fn fields(body: &str) -> Vec<Field> {
    let field = |line: &str| {
        let line = line.strip_prefix("    ").filter(|line| !line.starts_with([' ', '#', '}', ')']))?;
        let is_visible = line.starts_with("pub");
        let (before, _) = line.split_once(": ").or_else(|| line.split_once(":\n"))?;
        let name = before.rsplit(' ').next()?.to_owned();
        Some(Field { name, is_visible })
    };
    body.lines().filter_map(field).collect()
}

/// The names and bodies of the `impl` blocks that are of no trait.
fn impls(code: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (line, at) in lines(code) {
        let Some(rest) = line.strip_prefix("impl") else { continue };
        let item = &code[at..];
        let Some(brace) = item.find('{') else { continue };
        if !rest.starts_with([' ', '<']) || item[..brace].contains(" for ") {
            continue;
        }
        let head = item["impl".len()..brace].trim_start();
        let head = if head.starts_with('<') { &head[angle(head)..] } else { head }.trim_start();
        let name = head.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        found.push((name, block(&item[brace..])));
    }
    found
}

/// Where the angle brackets that open `text` end.
fn angle(text: &str) -> usize {
    let mut depth = 0_i32;
    let end = text.char_indices().find(|(_, character)| {
        depth += match character {
            '<' => 1,
            '>' => -1,
            _ => 0,
        };
        depth == 0
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// The text within the braces that open `text`.
fn block(text: &str) -> &str {
    let mut depth = 0_i32;
    let end = text.char_indices().find(|(_, character)| {
        depth += match character {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        depth == 0
    });
    &text[1..end.map_or(text.len(), |(at, _)| at)]
}

/// The lines of the code, and where each begins.
fn lines(code: &str) -> impl Iterator<Item = (&str, usize)> {
    let start = code.as_ptr() as usize;
    code.lines().map(move |line| (line, line.as_ptr() as usize - start))
}
