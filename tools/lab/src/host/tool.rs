//! Running the host's own tools (`ip`, `setpriv`, ...).

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::{Doing, Error, Result};

/// Where a tool is, by PATH and the usual places (PATH of a plain user lacks sbin).
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// Runs a command to its end; what it wrote becomes part of the error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    feed(command, b"")
}

/// As [`run`], with `input` on its standard input.
pub(crate) fn feed(command: &mut Command, input: &[u8]) -> Result<()> {
    filter(command, input).map(drop)
}

/// Sends `input`, of any size, through a command; returns its standard output.
pub(crate) fn filter(command: &mut Command, input: &[u8]) -> Result<Vec<u8>> {
    let name = line(command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .doing(|| format!("run `{name}`"))?;
    let stdin = child.stdin.take();
    // Beside it: a filter writes while it reads.
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            // A tool that ends without reading tells more by its status than by this broken pipe.
            stdin.map(|mut stdin| stdin.write_all(input))
        });
        child.wait_with_output()
    });
    let output = output.doing(|| format!("wait for `{name}`"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let text = [output.stdout, output.stderr].concat();
    Err(Error::Tool {
        command: name,
        status: output.status.to_string(),
        output: String::from_utf8_lossy(&text).trim().to_owned(),
    })
}

fn line(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
