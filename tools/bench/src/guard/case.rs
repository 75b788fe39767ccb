//! What two builds are compared by: short runs of the calls that are on hot paths.

use std::path::Path;

use crate::error::Result;
use crate::kernel::Kernels;
use crate::site::Job;

/// A program's run.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What `--only` calls it.
    pub name: &'static str,
    /// One of the C programs.
    program: &'static str,
    words: &'static [&'static str],
    length: Length,
}

/// How long a run is.
#[derive(Debug, Clone, Copy)]
enum Length {
    /// Rounds of some ten milliseconds, on one CPU or two.
    Rounds(u64),
    /// Many processes on all CPUs, for so long.
    Milliseconds(u64),
}
use Length::{Milliseconds, Rounds};

const CALLS: &str = "sysv_calls";
const TRIPS: &str = "pingpong_sysv";

/// All of them.
pub const CASES: [Case; 10] = [
    case("semop", CALLS, &["semop"], Rounds(200_000)),
    case("semop-undo", CALLS, &["semop-undo"], Rounds(100_000)),
    case("msg-8", CALLS, &["--size", "8", "message"], Rounds(100_000)),
    case("msg-1k", CALLS, &["--size", "1024", "message"], Rounds(50_000)),
    case("shm-4k", CALLS, &["--size", "4096", "segment"], Rounds(1_000)),
    case("shm-attach", CALLS, &["--size", "4096", "segment-attach"], Rounds(4_000)),
    case("sem-trip", TRIPS, &["--transport", "sem"], Rounds(10_000)),
    case("msg-trip", TRIPS, &["--transport", "msg", "--size", "8"], Rounds(10_000)),
    case("contend-msg-64", CALLS, &["--processes", "64", "contend-queue"], Milliseconds(300)),
    case("requests-16", CALLS, &["--processes", "17", "requests"], Milliseconds(300)),
];

const fn case(
    name: &'static str,
    program: &'static str,
    words: &'static [&'static str],
    length: Length,
) -> Case {
    Case { name, program, words, length }
}

impl Case {
    /// Whether many processes run: their ends disturb what is measured next.
    pub(super) fn is_crowded(&self) -> bool {
        matches!(self.length, Milliseconds(_))
    }

    pub(super) fn job(
        &self,
        kernels: &Kernels,
        meeting_place: &Path,
        cpus: [usize; 2],
    ) -> Result<Job> {
        let mut arguments: Vec<String> = Vec::new();
        let mut option = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        option("timeout", "20".into());
        match self.length {
            Rounds(rounds) => {
                option("rounds", rounds.to_string());
                option("warmup", (rounds / 10).to_string());
                option("batches", "40".into());
                option("cpu", cpus[0].to_string());
            }
            Milliseconds(milliseconds) => option("milliseconds", milliseconds.to_string()),
        }
        if self.program == TRIPS {
            option("peer-cpu", cpus[1].to_string());
            option("path", meeting_place.display().to_string());
            arguments.push("--both".into());
        }
        arguments.extend(self.words.iter().map(|&word| word.to_owned()));
        Ok(Job {
            program: kernels.find(self.program)?,
            arguments,
            environment: Vec::new(),
            on_pool: true,
        })
    }
}
