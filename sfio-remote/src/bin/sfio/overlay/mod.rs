//! `sfio overlay`: make, run, check and draw overlays.

mod check;
mod draw;
#[cfg(feature = "demo")]
mod emulation;
mod folder;
mod links;
mod new;
mod ports;
mod supervisor;
mod up;

pub(crate) use folder::{CLIENT, Folder};

use clap::Subcommand;

use crate::exit::Failure;

/// Make, run, check and draw overlays
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    New(new::Options),
    Up(up::Options),
    Check(check::Options),
    Draw(draw::Options),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::New(options) => new::run(&options),
        Command::Up(options) => up::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Draw(options) => draw::run(&options),
    }
}
