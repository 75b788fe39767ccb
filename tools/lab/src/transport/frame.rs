//! Frames between a client and a guest's agent: one byte of kind, four of length (little endian),
//! payload.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The largest payload; a longer one is a broken peer.
pub(crate) const LARGEST: usize = 1 << 20;

/// How much standard input may be on its way before the program has taken it.
pub(crate) const STDIN_WINDOW: usize = 256 << 10;

/// What a frame carries. The first rows go to the agent, the others to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// [`Request`] as JSON; the first frame.
    Request = 1,
    Stdin = 2,
    StdinEnd = 3,
    /// Signal number, four bytes.
    Signal = 4,

    Stdout = 16,
    Stderr = 17,
    /// Four bytes: so much of standard input has been taken.
    StdinTaken = 18,
    /// The program has closed its standard input.
    StdinClosed = 19,
    /// Four bytes: the exit code; 128 + n after signal n. The last frame.
    Exit = 20,
    /// [`Refusal`] as JSON; the last frame.
    Refused = 21,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        use Kind::*;
        [Request, Stdin, StdinEnd, Signal, Stdout, Stderr, StdinTaken, StdinClosed, Exit, Refused]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// What the agent shall run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) token: String,
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) user: Option<(u32, u32)>,
}

/// Why the agent did not run it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// As a shell would end: 126 or 127.
    Program { code: i32, why: String },
    /// The request itself is not accepted.
    Request(String),
}

/// Appends a frame to `out`.
pub(crate) fn put(out: &mut Vec<u8>, kind: Kind, payload: &[u8]) {
    out.push(kind as u8);
    out.extend((payload.len() as u32).to_le_bytes());
    out.extend(payload);
}

/// Writes a frame at once.
pub(crate) fn send(to: &mut impl Write, kind: Kind, payload: &[u8]) -> io::Result<()> {
    let mut frame = Vec::with_capacity(payload.len() + 5);
    put(&mut frame, kind, payload);
    to.write_all(&frame)
}

/// Takes frames out of a stream of bytes.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    start: usize,
}

impl Decoder {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend(bytes);
    }

    /// The next frame, if it is complete.
    pub(crate) fn take(&mut self) -> io::Result<Option<(Kind, Vec<u8>)>> {
        let rest = &self.bytes[self.start..];
        let Some((&[kind, a, b, c, d], rest)) = rest.split_first_chunk::<5>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let kind = Kind::of(kind).filter(|_| length <= LARGEST).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("not a frame: kind {kind}, length {length}"),
            )
        })?;
        let Some(payload) = rest.get(..length) else {
            return Ok(None);
        };
        let payload = payload.to_vec();
        self.start += 5 + length;
        Ok(Some((kind, payload)))
    }
}

/// The number in a four-byte payload.
pub(crate) fn number(payload: &[u8]) -> io::Result<i32> {
    let bytes = payload
        .try_into()
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a number of a wrong size"))?;
    Ok(i32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_whatever_the_pieces() {
        let mut bytes = Vec::new();
        put(&mut bytes, Kind::Stdout, b"one");
        put(&mut bytes, Kind::StdinEnd, b"");
        put(&mut bytes, Kind::Exit, &7_i32.to_le_bytes());
        for size in 1..bytes.len() {
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            for piece in bytes.chunks(size) {
                decoder.push(piece);
                while let Some(frame) = decoder.take().unwrap() {
                    seen.push(frame);
                }
            }
            assert_eq!(seen.len(), 3);
            assert_eq!(seen[0], (Kind::Stdout, b"one".to_vec()));
            assert_eq!(number(&seen[2].1).unwrap(), 7);
        }
    }

    #[test]
    fn a_broken_peer_is_an_error_not_a_wait() {
        let mut decoder = Decoder::default();
        decoder.push(&[99, 0, 0, 0, 0]);
        assert!(decoder.take().is_err());
        let mut decoder = Decoder::default();
        decoder.push(&[16, 255, 255, 255, 255]);
        assert!(decoder.take().is_err());
    }
}
