//! Which folder imports which, read from the sources.
//!
//! A folder here is a module of the crate's root with all that lies beneath it, whether it is a folder or one file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::scan::occurrences;

/// For each folder the folders that it names, by `crate::` or by as many `super::` as lead there.
pub(crate) type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The arrows between the folders beneath `root`, a module path such as `["session"]`; all of the crate if it is empty.
/// `sources` are files relative to `src` and their text without comments, literals and tests.
pub(crate) fn arrows(sources: &[(PathBuf, String)], root: &[&str]) -> Arrows {
    let mut arrows = Arrows::new();
    for (file, code) in sources {
        let module = module_of(file);
        let Some(folder) = folder_beneath(&module, root) else { continue };
        let found = arrows.entry(folder.to_owned()).or_default();
        let targets = named(code, &module);
        found.extend(targets.iter().filter_map(|target| folder_beneath(target, root)).map(str::to_owned));
        found.remove(folder);
    }
    let folders: BTreeSet<String> = arrows.keys().cloned().collect();
    // What is no folder is an item of the root itself.
    arrows.values_mut().for_each(|targets| targets.retain(|target| folders.contains(target)));
    arrows
}

/// The module path of a file: `session/rate/mod.rs` is `["session", "rate"]`.
pub(crate) fn module_of(file: &Path) -> Vec<String> {
    let mut module: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

fn folder_beneath<'a>(module: &'a [String], root: &[&str]) -> Option<&'a str> {
    let is_beneath = module.len() > root.len() && module.iter().zip(root).all(|(part, root)| part == root);
    is_beneath.then(|| module[root.len()].as_str())
}

/// All module paths that the code of `module` names, without what is imported in braces below the first name.
fn named(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut targets = Vec::new();
    for at in occurrences(code, "crate::") {
        targets.extend(paths(&code[at + "crate::".len()..], &[]));
    }
    for at in occurrences(code, "super::") {
        // The inner ones of a chain `super::super::` are part of the first.
        if code[..at].ends_with("super::") {
            continue;
        }
        let chain = code[at..].split("super::").take_while(|before| before.is_empty()).count();
        let base = &module[..module.len().saturating_sub(chain)];
        targets.extend(paths(&code[at + chain * "super::".len()..], base));
    }
    targets
}

/// The paths that begin here, beneath `base`: one, or several in braces.
fn paths(rest: &str, base: &[String]) -> Vec<Vec<String>> {
    let Some(inner) = rest.strip_prefix('{') else { return vec![path(rest, base)] };
    let mut depth = 0_usize;
    let end = inner.find(|character| match character {
        '{' => {
            depth += 1;
            false
        }
        '}' if depth == 0 => true,
        '}' => {
            depth -= 1;
            false
        }
        _ => false,
    });
    let inner = &inner[..end.unwrap_or(inner.len())];
    inner.split(',').map(|name| path(name.trim(), base)).collect()
}

fn path(text: &str, base: &[String]) -> Vec<String> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    let end = text.find(|character| !is_part(character)).unwrap_or(text.len());
    let parts = text[..end].split("::").filter(|part| !part.is_empty()).map(str::to_owned);
    base.iter().cloned().chain(parts).collect()
}

/// The arrows as lines of text.
pub(crate) fn show(arrows: &Arrows) -> String {
    let line = |(folder, targets): (&String, &BTreeSet<String>)| {
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        format!("  {folder:<14} → {}\n", if targets.is_empty() { "—".to_owned() } else { targets.join(", ") })
    };
    arrows.iter().map(line).collect()
}
