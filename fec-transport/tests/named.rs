//! Documents that promise something name the tests that hold it: each of these tests is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The documents, from the root of the workspace, and how many different tests each names at least.
const DOCUMENTS: [(&str, usize); 2] = [("docs/security.md", 60), ("docs/attacks.md", 30)];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names of all functions in the sources beneath a folder.
fn functions(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("readable").path();
        let is_hidden =
            path.file_name().is_some_and(|name| name == "target" || name.as_encoded_bytes()[0] == b'.');
        if path.is_dir() && !is_hidden {
            functions(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a text");
            let behind = text.split("fn ").skip(1);
            names.extend(behind.filter_map(|rest| Some(rest.split_once(['(', '<'])?.0.to_owned())));
        }
    }
}

/// What stands behind the last `::` of each code span that has one; a span may go on in the next line.
fn named(document: &str) -> BTreeSet<String> {
    let spans = document.split('`').skip(1).step_by(2);
    let tests = spans.filter_map(|span| Some(span.rsplit_once("::")?.1.trim().to_owned()));
    tests.filter(|name| !name.contains('…')).collect()
}

#[test]
fn each_test_that_a_document_names_is_there() {
    let mut all = BTreeSet::new();
    functions(&workspace(), &mut all);
    for (document, least) in DOCUMENTS {
        let named = named(&fs::read_to_string(workspace().join(document)).expect("a document"));
        let missing: Vec<&String> = named.iter().filter(|name| !all.contains(*name)).collect();
        assert!(missing.is_empty(), "{document} names {missing:?}, which no file has");
        assert!(named.len() >= least, "{document} names {} tests only", named.len());
    }
}

#[test]
fn what_is_not_there_is_found() {
    let text = "| x | `a.rs::there`, `…::not_there` and `b.rs::\nfolded` | `…/c.rs::d…` `Plain` |";
    assert_eq!(named(text).into_iter().collect::<Vec<_>>(), ["folded", "not_there", "there"]);
}
