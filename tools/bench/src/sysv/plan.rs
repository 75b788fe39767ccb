//! What is measured, where, and what one run finds.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::comparison::{Comparison, Figure};
use crate::kernel::Reading;
use crate::pingpong::{NET_KERNEL, SYSV_KERNEL};
use crate::site::Site;

/// The program that makes the calls.
pub const CALLS_KERNEL: &str = "sysv_calls";
/// All programs that take part in one kernel.
pub const PROGRAMS: [&str; 2] = [CALLS_KERNEL, SYSV_KERNEL];
/// All programs that take part in guests.
pub const GUEST_PROGRAMS: [&str; 2] = [SYSV_KERNEL, NET_KERNEL];

/// What a pool needs for everything in the catalogue.
pub const POOL_BYTES: u64 = 256 << 20;
/// What the prepared pool keeps zeroed of as many bytes.
pub const PREPARED_BYTES: u64 = 64 << 20;
/// Limits of such a pool, beside the defaults for its size.
pub const POOL_LIMITS: [(&str, u64); 6] = [
    ("shmmni", 10_100),
    ("semmni", 10_100),
    ("msgmni", 10_100),
    ("clients", 1200),
    ("threads", 1200),
    ("attaches", 4000),
];

/// How much is measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What.
    pub comparisons: Vec<Comparison>,
    /// Turns of each contender.
    pub pairs: usize,
    /// Turns of each contender that takes long.
    pub sustained_pairs: usize,
    /// Rounds that count of each run; as many as fill the batches if none.
    pub rounds: Option<u64>,
    /// Batches of a run; its figure is their median.
    pub batches: u64,
    /// How long a batch should last, in nanoseconds.
    pub batch_ns: f64,
    /// Length of runs that are measured by time.
    pub milliseconds: u64,
    /// Length of those that show what can be kept up.
    pub sustained_milliseconds: u64,
    /// Of the order of turns, and of the intervals.
    pub seed: u64,
}

/// A pool that is measured.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its file.
    pub file: &'a Path,
}

/// What is measured.
#[derive(Clone)]
pub struct RunCase<'a> {
    /// The `vshmem` command.
    pub command: &'a Path,
    /// The pool.
    pub pool: Subject<'a>,
    /// The prepared one, if the plan needs one.
    pub prepared: Option<Subject<'a>>,
    /// Two guests, if the plan needs them.
    pub guests: Option<&'a dyn Site>,
}

/// What one run has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Times.
    #[serde(flatten)]
    pub reading: Reading,
    /// CPU time of the program and its children, in nanoseconds a round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<f64>,
    /// CPU time of other processes that have the pool mapped, in nanoseconds a round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpu_ns: Option<f64>,
    /// What the process that did least has done, of what each would have done if all had done the
    /// same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_share: Option<f64>,
}

impl Sample {
    /// A figure of it, in nanoseconds a round.
    #[must_use]
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        match figure {
            Figure::Wall => Some(self.reading.median_ns),
            Figure::Cpu => Some(self.cpu_ns? + self.others_cpu_ns.unwrap_or(0.0)),
        }
    }
}
