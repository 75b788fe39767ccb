//! A guest's console: kept in a file of bounded size, and watched for the word that the guest is
//! up.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, PipeReader, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::mpsc::Sender;

use crate::error::{Doing, Result};
use crate::model::boot::READY;

/// The file starts again when it has grown to this.
const LARGEST: u64 = 4 << 20;

/// A line longer than this is cut.
const LONGEST_LINE: u64 = 4096;

/// What the console says about the guest.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Word {
    Ready,
    /// All of the guest's processes have let go of it.
    Closed,
}

/// Copies the console to its file until it closes.
pub(super) fn keep(console: PipeReader, path: PathBuf, words: Sender<Word>) -> Result<()> {
    let mut file: File = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .doing(|| format!("open {path:?}"))?;
    std::thread::spawn(move || {
        let mut console = BufReader::new(console);
        let mut line = Vec::new();
        let mut size = 0;
        loop {
            line.clear();
            match console.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(read) => size += read as u64,
            }
            if size > LARGEST {
                size = line.len() as u64;
                let _ = file.set_len(0).and_then(|()| file.rewind());
            }
            // A full disk must not stop the guest.
            let _ = file.write_all(&line);
            if line.trim_ascii_end() == READY.as_bytes() {
                let _ = words.send(Word::Ready);
            }
        }
        let _ = words.send(Word::Closed);
    });
    Ok(())
}
