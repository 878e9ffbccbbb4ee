//! Command lines, and what is said of those that are wrong.

use std::io::Write as _;

use clap::error::{Error, ErrorKind};
use clap::{Arg, ArgMatches, Command, Parser};
use console::Term;

/// What Rust says of a text that is no number or no address, and what would be right.
const WORDS: [(&str, &str); 9] = [
    ("invalid digit found in string", "expected a whole number"),
    ("cannot parse integer from empty string", "expected a whole number"),
    ("number too large to fit in target type", "expected a smaller number"),
    ("number too small to fit in target type", "expected a larger number"),
    ("number would be zero for non-zero type", "expected a number of at least 1"),
    ("invalid float literal", "expected a number, as 0.5"),
    ("cannot parse float from empty string", "expected a number, as 0.5"),
    ("invalid socket address syntax", "expected an IP address and a port, as 127.0.0.1:9100"),
    ("invalid IP address syntax", "expected an IP address, as 192.0.2.7"),
];

/// The command line of this process; if it is wrong, the process ends here.
pub fn parse<T: Parser>() -> T {
    T::from_arg_matches(&matches(T::command())).unwrap_or_else(|error| end(&error))
}

/// The same, for whoever needs more than what derived types have of it.
pub fn matches(command: Command) -> ArgMatches {
    with_negative_numbers(command).try_get_matches().unwrap_or_else(|error| end(&error))
}

/// Takes `-1` behind a flag for its value, so that users read which values it has. Otherwise they are told that there
/// is no flag `-1`, and to try `-- -1`, which does not help.
fn with_negative_numbers(command: Command) -> Command {
    let takes_values = |arg: &Arg| !arg.is_positional() && arg.get_action().takes_values();
    let command = command.mut_args(|arg| {
        let is_flag = takes_values(&arg);
        arg.allow_negative_numbers(is_flag)
    });
    command.mut_subcommands(with_negative_numbers)
}

/// Ends the process as [`Error::exit`] does, in words for people who do not know Rust.
pub fn end(error: &Error) -> ! {
    if error.kind() != ErrorKind::ValueValidation {
        error.exit();
    }
    let (text, is_coloured) = (error.render(), Term::stderr().features().colors_supported());
    let text = in_words(&if is_coloured { text.ansi().to_string() } else { text.to_string() });
    // Not a note: those have no colours.
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
    std::process::exit(error.exit_code())
}

fn in_words(text: &str) -> String {
    WORDS.iter().fold(text.to_owned(), |text, (of_rust, words)| text.replace(of_rust, words))
}

#[cfg(test)]
mod tests {
    use std::fmt::Display;
    use std::net::{IpAddr, SocketAddr};
    use std::num::NonZeroU64;
    use std::str::FromStr;

    use clap::CommandFactory as _;

    use super::*;

    /// `--threads -1` was told to be no flag, with advice that did not help.
    #[test]
    fn a_negative_number_is_the_value_of_its_flag() {
        #[derive(Debug, Parser)]
        struct Arguments {
            #[arg(long, value_parser = crate::quantity::count)]
            threads: Option<std::num::NonZeroU32>,
            #[arg(short)]
            verbose: bool,
        }
        let command = with_negative_numbers(Arguments::command());
        command.clone().debug_assert();
        let error = command.try_get_matches_from(["program", "--threads", "-1"]).unwrap_err();
        assert!(error.to_string().contains("\"-1\" is no number of at least 1"), "{error}");
    }

    /// Users read `number would be zero for non-zero type`.
    #[test]
    fn what_is_no_number_is_told_without_words_of_rust() {
        fn told<T: FromStr<Err: Display>>(text: &str) -> String {
            in_words(&text.parse::<T>().err().map(|error| error.to_string()).unwrap_or_default())
        }
        let all = [
            told::<u64>("abc"),
            told::<u64>(""),
            told::<u64>("99999999999999999999"),
            told::<i64>("-99999999999999999999"),
            told::<NonZeroU64>("0"),
            told::<f64>("x"),
            told::<f64>(""),
            told::<SocketAddr>("here"),
            told::<IpAddr>("here"),
        ];
        assert!(all.iter().zip(WORDS).all(|(told, (_, words))| told == words), "{all:?}");
    }
}
