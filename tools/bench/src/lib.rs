//! Measurements of vshmem beside its rivals.
//!
//! Figures of one machine wander by more than the differences that matter, so nothing is compared
//! across runs: the contenders take turns within one run, what is reported is the median over those
//! pairs with its spread, and ratios that are made within pairs; every run is shown or written to a
//! file.
//!
//! | module | what it holds |
//! |---|---|
//! | `turns` | whose turn it is |
//! | `pace` | how many rounds a run has |
//! | `statistics` | medians and spread; ratios pair by pair |
//! | `bootstrap` | how far a ratio of medians could have come out otherwise |
//! | `kernel` | the C programs that measure: where they are, what they print |
//! | `site` | where the two roles of a program run: guests of a lab, containers, plain processes |
//! | `machine` | the facts of the machine that belong with the figures |
//! | `report` | rows for a table, and lines of JSON |
//! | `pingpong` | round trips between two domains |
//! | `guard` | two builds of vshmem, and what one does slower |
//! | `sysv` | System V calls, on the kernel and on a pool |
//! | `study` | everything at once: a directory with a journal that can be continued with, and its
//! report |
#![forbid(unsafe_code)]

mod bootstrap;
mod error;
pub mod guard;
mod kernel;
mod machine;
mod pace;
pub mod pingpong;
mod pool;
pub mod report;
mod site;
mod statistics;
pub mod study;
pub mod sysv;
mod turns;

pub use bootstrap::{Interval, interval, quotient};
pub use error::{Error, Result};
pub use kernel::{Kernels, Reading};
pub use machine::Machine;
pub use pool::OwnPool;
pub use site::{Between, Job, Materials, Memory, Side, Site, open as open_site};
pub use statistics::{Spread, ratios};
pub use turns::{Order, take_turns};

/// How a benchmark is asked to stop, and says how far it is.
pub trait Watch: Sync {
    /// True when the user wants to stop.
    fn stopped(&self) -> bool;
    /// One line for the user.
    fn tell(&self, line: &str);
    /// So many of so many runs are done, this is what remains as far as is known, and `now` is
    /// at work.
    fn advance(&self, done: usize, of: usize, left: Option<std::time::Duration>, now: &str) {
        let left = left.map_or(String::new(), |left| format!(", {} s left", left.as_secs()));
        self.tell(&format!("{done} of {of}{left}: {now}"));
    }
}
