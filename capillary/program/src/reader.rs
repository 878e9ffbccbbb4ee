//! What tests ask of the programs: that they end quietly when the reader of their output has seen enough, and with a
//! failure when it cannot be written.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::exit::Exit;

/// Runs a command as `COMMAND | head -1` does: reads a line, then closes the pipe. Once more it closes the pipe before
/// anything is written, so that a program which writes all at once meets a closed pipe, too.
///
/// # Errors
/// Says how the command ended, or what it wrote to standard error, if that was not code 0 and nothing.
pub fn leaves_early(command: &mut Command) -> Result<(), String> {
    for lines in [1, 0] {
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let (status, complaint) = ended(spawned.map_err(|error| error.to_string())?, lines)?;
        if !status.success() || !complaint.is_empty() {
            return Err(format!("after {lines} lines {command:?} ended with {status}: {complaint}"));
        }
    }
    Ok(())
}

/// Runs a command as `COMMAND > /dev/full` does: nothing of its output can be written.
///
/// # Errors
/// Says how the command ended, if that was not code 6 and a line that says so.
pub fn misses_room(command: &mut Command) -> Result<(), String> {
    let full = File::options().write(true).open("/dev/full").map_err(|error| error.to_string())?;
    let run = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).output();
    let run = run.map_err(|error| error.to_string())?;
    let complaint = String::from_utf8_lossy(&run.stderr);
    let says_so = complaint.lines().count() == 1 && complaint.contains("standard output");
    match run.status.code() == Some(Exit::NoSpace.code().into()) && says_so {
        true => Ok(()),
        false => Err(format!("on a full disk {command:?} ended with {}: {complaint}", run.status)),
    }
}

fn ended(mut child: Child, lines: usize) -> Result<(ExitStatus, String), String> {
    let mut output = BufReader::new(child.stdout.take().ok_or("no pipe")?);
    for _ in 0..lines {
        let mut line = String::new();
        output.read_line(&mut line).map_err(|error| error.to_string())?;
    }
    drop(output);
    let mut complaint = String::new();
    let mut errors = child.stderr.take().ok_or("no pipe")?;
    errors.read_to_string(&mut complaint).map_err(|error| error.to_string())?;
    Ok((child.wait().map_err(|error| error.to_string())?, complaint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn a_program_that_does_not_see_that_its_output_is_lost_is_found() {
        assert_eq!(misses_room(&mut script("echo 'standard output is full' >&2; exit 6")), Ok(()));
        assert!(misses_room(&mut script("exit 0")).is_err_and(|error| error.contains("exit status: 0")));
        assert!(misses_room(&mut script("exit 6")).is_err());
    }

    #[test]
    fn a_program_that_complains_or_fails_is_found() {
        let shell = |text: &str| leaves_early(&mut script(text));
        assert_eq!(shell("trap '' PIPE; echo one 2>/dev/null; exit 0"), Ok(()));
        assert!(shell("echo one; exit 1").is_err_and(|error| error.contains("ended with exit status: 1")));
        assert!(shell("echo one; echo alas >&2").is_err_and(|error| error.contains("alas")));
    }
}
