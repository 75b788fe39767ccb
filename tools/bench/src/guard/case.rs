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
    /// Rounds of some ten milliseconds.
    rounds: u64,
}

const CALLS: &str = "sysv_calls";
const TRIPS: &str = "pingpong_sysv";

/// All of them.
pub const CASES: [Case; 8] = [
    case("semop", CALLS, &["semop"], 200_000),
    case("semop-undo", CALLS, &["semop-undo"], 100_000),
    case("msg-8", CALLS, &["--size", "8", "message"], 100_000),
    case("msg-1k", CALLS, &["--size", "1024", "message"], 50_000),
    case("shm-4k", CALLS, &["--size", "4096", "segment"], 1_000),
    case("shm-attach", CALLS, &["--size", "4096", "segment-attach"], 4_000),
    case("sem-trip", TRIPS, &["--transport", "sem"], 10_000),
    case("msg-trip", TRIPS, &["--transport", "msg", "--size", "8"], 10_000),
];

const fn case(
    name: &'static str,
    program: &'static str,
    words: &'static [&'static str],
    rounds: u64,
) -> Case {
    Case { name, program, words, rounds }
}

impl Case {
    pub(super) fn job(
        &self,
        kernels: &Kernels,
        meeting_place: &Path,
        cpus: [usize; 2],
    ) -> Result<Job> {
        let mut arguments: Vec<String> = Vec::new();
        let mut option = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        option("rounds", self.rounds.to_string());
        option("warmup", (self.rounds / 10).to_string());
        option("batches", "40".into());
        option("timeout", "20".into());
        option("cpu", cpus[0].to_string());
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
