//! A place for the two roles of a program, and what is run there.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::error::Result;

/// One of the two roles of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that measures.
    First,
    /// The one that answers.
    Second,
}

/// A program to run on one side.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its file on this machine.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Set in its environment.
    pub environment: Vec<(String, String)>,
    /// Under `vshmem run`, on the site's pool; else on what the kernel gives.
    pub on_pool: bool,
}

/// A place for two roles, with a pool between them.
pub trait Site: Sync {
    /// What the two sides are called in a table: `guests`, `containers`, `processes`.
    fn noun(&self) -> &'static str;
    /// One line about it.
    fn describe(&self) -> String;
    /// The two CPUs of this machine that the sides run on.
    fn cpus(&self) -> [usize; 2];
    /// The CPU that a program of that side has to pin itself to; none where it has no choice.
    fn pin(&self, side: Side) -> Option<usize> {
        Some(self.cpus()[side as usize])
    }
    /// The second side's address, as the first reaches it.
    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::LOCALHOST
    }
    /// Who emulates the sides, instruction by instruction, if anybody does: then their speed says
    /// nothing.
    fn emulated(&self) -> Option<String> {
        None
    }
    /// Runs a program to its end; its standard output.
    ///
    /// # Errors
    /// When it cannot be started, or fails: then with what it wrote.
    fn run(&self, side: Side, job: &Job) -> Result<String>;
}

/// Runs both roles at once, each by `run`; the first one's output. If both fail, the second usually
/// failed for want of the first.
pub(crate) fn play(
    run: &(dyn Fn(Side, &Job) -> Result<String> + Sync),
    first: &Job,
    second: &Job,
) -> Result<String> {
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| run(Side::Second, second));
        let measured = run(Side::First, first);
        let answered = answering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (measured, answered) {
            (Ok(output), Ok(_)) => Ok(output),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    })
}

/// A kind of place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// Two guests of a lab.
    Guests,
    /// Two containers without privileges: two PID namespaces of this kernel, on one local pool.
    Containers,
    /// Two processes of this domain, on one local pool.
    Processes,
}

/// Memory of a guest that is booted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// In MiB. Its tmpfs file systems live in it too.
    pub mebibytes: u32,
    /// A disk of its own to swap to, in MiB; 0: none.
    pub swap_mebibytes: u32,
}

impl Default for Memory {
    fn default() -> Self {
        Self { mebibytes: 256, swap_mebibytes: 0 }
    }
}

/// What a site is made from.
#[derive(Debug, Clone)]
pub struct Materials<'a> {
    /// The `vshmem` command.
    pub command: &'a Path,
    /// The programs that will be run there.
    pub programs: &'a [PathBuf],
    /// A lab that is up, with a pool, to be used instead of a new one.
    pub lab: Option<&'a str>,
    /// Bytes of the pool that is made, where one is made.
    pub pool_bytes: u64,
    /// Guests that are booted; two or more for two sides.
    pub guests: u32,
    /// What each of them has.
    pub memory: Memory,
    /// May a guest run commands in the others, as `mpirun` has to?
    pub peers: bool,
    /// Files that guests find beside their `vshmem`, such as the components of Open MPI.
    pub stage: &'a [PathBuf],
}
