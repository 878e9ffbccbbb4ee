//! The exit codes of all programs.

use std::io;
use std::process::ExitCode;

/// The list of exit codes as the programs' `--help` prints it.
pub const EXIT_CODES: &str = "\
Exit codes:
  0 ok, 1 failed, 2 usage, 3 bad input file or config, 4 network (a retry may help), 5 integrity,
  6 no space, 7 partial, 8 interrupted and resumable, 9 locked by another run";

/// How a program ends. The discriminants are the exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Everything is done, or the reader of the output has gone because it has seen enough.
    Ok = 0,
    /// Something failed that has no code of its own.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// An input file or a configuration is wrong, or may not be read.
    Input = 3,
    /// The network failed; a retry may help.
    Network = 4,
    /// Data came back different from what was stored.
    Integrity = 5,
    /// No space is left.
    NoSpace = 6,
    /// Some of it worked.
    Partial = 7,
    /// The user interrupted the program; the same command goes on from there.
    Interrupted = 8,
    /// Another process is at it.
    Locked = 9,
}

impl Exit {
    const ALL: [Exit; 10] = [
        Exit::Ok,
        Exit::Failed,
        Exit::Usage,
        Exit::Input,
        Exit::Network,
        Exit::Integrity,
        Exit::NoSpace,
        Exit::Partial,
        Exit::Interrupted,
        Exit::Locked,
    ];

    /// The code for what the operating system says about an input or output file.
    pub fn of_io(error: &io::Error) -> Exit {
        match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::NotADirectory
            // It is no text.
            | io::ErrorKind::InvalidData => Exit::Input,
            io::ErrorKind::InvalidInput => Exit::Usage,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Exit::NoSpace
            }
            io::ErrorKind::BrokenPipe => Exit::Ok,
            _ => Exit::Failed,
        }
    }

    /// What a code means that another program of the family has ended with; none if it is none of theirs.
    pub fn of_code(code: i32) -> Option<Exit> {
        Exit::ALL.into_iter().find(|exit| i32::from(exit.code()) == code)
    }

    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operating_systems_errors_have_codes() {
        let of = |kind| Exit::of_io(&io::Error::from(kind));
        assert_eq!(of(io::ErrorKind::NotFound), Exit::Input);
        assert_eq!(of(io::ErrorKind::PermissionDenied), Exit::Input);
        assert_eq!(of(io::ErrorKind::InvalidData), Exit::Input);
        assert_eq!(of(io::ErrorKind::StorageFull), Exit::NoSpace);
        assert_eq!(of(io::ErrorKind::BrokenPipe), Exit::Ok);
        assert_eq!(of(io::ErrorKind::TimedOut), Exit::Failed);
    }

    #[test]
    fn the_list_names_every_code() {
        for (code, exit) in (0..).zip(Exit::ALL) {
            assert!(EXIT_CODES.contains(&format!("{code} ")), "{code}");
            assert_eq!(Exit::of_code(code), Some(exit));
        }
        assert_eq!([-1, 10, 101].map(Exit::of_code), [None; 3]);
    }
}
