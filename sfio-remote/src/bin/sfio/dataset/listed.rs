//! `--files-from`: a list of the only paths that take part.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use sfio_remote::replication::TreePath;

use crate::exit::{Exit, Failure, OrFail as _};

/// The paths that a file lists, or standard input if it is called `-`. Without a list for the whole tree, `.`, there is
/// none.
///
/// # Errors
/// If the file cannot be read, or something in it is no path within a tree.
pub(super) fn read(file: &Path) -> Result<Option<BTreeSet<TreePath>>, Failure> {
    let option = || format!("--files-from {}", file.display());
    let bytes = if file == Path::new("-") { standard_input() } else { fs::read(file) };
    parse(&bytes.or_fail(Exit::Input, option())?)
        .map_err(|wrong| Failure::new(Exit::Input, format!("{}, {wrong}", option())))
}

fn standard_input() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// One path in a line; or between zero bytes, as `find -print0` and `git ls-files -z` write them.
fn parse(bytes: &[u8]) -> Result<Option<BTreeSet<TreePath>>, String> {
    let separator = if bytes.contains(&0) { 0 } else { b'\n' };
    let mut paths = BTreeSet::new();
    for (number, text) in (1..).zip(bytes.split(|byte| *byte == separator)) {
        let names: Vec<&[u8]> =
            text.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && name != b".").collect();
        if text.is_empty() {
            continue;
        }
        if text.starts_with(b"/") {
            let shown = String::from_utf8_lossy(text);
            return Err(format!(
                "line {number}: {shown} begins at the root; expected a path within the source"
            ));
        }
        if names.is_empty() {
            return Ok(None);
        }
        let path = TreePath::new(names.join(&b'/'));
        paths.insert(path.ok_or(format!("line {number}: .. leads out of the source"))?);
    }
    Ok(Some(paths))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<String>, String> {
        let everything = || vec![".".to_owned()];
        parse(text.as_bytes()).map(|paths| {
            paths.map_or_else(everything, |paths| paths.iter().map(ToString::to_string).collect())
        })
    }

    #[test]
    fn a_list_has_a_path_in_each_line_or_between_zero_bytes() {
        assert_eq!(parsed("b/\n./a//c\n\n# d\n"), Ok(vec!["# d".into(), "a/c".into(), "b".into()]));
        assert_eq!(parsed("a\nb\0c\0"), Ok(vec!["a\\nb".into(), "c".into()]));
        assert_eq!(parsed("a\n.\n"), Ok(vec![".".into()]));
        assert_eq!(parsed(""), Ok(vec![]));
    }

    #[test]
    fn what_leads_elsewhere_is_refused_by_its_line() {
        assert!(parsed("a\n/etc/passwd\n").is_err_and(|error| error.starts_with("line 2: /etc/passwd")));
        assert!(parsed("a/../../b").is_err_and(|error| error.starts_with("line 1: ..")));
    }
}
