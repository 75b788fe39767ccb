//! The places of a study, opened when the first case needs them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::cell::Cell;
use crate::error::{Error, Result};
use crate::kernel::Kernels;
use crate::machine::Machine;
use crate::site::{Guests, Job, Materials, Memory, Processes, Site, run_bare, two_cpus};
use crate::study::case::{Case, Model};
use crate::study::environment::Environment;
use crate::study::placement::Placement;

/// Bytes of the pools that are made.
const POOL_BYTES: u64 = 256 << 20;
/// Seconds after which a program that is no ping-pong is stopped.
pub(super) const TIMEOUT: u32 = 300;
/// Guests that are compared: those of the lab that is booted, or the first of one that is named.
pub const GUESTS: u32 = 2;

/// What the places are made from.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The `vshmem` command.
    pub command: PathBuf,
    /// The C programs.
    pub kernels: Kernels,
    /// A lab that is up, with a pool, to be used instead of a new one.
    pub lab: Option<String>,
    /// Where the NAS benchmarks are, built.
    pub nas: Option<PathBuf>,
    /// A directory on a disk that may be written.
    pub scratch: PathBuf,
    /// Files that guests find beside their `vshmem`: the components of Open MPI.
    pub stage: Vec<PathBuf>,
    /// Where programs and guests run by a plan, for as many guests as [`GUESTS`].
    pub placement: Option<Placement>,
}

/// The places of a study.
pub struct Places {
    pub(super) setup: Setup,
    /// A file from which keys are made: no other program on this kernel has it.
    pub(super) meeting_place: tempfile::NamedTempFile,
    pub(super) processes: Option<Processes>,
    pub(super) guests: Option<GuestLab>,
    pub(super) emulated_host: Option<String>,
    pub(super) cell: Option<Cell>,
    /// For names that are used once.
    pub(super) count: u32,
}

/// The guests, or why there are none.
pub(super) enum GuestLab {
    Open(Box<Guests>, HashSet<(u32, PathBuf)>, Option<String>),
    Closed(String),
}

impl Places {
    /// No guest is booted yet.
    ///
    /// # Errors
    /// When no temporary file can be made.
    pub fn new(setup: Setup) -> Result<Self> {
        let meeting_place =
            tempfile::NamedTempFile::new().map_err(Error::io("make a file for ftok"))?;
        let emulated_host = Machine::here().emulated;
        Ok(Self {
            setup,
            meeting_place,
            processes: None,
            guests: None,
            emulated_host,
            cell: None,
            count: 0,
        })
    }

    pub(super) fn cpus(&self) -> [usize; 2] {
        match (&self.setup.placement, &self.guests) {
            (Some(placement), _) => [0, 1].map(|number| placement.cpu_of(number) as usize),
            (None, Some(GuestLab::Open(guests, ..))) => guests.cpus(),
            _ => two_cpus(),
        }
    }

    /// The CPUs of so many ranks of one kernel.
    pub(super) fn cpus_of_ranks(&self, ranks: u32) -> Vec<usize> {
        match &self.setup.placement {
            Some(placement) => (0..ranks).map(|rank| placement.cpu_of(rank) as usize).collect(),
            None => (0..ranks as usize).map(|rank| self.cpus()[rank % 2]).collect(),
        }
    }

    pub(super) fn materials(&self) -> Materials<'_> {
        Materials {
            command: &self.setup.command,
            programs: &[],
            lab: self.setup.lab.as_deref(),
            pool_bytes: POOL_BYTES,
            guests: GUESTS,
            memory: Memory::default(),
            peers: true,
            stage: &self.setup.stage,
        }
    }

    /// The domain of plain processes, with its pool.
    pub(super) fn processes(&mut self) -> Result<&Processes> {
        if self.processes.is_none() {
            self.processes = Some(Processes::open(&self.materials())?);
        }
        self.processes.as_ref().ok_or(Error::Stopped)
    }

    /// A lab of its own, which goes with what is returned.
    pub(super) fn boot(&self, guests: u32, memory: Memory) -> Result<Guests> {
        Guests::open(&Materials {
            command: &self.setup.command,
            programs: &[],
            lab: None,
            pool_bytes: POOL_BYTES,
            guests,
            memory,
            peers: false,
            stage: &[],
        })
    }

    /// The guests, with that program in the first `count` of them.
    pub(super) fn guests(&mut self, count: u32, program: Option<&Path>) -> Result<&Guests> {
        if self.guests.is_none() {
            self.guests = Some(match Guests::open(&self.materials()) {
                Ok(guests) => {
                    let emulated = guests.emulated();
                    GuestLab::Open(Box::new(guests), HashSet::new(), emulated)
                }
                // Every case would wait for the same.
                Err(error) => GuestLab::Closed(error.to_string()),
            });
        }
        match self.guests.as_mut() {
            Some(GuestLab::Open(guests, delivered, _)) => {
                for guest in 1..=count {
                    let Some(program) = program else { break };
                    if delivered.insert((guest, program.to_owned())) {
                        guests.deliver(guest, program)?;
                    }
                }
                Ok(guests)
            }
            Some(GuestLab::Closed(why)) => Err(Error::NoSite {
                place: "guests",
                why: why.trim_start_matches("no guests here: ").to_owned(),
            }),
            None => Err(Error::Stopped),
        }
    }

    pub(super) fn emulated(&self, environment: Environment) -> Option<String> {
        let guests = match &self.guests {
            Some(GuestLab::Open(_, _, emulated)) if environment != Environment::Native => {
                emulated.clone()
            }
            _ => None,
        };
        guests.or_else(|| self.emulated_host.clone())
    }

    /// One process, in the place of a case: the first guest, or here.
    pub(super) fn run_one(&mut self, case: &Case, job: &Job) -> Result<String> {
        match case.environment {
            Environment::Native if job.on_pool => self.processes()?.run(crate::Side::First, job),
            Environment::Native => run_bare(job),
            _ => self.guests(1, Some(&job.program))?.run_in(1, job),
        }
    }

    /// A name that was not used before.
    pub(super) fn fresh(&mut self) -> u32 {
        self.count += 1;
        self.count
    }
}

/// A job that is stopped when it takes too long; `on_pool` by the case's model.
pub(super) fn patient(case: &Case, program: PathBuf, arguments: Vec<String>) -> Job {
    let on_pool = case.model == Model::Vshmem;
    let timeout = ["--timeout".to_owned(), TIMEOUT.to_string()];
    Job {
        program,
        arguments: [&timeout[..], &arguments].concat(),
        environment: Vec::new(),
        on_pool,
    }
}
