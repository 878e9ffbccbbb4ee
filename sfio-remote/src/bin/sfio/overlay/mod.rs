//! `sfio overlay`: make, run, check, draw and sign overlays.

mod check;
mod draw;
#[cfg(feature = "demo")]
mod emulation;
mod folder;
mod links;
mod new;
mod ports;
mod sign;
mod supervisor;
mod trial;
mod up;

pub(crate) use folder::{CLIENT, Folder};
pub(crate) use trial::{EmulatedLinks, Trial};

use clap::Subcommand;

use crate::exit::Failure;

/// Make, run, check, draw and sign overlays
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    New(new::Options),
    Up(up::Options),
    Check(check::Options),
    Draw(draw::Options),
    Sign(sign::Options),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::New(options) => new::run(&options),
        Command::Up(options) => up::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Draw(options) => draw::run(&options),
        Command::Sign(options) => sign::run(&options),
    }
}
