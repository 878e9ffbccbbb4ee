//! `sfio trace`: what programs ask of storage.

mod analyse;
mod export;
mod generate;
mod import;
mod picture;
mod record;
mod recorder;
mod replay;
mod source;

pub(crate) use recorder::{Recorder, VARIABLE};

use clap::Subcommand;

use crate::exit::Failure;

/// What programs ask of storage: record, import, analyse, generate, replay and export traces (docs/traces.md)
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Import(import::Options),
    Record(record::Options),
    Analyse(analyse::Options),
    Generate(generate::Options),
    Replay(replay::Options),
    Export(export::Options),
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Import(options) => import::run(options),
        Command::Record(options) => record::run(options),
        Command::Analyse(options) => analyse::run(options),
        Command::Generate(options) => generate::run(options),
        Command::Replay(options) => replay::run(options),
        Command::Export(options) => export::run(options),
    }
}
