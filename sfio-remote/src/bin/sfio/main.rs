//! The program `sfio`: replicate files over a network of many lossy paths.

#![allow(clippy::disallowed_methods, reason = "a program may look at the clock; the protocol does not")]

mod bench;
mod client;
mod dataset;
#[cfg(feature = "demo")]
mod demo;
mod exit;
mod get;
mod http;
mod keygen;
mod member;
mod operations;
mod outages;
mod overlay;
mod part;
mod ping;
mod put;
mod random;
mod rm;
mod signals;
mod silence;
mod stat;
mod status;
mod striped;
mod sums;
mod trace;
mod web;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use exit::{Exit, Failure, OrFail as _};
use program::{EXIT_CODES, arguments, install, progress};

/// Replicate files over a network of many lossy paths
#[derive(Debug, Parser)]
#[command(name = "sfio", version = program::VERSION, max_term_width = 100, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = r#"Examples:
  sfio demo                 a whole overlay in one process: replicate, kill a link, read back, compare
  sfio overlay new try      an overlay on this machine to try things with (docs/quickstart.md) ...
  sfio overlay up try       ... and its members, until Ctrl-C
  sfio sync --overlay try photos local:photos
  sfio put --overlay try notes.txt "io1,notes.txt;io2,notes.txt""#;

#[derive(Debug, Subcommand)]
enum Command {
    Sync(Box<dataset::sync::Options>),
    #[command(flatten)]
    Dataset(dataset::Command),
    Put(put::Options),
    Get(get::Options),
    Stat(stat::Options),
    Rm(rm::Options),
    Ping(ping::Options),
    Bench(Box<bench::Options>),
    Keygen(keygen::Options),
    Member(member::Options),
    Status(status::Options),
    Reload(status::ReloadOptions),
    #[command(subcommand)]
    Overlay(overlay::Command),
    #[command(subcommand)]
    Trace(trace::Command),
    #[cfg(feature = "demo")]
    Demo(demo::Options),
    #[command(after_help = "Example:\n  sfio manual ~/.local")]
    Manual(install::Options),
}

// Blocks of a megabyte come and go on several threads; glibc keeps too much of them or maps them anew each time
// (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    program::end("sfio", run(parse().command))
}

/// The command line; of `sync` the order of its patterns and the direction count, too.
fn parse() -> Cli {
    let matches = arguments::matches(Cli::command());
    let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| arguments::end(&error));
    if let (Command::Sync(options), Some(matches)) = (&mut cli.command, matches.subcommand_matches("sync")) {
        options.take_from(matches);
    }
    cli
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Sync(options) => dataset::sync::run(&options),
        Command::Dataset(command) => dataset::run(&command),
        Command::Put(options) => put::run(&options),
        Command::Get(options) => get::run(&options),
        Command::Stat(options) => stat::run(&options),
        Command::Rm(options) => rm::run(&options),
        Command::Ping(options) => ping::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Keygen(options) => keygen::run(&options),
        Command::Member(options) => member::run(&options),
        Command::Status(options) => status::run(&options),
        Command::Reload(options) => status::reload(&options),
        Command::Overlay(command) => overlay::run(command),
        Command::Trace(command) => trace::run(&command),
        #[cfg(feature = "demo")]
        Command::Demo(options) => demo::run(options),
        Command::Manual(options) => options.run(Cli::command()),
    }
}

/// How long disk operations under way may take to end when everything else has. A thread that waits for standard input
/// cannot be stopped and is left behind.
const LAST_OPERATIONS: Duration = Duration::from_millis(500);

/// Does what is asynchronous.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.or_fail(Exit::Failed, "cannot start threads")?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_OPERATIONS);
    result
}

// The page has the flags of a build with all of the program.
#[cfg(all(test, feature = "demo"))]
mod tests {
    use std::path::Path;

    use program::manual;

    use clap::CommandFactory as _;

    use super::Cli;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/programs.md");

    #[test]
    fn the_page_of_all_programs_has_every_flag() {
        Cli::command().debug_assert();
        manual::check(&Cli::command(), Path::new(PAGE)).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn every_help_has_an_example() {
        manual::check_help(&Cli::command()).unwrap_or_else(|error| panic!("{error}"));
    }
}
