//! What tests ask of the programs: that docs/programs.md has every flag, and that every `--help` is of one kind.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command};

use crate::exit::EXIT_CODES;

/// With this environment variable set, [`check`] writes the program's rows instead of comparing them.
pub const REWRITE: &str = "REWRITE_PROGRAMS";

/// The columns that `--help` may use.
pub const HELP_WIDTH: usize = 100;

/// Compares the rows that the page's table has for this program with what clap knows of it.
///
/// # Errors
/// Says which row is wrong, and how to mend all of them; or that the page cannot be read or written.
pub fn check(program: &Command, page: &Path) -> Result<(), String> {
    let rows = rows(program);
    let place = page.display();
    let text = std::fs::read_to_string(page).map_err(|error| format!("{place}: {error}"))?;
    if std::env::var_os(REWRITE).is_some() {
        return std::fs::write(page, rewritten(&text, program.get_name(), &rows))
            .map_err(|error| format!("{place}: {error}"));
    }
    let found: Vec<&str> = text.lines().filter(|line| is_row_of(line, program.get_name())).collect();
    match rows.iter().find(|row| !found.contains(&row.as_str())) {
        Some(row) => Err(format!("{place} lacks this row; {REWRITE}=1 cargo test writes it:\n{row}")),
        None if found.len() > rows.len() => Err(format!("{place} has rows of commands that are gone")),
        None => Ok(()),
    }
}

/// Checks that the `--help` of each command fits into [`HELP_WIDTH`] columns, has an example, and shows lists as they
/// are typed, and that the program's own lists the exit codes.
///
/// # Errors
/// Names the command, and what its help lacks.
pub fn check_help(program: &Command) -> Result<(), String> {
    let own = help(program);
    if !own.contains(EXIT_CODES) {
        return Err(format!("{} --help does not list the exit codes", program.get_name()));
    }
    for (name, command) in commands(program) {
        let help = help(&command);
        if !help.contains("Example") {
            return Err(format!("{name} --help has no example"));
        }
        // Examples begin with spaces; clap cannot break them.
        let mut prose = help.lines().filter(|line| !line.starts_with("  "));
        if let Some(line) = prose.find(|line| line.chars().count() > HELP_WIDTH) {
            return Err(format!("{name} --help is wider than {HELP_WIDTH} columns: {line}"));
        }
        if let Some(list) = command.get_arguments().find(|arg| !is_shown_as_typed(arg)) {
            return Err(format!(
                "{name} --help shows {list} in another way than it is typed: give it a value name that ends in \",…\" \
                 and one default value with commas"
            ));
        }
    }
    Ok(())
}

/// Of a list: whether its name says so, and its default is one text with commas.
fn is_shown_as_typed(arg: &Arg) -> bool {
    let has_dots =
        || arg.get_value_names().is_some_and(|names| names.iter().all(|name| name.ends_with(",…")));
    arg.get_value_delimiter().is_none() || (has_dots() && arg.get_default_values().len() <= 1)
}

/// What `--help` prints, as wide as it may be.
fn help(command: &Command) -> String {
    command.clone().term_width(HELP_WIDTH).render_long_help().to_string()
}

/// A row for each command that does something: its name, operands, flags and output formats.
fn rows(program: &Command) -> Vec<String> {
    let row = |(name, command): (String, Command)| {
        let operands: String = command.get_positionals().map(operand).collect::<Vec<_>>().join(" ");
        let flags: Vec<String> = visible(&command).map(|flag| format!("`{}`", spelt(flag))).collect();
        let formats = formats(&command).join(", ");
        format!("| `{name}` | {operands} | {} | {formats} |", flags.join(" ")).replace("|all", "\\|all")
    };
    commands(program).into_iter().map(row).collect()
}

/// All commands without subcommands, each with its whole name.
fn commands(program: &Command) -> Vec<(String, Command)> {
    let mut built = program.clone();
    built.build();
    let mut found = Vec::new();
    collect(&built, built.get_name().to_owned(), &mut found);
    found
}

fn collect(command: &Command, name: String, found: &mut Vec<(String, Command)>) {
    let under = |sub: &&Command| sub.get_name() != "help" && !sub.is_hide_set();
    if !command.get_subcommands().any(|sub| under(&sub)) {
        found.push((name, command.clone()));
        return;
    }
    for sub in command.get_subcommands().filter(under) {
        collect(sub, format!("{name} {}", sub.get_name()), found);
    }
}

/// The flags, without those that every command has.
fn visible(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_common = |action: &ArgAction| {
        matches!(action, ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version)
    };
    let flags = command.get_arguments().filter(|arg| !arg.is_positional());
    flags.filter(move |arg| !arg.is_hide_set() && !is_common(arg.get_action()))
}

/// A flag with its value: `-o, --output FILE`.
fn spelt(flag: &Arg) -> String {
    let mut text = String::new();
    if let Some(short) = flag.get_short() {
        let _ = write!(text, "-{short}");
    }
    if let Some(long) = flag.get_long() {
        let _ = write!(text, "{}--{long}", if text.is_empty() { "" } else { ", " });
    }
    if flag.get_action().takes_values() {
        let _ = write!(text, " {}", value(flag));
    }
    text
}

fn operand(arg: &Arg) -> String {
    let value = value(arg);
    if arg.is_required_set() { format!("`{value}`") } else { format!("`[{value}]`") }
}

/// What stands for the value: its choices, or its name.
fn value(arg: &Arg) -> String {
    let choices: Vec<String> = choices(arg);
    let names = arg.get_value_names().map(|names| names.join(" "));
    let one = match names {
        _ if !choices.is_empty() && choices.len() <= 8 => choices.join("/"),
        Some(names) => names.replace('|', "/"),
        None => arg.get_id().as_str().to_uppercase(),
    };
    let takes_several = arg.get_num_args().is_some_and(|number| number.max_values() > 1);
    let repeats = takes_several || matches!(arg.get_action(), ArgAction::Append) && arg.is_positional();
    if repeats && !one.ends_with('…') { one + "…" } else { one }
}

fn choices(arg: &Arg) -> Vec<String> {
    let values = arg.get_possible_values();
    values.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name().to_owned()).collect()
}

/// What the command prints: the choices of `--format`, or text for people, and JSON if there is `--json`.
fn formats(command: &Command) -> Vec<String> {
    let flag = |name: &str| visible(command).find(|flag| flag.get_long() == Some(name));
    let mut formats = match flag("format").map(choices) {
        Some(choices) if !choices.is_empty() => choices,
        Some(_) => vec!["as --format says".to_owned()],
        None => vec!["text".to_owned()],
    };
    if flag("json").is_some() && !formats.iter().any(|format| format == "json") {
        formats.push("json".to_owned());
    }
    formats
}

fn is_row_of(line: &str, program: &str) -> bool {
    let name = line.strip_prefix("| `").and_then(|rest| rest.strip_prefix(program));
    name.is_some_and(|rest| rest.starts_with([' ', '`']))
}

/// The page with these rows in the place of the program's old ones, or at the table's end if it had none.
fn rewritten(text: &str, program: &str, rows: &[String]) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let own = lines.iter().position(|line| is_row_of(line, program));
    let table = lines.iter().rposition(|line| line.starts_with("| `") || line.starts_with("|---"));
    let place = own.unwrap_or_else(|| table.map_or(lines.len(), |last| last + 1));
    let before = lines[..place].iter().map(|line| (*line).to_owned());
    let after = lines[place..].iter().filter(|line| !is_row_of(line, program)).map(|line| (*line).to_owned());
    before.chain(rows.iter().cloned()).chain(after).map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# Programs\n\n| command | operands | flags | output |\n|---|---|---|---|\n\nThe end.\n";

    fn program() -> Command {
        let list = Command::new("list")
            .arg(Arg::new("file").required(true).value_name("FILE"))
            .arg(Arg::new("format").long("format").value_parser(["table", "csv"]))
            .arg(Arg::new("json").long("json").action(ArgAction::SetTrue))
            .arg(Arg::new("output").short('o').long("output").value_name("FILE"))
            .after_help("Example:\n  shop list stock");
        Command::new("shop").subcommand(list).after_help(EXIT_CODES)
    }

    #[test]
    fn a_row_has_operands_flags_and_formats() {
        let row =
            "| `shop list` | `FILE` | `--format table/csv` `--json` `-o, --output FILE` | table, csv, json |";
        assert_eq!(rows(&program()), [row]);
    }

    #[test]
    fn a_page_is_rewritten_once_and_then_stays() {
        let page = rewritten(PAGE, "shop", &rows(&program()));
        assert_eq!(page.lines().count(), PAGE.lines().count() + 1);
        assert_eq!(rewritten(&page, "shop", &rows(&program())), page);
        assert!(
            page.contains("|---|---|---|---|\n| `shop list`") && page.ends_with("|\n\nThe end.\n"),
            "{page}"
        );
    }

    #[test]
    fn a_flag_that_the_page_lacks_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = folder.path().join("programs.md");
        std::fs::write(&page, rewritten(PAGE, "shop", &rows(&program()))).expect("it is written");
        assert_eq!(check(&program(), &page), Ok(()));
        let more = program().mut_subcommand("list", |list| list.arg(Arg::new("all").long("all")));
        assert!(check(&more, &page).is_err_and(|error| error.contains("--all")));
    }

    #[test]
    fn help_needs_an_example_and_the_exit_codes() {
        assert_eq!(check_help(&program()), Ok(()));
        let bare = program().mut_subcommand("list", |list| list.after_help(""));
        assert!(check_help(&bare).is_err_and(|error| error.contains("shop list --help has no example")));
        assert!(check_help(&program().after_help("")).is_err_and(|error| error.contains("exit codes")));
    }
}
