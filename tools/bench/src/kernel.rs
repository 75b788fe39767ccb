//! The C programs that measure.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::pace::Trial;

/// What a program prints about one run: one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Rounds that counted.
    pub rounds: u64,
    /// Batches that they were timed in.
    pub batches: u64,
    /// Median over the batches, in nanoseconds a round.
    pub median_ns: f64,
    /// The fastest batch.
    pub min_ns: f64,
    /// The batch that 99 in 100 are not slower than.
    pub p99_ns: f64,
    /// Mean over the batches.
    pub mean_ns: f64,
    /// Datagrams that had to be sent again.
    pub lost: u64,
    /// What one reading of the clock costs there, in nanoseconds; it is taken off each batch
    /// already.
    pub clock_ns: f64,
}

impl Reading {
    /// What it says of the time that a round takes.
    pub(crate) fn trial(&self) -> Trial {
        Trial { median_ns: self.median_ns, mean_ns: self.mean_ns }
    }

    /// Reads the line.
    pub(crate) fn of(command: &str, output: &str) -> Result<Self> {
        line_of(command, output)
    }
}

/// Reads the one line that a program has printed.
pub(crate) fn line_of<T: serde::de::DeserializeOwned>(command: &str, output: &str) -> Result<T> {
    let line = output.trim();
    serde_json::from_str(line).map_err(|source| Error::Reading {
        command: command.to_owned(),
        line: line.to_owned(),
        source,
    })
}

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Kernels {
    places: Vec<PathBuf>,
}

impl Kernels {
    /// In that directory only; or, without one, where a build and an installation leave them: as
    /// seen from the `vshmem` command, which is `command`.
    #[must_use]
    pub fn of(directory: Option<PathBuf>, command: &Path) -> Self {
        let beside = command.parent().unwrap_or(Path::new("."));
        let places = match directory {
            Some(directory) => vec![directory],
            None => ["../../build/bench", "../lib/vshmem/bench", "."]
                .map(|below| beside.join(below))
                .to_vec(),
        };
        Self { places }
    }

    /// Finds a program.
    ///
    /// # Errors
    /// Says where it was looked for.
    pub fn find(&self, name: &str) -> Result<PathBuf> {
        let candidates = self.places.iter().map(|place| place.join(name));
        candidates
            .into_iter()
            .find_map(|place| place.canonicalize().ok())
            .ok_or_else(|| Error::NoKernel { name: name.to_owned(), places: self.places.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let line = "{\"transport\":\"shm\",\"size\":8,\"rounds\":100,\"median_ns\":480.5,\"min_ns\":478.1,\
                    \"p99_ns\":583.0,\"mean_ns\":490.6,\"lost\":0,\"batches\":50,\"clock_ns\":41}\n";
        let reading = Reading::of("x", line).unwrap();
        assert_eq!((reading.rounds, reading.median_ns, reading.batches), (100, 480.5, 50));
    }

    #[test]
    fn anything_else_is_an_error() {
        for text in ["", "hello", "{\"median_ns\":1}", "{}\n{}"] {
            assert!(matches!(Reading::of("x", text), Err(Error::Reading { .. })), "{text}");
        }
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Kernels::of(Some("/nonexistent".into()), Path::new("/bin/vshmem"));
        let error = error.find("pingpong_sysv").unwrap_err().to_string();
        assert!(error.contains("pingpong_sysv") && error.contains("/nonexistent"), "{error}");
    }
}
