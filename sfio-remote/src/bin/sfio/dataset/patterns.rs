//! Which entries of a tree take part, as options say it.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use sfio_remote::io::replication::Filter;

use super::listed;
use crate::exit::{Exit, Failure, OrFail as _};

/// Patterns as in .gitignore files; of several that match, the last one counts.
#[derive(Debug, clap::Args)]
pub(super) struct Patterns {
    /// Leave out what matches, as in .gitignore; of several patterns the last that matches counts (with rsync the
    /// first)
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,

    /// Take part after all, as a line with ! in .gitignore
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,

    /// Read patterns from a file that is written as a .gitignore, with # for comments and ! for what takes part after
    /// all
    #[arg(long, value_name = "FILE")]
    exclude_from: Vec<PathBuf>,

    /// Only these paths of the source take part, and what is in them: one in each line of FILE, or between zero
    /// bytes; - is standard input
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,

    /// When sending, leave out what the files .sfioignore in the tree say, each for its directory as a .gitignore
    #[arg(long)]
    pub(super) sfioignore: bool,

    /// All of them in the order in which they were given.
    #[arg(skip)]
    in_order: Vec<Rule>,
}

#[derive(Debug, Clone)]
enum Rule {
    Exclude(String),
    Include(String),
    From(PathBuf),
}

impl Patterns {
    /// clap keeps the order within an option, and between options only by position.
    pub(super) fn put_in_order(&mut self, matches: &ArgMatches) {
        let mut placed = placed(matches, "exclude", Rule::Exclude);
        placed.extend(self::placed(matches, "include", Rule::Include));
        placed.extend(self::placed(matches, "exclude_from", Rule::From));
        placed.sort_by_key(|(index, _)| *index);
        self.in_order = placed.into_iter().map(|(_, rule)| rule).collect();
    }

    pub(super) fn are_none(&self) -> bool {
        self.in_order.is_empty() && self.files_from.is_none() && !self.sfioignore
    }

    /// The filter of all patterns and the list.
    ///
    /// # Errors
    /// If one of them is no pattern, or a file cannot be read or has what is no path.
    pub(super) fn filter(&self) -> Result<Filter, Failure> {
        let mut all = Vec::new();
        for rule in &self.in_order {
            match rule {
                Rule::Exclude(pattern) => all.push((true, without_comment(pattern))),
                Rule::Include(pattern) => all.push((false, pattern.clone())),
                Rule::From(path) => all.extend(read(path)?.into_iter().map(|line| (true, line))),
            }
        }
        let filter = Filter::new(all).or_fail(Exit::Usage, "--exclude or --include")?;
        let listed = self.files_from.as_deref().map(listed::read).transpose()?.flatten();
        Ok(if let Some(paths) = listed { filter.only(paths) } else { filter })
    }
}

/// In a file # begins a comment; somebody who types it as a pattern means the character.
fn without_comment(pattern: &str) -> String {
    if pattern.starts_with('#') { format!("\\{pattern}") } else { pattern.to_owned() }
}

fn placed<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    name: &str,
    rule: fn(T) -> Rule,
) -> Vec<(usize, Rule)> {
    let indices = matches.indices_of(name).into_iter().flatten();
    let values = matches.get_many::<T>(name).into_iter().flatten();
    indices.zip(values).map(|(index, value)| (index, rule(value.clone()))).collect()
}

/// The lines of a file of patterns, each of which was tried.
fn read(path: &Path) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(path).or_fail(Exit::Input, format!("--exclude-from {}", path.display()))?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (number, line) in (1..).zip(&lines) {
        let place = || format!("--exclude-from {}, line {number}", path.display());
        Filter::new([(true, line.clone())])
            .map_err(|error| Failure::new(Exit::Input, format!("{}: {error}", place())))?;
    }
    Ok(lines)
}
