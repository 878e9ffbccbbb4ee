//! What tests ask of the programs: that they end quietly when the reader of their output has seen enough.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};

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

    #[test]
    fn a_program_that_complains_or_fails_is_found() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            leaves_early(&mut command)
        };
        assert_eq!(shell("trap '' PIPE; echo one 2>/dev/null; exit 0"), Ok(()));
        assert!(shell("echo one; exit 1").is_err_and(|error| error.contains("ended with exit status: 1")));
        assert!(shell("echo one; echo alas >&2").is_err_and(|error| error.contains("alas")));
    }
}
