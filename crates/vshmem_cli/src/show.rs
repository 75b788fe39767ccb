//! Writing results on standard output.

use std::io::{ErrorKind, IsTerminal, Write};

use serde::Serialize;
use vshmem_ipc::Kind;

use crate::failure::{Failure, failed};

/// Writes a text. A closed output (`| head`) is not a failure.
pub fn text(text: &str) -> Result<(), Failure> {
    write(text).map(|_| ())
}

/// As [`text`]. False when the reader has closed it.
pub fn write(text: &str) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => failed(format!("cannot write to standard output: {error}")),
    }
}

/// A value as JSON on a line.
pub fn json_line<T: Serialize>(value: &T) -> Result<String, Failure> {
    match serde_json::to_string(value) {
        Ok(json) => Ok(format!("{json}\n")),
        Err(error) => failed(format!("cannot write the result as JSON: {error}")),
    }
}

/// Writes a line.
pub fn line(line: impl AsRef<str>) -> Result<(), Failure> {
    text(&format!("{}\n", line.as_ref()))
}

/// Writes a value as JSON.
pub fn json<T: Serialize>(value: &T) -> Result<(), Failure> {
    match serde_json::to_string_pretty(value) {
        Ok(json) => line(json),
        Err(error) => failed(format!("cannot write the result as JSON: {error}")),
    }
}

/// What an object of System V is called.
pub fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Segment => "segment",
        Kind::Semaphore => "semaphore set",
        Kind::Queue => "queue",
    }
}

/// Text from a pool, made safe to print: any member could have put escape sequences there.
pub fn sanitized(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Whether to write in colours there: on a terminal, and when NO_COLOR is not set
/// (<https://no-color.org>).
pub fn colours(to: &impl IsTerminal) -> bool {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|word| !word.is_empty());
    to.is_terminal() && !forbidden
}
