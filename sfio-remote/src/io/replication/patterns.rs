//! Patterns as in `.gitignore`, with the meaning that they have to git.

use std::ffi::OsStr;
use std::iter::Peekable;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::str::Chars;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Patterns of one place: the command line, or a file in a directory. The last one that matches counts.
#[derive(Debug, Clone)]
pub(super) struct Patterns(Gitignore);

/// Why a pattern is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{pattern}\" is no pattern as in .gitignore: {why}")]
pub struct BadPattern {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

impl Patterns {
    /// No pattern at all.
    pub(super) fn none() -> Patterns {
        Patterns(Gitignore::empty())
    }

    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The patterns of a file's lines.
    ///
    /// # Errors
    /// If one of the lines is no pattern.
    pub(super) fn new(lines: impl IntoIterator<Item = String>) -> Result<Patterns, BadPattern> {
        let mut builder = GitignoreBuilder::new("");
        for line in lines {
            let bad = |why: String| BadPattern { pattern: line.clone(), why };
            let written = as_in_git(&line).map_err(bad)?;
            builder.add_line(None, &written).map_err(|error| bad(error.to_string()))?;
        }
        let bad = |error: ignore::Error| BadPattern { pattern: String::new(), why: error.to_string() };
        Ok(Patterns(builder.build().map_err(bad)?))
    }

    /// Whether they leave out what is at `path`, seen from the directory that they stand in; none if none of them
    /// matches.
    pub(super) fn exclude(&self, path: &[u8], is_directory: bool) -> Option<bool> {
        match self.0.matched(Path::new(OsStr::from_bytes(path)), is_directory) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }
}

/// The line in the words in which the crate understands what git understands by it. The crate takes `{a,b}` for `a` or
/// `b`, reads classes in its own way, and takes away white space at the end even where git keeps it.
fn as_in_git(line: &str) -> Result<String, String> {
    if line.starts_with('#') {
        return Ok(String::new());
    }
    let (mut written, mut kept, mut is_escaped) = (String::with_capacity(line.len()), 0, false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '[' if !is_escaped => written.push_str(&Class::read(&mut characters)?.written()),
            '{' | '}' if !is_escaped => written.extend(['\\', character]),
            _ => written.push(character),
        }
        if character != ' ' || is_escaped {
            kept = written.len();
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    written.truncate(kept);
    let (mark, pattern) = line.strip_prefix('!').map_or(("", line), |pattern| ("!", pattern));
    // A slash in a pattern ties it to its directory. Git also counts one that stands in a class. The crate sees the
    // class as it is written here, which may have lost its slash, or got one: so what git has found is said in another
    // way.
    match (has_slash(pattern.trim_end_matches(' ')), has_slash(&written)) {
        (false, true) => written.insert_str(mark.len(), "**/"),
        (true, false) => written.insert(mark.len(), '/'),
        _ => {}
    }
    Ok(match written.pop() {
        // The crate keeps nothing but a space that has a backslash.
        Some(' ') => format!("{}[ ]", written.trim_end_matches('\\')),
        Some(last) if last.is_whitespace() => format!("{written}[{last}]"),
        // It takes nothing back.
        Some('!') if written.is_empty() => written,
        last => written + &last.map(String::from).unwrap_or_default(),
    })
}

fn has_slash(pattern: &str) -> bool {
    pattern.trim_end_matches('/').contains('/')
}

/// A class of characters, `[a-c]` or `[!a-c]`, as git reads it. It never stands for a slash.
struct Class {
    is_negated: bool,
    ranges: Vec<(char, char)>,
}

impl Class {
    /// Reads on behind the bracket that opens it.
    fn read(from: &mut Peekable<Chars<'_>>) -> Result<Class, String> {
        let is_negated = from.next_if(|character| matches!(character, '!' | '^')).is_some();
        let (mut ranges, mut last) = (Vec::new(), None);
        let mut character = from.next();
        loop {
            match character.ok_or_else(unclosed)? {
                '-' if last.is_some() && from.peek().is_some_and(|next| *next != ']') => {
                    let end = literal(from.next(), from)?;
                    match last.take() {
                        Some(begin) if begin > end => return Err(format!("{begin}-{end} runs backwards")),
                        begin => ranges.extend(begin.map(|begin| (begin, end))),
                    }
                }
                '[' if from.peek() == Some(&':') => match Class::named(from)? {
                    Some(named) => {
                        ranges.extend_from_slice(named);
                        last = None;
                    }
                    None => last = Some('['),
                },
                other => last = Some(literal(Some(other), from)?),
            }
            ranges.extend(last.map(|character| (character, character)));
            character = from.next();
            if character == Some(']') {
                return Ok(Class { is_negated, ranges });
            }
        }
    }

    /// The characters of `[:digit:]` and its like; none if a bracket and a colon are meant.
    fn named(from: &mut Peekable<Chars<'_>>) -> Result<Option<&'static [(char, char)]>, String> {
        let mut ahead = from.clone();
        let name: String = ahead.by_ref().skip(1).take_while(|character| *character != ']').collect();
        let Some(name) = name.strip_suffix(':') else { return Ok(None) };
        *from = ahead;
        let ranges: &[(char, char)] = match name {
            "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
            "alpha" => &[('A', 'Z'), ('a', 'z')],
            "blank" => &[(' ', ' '), ('\t', '\t')],
            "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
            "digit" => &[('0', '9')],
            "graph" => &[('!', '~')],
            "lower" => &[('a', 'z')],
            "print" => &[(' ', '~')],
            "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
            "space" => &[('\t', '\r'), (' ', ' ')],
            "upper" => &[('A', 'Z')],
            "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
            _ => {
                return Err(format!(
                    "there is no class [:{name}:]; there are [:alpha:], [:digit:] and others"
                ));
            }
        };
        Ok(Some(ranges))
    }

    /// Takes a character out of the ranges, and tells whether one of them had it.
    fn take(&mut self, taken: u8) -> bool {
        let (before, behind) = (char::from(taken - 1), char::from(taken + 1));
        let taken = char::from(taken);
        let has = |(begin, end): &(char, char)| (*begin..=*end).contains(&taken);
        let was_there = self.ranges.iter().any(has);
        let without = |range: (char, char)| match has(&range) {
            true => [(range.0, before), (behind, range.1)].map(|part| (part.0 <= part.1).then_some(part)),
            false => [Some(range), None],
        };
        self.ranges = std::mem::take(&mut self.ranges).into_iter().flat_map(without).flatten().collect();
        was_there
    }

    /// The class as the crate reads it: a bracket comes first, a hyphen last, and there are no escapes. To the crate a
    /// class may stand for a slash.
    fn written(mut self) -> String {
        let mut written = String::from(if self.is_negated { "[!" } else { "[" });
        let (_, has_bracket, has_hyphen) = (self.take(b'/'), self.take(b']'), self.take(b'-'));
        if has_bracket {
            written.push(']');
        }
        // No name contains a zero, so one is put first: the class would otherwise be empty, or begin with a character
        // that negates it.
        written.push(if self.is_negated { '/' } else { '\0' });
        for (begin, end) in self.ranges {
            written.push(begin);
            if begin != end {
                written.extend(['-', end]);
            }
        }
        written.push_str(if has_hyphen { "-]" } else { "]" });
        written
    }
}

/// A character as it stands, or the one behind a backslash.
fn literal(character: Option<char>, from: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    match character {
        Some('\\') => from.next().ok_or_else(unclosed),
        character => character.ok_or_else(unclosed),
    }
}

fn unclosed() -> String {
    "\"[\" opens a class, and no \"]\" closes it; \"\\[\" is the character".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a class is to git is in the property test of the selection; here is what it compares only by chance.
    #[test]
    fn classes_are_those_of_git() {
        let matching = |pattern: &str| {
            let patterns = Patterns::new([pattern.to_owned()]).expect("a pattern");
            let names = ('!'..='~').map(String::from).filter(|name| name != "/");
            names.filter(|name| patterns.exclude(name.as_bytes(), false).is_some()).collect::<String>()
        };
        assert_eq!(matching("[!!-,.-~]"), "-");
        assert_eq!(matching("[--0]"), "-.0");
        assert_eq!(matching("[a-c-e]"), "-abce");
        assert_eq!(matching("[]-_]"), "]^_");
        assert_eq!(matching("[\\]\\-\\!]"), "!-]");
        assert_eq!(matching("[[:digit:]_-]"), "-0123456789_");
        assert_eq!(matching("[^[:punct:][:alnum:]]"), "");
        assert_eq!(matching("[[:a]"), ":[a");
        assert_eq!(matching("[/]"), "");
        assert_eq!(matching("[!-a]"), matching("[!a-]"));
    }

    #[test]
    fn a_wrong_class_is_named() {
        for (pattern, why) in [
            ("a[", "\"[\" opens a class, and no \"]\" closes it; \"\\[\" is the character"),
            ("[]", "\"[\" opens a class, and no \"]\" closes it; \"\\[\" is the character"),
            ("[a\\", "\"[\" opens a class, and no \"]\" closes it; \"\\[\" is the character"),
            ("[[:a:]]", "there is no class [:a:]; there are [:alpha:], [:digit:] and others"),
            ("[z-a]", "z-a runs backwards"),
        ] {
            let error = Patterns::new([pattern.to_owned()]).expect_err("it is none");
            assert_eq!((error.pattern.as_str(), error.why.as_str()), (pattern, why));
        }
    }
}
