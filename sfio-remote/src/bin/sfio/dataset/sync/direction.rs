//! Whether `sfio sync` sends or fetches, and which of its options say something about that.

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::super::address::Place;

/// Which way a tree goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Send,
    Fetch,
}

/// Options that would do nothing when something is fetched.
const FOR_SENDING: [&str; 10] = [
    "watch",
    "metrics",
    "tag",
    "host",
    "keep",
    "if_current",
    "sfioignore",
    "one_file_system",
    "compress",
    "jobs",
];

/// Options that would do nothing when something is sent. `--owners` is none of them: owners are always sent, so whoever
/// gives it gets what they want.
const FOR_FETCHING: [&str; 1] = ["generation"];

impl Direction {
    /// The direction between two places; none if both are here, or both are data sets.
    pub(super) fn of(source: &Place, target: &Place) -> Option<Direction> {
        match (source, target) {
            (Place::Local(_), Place::Remote(_)) => Some(Direction::Send),
            (Place::Remote(_), Place::Local(_)) => Some(Direction::Fetch),
            _ => None,
        }
    }

    /// What is wrong with the command line, if it has an option that would do nothing in this direction.
    pub(super) fn complaint(self, matches: &ArgMatches) -> Option<String> {
        let is_given = |option: &str| matches.value_source(option) == Some(ValueSource::CommandLine);
        let (others, what) = match self {
            Direction::Send => (&FOR_FETCHING[..], "fetching, and this command sends: TARGET is a data set"),
            Direction::Fetch => (&FOR_SENDING[..], "sending, and this command fetches: SOURCE is a data set"),
        };
        let misplaced = others.iter().find(|option| is_given(option))?;
        Some(format!("--{} is only for {what}", misplaced.replace('_', "-")))
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::super::Options;

    /// What is said of a command line of `sfio sync`.
    fn complaint(arguments: &[&str]) -> Option<String> {
        let command = Options::augment_args(clap::Command::new("sync"));
        let matches = command.try_get_matches_from([&["sync"], arguments].concat()).expect("options of sync");
        let mut options = Options::from_arg_matches(&matches).expect("options of sync");
        options.take_from(&matches);
        options.misplaced
    }

    /// A fetch took `--watch` and ended after one pass.
    #[test]
    fn an_option_of_the_other_direction_is_named() {
        let (send, fetch) = (["tree", "local:t"], ["local:t", "tree"]);
        for option in [
            "--watch",
            "--tag=a",
            "--host=a",
            "--keep=10",
            "--if-current",
            "--sfioignore",
            "--one-file-system",
            "--compress=auto",
            "--jobs=4",
        ] {
            assert_eq!(complaint(&[&send[..], &[option]].concat()), None);
            let name = option.split('=').next().expect("a name");
            let words = format!("{name} is only for sending, and this command fetches: SOURCE is a data set");
            assert_eq!(complaint(&[&fetch[..], &[option]].concat()), Some(words));
        }
        let words = "--generation is only for fetching, and this command sends: TARGET is a data set";
        assert_eq!(complaint(&[&send[..], &["--generation=1"]].concat()).as_deref(), Some(words));
        assert_eq!(complaint(&[&fetch[..], &["--generation=1", "--owners"]].concat()), None);
        assert_eq!(complaint(&send), None);
        assert_eq!(complaint(&fetch), None, "defaults were not given by anybody");
    }
}
